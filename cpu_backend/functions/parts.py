"""What the functions are made of: polynomials, powers of two, bits, and cases that few lanes need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..llvm.builder import Builder, Value, with_scalar

INTEGER = {"float": "i32", "double": "i64"}
MANTISSA = {"float": 23, "double": 52}
BIAS = {"float": 127, "double": 1023}
INFINITY, NAN = float("inf"), float("nan")


def horner(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with coefficients of rising powers."""
    found: Any = b.constant(coefficients[-1], x.type)
    for c in reversed(coefficients[:-1]):
        found = b.fma(found, x, c)
    return found


def bits_of(b: Builder, x: Value) -> Value:
    return _bitcast(b, x, with_scalar(x.type, INTEGER[x.scalar]))


def from_bits(b: Builder, x: Value, like: Value) -> Value:
    return _bitcast(b, x, like.type)


def _bitcast(b: Builder, x: Value, type_: str) -> Value:
    return b.value(type_, f"bitcast {x.type} {x.text} to {type_}")


def integer(b: Builder, x: Value) -> Value:
    """A float that is a whole number as an integer of its width; it must be in range."""
    return b.cast("fptosi", x, INTEGER[x.scalar])


def power_of_two(b: Builder, n: Value, like: Value) -> Value:
    """2 ** n for an integer n of the exponents of normal numbers."""
    return from_bits(b, b.binary("shl", n + BIAS[like.scalar], MANTISSA[like.scalar]), like)


def scaled(b: Builder, x: Value, n: Value) -> Value:
    """x * 2 ** n for a float n that is a whole number, of at most twice the exponents of normal numbers."""
    if "avx512f" in b.features and x.type in ("<16 x float>", "<8 x double>"):
        name, mask = ("ps", "i16") if x.lanes == 16 else ("pd", "i8")
        call = f"llvm.x86.avx512.mask.scalef.{name}.512"
        b.declare(call, x.type, x.type, x.type, x.type, mask, "i32")
        return b.value(x.type, f"call {x.type} @{call}({x.type} {x.text}, {x.type} {n.text}, "
                               f"{x.type} zeroinitializer, {mask} -1, i32 4)")  # fmt: skip
    whole = integer(b, n)
    half = b.binary("ashr", whole, 1)
    return x * power_of_two(b, half, x) * power_of_two(b, whole - half, x)


def between(b: Builder, x: Value, low: float, high: float) -> Value:
    """x brought between two bounds; NaN stays."""
    x = b.select(b.compare("olt", x, low), low, x)
    return b.select(b.compare("ogt", x, high), high, x)


def magnitude(b: Builder, x: Value) -> Value:
    return b.intrinsic("fabs", x)


def signed_as(b: Builder, x: Value, sign: Value) -> Value:
    return b.intrinsic("copysign", x, sign)


def widened(b: Builder, function: Callable[..., Value], *operands: Value) -> Value:
    """A function computed in double and rounded."""
    return b.cast("fptrunc", function(b, *(b.cast("fpext", x, "double") for x in operands)), "float")


def rare(b: Builder, where: Value, found: Value, other: Callable[[], Value]) -> Value:
    """`other()` in the lanes where a condition holds; it is computed only if it does in some."""
    some = b.call(f"llvm.vector.reduce.or.v{where.lanes}i1", "i1", where) if where.lanes else where
    before, inside, after = b.block, b.label(), b.label()
    b.branch(some, inside, after)
    b.start(inside)
    changed = b.select(where, other(), found)
    last = b.block
    b.jump(after)
    b.start(after)
    return b.value(found.type, f"phi {found.type} [{found.text}, %{before}], [{changed.text}, %{last}]")
