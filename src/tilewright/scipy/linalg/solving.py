"""Linear systems by factors: LU, Cholesky, triangles, Sylvester's equation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax
from ...core.primitives.linalg import lu as _lu
from ...core.primitives.linalg.common import through_float32
from ...core.primitives.linalg.matrices import adjoint, eye, from_triangle, product, transposed, triangle
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ShapeError, warn
from ...numpy import linalg as numpy_linalg
from ...numpy.linalg.decompositions import square
from ...numpy.select import where
from ...numpy.util import (
    Array,
    ArrayLike,
    broadcast_to_shape,
    computation_dtype,
    dtype_of,
    inline_jit,
    is_complex,
    promote_dtypes_inexact,
    shape_of,
    value,
)
from .decompositions import cholesky


def system(name: str, a: ArrayLike, b: ArrayLike, narrow: bool = False) -> tuple[Array, Array, bool]:
    """The operands of a solution by square `a`: their leading axes made equal, `b` as matrices, and if it was not."""
    a, b = promote_dtypes_inexact(value(a, name), value(b, name))
    square(a, name, narrow)
    rank, other = len(shape_of(a)), len(shape_of(b))
    vector = other == 1 or (other == rank - 1 > 1 and shape_of(b)[-1] == shape_of(a)[-1])
    if vector and other > 1:
        warn(f"{name}: batches of vectors are meant as matrices by others; pass b[..., None]", FutureWarning)
    if not other or shape_of(b)[-1 if vector else -2] != shape_of(a)[-1]:
        raise ShapeError(f"{name}: a of shape {shape_of(a)} and b of shape {shape_of(b)}",
                         "b is a vector, or matrices with as many rows as a")  # fmt: skip
    b = lax.expand_dims(b, (other,)) if vector else b
    batch = lax.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    a, b = (broadcast_to_shape(x, (*batch, *shape_of(x)[-2:])) for x in (a, b))
    return a, b, vector


def answer(x: Array, vector: bool) -> Array:
    """Solutions as the vectors or matrices that the right-hand sides were."""
    return lax.squeeze(x, (len(shape_of(x)) - 1,)) if vector else x


# ---------------------------------------------------------------------------- LU


@public
def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: int = 0, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:  # fmt: skip
    """The solutions of A X = B (`trans` 0), of A^T X = B (1) or A^H X = B (2), from `lu_factor(a)`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor(jnp.array([[2., 0.], [0., 4.]])), jnp.array([2., 2.]))
    Array([1. , 0.5], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ArgumentError(f"lu_solve: trans {trans}", "0, 1 or 2")
    factors, pivots = lu_and_piv
    return _lu_solve(factors, pivots, b, int(trans))


@inline_jit("trans")
def _lu_solve(factors: ArrayLike, pivots: ArrayLike, b: ArrayLike, trans: int) -> Array:
    factors, b, vector = system("lu_solve", factors, b, narrow=True)
    permutation = lax.linalg.lu_pivots_to_permutation(value(pivots), shape_of(factors)[-1])
    permutation = broadcast_to_shape(permutation, shape_of(factors)[:-1])
    solved = through_float32(lambda f, b: _lu.solve_factored(f, permutation, b, trans), factors, b)
    return answer(solved, vector)


# ---------------------------------------------------------------------------- Cholesky


@public
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """The solutions of A X = B from `cho_factor(a)`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor(jnp.array([[4., 0.], [0., 16.]])), jnp.array([4., 8.]))
    Array([1. , 0.5], dtype=float32)
    """
    factor, lower = c_and_lower
    return _cho_solve(factor, b, bool(lower))


@inline_jit("lower")
def _cho_solve(factor: ArrayLike, b: ArrayLike, lower: bool) -> Array:
    factor, b, vector = system("cho_solve", factor, b, narrow=True)
    return answer(through_float32(lambda f, b: _by_cholesky(f, b, lower), factor, b), vector)


def _by_cholesky(factor: Array, b: Array, lower: bool) -> Array:
    how = {"left_side": True, "lower": lower, "conjugate_a": is_complex(dtype_of(b))}
    plain = {"left_side": True, "lower": lower}
    if lower:
        return lax.linalg.triangular_solve(factor, lax.linalg.triangular_solve(factor, b, **plain), transpose_a=True,
                                           **how)  # fmt: skip
    return lax.linalg.triangular_solve(factor, lax.linalg.triangular_solve(factor, b, transpose_a=True, **how), **plain)


# ---------------------------------------------------------------------------- systems


@inline_jit("lower", "overwrite_a", "overwrite_b", "debug", "check_finite", "assume_a")
def solve(
    a: ArrayLike, b: ArrayLike, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    debug: bool = False, check_finite: bool = True, assume_a: str = "gen",
) -> Array:  # fmt: skip
    """The solutions of A X = B; with `assume_a` 'sym', 'her' or 'pos' only one triangle of A is read.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.solve(jnp.array([[4., 0.], [0., 16.]]), jnp.array([4., 8.]), assume_a="pos")
    Array([1. , 0.5], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ArgumentError(f"solve: assume_a {assume_a!r}", "one of 'gen', 'sym', 'her', 'pos'")
    a, b, vector = system("solve", a, b)
    if assume_a == "pos":
        return answer(_by_cholesky(cholesky(a, lower=lower), b, lower), vector)
    if assume_a == "her":
        a = from_triangle(a, lower)
    if assume_a == "sym":
        strict = triangle(a, lower, -1 if lower else 1)
        a = triangle(a, lower) + transposed(strict)
    return answer(numpy_linalg.solve(a, b), vector)


_TRANSPOSES = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}


@inline_jit("trans", "lower", "unit_diagonal", "overwrite_b", "debug", "check_finite")
def solve_triangular(
    a: ArrayLike, b: ArrayLike, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False,
    overwrite_b: bool = False, debug: Any = None, check_finite: bool = True,
) -> Array:  # fmt: skip
    """The solutions of A X = B for one triangle of A; `trans` 0 or 'N', 1 or 'T' (A^T), 2 or 'C' (A^H).

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.solve_triangular(jnp.array([[2., 0.], [1., 4.]]), jnp.array([2., 5.]), lower=True)
    Array([1., 1.], dtype=float32)
    """
    if trans not in _TRANSPOSES:
        raise ArgumentError(f"solve_triangular: trans {trans!r}", "0, 1, 2, 'N', 'T' or 'C'")
    how = _TRANSPOSES[trans]
    a, b, vector = system("solve_triangular", a, b, narrow=True)
    found = lax.linalg.triangular_solve(a, b, left_side=True, lower=lower, transpose_a=how > 0, conjugate_a=how == 2,
                                        unit_diagonal=unit_diagonal)  # fmt: skip
    return answer(found, vector)


@inline_jit("method", "tol")
def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """The solutions of A X + X B = C for square A and B; NaN where an eigenvalue of A is minus one of B, within `tol`.

    `method` is 'schur' (R. H. Bartels, G. W. Stewart, "Algorithm 432", Communications of the ACM 15 (1972)) or
    'eigen', by eigenvectors. Computed in complex numbers; leading axes broadcast.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.solve_sylvester(jnp.eye(2), jnp.eye(2), jnp.ones((2, 2)))
    Array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    if method not in ("schur", "eigen"):
        raise ArgumentError(f"solve_sylvester: method {method!r}", "one of 'schur', 'eigen'")
    a, b, c = promote_dtypes_inexact(*(value(x, "solve_sylvester") for x in (A, B, C)))
    square(a, "solve_sylvester")
    square(b, "solve_sylvester")
    m, n = shape_of(a)[-1], shape_of(b)[-1]
    if shape_of(c)[-2:] != (m, n):
        raise ShapeError(f"solve_sylvester: A {shape_of(a)}, B {shape_of(b)} and C {shape_of(c)}",
                         "C has as many rows as A and as many columns as B")  # fmt: skip
    dtype, wide = dtype_of(c), np.result_type(computation_dtype(dtype_of(c)), np.complex64)
    batch = lax.broadcast_shapes(*(shape_of(x)[:-2] for x in (a, b, c)))
    a, b, c = (broadcast_to_shape(x, (*batch, *shape_of(x)[-2:])).astype(wide) for x in (a, b, c))
    factor, apply = (lax.linalg.schur, by_schur) if method == "schur" else (numpy_linalg.eig, _by_eigen)
    left, right = (tuple(factor(lax.stop_gradient(x))) for x in (a, b))
    found = sylvester(apply, a, b, left, right, c)
    x, y = (numpy_linalg.diagonal(f[0]) if method == "schur" else f[0] for f in (left, right))
    small = (abs(x[..., :, None] + y[..., None, :]) < tol).any((-2, -1))
    found = where(small[..., None, None], np.nan, found)
    return found if is_complex(dtype) else lax.real(found)


def sylvester(apply: Any, a: Array, b: Array, left: Any, right: Any, c: Array) -> Array:
    """X of A X + X B = C, which `apply` makes of the factors of A and B, with the derivative of the equation."""
    return lax.custom_linear_solve(
        lambda x: product(a, x) + product(x, b), c, lambda _, c: apply(left, right, c),
        lambda _, c: transposed(apply(right, left, transposed(c))),
    )  # fmt: skip


def _by_eigen(left: Any, right: Any, c: Array) -> Array:
    (x, p), (y, q) = left, right
    inner = product(numpy_linalg.solve(p, c), q) / (x[..., :, None] + y[..., None, :])
    return product(p, transposed(numpy_linalg.solve(transposed(q), transposed(inner))))


def by_schur(left: Any, right: Any, c: Array) -> Array:
    """The solution of Sylvester's equation from the complex Schur forms `(T, Z)` of its matrices, by columns."""
    (r, u), (s, v) = left, right
    f = product(adjoint(u), c, v)
    batch, n = shape_of(r)[:-2], shape_of(s)[-1]
    one = eye(shape_of(r), dtype_of(r))
    at = len(batch) + 1

    def column(j: Any, y: Array) -> Array:
        beside = lax.dynamic_index_in_dim(s, j, at)  # what the columns found so far contribute
        pivot = lax.dynamic_index_in_dim(beside, j, len(batch))
        rows = lax.broadcasted_iota(np.int32, shape_of(beside), len(batch))
        known = product(y, where(rows < j, beside, 0))
        beyond = lax.dynamic_index_in_dim(f, j, at) - known
        solved = lax.linalg.triangular_solve(r + pivot * one, beyond, left_side=True)
        return lax.dynamic_update_index_in_dim(y, solved, j, at)

    return product(u, lax.fori_loop(0, n, column, lax.full_like(f, 0)), adjoint(v))
