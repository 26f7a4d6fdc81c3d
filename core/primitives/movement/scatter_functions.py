"""The functions `scatter`, `scatter_add`, ...: writing windows into an array at computed indices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...ir.array import Array, ArrayLike, Operand
from ...ir.primitive import Primitive
from ...ir.types import ArrayType
from ...support.call_errors import public
from ...support.errors import UnsupportedError
from ...tracing.trace import dtype_of, trace_program
from ..elementwise.conversion import convert_element_type
from .gather_dimension_numbers import GatherScatterMode, ScatterDimensionNumbers
from .gather_scatter import (
    reads_of,
    scatter_add_p,
    scatter_apply_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from .shape import full, integers

# ---------------------------------------------------------------------------- functions


def _bind(
    primitive: Primitive, operand: Operand, indices: Operand, updates: Operand, numbers: Sequence[Any],
    indices_are_sorted: bool, unique_indices: bool, mode: GatherScatterMode | None, **more: Any,
) -> Any:  # fmt: skip
    return primitive.bind(
        operand, indices, updates,
        dimension_numbers=ScatterDimensionNumbers(*(integers(d, "dimension", primitive.name) for d in numbers)),
        indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode), **more)  # fmt: skip


class Scatter(Protocol):
    """A scatter: `operand` with `updates` combined into its windows at `scatter_indices`."""

    __name__: str

    def __call__(
        self, operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: Any = None,
    ) -> Array: ...  # fmt: skip


def _function(primitive: Primitive, doc: str) -> Scatter:
    def function(
        operand: Operand, scatter_indices: Operand, updates: Operand, dimension_numbers: ScatterDimensionNumbers, *,
        indices_are_sorted: bool = False, unique_indices: bool = False, mode: GatherScatterMode | None = None,
    ) -> Any:  # fmt: skip
        how = (dimension_numbers, indices_are_sorted, unique_indices, mode)
        return _bind(primitive, operand, scatter_indices, updates, *how)

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = doc
    return public(function)


scatter: Scatter = _function(
    scatter_p, "Write `updates` into the windows of `operand` at `scatter_indices`; of repeated ones one wins."
)
scatter_add: Scatter = _function(scatter_add_p, "Add `updates` to the windows of `operand` at `scatter_indices`.")
scatter_sub: Scatter
scatter_sub = _function(scatter_sub_p, "Subtract `updates` from the windows of `operand` at `scatter_indices`.")
scatter_mul: Scatter = _function(scatter_mul_p, "Multiply the windows of `operand` at `scatter_indices` by `updates`.")
scatter_min: Scatter = _function(scatter_min_p, "Lower the windows of `operand` at `scatter_indices` to `updates`.")
scatter_max: Scatter = _function(scatter_max_p, "Raise the windows of `operand` at `scatter_indices` to `updates`.")


def scatter_apply(
    operand: ArrayLike, scatter_indices: ArrayLike, func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers, *, update_shape: Sequence[int] = (), indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: GatherScatterMode | None = None,
) -> Array:  # fmt: skip
    """Apply a scalar function in place at the indices, once for each time a place is named.

    It has a derivative only with `unique_indices=True`.

    >>> from tilewright import lax, numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_apply(jnp.arange(4), jnp.array([[1], [3]]), lambda x: x * 10, numbers, update_shape=(2,))
    Array([ 0, 10,  2, 30], dtype=int32)
    """
    shape = tuple(operator.index(n) for n in update_shape)
    how = (dimension_numbers, indices_are_sorted, unique_indices, mode)
    if unique_indices:
        params = {"dimension_numbers": ScatterDimensionNumbers(*map(tuple, dimension_numbers)),
                  "indices_are_sorted": indices_are_sorted, "unique_indices": True,
                  "mode": GatherScatterMode.from_any(mode)}  # fmt: skip
        values = func(reads_of(operand, scatter_indices, shape, params, fill=None))
        return _bind(scatter_p, operand, scatter_indices, values, *how)
    scalar = ArrayType((), dtype_of(operand))
    program = trace_program(lambda v: [convert_element_type(func(v), scalar.dtype)], [scalar], "scatter_apply")
    if program.constants:
        raise UnsupportedError("scatter_apply: the function closes over arrays", "pass `unique_indices=True`")
    updates = full(shape, 0, scalar.dtype)
    return _bind(scatter_apply_p, operand, scatter_indices, updates, *how, update=program)


__all__ = ["scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub"]
