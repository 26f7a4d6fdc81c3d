"""Sine and cosine of float32, computed in float64: x less a multiple of pi / 2, then the series.

Up to 2**40 two parts of pi / 2 are enough. Beyond, x is m 2**e with a whole m of 24 bits, and 2**e (2 / pi) modulo 4
is read of a table in three parts of 26 bits, so that its products with m are exact. `trigonometric_f64` has float64.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..llvm.builder import Builder, Value, vector
from . import trigonometric_f64
from .parts import INFINITY, NAN, bits_of, from_bits, magnitude, polynomial, rare
from .trigonometric_f64 import pi_to

_SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(1, 7))
_COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(1, 8))
_HALF_PI = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
_LARGE = 2.0**40


def _of(b: Builder, i: Value, r: Value) -> Value:
    """sin(r + i pi / 2) for |r| <= pi / 4."""
    z = r * r
    sine = b.fma(polynomial(b, z, _SIN) * z, r, r)
    cosine = b.fma(polynomial(b, z, _COS), z, 1.0)
    odd = b.compare("ne", b.binary("and", i, 1), 0)
    found = b.select(odd, cosine, sine)
    minus = b.compare("ne", b.binary("and", i, 2), 0)
    return b.select(minus, b.negative(found), found)


def _near(b: Builder, x: Value, shift: int) -> Value:
    """sin(x + shift pi / 2) for |x| up to `_LARGE`."""
    n = b.intrinsic("rint", x * (2 / math.pi))
    r = b.fma(n, -_HALF_PI[1], b.fma(n, -_HALF_PI[0], x))
    return _of(b, b.cast("fptosi", n, "i64") + shift, r)


def _two_over_pi() -> list[tuple[float, float, float]]:
    """2**e (2 / pi) modulo 4 for e = 0 .. 104, in three parts of 26 bits."""
    value = Fraction(2) / pi_to(260)
    found = []
    for e in range(105):
        rest = value * 2**e % 4
        parts = []
        for k in range(3):
            unit = Fraction(1, 2 ** (24 + 26 * k))
            part = rest // unit * unit
            rest -= part
            parts.append(float(part))
        found.append((parts[0], parts[1], parts[2]))
    return found


def _far(b: Builder, x: Value, shift: int) -> Value:
    """The same for a float32 of a magnitude from `_LARGE` on, as a double."""
    bits = bits_of(b, x)
    exponent = b.binary("and", b.binary("lshr", bits, 52), 2047) - (1023 + 23)
    e = b.select(b.compare("sgt", exponent, 104), 0, b.select(b.compare("slt", exponent, 0), 0, exponent))
    kept = b.binary("and", bits, (1 << 52) - 1 - (1 << 63))
    m = from_bits(b, b.binary("or", kept, (1023 + 23) << 52), x)
    table = b.table("two_over_pi", "double", [p for parts in _two_over_pi() for p in parts])
    turns: list[Value] = []
    for k in range(3):
        place = e * 3 + k
        if x.lanes:
            every = b.constant(True, vector("i1", x.lanes))
            part = b.gather(table, place, every, b.constant(0.0, x.type))
        else:
            part = b.load(b.offset(table, place, "double"), "double")
        turns.append(m * part)
    whole = [b.intrinsic("rint", t) for t in turns]
    parts = [t - n for t, n in zip(turns, whole, strict=True)]
    fraction = parts[0] + (parts[1] + parts[2])
    more = b.intrinsic("rint", fraction)
    rest = ((parts[0] - more) + parts[1]) + parts[2]
    # Whole numbers modulo 4 of up to 2**26; their sum is exact.
    n = (whole[0] + whole[1]) + (whole[2] + more)
    i = b.cast("fptosi", n - b.intrinsic("floor", n * 0.25) * 4.0, "i64")
    return _of(b, i + shift, rest * (math.pi / 2))


def _function(b: Builder, x: Value, shift: int) -> Value:
    wide = b.cast("fpext", x, "double")
    size = magnitude(b, wide)
    near = b.select(b.compare("olt", size, _LARGE), wide, 0.0)
    found = _near(b, near, shift)
    found = rare(b, b.compare("oge", size, _LARGE), found, lambda: _far(b, wide, shift))
    found = b.select(b.compare("ueq", size, INFINITY), NAN, found)
    if not shift:  # the sign of zeros
        found = b.select(b.compare("oeq", wide, 0.0), wide, found)
    return b.cast("fptrunc", found, "float")


def sine(b: Builder, x: Value) -> Value:
    return _function(b, x, 0) if x.scalar == "float" else trigonometric_f64.function(b, x, 0)


def cosine(b: Builder, x: Value) -> Value:
    return _function(b, x, 1) if x.scalar == "float" else trigonometric_f64.function(b, x, 1)
