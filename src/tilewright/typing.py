"""The types of arguments, for annotations and `isinstance`, under the names of `jax.typing`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .core.ir.array import DTypeLike

if TYPE_CHECKING:
    from .core.ir.array import ArrayLike
else:
    from .xla_backend.arrays.array import Array

    ArrayLike = Array | np.ndarray | np.bool | np.number | bool | int | float | complex

__all__ = ["ArrayLike", "DTypeLike"]
__dir__: Callable[[], list[str]] = __all__.copy
