"""Linear systems of sparse matrices, and the greatest eigenvalues of what need not be a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import spsolve as solve_on_host

from ... import lax
from ... import numpy as jnp
from ...core.ir.types import is_inexact
from ...core.jit.jit import jit
from ...core.primitives.custom.implicit_solves import custom_linear_solve
from ...core.primitives.external.host_callback import pure_callback
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, DtypeError, ShapeError
from ...core.tracing.trace import typeof
from .base import Array
from .bcsr import BCSR


@public
def spsolve(data: Array, indices: Array, indptr: Array, b: Array, tol: float = 1e-6, reorder: int = 1) -> Array:
    """The solution of a linear system with a sparse matrix by rows: (nse,), (nse,), (n + 1,) and (n,) give (n,).

    SciPy factors the matrix, on the host. `reorder` 0 leaves the columns in order, 1 to 3 let it reorder them; `tol`
    makes no difference. Derivatives by `data` and `b` are those of the system.

    Raises:
      ShapeError, DtypeError: operands that do not fit together.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.array([[2.0, 0.0], [1.0, 4.0]]))
    >>> sparse.linalg.spsolve(m.data, m.indices, m.indptr, jnp.array([2.0, 9.0]))
    Array([1., 2.], dtype=float32)
    """
    data, indices, indptr, b = map(jnp.asarray, (data, indices, indptr, b))
    n = b.shape[0] if b.ndim == 1 else -1
    if b.ndim != 1 or indptr.shape != (n + 1,) or data.ndim != 1 or data.shape != indices.shape:
        raise ShapeError(f"spsolve of shapes {data.shape}, {indices.shape}, {indptr.shape} and {b.shape}",
                         "data and indices (nse,), indptr (n + 1,), b (n,)")  # fmt: skip
    if data.dtype != b.dtype or not is_inexact(b.dtype):
        raise DtypeError(f"spsolve of {data.dtype} and {b.dtype}", "cast both to one dtype of floats")
    if reorder not in (0, 1, 2, 3):
        raise ArgumentError(f"spsolve: reorder={reorder!r}", "0, 1, 2 or 3")
    matrix = BCSR((data, indices, indptr), shape=(n, n))

    def solver(transposed: bool) -> Callable[..., Array]:
        def solve(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, b: np.ndarray) -> np.ndarray:
            csr = csr_matrix((data, indices, indptr), shape=(n, n))
            order = "COLAMD" if reorder else "NATURAL"
            found = solve_on_host(csr.T.tocsc() if transposed else csr.tocsc(), b, permc_spec=order)
            return np.asarray(found, b.dtype)

        return lambda _, b: pure_callback(solve, typeof(b), data, indices, indptr, b, vmap_method="sequential")

    return custom_linear_solve(lambda x: matrix @ x, b, solver(False), solver(True))


@public
def lobpcg_standard(
    A: Array | Callable[[Array], Array], X: Array, m: int = 100, tol: Any = None
) -> tuple[Array, Array, Array]:
    """The k greatest eigenvalues of a Hermitian matrix (n, n), or of a function that multiplies by one.

    `X` of shape (n, k) is where the search begins, with 0 < 5 k < n. It ends after `m` steps, or when every residual is
    at most `tol * 10 * n * (eigenvalue + norm(A v))`; `tol` is by default the epsilon of the dtype. Gives eigenvalues
    (k,), vectors (n, k) and the number of steps.

    The method is Knyazev's (SIAM J. Sci. Comput. 23, 2001), with an orthonormal basis at each step.

    Raises:
      ShapeError, DtypeError, ArgumentError: operands that do not fit together, or too many vectors.

    >>> from tilewright import numpy as jnp, random
    >>> A = jnp.diag(jnp.arange(20.0))
    >>> theta, U, i = lobpcg_standard(A, random.normal(random.key(0), (20, 2)))
    >>> [round(float(t), 3) for t in theta]
    [19.0, 18.0]
    """
    X = jnp.asarray(X)
    apply = A if callable(A) else jnp.asarray(A).__matmul__
    n, k = X.shape
    if k == 0 or 5 * k >= n:
        raise ArgumentError(f"lobpcg_standard for {k} eigenvalues of {n}", "0 < 5 k < n; `eigh` finds all")
    tried = apply(jnp.zeros((n, 1), X.dtype))
    if tried.shape != (n, 1):
        raise ShapeError(f"lobpcg_standard: A of ({n}, 1) is {tried.shape}", "A is an (n, n) matrix, X is (n, k)")
    if tried.dtype != X.dtype:
        raise DtypeError(f"lobpcg_standard of {tried.dtype} and {X.dtype}", "cast A and X to one dtype")
    limit = jnp.finfo(X.dtype).eps if tol is None else tol
    return jit(lambda X: _lobpcg(apply, X, m, limit))(X)


def _lobpcg(apply: Callable[[Array], Array], X: Array, m: int, tol: Any) -> tuple[Array, Array, Array]:
    n, k = X.shape

    def best(basis: Array) -> tuple[Array, Array]:
        """The greatest eigenvalues within a basis, and the vectors' coordinates in it."""
        inner = basis.conj().T @ apply(basis)
        values, vectors = jnp.linalg.eigh((inner + inner.conj().T) / 2)
        return values[::-1][:k], vectors[:, ::-1][:, :k]

    def residual(X: Array, theta: Array) -> tuple[Array, Array]:
        found = apply(X)
        rest = found - X * theta[None]
        scale = 10 * n * (jnp.abs(theta) + jnp.linalg.norm(found, axis=0))
        return rest, jnp.all(jnp.linalg.norm(rest, axis=0) <= tol * scale)

    def step(state: Any) -> Any:
        X, P, R, _, i, _ = state
        basis = jnp.linalg.qr(jnp.concatenate([X, _apart(R, X), _apart(P, X)], 1))[0]
        theta, chosen = best(basis)
        new = jnp.linalg.qr(basis @ chosen)[0]
        moved = basis[:, k:] @ chosen[k:]
        rest, done = residual(new, theta)
        return new, moved, rest, theta, i + 1, done

    X = jnp.linalg.qr(X)[0]
    theta, chosen = best(X)
    X = X @ chosen
    R, done = residual(X, theta)
    state = (X, jnp.zeros_like(X), R, theta, jnp.zeros((), np.int32), done)
    X, _, _, theta, i, _ = lax.while_loop(lambda s: (s[4] < m) & ~s[5], step, state)
    return theta, X, i


def _apart(Y: Array, X: Array) -> Array:
    """Directions without their part along orthonormal ones, each of norm 1 where it has one."""
    for _ in range(2):
        Y = Y - X @ (X.conj().T @ Y)
    norm = jnp.linalg.norm(Y, axis=0, keepdims=True)
    return Y / jnp.where(norm > 0, norm, 1)


__all__ = ["lobpcg_standard", "spsolve"]
__dir__: Callable[[], list[str]] = __all__.copy
