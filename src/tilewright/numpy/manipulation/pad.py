"""Elements added around arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import lax
from ...core.ir.types import as_size
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ShapeError
from .. import reductions
from ..elementwise import floor, rint
from ..functional import apply_along_axis
from ..index import take
from ..shape import broadcast_to
from ..statistics import quantiles
from ..util import (
    Array,
    ArrayLike,
    Value,
    astype,
    axis_of,
    concrete,
    dtype_of,
    inline_jit,
    is_inexact,
    is_integer,
    shape_of,
    to_inexact,
    typeof,
    value,
    values,
)

_STATISTICS = ("maximum", "mean", "median", "minimum")


_OPTIONS = {
    "constant": {"constant_values": 0}, "linear_ramp": {"end_values": 0}, "reflect": {"reflect_type": "even"},
    "symmetric": {"reflect_type": "even"}, "edge": {}, "wrap": {}, "empty": {},
    **{name: {"stat_length": None} for name in _STATISTICS},
}  # fmt: skip


@public
def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Add elements around an array.

    Modes: `constant` (`constant_values`), `edge`, `linear_ramp` (`end_values`), `maximum`, `mean`, `median`,
    `minimum` (`stat_length`), `reflect`, `symmetric` (`reflect_type`), `wrap`, `empty`, or a function as in NumPy.

    >>> from tilewright import numpy as jnp
    >>> jnp.pad(jnp.array([1, 2]), 1)
    Array([0, 1, 2, 0], dtype=int32)
    """
    array = value(array, "pad")
    padded = _padded(array, pad_width, mode, kwargs)
    return lax.convert_element_type(padded, dtype_of(array), True) if typeof(array).weak_type else padded


def _padded(array: Array, pad_width: Any, mode: Any, kwargs: dict[str, Any]) -> Array:
    rank = len(shape_of(array))
    if isinstance(pad_width, dict):
        by_axis = {axis_of(d, rank): w for d, w in pad_width.items()}
        pad_width = [by_axis.get(d, (0, 0)) for d in range(rank)]
    widths = [(as_size(lo), as_size(hi)) for lo, hi in _pairs(pad_width, rank)]
    if any(lo < 0 or hi < 0 for lo, hi in widths):
        raise ArgumentError(f"pad_width {widths} has a negative width", "widths are 0 or more; slice to make smaller")
    if callable(mode):
        return _pad_by_function(array, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise ArgumentError(
            f"there is no padding mode {mode!r}", f"one of {', '.join(sorted(_OPTIONS))}, or a function"
        )
    unknown = kwargs.keys() - _OPTIONS[mode].keys()
    if unknown:
        raise ArgumentError(
            f"padding mode {mode!r} does not take {sorted(unknown)}", f"it takes {list(_OPTIONS[mode])}"
        )
    options = {**_OPTIONS[mode], **kwargs}
    if mode in ("constant", "linear_ramp"):
        (ends,) = options.values()
        dtype = dtype_of(array)
        if mode == "constant" and (type(ends) in (bool, int) or (type(ends) is float and is_inexact(dtype))):
            return lax.pad(array, np.asarray(ends).astype(dtype)[()], [(lo, hi, 0) for lo, hi in widths])
        ends = _pairs(ends, rank) if not isinstance(ends, Value) else _value_pairs(ends, rank)
        return _pad_with_values(array, widths, mode, [tuple(values(*pair)) for pair in ends])
    return _pad(array, widths, mode, **options)


def _pairs(x: Any, rank: int) -> list[tuple[Any, Any]]:
    """NumPy's broadcasting of a number, a pair or a pair per axis."""
    if type(x) is int:
        return [(x, x)] * rank
    if isinstance(x, (list, tuple)) and any(
        isinstance(v, Value) for row in x for v in (row if isinstance(row, (list, tuple)) else [row])
    ):
        rows = list(x) if isinstance(x[0], (list, tuple)) else [x]
        rows = [tuple(r) if len(r) == 2 else (r[0], r[0]) for r in rows]
        return [rows[0]] * rank if len(rows) == 1 else rows
    if isinstance(x, Value):
        x = concrete(x, "pad", "pad by known widths, or place the array by `lax.dynamic_update_slice`")
    given = np.asarray(x, dtype=object)
    try:
        table = np.broadcast_to(given, (rank, 2))
    except ValueError:
        raise ShapeError(
            f"pad: {x!r} for an array of {rank} dimensions", "give a number, a pair, or a pair for each dimension"
        ) from None
    return [(lo, hi) for lo, hi in table]


def _value_pairs(x: Array, rank: int) -> list[tuple[Any, Any]]:
    table = broadcast_to(x, (rank, 2))
    return [(table[d, 0], table[d, 1]) for d in range(rank)]


@inline_jit("widths", "mode")
def _pad_with_values(array: Any, widths: Any, mode: str, ends: Any) -> Array:
    dtype = dtype_of(array)
    if mode == "constant":
        if len(widths) and all(shape_of(v) == () for pair in ends for v in pair):
            same = len(widths) == 1 and widths[0][0] * widths[0][1] == 0
            if same:
                pair = ends[0]
                return lax.pad(array, astype(pair[0] if widths[0][0] else pair[1], dtype), ((*widths[0], 0),))
        for d, ((lo, hi), (low, high)) in enumerate(zip(widths, ends, strict=True)):
            for width, fill, front in ((lo, low, True), (hi, high, False)):
                if width:
                    config = [(0, 0, 0)] * len(shape_of(array))
                    config[d] = (width, 0, 0) if front else (0, width, 0)
                    array = lax.pad(array, astype(fill, dtype), config)
        return array
    for d, ((lo, hi), (low, high)) in enumerate(zip(widths, ends, strict=True)):
        array = _ramps(array, d, lo, hi, low, high)
    return array


def _ramps(array: Array, axis: int, lo: int, hi: int, low: Any, high: Any) -> Array:
    dtype, dims = dtype_of(array), shape_of(array)
    parts = [array]
    for width, end, front in ((lo, low, True), (hi, high, False)):
        if not width:
            continue
        edge = lax.slice_in_dim(array, 0 if front else dims[axis] - 1, 1 if front else dims[axis], axis=axis)
        work = to_inexact(dtype)
        steps = np.arange(width) if front else np.arange(width)[::-1]
        t = (steps / width).astype(work).reshape([-1 if d == axis else 1 for d in range(len(dims))])
        end, edge = astype(end, work), astype(edge, work)
        ramp = end + value(t) * (edge - end)
        ramp = astype(floor(ramp) if is_integer(dtype) else ramp, dtype)  # as NumPy's linspace of integers
        parts.insert(0 if front else len(parts), ramp)
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, axis)


