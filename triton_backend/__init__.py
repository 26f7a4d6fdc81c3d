"""Kernels as Triton programs, for NVIDIA and AMD GPUs."""

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

if __name__ != "tilewright.triton_backend":
    raise ImportError("import tilewright.triton_backend, not triton_backend: the repository root is on sys.path")

if TYPE_CHECKING:
    from .compiler import set_cache
    from .custom_call import compile, compiled_kernel, emit, start
    from .lower import triton_module
    from .rules import BACKEND

# What is imported when it is first used: name -> module.
_LATER = {name: ".custom_call" for name in ("compile", "compiled_kernel", "emit", "start")}
_LATER |= {"BACKEND": ".rules", "set_cache": ".compiler", "triton_module": ".lower"}

__all__ = ["BACKEND", "compile", "compiled_kernel", "emit", "set_cache", "start", "triton_module"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import(_LATER[name], __name__), name)
