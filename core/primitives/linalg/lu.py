"""LU factors with partial pivoting, what their row swaps mean, and solutions of square systems by them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike
from ...ir.axis_relation import Kind, Loops, Relation, Whole
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.types import INT32, ArrayType, is_integer
from ...support.errors import DtypeError, ShapeError
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import no_tangent, weak_as_operands
from ...transforms.structural_primitives import add_tangents, moveaxis, moved
from ..control_flow.while_loop import fori_loop
from ..elementwise.arithmetic import add_p, neg_p
from ..elementwise.comparison import eq_p, ge_p, select_n_p
from ..elementwise.conversion import stop_gradient_p
from ..movement.dynamic_slice import dynamic_index_in_dim, dynamic_update_slice
from ..movement.gather_functions import PROMISE, GatherDimensionNumbers, gather, take_along
from ..movement.shape import broadcast_in_dim, broadcasted_iota, expand_dims, reshape
from ..movement.sort import argsort
from .common import (
    check_batch,
    check_dtype,
    check_matrix,
    check_square,
    each,
    matrixwise,
    permutation_of,
    scipy_linalg,
)
from .matrices import adjoint, conjugate, eye, padded, part, product, transposed, triangle
from .triangular import substituted, triangular_solve

# ---------------------------------------------------------------------------- the factors


@cached(1024)
def _typing(x: ArrayType) -> list[ArrayType]:
    check_dtype("lu", x)
    batch, m, n = check_matrix("lu", x)
    return [x.strong(), ArrayType((*batch, min(m, n)), INT32), ArrayType((*batch, m), INT32)]


def permuted(x: ArrayLike, permutation: ArrayLike) -> Any:
    """The rows of matrices in another order: row i of the result is row `permutation[i]`."""
    shape = shape_of(x)
    if 0 in shape:
        return x
    n = len(shape)
    lead = tuple(range(n - 2))
    numbers = GatherDimensionNumbers((n - 1,), (n - 2,), (n - 2,), lead, lead)
    sizes = (*(1 for _ in lead), 1, shape[-1])
    return gather(x, expand_dims(permutation, (n - 1,)), numbers, sizes, unique_indices=True, mode=PROMISE)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """With F = L^-1 P dA U^-1: dL = L tril(F, -1), dU = triu(F) U, both filled up with identities to be square.

    F. R. de Hoog, R. S. Anderssen, M. A. Lukas, "Differentiation of matrix functionals using triangular
    factorization", Mathematics of Computation 80 (2011).
    """
    out, pivots, permutation = lu_p.bind(*primals)
    batch, (m, n), dtype = shape_of(out)[:-2], shape_of(out)[-2:], typeof(out).dtype
    k = min(m, n)
    columns, rows = (triangle(part(out, m, k), True, -1), triangle(part(out, k, n), False))
    lower = add_p.bind(padded(columns, m, m), eye((*batch, m, m), dtype))
    rest = _below(eye((*batch, n, n), dtype), k)
    upper = add_p.bind(padded(rows, n, n), rest)
    change = triangular_solve(lower, permuted(tangents[0], permutation), left_side=True, lower=True, unit_diagonal=True)
    change = triangular_solve(upper, change, lower=False)
    # Columns of F past the k-th belong to U, rows past it to L.
    left = product(lower, padded(triangle(part(change, m, k), True, -1), m, m))
    right = product(padded(triangle(part(change, k, n), False), n, n), upper)
    tangent = add_p.bind(padded(part(left, m, k), m, n), padded(part(right, k, n), m, n))
    return [out, pivots, permutation], [tangent, Zero(typeof(pivots).tangent()), Zero(typeof(permutation).tangent())]


def _below(x: Array, start: int) -> Any:
    """Square matrices with zeros in the rows before one."""
    n = shape_of(x)[-1]
    row = broadcasted_iota(INT32, shape_of(x), len(shape_of(x)) - 2)
    zero = broadcast_in_dim(np.zeros((), typeof(x).dtype)[()], shape_of(x), ())
    return x if start == 0 else select_n_p.bind(ge_p.bind(row, np.int32(min(start, n))), zero, x)


def _numpy(x: np.ndarray) -> list[np.ndarray]:
    m, n = x.shape[-2:]
    k = min(m, n)
    out = np.array(x)
    pivots, permutation = np.zeros((*x.shape[:-2], k), INT32), np.zeros((*x.shape[:-2], m), INT32)
    for index in np.ndindex(*x.shape[:-2]):
        if k:
            found, swaps = scipy_linalg().get_lapack_funcs("getrf", (x,))(x[index])[:2]
            out[index], pivots[index] = found, swaps
        permutation[index] = permutation_of(pivots[index], m)
    return [out, pivots, permutation]


lu_p: Primitive = Primitive(
    "lu", weak_as_operands(_typing), jvp=_jvp, numpy=_numpy, multiple=True, relation=matrixwise(2),
)  # fmt: skip


def lu(x: ArrayLike) -> tuple[Any, Any, Any]:
    """LU factors with partial pivoting: `(factors, pivots, permutation)` with `A[permutation] = L U`.

    `factors` (..., m, n) holds `L` below the diagonal, without its diagonal of ones, and `U` in the rest; `pivots`
    (..., min(m, n)) are the row swaps in order, `permutation` (..., m) what they come to, both int32.

    Raises:
      ShapeError: `x` has less than two axes.
      DtypeError: a dtype that is not float32, float64, complex64 or complex128.

    >>> import numpy as np
    >>> lu(np.array([[1.0, 2.0], [4.0, 4.0]], np.float32))[0]
    Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32)
    """
    return tuple(lu_p.bind(x))


# ---------------------------------------------------------------------------- pivots


def _pivots_typing(pivots: ArrayType, *, permutation_size: int) -> ArrayType:
    if not is_integer(pivots.dtype):
        raise DtypeError(f"lu_pivots_to_permutation takes integers, got {pivots.show()}", "pass the pivots of `lu`")
    if pivots.ndim < 1 or pivots.shape[-1] > permutation_size:
        raise ShapeError(f"lu_pivots_to_permutation of pivots {pivots.show()} and permutation_size {permutation_size}",
                         "there are no more pivots than rows")  # fmt: skip
    return ArrayType((*pivots.shape[:-1], permutation_size), INT32)


def _pivots_numpy(pivots: np.ndarray, *, permutation_size: int) -> np.ndarray:
    out = np.zeros((*pivots.shape[:-1], permutation_size), INT32)
    for index in np.ndindex(*pivots.shape[:-1]):
        out[index] = permutation_of(pivots[index], permutation_size)
    return out


def _pivots_expand(pivots: Array, *, permutation_size: int) -> Any:
    """The swaps done one after the other; of a batch on all permutations at once."""
    batch, count = shape_of(pivots)[:-1], shape_of(pivots)[-1]
    shape = (*batch, permutation_size)
    places = broadcasted_iota(INT32, shape, len(batch))
    if not count or not permutation_size:
        return places

    def swap(i: Array, order: Array) -> Any:
        other = _repeated(dynamic_index_in_dim(pivots, i, len(batch)), shape)
        mine = _repeated(dynamic_index_in_dim(order, i, len(batch)), shape)
        there = take_along(order, dynamic_index_in_dim(pivots, i, len(batch)), len(batch))
        moved_in = select_n_p.bind(eq_p.bind(places, other), order, mine)
        here = eq_p.bind(places, broadcast_in_dim(i, shape, ()))
        return select_n_p.bind(here, moved_in, _repeated(there, shape))

    def swap_two(i: Array, order: Array) -> Any:
        other = dynamic_index_in_dim(pivots, i, 0, keepdims=False)
        mine = dynamic_index_in_dim(order, i, 0)
        order = dynamic_update_slice(order, dynamic_index_in_dim(order, other, 0), (i,))
        return dynamic_update_slice(order, mine, (other,))

    return fori_loop(np.int32(0), np.int32(count), swap if batch else swap_two, places)


def _repeated(x: Array, shape: tuple[int, ...]) -> Any:
    """Arrays of one element along the last axis, repeated along it."""
    return broadcast_in_dim(x, shape, tuple(range(len(shape))))


lu_pivots_to_permutation_p: Primitive = Primitive(
    "lu_pivots_to_permutation", weak_as_operands(_pivots_typing), jvp=no_tangent(lambda: lu_pivots_to_permutation_p),
    numpy=_pivots_numpy, expand=_pivots_expand,
    relation=matrixwise(1),
)  # fmt: skip


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation, int32 (..., permutation_size), that row swaps (..., k) come to.

    >>> import numpy as np
    >>> lu_pivots_to_permutation(np.array([2, 1, 2], np.int32), 3)
    Array([2, 1, 0], dtype=int32)
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=operator.index(permutation_size))


# ---------------------------------------------------------------------------- solutions


@cached(1024)
def _solve_typing(a: ArrayType, factors: ArrayType, permutation: ArrayType, b: ArrayType, *, trans: int) -> ArrayType:
    check_dtype("solve", a, b)
    batch, n = check_square("solve", a)
    other, rows, _ = check_matrix("solve", b)
    check_batch("solve", batch, other, b)
    if rows != n:
        raise ShapeError(f"solve: {a.show()} does not fit {b.show()}", "they must have equal numbers of rows")
    if factors.shape != a.shape or permutation.shape != a.shape[:-1]:
        raise ShapeError(f"solve: factors {factors.show()} and permutation {permutation.show()} of {a.show()}")
    return b.strong()


def _solve_relation(ins: Sequence[Any], outs: Sequence[Any], *, trans: int) -> Relation:
    """Right-hand sides are parallel; the axes of the matrices are whole."""
    loops, count = Loops(), ins[0].ndim - 2
    shared = loops.axes(ins[0].shape[:count])
    own = [loops.axes(t.shape[count:]) for t in ins[:3]]
    rows, found, columns = (loops.axis(n) for n in (ins[3].shape[-2], ins[3].shape[-2], ins[3].shape[-1]))
    kinds: dict[int, Kind] = {f: Whole() for axis in (*own[0], *own[1], *own[2], rows, found) for f in axis}
    operands = [*((*shared, *axes) for axes in own), (*shared, rows, columns)]
    return loops.relation(operands, [(*shared, found, columns)], kinds)


def solve_factored(factors: ArrayLike, permutation: ArrayLike, b: ArrayLike, trans: int) -> Any:
    """`A^-1 B` from LU factors (`trans` 0), or the transpose's (1), or the adjoint's (2)."""
    if trans == 0:
        out = triangular_solve(factors, permuted(b, permutation), left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(factors, out, left_side=True)
    how = {"left_side": True, "transpose_a": True, "conjugate_a": trans == 2}
    out = triangular_solve(factors, b, **how)
    out = triangular_solve(factors, out, lower=True, unit_diagonal=True, **how)
    return permuted(out, argsort(permutation, -1))


def _solve(a: Array, factors: Array, permutation: Array, b: Array, *, trans: int) -> Any:
    return solve_factored(factors, permutation, b, trans)


def _operator(a: Array, trans: int) -> Any:
    return (lambda: a, lambda: transposed(a), lambda: adjoint(a))[trans]()


def _solve_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, trans: int) -> Any:
    """A dX = dB - dA X, with the factors at hand; they are functions of `a`, whose tangent says it all."""
    a, factors, permutation, b = primals
    da, _, _, db = tangents
    out = lu_solve_p.bind(a, factors, permutation, b, trans=trans)
    right: Any = None if type(db) is Zero else db
    if type(da) is not Zero:
        right = add_tangents(right, neg_p.bind(product(_operator(da, trans), out)))
    if right is None:
        return out, Zero(typeof(out).tangent())
    return out, lu_solve_p.bind(a, factors, permutation, right, trans=trans)


def _solve_transpose(ct: Array, a: Array, factors: Array, permutation: Array, b: Linear, *, trans: int) -> Any:
    if type(b) is not Linear or type(ct) is Zero:
        return [None] * 4
    if trans == 2:  # the transpose of A^-H is that of the conjugate, which is not one of the three
        return [None, None, None, conjugate(lu_solve_p.bind(a, factors, permutation, conjugate(ct), trans=0))]
    return [None, None, None, lu_solve_p.bind(a, factors, permutation, ct, trans=1 - trans)]


def _solve_numpy(a: np.ndarray, factors: np.ndarray, permutation: np.ndarray, b: np.ndarray, *, trans: int) -> Any:
    try:
        return np.linalg.solve((a, a.T, a.conj().T)[trans], b)
    except np.linalg.LinAlgError:  # the infinities and NaN that the factors of a singular matrix give
        return _substituted(factors, permutation, b, trans)


def _substituted(factors: np.ndarray, permutation: np.ndarray, b: np.ndarray, trans: int) -> np.ndarray:
    if trans == 0:
        return substituted(factors, substituted(factors, b[permutation], lower=True, unit_diagonal=True))
    how = {"transpose_a": True, "conjugate_a": trans == 2}
    out = substituted(factors, substituted(factors, b, **how), lower=True, unit_diagonal=True, **how)
    return out[np.argsort(permutation)]


def _solve_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, trans: int) -> Any:
    """One matrix for many right-hand sides is one system of more columns."""
    *fixed, b = args
    if any(d is not None for d in dims[:3]):
        return lu_solve_p.bind(*[moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True)], trans=trans), 0
    at = len(shape_of(b)) - 2
    b = moveaxis(b, dims[3], at)
    shape = shape_of(b)
    out = lu_solve_p.bind(*fixed, reshape(b, (*shape[:at], shape[at] * shape[at + 1])), trans=trans)
    return reshape(out, shape), at


lu_solve_p: Primitive = Primitive(
    "lu_solve", weak_as_operands(_solve_typing), jvp=_solve_jvp, transpose=_solve_transpose, batch=_solve_batch,
    numpy=each(_solve_typing, _solve_numpy, [2, 2, 1, 2], finite=False), expand=_solve, relation=_solve_relation,
)  # fmt: skip


def factored(a: ArrayLike) -> tuple[Any, Any]:
    """The LU factors and permutation of square matrices, for `lu_solve_p`; not differentiated."""
    factors, _, permutation = lu_p.bind(stop_gradient_p.bind(a))
    return factors, permutation


def solve(a: ArrayLike, b: ArrayLike, trans: int = 0) -> Any:
    """`A^-1 B` for square matrices (..., n, n) and (..., n, k), whose leading axes agree.

    With `trans` 1 the transpose's inverse, with 2 the adjoint's. The derivative takes one more product and uses the
    factors again.

    >>> import numpy as np
    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]], np.float32), np.array([[2.0], [2.0]], np.float32))
    Array([[1. ],
           [0.5]], dtype=float32)
    """
    return lu_solve_p.bind(a, *factored(a), b, trans=trans)


PRIMITIVES = (lu_p, lu_pivots_to_permutation_p, lu_solve_p)
