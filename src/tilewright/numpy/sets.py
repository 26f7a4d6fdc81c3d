"""Sets of values: unique elements, membership, union, intersection, difference.

How many there are depends on the values, so within `jit` these take `size`; missing ones are filled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .. import lax
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError
from .create import arange, asarray
from .elementwise import equal, isnan, logical_and, logical_or
from .index import nonzero, take
from .join import concatenate
from .reductions import any as any_of
from .select import where
from .shape import moveaxis, ravel
from .sorting import argsort, lexsort, searchsorted, sort
from .util import (
    Array,
    ArrayLike,
    as_weak_as,
    astype,
    axis_of,
    broadcast_to_shape,
    concrete,
    default_int,
    dtype_of,
    inline_jit,
    is_inexact,
    make_array,
    on_devices_of,
    promote_dtypes,
    shape_of,
    value,
)


@public
def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, size: int | None = None, fill_value: Any = None,
    sorted: bool = True,  # noqa: A002
) -> Any:  # fmt: skip
    """The distinct elements (or slices along an axis), sorted; on request the place of the first of each, the
    number of each element among them, and how many there are of each.

    Within `jit` give `size`: fewer are filled up with `fill_value`, by default the smallest.

    >>> from tilewright import numpy as jnp
    >>> jnp.unique(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    a = value(ar, "unique")
    wanted = (return_index, return_inverse, return_counts)
    found = _every(a, axis, equal_nan) if size is None else _unique(a, axis, size, equal_nan, fill_value)
    results = [as_weak_as(found[0], a), *(f for f, w in zip(found[1:], wanted, strict=True) if w)]
    return results[0] if len(results) == 1 else tuple(results)


def _every(a: Array, axis: int | None, equal_nan: bool) -> tuple[Array, ...]:
    """The results of `_unique` of as many elements as there are."""
    given = concrete(a, "unique", "give `size`")
    if is_inexact(given.dtype) and (axis is not None or given.dtype.kind == "V"):  # whose NaN NumPy does not know
        number = given.size if axis is None else given.shape[axis_of(axis, given.ndim)]
        picked, index, inverse, counts = _unique(a, axis, number, equal_nan)
        n = int(np.count_nonzero(counts))
        return lax.slice_in_dim(picked, 0, n, axis=axis or 0), index[:n], inverse, counts[:n]
    picked, *places = np.unique(given, True, True, True, axis=axis, equal_nan=equal_nan)
    arrays = np.ascontiguousarray(picked), *(np.asarray(p, default_int(), order="C") for p in places)
    return tuple(on_devices_of(a, make_array(x)) for x in arrays)


@inline_jit("axis", "size", "equal_nan")
def _unique(a: Any, axis: Any, size: int, equal_nan: bool, fill_value: Any = None) -> tuple[Array, ...]:
    a = value(a)
    shape = shape_of(a)
    rows = ravel(a) if axis is None else moveaxis(a, axis_of(axis, len(shape)), 0)
    n = shape_of(rows)[0]
    if n == 0:  # one row of the filling stands for the rows that there are not; it is counted as none
        rest = shape_of(rows)[1:]
        picked = lax.full((size, *rest), 0 if fill_value is None else fill_value, dtype_of(rows))
        none = lax.full((size,), 0, default_int())
        return picked if axis is None else moveaxis(picked, 0, axis), none, lax.full((0,), 0, default_int()), none
    flat = lax.reshape(rows, (n, math.prod(shape_of(rows)[1:])))
    order = lexsort([flat[:, j] for j in reversed(range(shape_of(flat)[1]))])
    ordered = take(flat, order, 0, mode="clip")
    here, before = lax.slice_in_dim(ordered, 1, None), lax.slice_in_dim(ordered, 0, -1)
    same = equal(here, before)
    if equal_nan and is_inexact(dtype_of(flat)):
        same = logical_or(same, logical_and(isnan(here), isnan(before)))
    first = concatenate([np.ones(1, bool), lax.bitwise_not(lax.reduce_and(same, (1,)))])
    number = lax.cumsum(lax.convert_element_type(first, default_int()), 0) - 1
    bounds = nonzero(first, size=size + 1, fill_value=n)[0]
    starts, ends = lax.slice_in_dim(bounds, 0, -1), lax.slice_in_dim(bounds, 1, None)
    found = number[-1] + 1
    valid = lax.lt(arange(size), found)
    picked = take(rows, take(order, starts, mode="clip"), 0, mode="clip")
    fill = take(rows, order[0], 0, mode="clip") if fill_value is None else value(fill_value)

    mask = lax.reshape(valid, (size,) + (1,) * (len(shape_of(rows)) - 1))
    picked = where(mask, picked, broadcast_to_shape(astype(fill, dtype_of(rows)), shape_of(rows)[1:]))
    counts = where(valid, ends - starts, 0)
    index = where(valid, take(order, starts, mode="clip"), take(order, np.int32(0), mode="clip"))
    inverse = lax.full((n,), 0, default_int()).at[order].set(number)
    inverse = lax.reshape(inverse, shape) if axis is None else inverse
    picked = picked if axis is None else moveaxis(picked, 0, axis)
    return picked, index, inverse, counts


class UniqueAll(NamedTuple):
    """The results of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The results of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The results of `unique_inverse`."""

    values: Array
    inverse_indices: Array


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The distinct elements with the place of the first of each, the number of every element, and counts.

    >>> from tilewright import numpy as jnp
    >>> jnp.unique_all(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """The distinct elements and how many there are of each.

    >>> from tilewright import numpy as jnp
    >>> jnp.unique_counts(jnp.array([3, 1, 3])).values
    Array([1, 3], dtype=int32)
    """
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """The distinct elements and the number of every element among them.

    >>> from tilewright import numpy as jnp
    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The distinct elements.

    >>> from tilewright import numpy as jnp
    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


@inline_jit("assume_unique", "invert", "method")
def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    method: str = "auto",
) -> Array:  # fmt: skip
    """Whether each element is among some others; `method` is 'auto', 'compare_all', 'binary_search' or 'sort'.

    >>> from tilewright import numpy as jnp
    >>> jnp.isin(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([False,  True], dtype=bool)
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ArgumentError(
            f"there is no method {method!r} of isin", "one of 'auto', 'compare_all', 'binary_search', 'sort'"
        )
    x, others = promote_dtypes(value(element, "isin"), ravel(value(test_elements, "isin")))
    if method == "compare_all" or shape_of(others)[0] <= 64 or not shape_of(x):
        rank = len(shape_of(x))
        result = any_of(equal(lax.expand_dims(x, (rank,)), lax.expand_dims(others, range(rank))), -1)
    else:
        ordered = sort(others)
        places = searchsorted(ordered, x)
        result = equal(take(ordered, places, mode="clip"), x)
    return lax.bitwise_not(result) if invert else result


def _flat(*arrays: ArrayLike) -> list[Array]:
    return promote_dtypes(*(ravel(asarray(a)) for a in arrays))


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The distinct elements of two arrays together, sorted.

    >>> from tilewright import numpy as jnp
    >>> jnp.union1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1, 2, 3], dtype=int32)
    """
    return unique(concatenate(_flat(ar1, ar2)), size=size, fill_value=fill_value)


def _by_numpy(function: Any, *arrays: ArrayLike, **how: Any) -> Any:
    """What NumPy's function gives of arrays that are known: places as the default integers, elements as weak as all."""
    given = _flat(*arrays)
    for a in given:
        concrete(a, function.__name__, "give `size`")
    found = function(*map(np.asarray, given), **how)  # which refuses to lose a derivative
    first, *places = found if isinstance(found, tuple) else (found,)
    made = map(make_array, (first, *(f.astype(default_int()) for f in places)))
    first, *places = (on_devices_of(given[0], a) for a in made)
    elements = as_weak_as(first, *given)
    return (elements, *places) if places else elements


def _kept(first: Array, keep: Array, size: int, fill_value: Any) -> tuple[Array, Array]:
    """The distinct elements of an array for which a mask holds, filled up to a size; and which of them are not filling.

    Without a `fill_value` the first of them fills, or 0 where there is none.
    """
    n = shape_of(first)[0]
    if not n:
        return lax.full((size,), fill_value or 0, dtype_of(first)), np.zeros(size, bool)  # type: ignore[return-value]
    places = nonzero(keep, size=size, fill_value=n)[0]
    valid, found = lax.lt(places, n), take(first, places, mode="clip")
    if fill_value is None:
        fill_value = where(valid[:1], found[:1], 0) if size else 0
    return where(valid, found, lax.convert_element_type(fill_value, dtype_of(first))), valid


def _distinct(a: Array) -> tuple[Array, Array]:
    """The elements sorted, and whether each is the first of its kind."""
    ordered = sort(a)
    changed = lax.ne(lax.slice_in_dim(ordered, 1, None), lax.slice_in_dim(ordered, 0, -1))
    return ordered, concatenate([np.ones(1, bool), changed])


def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The distinct elements of one array that another lacks.

    >>> from tilewright import numpy as jnp
    >>> jnp.setdiff1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1], dtype=int32)
    """
    if size is None:
        result = _by_numpy(np.setdiff1d, ar1, ar2, assume_unique=assume_unique)
        return as_weak_as(astype(result, dtype_of(asarray(ar1))), result)
    first, second = ravel(asarray(ar1)), ravel(asarray(ar2))
    ordered, fresh = (first, np.ones(shape_of(first), bool)) if assume_unique else _distinct(first)
    fill_value = 0 if fill_value is None else fill_value
    return _kept(ordered, logical_and(fresh, isin(ordered, second, invert=True)), size, fill_value)[0]


def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The distinct elements that exactly one of two arrays has.

    >>> from tilewright import numpy as jnp
    >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1, 3], dtype=int32)
    """
    if size is None:
        return _by_numpy(np.setxor1d, ar1, ar2, assume_unique=assume_unique)
    first, second = _flat(ar1, ar2)
    ordered, fresh = _distinct(concatenate([first, second]))
    lonely = lax.ne(isin(ordered, first), isin(ordered, second))
    return _kept(ordered, logical_and(fresh, lonely), size, fill_value)[0]


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
    size: int | None = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """The distinct elements that two arrays share; on request their places in both.

    >>> from tilewright import numpy as jnp
    >>> jnp.intersect1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([2], dtype=int32)
    """
    if size is None:
        return _by_numpy(np.intersect1d, ar1, ar2, assume_unique=assume_unique, return_indices=return_indices)
    first, second = _flat(ar1, ar2)
    ordered, fresh = _distinct(first)
    common, valid = _kept(ordered, logical_and(fresh, isin(ordered, second)), size, fill_value)
    if not return_indices:
        return common

    places = []
    for x in (first, second):
        order = argsort(x)
        found = take(order, searchsorted(take(x, order, mode="clip"), common), mode="clip") if shape_of(x)[0] else 0
        places.append(where(valid, found, np.asarray(shape_of(x)[0], default_int())))
    return common, *places


__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip
