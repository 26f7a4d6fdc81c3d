"""`jax.scipy.spatial`'s names."""

from . import transform

__all__ = ["transform"]
