"""`jax.scipy.sparse`'s names."""

from collections.abc import Callable

from . import linalg

__all__ = ["linalg"]
__dir__: Callable[[], list[str]] = __all__.copy
