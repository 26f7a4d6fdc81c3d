"""`jax.custom_batching`'s names."""

from collections.abc import Callable

from .core.api.custom_vmap import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
__dir__: Callable[[], list[str]] = __all__.copy
