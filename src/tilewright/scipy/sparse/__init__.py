"""`jax.scipy.sparse`'s names."""

from . import linalg

__all__ = ["linalg"]
__dir__ = __all__.copy
