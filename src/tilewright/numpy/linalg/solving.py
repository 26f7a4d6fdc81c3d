"""Linear systems, inverses, determinants and ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import lax
from ...core.ir.types import canonical_dtype
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...core.primitives.linalg import lu as _lu
from ...core.primitives.linalg.common import through_float32
from ...core.primitives.linalg.matrices import adjoint, diagonal, eye, on_diagonal, picked_diagonal, product, triangle
from ...core.primitives.linalg.qr import geqrf_p
from ...core.support.errors import ArgumentError, ShapeError
from .. import reductions
from ..select import where
from ..util import (
    Array,
    ArrayLike,
    broadcast_to_shape,
    dtype_of,
    inline_jit,
    is_complex,
    promote_dtypes_inexact,
    shape_of,
    value,
)
from .decompositions import eigvalsh, epsilon, operand, square, svd
from .norms import norm


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Array
    logabsdet: Array


# ---------------------------------------------------------------------------- systems


@inline_jit()
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solutions X of A X = B for square matrices (..., n, n) and a vector (n,) or matrices (..., n, k).

    Leading axes broadcast. Where a matrix is singular the result is infinite or NaN. Raises `ShapeError` for matrices
    that are not square and for sizes that do not fit.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([2., 2.]))
    Array([1. , 0.5], dtype=float32)
    """
    a, b = promote_dtypes_inexact(value(a, "solve"), value(b, "solve"))
    square(a, "solve")
    rank = len(shape_of(b))
    if not rank or shape_of(b)[0 if rank == 1 else -2] != shape_of(a)[-1]:
        raise ShapeError(f"solve: a of shape {shape_of(a)} and b of shape {shape_of(b)}",
                         "b is a vector, or matrices with as many rows as a")  # fmt: skip
    b = lax.expand_dims(b, (1,)) if rank == 1 else b
    batch = lax.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    out = _solved(a, b, batch)
    return lax.squeeze(out, (len(shape_of(out)) - 1,)) if rank == 1 else out


def _solved(a: Array, b: Array, batch: tuple[int, ...]) -> Array:
    """Factors are made of each matrix once, however many right-hand sides share it."""
    factors, permutation = (broadcast_to_shape(x, (*batch, *shape_of(x)[len(shape_of(a)) - 2 :]))
                            for x in _lu.factored(a))  # fmt: skip
    a, b = (broadcast_to_shape(x, (*batch, *shape_of(x)[-2:])) for x in (a, b))
    return _lu.lu_solve_p.bind(a, factors, permutation, b, trans=0)


@inline_jit()
def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices; infinite or NaN where one is singular.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    a = square(a, "inv")
    return _lu.solve(a, eye(shape_of(a), dtype_of(a)))


def _factors_of_zero(s: Array, smallest: Array) -> Array:
    """The reciprocals of singular values above a bound, 0 for the others."""
    kept = s > smallest
    return where(kept, 1 / where(kept, s, 1), 0)


@inline_jit("hermitian")
def pinv(
    a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None
) -> Array:
    """The Moore-Penrose inverses of matrices, singular values under `rtol` of the largest taken for zero.

    By default `rtol` is 10 times the larger size times the dtype's epsilon.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.pinv(jnp.array([[2., 0.], [0., 0.]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    a = operand(a, "pinv")
    if rtol is not None and rcond is not None:
        raise ArgumentError("pinv with rtol and rcond, two names of one bound", "pass rtol")
    rtol = rcond if rtol is None else rtol
    bound = 10.0 * max(shape_of(a)[-2:]) * epsilon(dtype_of(a)) if rtol is None else rtol
    m, n = shape_of(a)[-2:]
    if not m or not n:
        return lax.full((*shape_of(a)[:-2], n, m), 0, dtype_of(a))
    real = np.zeros((), dtype_of(a)).real.dtype
    return _pinv(hermitian, a, lax.convert_element_type(value(bound), real))


def _pinv(hermitian: bool, a: Array, rtol: Array) -> Array:
    """With the derivative of G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least
    squares problems whose variables separate", SIAM Journal on Numerical Analysis 10 (1973), equation (4.12)."""

    @custom_jvp
    def inverse(a: Array, rtol: Array) -> Array:
        u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
        smallest = s[..., :1] * rtol[..., None]
        scaled = _factors_of_zero(s, smallest).astype(dtype_of(u))
        return product(adjoint(vh), scaled[..., :, None] * adjoint(u))

    @inverse.defjvp
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (a, rtol), (da, _) = primals, tangents
        p = inverse(a, rtol)
        ph, dh = adjoint(p), adjoint(da)
        first = -_through_small(p, da, p)
        second = _through_small(p, ph, dh - _through_small(dh, a, p))
        third = _through_small(dh - _through_small(p, a, dh), ph, p)
        return p, first + second + third

    return inverse(a, rtol)


