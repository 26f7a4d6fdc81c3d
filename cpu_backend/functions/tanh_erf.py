"""tanh, the logistic function, erf, and 1 / sqrt(x)."""

from __future__ import annotations

from ..llvm.builder import Builder, Value
from .exponential import exp, expm1
from .parts import horner, magnitude, signed_as

# (tanh(x) - x) / x**3 in x**2, for |x| <= 0.6.
_TANH = (-0.3333333134651184, 0.13333247601985931, -0.053952474147081375, 0.021734438836574554, -0.008267087861895561,
         0.002231060992926359)  # fmt: skip
# erf(x) / x - 1 in x**2, for |x| <= 0.95.
_ERF = (0.12837916612625122, -0.37612631916999817, 0.11283672600984573, -0.026858104392886162, 0.00519779697060585,
        -0.0008105965098366141, 8.215423440560699e-05)  # fmt: skip
# log(1 - erf(x)) in x - 1, for 0.92 <= x <= 4.
_ERFC = (-1.8496055603027344, -2.638967514038086, -0.843107283115387, -0.04156208410859108, 0.010042724199593067,
         -0.0020072830375283957, 0.0002867969451472163, -2.109496927005239e-05)  # fmt: skip


def tanh(b: Builder, x: Value) -> Value:
    size = magnitude(b, x)
    if x.scalar == "float":
        z = x * x
        small = b.fma(horner(b, z, _TANH) * z, x, x)
        large = 1.0 - 2.0 / (exp(b, size * 2.0) + 1.0)
        return signed_as(b, b.select(b.compare("olt", size, 0.6), small, large), x)
    t = expm1(b, size * 2.0)
    found = b.select(b.compare("olt", size, 0.55), t / (t + 2.0), 1.0 - 2.0 / (t + 2.0))
    return signed_as(b, found, x)


def logistic(b: Builder, x: Value) -> Value:
    """e**x / (1 + e**x) below 0 and 1 / (1 + e**-x) above, where the power is at most 1."""
    e = exp(b, b.negative(magnitude(b, x)))
    whole = e + 1.0
    inverse = 1.0 / whole
    lost = e - (whole - 1.0)  # by the sum
    inverse = b.fma(b.negative(inverse) * inverse, lost, inverse)
    return b.select(b.compare("olt", x, 0.0), e * inverse, inverse)


def erf(b: Builder, x: Value) -> Value:
    size = magnitude(b, x)
    z = x * x
    small = b.fma(horner(b, z, _ERF), x, x)
    capped = b.select(b.compare("ogt", size, 4.0), 4.0, size)
    large = signed_as(b, 1.0 - exp(b, horner(b, capped - 1.0, _ERFC)), x)
    return b.select(b.compare("olt", size, 0.93), small, large)


def rsqrt(b: Builder, x: Value) -> Value:
    return 1.0 / b.intrinsic("sqrt", x)
