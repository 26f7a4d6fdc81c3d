"""log and log1p: the exponent and the mantissa apart, a polynomial of the mantissa's distance from 1."""

from __future__ import annotations

from ..llvm.builder import Builder, Value
from .exponential import LOG2
from .parts import INFINITY, MANTISSA, NAN, bits_of, from_bits, magnitude, polynomial, widened

# (log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2).
_LOG = (0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.1666799634695053, 0.14219550788402557,
        -0.12405591458082199, 0.11888174712657928, -0.11675640940666199, 0.06746601313352585)  # fmt: skip
# log(1 + f) = 2 artanh(s), s = f / (2 + f): the powers of s**2.
_ARTANH = tuple(2 / (2 * k + 1) for k in range(1, 12))
_ROOT = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)
_LEAST = {"float": 2.0**-126, "double": 2.0**-1022}
_LOG2 = {"float": (0.693359375, -2.12194440e-4), "double": LOG2["double"]}


def parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """k and f of x = 2**k (1 + f), of a positive number."""
    scalar = x.scalar
    tiny = b.compare("olt", x, _LEAST[scalar])
    bits = bits_of(b, b.select(tiny, x * 2.0 ** (MANTISSA[scalar] + 2), x))
    k = b.binary("ashr", bits - _ROOT[scalar], MANTISSA[scalar])
    f = from_bits(b, bits - b.binary("shl", k, MANTISSA[scalar]), x) - 1.0
    number = b.cast("sitofp", k, scalar)
    return b.select(tiny, number - float(MANTISSA[scalar] + 2), number), f


def special(b: Builder, x: Value, found: Value) -> Value:
    """The logarithm at 0, below it, and at infinity and NaN."""
    found = b.select(b.compare("oeq", x, 0.0), -INFINITY, found)
    found = b.select(b.compare("ult", x, 0.0), NAN, found)
    return b.select(b.compare("oeq", x, INFINITY), INFINITY, found)


def _near(b: Builder, f: Value, k: Value, rest: float | Value = 0.0) -> Value:
    """k log 2 + log(1 + f) + rest."""
    high, low = _LOG2[f.scalar]
    half = f * f * 0.5
    if f.scalar == "float":
        y = b.fma(k, low, f * f * f * polynomial(b, f, _LOG))
        return b.fma(k, high, f - half + y)
    s = f / (f + 2.0)
    z = s * s
    y = s * b.fma(z, polynomial(b, z, _ARTANH), half)
    return b.fma(k, high, f - (half - (y + b.fma(k, low, rest))))


def log(b: Builder, x: Value) -> Value:
    k, f = parts(b, x)
    return special(b, x, _near(b, f, k))


def _log1p(b: Builder, x: Value) -> Value:
    """The logarithm of 1 + x rounded, with what the rounding took."""
    u = x + 1.0
    lost = b.select(b.compare("oge", x, 1.0), 1.0 - (u - x), x - (u - 1.0))
    k, f = parts(b, u)
    found = special(b, u, _near(b, f, k, lost / u))
    return b.select(b.compare("olt", magnitude(b, x), 2.0**-54), x, found)


def log1p(b: Builder, x: Value) -> Value:
    return widened(b, _log1p, x) if x.scalar == "float" else _log1p(b, x)
