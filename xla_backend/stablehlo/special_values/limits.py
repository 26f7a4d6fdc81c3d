"""Complex functions of what is not finite: C's values (Annex G), where XLA's functions have NaN instead.

A row says for which real and imaginary parts it is, and what the parts of the result are. The first that fits counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ....core.ir.primitive import Primitive
from ....core.ir.types import ArrayType, is_complex
from ....core.primitives.elementwise.arithmetic import (
    acos_p,
    acosh_p,
    asin_p,
    asinh_p,
    atan_p,
    atanh_p,
    cos_p,
    cosh_p,
    exp2_p,
    exp_p,
    expm1_p,
    log1p_p,
    log_p,
    sin_p,
    sinh_p,
    sqrt_p,
    tan_p,
    tanh_p,
)
from ....core.primitives.elementwise.builders import real_dtype
from ..emit import Emitter, Operand, Rule

KEPT = None  # a part as XLA's function gives it
X, Y = "x", "y"  # the operand's own real and imaginary part
INF, NAN = math.inf, math.nan

# What a part is: "0", finite, an infinity of either sign, NaN, not finite, anything.
Row = tuple[str, str, Any, Any]
_EXP: list[Row] = [("-inf", "odd", 0, 0), ("+inf", "odd", INF, NAN)]
_LOG: list[Row] = [("inf", "nan", INF, KEPT), ("nan", "inf", INF, KEPT)]
LIMITS: dict[Primitive, list[Row]] = {
    exp_p: _EXP, exp2_p: _EXP, expm1_p: [("-inf", "odd", -1, 0), ("+inf", "odd", INF, NAN)],
    log_p: _LOG, log1p_p: _LOG,
    sqrt_p: [("any", "inf", INF, Y), ("+inf", "nan", INF, NAN), ("-inf", "nan", NAN, INF)],
    cosh_p: [("0", "odd", NAN, 0), ("inf", "odd", INF, NAN)],
    sinh_p: [("0", "odd", X, NAN), ("inf", "odd", INF, NAN)],
    tanh_p: [("0", "odd", X, NAN)],
    cos_p: [("odd", "0", NAN, 0), ("odd", "inf", INF, NAN)],
    sin_p: [("odd", "0", NAN, Y), ("odd", "inf", NAN, INF)],
    tan_p: [("odd", "0", NAN, Y)],
    acos_p: [("0", "nan", math.pi / 2, NAN), ("finite", "nan", NAN, NAN)],
    acosh_p: [("0", "nan", NAN, math.pi / 2), ("finite", "nan", NAN, NAN)],
    asin_p: [("0", "nan", X, NAN), ("finite", "nan", NAN, NAN)],
    asinh_p: [("nan", "0", NAN, Y), ("nan", "finite", NAN, NAN)],
    atan_p: [("nan", "0", NAN, Y), ("nan", "any", NAN, KEPT), ("finite", "nan", NAN, NAN)],
    atanh_p: [("0", "nan", X, NAN), ("any", "nan", KEPT, NAN), ("nan", "finite", NAN, NAN)],
}  # fmt: skip


class _Parts:
    """The two parts of an operand and the predicates on them, each printed once."""

    def __init__(self, e: Emitter, operand: Operand, compare: Callable[..., Operand]):
        self.e, self.compare = e, compare
        self.type = ArrayType(operand.shape, real_dtype(operand.dtype))
        self.values = {X: e.op("stablehlo.real", [operand], self.type), Y: e.op("stablehlo.imag", [operand], self.type)}
        self.asked: dict[tuple[str, str], Operand] = {}

    def constant(self, value: float) -> Operand:
        return self.e.constant(value, self.type)

    def size(self, part: str) -> Operand:
        return self.e.op("stablehlo.abs", [self.values[part]], self.type)

    def fits(self, part: str, what: str) -> Operand:
        """Whether a part is what a row says."""
        if (part, what) not in self.asked:
            self.asked[part, what] = self._fits(part, what)
        return self.asked[part, what]

    def _fits(self, part: str, what: str) -> Operand:
        x = self.values[part]
        if what == "nan":
            return self.compare(self.e, "NE", x, x)
        if what == "0":
            return self.compare(self.e, "EQ", x, self.constant(0))
        if what in ("+inf", "-inf"):
            return self.compare(self.e, "EQ", x, self.constant(float(what)))
        if what == "inf":
            return self.compare(self.e, "EQ", self.size(part), self.constant(INF))
        finite = self.compare(self.e, "LT", self.size(part), self.constant(INF))
        return finite if what == "finite" else self.e.op("stablehlo.not", [finite], finite.type)

    def both(self, real: str, imag: str) -> Operand:
        """Whether both parts are what a row says."""
        asked = [self.fits(part, what) for part, what in ((X, real), (Y, imag)) if what != "any"]
        return asked[0] if len(asked) == 1 else self.e.op("stablehlo.and", asked, asked[0].type)

    def value(self, named: Any) -> Operand:
        return self.values[named] if named in (X, Y) else self.constant(named)


def with_limits(rule: Rule, rows: Sequence[Row], compare: Callable[..., Operand]) -> Rule:
    """A rule whose results of complex numbers have the values of some rows."""

    def limited(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
        found = rule(e, operands, out, **params)
        if not is_complex(out.dtype):
            return found
        parts = _Parts(e, operands[0], compare)
        results = [e.op(f"stablehlo.{part}", [found], parts.type) for part in ("real", "imag")]
        for real, imag, *values in reversed(rows):
            fits = parts.both(real, imag)
            results = [
                old if new is KEPT else e.op("stablehlo.select", [fits, parts.value(new), old], parts.type)
                for old, new in zip(results, values, strict=True)
            ]
        return e.op("stablehlo.complex", results, out)

    return limited
