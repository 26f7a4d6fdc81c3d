"""Functions that the vector unit lacks, of those it has: each a function of core primitives, in float32.

Sources: W. J. Cody and W. Waite's reductions for the inverse trigonometric and hyperbolic functions; W. H. Press and
others, Numerical Recipes, "Incomplete gamma function" (the rational Chebyshev form of erfc); M. Giles, "Approximating
the erfinv function" (2010); C. Lanczos, "A precision approximation of the gamma function" (1964), with the
coefficients for g = 7 and 9 terms; M. Abramowitz and I. Stegun, 6.3.18 (digamma) and 23.2 (Hurwitz zeta, summed by
Euler and Maclaurin).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.primitive import Primitive
from ...core.primitives.compare import and_p, or_p, select_n_p
from ...core.primitives.convert import bitcast_convert_type_p, convert_element_type
from ...core.primitives.elementwise import (
    abs_p,
    acos_p,
    acosh_p,
    asin_p,
    asinh_p,
    atan2_p,
    atan_p,
    atanh_p,
    cbrt_p,
    cosh_p,
    exp_p,
    expm1_p,
    floor_p,
    log1p_p,
    log_p,
    logistic_p,
    nextafter_p,
    pow_p,
    sign_p,
    sin_p,
    sinh_p,
    sqrt_p,
    tan_p,
    tanh_p,
)
from ...core.primitives.special import digamma_p, erf_inv_p, erfc_p, lgamma_p, polygamma_p, zeta_p
from ...core.rules import spread
from ...core.types import ArrayType
from ..body import Body, Rule
from ..values import Value

FLOAT32, INT32 = np.dtype(np.float32), np.dtype(np.int32)
LOG_2 = math.log(2)


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`; numbers are spread."""
    x, y = (v if hasattr(v, "shape") and v.shape == condition.shape else spread(np.float32(v), condition.shape)
            for v in (x, y))  # fmt: skip
    return select_n_p.bind(condition, y, x)


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule; the coefficient of the highest power first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


def _logistic(x: Any) -> Any:
    return 1.0 / (exp_p.bind(-x) + 1.0)


def _expm1(x: Any) -> Any:
    half = tanh_p.bind(x * 0.5)
    return where(abs_p.bind(x) < 0.5, 2.0 * half / (1.0 - half), exp_p.bind(x) - 1.0)


def _sinh(x: Any) -> Any:
    size = abs_p.bind(x)
    e = _expm1(x)
    large = exp_p.bind(size - LOG_2) - exp_p.bind(-size - LOG_2)
    return where(size < 1.0, (e + e / (e + 1.0)) * 0.5, sign_p.bind(x) * large)


def _cosh(x: Any) -> Any:
    size = abs_p.bind(x)
    return exp_p.bind(size - LOG_2) + exp_p.bind(-size - LOG_2)


def _atan(x: Any) -> Any:
    return atan2_p.bind(x, spread(np.float32(1), x.shape))


def _asin(x: Any) -> Any:
    return atan2_p.bind(x, sqrt_p.bind((1.0 - x) * (1.0 + x)))


def _acos(x: Any) -> Any:
    return atan2_p.bind(sqrt_p.bind((1.0 - x) * (1.0 + x)), x)


def _asinh(x: Any) -> Any:
    size = abs_p.bind(x)
    square = size * size
    small = log1p_p.bind(size + square / (1.0 + sqrt_p.bind(square + 1.0)))
    found = where(size > 1e8, log_p.bind(size) + LOG_2, small)
    return where(x == 0.0, x, sign_p.bind(x) * found)


def _acosh(x: Any) -> Any:
    past = x - 1.0
    return where(x > 1e8, log_p.bind(x) + LOG_2, log1p_p.bind(past + sqrt_p.bind(2.0 * past + past * past)))


def _atanh(x: Any) -> Any:
    return 0.5 * log1p_p.bind(2.0 * x / (1.0 - x))


def _cbrt(x: Any) -> Any:
    size = abs_p.bind(x)
    root = exp_p.bind(log_p.bind(size) * (1 / 3))
    root = root - (root - size / (root * root)) * (1 / 3)  # one step of Newton's method
    return where(or_p.bind(x == 0.0, size == math.inf), x, sign_p.bind(x) * root)


_ERFC = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
         -1.26551223)  # fmt: skip


def _erfc(x: Any) -> Any:
    z = abs_p.bind(x)
    t = 1.0 / (1.0 + 0.5 * z)
    found = t * exp_p.bind(polynomial(t, _ERFC) - z * z)
    return where(x >= 0.0, found, 2.0 - found)


_INNER = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
          -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_OUTER = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
          1.00167406, 2.83297682)  # fmt: skip


def _erf_inv(x: Any) -> Any:
    w = -log1p_p.bind(-x * x)
    near = w < 5.0
    inner = polynomial(where(near, w, 0.0) - 2.5, _INNER)
    outer = polynomial(sqrt_p.bind(where(near, 5.0, w)) - 3.0, _OUTER)
    return where(abs_p.bind(x) == 1.0, x * math.inf, where(near, inner, outer) * x)


# ---------------------------------------------------------------------------- gamma and its kin

_LANCZOS = (676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
            -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7)  # fmt: skip


