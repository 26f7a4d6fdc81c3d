"""Elements repeated along an axis."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import lax
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentTypeError, ShapeError
from .. import util
from ..create import asarray
from ..cumulative import cumsum
from ..index import take
from ..shape import broadcast_to, ravel
from ..sorting import searchsorted
from ..util import Array, ArrayLike, axis_of, concrete, inline_jit, shape_of, value


@inline_jit("axis", "repeats")
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


__all__ = ["repeat"]
