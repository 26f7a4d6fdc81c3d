"""`jax.custom_batching`'s names."""

from .core.custom_batching import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
