"""The polar decomposition by QDWH: weighted Halley iterations whose weights are known beforehand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike
from ...support.errors import ShapeError, UnsupportedError
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import like
from ...transforms.structural_primitives import spread
from ..elementwise.arithmetic import abs_p, add_p, div_p, mul_p, sqrt_p, sub_p
from ..elementwise.comparison import gt_p, lt_p, select_n_p
from ..elementwise.conversion import convert_element_type
from ..movement.shape import broadcast_in_dim, concatenate, slice
from ..reduction.reduce import reduce_max_p, reduce_sum_p
from .cholesky import cholesky
from .common import check_dtype, check_matrix, real_of
from .matrices import adjoint, eye, hermitian, part, product
from .qr import qr
from .triangular import triangular_solve

LIMIT = 100.0  # weights up to which Cholesky factors are accurate enough


def weights(eps: float, most: int) -> list[tuple[float, float, float]]:
    """The weights (a, b, c) of each iteration, for singular values from `eps` up to 1.

    Y. Nakatsukasa, Z. Bai, F. Gygi, "Optimizing Halley's iteration for computing the matrix polar decomposition", SIAM
    Journal on Matrix Analysis and Applications 31 (2010), equations (3.18) to (3.21).
    """
    found = []
    low = eps
    while len(found) < most:
        square = low * low
        step = (4.0 * (1.0 - square) / (square * square)) ** (1.0 / 3.0) if low < 1 else 0.0
        root = math.sqrt(1.0 + step)
        a = root + 0.5 * math.sqrt(max(8.0 - 4.0 * step + 8.0 * (2.0 - square) / (square * root), 0.0))
        b = (a - 1.0) ** 2 / 4.0
        c = a + b - 1.0
        found.append((a, b, c))
        done = abs(1.0 - low) < 10 * eps
        low = min(low * (a + b * square) / (1.0 + c * square), 1.0)
        if done:
            break
    return found


def _scaled(x: Array, factor: float) -> Any:
    return mul_p.bind(x, like(x, factor))


def _by_qr(x: Array, a: float, b: float, c: float) -> Any:
    """One iteration by the QR factors of [sqrt(c) X; 1]."""
    m, n = shape_of(x)[-2:]
    one = eye((*shape_of(x)[:-2], n, n), typeof(x).dtype)
    q, _ = qr(concatenate([_scaled(x, math.sqrt(c)), one], len(shape_of(x)) - 2), full_matrices=False)
    shape = shape_of(q)
    upper = part(q, m, n)
    lower = slice(q, [*([0] * (len(shape) - 2)), m, 0], shape)
    return add_p.bind(_scaled(x, b / c), _scaled(product(upper, adjoint(lower)), (a - b / c) / math.sqrt(c)))


def _by_cholesky(x: Array, a: float, b: float, c: float) -> Any:
    """One iteration by the Cholesky factor of 1 + c X^H X."""
    n = shape_of(x)[-1]
    one = eye((*shape_of(x)[:-2], n, n), typeof(x).dtype)
    factor = cholesky(add_p.bind(one, _scaled(product(adjoint(x), x), c)))
    solved = triangular_solve(factor, x, lower=True, transpose_a=True, conjugate_a=True)
    solved = triangular_solve(factor, solved, lower=True)
    return add_p.bind(_scaled(x, b / c), _scaled(solved, a - b / c))


def _norms(x: Array) -> Any:
    """An upper bound of the largest singular value, from the largest sums of rows and columns; of shape (..., 1, 1)."""
    rank, sizes = len(shape_of(x)), abs_p.bind(x)
    sums = [reduce_max_p.bind(reduce_sum_p.bind(sizes, axes=(rank - a,)), axes=(rank - 2,)) for a in (1, 2)]
    return mul_p.bind(*map(sqrt_p.bind, sums))  # the product of the sums may be too small for a number


def qdwh(
    x: ArrayLike, *, is_hermitian: bool = False, max_iterations: int | None = None, eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """The polar decomposition `A = U H` of matrices (..., m, n), m >= n: `(u, h, num_iters, is_converged)`.

    U has orthonormal columns and H is positive semidefinite.

    Raises:
      ShapeError: more columns than rows.
      UnsupportedError: `dynamic_shape`.

    >>> import numpy as np
    >>> qdwh(np.array([[2.0, 0.0], [0.0, -3.0]], np.float32))[1]
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    check_dtype("qdwh", typeof(x))  # type: ignore[arg-type]
    batch, m, n = check_matrix("qdwh", typeof(x))  # type: ignore[arg-type]
    if m < n:
        raise ShapeError(f"qdwh of {typeof(x).show()}: more columns than rows", "decompose the adjoint")
    if dynamic_shape is not None:
        raise UnsupportedError("qdwh with dynamic_shape", "pass the part of the matrix that counts")
    real = real_of(typeof(x).dtype)
    eps = float(np.finfo(real).eps) if eps is None else float(eps)
    # The bound may be (m n)^(1/4) times the largest singular value.
    steps = weights(eps / max(1, m * n) ** 0.25, 10 if max_iterations is None else int(max_iterations))
    if not m or not n:
        return x, product(adjoint(x), x), np.int32(0), spread(np.True_, batch)
    bound = _norms(x)
    one = spread(np.ones((), real)[()], batch)
    bound = select_n_p.bind(gt_p.bind(bound, spread(np.zeros((), real)[()], batch)), one, bound)
    u = div_p.bind(x, _everywhere(convert_element_type(bound, typeof(x).dtype), shape_of(x)))
    before = u
    for a, b, c in steps:
        before = u
        u = (_by_qr if c > LIMIT else _by_cholesky)(u, a, b, c)
    h = hermitian(product(adjoint(u), x))
    rank = len(shape_of(x))
    change = reduce_max_p.bind(abs_p.bind(sub_p.bind(u, before)), axes=(rank - 2, rank - 1))
    limit = spread(np.asarray((4.0 * eps) ** (1.0 / 3.0), real)[()], batch)
    return u, h, np.int32(len(steps)), lt_p.bind(change, limit)


def _everywhere(v: Array, shape: tuple[int, ...]) -> Any:
    return broadcast_in_dim(v, shape, tuple(range(len(shape) - 2)))
