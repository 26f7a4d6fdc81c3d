"""The TPU: kernels lowered to the Mosaic dialect, compiled by libtpu on a machine that need not have a TPU."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if __name__ != "tilewright.mosaic_tpu":
    raise ImportError("import tilewright.mosaic_tpu, not mosaic_tpu: the repository root is on sys.path")

from ..core.support.lazy_imports import later as _later
from ..core.support.lazy_imports import members as _members
from .module import MosaicModule

if TYPE_CHECKING:
    from .compiler import compile
    from .custom_call import emit
    from .lower import mosaic_module
    from .rules import BACKEND

_LATER = {
    "custom_call": "emit",
    "lower": "mosaic_module",
    "compiler": "compile",
    "rules": "BACKEND",
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _members(_LATER))

__all__ = ["BACKEND", "MosaicModule", "compile", "emit", "mosaic_module"]
__dir__: Callable[[], list[str]] = __all__.copy
