"""Special functions in NumPy, in double precision: the meaning against which compiled code is tested.

Sources: DLMF (https://dlmf.nist.gov) by equation number; Winitzki's approximation of the inverse error
function as a starting point only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.array import ArrayLike, Operand
from ...support.memo import cached

# Bernoulli numbers B_2, B_4, ...: coefficients of the asymptotic and Euler-Maclaurin series.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


def _doubles(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute in double precision on broadcast operands, and give the operands' dtype."""

    @functools.wraps(function)
    def wide(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        with np.errstate(all="ignore"):
            return np.asarray(function(*np.broadcast_arrays(*(a.astype(np.float64) for a in arrays)))).astype(dtype)

    return wide


def _lgamma(x: float) -> float:
    if x != x:
        return math.nan
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def each(function: Callable[[float], float]) -> Callable[..., Any]:
    """A function of Python floats applied to each element, in double precision."""
    vector = np.vectorize(function, otypes=[np.float64])
    return _doubles(lambda x: vector(x) if x.size else np.zeros(x.shape))


erf: Callable[..., Any] = each(math.erf)
erfc: Callable[..., Any] = each(math.erfc)
lgamma: Callable[..., Any] = each(_lgamma)


@_doubles
def erf_inv(x: ArrayLike) -> Any:
    """The inverse of erf: Winitzki's approximation polished by Halley's method on erfc(y) = 1 - |x|."""
    size = np.abs(x)
    inside = size < 1
    p = np.where(inside, 1 - size, 0.5)
    log = np.log(p * (2 - p))
    half = 2 / (math.pi * 0.147) + log / 2
    y = np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    for _ in range(4):
        step = (erfc(y) - p) / (-2 / math.sqrt(math.pi) * np.exp(-y * y))
        y = y - step / (1 + y * step)
    # Near 0, 1 - |x| has lost the digits that x has: the series of DLMF 7.17.2.
    small = size * math.sqrt(math.pi) / 2
    series = small * (1 + small**2 / 3 * (1 + small**2 * 7 / 10))
    y = np.where(size < 1e-3, series, y)
    return np.where(inside, np.copysign(y, x), np.where(size == 1, np.copysign(np.inf, x), np.nan))


@_doubles
def digamma(x: Operand) -> Any:
    """Reflection (DLMF 5.5.4), recurrence (5.5.2) up to 12, and the asymptotic series (5.11.2); -inf at 0, as XLA."""
    pole = (x <= 0) & (x == np.floor(x))
    negative = x < 0.5
    y = np.where(negative, 1 - x, x)
    y = np.where(np.isfinite(y), y, 12.0)
    total = np.zeros(x.shape)
    for _ in range(12):
        low = y < 12
        total = np.where(low, total - 1 / y, total)
        y = np.where(low, y + 1, y)
    series = np.log(y) - 1 / (2 * y) - sum(b / (2 * k * y ** (2 * k)) for k, b in enumerate(BERNOULLI, 1))
    total = total + series
    reduced = np.where(negative, x - np.round(x), 0.25)
    total = np.where(negative, total - math.pi / np.tan(math.pi * reduced), total)
    total = np.where(np.isposinf(x), np.inf, np.where(np.isneginf(x) | np.isnan(x), np.nan, total))
    return np.where(x == 0, -np.inf, np.where(pole, np.nan, total))


@_doubles
def zeta(s: Operand, q: Operand) -> Any:
    """Hurwitz's zeta function by the Euler-Maclaurin formula (DLMF 25.11.5), after 12 leading terms."""
    good = (s > 1) & (q > 0)
    s1, q1 = np.where(good, s, 2.0), np.where(good, q, 1.0)
    total = sum((q1 + k) ** -s1 for k in range(12))
    a = q1 + 12
    power = a**-s1
    total = total + power * a / (s1 - 1) + power / 2
    factor = s1 * power / a
    for k, b in enumerate(BERNOULLI, 1):
        total = total + b / math.factorial(2 * k) * factor
        factor = factor * (s1 + 2 * k - 1) * (s1 + 2 * k) / (a * a)
    total = np.where(np.isposinf(q1), 0.0, np.where(np.isposinf(s1), q1**-s1, total))
    at_pole = (q <= 0) & (q == np.floor(q))
    bad = np.where((s == 1) | ((s > 1) & at_pole), np.inf, np.nan)
    # At negative q, not an integer, and a whole s, shift q up to where the formula holds.
    out = np.where(good, total, bad)
    reflected = (s > 1) & (q < 0) & ~at_pole & (s == np.floor(s))
    if reflected.any():
        out[reflected] = _zeta_below(s[reflected], q[reflected])
    return out


def _zeta_below(s: Operand, q: Operand) -> Any:
    steps = np.ceil(-q)
    head = np.array([sum((b + k) ** -a for k in range(int(n))) for a, b, n in zip(s, q, steps, strict=True)])
    return head + zeta(s, q + steps)


def polygamma(m: Operand, x: Operand) -> Any:
    """(-1)^(m+1) m! zeta(m + 1, x) (DLMF 5.15.1, 25.11.12); digamma for m = 0, NaN for m not a whole number >= 0."""
    m, x = np.broadcast_arrays(m, x)
    order = m.astype(np.float64)
    sign = np.where(np.mod(order, 2) == 1, 1.0, -1.0)
    with np.errstate(all="ignore"):
        size = np.exp(lgamma(order + 1)) * zeta(order + 1, x.astype(np.float64))
        out = np.where(order == 0, digamma(x.astype(np.float64)), sign * size)
        return np.where((order >= 0) & (order == np.floor(order)), out, np.nan).astype(x.dtype)


@cached()
def bessel_coefficients(order: int, far: bool) -> tuple[float, ...]:
    """Chebyshev coefficients of exp(-x) I_n(x) on [0, 8], or of sqrt(x) exp(-x) I_n(x) in 16/x - 1 beyond.

    Interpolates the integral (1/pi) int_0^pi exp(x (cos t - 1)) cos(n t) dt (DLMF 10.32.3), for which the
    trapezoidal rule converges geometrically. For n = 1 the near part is divided by x, so that it is even.
    """
    angles = (np.arange(4096) + 0.5) * (math.pi / 4096)

    def scaled(x: float) -> float:
        return float(np.mean(np.exp(-2 * x * np.sin(angles / 2) ** 2) * np.cos(order * angles)))

    def near(t: float) -> float:
        x = 4 * (t + 1)
        return scaled(x) / x if order else scaled(x)

    def beyond(t: float) -> float:
        x = 16 / (t + 1)
        return math.sqrt(x) * scaled(x)

    points = 30
    nodes = np.cos((np.arange(points) + 0.5) * (math.pi / points))
    return tuple(np.polynomial.chebyshev.chebfit(nodes, [(beyond if far else near)(t) for t in nodes], points - 1))


def bessel_ie(order: int) -> Callable[..., Any]:
    """exp(-|x|) I_n(x) for n = 0 or 1."""

    @_doubles
    def function(x: Operand) -> Any:
        size = np.abs(x)
        near = np.polynomial.chebyshev.chebval(np.minimum(size, 8) / 4 - 1, bessel_coefficients(order, False))
        large = np.maximum(size, 8)
        far = np.polynomial.chebyshev.chebval(16 / large - 1, bessel_coefficients(order, True)) / np.sqrt(large)
        out = np.where(size <= 8, near * size if order else near, far)
        return np.copysign(out, x) if order else out

    return function
