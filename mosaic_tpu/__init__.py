"""The TPU: kernels lowered to the Mosaic dialect, compiled by libtpu on a machine that need not have a TPU."""

from typing import Any

if __name__ != "tilewright.mosaic_tpu":
    raise ImportError("import tilewright.mosaic_tpu, not mosaic_tpu: the repository root is on sys.path")

from .module import MosaicModule

__all__ = ["MosaicModule", "compile", "emit", "mosaic_module"]


def __getattr__(name: str) -> Any:
    # What needs jaxlib's dialects or libtpu is imported when it is used.
    if name == "emit":
        from .emit import emit

        return emit
    if name == "mosaic_module":
        from .lower import mosaic_module

        return mosaic_module
    if name == "compile":
        from .program import compile

        return compile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
