"""From concrete Python and NumPy data to the array of the backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.array import ArrayLike, Operand
from ..ir.binding import with_out_sharding
from ..ir.dimension import dimension
from ..ir.typeof import placed_like
from ..ir.types import ArrayType
from ..support.runtime import runtime
from .trace import Tracer, Value, typeof


def make_array(array: np.ndarray, type: ArrayType | None = None) -> Any:
    """A runtime array of a NumPy array that nobody else holds."""
    return runtime.backend.array(array, ArrayType(array.shape, array.dtype) if type is None else type, True)


def copied(array: np.ndarray) -> Any:
    """A runtime array of the values that a NumPy array has now."""
    return runtime.backend.array(array, ArrayType(array.shape, array.dtype), False)


def on_devices_of(x: Operand, result: Operand) -> Any:
    """A result that was computed without `x`, on its devices: replicated, if there are several."""
    placed = placed_like(x)
    if placed is not None:
        return with_out_sharding(placed.with_spec(()), lambda: result)
    eager = all(isinstance(v, Value) and not isinstance(v, Tracer) for v in (x, result))
    return result.to_device(x.device) if eager and x.committed else result


def as_array(x: ArrayLike) -> Any:
    """An array or tracer as it is; a NumPy array or a number as the runtime's array, its weak type kept."""
    if isinstance(x, Value):
        return x
    if getattr(x, "symbolic", False):
        return dimension(x)
    if getattr(x, "__jax_array__", None) is not None:
        return as_array(x.__jax_array__())
    type: Any = typeof(x)
    array = np.asarray(x)
    if array.dtype != type.dtype:
        return runtime.backend.array(array.astype(type.dtype), type, True)
    # The caller may write to its own array later.
    return runtime.backend.array(array, type, not isinstance(x, np.ndarray))
