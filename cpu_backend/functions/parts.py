"""What the functions are made of: polynomials, powers of two, bits, and cases that few lanes need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..llvm.builder import Builder, Value, with_scalar

Double = tuple[Value, Value]  # a number and what it lacks
INTEGER = {"float": "i32", "double": "i64"}
MANTISSA = {"float": 23, "double": 52}
BIAS = {"float": 127, "double": 1023}
INFINITY, NAN = float("inf"), float("nan")
HORNER = 6  # coefficients from which on the latency of a chain of multiply-adds bounds a loop


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with coefficients of rising powers: by Horner; long ones beyond the first by pairs (Estrin)."""
    first, *others = (b.constant(c, x.type) for c in coefficients)
    return b.fma(x, _paired(b, x, others), first) if others else first


def _paired(b: Builder, x: Value, terms: list[Value]) -> Value:
    if len(terms) >= HORNER:
        pairs = [b.fma(x, odd, even) for even, odd in zip(terms[::2], terms[1::2], strict=False)]
        return _paired(b, x * x, pairs + terms[2 * len(pairs) :])
    found = terms.pop()
    while terms:
        found = b.fma(found, x, terms.pop())
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


def _avx512(b: Builder, name: str, *operands: Value, rounding: bool = False) -> Value | None:
    """An instruction of AVX-512 on full vectors, or on halves that are full; None for others and other processors."""
    type_, lanes = operands[0].type, operands[0].lanes
    full = {"float": 16, "double": 8}[operands[0].scalar]
    if "avx512f" not in b.features or lanes not in (full, 2 * full):
        return None
    if lanes > full:
        halves = [[b.shuffle(x, x, range(k, k + full)) for x in operands] for k in (0, full)]
        low, high = (_avx512(b, name, *half, rounding=rounding) for half in halves)
        return low and high and b.shuffle(low, high, range(lanes))
    kind, mask = ("ps", "i16") if lanes == 16 else ("pd", "i8")
    more = ((mask, "-1"), ("i32", "4")) if rounding else ((mask, "-1"),)
    call = f"llvm.x86.avx512.{name}.{kind}.512"
    b.declare(call, type_, type_, *[type_] * len(operands), *(t for t, _ in more))
    given = ", ".join([*(f"{type_} {x.text}" for x in operands), f"{type_} zeroinitializer",
                       *(f"{t} {text}" for t, text in more)])  # fmt: skip
    return b.value(type_, f"call {type_} @{call}({given})")


def scaled(b: Builder, x: Value, n: Value) -> Value:
    """x * 2 ** n for a float n that is a whole number, of at most twice the exponents of normal numbers."""
    found = _avx512(b, "mask.scalef", x, n, rounding=True)
    if found is not None:
        return found
    whole = integer(b, n)
    half = b.binary("ashr", whole, 1)
    return x * power_of_two(b, half, x) * power_of_two(b, whole - half, x)


def reciprocal(b: Builder, x: Value) -> Value:
    """1 / x to half of the digits at least, of a normal number."""
    found = _avx512(b, "rcp14", x)
    if found is None:
        return 1.0 / x
    return found if x.scalar == "float" else b.fma(b.fma(b.negative(x), found, 1.0), found, found)


def inverse_root(b: Builder, x: Value) -> Value:
    """1 / sqrt(x) to half of the digits at least; right at 0, infinity and below 0."""
    found = _avx512(b, "rsqrt14", x)
    if found is None:
        return 1.0 / b.intrinsic("sqrt", x)
    if x.scalar == "float":
        return found
    rest = b.fma(x * found, b.negative(found), 1.0)
    return b.select(b.compare("ord", rest, rest), b.fma(found * 0.5, rest, found), found)


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


def fast_two_sum(b: Builder, x: Value | float, y: Value) -> Double:
    """x + y of an x that is 0 or at least as large as y, and what the rounding took."""
    total = y + x
    return total, y - (total - x)


def two_sum(b: Builder, x: Value, y: Value | float) -> Double:
    """x + y, and what the rounding took."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def quotient(b: Builder, x: Double, y: Double) -> Value:
    """x / y of two sums, rounded once but for what their second parts lack."""
    inverse = reciprocal(b, y[0])
    found = x[0] * inverse
    rest = b.fma(b.negative(found), y[0], x[0]) + b.fma(b.negative(found), y[1], x[1])
    return b.fma(rest, inverse, found)


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
