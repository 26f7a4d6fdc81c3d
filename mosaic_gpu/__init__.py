"""Kernels of products as warp-specialised programs for Hopper and Blackwell GPUs, by jaxlib's Mosaic GPU pipeline."""

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

if __name__ != "tilewright.mosaic_gpu":
    raise ImportError("import tilewright.mosaic_gpu, not mosaic_gpu: the repository root is on sys.path")

if TYPE_CHECKING:
    from .compiler import set_cache
    from .custom_call import compile, compiled_kernel, emit, start
    from .language import BACKEND
    from .module import mosaic_gpu_module
    from .timing import estimate

# What is imported when it is first used: name -> module.
_LATER = {name: ".custom_call" for name in ("compile", "compiled_kernel", "emit", "start")}
_LATER |= {"BACKEND": ".language", "set_cache": ".compiler", "estimate": ".timing", "mosaic_gpu_module": ".module"}

__all__ = ["BACKEND", "compile", "compiled_kernel", "emit", "estimate", "mosaic_gpu_module", "set_cache", "start"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import(_LATER[name], __name__), name)
