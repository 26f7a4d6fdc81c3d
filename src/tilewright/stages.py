"""The stages of `jit` ahead of time, under the names of `jax.stages`."""

from collections.abc import Callable

from .core.jit.stages import ArgInfo, Compiled, CompilerOptions, Lowered, Traced, Wrapped

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
__dir__: Callable[[], list[str]] = __all__.copy
