"""Factors of matrices: Cholesky, QR, eigenvalues and singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import lax
from ...core.ir.array import DTypeLike
from ...core.primitives.linalg.common import check_dtype, check_matrix, check_square, is_narrow
from ...core.primitives.linalg.eigh import eigvalsh as _eigvalsh
from ...core.primitives.linalg.matrices import adjoint, transposed
from ...core.primitives.linalg.qr import geqrf_p
from ...core.support.errors import ArgumentError
from ..dtypes import finfo
from ..index import take_along_axis
from ..select import where
from ..sorting import argsort
from ..util import Array, ArrayLike, inline_jit, promote_dtypes_inexact, shape_of, typeof, value


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Array
    R: Array


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Array
    eigenvectors: Array


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Array
    S: Array
    Vh: Array


def operand(a: ArrayLike, name: str) -> Array:
    """An argument as matrices of floating or complex numbers."""
    (a,) = promote_dtypes_inexact(value(a, name))
    check_matrix(name, typeof(a))  # type: ignore[arg-type]
    check_dtype(name, typeof(a))  # type: ignore[arg-type]
    return a


def square(a: ArrayLike, name: str, narrow: bool = False) -> Array:
    """An argument as square matrices of floating or complex numbers; of less than 32 bits where `narrow`."""
    (a,) = promote_dtypes_inexact(value(a, name))
    check_square(name, typeof(a))  # type: ignore[arg-type]
    if not (narrow and is_narrow(typeof(a).dtype)):
        check_dtype(name, typeof(a))  # type: ignore[arg-type]
    return a


@inline_jit("upper", "symmetrize_input")
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The Cholesky factors (..., n, n) of Hermitian matrices; NaN where one is not positive definite.

    Raises `ShapeError` if the matrices are not square, `DtypeError` for bfloat16 and float16.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    factor = lax.linalg.cholesky(square(a, "cholesky"), symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


@inline_jit("mode")
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """The QR factors of matrices (..., m, n): `QRResult(Q, R)`.

    `mode`: 'reduced' (Q is (..., m, k), k the smaller size), 'complete' (Q is square), 'r' (R alone), or 'raw'
    (reflectors and their factors, as LAPACK leaves them).

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.qr(jnp.array([[3.], [4.]]), mode="r")
    Array([[-5.]], dtype=float32)
    """
    a = operand(a, "qr")
    if mode == "raw":
        reflectors, taus = geqrf_p.bind(a)
        return QRResult(transposed(reflectors), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ArgumentError(f"qr: mode {mode!r}", "one of 'reduced', 'complete', 'r', 'raw'")
    q, r = lax.linalg.qr(a, full_matrices=mode in ("full", "complete"))
    return r if mode == "r" else QRResult(q, r)


@inline_jit()
def eig(a: ArrayLike) -> EigResult:
    """The eigenvalues and right eigenvectors of square matrices, complex: `EigResult(eigenvalues, eigenvectors)`.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.eig(jnp.array([[0., 1.], [-1., 0.]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    values, vectors = lax.linalg.eig(square(a, "eig"), compute_left_eigenvectors=False)
    return EigResult(values, vectors)


@inline_jit()
def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues (..., n) of square matrices, complex.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.eigvals(jnp.array([[0., 1.], [-1., 0.]]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    a = square(a, "eigvals")
    return lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def _lower(name: str, triangle: str | None) -> bool:
    if triangle not in (None, "L", "U"):
        raise ArgumentError(f"{name}: UPLO {triangle!r}", "one of None, 'L', 'U'")
    return triangle != "U"


@inline_jit("UPLO", "symmetrize_input")
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """The eigenvalues, ascending, and eigenvectors of Hermitian matrices: `EighResult(eigenvalues, eigenvectors)`.

    Without `symmetrize_input` the triangle `UPLO` is read.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.eigh(jnp.array([[2., 0.], [0., 1.]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    lower = _lower("eigh", UPLO)
    vectors, values = lax.linalg.eigh(square(a, "eigh"), lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(values, vectors)


@inline_jit("UPLO", "symmetrize_input")
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues (..., n), ascending, of Hermitian matrices; no vectors are computed for them.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.eigvalsh(jnp.array([[2., 0.], [0., 1.]]))
    Array([1., 2.], dtype=float32)
    """
    return _eigvalsh(square(a, "eigvalsh"), lower=_lower("eigvalsh", UPLO), symmetrize_input=symmetrize_input)


@inline_jit("full_matrices", "compute_uv", "hermitian", "subset_by_index")
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:  # fmt: skip
    """The singular values, descending, and vectors of matrices: `SVDResult(U, S, Vh)`, or S alone.

    `hermitian` says that the matrices are, and takes their eigenvalues.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.svd(jnp.array([[0., 2.], [1., 0.]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    if not hermitian:
        found = lax.linalg.svd(
            operand(a, "svd"), full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
        )
        return SVDResult(*found) if compute_uv else found
    a = square(a, "svd")
    n = shape_of(a)[-1]
    start, end = (0, n) if subset_by_index is None else subset_by_index
    if not compute_uv:
        sizes = lax.abs(eigvalsh(a))
        return _part(lax.rev(lax.sort(sizes), (len(shape_of(sizes)) - 1,)), start, end)
    values, vectors = eigh(a)
    sizes = lax.abs(values)
    order = argsort(-sizes, axis=-1)
    sizes, values = (take_along_axis(x, order, axis=-1) for x in (sizes, values))
    vectors = take_along_axis(vectors, order[..., None, :], axis=-1)
    left = vectors * where(values < 0, -1.0, 1.0)[..., None, :].astype(typeof(vectors).dtype)
    return SVDResult(_part(left, start, end), _part(sizes, start, end), adjoint(_part(vectors, start, end)))


def _part(x: Array, start: int, end: int) -> Array:
    return lax.slice_in_dim(x, start, end, axis=len(shape_of(x)) - 1)


@inline_jit()
def svdvals(x: ArrayLike, /) -> Array:
    """The singular values, descending, of matrices.

    >>> from tilewright import numpy as jnp
    >>> jnp.linalg.svdvals(jnp.array([[0., 2.], [1., 0.]]))
    Array([2., 1.], dtype=float32)
    """
    return lax.linalg.svd(operand(x, "svdvals"), compute_uv=False)


def epsilon(dtype: DTypeLike) -> float:
    """The distance from 1 to the next number of a floating or complex dtype."""
    return float(finfo(dtype).eps)