def _through_small(a: Array, b: Array, c: Array) -> Array:
    """The product of three matrices, those without a square one of the larger size in between."""
    rows, columns = shape_of(a)[-2:]
    return product(product(a, b), c) if rows <= columns else product(a, product(b, c))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The shortest X that minimises |A X - B|: `(x, residuals, rank, singular values)`.

    `a` is (m, n), `b` (m,) or (m, k). Singular values under `rcond` of the largest (the larger size times epsilon by
    default) are taken for zero. With `numpy_resid` residuals are empty where NumPy's are.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.lstsq(jnp.array([[1.], [1.]]), jnp.array([1., 3.]))[0]
    Array([2.], dtype=float32)
    """
    x, residuals, rank, s = _lstsq(a, b, rcond)
    m, n = shape_of(value(a))
    if numpy_resid and (m <= n or bool(rank < n)):
        residuals = lax.full((0,), 0, dtype_of(residuals))
    return x, residuals, rank, s


@inline_jit()
def _lstsq(a: Any, b: Any, rcond: Any) -> tuple[Array, Array, Array, Array]:
    a, b = promote_dtypes_inexact(value(a, "lstsq"), value(b, "lstsq"))
    if len(shape_of(a)) != 2 or len(shape_of(b)) not in (1, 2) or shape_of(a)[0] != shape_of(b)[0]:
        raise ShapeError(f"lstsq: a of shape {shape_of(a)} and b of shape {shape_of(b)}",
                         "a is one matrix, b a vector or a matrix with as many rows")  # fmt: skip
    vector = len(shape_of(b)) == 1
    b = b[:, None] if vector else b
    m, n = shape_of(a)
    if not m or not n:
        x = lax.full((n, shape_of(b)[1]), 0, dtype_of(a))
        rank, s = lax.full((), 0, canonical_dtype(np.int64)), lax.full((0,), 0, np.zeros((), dtype_of(a)).real.dtype)
    else:
        bound = epsilon(dtype_of(a)) * max(m, n) if rcond is None else where(value(rcond) < 0, epsilon(dtype_of(a)),
                                                                            rcond)  # fmt: skip
        x, s, rank = _least_squares(a, b, lax.convert_element_type(value(bound), np.zeros((), dtype_of(a)).real.dtype))
    residuals = norm(b - product(a, x), axis=0) ** 2
    return (x[:, 0] if vector else x), residuals, rank, s


def _least_squares(a: Array, b: Array, bound: Array) -> tuple[Array, Array, Array]:
    """The solution, singular values and rank."""
    u, s, vh = svd(a, full_matrices=False)
    smallest = bound * s[0]
    inverse = _factors_of_zero(s, smallest).astype(dtype_of(u))
    left, middle, right = (lax.stop_gradient(v) for v in (u, inverse, vh))
    x = _inverse_times(a, bound, left, middle, right, b)
    return x, s, reductions.sum(s > smallest)


@custom_jvp
def _inverse_times(a: Array, bound: Array, u: Array, inverse: Array, vh: Array, b: Array) -> Array:
    """The Moore-Penrose inverse of a matrix times B, by its factors; `a` is there for the derivative."""
    return product(adjoint(vh), inverse[:, None] * product(adjoint(u), b))


@_inverse_times.defjvp
def _inverse_times_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """That of `_pinv` times B, which has derivatives of its own where singular values are equal."""
    a, bound, _, _, _, b = primals
    dh, db = adjoint(tangents[0]), tangents[-1]
    p = _pinv(False, a, bound)
    x, ph = product(p, b), adjoint(p)
    first = product(p, db - product(tangents[0], x))
    second = product(p, ph, dh, b - product(a, x))
    turned = product(dh, ph, x)
    return x, first + second + turned - product(p, a, turned)


@inline_jit("axes")
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """The tensor x for which `tensordot(a, x, x.ndim)` is `b`; `axes` of `a` are moved to the end first.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.tensorsolve(jnp.eye(4).reshape(2, 2, 2, 2), jnp.ones((2, 2))).shape
    (2, 2)
    """
    a, b = promote_dtypes_inexact(value(a, "tensorsolve"), value(b, "tensorsolve"))
    if axes is not None:
        wanted = [axis % len(shape_of(a)) for axis in axes]
        a = lax.transpose(a, [d for d in range(len(shape_of(a))) if d not in wanted] + wanted)
    shape = shape_of(a)[len(shape_of(b)) :]
    if math.prod(shape) != math.prod(shape_of(b)):
        raise ShapeError(f"tensorsolve: a of shape {shape_of(a)} and b of shape {shape_of(b)}",
                         "the axes of a after those of b hold as many elements as b")  # fmt: skip
    n = math.prod(shape)
    return lax.reshape(solve(lax.reshape(a, (n, n)), lax.reshape(b, (n,))), shape)


@inline_jit("ind")
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of a tensor: its first `ind` axes as rows, the others as columns, the two exchanged.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.tensorinv(jnp.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    a = value(a, "tensorinv")
    if ind <= 0:
        raise ArgumentError(f"tensorinv: ind {ind}", "at least one axis makes the rows")
    rows, columns = shape_of(a)[:ind], shape_of(a)[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ShapeError(f"tensorinv of shape {shape_of(a)} with ind {ind}",
                         "the first axes hold as many elements as the others")  # fmt: skip
    return lax.reshape(inv(lax.reshape(a, (math.prod(rows), math.prod(columns)))), (*columns, *rows))


# ---------------------------------------------------------------------------- determinants


def _parity(pivots: Array) -> Array:
    """Whether an odd number of rows change places: 1, else 0."""
    count = shape_of(pivots)[-1]
    places = lax.broadcasted_iota(np.int32, shape_of(pivots), len(shape_of(pivots)) - 1)
    return reductions.sum(pivots != places, -1, np.int32) % 2 if count else reductions.sum(pivots, -1, np.int32)


@custom_jvp
def _determinant(a: Array) -> Array:
    factors, pivots, _ = lax.linalg.lu(a)
    diagonals = reductions.prod(picked_diagonal(factors), -1)
    return where(_parity(pivots) == 1, -diagonals, diagonals)


@_determinant.defjvp
def _determinant_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The trace of the adjugate times the change, from LU factors.

    It is the determinant times the trace of U^-1 Y with Y = L^-1 P dA, unless a pivot is zero: then the product of the
    others times y Y x, with x and y the vectors that U maps to zero from its sides, and zero if several are.
    """
    (a,), (da,) = primals, tangents
    factors, pivots, permutation = lax.linalg.lu(a)
    diagonals = picked_diagonal(factors)
    zero = diagonals == 0
    sign = where(_parity(pivots) == 1, -1, 1).astype(dtype_of(a))
    others = reductions.prod(where(zero, 1, diagonals), -1)
    down = lax.linalg.triangular_solve(factors, _lu.permuted(da, permutation), left_side=True, lower=True,
                                       unit_diagonal=True)  # fmt: skip
    upper = where(zero[..., None, :] & on_diagonal(shape_of(a)), 1, triangle(factors, False))
    solved = lax.linalg.triangular_solve(upper, down, left_side=True)
    place = zero.astype(dtype_of(a))[..., None]
    mapped = lax.linalg.triangular_solve(upper, place, left_side=True)
    at_zero = reductions.sum(place * product(solved, mapped), (-2, -1))
    count = reductions.sum(zero, -1, np.int32)
    traced = where(count == 0, reductions.sum(diagonal(solved), -1), where(count == 1, at_zero, 0))
    return _determinant(a), sign * others * traced


