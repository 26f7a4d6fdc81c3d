"""Sine and cosine of float64: x less a multiple of pi / 2 as a sum of two numbers, then the series.

Up to 2**30 the multiple is subtracted in three parts, the first of them exactly, the others with two numbers of result.
Beyond, x is m 2**s 2**(24 q) with a whole m, and 2**(24 q) (2 / pi) modulo 4 is read of a table in seven parts of 26
bits. Their products with each half of m are exact, and are summed in three numbers, since they may cancel to 2**-62.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..llvm.builder import Builder, Value, vector
from .parts import INFINITY, NAN, bits_of, from_bits, magnitude, polynomial, power_of_two, rare, two_sum

_SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9))
_COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(2, 10))
_LARGE = 2.0**30
_STEP, _PARTS = 24, 7  # bits from one entry of the table to the next; parts of an entry


def pi_to(bits: int) -> Fraction:
    """Pi by Machin's formula."""

    def arctan(n: int) -> Fraction:
        total, k = Fraction(0), 0
        while (2 * k + 1) * n ** (2 * k + 1) < 2**bits:
            total += Fraction((-1) ** k, (2 * k + 1) * n ** (2 * k + 1))
            k += 1
        return total

    return 16 * arctan(5) - 4 * arctan(239)


def _halves_of_pi() -> tuple[float, float, float]:
    """Pi / 2 as a sum of three doubles."""
    rest, found = pi_to(200) / 2, []
    for _ in range(3):
        found.append(float(rest))
        rest -= Fraction(found[-1])
    return found[0], found[1], found[2]


_HALF_PI = _halves_of_pi()


def _two_over_pi() -> list[float]:
    """2**(24 q) (2 / pi) modulo 4 for the exponents of doubles, each in parts of 26 bits."""
    value = 2 / pi_to(1300)
    found = []
    for q in range(971 // _STEP + 1):
        rest = value * 2 ** (_STEP * q) % 4
        for k in range(_PARTS):
            unit = Fraction(1, 2 ** (24 + 26 * k))
            part = rest // unit * unit
            rest -= part
            found.append(float(part))
    return found


def _of(b: Builder, i: Value, r: Value, rest: Value) -> Value:
    """sin(r + rest + i pi / 2) for |r| <= pi / 4 and a `rest` below its last place."""
    z = r * r
    sine = r + b.fma(polynomial(b, z, _SIN) * z, r, b.fma(z * -0.5, rest, rest))
    half = z * 0.5
    one = 1.0 - half
    cosine = one + (((1.0 - one) - half) + b.fma(z * z, polynomial(b, z, _COS), b.negative(r * rest)))
    found = b.select(b.compare("ne", b.binary("and", i, 1), 0), cosine, sine)
    return b.select(b.compare("ne", b.binary("and", i, 2), 0), b.negative(found), found)


def _near(b: Builder, x: Value, shift: int) -> Value:
    """sin(x + shift pi / 2) for |x| up to `_LARGE`."""
    n = b.intrinsic("rint", x * (2 / math.pi))
    first = b.fma(n, -_HALF_PI[0], x)
    product = n * -_HALF_PI[1]
    r, rest = two_sum(b, first, product)
    rest = rest + b.fma(n, -_HALF_PI[2], b.fma(n, -_HALF_PI[1], b.negative(product)))
    r, rest = two_sum(b, r, rest)
    return _of(b, b.cast("fptosi", n, "i64") + shift, r, rest)


def _modulo_4(b: Builder, n: Value) -> Value:
    return n - b.intrinsic("floor", n * 0.25) * 4.0


def _table_part(b: Builder, table: Value, place: Value, like: Value) -> Value:
    if not like.lanes:
        return b.load(b.offset(table, place, "double"), "double")
    every = b.constant(True, vector("i1", like.lanes))
    return b.gather(table, place, every, b.constant(0.0, like.type))


def _far(b: Builder, x: Value, shift: int) -> Value:
    """The same for a finite x of a magnitude from `_LARGE` on."""
    bits = bits_of(b, x)
    exponent = b.binary("and", b.binary("lshr", bits, 52), 2047) - (1023 + 52)
    e = b.select(b.compare("sgt", exponent, 971), 0, b.select(b.compare("slt", exponent, -22), 0, exponent))
    q = b.select(b.compare("sgt", e, 0), b.binary("lshr", e * 2731, 16), 0)  # e // 24 up to 971
    scale = power_of_two(b, e - q * _STEP, x)
    m = from_bits(b, b.binary("or", b.binary("and", bits, (1 << 52) - 1 - (1 << 63)), (1023 + 52) << 52), x)
    high = from_bits(b, b.binary("and", bits_of(b, m), -(1 << 27)), x)
    halves = (high * scale, (m - high) * scale)
    table = b.table("two_over_pi_wide", "double", _two_over_pi())
    zero = b.constant(0.0, x.type)
    turns, total, low, lowest = zero, zero, zero, zero
    for k in range(_PARTS):
        part = _table_part(b, table, q * _PARTS + k, x)
        for half in halves:
            t = part * half
            whole = b.intrinsic("rint", t)
            turns = turns + _modulo_4(b, whole)
            total, lost = two_sum(b, total, t - whole)
            low, lost = two_sum(b, low, lost)
            lowest = lowest + lost
    whole = b.intrinsic("rint", total)
    total, lost = two_sum(b, total - whole, low)
    total, rest = two_sum(b, total, lost + lowest)
    r = total * _HALF_PI[0]
    rest = b.fma(total, _HALF_PI[0], b.negative(r)) + b.fma(total, _HALF_PI[1], rest * _HALF_PI[0])
    return _of(b, b.cast("fptosi", _modulo_4(b, turns + whole), "i64") + shift, r, rest)


def function(b: Builder, x: Value, shift: int) -> Value:
    """sin(x + shift pi / 2)."""
    size = magnitude(b, x)
    found = _near(b, b.select(b.compare("olt", size, _LARGE), x, 0.0), shift)
    found = rare(b, b.compare("oge", size, _LARGE), found, lambda: _far(b, x, shift))
    found = b.select(b.compare("ueq", size, INFINITY), NAN, found)
    return found if shift else b.select(b.compare("oeq", x, 0.0), x, found)  # the sign of zeros
