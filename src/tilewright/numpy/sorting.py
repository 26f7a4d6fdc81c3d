"""Sorting, ranking and searching."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import lax
from ..core.ir.array import DTypeLike
from ..core.ir.static_ints import integer
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, ArgumentTypeError
from .elementwise import isnan, where3
from .index import take, take_along_axis
from .shape import ravel
from .util import (
    Array,
    ArrayLike,
    as_weak_as,
    astype,
    axis_of,
    broadcast_to_shape,
    default_int,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_complex,
    is_inexact,
    promote_dtypes,
    shape_of,
    to_inexact,
    value,
)


def _no_choice(kind: Any, order: Any) -> None:
    if kind is not None or order is not None:
        raise ArgumentTypeError("sort takes neither `kind` nor `order`", "use `stable` to choose a stable sort")


def _along(a: Any, axis: int | None, name: str) -> tuple[Array, int]:
    a = value(a, name)
    return (ravel(a), 0) if axis is None else (a, axis_of(axis, len(shape_of(a))))


@public
def sort(
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
    descending: bool = False,
) -> Array:  # fmt: skip
    """The elements in order along an axis, nan last.

    >>> from tilewright import numpy as jnp
    >>> jnp.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    _no_choice(kind, order)
    return _sort(a, axis, stable, descending)


@inline_jit("axis", "stable", "descending")
def _sort(a: Any, axis: Any, stable: bool, descending: bool) -> Array:
    a, axis = _along(a, axis, "sort")
    result = lax.sort(a, axis, stable)
    return lax.rev(result, (axis,)) if descending else result


@public
def argsort(
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
    descending: bool = False, dtype: DTypeLike = None,
) -> Array:  # fmt: skip
    """The indices that put elements in order along an axis, nan last; equal elements keep their order.

    >>> from tilewright import numpy as jnp
    >>> jnp.argsort(jnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    _no_choice(kind, order)
    return _argsort(a, axis, stable, descending, dtype_argument(dtype))


@inline_jit("axis", "stable", "descending", "dtype")
def _argsort(a: Any, axis: Any, stable: bool = True, descending: bool = False, dtype: DTypeLike = None) -> Array:
    a, axis = _along(a, axis, "argsort")
    a = lax.rev(a, (axis,)) if descending else a  # reversed twice, equal elements keep their order
    places = lax.broadcasted_iota(dtype or default_int(), shape_of(a), axis)
    order = lax.sort((a, places), axis, stable, 1)[1]
    return lax.rev(shape_of(a)[axis] - 1 - order, (axis,)) if descending else order


@inline_jit("axis")
def lexsort(keys: Any, axis: int = -1) -> Array:
    """The indices that sort by several keys, the last key first.

    >>> from tilewright import numpy as jnp
    >>> jnp.lexsort((jnp.array([1, 0, 0]), jnp.array([0, 0, 0])))
    Array([1, 2, 0], dtype=int32)
    """
    keys = [value(k) for k in (keys if isinstance(keys, (tuple, list)) else list(keys))]
    if not keys:
        raise ArgumentError("lexsort of no keys", "pass at least one")
    if not shape_of(keys[0]):
        return np.zeros((), default_int())[()]  # type: ignore[return-value]
    axis = axis_of(axis, len(shape_of(keys[0])))
    places = lax.broadcasted_iota(default_int(), shape_of(keys[0]), axis)
    return lax.sort((*keys[::-1], places), axis, True, len(keys))[-1]


@inline_jit("kth", "axis")
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Elements rearranged so that element `kth` is in its sorted place, smaller ones before it.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.partition(jnp.array([3, 1, 2]), 1)[1])
    2
    """
    a = value(a, "partition")
    axis_of(kth, shape_of(a)[axis_of(axis, len(shape_of(a)))])
    return sort(a, axis, stable=False)


@inline_jit("kth", "axis")
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The indices of `partition`.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.argpartition(jnp.array([3, 1, 2]), 1)[1])
    2
    """
    a = value(a, "argpartition")
    axis_of(kth, shape_of(a)[axis_of(axis, len(shape_of(a)))])
    return as_weak_as(argsort(a, axis, stable=False), a)


@inline_jit()
def sort_complex(a: ArrayLike) -> Array:
    """Numbers as complex ones, sorted by real part, then by imaginary part.

    >>> from tilewright import numpy as jnp
    >>> jnp.sort_complex(jnp.array([2., 1.])).dtype
    dtype('complex64')
    """
    a = sort(value(a, "sort_complex"))
    if is_complex(dtype_of(a)):
        return a
    return astype(a, np.result_type(to_inexact(dtype_of(a)), np.complex64))


@inline_jit("k", "axis", "mode")
def _top_k(a: Any, k: int, axis: int, mode: str) -> tuple[Array, Array]:
    a = value(a, "top_k")
    axis = axis_of(axis, len(shape_of(a)))
    if mode == "smallest":
        order = lax.slice_in_dim(argsort(a, axis), 0, k, axis=axis)

        return take_along_axis(a, order, axis), astype(order, np.dtype(np.int32))
    best, places = lax.top_k(a, k, axis=axis)
    return best, places


def top_k(
    a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True
) -> tuple[Array, Array]:  # noqa: A002
    """The `k` largest (or smallest) elements along an axis, in order, and their indices.

    >>> from tilewright import numpy as jnp
    >>> [v.tolist() for v in jnp.top_k(jnp.array([1, 3, 2]), 2)]
    [[3, 2], [1, 2]]
    """
    if mode not in ("largest", "smallest"):
        raise ArgumentError(f"there is no mode {mode!r} of top_k", "one of 'largest', 'smallest'")
    best, places = _top_k(a, integer(k, "k", "top_k"), axis, mode)
    return best, places


# ---------------------------------------------------------------------------- searching

METHODS = ("scan", "scan_unrolled", "sort", "compare_all")


@public
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *, method: str = "scan"
) -> Array:
    """Where values belong in a sorted vector: before equal elements (`left`) or after them (`right`).

    `method` chooses the algorithm: a binary search (`scan`, `scan_unrolled`), comparison with all
    elements (`compare_all`), or `sort`; the result is the same.

    >>> from tilewright import numpy as jnp
    >>> jnp.searchsorted(jnp.array([1, 2, 4]), jnp.array([2, 3]))
    Array([1, 2], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"there is no side {side!r}", "one of 'left', 'right'")
    if method not in METHODS:
        raise ArgumentError(f"there is no method {method!r} of searchsorted", f"one of {METHODS}")
    if len(shape_of(a)) != 1:
        raise ArgumentError(f"searchsorted in an array of shape {shape_of(a)}", "pass a sorted vector")
    return _searchsorted(a, v, side, sorter, method)


