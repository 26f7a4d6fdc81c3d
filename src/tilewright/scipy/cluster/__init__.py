"""`jax.scipy.cluster`'s names."""

from collections.abc import Callable

from . import vq

__all__ = ["vq"]
__dir__: Callable[[], list[str]] = __all__.copy
