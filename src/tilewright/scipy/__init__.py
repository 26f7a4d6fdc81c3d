"""`jax.scipy`'s names."""

from . import special, stats

__all__ = ["special", "stats"]
