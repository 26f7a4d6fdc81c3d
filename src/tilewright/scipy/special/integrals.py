"""Exponential, sine and cosine integrals, the dilogarithm, and Owen's T function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import lax
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...core.primitives.special.functions import no_derivative
from ...core.primitives.special.reference import BERNOULLI
from ...numpy.elementwise import imag, real, where3
from ...numpy.reductions import sum as _sum
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
from .basic import polynomial, xlogy
from .error import argument, real_only

_EULER = 0.5772156649015329


def _double(x: Any) -> bool:
    return dtype_of(x) in (np.dtype(np.float64), np.dtype(np.complex128))


# ---------------------------------------------------------------------------- exponential integrals


def _fraction(n: Any, x: Any, count: int) -> Any:
    """The continued fraction of `E_n(x) exp(x)` (DLMF 8.19.17 contracted), from its end."""

    def step(i: Any, rest: Any) -> Any:
        k = lax.convert_element_type(count - i, dtype_of(n))
        return x + n + 2 * (k - 1) - k * (n + k - 1) / rest

    return 1 / lax.fori_loop(0, count, step, x + n + 2 * count)


def _expn_series(n: Array, x: Array) -> Any:
    """E_n(x) by its power series (DLMF 8.19.8), for whole n from 1 on and small x."""

    def step(m: Any, state: Any) -> Any:
        term, total = state
        m = lax.convert_element_type(m, dtype_of(x))
        gap = m - n + 1
        total = total - where3(lax.eq(gap, 0), 0.0, term / where3(lax.eq(gap, 0), 1.0, gap))
        return -term * x / (m + 1), total

    _, total = lax.fori_loop(0, 24 if _double(x) else 14, step, (lax.full_like(x, 1), lax.full_like(x, 0)))
    front = lax.exp((n - 1) * lax.log(x) - lax.lgamma(n))
    odd = lax.ne(lax.rem(n - 1, lax.full_like(n, 2)), 0)
    return where3(odd, -front, front) * (lax.digamma(n) - lax.log(x)) + total


def _expn_value(n: Array, x: Array) -> Array:
    whole = lax.eq(n, lax.floor(n)) & (n >= 0)
    regular = whole & (n > 0) & (x > 0)
    small = regular & (x <= 1)
    large = regular & (x > 1)
    order = where3(regular, n, 1.0)
    series = _expn_series(order, where3(small, x, 1.0))
    rest = where3(large, lax.min(x, 800.0), 2.0)
    fraction = _fraction(order, rest, 100 if _double(x) else 30) * lax.exp(-rest)
    out = where3(small, series, where3(x > 800, 0.0, fraction))
    at_zero = where3(n > 1, 1 / where3(n > 1, n - 1, 1.0), math.inf)
    nothing = whole & lax.eq(n, 0) & (x > 0)
    out = where3(nothing, lax.exp(-x) / where3(nothing, x, 1.0), out)
    out = where3(whole & lax.eq(x, 0), at_zero, out)
    return where3(whole & (x >= 0), out, math.nan)


_expn = custom_jvp(_expn_value)


def _expn_slope(t: Any, out: Any, n: Array, x: Any) -> Any:
    """E_n' = -E_(n-1) (DLMF 8.19.13), E_0' of its own form."""
    zero = lax.eq(n, 0)
    below = _expn(where3(zero, n, n - 1), x)
    return -t * where3(zero, out * (1 + 1 / where3(zero, x, 1.0)), below)


_expn.defjvps(no_derivative("expn", "n"), _expn_slope)


@inline_jit()
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral `E_n(x) = int_1^inf exp(-x t) / t^n dt` for whole `n` from 0 on.

    NaN for negative `x`, and other `n`.

    >>> from tilewright.scipy import special
    >>> round(float(special.expn(2, 1.0)), 4)
    0.1485
    """
    n, x = map(strong, promote_inexact(n, x))
    real_only("expn", dtype_of(x))
    return _expn(n, x)


@inline_jit()
def exp1(x: ArrayLike) -> Array:
    """The exponential integral `E_1(x)`.

    >>> from tilewright.scipy import special
    >>> round(float(special.exp1(1.0)), 4)
    0.2194
    """
    x, dtype = argument(x, "exp1")
    return lax.convert_element_type(_expn(lax.full_like(x, 1), x), dtype)


def _expi_series(x: Array) -> Any:
    """Ei(x) by its power series (DLMF 6.6.2), all of whose terms are positive for positive x."""
    count = 120 if _double(x) else 66
    terms = [16.0**k / (k * math.factorial(k)) for k in range(count, 0, -1)]
    t = x / 16
    return _EULER + lax.log(x) + t * polynomial(t, terms)


