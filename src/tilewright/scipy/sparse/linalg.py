"""`jax.scipy.sparse.linalg`'s names: iterative solvers of linear systems whose operator is a function.

All work on the right-hand side as one vector and stop at `norm(residual) <= max(tol * norm(b), atol)`. Derivatives are
those of the system (`lax.custom_linear_solve`), found by the same solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import lax
from ... import numpy as tnp
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError, ShapeError, TreeError
from ...flatten_util import ravel_pytree
from ...numpy.util import Array, ArrayLike, dtype_of, promote_dtypes_inexact, shape_of, value

Operator = Callable[[Any], Any]


def _operator(a: Any, what: str) -> Operator:
    """A function, or a square matrix, as a function."""
    if callable(a):
        return a
    if not hasattr(a, "shape"):
        raise ArgumentTypeError(f"{what} is {type(a).__name__}", "pass a function or a square matrix")
    if len(a.shape) != 2 or a.shape[0] != a.shape[1]:
        raise ShapeError(f"{what} has shape {tuple(a.shape)}", "pass a square matrix, or a function")
    matrix = value(a) if isinstance(a, np.ndarray) else a
    return lambda x: matrix @ x


class _System:
    """A x = b over vectors: the operator, the preconditioner, where to start, and when to stop."""

    def __init__(self, name: str, A: Any, b: Any, x0: Any, tol: Any, atol: Any, maxiter: Any, M: Any):
        leaves, structure = pytree.flatten(b)
        b = structure.unflatten([promote_dtypes_inexact(value(x, name))[0] for x in leaves])
        self.b, self.unravel = ravel_pytree(b)
        self.b = lax.convert_element_type(self.b, dtype_of(self.b))
        self.size = math.prod(shape_of(self.b))
        self.tol, self.atol = tol, atol
        self.maxiter = 10 * self.size if maxiter is None else maxiter
        self.A = self._on_vectors(_operator(A, "A"), "A(x)", b)
        self.M = (lambda x: x) if M is None else self._on_vectors(_operator(M, "M"), "M(x)", b)
        self.x0 = lax.full_like(self.b, 0) if x0 is None else self._ravel(x0, b, "x0")

    def _ravel(self, x: Any, b: Any, what: str) -> Array:
        if pytree.structure(x) != pytree.structure(b):
            raise TreeError(f"{what} and b have the structures {pytree.structure(x)} and {pytree.structure(b)}",
                            "make them alike")  # fmt: skip
        shapes = [[shape_of(leaf) for leaf in pytree.leaves(t)] for t in (x, b)]
        if shapes[0] != shapes[1]:
            raise ShapeError(f"{what} has arrays of shapes {shapes[0]}, b of {shapes[1]}", "make them alike")
        return ravel_pytree(pytree.map(value, x))[0].astype(dtype_of(self.b))

    def _on_vectors(self, function: Operator, what: str, b: Any) -> Operator:
        return lambda x: self._ravel(function(self.unravel(x)), b, what)

    def solved(self, solve: Callable[..., Array], symmetric: bool = False) -> Any:
        x = lax.custom_linear_solve(self.A, self.b, solve, solve, symmetric)
        return x, self.unravel(x)

    def limit(self, b: Array) -> Array:
        """The residual's norm at which to stop."""
        return tnp.maximum(self.tol * _norm(b), self.atol)


def _dot(x: Array, y: Array) -> Array:
    return tnp.vdot(x, y)


def _norm(x: Array) -> Array:
    return tnp.sqrt(tnp.real(_dot(x, x)))


def _more(size: Array, limit: Array, k: Array, maxiter: Any) -> Array:
    """Whether to go on; a residual that is not a number gets one step, so that the solution is none either."""
    return ~(size <= limit) & (k < maxiter) & (tnp.isfinite(size) | (k == 0))


def _normalized(x: Array, least: ArrayLike) -> tuple[Array, Array]:
    """A unit vector and the norm; zero and zero where the norm is not above `least`."""
    norm = _norm(x)
    some = ~(norm <= least)  # true of what is not a number
    return tnp.where(some, x / tnp.where(some, norm, 1).astype(dtype_of(x)), 0), tnp.where(some, norm, 0)


