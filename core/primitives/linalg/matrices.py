"""Matrices in the last two axes: products, transposes, triangles and diagonals, by the core's primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.array import ArrayLike, DTypeLike
from ...ir.types import INT32, is_complex
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import like, zeros
from ...transforms.structural_primitives import spread
from ..contraction.dot_general import Precision, batch_matmul
from ..elementwise.arithmetic import add_p, mul_p
from ..elementwise.comparison import eq_p, ge_p, le_p, select_n_p
from ..elementwise.conversion import conj_p, convert_element_type, real_p
from ..movement.gather_functions import take_along
from ..movement.shape import broadcast_in_dim, broadcasted_iota, pad, slice, squeeze, transpose_p
from ..reduction.reduce import reduce_sum_p

EXACT = (Precision.HIGHEST, Precision.HIGHEST)  # factorisations lose too many digits in a matrix unit's fast modes


def product(*factors: Any) -> Any:
    """The product of matrices with equal leading axes, from the left."""
    out, *rest = factors
    for factor in rest:
        out = batch_matmul(out, factor, EXACT)
    return out


def transposed(x: ArrayLike) -> Any:
    """The last two axes exchanged."""
    n = len(shape_of(x))
    return transpose_p.bind(x, permutation=(*range(n - 2), n - 1, n - 2))


def conjugate(x: ArrayLike) -> Any:
    """The complex conjugate; a real array stays as it is."""
    dtype = typeof(x).dtype
    return conj_p.bind(x, input_dtype=dtype) if is_complex(dtype) else x


def adjoint(x: ArrayLike) -> Any:
    """The conjugate transpose."""
    return conjugate(transposed(x))


def half(x: ArrayLike) -> Any:
    """Half of an array."""
    return mul_p.bind(x, like(x, 0.5))


def hermitian(x: ArrayLike) -> Any:
    """The Hermitian part of square matrices: half of the sum with the adjoint."""
    return half(add_p.bind(x, adjoint(x)))


def triangle(x: ArrayLike, lower: bool, offset: int = 0) -> Any:
    """The elements on one side of a diagonal (which is kept), zeros elsewhere."""
    shape = shape_of(x)
    row, column = (broadcasted_iota(INT32, shape, len(shape) - 2), broadcasted_iota(INT32, shape, len(shape) - 1))
    row = add_p.bind(row, np.int32(offset)) if offset else row
    return select_n_p.bind((ge_p if lower else le_p).bind(row, column), zeros(typeof(x).strong()), x)  # type: ignore[union-attr]


def from_triangle(x: ArrayLike, lower: bool) -> Any:
    """The Hermitian matrices of which one triangle is given; imaginary parts of diagonals are passed over."""
    type: Any = typeof(x).strong()
    strict = triangle(x, lower, -1 if lower else 1)
    real = convert_element_type(real_p.bind(x), type.dtype) if is_complex(type.dtype) else x
    on = select_n_p.bind(on_diagonal(type.shape), zeros(type), real)
    return add_p.bind(add_p.bind(strict, adjoint(strict)), on)


def on_diagonal(shape: tuple[int, ...]) -> Any:
    """Where the column is the row: an array of booleans."""
    row, column = (broadcasted_iota(INT32, shape, len(shape) - 2), broadcasted_iota(INT32, shape, len(shape) - 1))
    return eq_p.bind(row, column)


def eye(shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Identity matrices of a shape, which need not be square."""
    zero, one = np.zeros((), dtype)[()], np.ones((), dtype)[()]
    return select_n_p.bind(on_diagonal(shape), spread(zero, shape), spread(one, shape))


def diagonal(x: ArrayLike) -> Any:
    """The diagonals of matrices, as vectors as long as the shorter of the two axes; the transpose needs no scatter."""
    shape = shape_of(x)
    rows, columns = shape[-2:]
    masked = select_n_p.bind(on_diagonal(shape), zeros(typeof(x).strong()), x)  # type: ignore[union-attr]
    return reduce_sum_p.bind(masked, axes=(len(shape) - 2 if columns <= rows else len(shape) - 1,))


def picked_diagonal(x: ArrayLike) -> Any:
    """The same, reading only those elements; the transpose is a scatter."""
    shape = shape_of(x)
    rank, (rows, columns) = len(shape), shape[-2:]
    k = min(rows, columns)
    places = broadcasted_iota(INT32, (*shape[:-2], k, 1), rank - 2)
    found = take_along(part(x, k, columns), places, rank - 1, unique=True)
    return squeeze(found, (rank - 1,))


def real_diagonal(x: ArrayLike) -> Any:
    """The real parts of the diagonals."""
    found = diagonal(x)
    return real_p.bind(found) if is_complex(typeof(x).dtype) else found


def rows_of(v: ArrayLike, count: int) -> Any:
    """Vectors as the rows of matrices, `count` times each."""
    shape = shape_of(v)
    n = len(shape)
    return broadcast_in_dim(v, (*shape[:-1], count, shape[-1]), (*range(n - 1), n))


def columns_of(v: ArrayLike, count: int) -> Any:
    """Vectors as the columns of matrices, `count` times each."""
    shape = shape_of(v)
    return broadcast_in_dim(v, (*shape, count), tuple(range(len(shape))))


def part(x: ArrayLike, rows: int, columns: int) -> Any:
    """The first rows and columns of matrices."""
    shape = shape_of(x)
    return slice(x, [0] * len(shape), [*shape[:-2], rows, columns])


def padded(x: ArrayLike, rows: int, columns: int) -> Any:
    """Matrices with zeros below and to the right, up to a size."""
    shape = shape_of(x)
    lead = [(0, 0, 0)] * (len(shape) - 2)
    zero = np.zeros((), typeof(x).dtype)[()]
    return pad(x, zero, [*lead, (0, rows - shape[-2], 0), (0, columns - shape[-1], 0)])
