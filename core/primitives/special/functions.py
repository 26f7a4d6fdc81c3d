"""Special functions: error, gamma, zeta, incomplete gamma and beta, scaled Bessel functions.

Their NumPy meanings are in `reference.py`. Those that no compiler knows are expanded here into
other primitives: a power series or a continued fraction in a `while_loop`, or a Chebyshev series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.elementwise_typing import FLOAT, common_shape
from ...ir.primitive import Primitive
from ...support.errors import NoDerivativeError, ShapeError
from ...tracing.trace import shape_of, typeof
from ...transforms.jvp import jvp_flat
from ...transforms.rule_helpers import instantiate, like
from ...transforms.structural_primitives import spread
from ..control_flow.while_loop import while_loop
from ..elementwise.arithmetic import (
    RoundingMethod,
    abs_p,
    add_p,
    div_p,
    exp_p,
    floor_p,
    log1p_p,
    log_p,
    max_p,
    min_p,
    mul_p,
    neg_p,
    pow_p,
    round_p,
    rsqrt_p,
    sign_p,
    sin_p,
    sqrt_p,
    square_p,
    sub_p,
)
from ..elementwise.bitwise import and_p, not_p, or_p
from ..elementwise.builders import curve, curves, function, operands, stretched
from ..elementwise.comparison import eq_p, ge_p, gt_p, le_p, lt_p, ne_p, select_n_p
from ..elementwise.conversion import convert_element_type
from ..reduction.reduce import reduce_or_p
from . import reference as meaning

if TYPE_CHECKING:
    from ...support.pytree import PyTree
    from ..elementwise.builders import Unary


_ROOT_PI = math.sqrt(math.pi)

# ---------------------------------------------------------------------------- shorthand


def _add(x: ArrayLike, *ys: Any) -> Any:
    for y in ys:
        x = add_p.bind(x, like(x, y) if type(y) in (int, float) else y)
    return x


def _mul(x: ArrayLike, *ys: Any) -> Any:
    for y in ys:
        x = mul_p.bind(x, like(x, y) if type(y) in (int, float) else y)
    return x


def _sub(x: ArrayLike, y: ArrayLike) -> Any:
    return sub_p.bind(like(y, x) if type(x) in (int, float) else x, like(x, y) if type(y) in (int, float) else y)


def _div(x: ArrayLike, y: Operand) -> Any:
    return div_p.bind(like(y, x) if type(x) in (int, float) else x, like(x, y) if type(y) in (int, float) else y)


def _where(condition: Array, x: ArrayLike, y: ArrayLike) -> Any:
    x, y = (like(y, x) if type(x) in (int, float) else x), (like(x, y) if type(y) in (int, float) else y)
    return select_n_p.bind(condition, y, x)


def _is(primitive: Primitive) -> Callable[[Any, Any], Any]:
    return lambda x, y: primitive.bind(x, like(x, y) if type(y) in (int, float) else y)


_lt, _le, _gt, _ge, _eq = map(_is, (lt_p, le_p, gt_p, ge_p, eq_p))


def no_derivative(name: str, argument: str) -> Callable[..., Any]:
    """The rule for an argument in which a function has no derivative: an error."""

    def partial(*args: Any) -> Any:
        raise NoDerivativeError(
            f"{name} has no derivative with respect to {argument}", "differentiate in the other arguments only"
        )

    return partial


def _in_float32(expand: Callable[..., Any]) -> Callable[..., Any]:
    """An expansion computed in float32 where the operands are narrower."""

    def rule(*args: Any) -> Any:
        dtype = typeof(args[0]).dtype
        if dtype.itemsize >= 4:
            return expand(*args)
        return convert_element_type(expand(*(convert_element_type(a, np.float32) for a in args)), dtype)

    return rule


def _eps(x: Operand) -> float:
    return float(np.finfo(typeof(x).dtype).eps)


# ---------------------------------------------------------------------------- error functions, gamma, zeta


def _gaussian(x: Array) -> Any:
    return exp_p.bind(neg_p.bind(square_p.bind(x)))


erf_p: Primitive = curve("erf", FLOAT, meaning.erf, lambda t, out, x: _mul(t, 2 / _ROOT_PI, _gaussian(x)))
erfc_p: Primitive = curve("erfc", FLOAT, meaning.erfc, lambda t, out, x: _mul(t, -2 / _ROOT_PI, _gaussian(x)))
erf_inv_p: Primitive = curve(
    "erf_inv", FLOAT, meaning.erf_inv, lambda t, out, x: _mul(t, _ROOT_PI / 2, exp_p.bind(square_p.bind(out)))
)


def _trigamma(x: Array) -> Any:
    """The derivative of digamma; below 0 by reflection (DLMF 5.15.6), where XLA's polygamma is wrong."""
    below = _lt(x, 0.0)
    above = polygamma_p.bind(like(x, 1), _where(below, _sub(1.0, x), x))
    whole = round_p.bind(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)
    from_pole = _where(below, _sub(x, whole), 0.5)
    return _where(below, _sub(square_p.bind(_div(math.pi, sin_p.bind(_mul(from_pole, math.pi)))), above), above)


