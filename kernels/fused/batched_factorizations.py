"""Factors of many small matrices, up to 64 rows: a cell takes some matrices whole and works on all of them at once.

A solver library is called for one matrix after another, or works on batches through global memory; here a matrix is
read once and stays in registers. A column or a row is taken out by a mask and a sum, so that nothing is indexed at a
traced place. On the CPU it is the library that runs: there its loop over matrices is several times faster.

G. Golub and C. Van Loan, "Matrix Computations", 4th edition: outer products (3.2.9, 4.2.5), partial pivoting (3.4.1),
Householder's reflections (5.2.1). Derivatives are those of the primitives of linear algebra.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import lax
from tilewright import numpy as jnp

from ...core.api.transformations import program_of
from ...core.ir.array import Array, ArrayLike, Operand
from ...core.ir.types import ArrayType
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...core.primitives.linalg.cholesky import cholesky_p
from ...core.primitives.linalg.lu import lu_p
from ...core.primitives.linalg.qr import qr_p
from ...core.primitives.linalg.triangular import triangular_solve
from ...core.support.errors import DtypeError, ShapeError
from ...core.tracing.trace import shape_of
from ...core.transforms.jvp import jvp_flat
from ...lang.kernel.block_spec import BlockSpec
from ...lang.ops.basic import cdiv
from ...lang.targets.target import Target, current_target
from ..cost import Cost
from .base import Operation, by_blocks, dtype_of, like, nbytes, row_tile, work_dtype

if TYPE_CHECKING:
    from ...core.support.pytree import PyTree

LARGEST = 64  # rows of a matrix that a cell keeps

Formula = Callable[..., Sequence[Any]]


# ---------------------------------------------------------------------------- in a cell: (matrices, rows, columns)


def _places(x: Array, axis: int) -> Any:
    return lax.broadcasted_iota(np.int32, shape_of(x), axis)


def _row(x: Array, here: Array) -> Any:
    """The row at which a mask is set: (matrices, 1, columns)."""
    return jnp.where(here, x, 0).sum(1, keepdims=True)


def _column(x: Array, here: Array) -> Any:
    return jnp.where(here, x, 0).sum(2, keepdims=True)


def _flipped(x: Array) -> Any:
    """Columns (matrices, n, 1) as rows (matrices, 1, n), or rows as columns."""
    return x.reshape(x.shape[0], x.shape[2], x.shape[1])


def _cholesky(a: Array) -> list[Any]:
    """Lower factors; NaN throughout where a pivot is not positive."""
    rows, columns = _places(a, 1), _places(a, 2)

    def turn(j: Array, state: PyTree) -> Any:
        a, factor = state
        found = _column(a, columns == j)
        pivot = _row(found, rows[:, :, :1] == j)
        found = jnp.where(rows[:, :, :1] >= j, found * lax.rsqrt(pivot), 0)
        return a - found * _flipped(found), jnp.where(columns == j, found, factor)

    _, factor = lax.fori_loop(0, a.shape[1], turn, (a, jnp.zeros_like(a)))
    whole = factor.sum(2, keepdims=True).sum(1, keepdims=True)
    return [jnp.where(whole == whole, factor, jnp.nan)]


def _substituted(a: Array, b: Array, lower: bool, transposed: bool, unit: bool) -> Any:
    """X of A X = B (or its transpose) for triangular A, a row of X at a time."""
    n = a.shape[1]
    rows, columns, out_rows = _places(a, 1), _places(a, 2), _places(b, 1)
    downwards = lower != transposed

    def turn(step: Array, state: PyTree) -> Any:
        left, x = state
        j = step if downwards else n - 1 - step
        taken = _flipped(_row(a, rows == j)) if transposed else _column(a, columns == j)
        places = rows[:, :, :1]
        found = _row(left, out_rows == j)
        if not unit:
            found = found / _row(taken, places == j)
        later = jnp.where(places > j if downwards else places < j, taken, 0)
        return left - later * found, jnp.where(out_rows == j, found, x)

    return lax.fori_loop(0, n, turn, (b, jnp.zeros_like(b)))[1]


def _inverse(a: Array) -> list[Any]:
    """Inverses of positive definite matrices, by their factors."""
    (factor,) = _cholesky(a)
    one = (_places(a, 1) == _places(a, 2)).astype(a.dtype)
    return [_substituted(factor, _substituted(factor, one, True, False, False), True, True, False)]


def _lu(a: Array) -> list[Any]:
    """Both factors in one matrix, the pivots and the permutation of the rows."""
    n = a.shape[1]
    rows, columns = _places(a, 1), _places(a, 2)
    places = rows[:, :, :1]

    def swapped(x: Array, here: Array, there: Array) -> Any:
        return jnp.where(here, _row(x, there), jnp.where(there, _row(x, here), x))

    def turn(j: Array, state: PyTree) -> Any:
        a, pivots, order = state
        size = jnp.where(places >= j, abs(_column(a, columns == j)), -1)
        best = size.max(1, keepdims=True)
        pivot = jnp.where(size == best, places, n).min(1, keepdims=True)
        pivot = jnp.where(pivot < n, pivot, j)  # of what is not a number
        a = swapped(a, rows == j, rows == pivot)
        order = swapped(order, places == j, places == pivot)
        found, row = _column(a, columns == j), _row(a, rows == j)
        on = _row(found, places == j)
        below = jnp.where(places > j, found / jnp.where(on == 0, 1, on), 0)
        a = a - below * jnp.where(columns[:, :1] > j, row, 0)
        return jnp.where((columns == j) & (rows > j), below, a), jnp.where(places == j, pivot, pivots), order

    return lax.fori_loop(0, n, turn, (a, jnp.zeros_like(places), places))


def _qr(a: Array) -> list[Any]:
    """Q with orthonormal columns and the upper R, by reflections; as many rows as columns, or more."""
    m, n = a.shape[1:]
    rows, columns = _places(a, 1), _places(a, 2)
    places = rows[:, :, :1]
    square = (a.shape[0], m, m)
    one = (lax.broadcasted_iota(np.int32, square, 1) == lax.broadcasted_iota(np.int32, square, 2)).astype(a.dtype)

    def turn(j: Array, state: PyTree) -> Any:
        a, q = state
        x = jnp.where(places >= j, _column(a, columns == j), 0)
        first = _row(x, places == j)
        size = jnp.sqrt((x * x).sum(1, keepdims=True))
        below = (jnp.where(places > j, x * x, 0)).sum(1, keepdims=True)
        end = jnp.where(first >= 0, -size, size)
        v = jnp.where(places == j, first - end, x)
        length = (v * v).sum(1, keepdims=True)
        scale = jnp.where(below > 0, 2 / jnp.where(length == 0, 1, length), 0)
        a = a - scale * v * (v * a).sum(1, keepdims=True)
        return a, q - scale * (q * _flipped(v)).sum(2, keepdims=True) * _flipped(v)

    r, q = lax.fori_loop(0, n, turn, (a, one))
    return [q, jnp.where(rows <= columns, r, 0)]


# ---------------------------------------------------------------------------- as kernels


def _on_matrices(formula: Formula, outs: Sequence[ArrayType], name: str, target: Target, *arrays: Any) -> list[Any]:
    """A formula of some matrices, as a kernel over blocks of them; arrays and results are (matrices, rows, columns)."""
    count = shape_of(arrays[0])[0]
    work = work_dtype(*arrays)
    machine = current_target(target)
    lanes = 1 if machine.gpu or machine.whole_arrays else machine.lanes  # a TPU's rows are as long as its lanes
    widest = max(shape_of(a)[1] * cdiv(shape_of(a)[2], lanes) * lanes for a in arrays)
    tile = row_tile(count, widest * work.itemsize, target, arrays=8)

    def spec(shape: Sequence[int]) -> BlockSpec:
        return BlockSpec((tile, *shape[1:]), lambda i: (i, 0, 0))

    return by_blocks(
        formula, [(a, spec(shape_of(a))) for a in arrays], outs, [spec(t.shape) for t in outs], cdiv(count, tile), work,
        name,
    )  # fmt: skip


def _matrices(x: Operand, name: str, square: bool = True) -> Any:
    x = jnp.asarray(x)
    shape = shape_of(x)
    if len(shape) < 2 or square and shape[-1] != shape[-2] or shape[-1] > shape[-2]:
        raise ShapeError(f"{name} of an array of shape {shape}",
                         "pass square matrices" if square else "pass no more columns than rows")  # fmt: skip
    if shape[-2] > LARGEST:
        raise ShapeError(f"{name} of matrices of {shape[-2]} rows", f"at most {LARGEST}; `lax.linalg` has no limit")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise DtypeError(f"{name} of {x.dtype}", "pass real floats; `lax.linalg` takes complex numbers")
    return x


def _factors(formula: Formula, plain: Formula, name: str, target: Target, *arrays: Any) -> list[Any]:
    """A kernel of a formula of matrices, with the shapes and derivatives of `plain`, which is what runs on the CPU."""

    @custom_jvp
    def call(*flat: Any) -> list[Any]:
        work = work_dtype(*flat)
        program, _ = program_of(plain, [like(x, dtype=work) for x in flat])
        types = [like(flat[-1], t.shape, None if t.dtype == work else t.dtype) for t in program.out_types]
        return _on_matrices(formula, types, name, target, *flat)

    call.defjvp(lambda primals, tangents: jvp_flat(plain, primals, tangents))
    lead = shape_of(arrays[0])[:-2]
    flat = [x.reshape(-1, *shape_of(x)[-2:]) for x in arrays]
    outs = (plain if current_target(target).whole_arrays else call)(*flat)
    return [out.reshape(*lead, *shape_of(out)[1:]) for out in outs]


def small_cholesky(a: ArrayLike, *, target: str | None = None) -> Any:
    """The lower Cholesky factors of positive definite matrices (..., n, n), n at most 64; NaN where one is not.

    Only the lower triangle is read. Raises `ShapeError` for larger matrices and `DtypeError` for complex ones.

    >>> import numpy as np
    >>> print(small_cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32)))
    [[2. 0.]
     [1. 2.]]
    """
    a = _matrices(a, "small_cholesky")
    return _factors(_cholesky, lambda x: [cholesky_p.bind(x)], "small_cholesky", target, a)[0]


def small_inverse(a: ArrayLike, *, target: str | None = None) -> Any:
    """The inverses of positive definite matrices (..., n, n), n at most 64. Errors as those of `small_cholesky`.

    >>> import numpy as np
    >>> print(np.round(small_inverse(np.array([[2.0, 0.0], [0.0, 4.0]], np.float32)), 3))
    [[0.5  0.  ]
     [0.   0.25]]
    """
    a = _matrices(a, "small_inverse")
    return _factors(_inverse, lambda x: [_reference_inverse(x)], "small_inverse", target, a)[0]


def _reference_inverse(a: Array) -> Any:
    factor = cholesky_p.bind(a)
    one = jnp.broadcast_to(jnp.eye(shape_of(a)[-1], dtype=dtype_of(a)), shape_of(a))
    left = triangular_solve(factor, one, left_side=True, lower=True)
    return triangular_solve(factor, left, left_side=True, lower=True, transpose_a=True)


def small_lu(a: ArrayLike, *, target: str | None = None) -> tuple[Any, Any, Any]:
    """LU factors of matrices (..., n, n), n at most 64, as `lax.linalg.lu` gives them: factors, pivots, permutation.

    Errors as those of `small_cholesky`.

    >>> import numpy as np
    >>> factors, pivots, permutation = small_lu(np.array([[1.0, 1.0], [2.0, 4.0]], np.float32))
    >>> print(factors, pivots, permutation)
    [[ 2.   4. ]
     [ 0.5 -1. ]] [1 1] [1 0]
    """
    a = _matrices(a, "small_lu")

    def plain(x: Array) -> list[Any]:
        factors, pivots, order = lu_p.bind(x)
        return [factors, pivots[..., None], order[..., None]]

    factors, pivots, order = _factors(_lu, plain, "small_lu", target, a)
    return factors, pivots[..., 0], order[..., 0]


def small_qr(a: ArrayLike, *, target: str | None = None) -> tuple[Any, Any]:
    """QR factors of matrices (..., m, n), m at most 64 and n at most m: Q (..., m, n) and R (..., n, n).

    Errors as those of `small_cholesky`.

    >>> import numpy as np
    >>> print(small_qr(np.array([[3.0], [4.0]], np.float32))[1])
    [[-5.]]
    """
    a = _matrices(a, "small_qr", square=False)
    n = shape_of(a)[-1]

    def thin(x: Array) -> list[Any]:
        q, r = _qr(x)
        return [q[:, :, :n], r[:, :n]]

    q, r = _factors(thin, lambda x: qr_p.bind(x, pivoting=False, full_matrices=False), "small_qr", target, a)
    return q, r


def small_solve_triangular(
    a: ArrayLike, b: ArrayLike, *, lower: bool = True, transpose: bool = False, unit_diagonal: bool = False,
    target: str | None = None,
) -> Any:  # fmt: skip
    """The solutions X of A X = B, or of the transposed system, for triangles of matrices (..., n, n), n at most 64.

    `b` is (..., n, k) with the same leading axes. Errors as those of `small_cholesky`.

    >>> import numpy as np
    >>> print(small_solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]], np.float32), np.ones((2, 1), np.float32)))
    [[0.5]
     [0.5]]
    """
    a, b = _matrices(a, "small_solve_triangular"), jnp.asarray(b)
    if shape_of(b)[:-1] != shape_of(a)[:-1]:
        raise ShapeError(f"small_solve_triangular of systems {shape_of(a)} and right-hand sides {shape_of(b)}",
                         "pass (..., n, n) and (..., n, k)")  # fmt: skip
    how = lower, transpose, unit_diagonal
    return _factors(lambda a, b: [_substituted(a, b, *how)], lambda a, b: [_reference_solve(a, b, *how)],
                    "small_solve_triangular", target, a, b)[0]  # fmt: skip


def _count(share: float) -> Callable[..., Cost]:
    """The cost of what takes a share of n^3 operations for each matrix."""

    def cost(a: Array, *rest: Any, **_: Any) -> Cost:
        *lead, m, n = shape_of(a)
        return Cost(int(share * math.prod(lead) * m * n * n) + 1, math.prod(lead) * n, 2 * nbytes(a, *rest))

    return cost


def _reference_solve(
    a: Array, b: Array, lower: bool = True, transpose: bool = False, unit_diagonal: bool = False
) -> Any:
    return triangular_solve(a, b, left_side=True, lower=lower, transpose_a=transpose, unit_diagonal=unit_diagonal)


_REFERENCES: dict[str, Callable[..., Any]] = {
    "small_cholesky": cholesky_p.bind,
    "small_inverse": _reference_inverse,
    "small_lu": lambda a: tuple(lu_p.bind(a)),
    "small_qr": lambda a: tuple(qr_p.bind(a, pivoting=False, full_matrices=False)),
    "small_solve_triangular": _reference_solve,
}

OPERATIONS = tuple(
    Operation(f.__name__, f, _REFERENCES[f.__name__], _count(share))
    for f, share in (
        (small_cholesky, 1 / 3), (small_inverse, 1), (small_lu, 2 / 3), (small_qr, 2), (small_solve_triangular, 1),
    )
)  # fmt: skip
