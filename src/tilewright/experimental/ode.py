"""`jax.experimental.ode`'s names: ordinary differential equations with steps of adapted size, and their adjoints.

E. Hairer, S. Norsett and G. Wanner, "Solving ordinary differential equations I", 2nd edition: the formulas of Dormand
and Prince of order 5(4) (table II.5.2), the first step and the control of steps (II.4), and values between (II.6). The
adjoint: L. Pontryagin et al., "The mathematical theory of optimal processes", 1962.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import lax
from .. import numpy as tnp
from ..core.api.transformations import vjp, vmap
from ..core.primitives.control_flow.subprograms import check_match
from ..core.primitives.custom.custom_derivatives import closure_convert, custom_vjp
from ..core.support import pytree
from ..core.support.call_errors import public
from ..core.support.config import default_matmul_precision
from ..core.support.errors import ArgumentTypeError, DtypeError, ShapeError
from ..core.tracing.trace import typeof
from ..flatten_util import ravel_pytree
from ..numpy.util import Array, ArrayLike, dtype_of, is_float, is_inexact, shape_of

_NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
# The weights of order 5 less those of order 4: the error's.
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
_BETWEEN = (
    -12715105075 / 11282082432, 0.0, 87487479700 / 32700410799, -10690763975 / 1880347072,
    701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
)  # fmt: skip
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0  # of the factor by which a step changes

Field = Callable[..., Array]  # (y, t, *args) -> dy/dt, over vectors


class _Options(NamedTuple):
    rtol: float
    atol: float
    mxstep: float
    hmax: float


class _State(NamedTuple):
    """After the step from `last` to `t`: where it led, the slope there, the next step, and the step's polynomial."""

    y: Array
    slope: Array
    t: Array
    step: Array
    last: Array
    polynomial: Array


def _combined(weights: Sequence[float], rows: Sequence[Array]) -> Array:
    return functools.reduce(lambda a, b: a + b, [w * k for w, k in zip(weights, rows, strict=True) if w])


def _size(x: Array, scale: Array) -> Array:
    """The root of the mean square of a vector in units of what is tolerated."""
    ratio = tnp.abs(x) / scale
    return tnp.sqrt(tnp.mean(ratio * ratio)) if shape_of(x)[0] else tnp.zeros((), dtype_of(scale))


def _first_step(field: Field, options: _Options, y: Array, t: Array, slope: Array) -> Array:
    scale = options.atol + options.rtol * tnp.abs(y)
    d0, d1 = _size(y, scale), _size(slope, scale)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = tnp.where(small, 1e-6, 0.01 * d0 / tnp.where(small, 1, d1)).astype(dtype_of(t))
    d2 = _size(field(y + h0.astype(dtype_of(y)) * slope, t + h0) - slope, scale) / h0
    most = tnp.maximum(d1, d2)
    flat = most <= 1e-15
    h1 = tnp.where(flat, tnp.maximum(1e-6, h0 * 1e-3), (0.01 / tnp.where(flat, 1, most)) ** 0.2)
    return tnp.minimum(100 * h0, h1).astype(dtype_of(t))


def _step(field: Field, s: _State) -> tuple[Array, list[Array]]:
    """The end of a step, and the slopes of its stages; the last is that at the end."""
    slopes, y = [s.slope], s.y
    h = s.step.astype(dtype_of(y))
    for node, weights in zip(_NODES, _STAGES, strict=True):
        y = s.y + h * _combined(weights, slopes)
        slopes.append(field(y, s.t + node * s.step))
    return y, slopes


def _polynomial(s: _State, end: Array, slopes: list[Array]) -> Array:
    """The coefficients of values within the step, of order 4, as Hairer's nested form takes them."""
    h = s.step.astype(dtype_of(end))
    rise = end - s.y
    bend = h * slopes[0] - rise
    return tnp.stack([s.y, rise, bend, rise - h * slopes[-1] - bend, h * _combined(_BETWEEN, slopes)])


def _within(polynomial: Array, part: Array) -> Array:
    a, b, c, d, e = polynomial
    rest = 1 - part
    return a + part * (b + rest * (c + part * (d + rest * e)))


def _solution(field: Field, options: _Options, y0: Array, ts: Array) -> Array:
    def advance(s: _State) -> _State:
        end, slopes = _step(field, s)
        scale = options.atol + options.rtol * tnp.maximum(tnp.abs(s.y), tnp.abs(end))
        error = _size(s.step.astype(dtype_of(end)) * _combined(_ERROR, slopes), scale)
        good = error <= 1
        factor = _SAFETY * tnp.where(error > 0, error, 1e-9) ** -0.2
        factor = tnp.where(tnp.isfinite(error), tnp.clip(factor, _LEAST, tnp.where(good, _MOST, 1)), _LEAST)
        new = _State(end, slopes[-1], s.t + s.step, s.step, s.t, _polynomial(s, end, slopes))
        kept = _State(*(tnp.where(good, a, b) for a, b in zip(new, s, strict=True)))
        return kept._replace(step=tnp.minimum(s.step * factor, options.hmax).astype(dtype_of(s.step)))

    def until(s: _State, target: Array) -> tuple[_State, Array]:
        def going(state: Any) -> Array:
            s, count = state
            return (s.t < target) & (count < options.mxstep) & (s.t + s.step > s.t)

        s, _ = lax.while_loop(going, lambda state: (advance(state[0]), state[1] + 1), (s, 0))
        width = s.t - s.last
        part = (target - s.last) / tnp.where(width == 0, 1, width)
        found = _within(s.polynomial, part.astype(dtype_of(s.y)))
        return s, tnp.where(s.t >= target, found, np.nan)

    t0 = ts[0]
    slope = field(y0, t0)
    step = tnp.minimum(_first_step(field, options, y0, t0, slope), options.hmax).astype(dtype_of(ts))
    still = tnp.zeros_like(y0)
    start = _State(y0, slope, t0, step, t0, tnp.stack([y0, still, still, still, still]))
    _, ys = lax.scan(until, start, ts[1:])
    return tnp.concatenate([y0[None], ys])


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def _odeint(field: Field, options: _Options, y0: Array, ts: Array, *args: Any) -> Array:
    with default_matmul_precision("highest"):
        return _solution(lambda y, t: field(y, t, *args), options, y0, ts)