lgamma_p: Primitive = curve("lgamma", FLOAT, meaning.lgamma, lambda t, out, x: _mul(t, digamma_p.bind(x)))
digamma_p: Primitive = curve("digamma", FLOAT, meaning.digamma, lambda t, out, x: _mul(t, _trigamma(x)))
polygamma_p: Primitive = curves(
    "polygamma", FLOAT, meaning.polygamma,
    [no_derivative("polygamma", "its order"), lambda t, out, m, x: _mul(t, polygamma_p.bind(_add(m, 1), x))],
)  # fmt: skip
def _zeta_formula(s: Array, q: Operand) -> Any:
    """Hurwitz's zeta function by the Euler-Maclaurin formula (DLMF 25.11.5), for s above 1 and q above 0."""
    a = _add(q, 12)
    power = exp_p.bind(neg_p.bind(_mul(s, log_p.bind(a))))
    total = _add(_div(_mul(power, a), _sub(s, 1.0)), _mul(power, 0.5))
    for k in range(12):
        total = _add(total, exp_p.bind(neg_p.bind(_mul(s, log_p.bind(_add(q, k))))))
    factor = _div(_mul(s, power), a)
    for k, b in enumerate(meaning.BERNOULLI[:8], 1):
        total = _add(total, _mul(factor, b / math.factorial(2 * k)))
        factor = _div(_mul(factor, _add(s, 2 * k - 1), _add(s, 2 * k)), _mul(a, a))
    return total


def _zeta_slope(t: Operand, out: Operand, s: ArrayLike, q: ArrayLike) -> Any:
    """By its exponent: the derivative of the formula where it holds, NaN elsewhere."""
    shape = shape_of(out)
    s, q = spread(s, shape), spread(q, shape)
    holds = and_p.bind(_gt(s, 1), _gt(q, 0))
    s, q = _where(holds, s, 2.0), _where(holds, q, 1.0)
    (_,), (slope,) = jvp_flat(lambda s: [_zeta_formula(s, q)], [s], [spread(like(s, 1.0), shape)])
    return _mul(t, _where(holds, instantiate(slope), math.nan))


zeta_p: Primitive = curves(
    "zeta", FLOAT, meaning.zeta,
    [
        _zeta_slope,
        lambda t, out, s, q: _mul(t, neg_p.bind(s), zeta_p.bind(_add(s, 1), q)),
    ],
)  # fmt: skip


# ---------------------------------------------------------------------------- incomplete gamma functions

_LIMIT = 2000  # of terms: reached only for arguments in the hundreds of thousands


