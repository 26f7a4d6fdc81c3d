"""Small libraries that show how models are written: `optimizers` and `stax`, under the names that JAX has them by."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.support.lazy_imports import later as _later

if TYPE_CHECKING:
    from . import optimizers, stax

_MODULES = ("optimizers", "stax")

if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, {name: f".{name}" for name in _MODULES})

__all__ = ["optimizers", "stax"]
__dir__: Callable[[], list[str]] = __all__.copy
