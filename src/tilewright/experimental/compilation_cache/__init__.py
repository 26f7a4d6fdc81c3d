"""Where compiled programs are kept, under the names of `jax.experimental.compilation_cache`."""

from . import compilation_cache

__all__ = ["compilation_cache"]
__dir__ = __all__.copy
