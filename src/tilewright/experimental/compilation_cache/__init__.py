"""Where compiled programs are kept, under the names of `jax.experimental.compilation_cache`."""

from collections.abc import Callable

from . import compilation_cache

__all__ = ["compilation_cache"]
__dir__: Callable[[], list[str]] = __all__.copy