def _until_settled(step: Callable[..., Any], init: tuple[Any, ...]) -> tuple[Any, ...]:
    """Repeat `step(n, *state) -> (still moving, *state)` until no element moves.

    An element that has settled keeps its state, so that it does not gather the rounding errors of the
    steps that others still need.
    """
    axes = tuple(range(len(shape_of(init[0]))))

    def body(carry: PyTree) -> Any:
        n, moving, state = carry
        n = _add(n, 1)
        still, *new = step(n, *state)
        kept = tuple(select_n_p.bind(moving, old, fresh) for old, fresh in zip(state, new, strict=True))
        return n, and_p.bind(moving, still), kept

    def unsettled(carry: PyTree) -> Any:
        return and_p.bind(reduce_or_p.bind(carry[1], axes=axes), _lt(carry[0], _LIMIT))

    start = (like(init[0], 0), spread(np.bool_(True), shape_of(init[0])), init)
    return while_loop(unsettled, body, start)[2]


def _gamma_density(a: Operand, x: Array) -> Any:
    """x^a e^-x / Gamma(a + 1), without the cancellation of its logarithm at large a."""
    plain = exp_p.bind(_sub(_sub(_mul(a, log_p.bind(x)), x), lgamma_p.bind(_add(a, 1))))
    # Stirling: Gamma(a + 1) = sqrt(2 pi a) (a/e)^a (1 + 1/(12 a) + ...) (DLMF 5.11.3), with d = x/a - 1.
    big = _where(_gt(a, 20), a, 21.0)
    d = _div(_sub(x, big), big)
    r = _div(1.0, big)
    log_series = _mul(r, _add(_mul(square_p.bind(r), _add(_mul(square_p.bind(r), 1 / 1260), -1 / 360)), 1 / 12))
    d_safe = _where(_gt(d, -1), d, 0.0)
    exponent = _sub(_mul(big, _sub(log1p_p.bind(d_safe), d_safe)), log_series)
    stirling = _mul(rsqrt_p.bind(_mul(big, 2 * math.pi)), exp_p.bind(exponent))
    return _where(and_p.bind(_gt(a, 20), _gt(d, -1)), stirling, plain)


def _series_start(a: Operand, x: Operand) -> tuple[Any, ...]:
    one = spread(like(a, 1.0), shape_of(a))
    return one, one


def _series_step(a: Operand, x: Operand, n: Array, term: Array, total: Array) -> tuple[Any, ...]:
    """The power series of P(a, x) (DLMF 8.7.1), for x below a + 1."""
    term = _mul(term, _div(x, _add(a, n)))
    total = _add(total, term)
    return _gt(term, _mul(total, _eps(a) / 8)), term, total


def _fraction_start(a: Operand, x: Operand) -> tuple[Any, ...]:
    d = _div(1.0, _sub(_add(x, 1), a))
    return spread(like(a, 1e30), shape_of(a)), d, d


def _fraction_step(a: Operand, x: Operand, n: Array, c: Array, d: Array, h: Array) -> tuple[Any, ...]:
    """The continued fraction of Q(a, x) (DLMF 8.9.2) by Lentz's method, for x above a + 1."""
    numerator = _mul(n, _sub(a, n))
    b = _add(_sub(_add(x, 1), a), _mul(n, 2))
    d = _div(1.0, _add(_mul(numerator, d), b))
    c = _add(b, _div(numerator, c))
    factor = _mul(c, d)
    return _gt(abs_p.bind(_sub(factor, 1.0)), _eps(a)), c, d, _mul(h, factor)


def _gamma_series(a: Operand, x: Operand) -> Any:
    total = _until_settled(lambda n, *state: _series_step(a, x, n, *state), _series_start(a, x))[-1]
    return _mul(_gamma_density(a, x), total)


def _gamma_fraction(a: Operand, x: Operand) -> Any:
    h = _until_settled(lambda n, *state: _fraction_step(a, x, n, *state), _fraction_start(a, x))[-1]
    return _mul(_gamma_density(a, x), a, h)


