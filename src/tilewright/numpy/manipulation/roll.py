"""Elements shifted circularly along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, plural
from ..arithmetic import remainder
from ..index import take
from ..shape import ravel, reshape
from ..util import Array, ArrayLike, axis_of, inline_jit, shape_of, value


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
        raise ArgumentError(f"{plural(len(shifts), 'shift')} for {plural(len(axes), 'axis')}",
                            "give one shift per axis")  # fmt: skip
    return list(zip(axes, shifts, strict=True))


@inline_jit("shift", "axis")
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


@inline_jit("axis")
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


__all__ = ["roll"]
