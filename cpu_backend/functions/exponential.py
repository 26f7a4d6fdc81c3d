"""exp, exp2 and expm1: the argument less a multiple of log 2, a polynomial, and a power of two."""

from __future__ import annotations

import math

from ..llvm.builder import Builder, Value
from .parts import between, horner, magnitude, rare, scaled

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
_ENDS2 = {"float": (-151.0, 129.0), "double": (-1076.0, 1025.0)}


def _reduced(b: Builder, x: Value) -> tuple[Value, Value]:
    """n and r of x = n log 2 + r."""
    n = b.intrinsic("rint", x * (1 / math.log(2)))
    high, low = LOG2[x.scalar]
    return n, b.fma(n, -low, b.fma(n, -high, x))


def exp(b: Builder, x: Value) -> Value:
    x = between(b, x, *_ENDS[x.scalar])
    n, r = _reduced(b, x)
    return scaled(b, b.fma(horner(b, r, EXP[x.scalar]), r * r, r) + 1.0, n)


def exp2(b: Builder, x: Value) -> Value:
    x = between(b, x, *_ENDS2[x.scalar])
    n = b.intrinsic("rint", x)
    r = x - n
    return scaled(b, b.fma(horner(b, r, _EXP2[x.scalar]), r, 1.0), n)


def expm1(b: Builder, x: Value) -> Value:
    """2**n (1 + r + r**2 p) - 1, the whole part first; beyond exponents of normal numbers exp itself."""
    if x.scalar == "float":
        return b.cast("fptrunc", expm1(b, b.cast("fpext", x, "double")), "float")
    near = between(b, x, -40.0, 700.0)
    n, r = _reduced(b, near)
    p = horner(b, r, EXP["double"]) * r * r
    one = b.splat(b.constant(1.0, "double"), x.lanes)
    power = scaled(b, one, n)
    found = b.fma(power, p, b.fma(power, r, power - 1.0))
    found = b.select(b.compare("oeq", n, 0.0), r + p, found)
    # So small that the square is lost: x itself, with its sign where it is 0.
    found = b.select(b.compare("olt", magnitude(b, x), 1e-17), x, found)
    return rare(b, b.compare("ogt", x, 700.0), found, lambda: exp(b, x))
