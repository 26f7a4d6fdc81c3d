"""Products of matrices by CUTLASS: its headers, compiled by NVRTC, with the epilogue that a kernel's body says."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if __name__ != "tilewright.cutlass_backend":
    raise ImportError("import tilewright.cutlass_backend, not cutlass_backend: the repository root is on sys.path")

from ..core.support.lazy_imports import later as _later
from ..core.support.lazy_imports import members as _members

if TYPE_CHECKING:
    from .compiler import check_installed, set_cache
    from .custom_call import compile, compiled_kernel, emit, start
    from .epilogue import BACKEND
    from .module import cutlass_module

_LATER = {
    "compiler": "check_installed set_cache",
    "custom_call": "compile compiled_kernel emit start",
    "epilogue": "BACKEND",
    "module": "cutlass_module",
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _members(_LATER))

__all__ = ["BACKEND", "check_installed", "compile", "compiled_kernel", "cutlass_module", "emit", "set_cache", "start"]
__dir__: Callable[[], list[str]] = __all__.copy
