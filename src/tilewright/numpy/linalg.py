"""`numpy.linalg`: norms, powers and products of matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import lax
from ..core.errors import ArgumentError, ShapeError
from . import contract, reductions
from .matrices import diagonal as _diagonal
from .matrices import eye
from .shape import broadcast_to, matrix_transpose
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    axes_of,
    composite,
    dtype_of,
    is_complex,
    promote_dtypes_inexact,
    shape_of,
    value,
)


@composite("ord", "axis", "keepdims")
def norm(x: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:  # noqa: A002
    """The norm of vectors (along one axis) or matrices (over two), or of an array laid flat.

    Vectors: any order p, inf, -inf, 0. Matrices: 'fro', 1, -1, inf, -inf.

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
    raise ArgumentError(f"a norm over {len(axes)} axes", "use one axis for vectors, two for matrices")


def _squared(x: Array) -> Array:
    return lax.real(x * lax.conj(x)) if is_complex(dtype_of(x)) else x * x


def _vector_norm(x: Array, axes: Any, order: Any, keepdims: bool) -> Array:
    if isinstance(order, str):
        raise ArgumentError(f"norm {order!r} of vectors", "use a number, inf or -inf")
    if order == np.inf:
        return reductions.max(lax.abs(x), axes, keepdims=keepdims)
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
    choices = {
        1: (0, reductions.max),
        -1: (0, reductions.min),
        np.inf: (1, reductions.max),
        -np.inf: (1, reductions.min),
    }
    if order not in choices:
        raise ArgumentError(f"norm {order!r} of matrices", "one of 'fro', 1, -1, inf, -inf")
    which, best = choices[order]
    # The largest sum of magnitudes along one axis; the other is reduced last.
    total = reductions.sum(lax.abs(x), axes[which], keepdims=True)
    result = best(total, axes[1 - which], keepdims=True)
    return result if keepdims else lax.squeeze(result, tuple(sorted(axes)))


@composite("axis", "keepdims", "ord")
def vector_norm(x: ArrayLike, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:  # noqa: A002
    """The norm of vectors along axes laid flat, or of the whole array.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.vector_norm(jnp.array([3., 4.]))
    Array(5., dtype=float32)
    """
    (x,) = promote_dtypes_inexact(value(x, "vector_norm"))
    return _vector_norm(x, axes_of(axis, len(shape_of(x))), ord, keepdims)


@composite("keepdims", "ord")
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:  # noqa: A002
    """The norm of matrices in the last two axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.matrix_norm(jnp.array([[3., 4.]]))
    Array(5., dtype=float32)
    """
    (x,) = promote_dtypes_inexact(value(x, "matrix_norm"))
    rank = len(shape_of(x))
    return _matrix_norm(x, (rank - 2, rank - 1), ord, keepdims)


@composite("n")
def matrix_power(a: ArrayLike, n: int) -> Array:
    """A square matrix multiplied by itself `n` times, by repeated squaring.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 3)
    Array([[1, 3],
           [0, 1]], dtype=int32)
    """
    a, n = value(a, "matrix_power"), operator.index(n)
    if len(shape_of(a)) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise ShapeError(f"a power of an array of shape {shape_of(a)}", "pass square matrices")
    if n < 0:
        raise ArgumentError(f"matrix power {n}", "negative powers need an inverse, which is not offered here")
    if n == 0:
        return broadcast_to(eye(shape_of(a)[-1], dtype=dtype_of(a)), shape_of(a))
    result = None
    while n:
        if n & 1:
            result = a if result is None else contract.matmul(result, a)
        n >>= 1
        a = contract.matmul(a, a) if n else a
    return result


@composite("precision")
def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """The product of several matrices in the cheapest order; the first and last may be vectors.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    arrays = [value(a, "multi_dot") for a in arrays]
    if len(arrays) < 2:
        raise ArgumentError(f"multi_dot of {len(arrays)} arrays", "pass two or more")
    letters = [chr(ord_) for ord_ in range(ord("a"), ord("a") + len(arrays) + 1)]
    terms = [letters[i] + letters[i + 1] for i in range(len(arrays))]
    if len(shape_of(arrays[0])) == 1:
        terms[0] = letters[1]
    if len(shape_of(arrays[-1])) == 1:
        terms[-1] = letters[-2]
    output = ("" if len(shape_of(arrays[0])) == 1 else letters[0]) + (
        "" if len(shape_of(arrays[-1])) == 1 else letters[-1]
    )
    return contract.einsum(f"{','.join(terms)}->{output}", *arrays, optimize="optimal", precision=precision)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector product of vectors of 3 components.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    if shape_of(x1)[axis] != 3 or shape_of(x2)[axis] != 3:
        raise ShapeError(f"linalg.cross of shapes {shape_of(x1)} and {shape_of(x2)}", "vectors have 3 components")
    return contract.cross(x1, x2, axis=axis)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The product of every pair of elements of two vectors.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3])).shape
    (2, 1)
    """
    if len(shape_of(x1)) != 1 or len(shape_of(x2)) != 1:
        raise ShapeError(f"linalg.outer of shapes {shape_of(x1)} and {shape_of(x2)}", "pass vectors")
    return contract.outer(x1, x2)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices in the last two axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.diagonal(jnp.ones((3, 2, 2))).shape
    (3, 2)
    """
    return _diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Array:
    """The sums of diagonals of matrices in the last two axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.trace(jnp.ones((2, 2)))
    Array(2., dtype=float32)
    """
    return contract.trace(x, offset, -2, -1, dtype)


def matmul(
    x1: ArrayLike, x2: ArrayLike, /, *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The matrix product.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.matmul(jnp.ones((1, 2)), jnp.ones((2, 1)))
    Array([[2.]], dtype=float32)
    """
    return contract.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, *, axes: Any = 2, precision: Any = None,
    preferred_element_type: DTypeLike = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The product over some axes of two arrays.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.tensordot(jnp.ones((1, 2)), jnp.ones((2, 1)), axes=1).shape
    (1, 1)
    """
    return contract.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The product of vectors along an axis, the first conjugated.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.vecdot(jnp.ones(3), jnp.ones(3))
    Array(3., dtype=float32)
    """
    return contract.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot", "norm", "outer",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