def _settled_slope(start: Callable[..., Any], step: Callable[..., Any], a: Operand, x: Operand) -> tuple[Any, Any]:
    """What the last of the state settles at, and its slope in a.

    Both must settle: where a is a whole number the fraction of Q(a, x) ends, but not its slope.
    """
    one = spread(like(a, 1.0), shape_of(a))
    init, slopes = jvp_flat(lambda a: list(start(a, x)), [a], [one])
    count = len(init)

    def both(n: Array, *state: Any) -> tuple[Any, ...]:
        before = state[count:]
        new, after = jvp_flat(lambda a, *values: list(step(a, x, n, *values)), [a, *state[:count]], [one, *before])
        after = [instantiate(t) for t in after[1:]]
        moved = _gt(abs_p.bind(_sub(after[-1], before[-1])), _mul(abs_p.bind(after[-1]), _eps(a)))
        return or_p.bind(new[0], moved), *new[1:], *after

    state = _until_settled(both, (*init, *(instantiate(t) for t in slopes)))
    return state[count - 1], state[-1]


def _igamma_masks(a: Array, x: Array) -> tuple[Any, Any, Any]:
    """Whether P(a, x) has a value; whether neither argument is at an edge; whether x is below a + 1."""
    legal = and_p.bind(and_p.bind(_ge(a, 0), _ge(x, 0)), _gt(_add(a, x), 0))
    legal = and_p.bind(legal, _lt(min_p.bind(a, x), math.inf))
    usual = and_p.bind(and_p.bind(_gt(a, 0), _gt(x, 0)), and_p.bind(_lt(a, math.inf), _lt(x, math.inf)))
    return legal, usual, _lt(x, _add(a, 1))