def _before(x: Array, y: Array) -> Array:
    """Whether x sorts before y: nan after every number."""
    if not is_inexact(dtype_of(x)):
        return lax.lt_p.bind(x, y)
    if is_complex(dtype_of(x)):
        (rx, ix), (ry, iy) = ((lax.real(z), lax.imag(z)) for z in (x, y))
        tied = lax.bitwise_not(_before(ry, rx))
        return lax.bitwise_or(_before(rx, ry), lax.bitwise_and(tied, _before(ix, iy)))
    return lax.bitwise_or(lax.lt_p.bind(x, y), lax.bitwise_and(isnan(y), lax.bitwise_not(isnan(x))))


@inline_jit("side", "method")
def _searchsorted(a: Any, v: Any, side: str, sorter: Any = None, method: str = "scan") -> Array:
    a, v = promote_dtypes(value(a), value(v))
    if sorter is not None:
        a = take(a, sorter, mode="clip")
    n, shape = shape_of(a)[0], shape_of(v)
    dtype = default_int()
    if n == 0:
        return lax.full(shape, 0, dtype)

    def after(elements: Array) -> Array:
        """Whether values belong after some elements."""
        wide = broadcast_to_shape(v, shape_of(elements)) if shape_of(elements) != shape else v
        return _before(elements, wide) if side == "left" else lax.bitwise_not(_before(wide, elements))

    if method == "compare_all" or (method == "sort" and not shape):
        table = broadcast_to_shape(lax.reshape(a, (n,) + (1,) * len(shape)), (n, *shape))
        return lax.reduce_sum_p.bind(astype(after(table), dtype), axes=(0,))
    if method == "sort":
        return _by_sorting(a, v, side, dtype)

    # Elements up to `low` come before the value and those from `high` on do not; -1 and n stand for the ends.
    low, high = lax.full_like(v, -1, dtype), lax.full_like(v, n, dtype)

    def narrow(bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = lax.shift_right_arithmetic(low + high, 1)
        inside = lax.gt(high - low, 1)
        up = after(take(a, where3(inside, middle, 0), mode="promise_in_bounds"))
        return where3(lax.bitwise_and(inside, up), middle, low), where3(
            lax.bitwise_and(inside, lax.bitwise_not(up)), middle, high
        )

    steps = math.ceil(math.log2(n + 1))
    if method == "scan_unrolled":
        for _ in range(steps):
            low, high = narrow((low, high))
        return high
    return lax.fori_loop(0, steps, lambda _, bounds: narrow(bounds), (low, high))[1]


def _by_sorting(a: Array, v: Array, side: str, dtype: DTypeLike) -> Array:
    """Sort both together; a value's place is its place there less the number of values before it."""
    flat = ravel(v)
    n, m = shape_of(a)[0], shape_of(flat)[0]
    both = lax.concatenate([flat, a] if side == "left" else [a, flat], 0)
    ranks = argsort(argsort(both))
    mine = lax.slice_in_dim(ranks, 0, m) if side == "left" else lax.slice_in_dim(ranks, n, n + m)
    among = argsort(argsort(flat))
    return astype(lax.reshape(mine - among, shape_of(v)), dtype)


@inline_jit("right", "method")
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """The number of the bin that holds each value; bins rise or fall.

    >>> from tilewright import numpy as jnp
    >>> jnp.digitize(jnp.array([0.5, 2.5]), jnp.array([1., 2., 3.]))
    Array([0, 2], dtype=int32)
    """
    x, bins = value(x, "digitize"), value(bins, "digitize")
    if len(shape_of(bins)) != 1:
        raise ArgumentError(f"bins of shape {shape_of(bins)}", "pass a vector")
    n, how = shape_of(bins)[0], method or "scan"
    if n == 0:
        return lax.full(shape_of(x), 0, default_int())
    side = "left" if right else "right"
    rising = searchsorted(bins, x, side, method=how)
    falling = n - searchsorted(lax.rev(bins, (0,)), x, side, method=how)
    return where3(lax.ge(bins[-1], bins[0]), rising, falling)


__all__ = [
    "argpartition", "argsort", "digitize", "lexsort", "partition", "searchsorted", "sort", "sort_complex", "top_k",
]  # fmt: skip
