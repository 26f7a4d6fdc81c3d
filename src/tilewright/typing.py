"""The types of arguments, for annotations and `isinstance`, under the names of `jax.typing`."""

from typing import Any

import numpy as np

from .xla_backend.arrays.array import Array

ArrayLike = Array | np.ndarray | np.bool | np.number | bool | int | float | complex
DTypeLike = str | type[Any] | np.dtype

__all__ = ["ArrayLike", "DTypeLike"]
__dir__ = __all__.copy