def _by_halves(usual: Array, below: Array, a: Operand, x: Operand) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The arguments of the series, and those of the fraction; harmless ones where the other is used."""
    series, fraction = and_p.bind(usual, below), and_p.bind(usual, not_p.bind(below))
    return (
        (_where(series, a, 2.0), _where(series, x, 1.0)),
        (_where(fraction, a, 1.0), _where(fraction, x, 3.0)),
    )


def _igamma_parts(a: Operand, x: Operand, upper: bool) -> Any:
    shape = common_shape("igamma", (typeof(a), typeof(x)))  # type: ignore[arg-type]
    a, x = spread(a, shape), spread(x, shape)
    legal, usual, below = _igamma_masks(a, x)
    series, fraction = _by_halves(usual, below, a, x)
    p, q = _gamma_series(*series), _gamma_fraction(*fraction)
    value = _where(below, _sub(1.0, p), q) if upper else _where(below, p, _sub(1.0, q))
    # At the edges: P(a, 0) = 0, P(a, inf) = P(0, x) = 1, P(inf, x) = 0.
    at_zero, at_one = (1.0, 0.0) if upper else (0.0, 1.0)
    value = _where(or_p.bind(_eq(a, math.inf), _eq(x, 0)), spread(like(a, at_zero), shape), value)
    value = _where(or_p.bind(_eq(x, math.inf), _eq(a, 0)), spread(like(a, at_one), shape), value)
    return _where(legal, value, math.nan)


def _igamma(a: Operand, x: Operand) -> Any:
    return _igamma_parts(a, x, upper=False)


def _igammac(a: Operand, x: Operand) -> Any:
    return _igamma_parts(a, x, upper=True)


def _igamma_grad_a(a: Operand, x: Operand) -> Any:
    """The derivative of P(a, x) in a: series and fraction differentiated forwards, 0 at the edges but a = 0."""
    shape = common_shape("igamma_grad_a", (typeof(a), typeof(x)))  # type: ignore[arg-type]
    a, x = spread(a, shape), spread(x, shape)
    legal, usual, below = _igamma_masks(a, x)
    usual = or_p.bind(usual, and_p.bind(_eq(a, 0), and_p.bind(_gt(x, 0), _lt(x, math.inf))))
    series, fraction = _by_halves(usual, below, a, x)

    def slope(
        start: Callable[..., Any], step: Callable[..., Any], front: Callable[..., Any], a: Operand, x: Operand
    ) -> Any:
        total, rate = _settled_slope(start, step, a, x)
        one = spread(like(a, 1.0), shape)
        return instantiate(jvp_flat(lambda a, total: [_mul(front(a, x), total)], [a, total], [one, rate])[1][0])

    p = slope(_series_start, _series_step, _gamma_density, *series)
    q = slope(_fraction_start, _fraction_step, lambda a, x: _mul(_gamma_density(a, x), a), *fraction)
    value = _where(usual, _where(below, p, neg_p.bind(q)), 0.0)
    return _where(legal, value, math.nan)


def _power_of_zero(x: Operand, end: Operand, power: Array) -> Any:
    """A power of a number where that is 0, 1 elsewhere: a power itself has the right derivatives at 0."""
    return pow_p.bind(_where(end, x, 1.0), power)


def _gamma_pdf(a: Array, x: Operand) -> Any:
    """x^(a-1) e^-x / Gamma(a): the derivative of P(a, x) in x."""
    power, end = _sub(a, 1.0), _eq(x, 0)
    log = _sub(_sub(_mul(power, log_p.bind(_where(end, 1.0, x))), x), lgamma_p.bind(a))
    return _mul(exp_p.bind(log), _power_of_zero(x, end, power))


def _igamma_grad_a_slope(t: Operand, out: Operand, a: Operand, x: Operand) -> Any:
    """By `a` again: the expansion differentiated forwards."""
    shape = shape_of(out)

    def slope(a: Operand, x: Operand) -> Any:
        return instantiate(jvp_flat(lambda a: [_igamma_grad_a(a, x)], [a], [spread(like(a, 1.0), shape)])[1][0])

    return _mul(t, _in_float32(slope)(spread(a, shape), spread(x, shape)))


igamma_p: Primitive = curves(
    "igamma", FLOAT, None,
    [lambda t, out, a, x: _mul(t, igamma_grad_a_p.bind(a, x)), lambda t, out, a, x: _mul(t, _gamma_pdf(a, x))],
    expand=_in_float32(_igamma),
)  # fmt: skip
igammac_p: Primitive = curves(
    "igammac", FLOAT, None,
    [
        lambda t, out, a, x: neg_p.bind(_mul(t, igamma_grad_a_p.bind(a, x))),
        lambda t, out, a, x: neg_p.bind(_mul(t, _gamma_pdf(a, x))),
    ],
    expand=_in_float32(_igammac),
)  # fmt: skip
igamma_grad_a_p: Primitive = curves(
    "igamma_grad_a", FLOAT, None,
    [
        _igamma_grad_a_slope,
        lambda t, out, a, x: _mul(t, _gamma_pdf(a, x), _sub(log_p.bind(x), digamma_p.bind(a))),
    ],
    expand=_in_float32(_igamma_grad_a),
)  # fmt: skip


# ---------------------------------------------------------------------------- incomplete beta function


def _beta_fraction(a: Operand, b: Operand, x: Array) -> Any:
    """The continued fraction of I_x(a, b) (DLMF 8.17.22) with Lentz's method, two terms a step."""
    eps, tiny = _eps(x), 1e-30
    total = _add(a, b)

    def guarded(v: Array) -> Any:
        return _where(_lt(abs_p.bind(v), tiny), tiny, v)

    def advance(numerator: Array, c: Array, d: Array) -> Any:
        d = _div(1.0, guarded(_add(_mul(numerator, d), 1.0)))
        c = guarded(_add(_div(numerator, c), 1.0))
        return c, d

    one = spread(like(x, 1.0), shape_of(x))
    d = _div(1.0, guarded(_sub(1.0, _div(_mul(total, x), _add(a, 1)))))

    def step(n: Array, c: Array, d: Array, h: Array) -> Any:
        twice = _add(a, _mul(n, 2))
        even = _div(_mul(n, _sub(b, n), x), _mul(_sub(twice, 1.0), twice))
        c, d = advance(even, c, d)
        h = _mul(h, c, d)
        odd = _div(_mul(_add(a, n), _add(total, n), neg_p.bind(x)), _mul(twice, _add(twice, 1)))
        c, d = advance(odd, c, d)
        factor = _mul(c, d)
        return _gt(abs_p.bind(_sub(factor, 1.0)), eps), c, d, _mul(h, factor)

    return _until_settled(step, (one, d, d))[2]


