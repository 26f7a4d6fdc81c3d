"""Matrices by pattern: identities, triangles, diagonals, powers."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import lax
from ..core.ir.static_ints import integer
from ..core.support.call_errors import public
from ..core.support.config import config
from ..core.support.errors import ArgumentError
from . import util
from .arithmetic import power
from .create import arange, full
from .shape import moveaxis
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_bool,
    is_evaluating,
    make_array,
    put,
    shape_argument,
    shape_of,
    typeof,
    value,
)


@public
def eye(N: int, M: int | None = None, k: Any = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """A matrix with ones on diagonal number `k` and zeros elsewhere.

    >>> from tilewright import numpy as jnp
    >>> jnp.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    n, m = shape_argument((N, N if M is None else M))
    dtype = dtype_argument(dtype, float)
    if not isinstance(k, util.Value):
        k = min(max(integer(k, "k", "eye"), -n), m)  # beyond them there is no such diagonal
    if is_evaluating():
        return put(make_array(np.eye(n, m, integer(k, "k", "eye")).astype(dtype)), device)
    rows, columns = (lax.broadcasted_iota(np.dtype(np.int32), (n, m), d) for d in (0, 1))
    return put(util.astype(rows + k == columns, dtype), device)


@public
def identity(n: int, dtype: DTypeLike = None) -> Array:
    """The square identity matrix.

    >>> from tilewright import numpy as jnp
    >>> jnp.identity(1)
    Array([[1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


@public
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """A matrix with ones at and below diagonal number `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.tri(2, dtype=int)
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    n, m = shape_argument((N, N if M is None else M))
    dtype = dtype_argument(dtype, float)
    k = _distance(k, "tri")
    if not isinstance(k, util.Value):
        np.asarray(k, np.int32)  # or an OverflowError
    if is_evaluating():
        return make_array(np.tri(n, m, operator.index(k)).astype(dtype))
    return util.astype(_lower(n, m, k), dtype)


def _distance(k: Any, function: str) -> Any:
    """The number of a diagonal: an integer, or an array of one."""
    return k if isinstance(k, util.Value) else integer(k, "k", function)


def _lower(n: int, m: int, k: int) -> Array:
    rows, columns = (lax.broadcasted_iota(np.dtype(np.int32), (n, m), d) for d in (0, 1))
    return rows + util.astype(k, rows.dtype) >= columns


@inline_jit("k")
def tril(m: ArrayLike, k: int = 0) -> Array:
    """The lower triangle of a matrix, or of each matrix of a stack; zeros above diagonal `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.tril(jnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle(value(m, "tril"), _distance(k, "tril"), True)


@inline_jit("k")
def triu(m: ArrayLike, k: int = 0) -> Array:
    """The upper triangle of a matrix, or of each matrix of a stack; zeros below diagonal `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.triu(jnp.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _triangle(value(m, "triu"), _distance(k, "triu") - 1, False)


def _triangle(m: Array, k: int, lower: bool) -> Array:
    shape = shape_of(m)
    if len(shape) < 2:
        raise ArgumentError(f"a triangle of an array of shape {shape}", "pass at least two dimensions")
    mask = util.broadcast_to_shape(_lower(shape[-2], shape[-1], k), shape)
    nothing = util.broadcast_to_shape(np.zeros((), dtype_of(m))[()], shape)
    return util.as_weak_as(lax.select(mask, m, nothing) if lower else lax.select(mask, nothing, m), m)


@inline_jit("k")
def diag(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with a vector on diagonal number `k`, or that diagonal of a matrix.

    >>> from tilewright import numpy as jnp
    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    v, k = value(v, "diag"), integer(k, "k", "diag")
    if len(shape_of(v)) == 2:
        return diagonal(v, offset=k)
    if len(shape_of(v)) != 1:
        raise ArgumentError(f"diag of an array of shape {shape_of(v)}", "pass a vector or a matrix")
    n = shape_of(v)[0]
    size = n + abs(k)
    zero = np.zeros((), dtype_of(v))[()]
    row = lax.pad(v, zero, ((max(0, k), max(0, -k), 0),))
    mask = eye(size, size, k, dtype=bool)
    parts = (util.broadcast_to_shape(x, (size, size)) for x in (row, zero))
    return util.as_weak_as(lax.select(mask, *parts), v)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with the flattened input on diagonal number `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.diagflat(jnp.array([[1, 2]])).shape
    (2, 2)
    """
    v = value(v, "diagflat")
    return util.strong(diag(lax.reshape(v, (typeof(v).size,)), k))


@inline_jit("offset", "axis1", "axis2")
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """A diagonal of each matrix that two axes span, along a new last axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.diagonal(jnp.arange(4).reshape(2, 2))
    Array([0, 3], dtype=int32)
    """
    a, offset = value(a, "diagonal"), integer(offset, "offset", "diagonal")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    *lead, n, m = shape_of(a)
    start, size = (max(0, -offset), max(0, offset)), max(0, min(n + min(offset, 0), m - max(offset, 0)))
    if size == 0:
        return full((*lead, 0), 0, dtype_of(a))
    rows, columns = (arange(first, first + size) for first in start)
    return a.at[..., rows, columns].get(mode="promise_in_bounds", unique_indices=True, indices_are_sorted=True)


@public
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The Vandermonde matrix of a vector: its powers in columns.

    >>> from tilewright import numpy as jnp
    >>> jnp.vander(jnp.array([1, 2]), 3)
    Array([[1, 1, 1],
           [4, 2, 1]], dtype=int32)
    """

    x = value(x, "vander")
    n = shape_of(x)[0] if N is None else integer(N, "N", "vander")
    powers = arange(n) if increasing else arange(n - 1, -1, -1)
    with config(numpy_dtype_promotion="standard"):
        result = power(lax.expand_dims(x, (1,)), lax.expand_dims(powers, (0,)))
    return util.astype(result, util.default_int() if is_bool(dtype_of(x)) else dtype_of(x))


__all__ = [
    "diag", "diagflat", "diagonal", "eye", "identity", "tri", "tril", "triu", "vander",
]  # fmt: skip
