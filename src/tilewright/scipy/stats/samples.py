"""Statistics of samples: ranks, the most common value, and the standard error of the mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import lax
from ...core.support.errors import ArgumentError, UnsupportedError
from ...numpy.cumulative import cumsum
from ...numpy.elementwise import sqrt, where3
from ...numpy.index import take_along_axis
from ...numpy.reductions import any as _any
from ...numpy.reductions import argmax, std
from ...numpy.reductions import max as _max
from ...numpy.reductions import sum as _sum
from ...numpy.shape import moveaxis, ravel
from ...numpy.sorting import argsort, sort
from ...numpy.statistics.nanreductions import nanstd
from ...numpy.util import (
    Array,
    ArrayLike,
    astype,
    axis_of,
    default_float,
    default_int,
    dtype_of,
    inline_jit,
    is_float,
    promote_inexact,
    shape_of,
    value,
)


class ModeResult(NamedTuple):
    """The most common values, and how often they come."""

    mode: Any
    count: Any


def _check_policy(name: str, policy: str) -> None:
    if policy not in ("propagate", "omit", "raise"):
        raise ArgumentError(f"{name}: nan_policy={policy!r}", 'one of "propagate", "omit", "raise"')
    if policy != "propagate":
        raise UnsupportedError(f"{name} with nan_policy={policy!r}", "leave the NaN out first")


def _starts(x: Array) -> Array:
    """Of sorted numbers along the last axis: whether each is the first of its kind; NaN are of one kind."""
    before, after = x[..., :-1], x[..., 1:]
    new = lax.ne(before, after)
    if is_float(dtype_of(x)):
        new = new & (lax.eq(before, before) | lax.eq(after, after))
    first = lax.full((*shape_of(x)[:-1], 1), True)
    return lax.concatenate([first, new], len(shape_of(x)) - 1)


def _runs(x: Array) -> tuple[Array, Array, Array]:
    """Of sorted numbers along the last axis: which are the first of their kind, where these are, and the places."""
    axis = len(shape_of(x)) - 1
    place = lax.broadcasted_iota(np.int32, shape_of(x), axis)
    new = _starts(x)
    return new, lax.cummax(where3(new, place, 0), axis), place


@inline_jit("axis", "nan_policy", "keepdims")
def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most common value along an axis (None: of all), the least of several, and how often it comes.

    Raises:
      UnsupportedError: another `nan_policy` than "propagate".

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import stats
    >>> stats.mode(jnp.array([2, 4, 1, 1, 4, 4]))
    ModeResult(mode=Array(4, dtype=int32), count=Array(3, dtype=int32))
    """
    _check_policy("mode", nan_policy)
    x = value(a, "mode")
    x = lax.reshape(x, (1,)) if not shape_of(x) else x
    rank = len(shape_of(x))
    at = None if axis is None else axis_of(axis, rank)
    rows = ravel(x) if at is None else moveaxis(x, at, -1)
    if shape_of(rows)[-1] == 0:
        empty = lax.full(shape_of(rows)[:-1], np.nan, default_float())
        found, count = empty, lax.full(shape_of(rows)[:-1], 0.0, default_float())
    else:
        rows = sort(rows)
        _, first, place = _runs(rows)
        length = place - first + 1
        best = argmax(length, -1, keepdims=True)
        found, count = take_along_axis(rows, best, -1)[..., 0], astype(_max(length, -1), default_int())
    if keepdims:
        dims = tuple(range(rank)) if at is None else (at,)
        found, count = lax.expand_dims(found, dims), lax.expand_dims(count, dims)
    return ModeResult(found, count)


_METHODS = ("average", "min", "max", "dense", "ordinal")


@inline_jit("method", "axis", "nan_policy")
def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """The ranks of numbers along an axis (None: of all, as a vector), from 1 on, in floating point.

    `method` says what equal numbers get: the "average", "min" or "max" of their ranks, "dense" (no rank is left out) or
    "ordinal" (in their order). With a NaN all ranks along the axis are NaN.

    Raises:
      ArgumentError: another method.
      UnsupportedError: another `nan_policy` than "propagate".

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import stats
    >>> stats.rankdata(jnp.array([1, 3, 2, 3]))
    Array([1. , 3.5, 2. , 3.5], dtype=float32)
    """
    _check_policy("rankdata", nan_policy)
    if method not in _METHODS:
        raise ArgumentError(f"rankdata: method={method!r}", f"one of {', '.join(_METHODS)}")
    x = value(a, "rankdata")
    x = ravel(x) if axis is None else moveaxis(x, axis_of(axis, len(shape_of(x))), -1)
    ranks = _ranks(x, method) if 0 not in shape_of(x) else lax.full(shape_of(x), 0.0, default_float())
    return ranks if axis is None else moveaxis(ranks, -1, axis)


def _ranks(x: Array, method: str) -> Array:
    last = len(shape_of(x)) - 1
    order = argsort(x)
    new, first, place = _runs(take_along_axis(x, order, -1))
    n = shape_of(x)[-1]
    # The place of the last of a kind: before the next first one.
    following = lax.concatenate([new[..., 1:], lax.full((*shape_of(x)[:-1], 1), True)], last)
    end = lax.cummin(where3(following, place, n - 1), last, reverse=True)
    kind = default_float()
    in_order = {
        "ordinal": lambda: place + 1,
        "min": lambda: first + 1,
        "max": lambda: end + 1,
        "dense": lambda: cumsum(astype(new, np.dtype(np.int32)), last),
        "average": lambda: 0.5 * astype(first + end, kind) + 1,
    }[method]()
    ranks = take_along_axis(astype(in_order, kind), argsort(order), -1)
    if not is_float(dtype_of(x)):
        return ranks
    return where3(_any(lax.ne(x, x), -1, keepdims=True), np.nan, ranks)


@inline_jit("axis", "ddof", "nan_policy", "keepdims")
def sem(
    a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Array:
    """The standard error of the mean along an axis (None: of all): the standard deviation by the root of the count.

    `ddof` is taken off the count in the standard deviation. With `nan_policy="omit"` NaN are left out.

    Raises:
      ArgumentError: another `nan_policy` than "propagate" and "omit".

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import stats
    >>> round(float(stats.sem(jnp.array([1., 2., 3.]))), 3)
    0.577
    """
    (x,) = promote_inexact(value(a, "sem"))
    if nan_policy == "propagate":
        size = x.size if axis is None else shape_of(x)[axis_of(axis, len(shape_of(x)))]
        return std(x, axis, ddof=ddof, keepdims=keepdims) / float(np.sqrt(size))
    if nan_policy == "omit":
        count = _sum(astype(lax.eq(x, x), dtype_of(x)), axis, keepdims=keepdims)
        return nanstd(x, axis, ddof=ddof, keepdims=keepdims) / sqrt(count)
    raise ArgumentError(f"sem: nan_policy={nan_policy!r}", '"propagate" or "omit"')