def _log_beta(a: Array, b: Array) -> Any:
    return _sub(_add(lgamma_p.bind(a), lgamma_p.bind(b)), lgamma_p.bind(_add(a, b)))


def _betainc(a: Operand, b: Operand, x: Operand) -> Any:
    shape = common_shape("betainc", (typeof(a), typeof(b), typeof(x)))  # type: ignore[arg-type]
    a, b, x = (spread(v, shape) for v in (a, b, x))
    legal = and_p.bind(and_p.bind(_ge(a, 0), _ge(b, 0)), and_p.bind(_ge(x, 0), _le(x, 1)))
    at_0, at_1 = or_p.bind(_eq(a, 0), _eq(b, math.inf)), or_p.bind(_eq(b, 0), _eq(a, math.inf))  # where all weight is
    legal = and_p.bind(legal, not_p.bind(and_p.bind(at_0, at_1)))
    proper = not_p.bind(or_p.bind(at_0, at_1))
    inside = and_p.bind(and_p.bind(legal, proper), and_p.bind(_gt(x, 0), _lt(x, 1)))
    a1, b1, x1 = (_where(inside, v, 0.5) for v in (a, b, x))
    swap = gt_p.bind(x1, _div(_add(a1, 1), _add(a1, b1, 2)))
    p, q = _where(swap, b1, a1), _where(swap, a1, b1)
    y = _where(swap, _sub(1.0, x1), x1)
    # log(1 - y) is that of x itself after the swap, where 1 - y has lost digits.
    log_y = _where(swap, log1p_p.bind(neg_p.bind(x1)), log_p.bind(x1))
    log_rest = _where(swap, log_p.bind(x1), log1p_p.bind(neg_p.bind(x1)))
    front = _div(exp_p.bind(_sub(_add(_mul(p, log_y), _mul(q, log_rest)), _log_beta(p, q))), p)
    value = _mul(front, _beta_fraction(p, q, y))
    value = _where(swap, _sub(1.0, value), value)
    # At the edges: 0 and 1 where x is, and between them what the weight is at.
    at_end = or_p.bind(proper, or_p.bind(_eq(x, 0), _eq(x, 1)))
    edge = _where(at_end, x, convert_element_type(at_0, typeof(x).dtype))
    return _where(legal, _where(inside, value, edge), math.nan)


def _beta_density(t: Operand, out: Operand, a: ArrayLike, b: ArrayLike, x: Operand) -> Any:
    p, q, low, high = _sub(a, 1.0), _sub(b, 1.0), _eq(x, 0), _eq(x, 1)
    log, log_rest = log_p.bind(_where(low, 1.0, x)), log1p_p.bind(neg_p.bind(_where(high, 0.0, x)))
    # At an end where one factor is infinite, the other is 1: its slope is given the sign of the first's, and not 0.
    of_log = _where(and_p.bind(high, _lt(q, 0)), _add(abs_p.bind(p), 1.0), p)
    of_rest = _where(and_p.bind(low, _lt(p, 0)), _add(abs_p.bind(q), 1.0), q)
    density = exp_p.bind(_sub(_add(_mul(of_log, log), _mul(of_rest, log_rest)), _log_beta(a, b)))
    power = pow_p.bind(_where(low, x, _where(high, _sub(1.0, x), 1.0)), _where(high, q, p))
    return _mul(t, density, power)