@public
def cg(A: Any, b: Any, x0: Any = None, *, tol: ArrayLike = 1e-5, atol: ArrayLike = 0.0, maxiter: int | None = None,
       M: Any = None) -> tuple[Any, None]:  # fmt: skip
    """The solution of A x = b for a Hermitian positive definite A by conjugate gradients, and None.

    `A` is a square matrix or a function from pytrees like `b` to such ones; `M` approximates its inverse. At most
    `maxiter` steps (10 times the number of unknowns). Raises `TreeError` and `ShapeError` where `x0`, or what a
    function gives, is not like `b`. M. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear
    systems", 1952.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.sparse.linalg import cg
    >>> x, _ = cg(lambda x: jnp.array([2., 4.]) * x, jnp.array([2., 2.]))
    >>> print(x)
    [1.  0.5]
    """
    system = _System("cg", A, b, x0, tol, atol, maxiter, M)

    def solve(matvec: Operator, b: Array) -> Array:
        limit = system.limit(b) ** 2
        plain = M is None

        def square(r: Array, gamma: Array) -> Array:
            return gamma if plain else tnp.real(_dot(r, r))

        def going(state: Any) -> Any:
            _, r, gamma, _, k = state
            return _more(square(r, gamma), limit, k, system.maxiter)

        def step(state: Any) -> Any:
            x, r, gamma, p, k = state
            Ap = matvec(p)
            alpha = (gamma / tnp.real(_dot(p, Ap))).astype(dtype_of(b))
            x, r = x + alpha * p, r - alpha * Ap
            z = system.M(r)
            new = tnp.real(_dot(r, z))
            return x, r, new, z + (new / gamma).astype(dtype_of(b)) * p, k + 1

        r = b - matvec(system.x0)
        p = system.M(r)
        return lax.while_loop(going, step, (system.x0, r, tnp.real(_dot(r, p)), p, 0))[0]

    real = not np.issubdtype(dtype_of(system.b), np.complexfloating)
    return system.solved(solve, symmetric=real)[1], None


@public
def bicgstab(A: Any, b: ArrayLike, x0: Any = None, *, tol: ArrayLike = 1e-5, atol: ArrayLike = 0.0,
             maxiter: int | None = None, M: Any = None) -> tuple[Any, None]:  # fmt: skip
    """The solution of A x = b by stabilised bi-conjugate gradients, and None.

    Arguments and errors as those of `cg`; A need not be symmetric. H. van der Vorst, "Bi-CGSTAB: a fast and smoothly
    converging variant of Bi-CG for the solution of nonsymmetric linear systems", 1992.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.sparse.linalg import bicgstab
    >>> x, _ = bicgstab(jnp.array([[2., 1.], [0., 4.]]), jnp.array([3., 4.]))
    >>> print(x)
    [1. 1.]
    """
    system = _System("bicgstab", A, b, x0, tol, atol, maxiter, M)

    def solve(matvec: Operator, b: Array) -> Array:
        limit = system.limit(b) ** 2
        zero = lax.full_like(b, 0, shape=())

        def going(state: Any) -> Any:
            r, broken, k = state[1], state[-2], state[-1]
            return _more(tnp.real(_dot(r, r)), limit, k, system.maxiter) & ~broken

        def step(state: Any) -> Any:
            x, r, first, alpha, omega, rho, p, q, _, k = state
            new = _dot(first, r)
            p = r + new / rho * (alpha / omega) * (p - omega * q)
            near = system.M(p)
            q = matvec(near)
            alpha = new / _dot(first, q)
            s = r - alpha * q
            early = tnp.real(_dot(s, s)) < limit
            then = system.M(s)
            t = matvec(then)
            omega = tnp.where(early, zero, _dot(t, s) / _dot(t, t))
            x = x + alpha * near + tnp.where(early, zero, omega * then)
            r = tnp.where(early, s, s - omega * t)
            broken = ~early & ((omega == 0) | (alpha == 0)) | (new == 0)
            return x, r, first, alpha, tnp.where(early, zero + 1, omega), new, p, q, broken, k + 1

        r = b - matvec(system.x0)
        one, still = zero + 1, lax.full_like(b, 0)
        state = (system.x0, r, r, one, one, one, still, still, np.bool_(False), 0)
        return lax.while_loop(going, step, state)[0]

    return system.solved(solve)[1], None


@public
def gmres(A: Any, b: ArrayLike, x0: Any = None, *, tol: ArrayLike = 1e-5, atol: ArrayLike = 0.0, restart: int = 20,
          maxiter: int | None = None, M: Any = None, solve_method: str = "batched") -> tuple[Any, Array]:  # fmt: skip
    """The solution of A x = b by restarted generalised minimal residuals, and 0 (or -1 where it is not a number).

    `restart` vectors are kept; at most `maxiter` restarts. With `solve_method="batched"` each restart makes all its
    vectors, then solves one least-squares problem; with "incremental" it stops as soon as the residual is small
    enough. Other arguments and errors as those of `cg`; A need not be symmetric. Y. Saad and M. Schultz, "GMRES: a
    generalized minimal residual algorithm for solving nonsymmetric linear systems", 1986.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.sparse.linalg import gmres
    >>> x, info = gmres(jnp.array([[2., 1.], [0., 4.]]), jnp.array([3., 4.]))
    >>> print(jnp.round(x, 3), info)
    [1. 1.] 0
    """
    if solve_method not in _SOLVES:
        raise ArgumentError(f"gmres with solve_method={solve_method!r}", f"one of {', '.join(_SOLVES)}")
    system = _System("gmres", A, b, x0, tol, atol, maxiter, M)
    kept = min(restart, system.size)
    inner = _SOLVES[solve_method]

    def solve(matvec: Operator, b: Array) -> Array:
        limit = system.limit(b)
        size = _norm(b)
        small = _norm(system.M(b)) * tnp.minimum(1.0, limit / tnp.where(size > 0, size, 1))

        def residual(x: Array) -> tuple[Array, Array]:
            r = b - matvec(x)
            return system.M(r), _norm(r)

        def step(state: Any) -> Any:
            x, r, _, k = state
            x = x + inner(lambda v: system.M(matvec(v)), r, kept, small)
            return x, *residual(x), k + 1

        start = (system.x0, *residual(system.x0), 0)
        return lax.while_loop(lambda s: _more(s[2], limit, s[3], system.maxiter), step, start)[0]

    x, out = system.solved(solve)
    return out, tnp.where(tnp.isnan(_norm(x)), -1, 0)


