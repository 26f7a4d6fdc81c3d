"""QR factors, pivoted or not, and their Householder reflectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.primitive import Linear, Primitive, Zero
from ...ir.types import INT32, ArrayType, is_complex
from ...support.errors import ShapeError, UnsupportedError
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import weak_as_operands, zeros
from ..elementwise.arithmetic import add_p, mul_p, sub_p
from ..elementwise.conversion import complex_p, imag_p
from ..movement.gather_functions import take_along
from ..movement.shape import broadcast_in_dim, concatenate, slice
from .common import (
    check_batch,
    check_dtype,
    check_matrix,
    each,
    matrixwise,
    scipy_linalg,
)
from .matrices import adjoint, columns_of, conjugate, diagonal, eye, padded, part, product, triangle
from .triangular import triangular_solve

# ---------------------------------------------------------------------------- reflectors


@cached(1024)
def _geqrf_typing(x: ArrayType) -> list[ArrayType]:
    check_dtype("geqrf", x)
    batch, m, n = check_matrix("geqrf", x)
    return [x.strong(), ArrayType((*batch, min(m, n)), x.dtype)]


def _geqrf_numpy(x: np.ndarray) -> Any:
    if not x.size:
        return x, np.zeros(min(x.shape), x.dtype)
    return scipy_linalg().get_lapack_funcs("geqrf", (x,))(x)[:2]


geqrf_p: Primitive = Primitive(
    "geqrf", weak_as_operands(_geqrf_typing), numpy=each(_geqrf_typing, _geqrf_numpy, [2], finite=False),
    multiple=True, relation=matrixwise(2),
)  # fmt: skip


@cached(1024)
def _geqp3_typing(x: ArrayType, pivots: ArrayType) -> list[ArrayType]:
    check_dtype("geqp3", x)
    batch, m, n = check_matrix("geqp3", x)
    if pivots.shape != (*batch, n):
        raise ShapeError(f"geqp3: pivots {pivots.show()} of {x.show()}", "one for each column, 0 to leave it free")
    return [x.strong(), ArrayType((*batch, n), INT32), ArrayType((*batch, min(m, n)), x.dtype)]


def _geqp3_numpy(x: np.ndarray, pivots: np.ndarray) -> Any:
    if not x.size:
        return x, np.arange(1, x.shape[1] + 1, dtype=INT32), np.zeros(min(x.shape), x.dtype)
    out, order, taus = scipy_linalg().get_lapack_funcs("geqp3", (x,))(x)[:3]
    return out, order, taus


geqp3_p: Primitive = Primitive(
    "geqp3", weak_as_operands(_geqp3_typing), numpy=each(_geqp3_typing, _geqp3_numpy, [2, 1], finite=False),
    multiple=True, relation=matrixwise(2, 1),
)  # fmt: skip


@cached(1024)
def _product_typing(a: ArrayType, taus: ArrayType) -> ArrayType:
    check_dtype("householder_product", a, taus)
    batch, m, n = check_matrix("householder_product", a)
    if m < n:
        raise ShapeError(f"householder_product of {a.show()}: more columns than rows", "pass (..., m, n) with m >= n")
    if taus.shape[:-1] != batch or taus.ndim != a.ndim - 1 or taus.shape[-1] > n:
        raise ShapeError(f"householder_product of {a.show()} with taus {taus.show()}", "one for each column at most")
    return a.strong()


def reflected(a: np.ndarray, taus: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The product of the reflectors `1 - tau v v^H`, in order, with a matrix."""
    for i in reversed(range(len(taus))):
        v = np.concatenate([np.zeros(i, a.dtype), np.ones(1, a.dtype), a[i + 1 :, i]])
        c = c - taus[i] * np.outer(v, v.conj() @ c)
    return c


def _product_numpy(a: np.ndarray, taus: np.ndarray) -> np.ndarray:
    return reflected(a, taus, np.eye(*a.shape, dtype=a.dtype))


