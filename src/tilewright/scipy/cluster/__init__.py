"""`jax.scipy.cluster`'s names."""

from . import vq

__all__ = ["vq"]
__dir__ = __all__.copy
