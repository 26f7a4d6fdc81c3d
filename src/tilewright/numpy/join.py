"""Joining, splitting and padding arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import lax
from ..core.errors import ArgumentError, ArgumentTypeError, ShapeError
from .shape import atleast_1d, atleast_2d, atleast_3d, broadcast_to, moveaxis, ravel
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    Value,
    astype,
    axis_of,
    composite,
    concrete,
    dtype_argument,
    dtype_of,
    is_inexact,
    is_integer,
    no_out,
    promote_dtypes,
    shape_of,
    value,
    values,
)

# ---------------------------------------------------------------------------- joining


def _parts(arrays: Any, name: str, dtype: Any = None) -> list[Array]:
    if isinstance(arrays, (Value, np.ndarray)):
        n = shape_of(arrays)
        if not n:
            raise ArgumentTypeError(f"{name} takes a sequence of arrays, not one of rank 0", "put the arrays in a list")
        arrays = [value(arrays)[i] for i in range(n[0])]
    if not isinstance(arrays, (list, tuple)):
        raise ArgumentTypeError(f"{name} takes a sequence of arrays, not {type(arrays).__name__}", "put them in a list")
    if not arrays:
        raise ArgumentError(f"{name} of no arrays", "pass at least one")
    from .create import asarray

    parts = [asarray(a) for a in arrays]
    return promote_dtypes(*parts) if dtype is None else [astype(p, dtype) for p in parts]


@composite("axis", "dtype")
def _concatenate(arrays: Any, axis: int | None, dtype: Any) -> Array:
    parts = _parts(arrays, "concatenate", dtype)
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    if not shape_of(parts[0]):
        raise ShapeError("concatenate of arrays of rank 0", "use `stack`")
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, axis_of(axis, len(shape_of(parts[0]))))


def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike = None) -> Array:
    """Join arrays along an axis they have.

    >>> from tilewright import numpy as jnp
    >>> jnp.concatenate([jnp.zeros(1), jnp.ones(2)])
    Array([0., 1., 1.], dtype=float32)
    """
    return _concatenate(arrays, axis, dtype_argument(dtype))


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Join arrays along an axis they have.

    >>> from tilewright import numpy as jnp
    >>> jnp.concat([jnp.zeros(1), jnp.ones(1)])
    Array([0., 1.], dtype=float32)
    """
    return _concatenate(arrays, axis, None)