def _forward(field: Field, options: _Options, y0: Array, ts: Array, *args: Any) -> Any:
    ys = _odeint(field, options, y0, ts, *args)
    return ys, (ys, ts, args)


def _backward(field: Field, options: _Options, residuals: Any, ct: Array) -> Any:
    """The adjoint equation, solved backwards from each time to the one before, together with the system itself."""
    ys, ts, args = residuals
    ys, ts, ct = map(tnp.asarray, (ys, ts, ct))
    moves = [is_inexact(dtype_of(a)) for a in args]
    still = [tnp.zeros_like(a) for a, m in zip(args, moves, strict=True) if m]
    _, unravel = ravel_pytree((ys[0], ct[0], still))

    def partial(y: Array, t: Array, moving: Sequence[Any], given: Sequence[Any]) -> Array:
        found = iter(moving)
        return field(y, t, *(next(found) if m else a for a, m in zip(given, moves, strict=True)))

    def backwards(state: Array, t: Array, *given: Any) -> Array:
        y, ct, _ = unravel(state)
        moving = [a for a, m in zip(given, moves, strict=True) if m]
        slope, pullback = vjp(lambda y, moving: partial(y, -t, moving, given), y, moving)
        return ravel_pytree((-slope, *pullback(ct)))[0]

    def before(carry: Any, i: Array) -> Any:
        """From time i to time i - 1."""
        ct_y, ct_args = carry
        ct_t = tnp.real(tnp.dot(field(ys[i], ts[i], *args), ct[i]))
        state, _ = ravel_pytree((ys[i], ct_y, ct_args))
        ends = _odeint(backwards, options, state, tnp.stack([-ts[i], -ts[i - 1]]), *args)
        _, ct_y, ct_args = unravel(ends[1])
        return (ct_y + ct[i - 1], ct_args), ct_t

    steps = tnp.arange(len(ts) - 1, 0, -1)
    (ct_y, ct_args), ct_ts = lax.scan(before, (ct[-1], still), steps)
    # Moving the start back lets the system run longer before y0: what arrived there less y0's own cotangent.
    first = -tnp.real(tnp.dot(field(ys[0], ts[0], *args), ct_y - ct[0]))
    found = iter(ct_args)
    return ct_y, tnp.concatenate([first[None], ct_ts[::-1]]), *(next(found) if m else None for m in moves)


_odeint.defvjp(_forward, _backward)


@public
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Array,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """The solution of `dy/dt = func(y, t, *args)` at increasing times, from `y0` at the first of them.

    `y0` is a pytree of arrays, and the result one with a leading axis for the times. Steps are chosen so that each errs
    by at most `atol + rtol * abs(y)`, are at most `hmax` long, and at most `mxstep` are made between two times; what
    these do not reach is NaN. Reverse mode solves the adjoint equation, with respect to y0, t, args and what `func`
    closes over. `func` may give as many numbers in another structure. Raises `ControlFlowTypeError` where it gives
    others, `DtypeError` for times that are not floats.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental.ode import odeint
    >>> print(odeint(lambda y, t: -y, 1.0, jnp.array([0., 1., 2.]), rtol=1e-6))
    [1.    0.368 0.135]
    """
    for x in pytree.leaves(args):
        typeof(x)
    if not callable(func):
        raise ArgumentTypeError(f"odeint of {func!r}", "pass a function of y, t and the arguments")
    t = tnp.asarray(t)
    if not is_float(dtype_of(t)):
        raise DtypeError(f"odeint at times of dtype {dtype_of(t)}", "pass floats")
    if len(shape_of(t)) != 1 or not shape_of(t)[0]:
        raise ShapeError(f"odeint at times of shape {shape_of(t)}", "pass a vector with at least the start")
    y0 = pytree.map(_float, y0)
    leaves, structure = pytree.flatten(y0)
    flat_args, args_tree = pytree.flatten(args)
    flat_args = [tnp.asarray(x) for x in flat_args]
    converted, values = closure_convert(func, y0, t[0], *args_tree.unflatten(flat_args))
    count = len(flat_args)
    vector, unravel = ravel_pytree(y0)

    def field(y: Array, t: Array, *flat: Any) -> Array:
        found = converted(unravel(y), t, *args_tree.unflatten(flat[:count]), *flat[count:])
        outs, out_tree = pytree.flatten(found)
        types = [[typeof(x) for x in xs] for xs in (leaves, outs)]
        slope = ravel_pytree(found)[0]
        if out_tree == structure or typeof(slope) != typeof(vector):
            check_match("y0 and what func gives", "return a value like y0, of its dtypes", (structure, types[0]),
                        (out_tree, types[1]), ("in y0", "from func"), "y")  # fmt: skip
        return slope

    return vmap(unravel)(_odeint(field, _Options(rtol, atol, mxstep, hmax), vector, t, *flat_args, *values))


def _float(x: ArrayLike) -> Array:
    x = tnp.asarray(x)
    if not is_inexact(dtype_of(x)):
        raise DtypeError(f"odeint from a y0 of dtype {dtype_of(x)}", "pass floats")
    return lax.convert_element_type(x, dtype_of(x))


__all__ = ["odeint"]
__dir__: Callable[[], list[str]] = __all__.copy