householder_product_p: Primitive = Primitive(
    "householder_product", weak_as_operands(_product_typing),
    numpy=each(_product_typing, _product_numpy, [2, 1]), relation=matrixwise(2, 1),
)  # fmt: skip


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first columns of a product of reflectors `1 - tau v v^H`, whose vectors are below the diagonal of `a`.

    `a` is (..., m, n) with m >= n and `taus` (..., k) with k <= n, as `geqrf` leaves them.

    >>> import numpy as np
    >>> householder_product(np.zeros((2, 1), np.float32), np.array([2.0], np.float32))[0]
    Array([-1.], dtype=float32)
    """
    return householder_product_p.bind(a, taus)


@cached(1024)
def _ormqr_typing(a: ArrayType, taus: ArrayType, c: ArrayType, *, left: bool, transpose: bool) -> ArrayType:
    check_dtype("ormqr", a, taus, c)
    batch, m, n = check_matrix("ormqr", a)
    other, rows, columns = check_matrix("ormqr", c)
    check_batch("ormqr", batch, other, c)
    if taus.shape[:-1] != batch or taus.ndim != a.ndim - 1 or taus.shape[-1] > min(m, n):
        raise ShapeError(f"ormqr of {a.show()} with taus {taus.show()}", "one for each column at most")
    if (rows if left else columns) != m:
        raise ShapeError(f"ormqr: {a.show()} does not fit {c.show()}", "Q is as large as `a` has rows")
    return c.strong()


def _ormqr_numpy(a: np.ndarray, taus: np.ndarray, c: np.ndarray, *, left: bool, transpose: bool) -> np.ndarray:
    q = reflected(a, taus, np.eye(a.shape[0], dtype=a.dtype))
    q = q.conj().T if transpose else q
    return q @ c if left else c @ q


def full_product(a: ArrayLike, taus: ArrayLike) -> Any:
    """All of Q, square, from reflectors."""
    m, n = shape_of(a)[-2:]
    return householder_product_p.bind(padded(a, m, m) if n < m else part(a, m, m), taus)


def _ormqr_expand(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> Any:
    q = full_product(a, taus)
    q = adjoint(q) if transpose else q
    return product(q, c) if left else product(c, q)


def _ormqr_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Linear in `c`; with respect to the reflectors there is no derivative."""
    a, taus, c = primals
    if any(type(t) is not Zero for t in tangents[:2]):
        raise UnsupportedError("ormqr has no derivative with respect to reflectors", "use `qr` and a product")
    return ormqr_p.bind(a, taus, c, **params), ormqr_p.bind(a, taus, tangents[2], **params)


def _ormqr_transpose(ct: Operand, a: Array, taus: Array, c: Linear, *, left: bool, transpose: bool) -> Any:
    if type(c) is not Linear or type(ct) is Zero:
        return [None, None, None]
    back = ormqr_p.bind(a, taus, conjugate(ct), left=left, transpose=not transpose)
    return [None, None, conjugate(back)]


ormqr_p: Primitive = Primitive(
    "ormqr", weak_as_operands(_ormqr_typing), jvp=_ormqr_jvp, transpose=_ormqr_transpose,
    numpy=each(_ormqr_typing, _ormqr_numpy, [2, 1, 2]), expand=_ormqr_expand, relation=matrixwise(2, 1, 2),
)  # fmt: skip


def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """`Q C` (or `C Q` without `left`) for the Q of reflectors, which is never made; with `transpose` by `Q^H`.

    >>> import numpy as np
    >>> ormqr(np.zeros((2, 1), np.float32), np.array([2.0], np.float32), np.eye(2, dtype=np.float32))
    Array([[-1.,  0.],
           [ 0.,  1.]], dtype=float32)
    """
    return ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))


# ---------------------------------------------------------------------------- qr


@cached(1024)
def _typing(x: ArrayType, *, pivoting: bool, full_matrices: bool) -> list[ArrayType]:
    check_dtype("qr", x)
    batch, m, n = check_matrix("qr", x)
    k = m if full_matrices else min(m, n)
    types = [ArrayType((*batch, m, k), x.dtype), ArrayType((*batch, k, n), x.dtype)]
    return [*types, ArrayType((*batch, n), INT32)] if pivoting else types


def _expand(x: Array, *, pivoting: bool, full_matrices: bool) -> list[Any]:
    batch, (m, n) = shape_of(x)[:-2], shape_of(x)[-2:]
    order = []
    if pivoting:
        free = zeros(ArrayType((*batch, n), INT32))
        r, places, taus = geqp3_p.bind(x, free)
        order = [sub_p.bind(places, np.int32(1))]
    else:
        r, taus = geqrf_p.bind(x)
    if full_matrices:
        q = full_product(r, taus)
        return [q, triangle(r, False), *order]
    k = min(m, n)
    return [householder_product_p.bind(part(r, m, k), taus), triangle(part(r, k, n), False), *order]


