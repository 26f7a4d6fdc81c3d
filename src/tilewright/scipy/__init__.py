"""`jax.scipy`'s names."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.support.lazy_imports import later as _later

if TYPE_CHECKING:
    from . import (
        cluster,
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        spatial,
        special,
        stats,
    )

_MODULES = (
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse",
    "spatial", "special", "stats",
)  # fmt: skip

if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, {name: f".{name}" for name in _MODULES})

__all__ = [
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial",
    "special", "stats",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
