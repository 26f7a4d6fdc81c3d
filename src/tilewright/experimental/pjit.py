"""`jit` under its name of before it took shardings."""

from collections.abc import Callable

from ..core.jit.jit import jit as pjit

__all__ = ["pjit"]
__dir__: Callable[[], list[str]] = __all__.copy