regularized_incomplete_beta_p: Primitive = curves(
    "regularized_incomplete_beta", FLOAT, None,
    [no_derivative("betainc", "a"), no_derivative("betainc", "b"), _beta_density],
    expand=_in_float32(_betainc),
)  # fmt: skip


# ---------------------------------------------------------------------------- scaled Bessel functions


def _clenshaw(t: Array, coefficients: tuple[float, ...]) -> Any:
    """The Chebyshev series sum c_k T_k(t), without terms below the dtype's precision."""
    small = _eps(t) / 8
    count = max(k for k, c in enumerate(coefficients) if abs(c) > small) + 1
    twice = _mul(t, 2)
    b0 = b1 = _mul(t, 0)
    for c in reversed(coefficients[1:count]):
        b0, b1 = _add(_sub(_mul(twice, b0), b1), c), b0
    return _add(_sub(_mul(t, b0), b1), coefficients[0])


def _bessel_ie(order: int) -> Callable[..., Any]:
    def expand(x: Array) -> Any:
        size = abs_p.bind(x)
        small, large = min_p.bind(size, like(x, 8.0)), max_p.bind(size, like(x, 8.0))
        near = _clenshaw(_sub(_mul(small, 0.25), 1.0), meaning.bessel_coefficients(order, False))
        far = _clenshaw(_sub(_div(16.0, large), 1.0), meaning.bessel_coefficients(order, True))
        near = _mul(near, size) if order else near
        out = _where(_le(size, 8), near, _div(far, sqrt_p.bind(large)))
        return _mul(out, sign_p.bind(x)) if order else out

    return _in_float32(expand)


bessel_i0e_p: Primitive = curve(
    "bessel_i0e", FLOAT, meaning.bessel_ie(0),
    lambda t, out, x: _mul(t, _sub(bessel_i1e_p.bind(x), _mul(sign_p.bind(x), out))), expand=_bessel_ie(0),
)  # fmt: skip


def _bessel_i1e_tangent(t: Operand, out: Operand, x: Array) -> Any:
    # I1' = I0 - I1 / x (DLMF 10.29.2); near 0 the quotient by its power series (10.25.2), for the sake of its slopes.
    near, sign = _lt(abs_p.bind(x), 0.1), sign_p.bind(x)
    square = square_p.bind(_where(near, x, 0.0))
    series = like(x, 0.0)
    for n in reversed(range(5)):
        series = _add(_mul(series, square), 1 / (2 ** (2 * n + 1) * math.factorial(n) * math.factorial(n + 1)))
    series = _mul(series, exp_p.bind(neg_p.bind(_mul(sign, x))))
    ratio = _where(near, series, _div(out, _where(near, 1.0, x)))
    return _mul(t, _sub(bessel_i0e_p.bind(x), _add(_mul(sign, out), ratio)))


bessel_i1e_p: Primitive = curve("bessel_i1e", FLOAT, meaning.bessel_ie(1), _bessel_i1e_tangent, expand=_bessel_ie(1))


# ---------------------------------------------------------------------------- functions of jax.lax

