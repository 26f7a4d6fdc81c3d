"""Singular values and vectors."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.primitive import Primitive
from ...ir.program import Eqn
from ...ir.types import ArrayType, is_complex
from ...support.errors import ArgumentError, UnsupportedError
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import like, weak_as_operands
from ...transforms.structural_primitives import spread
from ..elementwise.arithmetic import add_p, div_p, max_p, mul_p, sign_p, sub_p
from ..elementwise.comparison import eq_p, select_n_p
from ..elementwise.conversion import complex_p, convert_element_type, imag_p, real_p
from ..movement.shape import concatenate, rev, slice
from .common import check_dtype, check_matrix, each, matrixwise, real_of, scipy_linalg
from .eigh import checked_subset, eigh
from .matrices import adjoint, columns_of, diagonal, eye, half, on_diagonal, part, product, rows_of
from .qdwh import qdwh
from .qr import qr


class SvdAlgorithm(enum.Enum):
    """How singular values are found. `DEFAULT` is what suits the device."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide and conquer"


@cached(1024)
def _typing(x: ArrayType, *, full_matrices: bool, compute_uv: bool, algorithm: SvdAlgorithm) -> list[ArrayType]:
    check_dtype("svd", x)
    batch, m, n = check_matrix("svd", x)
    k = min(m, n)
    values = ArrayType((*batch, k), real_of(x.dtype))
    if not compute_uv:
        return [values]
    left, right = (m, n) if full_matrices else (k, k)
    return [values, ArrayType((*batch, m, left), x.dtype), ArrayType((*batch, right, n), x.dtype)]


def _reciprocal(x: Array) -> Any:
    return div_p.bind(spread(like(x, 1.0), shape_of(x)), x)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool, compute_uv: bool, algorithm: SvdAlgorithm
) -> Any:
    """With P = U^H dA V: dS = Re diag P, dU = U (F * (P S + S P^H)) + (1 - U U^H) dA V S^-1, and so for V.

    F_ij = 1 / (s_j^2 - s_i^2), 0 on the diagonal; complex vectors rotate by the imaginary parts of P's diagonal. The
    values' derivative stays finite where they repeat; that of the vectors does not exist there.

    M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation", 2008,
    section 3.2; J. Townsend, "Differentiating the singular value decomposition", 2016.
    """
    (x,), (change,) = primals, tangents
    m, n = shape_of(x)[-2:]
    if compute_uv and full_matrices and m != n:
        raise UnsupportedError(
            f"the derivative of a full svd of {typeof(x).show()}, whose last vectors are not determined",
            "use full_matrices=False")  # fmt: skip
    values, left, right = svd_p.bind(x, full_matrices=False, compute_uv=True, algorithm=algorithm)
    inner = product(adjoint(left), change, adjoint(right))
    turned = diagonal(inner)
    values_change = real_p.bind(turned) if is_complex(typeof(x).dtype) else turned
    if not compute_uv:
        return [values], [values_change]
    return [values, left, right], [values_change, *_vectors(values, left, right, change, inner)]


def _vectors(values: Operand, left: Operand, right: Operand, change: Operand, inner: Array) -> tuple[Any, Any]:
    """The changes of the left vectors and of the adjoint of the right ones."""
    k, dtype = shape_of(values)[-1], typeof(left).dtype
    m, n = shape_of(left)[-2], shape_of(right)[-1]
    rows, columns = rows_of(values, k), columns_of(values, k)
    gaps = mul_p.bind(add_p.bind(rows, columns), sub_p.bind(rows, columns))
    on = on_diagonal(shape_of(gaps))
    one, zero = (spread(like(gaps, v), shape_of(gaps)) for v in (1.0, 0.0))
    factors = select_n_p.bind(on, _reciprocal(select_n_p.bind(on, gaps, one)), zero)
    factors = convert_element_type(factors, dtype)
    scale, inverse = (convert_element_type(v, dtype) for v in (values, _reciprocal(values)))
    by_rows = convert_element_type(rows, dtype)
    by_columns = columns_of(scale, k)
    back = adjoint(inner)
    left_turn = mul_p.bind(factors, add_p.bind(mul_p.bind(inner, by_rows), mul_p.bind(by_columns, back)))
    right_turn = mul_p.bind(factors, add_p.bind(mul_p.bind(by_columns, inner), mul_p.bind(back, by_rows)))
    if is_complex(dtype):
        imaginary = imag_p.bind(diagonal(inner))
        phase = half(complex_p.bind(sub_p.bind(imaginary, imaginary), imaginary))
        phase = mul_p.bind(eye(shape_of(inner), dtype), columns_of(mul_p.bind(phase, inverse), k))
        left_turn, right_turn = add_p.bind(left_turn, phase), sub_p.bind(right_turn, phase)
    left_change, right_change = product(left, left_turn), product(adjoint(right_turn), right)
    if m > k:
        outside = mul_p.bind(product(change, adjoint(right)), rows_of(inverse, m))
        outside = sub_p.bind(outside, product(left, product(adjoint(left), outside)))
        left_change = add_p.bind(left_change, outside)
    if n > k:
        outside = mul_p.bind(columns_of(inverse, n), product(adjoint(left), change))
        outside = sub_p.bind(outside, product(product(outside, adjoint(right)), right))
        right_change = add_p.bind(right_change, outside)
    return left_change, right_change


