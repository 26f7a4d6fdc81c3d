"""tanh, the logistic function, erf, and 1 / sqrt(x)."""

from __future__ import annotations

from ..llvm.builder import Builder, Value
from .exponential import exp, expm1_parts, mantissa
from .parts import between, fast_two_sum, inverse_root, magnitude, polynomial, quotient, scaled, signed_as

# (tanh(x) - x) / x**3 in x**2, for |x| <= 0.6.
_TANH = (-0.3333333134651184, 0.13333247601985931, -0.053952474147081375, 0.021734438836574554, -0.008267087861895561,
         0.002231060992926359)  # fmt: skip
# erf(x) / x - 1 in x**2, for |x| <= 0.95, and of float64 for |x| <= 1.26.
_ERF = {"float": (0.12837916612625122, -0.37612631916999817, 0.11283672600984573, -0.026858104392886162,
        0.00519779697060585, -0.0008105965098366141, 8.215423440560699e-05),
        "double": (0.1283791670955126, -0.3761263890318372, 0.11283791670953883, -0.026866170644932134,
        0.0052239776237763685, -0.0008548326939900906, 0.00012055330263564175, -1.4925590217461544e-05,
        1.6461184375403558e-06, -1.635566730408704e-07, 1.4728438067732502e-08, -1.1866263987117795e-09,
        7.886246956265099e-11, -3.2102803452969226e-12)}  # fmt: skip
# log(1 - erf(x)) in x - 1, for 0.92 <= x <= 4 and 0.82 <= x <= 6.
_ERFC = {"float": (-1.8496055603027344, -2.638967514038086, -0.843107283115387, -0.04156208410859108,
         0.010042724199593067, -0.0020072830375283957, 0.0002867969451472163, -2.109496927005239e-05),
         "double": (-1.8496055099332482, -2.6389675142347913, -0.8431072563584848, -0.04156109804650942,
         0.010033825434226788,
         -0.0019779030216421504, 0.00023732471148844468, 2.627037056376085e-05, -2.714115251574993e-05,
         9.577520437462433e-06, -2.019027118181416e-06, 1.0313237082296676e-07, 1.2680469959247122e-07,
         -6.826833330256928e-08, 2.1638295002820365e-08, -4.910034782094188e-09, 8.105707255970035e-10,
         -9.303304325411377e-11, 6.642560323553212e-12, -2.2173541849657014e-13)}  # fmt: skip
_LOST = -1.2227869373512146e-17  # by the first of these of float64
_ERF_ENDS = {"float": (0.93, 4.0), "double": (0.84, 6.0)}  # of the first polynomial, and of the second


def tanh(b: Builder, x: Value) -> Value:
    size = magnitude(b, x)
    if x.scalar == "float":
        z = x * x
        small = b.fma(polynomial(b, z, _TANH) * z, x, x)
        large = 1.0 - 2.0 / (exp(b, size * 2.0) + 1.0)
        return signed_as(b, b.select(b.compare("olt", size, 0.6), small, large), x)
    # -m / (2 + m) of m = exp(-2 |x|) - 1.
    power = fast_two_sum(b, *expm1_parts(b, b.select(b.compare("ogt", size, 20.0), -40.0, size * -2.0)))
    below, lost = fast_two_sum(b, 2.0, power[0])
    return signed_as(b, quotient(b, power, (below, lost + power[1])), x)


def logistic(b: Builder, x: Value) -> Value:
    """e**x / (1 + e**x) below 0 and 1 / (1 + e**-x) above, where the power is at most 1."""
    size = b.negative(magnitude(b, x))
    if x.scalar == "float":
        e, rest = exp(b, size), b.constant(0.0, x.type)
    else:
        n, high, low = mantissa(b, between(b, size, -746.0, 0.0))
        e, rest = (scaled(b, part, n) for part in fast_two_sum(b, high, low))
    whole, lost = fast_two_sum(b, 1.0, e)
    below = b.compare("olt", x, 0.0)
    return quotient(b, (b.select(below, e, 1.0), b.select(below, rest, 0.0)), (whole, lost + rest))


def erf(b: Builder, x: Value) -> Value:
    size, (end, last) = magnitude(b, x), _ERF_ENDS[x.scalar]
    z = x * x
    first, *others = _ERF[x.scalar]
    slope = polynomial(b, z, others)
    ratio = b.fma(z, slope, first)
    if x.scalar == "double":  # what the square lost, along the chord
        ratio = b.fma(b.fma(x, x, b.negative(z)), slope, ratio)
    small = b.fma(ratio, x, x)
    capped = b.select(b.compare("ogt", size, last), last, size)
    first, *others = _ERFC[x.scalar]
    slope = polynomial(b, capped - 1.0, others)
    power = b.fma(capped - 1.0, slope, first)
    rest = exp(b, power)
    if x.scalar == "double":
        rest = b.fma(rest, b.fma(capped - 1.0, slope, first - power) + _LOST, rest)
    large = signed_as(b, 1.0 - rest, x)
    return b.select(b.compare("olt", size, end), small, large)


def rsqrt(b: Builder, x: Value) -> Value:
    """With half of what x times its square lacks of 1 added; at 0 and infinity that is NaN."""
    found = inverse_root(b, x)
    root = x * found
    rest = b.fma(b.negative(root), found, 1.0) - b.fma(x, found, b.negative(root)) * found
    return b.select(b.compare("ord", rest, rest), b.fma(found * 0.5, rest, found), found)
