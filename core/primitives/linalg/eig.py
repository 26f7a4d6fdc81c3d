"""Eigenvalues of general matrices, and the forms they are found by: Schur, Hessenberg, tridiagonal."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike
from ...ir.primitive import Primitive
from ...ir.types import INT32, ArrayType, is_complex
from ...support.errors import ArgumentError, UnsupportedError
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import weak_as_operands, zeros
from ...transforms.structural_primitives import spread
from ..elementwise.arithmetic import abs_p, div_p, mul_p, sub_p
from ..elementwise.comparison import select_n_p
from ..elementwise.conversion import complex_p, conj_p, convert_element_type, imag_p, real_p
from ..movement.gather_functions import take_along
from ..movement.shape import broadcast_in_dim
from ..reduction.reduce import argmax, reduce_sum_p
from .common import check_dtype, check_square, complex_of, each, matrixwise, real_of, scipy_linalg
from .lu import solve
from .matrices import adjoint, columns_of, diagonal, on_diagonal, product, rows_of


class EigImplementation(enum.Enum):
    """Whose routine finds eigenvalues: LAPACK's here, on the CPU."""

    LAPACK = "lapack"
    MAGMA = "magma"
    CUSOLVER = "cusolver"


@cached(1024)
def _typing(
    x: ArrayType, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, enable_eigvec_derivs: bool
) -> list[ArrayType]:
    check_dtype("eig", x)
    batch, n = check_square("eig", x)
    dtype = complex_of(x.dtype)
    vectors = ArrayType((*batch, n, n), dtype)
    count = int(compute_left_eigenvectors) + int(compute_right_eigenvectors)
    return [ArrayType((*batch, n), dtype), *([vectors] * count)]


def _numpy(
    x: np.ndarray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, enable_eigvec_derivs: bool
) -> Any:
    if not x.size:
        return [np.zeros(0), *([x] * (compute_left_eigenvectors + compute_right_eigenvectors))]
    found = scipy_linalg().eig(x, left=compute_left_eigenvectors, right=compute_right_eigenvectors)
    return found if isinstance(found, tuple) else [found]


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool, enable_eigvec_derivs: bool,
) -> Any:  # fmt: skip
    """dw = diag(V^-1 dA V) and, on request, the vectors' tangent under LAPACK's normalisation.

    M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation", 2008,
    section 3.1. Left vectors are the right ones of the adjoint.
    """
    wanted = {"compute_left_eigenvectors": compute_left_eigenvectors,
              "compute_right_eigenvectors": compute_right_eigenvectors}  # fmt: skip
    if any(wanted.values()) and not enable_eigvec_derivs:
        raise UnsupportedError(
            "the derivative of eigenvectors of a matrix that need not be Hermitian, which exists only for some",
            "use `lax.linalg.eig(x, enable_eigvec_derivs=True)`, or `numpy.linalg.eigvals`")  # fmt: skip
    (x,), (change,) = primals, tangents
    all_of_it = {"compute_left_eigenvectors": compute_left_eigenvectors, "compute_right_eigenvectors": True}
    # The result does not depend on the scale of the vectors, so that they may be differentiated again.
    values, *vectors = eig_p.bind(x, **all_of_it, enable_eigvec_derivs=True)
    right = vectors[-1]
    change = convert_element_type(change, typeof(values).dtype)
    inner = solve(right, product(change, right))
    outs, out_tangents = [values], [diagonal(inner)]
    if compute_left_eigenvectors:
        left = vectors[0]
        outs.append(left)
        turned = solve(left, product(adjoint(change), left))
        conjugated = conj_p.bind(values, input_dtype=typeof(values).dtype)
        out_tangents.append(_vectors_tangent(conjugated, left, turned))
    if compute_right_eigenvectors:
        outs.append(right)
        out_tangents.append(_vectors_tangent(values, right, inner))
    return outs, out_tangents


def _vectors_tangent(values: Array, vectors: Array, inner: Array) -> Any:
    """How eigenvectors change that keep the length 1 and have a real component of the largest magnitude."""
    n, dtype = shape_of(values)[-1], typeof(values).dtype
    gaps = sub_p.bind(rows_of(values, n), columns_of(values, n))
    one, zero = (spread(np.asarray(v, dtype)[()], shape_of(gaps)) for v in (1, 0))
    on = on_diagonal(shape_of(gaps))
    factors = select_n_p.bind(on, div_p.bind(one, select_n_p.bind(on, gaps, one)), zero)
    moved = product(vectors, mul_p.bind(factors, inner))
    rank = len(shape_of(vectors))
    along = real_p.bind(_down(mul_p.bind(conj_p.bind(vectors, input_dtype=dtype), moved)))
    moved = sub_p.bind(moved, mul_p.bind(vectors, convert_element_type(rows_of(along, n), dtype)))
    place = argmax(abs_p.bind(vectors), rank - 2, INT32)
    place = broadcast_in_dim(place, (*shape_of(place)[:-1], 1, n), (*range(rank - 2), rank - 1))
    largest, its_change = (_down(take_along(v, place, rank - 2)) for v in (vectors, moved))
    turn = div_p.bind(imag_p.bind(its_change), real_p.bind(largest))
    turn = complex_p.bind(zeros(typeof(turn)), turn)  # type: ignore[arg-type]
    return sub_p.bind(moved, mul_p.bind(vectors, rows_of(turn, n)))


def _down(x: Array) -> Any:
    """The sum over rows."""
    return reduce_sum_p.bind(x, axes=(len(shape_of(x)) - 2,))


