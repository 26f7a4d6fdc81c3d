"""Cholesky factors, their update by one vector, and symmetric products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.primitive import Primitive, Zero
from ...ir.types import ArrayType
from ...support.errors import ArgumentError, ShapeError
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...transforms.jvp import expanded_jvp
from ...transforms.rule_helpers import like, weak_as_operands
from ...transforms.structural_primitives import add_tangents
from ..elementwise.arithmetic import add_p, mul_p
from ..movement.shape import expand_dims
from .common import check_batch, check_dtype, check_matrix, check_square, each, matrixwise, with_fractions
from .matrices import (
    adjoint,
    from_triangle,
    half,
    hermitian,
    product,
    transposed,
    triangle,
)
from .triangular import triangular_solve

# ---------------------------------------------------------------------------- cholesky


@cached(1024)
def _typing(x: ArrayType) -> ArrayType:
    check_dtype("cholesky", x)
    check_square("cholesky", x)
    return x.strong()


def _halved(x: Operand) -> Any:
    """The lower triangle with half of the diagonal."""
    return half(add_p.bind(triangle(x, True), triangle(x, True, -1)))


def _factor_tangent(factor: Operand, change: Operand) -> Any:
    """The change of a lower Cholesky factor: L phi(L^-1 dA L^-H), phi the lower triangle with half of the diagonal.

    I. Murray, "Differentiation of the Cholesky decomposition", arXiv:1602.07527, section 3.1.
    """
    right = triangular_solve(factor, change, lower=True, transpose_a=True, conjugate_a=True)
    middle = triangular_solve(factor, right, left_side=True, lower=True)
    return product(factor, _halved(middle))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    factor = cholesky_p.bind(*primals)
    return factor, _factor_tangent(factor, from_triangle(tangents[0], True))


def _numpy(x: np.ndarray) -> np.ndarray:
    below = np.tril(x, -1)
    try:
        return np.linalg.cholesky(below + below.conj().T + np.diag(np.real(np.diag(x))))
    except np.linalg.LinAlgError:
        return np.tril(np.full_like(x, np.nan))


cholesky_p: Primitive = Primitive(
    "cholesky", weak_as_operands(_typing), jvp=_jvp, numpy=each(_typing, _numpy, [2], finite=False),
    relation=matrixwise(2),
)  # fmt: skip


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower Cholesky factors of Hermitian matrices; NaN where one is not positive definite.

    `x` has shape (..., n, n) and a dtype float32, float64, complex64 or complex128; integers and booleans become
    floats. Without `symmetrize_input` only the lower triangle is read, and the derivative is with respect to it.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: another dtype.

    >>> import numpy as np
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    x = with_fractions(x)
    check_square("cholesky", typeof(x))  # type: ignore[arg-type]
    check_dtype("cholesky", typeof(x))  # type: ignore[arg-type]
    return cholesky_p.bind(hermitian(x) if symmetrize_input else x)


# ---------------------------------------------------------------------------- update by a vector


@cached(1024)
def _update_typing(r: ArrayType, w: ArrayType) -> ArrayType:
    check_dtype("cholesky_update", r, w)
    batch, n = check_square("cholesky_update", r)
    if w.shape != (*batch, n):
        raise ShapeError(f"cholesky_update of factors {r.show()} by vectors {w.show()}", "one vector for each factor")
    return r.strong()


def _update_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """As a factor's: of R^H R + w w^H, whose change is that of both summands."""
    r, w = primals
    dr, dw = tangents
    out = cholesky_update_p.bind(r, w)
    total: Any = None
    if type(dr) is not Zero:
        total = product(adjoint(r), triangle(dr, False))
    if type(dw) is not Zero:
        total = add_tangents(total, product(_column(w), adjoint(_column(dw))))
    change = add_p.bind(total, adjoint(total))
    return out, adjoint(_factor_tangent(adjoint(out), change))


def _column(v: Operand) -> Any:
    return expand_dims(v, (len(shape_of(v)),))


def _update_numpy(r: np.ndarray, w: np.ndarray) -> np.ndarray:
    r = np.triu(r)
    return np.linalg.cholesky(r.conj().T @ r + np.outer(w, w.conj())).conj().T


def _update_expand(r: Array, w: Array) -> Any:
    outer = product(_column(w), adjoint(_column(w)))
    r = triangle(r, False)
    return adjoint(cholesky_p.bind(add_p.bind(product(adjoint(r), r), outer)))


cholesky_update_p: Primitive = Primitive(
    "cholesky_update", weak_as_operands(_update_typing), jvp=_update_jvp,
    numpy=each(_update_typing, _update_numpy, [2, 1]), expand=_update_expand, relation=matrixwise(2, 1),
)  # fmt: skip


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper Cholesky factor of `R^H R + w w^H`, from the upper factor `R` and a vector.

    >>> import numpy as np
    >>> cholesky_update(np.eye(2, dtype=np.float32), np.array([0.0, 1.0], np.float32))[1, 1]
    Array(1.4142135, dtype=float32)
    """
    return cholesky_update_p.bind(r_matrix, w_vector)


# ---------------------------------------------------------------------------- symmetric products


@cached(1024)
def _product_typing(a: ArrayType, c: ArrayType, *, alpha: float, beta: float) -> ArrayType:
    check_dtype("symmetric_product", a, c)
    batch, m, _ = check_matrix("symmetric_product", a)
    other, n = check_square("symmetric_product", c)
    check_batch("symmetric_product", batch, other, c)
    if m != n:
        raise ShapeError(f"symmetric_product: {a.show()} has {m} rows and {c.show()} has {n}", "they must be equal")
    return c.strong()


def _product(a: Array, c: Array, *, alpha: float, beta: float) -> Any:
    own = product(a, transposed(a))
    return add_p.bind(mul_p.bind(own, like(own, alpha)), mul_p.bind(c, like(own, beta)))


def _product_numpy(a: np.ndarray, c: np.ndarray, *, alpha: float, beta: float) -> np.ndarray:
    return alpha * (a @ np.swapaxes(a, -1, -2)) + beta * c


symmetric_product_p: Primitive = Primitive(
    "symmetric_product", weak_as_operands(_product_typing), jvp=expanded_jvp(_product),
    numpy=_product_numpy, expand=_product, relation=matrixwise(2, 2),
)  # fmt: skip


def symmetric_product(
    a_matrix: ArrayLike, c_matrix: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Array:
    """`alpha A A^T + beta C` for symmetric `C`; only the lower triangle counts unless `symmetrize_output`.

    >>> import numpy as np
    >>> symmetric_product(np.ones((2, 3), np.float32), np.zeros((2, 2), np.float32))
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    for name, number in (("alpha", alpha), ("beta", beta)):
        if not isinstance(number, (int, float, np.number)):
            raise ArgumentError(f"symmetric_product: {name} is {number!r}", "pass a number")
    out = symmetric_product_p.bind(a_matrix, c_matrix, alpha=float(alpha), beta=float(beta))
    if symmetrize_output:
        below = triangle(out, True, -1)
        out = add_p.bind(triangle(out, True), transposed(below))
    return out


PRIMITIVES = (cholesky_p, cholesky_update_p, symmetric_product_p)
