"""Kernels as Triton programs, for NVIDIA and AMD GPUs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if __name__ != "tilewright.triton_backend":
    raise ImportError("import tilewright.triton_backend, not triton_backend: the repository root is on sys.path")

from ..core.support.lazy_imports import later as _later
from ..core.support.lazy_imports import members as _members

if TYPE_CHECKING:
    from .compiler import set_cache
    from .custom_call import compile, compiled_kernel, emit, start
    from .lower import triton_module
    from .rules import BACKEND

_LATER = {
    "compiler": "set_cache",
    "custom_call": "compile compiled_kernel emit start",
    "lower": "triton_module",
    "rules": "BACKEND",
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _members(_LATER))

__all__ = ["BACKEND", "compile", "compiled_kernel", "emit", "set_cache", "start", "triton_module"]
__dir__: Callable[[], list[str]] = __all__.copy
