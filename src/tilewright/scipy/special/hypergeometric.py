"""Confluent and Gauss's hypergeometric functions of real numbers: series, transformations, asymptotic forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import lax
from ...core.api.transformations import jvp
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...numpy.elementwise import where3
from ...numpy.reductions import any as _any
from ...numpy.util import (
    Array,
    ArrayLike,
    broadcast_to_shape,
    dtype_of,
    inline_jit,
    promote_inexact,
    shape_of,
    strong,
)
from .basic import gammasgn
from .error import real_only

_LIMIT = 4000  # of terms


def _alike(*args: Any) -> list[Any]:
    """Arguments as strong floats of one shape, wide enough to sum series in; and the dtype of the result."""
    args = tuple(map(strong, promote_inexact(*args)))
    dtype = dtype_of(args[0])
    real_only("a hypergeometric function", dtype)
    shape = lax.broadcast_shapes(*map(shape_of, args))
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    return [*(broadcast_to_shape(lax.convert_element_type(v, wide), shape) for v in args), dtype]


def _is_pole(x: Array) -> Any:
    """Where a number is 0 or a negative integer, at which the gamma function has poles."""
    return (x <= 0) & lax.eq(x, lax.floor(x))


def _is_polynomial(a: Any, b: Any) -> Any:
    """Where a series ends by its parameter `a` before the pole of its terms at `b`, if there is one."""
    return _is_pole(a) & (~_is_pole(b) | (a >= b))


def _over(above: Any, below: Array) -> Any:
    """A quotient, 0 where it is by 0: beyond the last term of a polynomial."""
    zero = lax.eq(below, 0)
    return where3(zero, 0.0, above / where3(zero, 1.0, below))


def _gamma_ratio(above: tuple[Any, ...], below: tuple[Any, ...]) -> Any:
    """A product of gamma functions by another, 0 where one below has a pole."""
    size: Any = 0.0
    sign: Any = 1.0
    nothing: Any = _is_pole(below[0]) if below else False
    for x in below[1:]:
        nothing = nothing | _is_pole(x)
    for x, s in (*((x, 1) for x in above), *((x, -1) for x in below)):
        safe = where3(_is_pole(x), 0.5, x) if s < 0 else x
        size, sign = size + s * lax.lgamma(safe), sign * gammasgn(safe)
    return where3(nothing, 0.0, sign * lax.exp(size)) if below else sign * lax.exp(size)


def _series(ratio: Callable[[Any], Any], like: Array, least: Any = 4) -> Any:
    """1 + r(0) + r(0) r(1) + ...: until no term changes any of the sums, and there are at least so many."""
    eps = float(np.finfo(dtype_of(like)).eps) / 16

    def step(state: Any) -> Any:
        k, term, total, _ = state
        term = term * ratio(k)
        return k + 1, term, total + term, (abs(term) > eps * abs(total + term)) | (k < least)

    def unsettled(state: Any) -> Any:
        return _any(state[3]) & (state[0] < _LIMIT)

    one = lax.full_like(like, 1)
    start = (np.zeros((), dtype_of(like))[()], one, one, lax.eq(one, one))
    return lax.while_loop(unsettled, step, start)[2]


def _partial(function: Callable[..., Any], i: int) -> Callable[..., Any]:
    """The rule of an elementwise function's argument: the derivative forwards through its loops.

    Further derivatives are taken in the same way, so that each of them can be taken backwards, too.
    """

    def slope(*args: Any) -> Any:
        def moved(v: Any) -> Any:
            return function(*args[:i], v, *args[i + 1 :])

        return jvp(moved, (args[i],), (lax.full_like(args[i], 1),))[1]

    def rule(t: Any, out: Any, *args: Any) -> Any:
        derived: Any = custom_jvp(slope)
        derived.defjvps(*[_partial(slope, k) for k in range(len(args))])
        return t * derived(*args)

    return rule


def _by_slopes(
    value_of: Callable[..., Any], smooth: Callable[..., Any], rate: Callable[..., Any]
) -> Callable[..., Array]:
    """A function whose derivative in its last argument is `rate` of the others times its value with these raised by 1.

    In the others a smooth form is differentiated.
    """
    function: Any = custom_jvp(value_of)

    def along(t: Any, out: Any, *args: Any) -> Any:
        *parameters, x = args
        factor = rate(*parameters)
        return t * where3(lax.eq(factor, 0), 0.0, factor * function(*(p + 1 for p in parameters), x))

    count = smooth.__code__.co_argcount
    function.defjvps(*[_partial(smooth, i) for i in range(count - 1)], along)
    return function


# ---------------------------------------------------------------------------- confluent

_FAR = 80.0


def _plain_1f1(a: Any, b: Any, x: Any, least: Any) -> Any:
    return _series(lambda k: _over(a + k, (b + k) * (k + 1)) * x, x, least)


def _asymptotic(p: Any, q: Any, x: Array) -> Any:
    """The sum of (p)_k (q)_k / k! / x^k (DLMF 13.7.2) for large x, as far as its terms fall."""
    total = term = lax.full_like(x, 1)
    for k in range(30):
        following = term * (p + k) * (q + k) / ((k + 1) * x)
        term = where3(abs(following) <= abs(term), following, 0.0)
        total = total + term
    return total


def _value_1f1(a: Array, b: Any, x: Array) -> Any:
    out = where3(lax.eq(a, b) & ~_is_pole(b), lax.exp(x), _sum_1f1(a, b, x, 4))
    return _at_ends_1f1(a, b, x, where3(lax.eq(a, 0), 1.0, out))


def _smooth_1f1(a: Any, b: Any, x: Any) -> Any:
    """As a function of a and b: where the terms end, at a whole a, their slopes do not."""
    return _at_ends_1f1(a, b, x, _sum_1f1(a, b, x, 40 + 3 * abs(x)))


def _at_ends_1f1(a: Any, b: Any, x: Array, out: Any) -> Any:
    out = where3(lax.eq(x, 0), 1.0, out)
    out = where3(_is_pole(b) & ~_is_polynomial(a, b), math.inf, out)
    return where3(lax.eq(x, x), out, math.nan)


def _sum_1f1(a: Any, b: Any, x: Array, least: Any) -> Any:
    negative = (x < 0) & ~_is_pole(b)
    # Kummer's transformation (DLMF 13.2.39): all sums but those of polynomials at positive x.
    p, y = where3(negative, b - a, a), where3(negative, -x, x)
    ends = _is_pole(p)
    far = (y > _FAR) & ~ends
    near = _plain_1f1(where3(far, 1.0, p), where3(far, 1.0, b), where3(far, 1.0, y), least)
    near = where3(negative, lax.exp(x) * near, near)
    large = where3(far, lax.min(y, 1e30), 100.0)
    growth = (p - b) * lax.log(large) + where3(negative, 0.0, large)
    away = _asymptotic(b - p, 1 - p, large) * _gamma_ratio((b,), (p,)) * lax.exp(growth)
    return where3(far, away, near)


_hyp1f1 = _by_slopes(_value_1f1, _smooth_1f1, _over)


@inline_jit()
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The confluent hypergeometric function 1F1(a; b; x) of real numbers.

    >>> from tilewright.scipy import special
    >>> round(float(special.hyp1f1(1.0, 2.0, 1.0)), 4)
    1.7183
    """
    a, b, x, dtype = _alike(a, b, x)
    return lax.convert_element_type(_hyp1f1(a, b, x), dtype)


