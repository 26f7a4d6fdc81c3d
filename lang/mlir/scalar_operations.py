"""Scalar operations of MLIR's dialects arith and math, by primitive and kind of number; every printer reads them."""

from __future__ import annotations

from typing import NamedTuple

from ...core.ir.array import DTypeLike
from ...core.ir.primitive import Primitive
from ...core.ir.types import is_bool, is_float, is_unsigned
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.special.functions import erf_p
from ..ops.machine_integers import bits_down_p, bits_up_p, quotient_p, remainder_p, sign_down_p


class Operation(NamedTuple):
    """The names of an operation on floats, signed and unsigned integers and booleans; "" where there is none."""

    floats: str = ""
    signed: str = ""
    unsigned: str = ""
    booleans: str = ""

    def name(self, dtype: DTypeLike) -> str:
        """The name for operands of a dtype."""
        if is_float(dtype):
            return self.floats
        return self.booleans if is_bool(dtype) else self.unsigned if is_unsigned(dtype) else self.signed


def _row(floats: str, signed: str, unsigned: str = "", booleans: str = "") -> Operation:
    names = floats, signed, unsigned or signed, booleans
    return Operation(*(name and f"arith.{name}" for name in names))


BINARY: dict[Primitive, Operation] = {
    ew.add_p: _row("addf", "addi", booleans="ori"), ew.add_any_p: _row("addf", "addi", booleans="ori"),
    ew.sub_p: _row("subf", "subi"), ew.mul_p: _row("mulf", "muli", booleans="andi"),
    ew.div_p: _row("divf", ""), ew.rem_p: _row("remf", ""),  # of integers: quotient_p, remainder_p
    ew.max_p: _row("maximumf", "maxsi", "maxui", "ori"), ew.min_p: _row("minimumf", "minsi", "minui", "andi"),
    bitwise.and_p: _row("", "andi", booleans="andi"), bitwise.or_p: _row("", "ori", booleans="ori"),
    bitwise.xor_p: _row("", "xori", booleans="xori"),
    quotient_p: _row("", "divsi", "divui"), remainder_p: _row("", "remsi", "remui"),
    bits_up_p: _row("", "shli"), bits_down_p: _row("", "shrui"), sign_down_p: _row("", "shrsi"),
}  # fmt: skip
# Functions of floats; `neg` and `abs` of integers are composed of others.
FUNCTIONS: dict[Primitive, str] = {
    ew.neg_p: "arith.negf", ew.abs_p: "math.absf", ew.floor_p: "math.floor", ew.ceil_p: "math.ceil",
    ew.sqrt_p: "math.sqrt", ew.rsqrt_p: "math.rsqrt", ew.exp_p: "math.exp", ew.exp2_p: "math.exp2",
    ew.expm1_p: "math.expm1", ew.log_p: "math.log", ew.log1p_p: "math.log1p", ew.sin_p: "math.sin",
    ew.cos_p: "math.cos", ew.tan_p: "math.tan", ew.tanh_p: "math.tanh", ew.atan2_p: "math.atan2", erf_p: "math.erf",
}  # fmt: skip
COMPARISONS = {cmp.eq_p: "eq", cmp.ne_p: "ne", cmp.lt_p: "lt", cmp.le_p: "le", cmp.gt_p: "gt", cmp.ge_p: "ge"}


def comparison(how: str, dtype: DTypeLike) -> str:
    """The operation and predicate of a comparison (`how`: lt le gt ge eq ne) of numbers of a dtype."""
    if is_float(dtype):
        return f"arith.cmpf {'une' if how == 'ne' else 'o' + how},"
    sign = "" if how in ("eq", "ne") else "u" if is_unsigned(dtype) or is_bool(dtype) else "s"
    return f"arith.cmpi {sign}{how},"