@composite("axis", "dtype")
def _stack(arrays: Any, axis: int, dtype: Any) -> Array:
    parts = _parts(arrays, "stack", dtype)
    if len({shape_of(p) for p in parts}) > 1:
        shapes = ", ".join(str(shape_of(p)) for p in parts)
        raise ShapeError(f"stack of arrays of shapes {shapes}", "they must all have one shape")
    axis = axis_of(axis, len(shape_of(parts[0])) + 1)
    return lax.concatenate([lax.expand_dims(p, (axis,)) for p in parts], axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """Join arrays of one shape along a new axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.stack([jnp.zeros(1), jnp.ones(1)])
    Array([[0.],
           [1.]], dtype=float32)
    """
    no_out(out, "stack")
    return _stack(arrays, axis, dtype_argument(dtype))


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along an axis, which they lose.

    >>> from tilewright import numpy as jnp
    >>> [float(v) for v in jnp.unstack(jnp.array([1., 2.]))]
    [1.0, 2.0]
    """
    x = value(x, "unstack")
    number = axis_of(axis, len(shape_of(x)))
    return tuple(lax.index_in_dim(x, i, number, keepdims=False) for i in range(shape_of(x)[number]))


def _rows(arrays: Any, raised: Any, name: str) -> list[Array]:
    result = raised(*_parts(arrays, name))
    return result if isinstance(result, list) else [result]


def hstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays along the second axis, vectors along the first.

    >>> from tilewright import numpy as jnp
    >>> jnp.hstack([jnp.zeros(1), jnp.ones(1)])
    Array([0., 1.], dtype=float32)
    """
    parts = _rows(tup, atleast_1d, "hstack")
    return concatenate(parts, 0 if len(shape_of(parts[0])) == 1 else 1, dtype)


def vstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays along the first axis, vectors as rows.

    >>> from tilewright import numpy as jnp
    >>> jnp.vstack([jnp.zeros(2), jnp.ones(2)]).shape
    (2, 2)
    """
    return concatenate(_rows(tup, atleast_2d, "vstack"), 0, dtype)


def dstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays along the third axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.dstack([jnp.zeros(2), jnp.ones(2)]).shape
    (1, 2, 2)
    """
    return concatenate(_rows(tup, atleast_3d, "dstack"), 2, dtype)


def column_stack(tup: Any) -> Array:
    """Join vectors as columns, and matrices along the second axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.column_stack([jnp.zeros(2), jnp.ones(2)]).shape
    (2, 2)
    """
    parts = [lax.reshape(p, (-1 if not shape_of(p) else shape_of(p)[0], 1)) if len(shape_of(p)) == 1 else p
             for p in _rows(tup, atleast_1d, "column_stack")]  # fmt: skip
    return concatenate(parts, 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Join values to the end of an array, both laid flat unless an axis is named.

    >>> from tilewright import numpy as jnp
    >>> jnp.append(jnp.arange(2), 5)
    Array([0, 1, 5], dtype=int32)
    """
    if axis is None:
        return concatenate([ravel(value(arr)), ravel(value(values))])
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Array:
    """Assemble nested lists of arrays: the innermost along the last axis, the next along the one before.

    >>> from tilewright import numpy as jnp
    >>> jnp.block([[jnp.zeros((1, 1)), jnp.ones((1, 1))]]).shape
    (1, 2)
    """

    def depth(x: Any) -> int:
        return 1 + max(depth(v) for v in x) if isinstance(x, list) else 0

    def join(x: Any, level: int, rank: int) -> Array:
        if isinstance(x, list):
            return concatenate([join(v, level - 1, rank) for v in x], rank - level)
        a = value(x)
        missing = rank - len(shape_of(a))
        return lax.expand_dims(a, tuple(range(missing))) if missing > 0 else a

    def largest(x: Any) -> int:
        return max(largest(v) for v in x) if isinstance(x, list) else len(shape_of(x))

    levels = depth(arrays)
    return join(arrays, levels, max(levels, largest(arrays)))


# ---------------------------------------------------------------------------- splitting


def _split(name: str, ary: ArrayLike, indices_or_sections: Any, axis: int, even: bool) -> list[Array]:
    a = value(ary, name)
    number = axis_of(axis, len(shape_of(a)))
    length = shape_of(a)[number]
    if np.ndim(indices_or_sections) == 0:
        count = operator.index(indices_or_sections)
        if even and length % count:
            raise ArgumentError(
                f"an axis of {length} elements does not split into {count} equal parts", "use `array_split`"
            )
        part, more = divmod(length, count)
        cuts = [i * part + min(i, more) for i in range(1, count)]
    else:
        cuts = [operator.index(i) for i in np.asarray(indices_or_sections)]
    bounds = [0, *(min(max(c + length if c < 0 else c, 0), length) for c in cuts), length]
    return [lax.slice_in_dim(a, lo, max(lo, hi), axis=number) for lo, hi in zip(bounds[:-1], bounds[1:], strict=True)]


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into equal parts, or at given positions.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.split(jnp.arange(4), 2)]
    [(2,), (2,)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into parts as equal as can be, or at given positions.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.array_split(jnp.arange(3), 2)]
    [(2,), (1,)]
    """
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.vsplit(jnp.ones((2, 2)), 2)]
    [(1, 2), (1, 2)]
    """
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, of a vector along the first.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.hsplit(jnp.ones((2, 2)), 2)]
    [(2, 1), (2, 1)]
    """
    return split(ary, indices_or_sections, 0 if len(shape_of(ary)) == 1 else 1)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.dsplit(jnp.ones((1, 1, 2)), 2)]
    [(1, 1, 1), (1, 1, 1)]
    """
    return split(ary, indices_or_sections, 2)


# ---------------------------------------------------------------------------- removing and inserting


def delete(arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """An array without the elements at some indices; traced indices must be a number or known to be unique.

    >>> from tilewright import numpy as jnp
    >>> jnp.delete(jnp.arange(4), 1)
    Array([0, 2, 3], dtype=int32)
    """
    from .index import take

    a = value(arr, "delete")
    if axis is None:
        a, axis = ravel(a), 0
    number = axis_of(axis, len(shape_of(a)))
    length = shape_of(a)[number]
    if isinstance(obj, Value) and not hasattr(obj, "unsafe_buffer_pointer") and _is_traced(obj):
        return _delete_traced(a, obj, number, assume_unique_indices)
    keep = np.delete(np.arange(length), obj if isinstance(obj, slice) else np.asarray(obj))
    return take(a, keep.astype(np.int32), number, mode="clip")


def _is_traced(x: Any) -> bool:
    from ..core.trace import Tracer

    return isinstance(x, Tracer) and x.concrete() is None


def _delete_traced(a: Array, obj: Array, axis: int, unique: bool) -> Array:
    from .index import take
    from .sorting import sort
    from .ufuncs import where3

    length = shape_of(a)[axis]
    if len(shape_of(obj)) and not unique:
        raise ArgumentError("delete at traced indices", "pass assume_unique_indices=True, or known indices")
    places = ravel(where3(lax.lt(obj, 0), obj + length, obj))
    gone = sort(places)
    count = shape_of(gone)[0]
    result = lax.iota(dtype_of(gone), length - count)
    for i in range(count):  # each deleted place moves those after it by one
        result = result + astype(result >= gone[i], dtype_of(gone))
    return take(a, result, axis, mode="clip")


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """An array with values inserted before some indices.

    >>> from tilewright import numpy as jnp
    >>> jnp.insert(jnp.arange(3), 1, 9)
    Array([0, 9, 1, 2], dtype=int32)
    """
    from .create import asarray
    from .index import take

    a, new = promote_dtypes(value(arr, "insert"), asarray(values))
    if axis is None:
        a, axis = ravel(a), 0
    number = axis_of(axis, len(shape_of(a)))
    length = shape_of(a)[number]
    places = np.arange(length)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if places.dtype == bool:
        places = np.flatnonzero(places)
    scalar = places.ndim == 0
    places = places.reshape(-1)
    places = np.where(places < 0, places + length, places)
    new = lax.expand_dims(new, range(len(shape_of(a)) - len(shape_of(new))))
    if scalar:  # the values are those of `a[:, obj]`, whose leading axis is the one inserted
        new = moveaxis(new, 0, number)
    if len(places) == 1:
        places = np.repeat(places, shape_of(new)[number])
    dims = list(shape_of(a))
    dims[number] = len(places)
    new = broadcast_to(new, dims)
    # One gather from the two arrays end to end.
    order = np.insert(np.arange(length), places, length + np.arange(len(places)))
    return take(lax.concatenate([a, new], number), order.astype(np.int32), number, mode="clip")


# ---------------------------------------------------------------------------- padding

_STATISTICS = ("maximum", "mean", "median", "minimum")
_OPTIONS = {
    "constant": {"constant_values": 0}, "linear_ramp": {"end_values": 0}, "reflect": {"reflect_type": "even"},
    "symmetric": {"reflect_type": "even"}, "edge": {}, "wrap": {}, "empty": {},
    **{name: {"stat_length": None} for name in _STATISTICS},
}  # fmt: skip


def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Add elements around an array.

    Modes: `constant` (`constant_values`), `edge`, `linear_ramp` (`end_values`), `maximum`, `mean`, `median`,
    `minimum` (`stat_length`), `reflect`, `symmetric` (`reflect_type`), `wrap`, `empty`, or a function as in NumPy.

    >>> from tilewright import numpy as jnp
    >>> jnp.pad(jnp.array([1, 2]), 1)
    Array([0, 1, 2, 0], dtype=int32)
    """
    array = value(array, "pad")
    rank = len(shape_of(array))
    if isinstance(pad_width, dict):
        by_axis = {axis_of(d, rank): w for d, w in pad_width.items()}
        pad_width = [by_axis.get(d, (0, 0)) for d in range(rank)]
    widths = [(operator.index(lo), operator.index(hi)) for lo, hi in _pairs(pad_width, rank)]
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
    table = np.broadcast_to(np.asarray(x, dtype=object), (rank, 2))
    return [(lo, hi) for lo, hi in table]


def _value_pairs(x: Array, rank: int) -> list[tuple[Any, Any]]:
    table = broadcast_to(x, (rank, 2))
    return [(table[d, 0], table[d, 1]) for d in range(rank)]


@composite("widths", "mode")
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
        work = np.dtype(np.float32) if is_integer(dtype) else dtype
        steps = np.arange(width) if front else np.arange(width)[::-1]
        t = (steps / width).astype(work).reshape([-1 if d == axis else 1 for d in range(len(dims))])
        end, edge = astype(end, work), astype(edge, work)
        ramp = end + value(t) * (edge - end)
        ramp = astype(ramp, dtype)
        parts.insert(0 if front else len(parts), ramp)
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, axis)


@composite("widths", "mode", "stat_length", "reflect_type")
def _pad(array: Any, widths: Any, mode: str, stat_length: Any = None, reflect_type: str = "even") -> Array:
    from .index import take

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
    from . import quantiles, reductions
    from .ufuncs import rint

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
    from .functional import apply_along_axis

    array = lax.pad(array, np.zeros((), dtype_of(array))[()], [(lo, hi, 0) for lo, hi in widths])
    for axis, pair in enumerate(widths):
        array = apply_along_axis(function, axis, array, pair, axis, kwargs)
    return array