# ---------------------------------------------------------------------------- Gauss's


def _plain_2f1(a: Any, b: Any, c: Any, x: Any, least: Any = 4) -> Any:
    return _series(lambda k: _over((a + k) * (b + k), (c + k) * (k + 1)) * x, x, least)


def _masked(use: Any, *pairs: tuple[Any, float]) -> list[Any]:
    """Arguments where they are used, harmless numbers elsewhere."""
    return [where3(use, value, other) for value, other in pairs]


def _near_one(a: Any, b: Any, c: Any, x: Any, use: Any) -> Any:
    """For x close to 1, by series in 1 - x (DLMF 15.8.4; of a c - a - b that is all but whole 15.8.10)."""
    s = c - a - b
    near = lax.round(s)
    whole = abs(s - near) < math.sqrt(float(np.finfo(dtype_of(x)).eps))  # where both lose as many digits
    s = where3(whole, near, s)
    apart = use & ~whole
    a1, b1, c1, x1, s1 = _masked(apart, (a, 0.5), (b, 0.5), (c, 1.25), (x, 0.9), (s, 0.25))
    first = _gamma_ratio((c1, s1), (c1 - a1, c1 - b1)) * _plain_2f1(a1, b1, 1 - s1, 1 - x1)
    second = _gamma_ratio((c1, -s1), (a1, b1)) * _plain_2f1(c1 - a1, c1 - b1, 1 + s1, 1 - x1)
    general = first + lax.exp(s1 * lax.log1p(-x1)) * second
    # Euler's transformation (DLMF 15.8.1) makes a negative whole number positive.
    turn = use & whole & (s < 0)
    a2, b2 = where3(turn, c - a, a), where3(turn, c - b, b)
    a2, b2, c2, x2, m = _masked(use & whole, (a2, 0.5), (b2, 0.5), (c, 1.0), (x, 0.9), (abs(s), 0.0))
    limit = _whole_gap(a2, b2, c2, x2, m)
    limit = where3(turn, lax.exp(s * lax.log1p(-x2)) * limit, limit)
    return where3(whole, limit, general)


