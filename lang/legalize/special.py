"""Functions that a target lacks, made of those that every target has; computed in float32 at least.

Sources: W. J. Cody and W. Waite's reductions for the inverse trigonometric and hyperbolic functions; W. H. Press and
others, Numerical Recipes, "Incomplete gamma function" (the rational Chebyshev form of erfc); M. Giles, "Approximating
the erfinv function" (2010); C. Lanczos, "A precision approximation of the gamma function" (1964), with the
coefficients for g = 7 and 9 terms; DLMF (https://dlmf.nist.gov) by equation number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.ir.array import Array, Operand
from ...core.ir.primitive import Primitive
from ...core.primitives.control_flow.while_loop import while_loop
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise.bitwise import or_p
from ...core.primitives.elementwise.comparison import eq_p, gt_p, lt_p, ne_p
from ...core.primitives.reduction.reduce import reduce_or_p
from ...core.primitives.special.functions import digamma_p, erf_inv_p, erfc_p, lgamma_p, polygamma_p, zeta_p
from ...core.primitives.special.reference import BERNOULLI
from ...core.tracing.trace import shape_of
from ...core.transforms.rule_helpers import like
from ...core.transforms.structural_primitives import spread
from .floats import in_float32, polynomial, where

if TYPE_CHECKING:
    from ...core.support.pytree import PyTree

LOG_2 = math.log(2)


def _expm1(x: Array) -> Any:
    half = ew.tanh_p.bind(x * 0.5)
    return where(ew.abs_p.bind(x) < 0.5, 2.0 * half / (1.0 - half), ew.exp_p.bind(x) - 1.0)


def _sinh(x: Array) -> Any:
    size = ew.abs_p.bind(x)
    e = _expm1(x)
    large = ew.exp_p.bind(size - LOG_2) - ew.exp_p.bind(-size - LOG_2)
    return where(size < 1.0, (e + e / (e + 1.0)) * 0.5, ew.sign_p.bind(x) * large)


def _cosh(x: Operand) -> Any:
    size = ew.abs_p.bind(x)
    return ew.exp_p.bind(size - LOG_2) + ew.exp_p.bind(-size - LOG_2)


def _asinh(x: Array) -> Any:
    size = ew.abs_p.bind(x)
    square = size * size
    small = ew.log1p_p.bind(size + square / (1.0 + ew.sqrt_p.bind(square + 1.0)))
    found = where(size > 1e8, ew.log_p.bind(size) + LOG_2, small)
    return where(x == 0.0, x, ew.sign_p.bind(x) * found)


def _acosh(x: Array) -> Any:
    x = where(x < 1.0, math.nan, x)
    past = x - 1.0
    return where(x > 1e8, ew.log_p.bind(x) + LOG_2, ew.log1p_p.bind(past + ew.sqrt_p.bind(2.0 * past + past * past)))


def _cbrt(x: Array) -> Any:
    size = ew.abs_p.bind(x)
    root = ew.exp_p.bind(ew.log_p.bind(size) * (1 / 3))
    root = root - (root - size / (root * root)) * (1 / 3)  # one step of Newton's method
    return where(or_p.bind(x == 0.0, size == math.inf), x, ew.sign_p.bind(x) * root)


_ERFC = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
         -1.26551223)  # fmt: skip


def _erfc(x: Array) -> Any:
    z = ew.abs_p.bind(x)
    t = 1.0 / (1.0 + 0.5 * z)
    found = t * ew.exp_p.bind(polynomial(t, _ERFC) - z * z)
    return where(x >= 0.0, found, 2.0 - found)


_INNER = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
          -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_OUTER = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
          1.00167406, 2.83297682)  # fmt: skip


def _erf_inv(x: Operand) -> Any:
    w = -ew.log1p_p.bind(-x * x)
    near = w < 5.0
    inner = polynomial(where(near, w, 0.0) - 2.5, _INNER)
    outer = polynomial(ew.sqrt_p.bind(where(near, 5.0, w)) - 3.0, _OUTER)
    return where(ew.abs_p.bind(x) == 1.0, x * math.inf, where(near, inner, outer) * x)


# ---------------------------------------------------------------------------- gamma and its kin

_LANCZOS = (676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
            -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7)  # fmt: skip


def _lgamma(x: Array) -> Any:
    reflected = x < 0.5
    z = where(reflected, -x, x - 1.0)
    series: Any = 0.9999999999998099
    for i, c in enumerate(_LANCZOS):
        series = series + c / (z + (i + 1.0))
    t = z + 7.5
    log_t = math.log(7.5) + ew.log1p_p.bind(z / 7.5)
    found = 0.5 * math.log(2 * math.pi) + (z + 0.5 - t / log_t) * log_t + ew.log_p.bind(series)
    part = ew.abs_p.bind(x) - ew.floor_p.bind(ew.abs_p.bind(x))
    part = where(part > 0.5, 1.0 - part, part)
    sine = ew.log_p.bind(ew.sin_p.bind(math.pi * part))
    mirrored = where(sine == -math.inf, math.inf, math.log(math.pi) - sine - found)
    return where(ew.abs_p.bind(x) == math.inf, math.inf, where(reflected, mirrored, found))


def _digamma(x: Operand) -> Any:
    """Reflection (DLMF 5.5.4), recurrence (5.5.2) up to 10, and the asymptotic series (5.11.2)."""
    pole = (x <= 0) & eq_p.bind(x, ew.floor_p.bind(x))
    negative = lt_p.bind(x, like(x, 0.5))
    y = where(negative, 1.0 - x, x)
    total = x * 0.0
    y = where(lt_p.bind(y, like(y, math.inf)), y, 10.0)
    for _ in range(10):
        low = lt_p.bind(y, like(y, 10.0))
        total = where(low, total - 1.0 / y, total)
        y = where(low, y + 1.0, y)
    square = 1.0 / (y * y)
    series, power = ew.log_p.bind(y) - 0.5 / y, square
    for k, b in enumerate(BERNOULLI[:6], 1):
        series, power = series - power * (b / (2 * k)), power * square
    total = total + series
    reduced = where(negative, x - ew.round_p.bind(x, rounding_method=ew.RoundingMethod.TO_NEAREST_EVEN), 0.25)
    total = where(negative, total - math.pi / ew.tan_p.bind(reduced * math.pi), total)
    total = where(eq_p.bind(x, like(x, math.inf)), math.inf, total)
    total = where(pole | eq_p.bind(x, like(x, -math.inf)) | ne_p.bind(x, x), math.nan, total)
    return where(x == 0.0, -math.inf, total)


def _zeta(s: Array, q: Array) -> Any:
    """Hurwitz's zeta function by the Euler-Maclaurin formula (DLMF 25.11.5), after 10 leading terms.

    At negative q (not an integer) and whole s, terms are taken off until q is positive.
    """
    whole = eq_p.bind(s, ew.floor_p.bind(s))
    above = gt_p.bind(s, like(s, 1.0))
    at_pole = (q <= 0.0) & eq_p.bind(q, ew.floor_p.bind(q))
    below = above & lt_p.bind(q, like(q, 0.0)) & ~at_pole & whole
    good = above & gt_p.bind(q, like(q, 0.0))
    s1 = where(good | below, s, 2.0)
    start, head = where(below, q, 1.0), spread(like(s, 0.0), shape_of(s))

    def going(state: PyTree) -> Any:
        left = lt_p.bind(state[0], like(state[0], 0.0))
        return left if not shape_of(left) else reduce_or_p.bind(left, axes=tuple(range(len(shape_of(left)))))

    def step(state: PyTree) -> Any:
        at, total = state
        left = lt_p.bind(at, like(at, 0.0))
        return where(left, at + 1.0, at), where(left, total + ew.pow_p.bind(at, ew.neg_p.bind(s1)), total)

    at, head = while_loop(going, step, (start, head))
    q1 = where(good, q, at)
    total = head
    for k in range(10):
        total = total + ew.pow_p.bind(q1 + float(k), ew.neg_p.bind(s1))
    a = q1 + 10.0
    power = ew.pow_p.bind(a, ew.neg_p.bind(s1))
    total = total + power * a / (s1 - 1.0) + power * 0.5
    factor = s1 * power / a
    for k, b in enumerate(BERNOULLI[:6], 1):
        total = total + factor * (b / math.factorial(2 * k))
        factor = factor * (s1 + float(2 * k - 1)) * (s1 + float(2 * k)) / (a * a)
    total = where(eq_p.bind(s1, like(s1, math.inf)), head + ew.pow_p.bind(q1, ew.neg_p.bind(s1)), total)
    total = where(eq_p.bind(q1, like(q1, math.inf)), 0.0, total)
    infinite = eq_p.bind(s, like(s, 1.0)) | (above & at_pole)
    return where(good | below, total, where(infinite, spread(like(s, math.inf), shape_of(s)), math.nan))


def _polygamma(m: Array, x: Array) -> Any:
    """(-1)^(m+1) m! zeta(m + 1, x) (DLMF 5.15.1, 25.11.12); digamma for m = 0, NaN for m not a whole number >= 0."""
    half = m * 0.5
    odd = ne_p.bind(half, ew.floor_p.bind(half))
    size = ew.exp_p.bind(lgamma_p.bind(m + 1.0)) * _zeta(m + 1.0, x)
    out = where(eq_p.bind(m, like(m, 0.0)), _digamma(x), where(odd, size, ew.neg_p.bind(size)))
    whole = (m >= 0.0) & eq_p.bind(m, ew.ceil_p.bind(m))
    return where(whole, out, math.nan)


_FUNCTIONS: dict[Primitive, Callable[..., Any]] = {
    ew.logistic_p: lambda x: 1.0 / (1.0 + ew.exp_p.bind(-x)),
    ew.atan_p: lambda x: ew.atan2_p.bind(x, like(x, 1.0)),
    ew.asin_p: lambda x: ew.atan2_p.bind(x, ew.sqrt_p.bind((1.0 - x) * (1.0 + x))),
    ew.acos_p: lambda x: ew.atan2_p.bind(ew.sqrt_p.bind((1.0 - x) * (1.0 + x)), x),
    ew.atanh_p: lambda x: 0.5 * ew.log1p_p.bind(2.0 * x / (1.0 - x)),
    ew.expm1_p: _expm1, ew.sinh_p: _sinh, ew.cosh_p: _cosh, ew.asinh_p: _asinh, ew.acosh_p: _acosh, ew.cbrt_p: _cbrt,
    erfc_p: _erfc, erf_inv_p: _erf_inv, lgamma_p: _lgamma, digamma_p: _digamma, zeta_p: _zeta, polygamma_p: _polygamma,
}  # fmt: skip
REWRITES = {primitive: in_float32(function) for primitive, function in _FUNCTIONS.items()}
