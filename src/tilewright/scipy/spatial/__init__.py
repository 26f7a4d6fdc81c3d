"""`jax.scipy.spatial`'s names."""

from . import transform

__all__ = ["transform"]
__dir__ = __all__.copy
