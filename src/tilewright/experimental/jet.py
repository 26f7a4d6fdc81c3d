"""`jax.experimental.jet`'s names: Taylor mode."""

from ..core.jet import jet

__all__ = ["jet"]
