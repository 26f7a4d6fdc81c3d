"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import lax
from ...core.support.errors import ArgumentError, ConcretizationError, plural
from ...core.tracing.trace import Tracer
from .. import reductions
from ..shape import moveaxis
from ..util import Array, ArrayLike, axes_of, dtype_of, inline_jit, is_complex, promote_dtypes_inexact, shape_of, value


@inline_jit("ord", "axis", "keepdims")
def norm(x: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:  # noqa: A002
    """The norm of vectors (along one axis) or matrices (over two), or of an array laid flat.

    Vectors: any order p, inf, -inf, 0. Matrices: 'fro', 'nuc', 1, -1, 2, -2, inf, -inf.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.norm(jnp.array([3., 4.]))
    Array(5., dtype=float32)
    """
    (x,) = promote_dtypes_inexact(value(x, "norm"))
    rank = len(shape_of(x))
    if axis is None and ord is None:
        return lax.sqrt(reductions.sum(_squared(x), None, keepdims=keepdims))
    axes = axes_of(axis, rank)
    if len(axes) == 1:
        return _vector_norm(x, axes, 2 if ord is None else ord, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, axes, "fro" if ord is None else ord, keepdims)
    raise ArgumentError(f"a norm over {plural(len(axes), 'axis')}", "use one axis for vectors, two for matrices")


def _squared(x: Array) -> Array:
    return lax.real(x * lax.conj(x)) if is_complex(dtype_of(x)) else x * x


def _largest(x: Array, axes: Any, keepdims: bool = False) -> Array:
    """The largest magnitude, 0 of none."""
    size = math.prod(shape_of(x)[d] for d in axes_of(axes, len(shape_of(x))))
    return reductions.max(x, axes, keepdims=keepdims, initial=None if size else 0)


def _vector_norm(x: Array, axes: Any, order: Any, keepdims: bool) -> Array:
    if isinstance(order, str):
        raise ArgumentError(f"norm {order!r} of vectors", "use a number, inf or -inf")
    if isinstance(order, Tracer):
        raise ConcretizationError(f"the order of a norm is {order.describe()}", "pass a number")
    if order == np.inf:
        return _largest(lax.abs(x), axes, keepdims)
    if order == -np.inf:
        return reductions.min(lax.abs(x), axes, keepdims=keepdims)
    if order == 0:
        nonzero = lax.ne(x, np.zeros((), dtype_of(x))[()])
        return reductions.sum(nonzero, axes, np.zeros((), dtype_of(x)).real.dtype, keepdims=keepdims)
    if order == 1:
        return reductions.sum(lax.abs(x), axes, keepdims=keepdims)
    if order == 2:
        return lax.sqrt(reductions.sum(_squared(x), axes, keepdims=keepdims))
    return reductions.sum(lax.abs(x) ** float(order), axes, keepdims=keepdims) ** (1.0 / order)


def _matrix_norm(x: Array, axes: Any, order: Any, keepdims: bool) -> Array:
    if order == "fro":
        return lax.sqrt(reductions.sum(_squared(x), axes, keepdims=keepdims))
    if order in ("nuc", 2, -2):
        return _by_singular_values(x, axes, order, keepdims)
    choices = {
        1: (0, _largest),
        -1: (0, reductions.min),
        np.inf: (1, _largest),
        -np.inf: (1, reductions.min),
    }
    if order not in choices:
        raise ArgumentError(f"norm {order!r} of matrices", "one of 'fro', 'nuc', 1, -1, 2, -2, inf, -inf")
    which, best = choices[order]
    # The largest sum of magnitudes along one axis; the other is reduced last.
    total = reductions.sum(lax.abs(x), axes[which], keepdims=True)
    result = best(total, axes[1 - which], keepdims=True)
    return result if keepdims else lax.squeeze(result, tuple(sorted(axes)))


def _by_singular_values(x: Array, axes: Any, order: Any, keepdims: bool) -> Array:
    values = lax.linalg.svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
    fold = {"nuc": reductions.sum, 2: _largest, -2: reductions.min}[order]
    found = fold(values, -1)
    return lax.expand_dims(found, tuple(sorted(axes))) if keepdims else found


@inline_jit("axis", "keepdims", "ord")
def vector_norm(x: ArrayLike, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:  # noqa: A002
    """The norm of vectors along axes laid flat, or of the whole array.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.vector_norm(jnp.array([3., 4.]))
    Array(5., dtype=float32)
    """
    (x,) = promote_dtypes_inexact(value(x, "vector_norm"))
    return _vector_norm(x, axes_of(axis, len(shape_of(x))), ord, keepdims)


@inline_jit("keepdims", "ord")
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:  # noqa: A002
    """The norm of matrices in the last two axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.matrix_norm(jnp.array([[3., 4.]]))
    Array(5., dtype=float32)
    """
    (x,) = promote_dtypes_inexact(value(x, "matrix_norm"))
    rank = len(shape_of(x))
    return _matrix_norm(x, (rank - 2, rank - 1), ord, keepdims)