@inline_jit("widths", "mode", "stat_length", "reflect_type")
def _pad(array: Any, widths: Any, mode: str, stat_length: Any = None, reflect_type: str = "even") -> Array:
    if mode == "empty":
        return lax.pad(array, np.zeros((), dtype_of(array))[()], [(lo, hi, 0) for lo, hi in widths])
    lengths = None if stat_length is None else _pairs(stat_length, len(widths))
    for axis, (lo, hi) in enumerate(widths):
        if lo == hi == 0:
            continue
        length = shape_of(array)[axis]
        if length == 0:
            raise ShapeError(f"padding mode {mode!r} of an axis without elements", "use mode 'constant'")
        if mode in _STATISTICS:
            array = _with_statistic(array, axis, lo, hi, mode, (length, length) if lengths is None else lengths[axis])
        elif reflect_type == "odd":
            array = _odd_reflection(array, axis, lo, hi, mode)
        else:
            places = np.pad(np.arange(length, dtype=np.int32), (lo, hi), mode=mode)  # type: ignore[call-overload]
            array = take(array, places, axis, mode="clip")
    return array


def _odd_reflection(array: Array, axis: int, lo: int, hi: int, mode: str) -> Array:
    """Mirror images turned about the edge: twice the edge less the even reflection, period by period."""
    length = shape_of(array)[axis]
    period = length - 1 if mode == "reflect" else length
    if period == 0:
        return _pad(array, tuple((lo, hi) if d == axis else (0, 0) for d in range(len(shape_of(array)))), "edge")
    while lo or hi:
        n = shape_of(array)[axis]
        first, last = min(lo, period), min(hi, period)
        skip = 1 if mode == "reflect" else 0
        head, tail = (lax.slice_in_dim(array, i, i + 1, axis=axis) for i in (0, n - 1))
        front = lax.rev(lax.slice_in_dim(array, skip, skip + first, axis=axis), (axis,))
        back = lax.rev(lax.slice_in_dim(array, n - skip - last, n - skip, axis=axis), (axis,))
        array = lax.concatenate([head + head - front, array, tail + tail - back], axis)
        lo, hi = lo - first, hi - last
    return array


def _with_statistic(array: Array, axis: int, lo: int, hi: int, mode: str, lengths: Any) -> Array:
    function = {
        "maximum": reductions.max, "minimum": reductions.min, "mean": reductions.mean, "median": quantiles.median,
    }[mode]  # fmt: skip
    n, parts = shape_of(array)[axis], [array]
    for width, length, front in ((lo, lengths[0], True), (hi, lengths[1], False)):
        if not width:
            continue
        length = min(operator.index(length), n)
        part = lax.slice_in_dim(array, 0 if front else n - length, length if front else n, axis=axis)
        fill = function(part, axis, keepdims=True)
        fill = astype(rint(fill) if is_integer(dtype_of(array)) else fill, dtype_of(array))
        dims = list(shape_of(array))
        dims[axis] = width
        parts.insert(0 if front else len(parts), broadcast_to(fill, dims))
    return lax.concatenate(parts, axis)


def _pad_by_function(array: Array, widths: Any, function: Any, kwargs: Any) -> Array:
    array = lax.pad(array, np.zeros((), dtype_of(array))[()], [(lo, hi, 0) for lo, hi in widths])
    for axis, pair in enumerate(widths):
        array = apply_along_axis(function, axis, array, pair, axis, kwargs)
    return array


__all__ = [
    "pad",
]  # fmt: skip
