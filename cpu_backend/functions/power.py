"""x ** y; of float64 by the logarithm as a sum of two numbers, to 67 bits, times y, and its exponential.

    x = 2**k (1 + f),  log(1 + f) = 2 artanh(s),  s = f / (2 + f)

The first terms of the series are summed in two numbers, those from s**9 on in one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..llvm.builder import Builder, Value
from .exponential import LOG2, exp2, mantissa
from .logarithm import log, parts, special
from .parts import INFINITY, NAN, Double, between, bits_of, fast_two_sum, magnitude, polynomial, scaled, widened

_ARTANH = tuple(2 / (2 * k + 1) for k in range(4, 14))  # the powers of s**2 from s**9 on
_FIRST = tuple((1 / n * 2, float.fromhex(low)) for n, low in (
    (7, "0x1.2492492492492p-56"), (5, "-0x1.999999999999ap-56"), (3, "0x1.5555555555555p-55")))  # fmt: skip
_FAR = 800.0  # from here on the power is 0 or infinite


def _product(b: Builder, x: Double, y: Double) -> Double:
    high = x[0] * y[0]
    return high, b.fma(x[0], y[0], b.negative(high)) + b.fma(x[0], y[1], x[1] * y[0])


def _logarithm(b: Builder, x: Value) -> Double:
    """log(x) of a positive number."""
    k, f = parts(b, x)
    whole = f + 2.0
    s = f / whole
    rest = (b.fma(b.negative(s), whole, f) - s * (f - (whole - 2.0))) / whole
    square = _product(b, (s, rest), (s, rest))
    series: Double = square[0] * polynomial(b, square[0], _ARTANH), b.constant(0.0, x.type)
    for high, low in _FIRST:
        total = fast_two_sum(b, high, series[0])
        series = _product(b, square, (total[0], total[1] + (series[1] + low)))
    more = _product(b, (s, rest), series)
    high, low = fast_two_sum(b, s * 2.0, more[0])
    low = b.fma(rest, 2.0, low + more[1])
    far, near = LOG2["double"]
    found, lost = fast_two_sum(b, k * far, high)
    return found, b.fma(k, near, lost + low)


def _exponential(b: Builder, x: Value, rest: Value) -> Value:
    """exp(x + rest)."""
    n, high, low = mantissa(b, x, rest)
    return scaled(b, high + low, n)


def _of_size(b: Builder, size: Value, y: Value) -> Value:
    """size ** y of a number that is not negative; NaN for 0 times infinity in the exponent."""
    found, lost = _logarithm(b, size)
    found = special(b, size, found)
    total = found * y
    inside = b.compare("olt", magnitude(b, total), _FAR)
    rest = b.fma(found, y, b.negative(total)) + lost * y
    return _exponential(b, between(b, total, -_FAR, _FAR), b.select(inside, rest, 0.0))


def _signed(b: Builder, x: Value, y: Value, of_size: Callable[[Builder, Value, Value], Value]) -> Value:
    """x ** y from the power of what |x| is."""
    size = magnitude(b, x)
    found = of_size(b, size, y)
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


def power(b: Builder, x: Value, y: Value) -> Value:
    """x ** y; of float32 by the logarithm and the power of two of float64, which leave 20 bits more than are wanted."""
    if x.scalar == "double":
        return _signed(b, x, y, _of_size)
    # 2 ** t overflows float32 from |t| = 150 on; the bound keeps infinity times 0 out.
    simple = lambda b, size, y: exp2(b, log(b, size) * (1 / math.log(2)) * y)  # noqa: E731
    return widened(b, lambda b, x, y: _signed(b, x, y, simple), x, y)
