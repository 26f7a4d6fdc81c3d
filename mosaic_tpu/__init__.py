"""The TPU: kernels lowered to the Mosaic dialect, compiled by libtpu on a machine that need not have a TPU."""

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

if __name__ != "tilewright.mosaic_tpu":
    raise ImportError("import tilewright.mosaic_tpu, not mosaic_tpu: the repository root is on sys.path")

from .module import MosaicModule

if TYPE_CHECKING:
    from .call import emit
    from .lower import mosaic_module
    from .program import compile
    from .rules import BACKEND

# What needs jaxlib's dialects or libtpu is imported when it is first used: name -> module.
_LATER = {"BACKEND": ".rules", "compile": ".program", "emit": ".call", "mosaic_module": ".lower"}

__all__ = ["BACKEND", "MosaicModule", "compile", "emit", "mosaic_module"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import(_LATER[name], __name__), name)