@inline_jit()
def det(a: ArrayLike) -> Array:
    """The determinants of square matrices; those of bfloat16 and float16 are computed in float32, and rounded.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    a = square(a, "det", narrow=True)
    n = shape_of(a)[-1]
    if n == 0:
        return lax.full(shape_of(a)[:-2], 1, dtype_of(a))
    return through_float32(_small_determinant if n <= 3 else _determinant, a)


def _small_determinant(a: Array) -> Array:
    """By expansion, whose derivative is right for singular matrices too."""
    n = shape_of(a)[-1]
    e = [[a[..., i, j] for j in range(n)] for i in range(n)]
    if n == 1:
        return e[0][0]
    if n == 2:
        return e[0][0] * e[1][1] - e[0][1] * e[1][0]
    minors = (e[1][1] * e[2][2] - e[1][2] * e[2][1], e[1][0] * e[2][2] - e[1][2] * e[2][0],
              e[1][0] * e[2][1] - e[1][1] * e[2][0])  # fmt: skip
    return e[0][0] * minors[0] - e[0][1] * minors[1] + e[0][2] * minors[2]


@custom_jvp
def _signed_logarithm(a: Array, factors: Array, permutation: Array, odd: Array) -> tuple[Array, Array]:
    """The sign and logarithm of the determinant, from the factors; `a` is there for the derivative."""
    values = picked_diagonal(factors)
    sign = where(odd == 1, -1, 1).astype(dtype_of(a))
    sizes = lax.abs(values)
    units = where(sizes == 0, 0, values / where(sizes == 0, 1, sizes).astype(dtype_of(a)))
    return sign * reductions.prod(units, -1), reductions.sum(lax.log(sizes), -1)


@_signed_logarithm.defjvp
def _signed_logarithm_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    a, factors, permutation, odd = primals
    sign, logarithm = _signed_logarithm(*primals)
    solved = _lu.lu_solve_p.bind(a, factors, permutation, tangents[0], trans=0)
    traced = reductions.sum(diagonal(solved), -1)
    if is_complex(dtype_of(a)):
        turn = lax.imag(traced)
        return (sign, logarithm), (sign * lax.complex(lax.full_like(turn, 0), turn), lax.real(traced))
    return (sign, logarithm), (lax.full_like(sign, 0), traced)


@inline_jit("method")
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The signs and logarithms of absolute determinants of square matrices: `SlogdetResult(sign, logabsdet)`.

    `method` is 'lu' (by default) or 'qr'. A singular matrix has sign 0 and logarithm -inf.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.slogdet(jnp.array([[1., 2.], [3., 4.]])).sign
    Array(-1., dtype=float32)
    """
    a = square(a, "slogdet")
    if method not in (None, "lu", "qr"):
        raise ArgumentError(f"slogdet: method {method!r}", "one of None, 'lu', 'qr'")
    if method == "qr":
        return _slogdet_by_qr(a)
    factors, pivots, permutation = lax.linalg.lu(lax.stop_gradient(a))
    return SlogdetResult(*_signed_logarithm(a, factors, permutation, _parity(pivots)))