eig_p: Primitive = Primitive(
    "eig", weak_as_operands(_typing), jvp=_jvp, numpy=each(_typing, _numpy, [2]), multiple=True,
    relation=matrixwise(2),
)  # fmt: skip


def eig(
    x: ArrayLike, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False, implementation: EigImplementation | None = None, use_magma: Any = None,
) -> list[Any]:  # fmt: skip
    """Eigenvalues (..., n) and, as asked, left and right eigenvectors (..., n, n): `[w, vl, vr]`, all complex.

    Vectors have length 1 and a real component of the largest magnitude. Their derivative under that rule exists where
    eigenvalues are distinct; it has to be asked for. NaN where LAPACK does not converge.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: a dtype that is not float32, float64, complex64 or complex128.
      UnsupportedError: the derivative of vectors without `enable_eigvec_derivs`; a target without a routine.

    >>> import numpy as np
    >>> eig(np.array([[0.0, 1.0], [-1.0, 0.0]], np.float32))[0]
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    if implementation not in (None, EigImplementation.LAPACK):
        raise UnsupportedError(f"eig by {implementation}", "leave `implementation` out")
    return list(eig_p.bind(
        x, compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors), enable_eigvec_derivs=bool(enable_eigvec_derivs),
    ))  # fmt: skip


# ---------------------------------------------------------------------------- schur


@cached(1024)
def _schur_typing(x: ArrayType, *, compute_schur_vectors: bool) -> list[ArrayType]:
    check_dtype("schur", x)
    check_square("schur", x)
    return [x.strong()] * (1 + compute_schur_vectors)


def _schur_numpy(x: np.ndarray, *, compute_schur_vectors: bool) -> Any:
    if not x.size:
        return [x] * (1 + compute_schur_vectors)
    return scipy_linalg().schur(x)[: 1 + compute_schur_vectors]


schur_p: Primitive = Primitive(
    "schur", weak_as_operands(_schur_typing), numpy=each(_schur_typing, _schur_numpy, [2]),
    multiple=True, relation=matrixwise(2),
)  # fmt: skip


def schur(
    x: ArrayLike, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False, select_callable: Any = None
) -> tuple[Any, ...]:
    """The Schur form `(t, z)` with `A = Z T Z^H`, T upper triangular (real input: in blocks of 1 and 2).

    >>> import numpy as np
    >>> schur(np.array([[1.0, 2.0], [0.0, 3.0]], np.float32))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if sort_eig_vals or select_callable is not None:
        raise UnsupportedError("schur with sorted eigenvalues", "leave sort_eig_vals and select_callable out")
    return tuple(schur_p.bind(x, compute_schur_vectors=bool(compute_schur_vectors)))


# ---------------------------------------------------------------------------- hessenberg and tridiagonal


@cached(1024)
def _hessenberg_typing(x: ArrayType) -> list[ArrayType]:
    check_dtype("hessenberg", x)
    batch, n = check_square("hessenberg", x)
    if not n:
        raise ArgumentError(f"hessenberg of empty matrices, {x.show()}", "they have no form of that kind")
    return [x.strong(), ArrayType((*batch, n - 1), x.dtype)]


def _hessenberg_numpy(x: np.ndarray) -> Any:
    return scipy_linalg().get_lapack_funcs("gehrd", (x,))(x)[:2]


hessenberg_p: Primitive = Primitive(
    "hessenberg", weak_as_operands(_hessenberg_typing),
    numpy=each(_hessenberg_typing, _hessenberg_numpy, [2], finite=False), multiple=True, relation=matrixwise(2),
)  # fmt: skip


def hessenberg(a: ArrayLike) -> tuple[Any, Any]:
    """The upper Hessenberg form with the reflectors below its subdiagonal, and their factors (..., n - 1).

    >>> import numpy as np
    >>> hessenberg(np.eye(3, dtype=np.float32))[1]
    Array([0., 0.], dtype=float32)
    """
    return tuple(hessenberg_p.bind(a))


@cached(1024)
def _tridiagonal_typing(x: ArrayType, *, lower: bool) -> list[ArrayType]:
    check_dtype("tridiagonal", x)
    batch, n = check_square("tridiagonal", x)
    if not n:
        raise ArgumentError(f"tridiagonal of empty matrices, {x.show()}", "they have no form of that kind")
    real = real_of(x.dtype)
    beside = (*batch, n - 1)
    return [x.strong(), ArrayType((*batch, n), real), ArrayType(beside, real), ArrayType(beside, x.dtype)]


def _tridiagonal_numpy(x: np.ndarray, *, lower: bool) -> Any:
    routine = scipy_linalg().get_lapack_funcs("hetrd" if is_complex(x.dtype) else "sytrd", (x,))
    return routine(x, lower=int(lower))[:4]


tridiagonal_p: Primitive = Primitive(
    "tridiagonal", weak_as_operands(_tridiagonal_typing),
    numpy=each(_tridiagonal_typing, _tridiagonal_numpy, [2], finite=False), multiple=True, relation=matrixwise(2),
)  # fmt: skip


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """The real tridiagonal form of Hermitian matrices: `(a, d, e, taus)`, with the reflectors in `a`.

    `d` (..., n) is its diagonal, `e` (..., n - 1) the one beside; one triangle is read.

    >>> import numpy as np
    >>> tridiagonal(np.eye(3, dtype=np.float32))[1]
    Array([1., 1., 1.], dtype=float32)
    """
    return tuple(tridiagonal_p.bind(a, lower=bool(lower)))


PRIMITIVES = (eig_p, schur_p, hessenberg_p, tridiagonal_p)
