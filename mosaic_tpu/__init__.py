"""The TPU: kernels lowered to the Mosaic dialect, compiled by libtpu on a machine that need not have a TPU."""

from typing import Any

if __name__ != "tilewright.mosaic_tpu":
    raise ImportError("import tilewright.mosaic_tpu, not mosaic_tpu: the repository root is on sys.path")

from .module import MosaicModule

__all__ = ["MosaicModule", "compile", "emit", "mosaic_module"]


def __getattr__(name: str) -> Any:
    # What needs jaxlib's dialects or libtpu is imported when it is used, and kept: a module of one name, once
    # imported, would stand in the function's place.
    if name == "emit":
        from .call import emit as found
    elif name == "mosaic_module":
        from .lower import mosaic_module as found
    elif name == "compile":
        from .program import compile as found
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found
