"""`jax.scipy`'s names."""

from . import linalg, special, stats

__all__ = ["linalg", "special", "stats"]
