"""Elements taken out of arrays, and put in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentTypeError, ConcretizationError
from ..arithmetic import clip
from ..create import arange, asarray, ones
from ..cumulative import cumsum
from ..elementwise import where3
from ..index import known, take
from ..shape import broadcast_to, moveaxis, ravel
from ..sorting import argsort, sort
from ..util import Array, ArrayLike, as_weak_as, astype, axis_of, dtype_of, is_bool, shape_of, value


@public
def delete(arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """An array without the elements at some indices; traced indices must be a number or known to be unique.

    >>> from tilewright import numpy as jnp
    >>> jnp.delete(jnp.arange(4), 1)
    Array([0, 2, 3], dtype=int32)
    """

    a = value(arr, "delete")
    if axis is None:
        a, axis = ravel(a), 0
    number = axis_of(axis, len(shape_of(a)))
    length = shape_of(a)[number]
    if not known(obj):
        return _delete_traced(a, obj, number, assume_unique_indices)
    keep = np.delete(np.arange(length), obj if isinstance(obj, slice) else np.asarray(obj))
    return take(a, keep.astype(np.int32), number, mode="clip")


def _delete_traced(a: Array, obj: Array, axis: int, unique: bool) -> Array:
    length = shape_of(a)[axis]
    if len(shape_of(obj)) and not unique:
        raise ConcretizationError("delete at traced indices", "pass assume_unique_indices=True, or known indices")
    places = ravel(where3(lax.lt(obj, 0), obj + length, obj))
    gone = sort(places)
    count = shape_of(gone)[0]
    result = lax.iota(dtype_of(gone), length - count)
    for i in range(count):  # each deleted place moves those after it by one
        result = result + astype(result >= gone[i], dtype_of(gone))
    return take(a, result, axis, mode="clip")


@public
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """An array with values inserted before some indices.

    >>> from tilewright import numpy as jnp
    >>> jnp.insert(jnp.arange(3), 1, 9)
    Array([0, 9, 1, 2], dtype=int32)
    """

    a = value(arr, "insert")
    new = astype(asarray(values), dtype_of(a))
    if axis is None:
        a, axis = ravel(a), 0
    number = axis_of(axis, len(shape_of(a)))
    length = shape_of(a)[number]
    traced = not known(obj) and not is_bool(dtype_of(obj))
    places: Any = obj if traced else np.arange(length)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if not traced and places.dtype.kind not in "iub" and places.size:
        raise ArgumentTypeError(f"insert: indices must be integers, got {obj!r}", "pass an int, or one for each value")
    if places.dtype == bool:
        places = np.flatnonzero(places)
    scalar = places.ndim == 0
    places = places.reshape(-1)
    new = lax.expand_dims(new, range(len(shape_of(a)) - len(shape_of(new))))
    if scalar:  # the values are those of `a[:, obj]`, whose leading axis is the one inserted
        new = moveaxis(new, 0, number)
    count = shape_of(new)[number] if len(places) == 1 else len(places)
    dims = list(shape_of(a))
    dims[number] = count
    new = broadcast_to(new, dims)
    # One gather from the two arrays end to end.
    if traced:
        order = _order(length, broadcast_to(places, (count,)))
    else:
        places = places.astype(np.int64)
        places = np.where(places < 0, places + length, places)
        order = np.insert(np.arange(length), np.broadcast_to(places, (count,)), length + np.arange(count))
    found = take(lax.concatenate([a, new], number), astype(order, np.dtype(np.int32)), number, mode="clip")
    return as_weak_as(found, a)


def _order(length: int, places: Array) -> Array:
    """Where the elements of the array with others inserted come from: those inserted are counted from `length` on."""
    places = clip(where3(places < 0, places + length, places), 0, length)
    count = shape_of(places)[0]
    ranked = argsort(places, stable=True)
    ends = take(places, ranked, mode="clip") + arange(count)
    kept = cumsum(ones(length + count, int).at[ends].set(0)) - 1
    return kept.at[ends].set(length + astype(ranked, dtype_of(kept)))


__all__ = [
    "delete", "insert",
]  # fmt: skip
