"""Hurwitz's zeta function and polygamma at poles and at infinity, where XLA's are NaN, or infinite for no reason."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....core.ir.types import ArrayType
from ..emit import Emitter, Operand, Rule


class _At:
    """The predicates on operands of one type."""

    def __init__(self, e: Emitter, out: ArrayType, compare: Callable[..., Operand]):
        self.e, self.out, self.compare = e, ArrayType(out.shape, out.dtype), compare

    def op(self, name: str, *operands: Operand) -> Operand:
        return self.e.op(f"stablehlo.{name}", operands, self.out)

    def value(self, x: Operand | float) -> Operand:
        return x if isinstance(x, Operand) else self.e.constant(x, self.out)

    def is_(self, x: Operand, direction: str, y: Operand | float) -> Operand:
        return self.compare(self.e, direction, x, self.value(y))

    def both(self, a: Operand, b: Operand) -> Operand:
        return self.e.op("stablehlo.and", [a, b], a.type)

    def where(self, fits: Operand, *values: Operand | float) -> Operand:
        return self.op("select", fits, *map(self.value, values))

    def pole(self, x: Operand) -> Operand:
        return self.both(self.is_(x, "LE", 0.0), self.is_(x, "EQ", self.op("floor", x)))


def zeta(rule: Rule, compare: Callable[..., Operand]) -> Rule:
    """Infinite at poles, NaN there for s below 1; q ** -s where s is infinite, which is what is left of the sum."""

    def limited(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
        at = _At(e, out, compare)
        s, q = (e.broadcast(x, out.shape) for x in operands)
        at_pole = at.where(at.is_(s, "GE", 1.0), math.inf, math.nan)
        found = at.where(at.pole(q), at_pole, rule(e, [s, q], out))
        found = at.where(at.both(at.is_(s, "GT", 1.0), at.is_(q, "EQ", math.inf)), 0.0, found)
        first = at.op("power", at.op("maximum", q, e.constant(0.0, at.out)), at.op("negate", s))
        return at.where(at.is_(s, "EQ", math.inf), first, found)

    return limited


def polygamma(rule: Rule, compare: Callable[..., Operand]) -> Rule:
    """Of orders above 0: at poles the limit from above, which is negative for even orders, and 0 at infinity."""

    def limited(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
        at = _At(e, out, compare)
        m, x = (e.broadcast(x, out.shape) for x in operands)
        half = at.op("multiply", m, e.constant(0.5, at.out))
        at_pole = at.where(at.is_(half, "EQ", at.op("floor", half)), -math.inf, math.inf)
        above = at.both(at.is_(m, "GT", 0.0), at.both(at.is_(m, "LT", math.inf), at.is_(m, "EQ", at.op("floor", m))))
        found = at.where(at.both(above, at.is_(x, "EQ", math.inf)), 0.0, rule(e, [m, x], out))
        return at.where(at.both(above, at.pole(x)), at_pole, found)

    return limited
