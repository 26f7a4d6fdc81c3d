"""Elements moved around along an axis, or repeated."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import lax
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError, ShapeError
from .. import util
from ..arithmetic import remainder
from ..create import asarray
from ..cumulative import cumsum
from ..index import take
from ..shape import broadcast_to, ravel, reshape
from ..sorting import searchsorted
from ..util import Array, ArrayLike, axis_of, composite, concrete, shape_of, value


@public
def roll(a: ArrayLike, shift: Any, axis: Any = None) -> Array:
    """Shift elements along axes, those that fall off coming in at the other end.

    >>> from tilewright import numpy as jnp
    >>> jnp.roll(jnp.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    known = isinstance(shift, (int, np.integer, tuple, list, np.ndarray))
    if known and all(isinstance(s, (int, np.integer)) for s in np.asarray(shift, dtype=object).flat):
        return _roll(a, np.asarray(shift).tolist(), axis)
    return _roll_by_array(a, shift, axis)


def _shifts(shift: Any, axis: Any, n: int) -> list[tuple[int, Any]]:
    axes = tuple(axis_of(d, n) for d in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ArgumentError(f"{len(shifts)} shifts for {len(axes)} axes", "give one shift per axis")
    return list(zip(axes, shifts, strict=True))


@composite("shift", "axis")
def _roll(a: Any, shift: Any, axis: Any) -> Array:
    a = value(a, "roll")
    old = shape_of(a)
    if axis is None:
        return reshape(_roll(ravel(a), shift, 0), old)
    for number, by in _shifts(shift, axis, len(old)):
        cut = by % old[number] if old[number] else 0
        if cut:
            head = lax.slice_in_dim(a, old[number] - cut, None, axis=number)
            a = lax.concatenate([head, lax.slice_in_dim(a, 0, old[number] - cut, axis=number)], number)
    return a


@composite("axis")
def _roll_by_array(a: Any, shift: Any, axis: Any) -> Array:
    a = value(a, "roll")
    old = shape_of(a)
    if axis is None:
        return reshape(_roll_by_array(ravel(a), shift, 0), old)
    rank = len(shape_of(shift)) if not isinstance(shift, (tuple, list)) else 1
    parts = [shift[i] for i in range(len(axis) if isinstance(axis, (tuple, list)) else 1)] if rank else shift
    for number, by in _shifts(parts, axis, len(old)):
        if old[number]:
            places = remainder(lax.iota(np.dtype(np.int32), old[number]) - by, old[number])
            a = take(a, places, number, mode="clip")
    return a


@composite("axis", "repeats")
def _repeat(a: Any, repeats: Any, axis: int) -> Array:
    old = shape_of(a)
    if isinstance(repeats, int):
        if old[axis] == 1 or repeats == 1 or len(old) == 0:
            return a if repeats == 1 else util.broadcast_to_shape(a, (*old[:axis], repeats, *old[axis + 1 :]))
        wide = lax.broadcast_in_dim(
            a, (*old[: axis + 1], repeats, *old[axis + 1 :]), [d if d <= axis else d + 1 for d in range(len(old))]
        )
        return lax.reshape(wide, (*old[:axis], old[axis] * repeats, *old[axis + 1 :]))
    places = np.repeat(np.arange(old[axis]), np.broadcast_to(np.asarray(repeats, np.int64), (old[axis],)))
    return take(a, places.astype(np.int32), axis, mode="clip")


@public
def repeat(
    a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Repeat each element a number of times along an axis.

    Traced `repeats` need `total_repeat_length`: the result is cut, or filled with the last element.

    >>> from tilewright import numpy as jnp
    >>> jnp.repeat(jnp.array([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    a = value(a, "repeat")
    if axis is None:
        a, axis = ravel(a), 0
    a = lax.reshape(a, shape_of(a) or (1,))  # a scalar is repeated as a vector of one
    axis = axis_of(axis, len(shape_of(a)))
    if total_repeat_length is not None:
        return _repeat_to_length(a, repeats, axis, operator.index(total_repeat_length))
    known = concrete(repeats, "repeat", "give `total_repeat_length`")
    if known.dtype.kind not in "iub":
        raise ArgumentTypeError(f"repeat: repeats must be integers, got {repeats!r}", "pass an int, or one for each")
    if known.ndim > 1 or known.size not in (1, shape_of(a)[axis]):
        counts = f"repeats of shape {known.shape} for {shape_of(a)[axis]} elements"
        raise ShapeError(f"repeat: {counts}", "pass an int, or one for each")
    if known.size == 1:
        return _repeat(a, int(known.reshape(())), axis)
    return _repeat(a, tuple(known.tolist()), axis)


def _repeat_to_length(a: Array, repeats: Any, axis: int, length: int) -> Array:
    counts = broadcast_to(asarray(repeats), (shape_of(a)[axis],))
    places = searchsorted(cumsum(counts), lax.iota(np.dtype(np.int32), length), side="right")
    return take(a, places, axis, mode="clip")


__all__ = [
    "repeat", "roll",
]  # fmt: skip
