"""Kernels as Triton programs, for NVIDIA and AMD GPUs."""

if __name__ != "tilewright.triton_backend":
    raise ImportError("import tilewright.triton_backend, not triton_backend: the repository root is on sys.path")

from typing import Any

_CALLS = ("compile", "emit", "start")
__all__ = ["compile", "emit", "start", "triton_module"]  # noqa: F822, by __getattr__


def __getattr__(name: str) -> Any:
    if name in _CALLS:
        from . import custom_call

        return getattr(custom_call, name)
    if name == "triton_module":
        from .module import triton_module

        return triton_module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