def _expi_value(x: Array) -> Array:
    double = _double(x)  # from where on the least term of the asymptotic series is small enough
    positive, near = x > 0, (x > 0) & (x <= (40 if double else 20))
    series = _expi_series(where3(near, x, 1.0))
    far = lax.min(where3(positive & ~near, x, 50.0), 1e30)
    # exp(x) / x times the sum of k! / x^k (DLMF 6.12.2), whose least term is below exp(-40).
    terms = polynomial(1 / far, [float(math.factorial(k)) for k in range(28 if double else 18)][::-1])
    beyond = lax.exp(lax.min(where3(positive & ~near, x, 50.0), 1e5)) / far * terms
    left = -_expn(lax.full_like(x, 1), where3(x < 0, -x, 1.0))
    out = where3(positive, where3(near, series, beyond), where3(lax.eq(x, 0), -math.inf, left))
    return where3(lax.eq(x, x), out, math.nan)


_expi = custom_jvp(_expi_value)
_expi.defjvps(lambda t, out, x: t * lax.exp(x) / where3(lax.eq(x, math.inf), 1.0, x))


@inline_jit()
def expi(x: ArrayLike) -> Array:
    """The exponential integral `Ei(x)`, the principal value of `int_-inf^x exp(t) / t dt`.

    >>> from tilewright.scipy import special
    >>> round(float(special.expi(1.0)), 4)
    1.8951
    """
    x, dtype = argument(x, "expi")
    return lax.convert_element_type(_expi(x), dtype)


# ---------------------------------------------------------------------------- sine and cosine integrals

_SI = tuple([(-1) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(18)][::-1])
_CI = tuple([(-1) ** k / (2 * k * math.factorial(2 * k)) for k in range(1, 19)][::-1])


def _sici_value(x: Array) -> tuple[Array, Array]:
    size = abs(x)
    near = size <= 4
    close = where3(near, size, 1.0)
    square = close * close
    log = lax.log(where3(lax.eq(size, 0), 1.0, close))
    near_ci = where3(lax.eq(size, 0), -math.inf, _EULER + log + square * polynomial(square, _CI))
    # E_1(i x) = -Ci(x) + i (Si(x) - pi / 2)   (DLMF 6.5.6)
    far = where3(near, 5.0, lax.min(size, 1e30))
    z = lax.complex(lax.full_like(far, 0), far)
    e1 = lax.complex(lax.cos(far), -lax.sin(far)) * _fraction(lax.full_like(z, 1), z, 60 if _double(x) else 16)
    end = size > 1e30
    si = where3(near, close * polynomial(square, _SI), where3(end, math.pi / 2, math.pi / 2 + imag(e1)))
    ci = where3(near, near_ci, where3(end, 0.0, -real(e1)))
    si = where3(lax.eq(x, 0), 0.0, si)
    return where3(x < 0, -si, where3(lax.eq(x, x), si, math.nan)), where3(x > -math.inf, ci, math.nan)


_sici = custom_jvp(_sici_value)


@_sici.defjvp
def _sici_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    zero, end = lax.eq(x, 0), lax.eq(abs(x), math.inf)
    safe = where3(zero | end, 1.0, x)
    of_si = where3(end, 0.0, where3(zero, 1.0, lax.sin(safe) / safe))
    return _sici(x), (t * of_si, t * where3(end, 0.0, lax.cos(safe) / where3(zero, x, safe)))


@inline_jit()
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine integral `int_0^x sin(t) / t dt` and the cosine integral `-int_|x|^inf cos(t) / t dt`.

    >>> from tilewright.scipy import special
    >>> [round(float(v), 4) for v in special.sici(1.0)]
    [0.9461, 0.3374]
    """
    x, dtype = argument(x, "sici")
    si, ci = _sici(x)
    return lax.convert_element_type(si, dtype), lax.convert_element_type(ci, dtype)


# ---------------------------------------------------------------------------- dilogarithm

# Of Li2(1 - exp(-u)) = u - u^2 / 4 + sum B_2k u^(2k+1) / (2k+1)!, in powers of u^2 from the third.
_DILOG = tuple([b / math.factorial(2 * k + 1) for k, b in enumerate(BERNOULLI, 1)][::-1])
_SLOPE = tuple([(-1.0) ** (k + 1) / (k + 1) for k in range(20)][::-1])
_CURVATURE = tuple([k * c for k, c in zip(range(19, 0, -1), _SLOPE, strict=False)])


def _spence_middle(x: Any) -> Any:
    """For numbers between 1/2 and 2."""
    u = -lax.log1p(x - 1)
    square = u * u
    return u - square / 4 + u * square * polynomial(square, _DILOG)


def _spence_value(x: Array) -> Array:
    above, below = x > 2, x < 0.5
    y = where3(above, 1 / where3(above, x, 1.0), x)
    reflect = (y < 0.5) & (y > 0)
    inner = _spence_middle(where3(reflect, 1 - y, where3(y > 0, lax.min(y, 2.0), 1.0)))
    safe = where3(reflect, y, 0.5)
    out = where3(reflect, math.pi**2 / 6 - lax.log(safe) * lax.log1p(-safe) - inner, inner)
    log = lax.log(where3(above, x, 1.0))
    out = where3(above, -out - 0.5 * log * log, where3(below & lax.eq(x, 0), math.pi**2 / 6, out))
    return where3((x >= 0) & (x < math.inf), out, math.nan)


_spence = custom_jvp(_spence_value)


def _near_one(x: Any) -> tuple[Any, Any]:
    """Whether a number is close to 1, and how much it is above that, or 0 if not."""
    close = abs(x - 1) < 0.1
    return close, where3(close, x - 1, 0.0)


@custom_jvp
def _spence_slope(x: Any) -> Any:
    """log(x) / (1 - x), by its series close to 1."""
    close, gap = _near_one(x)
    return where3(close, polynomial(gap, _SLOPE), lax.log(where3(close, 2.0, x)) / where3(close, 1.0, 1 - x))


def _spence_curvature(t: Any, out: Any, x: Any) -> Any:
    """The slope's derivative, (1 / x + slope) / (1 - x), without a difference of infinities at 0."""
    close, gap = _near_one(x)
    far = where3(close, 2.0, x)
    quotient = (1 + xlogy(far, far) / (1 - far)) / (far * (1 - far))
    return t * where3(close, polynomial(gap, _CURVATURE), quotient)


