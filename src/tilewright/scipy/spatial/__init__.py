"""`jax.scipy.spatial`'s names."""

from collections.abc import Callable

from . import transform

__all__ = ["transform"]
__dir__: Callable[[], list[str]] = __all__.copy
