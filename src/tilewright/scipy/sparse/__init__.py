"""`jax.scipy.sparse`'s names."""

from . import linalg

__all__ = ["linalg"]