def _solved_tangents(q: Operand, r: Operand, change: Operand) -> tuple[Any, Any]:
    """The changes of Q and square R: Q (W - S) + dA R^-1 and (S - W) R, with S = Q^H dA R^-1 and W its skew part.

    S. F. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
    experimental design", arXiv:1001.1654; J. Townsend, "Differentiating the QR decomposition", 2018.
    """
    solved = triangular_solve(r, change)
    inner = product(adjoint(q), solved)
    below = triangle(inner, True, -1)
    skew = sub_p.bind(below, adjoint(below))
    if is_complex(typeof(q).dtype):  # the diagonal of R stays real
        n = shape_of(inner)[-1]
        turn = imag_p.bind(diagonal(inner))
        turn = complex_p.bind(zeros(typeof(turn)), turn)  # type: ignore[arg-type]
        on = eye(shape_of(inner), typeof(q).dtype)
        skew = add_p.bind(skew, mul_p.bind(on, columns_of(turn, n)))
    rest = sub_p.bind(skew, inner)
    return add_p.bind(product(q, rest), solved), product(sub_p.bind(inner, skew), r)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, pivoting: bool, full_matrices: bool) -> Any:
    (x,) = primals
    m, n = shape_of(x)[-2:]
    if full_matrices and m > n:
        raise UnsupportedError(
            f"the derivative of a full qr of {typeof(x).show()}, whose last columns of Q are not determined",
            "use full_matrices=False (mode='reduced')")  # fmt: skip
    q, r, *order = qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices)
    change = tangents[0]
    if pivoting:
        count = len(shape_of(x))
        lead = (*range(count - 2), count - 1)
        change = take_along(change, broadcast_in_dim(order[0], shape_of(x), lead), count - 1)
    k = min(m, n)
    q_change, r_change = _solved_tangents(q, part(r, k, k), part(change, m, k))
    if n > k:  # A = [Q R1, Q R2], and R2 = Q^H A2
        rest = _columns_from(change, k)
        tail = sub_p.bind(product(adjoint(q), rest), product(adjoint(q), q_change, _columns_from(r, k)))
        r_change = concatenate([r_change, tail], len(shape_of(x)) - 1)
    return [q, r, *order], [q_change, r_change, *(Zero(typeof(p).tangent()) for p in order)]


def _columns_from(x: Operand, start: int) -> Any:
    shape = shape_of(x)
    return slice(x, [0] * (len(shape) - 1) + [start], shape)


def _numpy(x: np.ndarray, *, pivoting: bool, full_matrices: bool) -> Any:
    m, n = x.shape
    if not x.size:
        k = m if full_matrices else min(m, n)
        return np.eye(m, k), np.zeros((k, n)), *([np.arange(n)] if pivoting else [])
    return scipy_linalg().qr(x, mode="full" if full_matrices else "economic", pivoting=pivoting, check_finite=False)


qr_p: Primitive = Primitive(
    "qr", weak_as_operands(_typing), jvp=_jvp, numpy=each(_typing, _numpy, [2], finite=False), expand=_expand,
    multiple=True, relation=matrixwise(2),
)  # fmt: skip


def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True, use_magma: Any = None) -> tuple[Any, ...]:
    """QR factors `(q, r)` of matrices (..., m, n); with `pivoting` also `p`, with `A[:, p] = Q R`.

    Q is (..., m, m), or with `full_matrices=False` (..., m, min(m, n)). `use_magma` is taken for compatibility.

    Raises:
      ShapeError: `x` has less than two axes.
      DtypeError: a dtype that is not float32, float64, complex64 or complex128.
      UnsupportedError: the derivative of a full Q of more rows than columns.

    >>> import numpy as np
    >>> q, r = qr(np.array([[3.0], [4.0]], np.float32), full_matrices=False)
    >>> r
    Array([[-5.]], dtype=float32)
    """
    return tuple(qr_p.bind(x, pivoting=bool(pivoting), full_matrices=bool(full_matrices)))


PRIMITIVES = (geqrf_p, geqp3_p, householder_product_p, ormqr_p, qr_p)
