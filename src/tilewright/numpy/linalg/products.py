"""Powers and products of matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...core.ir.binding import with_out_sharding
from ...core.primitives.contraction.dot_algorithms import PrecisionLike
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ShapeError
from .. import contract
from ..matrices import diagonal as _diagonal
from ..matrices import eye
from ..shape import broadcast_to
from ..util import (
    Array,
    ArrayLike,
    DTypeLike,
    dtype_of,
    inline_jit,
    shape_of,
    value,
)
from .solving import inv


@inline_jit("n")
def matrix_power(a: ArrayLike, n: int) -> Array:
    """A square matrix multiplied by itself `n` times, by repeated squaring; its inverse, for negative `n`.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 3)
    Array([[1, 3],
           [0, 1]], dtype=int32)
    """
    a, n = value(a, "matrix_power"), operator.index(n)
    if len(shape_of(a)) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise ShapeError(f"a power of an array of shape {shape_of(a)}", "pass square matrices")
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return broadcast_to(eye(shape_of(a)[-1], dtype=dtype_of(a)), shape_of(a))
    result: Any = None
    while n:
        if n & 1:
            result = a if result is None else contract.matmul(result, a)
        n >>= 1
        a = contract.matmul(a, a) if n else a
    return result


@inline_jit("precision")
def multi_dot(arrays: Sequence[ArrayLike], *, precision: PrecisionLike = None) -> Array:
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


@public
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
    x1: ArrayLike, x2: ArrayLike, /, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The matrix product.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.matmul(jnp.ones((1, 2)), jnp.ones((2, 1)))
    Array([[2.]], dtype=float32)
    """
    return contract.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, *, axes: Any = 2, precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The product over some axes of two arrays.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.tensordot(jnp.ones((1, 2)), jnp.ones((2, 1)), axes=1).shape
    (1, 1)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, tensordot, x1, x2, axes=axes, precision=precision,
                             preferred_element_type=preferred_element_type)  # fmt: skip
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
