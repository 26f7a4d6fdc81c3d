"""log, log1p and pow: the exponent and the mantissa apart, a polynomial of the mantissa's distance from 1."""

from __future__ import annotations

import math

from ..llvm.builder import Builder, Value
from .exponential import exp2
from .parts import INFINITY, MANTISSA, NAN, bits_of, from_bits, horner, magnitude, widened

# (log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2).
_LOG = (0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.1666799634695053, 0.14219550788402557,
        -0.12405591458082199, 0.11888174712657928, -0.11675640940666199, 0.06746601313352585)  # fmt: skip
# log(1 + f) = 2 artanh(s), s = f / (2 + f): the powers of s**2.
_ARTANH = tuple(2 / (2 * k + 1) for k in range(1, 12))
_ROOT = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)
_LEAST = {"float": 2.0**-126, "double": 2.0**-1022}
_LOG2 = {
    "float": (0.693359375, -2.12194440e-4),
    "double": (float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b39p-40")),
}


def _parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """k and f of x = 2**k (1 + f), of a positive number."""
    scalar = x.scalar
    tiny = b.compare("olt", x, _LEAST[scalar])
    bits = bits_of(b, b.select(tiny, x * 2.0 ** (MANTISSA[scalar] + 2), x))
    k = b.binary("ashr", bits - _ROOT[scalar], MANTISSA[scalar])
    f = from_bits(b, bits - b.binary("shl", k, MANTISSA[scalar]), x) - 1.0
    number = b.cast("sitofp", k, scalar)
    return b.select(tiny, number - float(MANTISSA[scalar] + 2), number), f


def _special(b: Builder, x: Value, found: Value) -> Value:
    """The logarithm at 0, below it, and at infinity and NaN."""
    found = b.select(b.compare("oeq", x, 0.0), -INFINITY, found)
    found = b.select(b.compare("ult", x, 0.0), NAN, found)
    return b.select(b.compare("oeq", x, INFINITY), INFINITY, found)


def _near(b: Builder, f: Value, k: Value, rest: float | Value = 0.0) -> Value:
    """k log 2 + log(1 + f) + rest."""
    high, low = _LOG2[f.scalar]
    half = f * f * 0.5
    if f.scalar == "float":
        y = b.fma(k, low, f * f * f * horner(b, f, _LOG))
        return b.fma(k, high, f - half + y)
    s = f / (f + 2.0)
    z = s * s
    y = s * b.fma(z, horner(b, z, _ARTANH), half)
    return b.fma(k, high, f - (half - (y + b.fma(k, low, rest))))


def log(b: Builder, x: Value) -> Value:
    k, f = _parts(b, x)
    return _special(b, x, _near(b, f, k))


def _log1p(b: Builder, x: Value) -> Value:
    """The logarithm of 1 + x rounded, with what the rounding took."""
    u = x + 1.0
    lost = b.select(b.compare("oge", x, 1.0), 1.0 - (u - x), x - (u - 1.0))
    k, f = _parts(b, u)
    found = _special(b, u, _near(b, f, k, lost / u))
    return b.select(b.compare("olt", magnitude(b, x), 2.0**-54), x, found)


def log1p(b: Builder, x: Value) -> Value:
    return widened(b, _log1p, x) if x.scalar == "float" else _log1p(b, x)


def power(b: Builder, x: Value, y: Value) -> Value:
    """x ** y of float32, by the logarithm and the power of two of float64, which leave 20 bits more than are wanted."""

    def wide(b: Builder, x: Value, y: Value) -> Value:
        size = magnitude(b, x)
        # 2 ** t overflows float32 from |t| = 150 on; the bound keeps infinity times 0 out.
        found = exp2(b, log(b, size) * (1 / math.log(2)) * y)
        whole = b.compare("oeq", b.intrinsic("trunc", y), y)
        half = y * 0.5
        odd = b.binary("and", whole, b.compare("une", b.intrinsic("trunc", half), half))
        negative = b.compare("slt", bits_of(b, x), 0)
        found = b.select(b.binary("and", odd, negative), b.negative(found), found)
        below = b.binary("and", b.compare("olt", x, 0.0), b.compare("une", size, INFINITY))
        found = b.select(b.binary("and", below, b.binary("xor", whole, True)), NAN, found)
        one = b.binary("or", b.compare("oeq", y, 0.0), b.compare("oeq", x, 1.0))
        same = b.binary("and", b.compare("oeq", x, -1.0), b.compare("oeq", magnitude(b, y), INFINITY))
        return b.select(b.binary("or", one, same), 1.0, found)

    return widened(b, wide, x, y)