erf: Unary = function(erf_p, 1, "Elementwise error function of floats.")
erfc: Unary = function(erfc_p, 1, "Elementwise 1 - erf(x), exact for large x.")
erf_inv: Unary = function(erf_inv_p, 1, "Elementwise inverse of erf.")
lgamma: Unary = function(lgamma_p, 1, "Elementwise logarithm of the absolute value of the gamma function.")
digamma: Unary = function(digamma_p, 1, "Elementwise derivative of lgamma.")
_zeta = function(zeta_p, 2, "", "zeta")
_lower_igamma = function(igamma_p, 2, "", "igamma")
_upper_igamma = function(igammac_p, 2, "", "igammac")
_igamma_slope = function(igamma_grad_a_p, 2, "", "igamma_grad_a")
_incomplete_beta = function(regularized_incomplete_beta_p, 3, "", "betainc")
bessel_i0e: Unary = function(bessel_i0e_p, 1, "Elementwise exp(-abs(x)) * I0(x), of the modified Bessel function.")
bessel_i1e: Unary = function(bessel_i1e_p, 1, "Elementwise exp(-abs(x)) * I1(x), of the modified Bessel function.")


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise derivative of digamma, m times, at x; m is a float of whole value.

    Below 0 by the sum over all poles, those on the right of x less those of 1 - x (DLMF 5.15.1), all above 0: XLA's own
    knows but the first poles.

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.polygamma(1.0, jnp.array([1.0])))  # pi ** 2 / 6
    [1.644934]
    """
    m, x = operands("polygamma", m, x)
    try:
        types: Any = [typeof(m), typeof(x)]
        shape = common_shape("polygamma", types)
    except ShapeError as error:
        m, x = stretched(error, m, x)
        shape = shape_of(x)
    m, x = spread(m, shape), spread(x, shape)
    whole = round_p.bind(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)
    reflected = and_p.bind(_lt(x, 0.0), _is(ne_p)(x, whole))
    from_pole = _where(reflected, _sub(x, whole), 0.5)
    after = _where(_lt(from_pole, 0.0), _add(from_pole, 1.0), from_pole)  # from the pole on the left
    before = _where(_lt(from_pole, 0.0), neg_p.bind(from_pole), _sub(1.0, from_pole))
    others = _sub(polygamma_p.bind(m, before), polygamma_p.bind(m, _where(reflected, _sub(1.0, x), 1.0)))
    even = _is(eq_p)(m, _mul(floor_p.bind(_mul(m, 0.5)), 2.0))
    signed = _where(even, neg_p.bind(others), others)
    return _add(polygamma_p.bind(m, _where(reflected, after, x)), _where(reflected, signed, 0.0))


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Elementwise Hurwitz zeta function, the sum of (q + k) ** -x.

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.zeta(jnp.array([2.0]), 1.0))  # pi ** 2 / 6
    [1.644934]
    """
    return _zeta(x, q)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularised lower incomplete gamma function P(a, x).

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.igamma(1.0, jnp.array([1.0])))  # 1 - exp(-1)
    [0.632121]
    """
    return _lower_igamma(a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularised upper incomplete gamma function Q(a, x).

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.igammac(1.0, jnp.array([1.0])))  # exp(-1)
    [0.367879]
    """
    return _upper_igamma(a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise derivative of igamma(a, x) in a.

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.igamma_grad_a(1.0, jnp.array([1.0])))
    [-0.4317]
    """
    return _igamma_slope(a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularised incomplete beta function I_x(a, b).

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.betainc(2.0, 1.0, jnp.array([0.5])))  # 0.5 ** 2
    [0.25]
    """
    return _incomplete_beta(a, b, x)


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise derivative in a of a sample x of the gamma distribution: -(dP/da) / (dP/dx).

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.random_gamma_grad(1.0, jnp.array([1.0])))
    [1.1736]
    """
    return neg_p.bind(div_p.bind(igamma_grad_a_p.bind(a, x), _gamma_pdf(a, x)))


PRIMITIVES: tuple[Primitive, ...] = (
    erf_p, erfc_p, erf_inv_p, lgamma_p, digamma_p, polygamma_p, zeta_p, igamma_p, igammac_p, igamma_grad_a_p,
    regularized_incomplete_beta_p, bessel_i0e_p, bessel_i1e_p,
)  # fmt: skip

__all__ = [
    "bessel_i0e", "bessel_i0e_p", "bessel_i1e", "bessel_i1e_p", "betainc", "digamma", "digamma_p", "erf", "erf_inv",
    "erf_inv_p", "erf_p", "erfc", "erfc_p", "igamma", "igamma_grad_a", "igamma_grad_a_p", "igamma_p", "igammac",
    "igammac_p", "lgamma", "lgamma_p", "polygamma", "polygamma_p", "random_gamma_grad",
    "regularized_incomplete_beta_p", "zeta", "zeta_p",
]  # fmt: skip
