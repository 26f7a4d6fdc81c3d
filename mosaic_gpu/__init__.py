"""Kernels of products as warp-specialised programs for Hopper and Blackwell GPUs, by jaxlib's Mosaic GPU pipeline."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if __name__ != "tilewright.mosaic_gpu":
    raise ImportError("import tilewright.mosaic_gpu, not mosaic_gpu: the repository root is on sys.path")

from ..core.support.lazy_imports import later as _later
from ..core.support.lazy_imports import members as _members

if TYPE_CHECKING:
    from .compiler import set_cache
    from .cost_model import estimate
    from .custom_call import compile, compiled_kernel, emit, start
    from .language import BACKEND
    from .module import mosaic_gpu_module

_LATER = {
    "compiler": "set_cache",
    "custom_call": "compile compiled_kernel emit start",
    "language": "BACKEND",
    "module": "mosaic_gpu_module",
    "cost_model": "estimate",
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _members(_LATER))

__all__ = ["BACKEND", "compile", "compiled_kernel", "emit", "estimate", "mosaic_gpu_module", "set_cache", "start"]
__dir__: Callable[[], list[str]] = __all__.copy