def _lgamma(x: Any) -> Any:
    reflected = x < 0.5
    z = where(reflected, -x, x - 1.0)
    series: Any = 0.9999999999998099
    for i, c in enumerate(_LANCZOS):
        series = series + c / (z + (i + 1.0))
    t = z + 7.5
    log_t = math.log(7.5) + log1p_p.bind(z / 7.5)
    found = 0.5 * math.log(2 * math.pi) + (z + 0.5 - t / log_t) * log_t + log_p.bind(series)
    part = abs_p.bind(x) - floor_p.bind(abs_p.bind(x))
    part = where(part > 0.5, 1.0 - part, part)
    sine = log_p.bind(sin_p.bind(math.pi * part))
    mirrored = where(sine == -math.inf, math.inf, math.log(math.pi) - sine - found)
    return where(abs_p.bind(x) == math.inf, math.inf, where(reflected, mirrored, found))


def _digamma(x: Any) -> Any:
    reflected = x < 0.5
    y = where(reflected, 1.0 - x, x)
    total: Any = 0.0
    for k in range(8):
        total = total - 1.0 / (y + float(k))
    z = y + 8.0
    inverse = 1.0 / (z * z)
    tail = polynomial(inverse, (1 / 240, -1 / 252, 1 / 120, -1 / 12)) * inverse
    found = total + log_p.bind(z) - 0.5 / z + tail
    part = x - floor_p.bind(x)
    mirrored = where(part == 0.0, math.nan, found - math.pi / tan_p.bind(math.pi * part))
    found = where(x == math.inf, math.inf, where(reflected, mirrored, found))
    return where(x == 0.0, -math.inf / x * 0.0 + where(1.0 / x > 0.0, -math.inf, math.inf), found)


# (2j)! / B_2j, the even Bernoulli numbers, of Euler and Maclaurin's sum.
_BERNOULLI = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
              -2.950130727918164224e12, 1.1646782814350067249e14)  # fmt: skip


def _zeta(x: Any, q: Any) -> Any:
    total: Any = pow_p.bind(q, -x)
    at = q
    for _ in range(9):
        at = at + 1.0
        total = total + pow_p.bind(at, -x)
    last = pow_p.bind(at, -x)
    total = total + last * at / (x - 1.0) - 0.5 * last
    factor: Any = 1.0
    for j, b in enumerate(_BERNOULLI):
        k = 2.0 * j
        factor = factor * (x + k)
        last = last / at
        total = total + last * factor / b
        factor = factor * (x + (k + 1.0))
        last = last / at
    pole = and_p.bind(q <= 0.0, q == floor_p.bind(q))
    wrong = or_p.bind(x < 1.0, and_p.bind(q <= 0.0, x != floor_p.bind(x)))
    total = where(wrong, math.nan, where(pole, math.inf, total))
    return where(x == 1.0, math.inf, total)


def _polygamma(n: Any, x: Any) -> Any:
    n = n if n.shape == x.shape else spread(n, x.shape)
    sign = 1.0 - 2.0 * (n + 1.0 - 2.0 * floor_p.bind((n + 1.0) * 0.5))
    found = sign * exp_p.bind(_lgamma(n + 1.0)) * _zeta(n + 1.0, x)
    return where(n == 0.0, _digamma(x), found)


# ---------------------------------------------------------------------------- bits


def _next_after(x: Any, y: Any, unit: int) -> Any:
    """The neighbour of `x` towards `y`, where neighbours are `unit` apart as integers."""
    bits = bitcast_convert_type_p.bind(x, new_dtype=INT32)
    away = (y > x) == (x > 0.0)
    step = select_n_p.bind(away, spread(np.int32(-unit), x.shape), spread(np.int32(unit), x.shape))
    moved = bitcast_convert_type_p.bind(bits + step, new_dtype=FLOAT32)
    least = spread(np.asarray(unit, np.int32).view(np.float32), x.shape)
    tiny = where(y > 0.0, least, -least)
    found = where(x == y, y, where(x == 0.0, tiny, moved))
    return where(or_p.bind(x != x, y != y), math.nan, found)


def _nextafter(b: Body, xs: list[Value], out: ArrayType) -> Value:
    bits = {"float32": 0, "bfloat16": 16}.get(str(out.dtype), 13)
    return _wide(lambda x, y: _next_after(x, y, 1 << bits))(b, xs, out)


def _wide(function: Callable[..., Any]) -> Rule:
    """The rule of a function of float32 arrays of one shape, for any float dtype."""

    def rule(b: Body, xs: list[Value], out: ArrayType, **params: Any) -> Value:
        def wide(*args: Any) -> Any:
            args = tuple(convert_element_type(a, FLOAT32) for a in args)
            args = tuple(a if a.shape == out.shape else spread(a, out.shape) for a in args)
            return convert_element_type(function(*args), out.dtype)

        return b.traced(wide, xs)[0]

    return rule


RULES: dict[Primitive, Rule] = {
    logistic_p: _wide(_logistic), expm1_p: _wide(_expm1), sinh_p: _wide(_sinh), cosh_p: _wide(_cosh),
    atan_p: _wide(_atan), asin_p: _wide(_asin), acos_p: _wide(_acos), asinh_p: _wide(_asinh),
    acosh_p: _wide(_acosh), atanh_p: _wide(_atanh), cbrt_p: _wide(_cbrt), erfc_p: _wide(_erfc),
    erf_inv_p: _wide(_erf_inv), lgamma_p: _wide(_lgamma), digamma_p: _wide(_digamma), zeta_p: _wide(_zeta),
    polygamma_p: _wide(_polygamma), nextafter_p: _nextafter,
}  # fmt: skip
