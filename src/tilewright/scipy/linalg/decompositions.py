"""Decompositions under SciPy's names: LU, Cholesky, QR, Schur, Hessenberg, eigenvalues, singular values, polar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import lax
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...core.primitives.linalg import lu as _lu
from ...core.primitives.linalg.matrices import adjoint, conjugate, eye, part, product, triangle
from ...core.primitives.linalg.qr import full_product, geqp3_p, geqrf_p
from ...core.support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError, plural
from ...numpy import linalg as numpy_linalg
from ...numpy.linalg.decompositions import operand, square
from ...numpy.select import where
from ...numpy.util import (
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


@inline_jit("full_matrices", "compute_uv", "overwrite_a", "check_finite", "lapack_driver")
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False,
    check_finite: bool = True, lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    """The singular values and vectors of matrices: `(u, s, vh)`, or `s` alone.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.svd(jnp.array([[0., 2.], [1., 0.]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ArgumentError(f"svd: lapack_driver {lapack_driver!r}", "one of 'gesdd', 'gesvd'")
    algorithm = lax.linalg.SvdAlgorithm.QR if lapack_driver == "gesvd" else None
    return lax.linalg.svd(operand(a, "svd"), full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm)


@inline_jit("lower", "eigvals_only", "overwrite_a", "overwrite_b", "turbo", "eigvals", "type", "check_finite")
def eigh(
    a: ArrayLike, b: ArrayLike | None = None, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    overwrite_b: bool = False, turbo: bool = True, eigvals: None = None, type: int = 1, check_finite: bool = True,  # noqa: A002
) -> Any:  # fmt: skip
    """The eigenvalues and vectors of Hermitian matrices: `(w, v)`, or `w` alone; `lower`: which triangle is read.

    With positive definite `b`, those of A x = w B x; vectors are then orthonormal with respect to B.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.eigh(jnp.array([[2., 0.], [0., 1.]]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    if eigvals is not None or type != 1:
        raise UnsupportedError(f"eigh with eigvals {eigvals} and type {type}", "leave them out")
    triangle_ = "L" if lower else "U"
    if b is None:
        a = square(a, "eigh")
        if eigvals_only:
            return numpy_linalg.eigvalsh(a, triangle_)
        found = numpy_linalg.eigh(a, triangle_)
        return found.eigenvalues, found.eigenvectors
    a, b = promote_dtypes_inexact(value(a, "eigh"), value(b, "eigh"))
    square(a, "eigh")
    factor = lax.linalg.cholesky(square(b, "eigh"))
    inner = lax.linalg.triangular_solve(factor, a, left_side=True, lower=True)
    inner = lax.linalg.triangular_solve(factor, inner, lower=True, transpose_a=True, conjugate_a=True)
    values, vectors = numpy_linalg.eigh(inner)
    if eigvals_only:
        return values
    return values, lax.linalg.triangular_solve(factor, vectors, left_side=True, lower=True, transpose_a=True,
                                               conjugate_a=True)  # fmt: skip


@inline_jit("overwrite_a", "lwork", "mode", "pivoting", "check_finite")
def qr(
    a: ArrayLike, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:  # fmt: skip
    """QR factors of matrices: `(q, r)`, or `(r,)` for mode 'r'; with `pivoting` also `p`, with A[:, p] = Q R.

    `mode`: 'full', 'economic' or 'r'.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.qr(jnp.array([[3.], [4.]]), mode="economic")[1]
    Array([[-5.]], dtype=float32)
    """
    if mode not in ("full", "r", "economic"):
        raise ArgumentError(f"qr: mode {mode!r}", "one of 'full', 'r', 'economic'")
    found = lax.linalg.qr(operand(a, "qr"), pivoting=pivoting, full_matrices=mode != "economic")
    return found[1:] if mode == "r" else found


@inline_jit("mode", "pivoting", "conjugate", "overwrite_a", "overwrite_c")
def qr_multiply(
    a: ArrayLike, c: ArrayLike, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
    overwrite_a: bool = False, overwrite_c: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """The product of Q of a QR factorisation with a matrix, and R, without making Q: `(cq, r)`, with `pivoting` also p.

    `mode` 'left': Q C for `c` (k, p) or (m, p); 'right': the first k columns of C Q for `c` (p, m); k = min(m, n). A
    vector is a column ('left') or a row ('right').

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.qr_multiply(jnp.array([[3.], [4.]]), jnp.array([1., 0.]))[0]
    Array([-0.6], dtype=float32)
    """
    if mode not in ("left", "right"):
        raise ArgumentError(f"qr_multiply: mode {mode!r}", "'left' or 'right'")
    a, c = promote_dtypes_inexact(value(a, "qr_multiply"), value(c, "qr_multiply"))
    batch, (m, n) = shape_of(a)[:-2], shape_of(operand(a, "qr_multiply"))[-2:]
    k = min(m, n)
    vector = len(shape_of(c)) == 1
    c = (c[:, None] if mode == "left" else c[None, :]) if vector else c
    inner = shape_of(c)[-2 if mode == "left" else -1]
    if inner != m and not (mode == "left" and inner == k):
        raise ShapeError(f"qr_multiply: a of shape {shape_of(a)} and c of shape {shape_of(c)}",
                         "Q is as large as a has rows")  # fmt: skip
    order: tuple[Array, ...] = ()
    if pivoting:
        reflectors, places, taus = geqp3_p.bind(a, lax.full((*batch, n), 0, np.int32))
        order = (places - 1,)
    else:
        reflectors, taus = geqrf_p.bind(a)
    c = broadcast_to_shape(c, (*batch, *shape_of(c)[-2:]))
    if mode == "left" and inner < m:
        c = lax.pad(c, np.zeros((), dtype_of(c))[()], [(0, 0, 0)] * len(batch) + [(0, m - inner, 0), (0, 0, 0)])
    flip = _conjugate if conjugate and is_complex(dtype_of(a)) else (lambda x: x)
    found = flip(lax.linalg.ormqr(reflectors, taus, flip(c), left=mode == "left"))
    found = found if mode == "left" else part(found, shape_of(found)[-2], k)
    found = lax.reshape(found, (shape_of(found)[-2] * shape_of(found)[-1],)) if vector and not batch else found
    return found, triangle(part(reflectors, k, n), False), *order


def _conjugate(x: Array) -> Array:
    return conjugate(x)


@inline_jit("output")
def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """The Schur form of square matrices, `(t, z)` with A = Z T Z^H; `output` 'complex' makes T upper triangular.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.schur(jnp.array([[1., 2.], [0., 3.]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ArgumentError(f"schur: output {output!r}", "'real' or 'complex'")
    complex_ = output == "complex"
    a = square(a, "schur", narrow=complex_)
    t, z = lax.linalg.schur(to_complex(a) if complex_ else a)
    return t, z


def to_complex(x: Array) -> Array:
    """An array as complex numbers of its precision."""
    return x if is_complex(dtype_of(x)) else x.astype(np.complex128 if dtype_of(x) == np.float64 else np.complex64)


@inline_jit("check_finite")
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form from a real one: `(t, z)`, T upper triangular.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.rsf2csf(*linalg.schur(jnp.array([[0., 1.], [-1., 0.]])))[0].dtype
    dtype('complex64')
    """
    t, z = promote_dtypes_inexact(value(T, "rsf2csf"), value(Z, "rsf2csf"))
    for x in (t, z):
        square(x, "rsf2csf", narrow=True)
    n = shape_of(t)[-1]
    if shape_of(z)[-1] != n:
        raise ShapeError(f"rsf2csf: T of shape {shape_of(t)} and Z of shape {shape_of(z)}", "they have one size")
    batch = lax.broadcast_shapes(shape_of(t)[:-2], shape_of(z)[:-2])
    t, z = (to_complex(broadcast_to_shape(x, (*batch, n, n))) for x in (t, z))
    if n < 2:
        return t, z
    rows = lax.broadcasted_iota(np.int32, (*batch, n, n), len(batch))
    columns = lax.broadcasted_iota(np.int32, (*batch, n, n), len(batch) + 1)
    eps = float(np.finfo(dtype_of(t)).eps)

    def step(i: Any, carry: Any) -> Any:
        t, z = carry
        m = n - 1 - i
        turn = _rotation(t, m, eps, rows, columns)
        t = where(columns >= m - 1, product(turn, t), t)
        t = where(rows <= m, product(t, adjoint(turn)), t)
        t = where((rows == m) & (columns == m - 1), 0, t)
        return t, product(z, adjoint(turn))

    t, z = lax.fori_loop(0, n - 1, step, (t, z))
    return triangle(t, False), z


def _rotation(t: Array, m: Any, eps: float, rows: Array, columns: Array) -> Array:
    """The rotation of rows m - 1 and m that makes the element (m, m - 1) zero; the identity where it nearly is."""

    def at(i: Any, j: Any) -> Array:
        return where((rows == i) & (columns == j), t, 0).sum((-2, -1))[..., None, None]

    a, b, c, d = at(m - 1, m - 1), at(m - 1, m), at(m, m - 1), at(m, m)
    half = (a - d) / 2
    root = lax.sqrt(half * half + b * c)
    root = where(lax.real(half) * lax.real(root) + lax.imag(half) * lax.imag(root) < 0, -root, root)
    value = half + root  # an eigenvalue of the block, less d
    size = lax.sqrt(abs(value) ** 2 + abs(c) ** 2)
    wanted = abs(c) > eps * (abs(a) + abs(d))
    safe = where(wanted, size, 1).astype(dtype_of(t))
    cos, sin = value / safe, c / safe
    one = eye(shape_of(t), dtype_of(t))
    turn = where((rows == m - 1) & (columns == m - 1), lax.conj(cos), one)
    turn = where((rows == m) & (columns == m), cos, turn)
    turn = where((rows == m - 1) & (columns == m), lax.conj(sin), turn)
    turn = where((rows == m) & (columns == m - 1), -sin, turn)
    return where(wanted, turn, one)


@inline_jit("calc_q", "overwrite_a", "check_finite")
def hessenberg(a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The upper Hessenberg form of square matrices, with `calc_q` `(h, q)` with A = Q H Q^H.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.hessenberg(jnp.array([[1., 2.], [3., 4.]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    a = square(a, "hessenberg")
    n = shape_of(a)[-1]
    if n == 0:
        return (a, a) if calc_q else a
    reflectors, taus = lax.linalg.hessenberg(a)
    h = triangle(reflectors, False, -1)
    if not calc_q:
        return h
    lead = [0] * (len(shape_of(a)) - 2)
    below = lax.slice(reflectors, [*lead, 1, 0], [*shape_of(a)[:-1], n - 1])
    q = full_product(below, taus) if n > 1 else below
    return h, lax.pad(q, np.zeros((), dtype_of(a))[()], [(0, 0, 0)] * len(lead) + [(1, 0, 0)] * 2) + where(
        (lax.broadcasted_iota(np.int32, shape_of(a), len(lead)) == 0)
        & (lax.broadcasted_iota(np.int32, shape_of(a), len(lead) + 1) == 0), 1, 0).astype(dtype_of(a))  # fmt: skip


@inline_jit("side", "method", "eps", "max_iterations")
def polar(
    a: ArrayLike, side: str = "right", *, method: str = "qdwh", eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """The polar decomposition `(u, p)`: A = U P with side 'right', A = P U with 'left'; P is positive semidefinite.

    `method` is 'qdwh' or 'svd'.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.polar(jnp.array([[2., 0.], [0., -3.]]))[1]
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"polar: side {side!r}", "'left' or 'right'")
    if method not in ("qdwh", "svd"):
        raise ArgumentError(f"polar: method {method!r}", "'qdwh' or 'svd'")
    a = operand(a, "polar")
    m, n = shape_of(a)[-2:]
    if method == "svd":
        u, s, vh = lax.linalg.svd(a, full_matrices=False)
        scale = s[..., None, :].astype(dtype_of(u))
        return product(u, vh), product(adjoint(vh) * scale, vh) if side == "right" else product(u * scale, adjoint(u))
    if (m < n) if side == "right" else (m > n):
        raise UnsupportedError(f"polar by qdwh of shape {shape_of(a)} with side {side!r}", "use method='svd'")
    u, p, *_ = lax.linalg.qdwh(a if side == "right" else adjoint(a), eps=eps, max_iterations=max_iterations)
    return (u, p) if side == "right" else (adjoint(u), p)


# ---------------------------------------------------------------------------- tridiagonal matrices


@inline_jit("eigvals_only", "select", "select_range", "tol")
def eigh_tridiagonal(
    d: ArrayLike, e: ArrayLike, *, eigvals_only: bool = False, select: str = "a",
    select_range: tuple[float, float] | None = None, tol: float | None = None, key: Array | None = None,
) -> Any:  # fmt: skip
    """The eigenvalues and vectors of Hermitian tridiagonal matrices: `(w, v)`, or `w` alone.

    `d` (..., n) is the diagonal and `e` (..., n - 1) the one above. `select` 'a' gives all values, 'i' those of the
    indices `select_range`, both ends included. Values alone are found by bisection, within `tol`; `key` is not needed.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.eigh_tridiagonal(jnp.array([1., 3.]), jnp.array([0.]), eigvals_only=True)
    Array([1., 3.], dtype=float32)
    """
    d, e = value(d, "eigh_tridiagonal"), value(e, "eigh_tridiagonal")
    if dtype_of(d) != dtype_of(e):
        raise DtypeError(f"eigh_tridiagonal: diagonals of {dtype_of(d)} and {dtype_of(e)}", "cast them to one dtype")
    d, e = promote_dtypes_inexact(d, e)
    n = shape_of(d)[-1] if shape_of(d) else 0
    if not n or shape_of(e) != (*shape_of(d)[:-1], n - 1):
        raise ShapeError(f"eigh_tridiagonal: diagonals of shapes {shape_of(d)} and {shape_of(e)}",
                         "the second is shorter by 1")  # fmt: skip
    if select not in ("a", "i"):
        raise (UnsupportedError if select == "v" else ArgumentError)(
            f"eigh_tridiagonal: select {select!r}", "'a' or 'i'"
        )
    first, last = (0, n - 1) if select == "a" else _indices(select_range, n)
    if eigvals_only:
        real = lax.real(d) if is_complex(dtype_of(d)) else d
        return _values_by_bisection(real, lax.abs(e), first, last, tol)
    values, vectors = numpy_linalg.eigh(_tridiagonal(d, conjugate(e)), "L", symmetrize_input=False)
    return (lax.slice_in_dim(values, first, last + 1, axis=len(shape_of(values)) - 1),
            lax.slice_in_dim(vectors, first, last + 1, axis=len(shape_of(vectors)) - 1))  # fmt: skip


def _indices(chosen: Any, n: int) -> tuple[int, int]:
    if chosen is None or not 0 <= chosen[0] <= chosen[1] < n:
        raise ArgumentError(f"eigh_tridiagonal: select_range {chosen} of {plural(n, 'value')}", "two indices in order")
    return int(chosen[0]), int(chosen[1])


def _tridiagonal(d: Array, e: Array) -> Array:
    """The lower triangle of a tridiagonal matrix."""
    n = shape_of(d)[-1]
    on = eye((*shape_of(d), n), dtype_of(d)) * d[..., None, :]
    if n == 1:
        return on
    lead = [(0, 0, 0)] * (len(shape_of(d)) - 1)
    below = eye((*shape_of(e), n - 1), dtype_of(e)) * e[..., None, :]
    return on + lax.pad(below, np.zeros((), dtype_of(e))[()], [*lead, (1, 0, 0), (0, 1, 0)])


def _values_by_bisection(d: Array, e: Array, first: int, last: int, tol: float | None) -> Array:
    """Eigenvalues by counting those below a number, from the signs of pivots (Sturm); derivatives by vectors.

    W. Barth, R. S. Martin, J. H. Wilkinson, "Calculation of the eigenvalues of a symmetric tridiagonal matrix by the
    method of bisection", Numerische Mathematik 9 (1967).
    """

    @custom_jvp
    def run(d: Array, e: Array) -> Array:
        return _bisect(d, e, first, last, tol)

    @run.defjvp
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (d, e), (dd, de) = primals, tangents
        v = numpy_linalg.eigh(_tridiagonal(d, e), "L", symmetrize_input=False).eigenvectors
        v = lax.slice_in_dim(v, first, last + 1, axis=len(shape_of(v)) - 1)
        change = (v * v * dd[..., :, None]).sum(-2)
        return run(d, e), change + 2 * (v[..., 1:, :] * v[..., :-1, :] * de[..., :, None]).sum(-2)

    return run(d, e)


def _bisect(d: Array, e: Array, first: int, last: int, tol: float | None) -> Array:
    dtype = dtype_of(d)
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    n, axis = shape_of(d)[-1], len(shape_of(d)) - 1
    zero = lax.full((*shape_of(d)[:-1], 1), 0, dtype)
    beside = lax.concatenate([zero, e, zero], axis)
    radius = beside[..., 1:] + beside[..., :-1]
    low, high = (d - radius).min(-1), (d + radius).max(-1)
    size = lax.max(abs(low), abs(high))
    margin = 2 * eps * n * size + 2 * tiny
    squares = beside[..., :-1] * beside[..., :-1]
    least = tiny * (1 + squares.max(-1))[..., None]
    wanted = lax.broadcasted_iota(np.int32, (*shape_of(d)[:-1], last - first + 1), axis) + first
    low, high = ((x[..., None] + lax.full(shape_of(wanted), 0, dtype)) for x in (low - margin, high + margin))
    steps = (lax.transpose(d, (axis, *range(axis))), lax.transpose(squares, (axis, *range(axis))))

    def below(x: Array) -> Array:
        """How many eigenvalues are less than each x."""

        def pivot(carry: Any, step: Any) -> Any:
            q, count = carry
            on, square_ = step
            q = on[..., None] - x - square_[..., None] / q
            q = where(abs(q) < least, -least, q)
            return (q, count + lax.convert_element_type(q < 0, np.int32)), None

        start = (lax.full_like(x, 1), lax.full(shape_of(x), 0, np.int32))
        return lax.scan(pivot, start, steps)[0][1]

    def halve(_: Any, interval: Any) -> Any:
        low, high = interval
        middle = (low + high) / 2
        left = below(middle) > wanted
        return where(left, low, middle), where(left, middle, high)

    most = np.finfo(dtype).nmant + 8
    if tol is not None and tol > 0:
        most = min(most, max(1, int(np.ceil(-np.log2(tol))) + 8))
    low, high = lax.fori_loop(0, most, halve, (low, high))
    return (low + high) / 2


# ---------------------------------------------------------------------------- LU


@inline_jit("overwrite_a", "check_finite")
def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """LU factors of matrices and the row swaps: `(lu, pivots)`, for `lu_solve` those of square ones.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.lu_factor(jnp.array([[1., 2.], [4., 4.]]))[1]
    Array([1, 1], dtype=int32)
    """
    factors, pivots, _ = lax.linalg.lu(operand(a, "lu_factor"))
    return factors, pivots


@inline_jit("permute_l", "overwrite_a", "check_finite")
def lu(a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """LU factors of matrices: `(p, l, u)` with `A = P L U`, or `(P L, u)` with `permute_l`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.lu(jnp.array([[1., 2.], [4., 4.]]))[2]
    Array([[4., 4.],
           [0., 1.]], dtype=float32)
    """
    a = operand(a, "lu")
    batch, (m, n), k = shape_of(a)[:-2], shape_of(a)[-2:], min(shape_of(a)[-2:])
    factors, _, permutation = lax.linalg.lu(a)
    lower = triangle(_lu.part(factors, m, k), True, -1) + eye((*batch, m, k), dtype_of(a))
    upper = triangle(_lu.part(factors, k, n), False)
    if permute_l:
        order = lax.sort_key_val(permutation, lax.broadcasted_iota(np.int32, shape_of(permutation), len(batch)))[1]
        return _lu.permuted(lower, order), upper
    rows = lax.broadcasted_iota(np.int32, (*batch, m, m), len(batch))
    wanted = lax.broadcast_in_dim(permutation, (*batch, m, m), (*range(len(batch)), len(batch) + 1))
    return lax.convert_element_type(rows == wanted, np.zeros((), dtype_of(a)).real.dtype), lower, upper


# ---------------------------------------------------------------------------- Cholesky


@inline_jit("lower", "overwrite_a", "check_finite")
def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The upper (or lower) Cholesky factors of Hermitian matrices, of which that triangle is read.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    a = square(a, "cholesky")
    factor = lax.linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Cholesky factors of Hermitian matrices, and whether they are lower ones, for `cho_solve`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.cho_factor(jnp.array([[4., 2.], [2., 5.]]))[1]
    False
    """
    return cholesky(a, lower=lower), lower
