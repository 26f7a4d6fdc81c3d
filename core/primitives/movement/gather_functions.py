"""`gather`, and functions that read an array at computed indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike, Operand
from ...ir.types import ArrayType, is_key
from ...support.call_errors import public
from ...support.errors import ArgumentError, ConcretizationError
from ...tracing.trace import Tracer, dtype_of, shape_of
from ...transforms.rule_helpers import zeros
from ..elementwise.arithmetic import add_p, rem_p
from ..elementwise.comparison import lt_p, select_n_p
from .gather_dimension_numbers import CLIP, PROMISE, GatherDimensionNumbers, GatherScatterMode
from .gather_scatter import gather_p
from .shape import as_axes, concatenate, expand_dims, integers


def scalar_fill(fill_value: ArrayLike | None, dtype: DTypeLike) -> Any:
    """A fill value as a hashable Python scalar (None for the dtype's default).

    Raises `ConcretizationError` for a traced one, also where its value is known: its derivative would be lost.
    """
    if fill_value is None or is_key(dtype):
        return None
    if isinstance(fill_value, Tracer):
        raise ConcretizationError(f"gather: fill_value is {fill_value.describe()}",
                                  "pass a number, or replace the elements with `numpy.where`")  # fmt: skip
    if np.ndim(fill_value):
        raise ArgumentError(f"gather: fill_value must be a scalar, got shape {np.shape(fill_value)}")
    value = np.asarray(fill_value).astype(dtype).item()
    return math.nan if value != value and not isinstance(value, complex) else value


@public
def gather(
    operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
    *, unique_indices: bool = False, indices_are_sorted: bool = False, mode: GatherScatterMode | str | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Read the windows of `slice_sizes` that start at `start_indices`; `mode` says what happens out of bounds.

    Without indices the operand may be smaller than a window.

    >>> from tilewright import lax, numpy as jnp
    >>> numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> print(lax.gather(jnp.eye(3), jnp.array([[2], [0]]), numbers, slice_sizes=(1, 3)))
    [[0. 0. 1.]
     [1. 0. 0.]]
    """
    sizes, shape = integers(slice_sizes, "slice_sizes", "gather"), shape_of(operand)
    if 0 in shape_of(start_indices) and 0 in shape and len(sizes) == len(shape):  # there is nothing to read
        operand = zeros(ArrayType(tuple(map(max, shape, sizes)), dtype_of(operand)))
    return gather_p.bind(
        operand, start_indices,
        dimension_numbers=GatherDimensionNumbers(*(integers(d, "dimension", "gather") for d in dimension_numbers)),
        slice_sizes=sizes,
        indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode), fill_value=scalar_fill(fill_value, dtype_of(operand)),
    )  # fmt: skip


@public
def index_take(src: ArrayLike, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """The elements of `src` at the 1-d index arrays `idxs` along `axes`, batch axis first, indices taken modulo.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.index_take(jnp.array([10, 20, 30]), [jnp.array([2, -3])], (0,))
    Array([30, 10], dtype=int32)
    """
    shape = shape_of(src)
    axes = as_axes(axes, len(shape), "index_take")
    indices = concatenate([expand_dims(_modulo(i, shape[a]), (1,)) for i, a in zip(idxs, axes, strict=True)], 1)
    sizes = [1 if i in axes else n for i, n in enumerate(shape)]
    kept = len(shape) - len(axes)
    numbers = GatherDimensionNumbers(tuple(range(1, kept + 1)), tuple(sorted(axes)), axes)
    return gather(src, indices, numbers, sizes, mode=CLIP)


def _modulo(index: Operand, size: int) -> Any:
    n = np.asarray(size).astype(dtype_of(index))[()]
    rest = rem_p.bind(index, n)
    return select_n_p.bind(lt_p.bind(rest, np.zeros_like(n)[()]), rest, add_p.bind(rest, n))


def take_along(
    x: ArrayLike, indices: ArrayLike, axis: int, mode: GatherScatterMode | str = PROMISE, fill_value: Any = None,
    unique: bool = False,
) -> Any:  # fmt: skip
    """`x[..., indices[..., i, ...], ...]` along one axis; `indices` has the other sizes of `x`."""
    shape, d = shape_of(x), tuple(i for i in range(len(shape_of(x))) if i != axis)
    out_shape = shape_of(indices)
    if 0 in out_shape:
        return zeros(ArrayType(out_shape, dtype_of(x)))
    return gather(
        x, expand_dims(indices, (len(shape),)), GatherDimensionNumbers((), (axis,), (axis,), d, d), (1,) * len(shape),
        unique_indices=unique, mode=mode, fill_value=fill_value)  # fmt: skip


__all__ = ["gather", "index_take"]