def _whole_gap(a: Any, b: Any, c: Any, x: Any, m: Array) -> Any:
    """DLMF 15.8.10: c = a + b + m with a whole m from 0 on."""
    y = 1 - x

    def head(state: Any) -> Any:
        k, term, total = state
        total = where3(k < m, total + term, total)
        gap = where3(k + 1 < m, m - k - 1, 1.0)
        return k + 1, -term * (a + k) * (b + k) * y / ((k + 1) * gap), total

    start = lax.exp(lax.lgamma(where3(m > 0, m, 1.0)))
    first = lax.while_loop(lambda s: _any(s[0] < m), head, (np.zeros((), dtype_of(x))[()], start, x * 0))[2]
    log = lax.log(y)

    def tail(k: Any, state: Any) -> Any:
        term, total = state
        k = lax.convert_element_type(k, dtype_of(x))
        bracket = log - lax.digamma(k + 1) - lax.digamma(k + m + 1) + lax.digamma(a + k + m) + lax.digamma(b + k + m)
        return term * (a + m + k) * (b + m + k) * y / ((k + 1) * (k + m + 1)), total + term * bracket

    _, second = lax.fori_loop(0, 60, tail, (lax.exp(-lax.lgamma(m + 1)), x * 0))
    odd = lax.ne(lax.rem(m, lax.full_like(m, 2)), 0)
    power = lax.exp(m * log)
    second = _gamma_ratio((c,), (a, b)) * where3(odd, -power, power) * second
    return _gamma_ratio((c,), (a + m, b + m)) * first - second


def _gauss(a: Array, b: Array, c: Any, x: Array, close: float) -> Any:
    """The function; from `close` on by series in 1 - x."""
    ends = _is_pole(a) | _is_pole(b)
    inside = x < 1
    # Pfaff's transformation (DLMF 15.8.1): all sums at 0 <= x < 1.
    pfaff = (x < 0) & ~ends
    b1, x1 = where3(pfaff, c - b, b), where3(pfaff, x / (x - 1), x)
    closes = ends | _is_pole(b1)
    near = inside & ~closes & (x1 > close)
    usual = ~near & (inside | closes)
    a2, b2, c2, x2 = _masked(usual, (a, 1.0), (b1, 1.0), (c, 1.0), (x1, 0.0))
    a3, b3, c3, x3 = _masked(near, (a, 0.5), (b1, 0.5), (c, 1.25), (x1, 0.9))
    least = where3(abs(x2) < close, 40 / (1 - lax.min(abs(x2), 0.99)), 4) if close == 1 else 4
    out = where3(near, _near_one(a3, b3, c3, x3, near), _plain_2f1(a2, b2, c2, x2, least))
    front = lax.exp(-a * lax.log1p(-where3(pfaff, x, 0.0)))
    out = where3(pfaff, front * out, out)
    s = c - a - b
    diverges = math.inf * gammasgn(a) * gammasgn(b) * gammasgn(c)
    at_one = where3(s > 0, _gamma_ratio((c, where3(s > 0, s, 1.0)), (c - a, c - b)), diverges)
    out = where3(inside | ends, out, where3(lax.eq(x, 1), at_one, math.inf))
    # Beyond 1, of a parameter above that is the one below, the power (DLMF 15.4.6), where that is real.
    beyond = (x > 1) & (lax.eq(a, c) | lax.eq(b, c))
    power = lax.pow(where3(beyond, 1 - x, 1.0), -where3(lax.eq(a, c), b, a))
    out = where3(beyond & lax.eq(power, power), power, out)
    out = where3(_is_pole(c) & ~(_is_polynomial(a, c) | _is_polynomial(b, c)), math.inf, out)
    return where3(lax.eq(x, x), where3(lax.eq(x, 0), 1.0, out), math.nan)


def _value_2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    return _gauss(a, b, c, x, 0.75)


def _summed_2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    """By series in x alone, smooth in the parameters everywhere; where the terms end, their slopes do not."""
    return _gauss(a, b, c, x, 1.0)


_hyp2f1 = _by_slopes(_value_2f1, _summed_2f1, lambda a, b, c: _over(a * b, c))


@inline_jit()
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function 2F1(a, b; c; x) of real numbers up to 1; infinite above, but for polynomials.

    >>> from tilewright.scipy import special
    >>> round(float(special.hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
    1.3863
    """
    a, b, c, x, dtype = _alike(a, b, c, x)
    return lax.convert_element_type(_hyp2f1(a, b, c, x), dtype)


__all__ = ["hyp1f1", "hyp2f1"]