_spence_slope.defjvps(_spence_curvature)
_spence.defjvps(lambda t, out, x: t * _spence_slope(x))


@inline_jit()
def spence(x: ArrayLike) -> Array:
    """Spence's function `-int_1^x log(t) / (t - 1) dt`, the dilogarithm of `1 - x`; NaN below 0.

    >>> from tilewright.scipy import special
    >>> round(float(special.spence(0.0)), 4)
    1.6449
    """
    x, dtype = argument(x, "spence")
    return lax.convert_element_type(_spence(x), dtype)


# ---------------------------------------------------------------------------- Owen's T

_NODES, _WEIGHTS = ((v + s) / 2 for v, s in zip(np.polynomial.legendre.leggauss(40), (1, 0), strict=True))


def _inner_t(h: Array, a: Array) -> Any:
    """T(h, a) for a up to 1, by Gauss and Legendre's rule."""
    dtype, last = dtype_of(h), len(shape_of(a))
    x = lax.expand_dims(a, (last,)) * _NODES.astype(dtype)
    high = lax.expand_dims(h, (len(shape_of(h)),))
    inner = lax.exp(-0.5 * high * high * (1 + x * x)) / (1 + x * x)
    return a * _sum(inner * _WEIGHTS.astype(dtype), -1) / (2 * math.pi)


def _owens_value(h: Array, a: Array) -> Array:
    h1, a1 = abs(h), abs(a)
    outer = a1 > 1
    end = lax.eq(a1, math.inf) | lax.eq(h1, math.inf)
    h1, a1 = where3(end, 1.0, h1), where3(end, 1.0, a1)
    other = where3(outer, h1 * a1, h1)
    first, second = (0.5 * lax.erfc(v * math.sqrt(0.5)) for v in (h1, h1 * a1))
    inner = _inner_t(other, where3(outer, 1 / where3(outer, a1, 1.0), a1))
    out = where3(outer, 0.5 * (first + second) - first * second - inner, inner)
    out = where3(lax.eq(abs(a), math.inf), 0.25 * lax.erfc(abs(h) * math.sqrt(0.5)), out)
    out = where3(lax.eq(abs(h), math.inf), 0.0, out)
    return where3(lax.eq(h, h) & lax.eq(a, a), lax.sign(a) * out, math.nan)


_owens_t = custom_jvp(_owens_value)


def _slope_h(t: Any, out: Any, h: Any, a: Any) -> Any:
    front = -lax.exp(-0.5 * h * h) / (2 * math.sqrt(2 * math.pi))
    return t * front * lax.erf(a * h * math.sqrt(0.5))


def _slope_a(t: Any, out: Any, h: Any, a: Any) -> Any:
    whole = 1 + a * a
    return t * lax.exp(-0.5 * h * h * whole) / (2 * math.pi * whole)


_owens_t.defjvps(_slope_h, _slope_a)


@inline_jit()
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function: the probability that of two normal variables x is above `h` and y between 0 and `a x`.

    D. B. Owen, "Tables for computing bivariate normal probabilities", Annals of Mathematical Statistics 27, 1956.

    >>> from tilewright.scipy import special
    >>> round(float(special.owens_t(1.0, 1.0)), 4)
    0.0667
    """
    h, a = map(strong, promote_inexact(h, a))
    real_only("owens_t", dtype_of(a))
    shape = lax.broadcast_shapes(shape_of(h), shape_of(a))
    return _owens_t(broadcast_to_shape(h, shape), broadcast_to_shape(a, shape))


__all__ = ["exp1", "expi", "expn", "owens_t", "sici", "spence"]
