"""exp, exp2 and expm1: the argument less a multiple of log 2, a polynomial, and a power of two."""

from __future__ import annotations

import math

from ..llvm.builder import Builder, Value
from .parts import Double, between, fast_two_sum, polynomial, rare, scaled, signed_as, two_sum

# (exp(r) - 1 - r) / r**2 for |r| <= log(2) / 2.
EXP = {
    "float": (0.5, 0.1666666716337204, 0.041666269302368164, 0.008333265781402588, 0.0013946116669103503,
              0.00019917871395591646),
    "double": tuple(1 / math.factorial(k) for k in range(2, 14)),
}  # fmt: skip
# (2**r - 1) / r for |r| <= 1 / 2.
_EXP2 = {
    "float": (0.6931471824645996, 0.24022650718688965, 0.05550410971045494, 0.009618036448955536,
              0.0013333430979400873, 0.0001546710991533473, 1.531494672235567e-05),
    "double": tuple(math.log(2) ** k / math.factorial(k) for k in range(1, 16)),
}  # fmt: skip
# log 2 in two parts; n times the first is exact.
LOG2 = {
    "float": (0.693145751953125, 1.42860682030941723212e-6),
    "double": (float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b39p-40")),
}
# Beyond these the result is 0 or infinite.
_ENDS = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
_ENDS_M1 = {"float": (-20.0, 87.0), "double": (-40.0, 700.0)}
_ENDS2 = {"float": (-151.0, 129.0), "double": (-1076.0, 1025.0)}


def _reduced(b: Builder, x: Value) -> tuple[Value, Value]:
    """n and r of x = n log 2 + r."""
    n = b.intrinsic("rint", x * (1 / math.log(2)))
    high, low = LOG2[x.scalar]
    return n, b.fma(n, -low, b.fma(n, -high, x))


def exp(b: Builder, x: Value) -> Value:
    x = between(b, x, *_ENDS[x.scalar])
    n, r = _reduced(b, x)
    return scaled(b, b.fma(polynomial(b, r, EXP[x.scalar]), r * r, r) + 1.0, n)


def exp2(b: Builder, x: Value) -> Value:
    x = between(b, x, *_ENDS2[x.scalar])
    n = b.intrinsic("rint", x)
    r = x - n
    return scaled(b, b.fma(polynomial(b, r, _EXP2[x.scalar]), r, 1.0), n)


def _reduced_parts(b: Builder, x: Value, rest: Value | None = None) -> tuple[Value, Value, Value]:
    """n and r of x + rest = n log 2 + r, and what r lacks."""
    n = b.intrinsic("rint", x * (1 / math.log(2)))
    far, near = LOG2[x.scalar]
    more = b.fma(n, -far, x)
    r = b.fma(n, -near, more)
    lost = b.fma(n, -near, more - r)
    return (n, r, lost) if rest is None else (n, *fast_two_sum(b, r, rest + lost))


def mantissa(b: Builder, x: Value, rest: Value | None = None) -> tuple[Value, Value, Value]:
    """n, and exp(x + rest) / 2**n as a sum of two numbers, to three bits more than one has."""
    n, r, lost = _reduced_parts(b, x, rest)
    high, low = fast_two_sum(b, 1.0, r)
    return n, high, b.fma(r * r, polynomial(b, r, EXP[x.scalar]), low + b.fma(r, lost, lost))


def expm1_parts(b: Builder, x: Value) -> Double:
    """exp(x) - 1 as a sum of two numbers, where exp(x) is a normal number: 2**n - 1 + 2**n (r + r**2 / 2 + ...)."""
    n, r, lost = _reduced_parts(b, x)
    power = scaled(b, b.constant(1.0, x.type), n)
    whole, less = two_sum(b, power, b.constant(-1.0, x.type))
    half = r * 0.5
    square = half * r
    lost = lost + b.fma(half, r, b.negative(square))
    high, low = fast_two_sum(b, r, square)
    lost = low + b.fma(r * square, polynomial(b, r, [2 * c for c in EXP[x.scalar][1:]]), lost)
    high, low = fast_two_sum(b, whole, power * high)
    return high, b.fma(power, lost, low + less)


def expm1(b: Builder, x: Value) -> Value:
    """Beyond exponents of normal numbers exp itself."""
    low, high = _ENDS_M1[x.scalar]
    found = signed_as(b, b.binary("add", *expm1_parts(b, between(b, x, low, high))), x)  # of zeros
    return rare(b, b.compare("ogt", x, high), found, lambda: exp(b, x))