def _numpy(x: np.ndarray, *, full_matrices: bool, compute_uv: bool, algorithm: SvdAlgorithm) -> Any:
    if not x.size:
        m, n = x.shape
        k = min(m, n)
        empty = [np.zeros(k)]
        sizes = (m, n) if full_matrices else (k, k)
        return [*empty, np.eye(m, sizes[0]), np.eye(sizes[1], n)] if compute_uv else empty
    driver = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    if not compute_uv:
        return [scipy_linalg().svd(x, compute_uv=False, lapack_driver=driver)]
    left, values, right = scipy_linalg().svd(x, full_matrices, lapack_driver=driver)
    return [values, left, right]


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn:
    """Vectors that nobody uses are not computed."""
    if any(used[1:]):
        return eqn
    return eqn.replace(outputs=eqn.outputs[:1], params={**eqn.params, "compute_uv": False})


svd_p: Primitive = Primitive(
    "svd", weak_as_operands(_typing), jvp=_jvp, numpy=each(_typing, _numpy, [2]), multiple=True,
    dce=_dce, relation=matrixwise(2),
)  # fmt: skip


def svd(
    x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None, algorithm: SvdAlgorithm | None = None,
) -> Any:  # fmt: skip
    """Singular values and vectors of matrices (..., m, n): `(u, s, vh)` with `A = u s vh`, or `s` alone.

    `s` (..., min(m, n)) is real and descending. With `full_matrices` the vectors are square matrices. `subset_by_index`
    is the range of values to give. NaN where LAPACK does not converge.

    Raises:
      ShapeError: `x` has less than two axes.
      DtypeError: a dtype that is not float32, float64, complex64 or complex128.
      UnsupportedError: the derivative of full vectors of a matrix that is not square.

    >>> import numpy as np
    >>> svd(np.array([[0.0, 2.0], [1.0, 0.0]], np.float32), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    if algorithm is None:
        algorithm = SvdAlgorithm.DEFAULT
    elif not isinstance(algorithm, SvdAlgorithm):
        raise ArgumentError(f"svd: algorithm {algorithm!r}", "one of `SvdAlgorithm`")
    batch, m, n = check_matrix("svd", typeof(x))  # type: ignore[arg-type]
    found = svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), algorithm=algorithm)
    if subset_by_index is not None:
        k = min(m, n)
        start, end = checked_subset("svd", subset_by_index, k)
        if full_matrices and compute_uv and (start, end) != (0, k):
            raise ArgumentError(f"svd: subset_by_index {subset_by_index} of full matrices", "use full_matrices=False")
        if (start, end) != (0, k):
            lead = [0] * len(batch)
            found[0] = slice(found[0], [*lead, start], [*batch, end])
            if compute_uv:
                found[1] = slice(found[1], [*lead, 0, start], [*batch, m, end])
                found[2] = slice(found[2], [*lead, start, 0], [*batch, end, n])
    return (found[1], found[0], found[2]) if compute_uv else found[0]


PRIMITIVES = (svd_p,)


def svd_by_polar(x: ArrayLike, full_matrices: bool, compute_uv: bool) -> list[Any]:
    """Singular values and vectors from the polar decomposition and the eigenvalues of its Hermitian factor.

    Y. Nakatsukasa, N. J. Higham, "Stable and efficient spectral divide and conquer algorithms for the symmetric
    eigenvalue decomposition and the SVD", SIAM Journal on Scientific Computing 35 (2013).
    """
    m, n = shape_of(x)[-2:]
    if m < n:
        found = svd_by_polar(adjoint(x), full_matrices, compute_uv)
        return [found[0], adjoint(found[2]), adjoint(found[1])] if compute_uv else found
    unitary, positive, _, _ = qdwh(x)
    vectors, values = eigh(positive)
    last = len(shape_of(x)) - 1
    values = max_p.bind(rev(values, (last - 1,)), spread(like(values, 0.0), shape_of(values)))
    if not compute_uv:
        return [values]
    right = rev(vectors, (last,))
    # Columns for zero singular values need not be orthonormal yet: QR makes them so and keeps the others up to sign.
    left, r = qr(product(unitary, right), full_matrices=full_matrices)
    ends = diagonal(r)
    zero = eq_p.bind(ends, spread(like(ends, 0), shape_of(ends)))
    signs = select_n_p.bind(zero, sign_p.bind(ends), spread(like(ends, 1), shape_of(ends)))
    turned = mul_p.bind(part(left, m, n), rows_of(signs, m))
    if full_matrices and m > n:
        shape = shape_of(left)
        rest = slice(left, [*([0] * (len(shape) - 2)), 0, n], shape)
        turned = concatenate([turned, rest], last)
    return [values, turned, adjoint(right)]
