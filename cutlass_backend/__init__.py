"""Products of matrices by CUTLASS: its headers, compiled by NVRTC, with the epilogue that a kernel's body says."""

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

if __name__ != "tilewright.cutlass_backend":
    raise ImportError("import tilewright.cutlass_backend, not cutlass_backend: the repository root is on sys.path")

if TYPE_CHECKING:
    from .compiler import check_installed, set_cache
    from .custom_call import compile, compiled_kernel, emit, start
    from .epilogue import BACKEND
    from .module import cutlass_module

# What is imported when it is first used: name -> module.
_LATER = {name: ".custom_call" for name in ("compile", "compiled_kernel", "emit", "start")}
_LATER |= {"check_installed": ".compiler", "set_cache": ".compiler", "cutlass_module": ".module"}
_LATER["BACKEND"] = ".epilogue"

__all__ = ["BACKEND", "check_installed", "compile", "compiled_kernel", "cutlass_module", "emit", "set_cache", "start"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import(_LATER[name], __name__), name)
