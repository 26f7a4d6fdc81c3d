"""`jax.custom_batching`'s names."""

from .core.api.custom_vmap import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
__dir__ = __all__.copy
