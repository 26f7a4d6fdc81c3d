"""`jit` under its name of before it took shardings."""

from ..core.jit.jit import jit as pjit

__all__ = ["pjit"]
__dir__ = __all__.copy