def _arnoldi(apply: Operator, k: Array, basis: Array) -> tuple[Array, Array]:
    """One more vector of the orthonormal basis, by two passes of classical Gram-Schmidt; and its coefficients.

    Where the space is exhausted the vector is zero, and the coefficients keep the system solvable.
    """
    v = lax.dynamic_index_in_dim(basis, k, 0, keepdims=False)
    w = apply(v)
    least = tnp.finfo(dtype_of(w)).eps * _norm(w)
    row = lax.full_like(basis, 0, shape=(len(basis),))
    for _ in range(2):
        h = basis.conj() @ w
        row, w = row + h, w - h @ basis
    w, norm = _normalized(w, least)
    row = lax.dynamic_update_index_in_dim(row, norm.astype(dtype_of(row)), k + 1, 0)
    alone = (tnp.arange(len(basis)) == k).astype(dtype_of(row))
    row = tnp.where(tnp.any(v != 0), row, alone)
    return lax.dynamic_update_index_in_dim(basis, w, k + 1, 0), row


def _start(r: Array, kept: int) -> tuple[Array, Array, Array]:
    """The basis with the residual's direction, the identity for coefficients, and the residual in the basis."""
    unit, norm = _normalized(r, 0.0)
    basis = lax.full_like(r, 0, shape=(kept + 1, len(r))).at[0].set(unit)
    right = lax.full_like(r, 0, shape=(kept + 1,)).at[0].set(norm.astype(dtype_of(r)))
    return basis, tnp.eye(kept, kept + 1, dtype=dtype_of(r)), right


def _batched(apply: Operator, r: Array, kept: int, small: Array) -> Array:
    """The step of least residual: all basis vectors, then a least-squares problem by QR."""
    basis, rows, right = _start(r, kept)

    def turn(k: Array, state: Any) -> Any:
        basis, rows = state
        basis, row = _arnoldi(apply, k, basis)
        return basis, lax.dynamic_update_index_in_dim(rows, row, k, 0)

    basis, rows = lax.fori_loop(0, kept, turn, (basis, rows))
    q, upper = tnp.linalg.qr(rows.T)
    y = lax.linalg.triangular_solve(upper, (q.conj().T @ right)[:, None], left_side=True)[:, 0]
    return y @ basis[:-1]


def _incremental(apply: Operator, r: Array, kept: int, small: Array) -> Array:
    """The step of least residual: after each basis vector a Givens rotation, until the residual is small."""
    basis, rows, right = _start(r, kept)
    turns = lax.full_like(r, 0, shape=(kept, 2))

    def rotated(i: Array, x: Array, turn: Array) -> Array:
        """Elements i and i + 1 of a vector turned."""
        a, b = (lax.dynamic_index_in_dim(x, j, 0, keepdims=False) for j in (i, i + 1))
        c, s = turn
        x = lax.dynamic_update_index_in_dim(x, c.conj() * a + s.conj() * b, i, 0)
        return lax.dynamic_update_index_in_dim(x, c * b - s * a, i + 1, 0)

    def going(state: Any) -> Any:
        return (state[-1] < kept) & (state[-2] > small)

    def step(state: Any) -> Any:
        basis, rows, turns, right, _, k = state
        basis, row = _arnoldi(apply, k, basis)
        row = lax.fori_loop(0, k, lambda i, x: rotated(i, x, turns[i]), row)
        a, b = (lax.dynamic_index_in_dim(row, j, 0, keepdims=False) for j in (k, k + 1))
        size = tnp.sqrt(tnp.abs(a) ** 2 + tnp.abs(b) ** 2)
        some = size > 0
        pair = tnp.stack([a, b]) / tnp.where(some, size, 1).astype(dtype_of(a))
        turn = tnp.where(some, pair, np.array([1, 0], dtype_of(a)))
        turns = lax.dynamic_update_index_in_dim(turns, turn, k, 0)
        rows = lax.dynamic_update_index_in_dim(rows, rotated(k, row, turn), k, 0)
        right = rotated(k, right, turn)
        return basis, rows, turns, right, tnp.abs(right[k + 1]), k + 1

    state = (basis, rows, turns, right, _norm(r), 0)
    basis, rows, _, right, _, k = lax.while_loop(going, step, state)
    right = tnp.where(tnp.arange(kept) < k, right[:-1], 0)
    y = lax.linalg.triangular_solve(rows[:, :-1], right[:, None], left_side=True, lower=True, transpose_a=True)[:, 0]
    return y @ basis[:-1]


_SOLVES = {"batched": _batched, "incremental": _incremental}

__all__ = ["bicgstab", "cg", "gmres"]
__dir__: Callable[[], list[str]] = __all__.copy