def _slogdet_by_qr(a: Array) -> SlogdetResult:
    """Each reflector `1 - tau v v^H` has the determinant -tau / conj(tau), or 1 where tau is 0."""

    @custom_jvp
    def run(a: Array) -> Any:
        r, taus = geqrf_p.bind(a)
        values = picked_diagonal(r)
        sizes = lax.abs(values)
        units = where(sizes == 0, 0, values / where(sizes == 0, 1, sizes).astype(dtype_of(a)))
        safe = where(taus == 0, 1, taus)
        turns = where(taus == 0, 1, -safe / lax.conj(safe)) if is_complex(dtype_of(a)) else where(taus == 0, 1, -1)
        sign = reductions.prod(units, -1) * reductions.prod(turns, -1).astype(dtype_of(a))
        return sign, reductions.sum(lax.log(sizes), -1)

    @run.defjvp
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (a,), (da,) = primals, tangents
        sign, logarithm = run(a)
        traced = reductions.sum(diagonal(_lu.solve(a, da)), -1)
        if is_complex(dtype_of(a)):
            turn = lax.imag(traced)
            return (sign, logarithm), (sign * lax.complex(lax.full_like(turn, 0), turn), lax.real(traced))
        return (sign, logarithm), (lax.full_like(sign, 0), traced)

    return SlogdetResult(*run(a))


# ---------------------------------------------------------------------------- ranks and conditions


@inline_jit("hermitian")
def matrix_rank(
    M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: ArrayLike | None = None
) -> Array:
    """The number of singular values above `rtol` times the largest (the larger size times epsilon by default).

    Its dtype is the default integer type.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.matrix_rank(jnp.ones((2, 2)))
    Array(1, dtype=int32)
    """
    (a,) = promote_dtypes_inexact(value(M, "matrix_rank"))
    if tol is not None and rtol is not None:
        raise ArgumentError("matrix_rank with rtol and tol, two names of one bound", "pass rtol")
    rtol = tol if rtol is None else rtol
    if len(shape_of(a)) < 2:
        return reductions.any(a != 0).astype(canonical_dtype(np.int64))
    sizes = lax.abs(eigvalsh(a)) if hermitian else svd(a, compute_uv=False)
    if not shape_of(sizes)[-1]:
        return lax.full(shape_of(sizes)[:-1], 0, canonical_dtype(np.int64))
    bound = epsilon(dtype_of(a)) * max(shape_of(a)[-2:]) if rtol is None else value(rtol)[..., None]
    return reductions.sum(sizes > reductions.max(sizes, -1, keepdims=True) * bound, -1, canonical_dtype(np.int64))


@inline_jit("p")
def cond(x: ArrayLike, p: Any = None) -> Array:
    """The condition numbers of matrices in a norm: None, 2 and -2 by singular values, others by the inverse.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.cond(jnp.array([[2., 0.], [0., 4.]]))
    Array(2., dtype=float32)
    """
    x = operand(x, "cond")
    if p in (None, 2, -2):
        s = svd(x, compute_uv=False)
        found = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        x = square(x, "cond")
        found = norm(x, ord=p, axis=(-2, -1)) * norm(inv(x), ord=p, axis=(-2, -1))
    unknown = reductions.any(x != x, (-2, -1))
    return where(lax.ne(found, found) & ~unknown, np.inf, found)
