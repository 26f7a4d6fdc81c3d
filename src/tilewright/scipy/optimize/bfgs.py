"""Quasi-Newton methods: BFGS, and BFGS with limited memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import lax
from ... import numpy as tnp
from ...core.api.transformations import value_and_grad
from ...numpy.util import Array, dtype_of, shape_of
from .line_search import line_search


class OptimizeResults(NamedTuple):
    """What an optimizer found.

    `x` the minimum, `success`, `status` (0: converged, 1: `maxiter` steps; BFGS: 3 and 5 line search failed; L-BFGS: 2
    and 3 too many evaluations, 4 no more decrease, 5 line search failed), `fun` the value, `jac` the gradient,
    `hess_inv` the inverse Hessian (None of L-BFGS), the numbers of evaluations `nfev` and `njev`, and of steps `nit`.
    """

    x: Array
    success: Array
    status: Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Array
    njev: Array
    nit: Array


class _State(NamedTuple):
    x: Array
    value: Array
    gradient: Array
    memory: Any
    first: Array  # the step that the next line search tries first
    converged: Array
    status: Array  # -1 while going on
    evaluations: Array
    steps: Array


def _first_step(decrease: Array, slope: Array) -> Array:
    """The step that would decrease the value as much as the last one did, at most 1 (Nocedal and Wright, 3.60)."""
    step = 1.01 * 2 * decrease / tnp.where(slope == 0, 1, slope)
    return tnp.where((step > 1) | ~(step > 0) | (slope == 0), 1.0, step).astype(dtype_of(slope))


def _start(both: Callable[..., Any], x: Array, memory: Any, norm: Any, gtol: Any) -> _State:
    value, gradient = both(x)
    count = tnp.asarray(0)
    converged = tnp.linalg.norm(gradient, ord=norm) < gtol
    return _State(x, value, gradient, memory, tnp.ones_like(value), converged, count - 1, count + 1, count)


def _searched(both: Callable[..., Any], s: _State, direction: Array, maxiter: int) -> tuple[Any, Array, Array]:
    """A line search, what it found, the step that it makes, and the change of the gradient."""
    found = line_search(both, s.x, direction, s.value, s.gradient, s.first, maxiter=maxiter)
    return found, found.point.step * direction, found.point.gradient - s.gradient


def _run(step: Callable[[_State], _State], state: _State, maxiter: int) -> _State:
    state = lax.while_loop(lambda s: ~s.converged & (s.status < 0) & (s.steps < maxiter), step, state)
    status = tnp.where(state.status < 0, tnp.where(state.steps >= maxiter, 1, -1), state.status)
    return state._replace(status=tnp.where(state.converged, 0, status))


def _results(s: _State, hess_inv: Array | None) -> OptimizeResults:
    return OptimizeResults(
        s.x, s.status == 0, s.status, s.value, s.gradient, hess_inv, s.evaluations, s.evaluations, s.steps
    )


def minimize_bfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    maxiter: int | None = None,
    norm: Any = np.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    """Minimise by BFGS: J. Nocedal and S. Wright, "Numerical Optimization", 2nd edition, algorithm 6.1."""
    both = value_and_grad(fun)
    (n,) = shape_of(x0)
    maxiter = 200 * n if maxiter is None else maxiter

    def step(s: _State) -> _State:
        inverse = s.memory
        found, dx, dg = _searched(both, s, -(inverse @ s.gradient), line_search_maxiter)
        curvature = tnp.vdot(dg, dx)
        # The update keeps the matrix positive definite only where the slope grew along the step.
        usable = curvature > 0
        rho = tnp.where(usable, 1 / tnp.where(usable, curvature, 1), 0)
        moved = inverse @ dg
        updated = inverse - rho * (tnp.outer(dx, moved) + tnp.outer(moved, dx))
        updated = updated + (rho * rho * tnp.vdot(dg, moved) + rho) * tnp.outer(dx, dx)
        gradient = found.point.gradient
        first = _first_step(found.point.value - s.value, -tnp.vdot(gradient, updated @ gradient))
        return _State(
            s.x + dx, found.point.value, gradient, updated, first,
            tnp.linalg.norm(gradient, ord=norm) < gtol,
            tnp.where(found.failed, 2 + found.status, s.status),
            s.evaluations + found.evaluations, s.steps + 1,
        )  # fmt: skip

    state = _run(step, _start(both, x0, tnp.eye(n, dtype=dtype_of(x0)), norm, gtol), maxiter)
    return _results(state, state.memory)


class _History(NamedTuple):
    """The last steps and changes of the gradient, newest last, with 1 / (change . step) (0: none)."""

    steps: Array
    changes: Array
    weights: Array


def _two_loops(history: _History, gradient: Array) -> Array:
    """The gradient times the inverse Hessian that the history implies (Nocedal and Wright, algorithm 7.4)."""
    m = shape_of(history.weights)[0]

    def down(i: Array, state: Any) -> Any:
        q, parts = state
        k = m - 1 - i
        part = history.weights[k] * tnp.vdot(history.steps[k], q)
        return q - part * history.changes[k], parts.at[k].set(part)

    q, parts = lax.fori_loop(0, m, down, (gradient, tnp.zeros_like(history.weights)))
    newest = tnp.vdot(history.changes[-1], history.changes[-1]) * history.weights[-1]
    q = tnp.where(newest > 0, q / tnp.where(newest > 0, newest, 1), q)

    def up(k: Array, r: Array) -> Array:
        return r + history.steps[k] * (parts[k] - history.weights[k] * tnp.vdot(history.changes[k], r))

    return lax.fori_loop(0, m, up, q)


def minimize_lbfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    maxiter: int | None = None,
    norm: Any = np.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-05,
    maxfun: float | None = None,
    maxgrad: float | None = None,
    maxls: int = 20,
) -> OptimizeResults:
    """Minimise by BFGS with the last `maxcor` steps for memory (Nocedal and Wright, algorithm 7.5)."""
    both = value_and_grad(fun)
    (n,) = shape_of(x0)
    maxiter = 200 * n if maxiter is None else maxiter
    most = min(np.inf if limit is None else limit for limit in (maxfun, maxgrad))
    too_many = 2 if maxgrad is None or (maxfun is not None and maxfun <= maxgrad) else 3

    def step(s: _State) -> _State:
        old: _History = s.memory
        found, dx, dg = _searched(both, s, -_two_loops(old, s.gradient), maxls)
        curvature = tnp.vdot(dg, dx)
        usable = curvature > 0
        weight = 1 / tnp.where(usable, curvature, 1)
        new = [tnp.concatenate([a[1:], b[None]]) for a, b in zip(old, (dx, dg, weight), strict=True)]
        history = _History(*(tnp.where(usable, a, b) for a, b in zip(new, old, strict=True)))
        gradient, evaluations = found.point.gradient, s.evaluations + found.evaluations
        status = tnp.where(s.value - found.point.value < ftol, 4, s.status)
        status = tnp.where(evaluations >= most, too_many, status)
        return _State(
            s.x + dx, found.point.value, gradient, history, tnp.ones_like(s.value),
            tnp.linalg.norm(gradient, ord=norm) < gtol,
            tnp.where(found.failed, 5, status), evaluations, s.steps + 1,
        )  # fmt: skip

    rows = tnp.zeros((maxcor, n), dtype_of(x0))
    start = _start(both, x0, _History(rows, rows, rows[:, 0]), norm, gtol)
    shrunk = 1 / tnp.maximum(1.0, tnp.linalg.norm(start.gradient))  # no curvature is known yet
    return _results(_run(step, start._replace(first=shrunk), maxiter), None)
