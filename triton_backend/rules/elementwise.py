"""Elementwise operations: one instruction where there is one, else a function of libdevice or of ROCm's library.

Floats of less than 32 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn
from ...core.ir.types import ArrayType, is_bool, is_float, is_unsigned
from ...core.primitives.custom.checkpoint import name_p
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.elementwise import conversion as conv
from ...core.primitives.elementwise.arithmetic import RoundingMethod
from ...core.primitives.movement.shape import copy_p
from ...core.primitives.special.functions import erf_inv_p, erf_p, erfc_p, lgamma_p
from ...lang.mlir.scalar_operations import BINARY, COMPARISONS, FUNCTIONS, Operation
from ...lang.ops.scaled_exp2 import scaled_exp2_p
from ..builders import bitcast, common, compare, convert, lanes, plus, regroup, select, spread, wide
from ..text import Value

if TYPE_CHECKING:
    from ..lower import Lowering

Rule = Callable[..., Any]


def constant_like(e: Lowering, value: Any, x: Value) -> Value:
    return e.p.constant(value, x.dtype, x.shape)


def in_float32(compute: Callable[..., Value]) -> Rule:
    """A rule on floats of at least 32 bits, for operands of any float dtype."""

    def rule(e: Lowering, operands: Sequence[Value], out: ArrayType, **params: Any) -> Value:
        xs = [wide(e.p, spread(e.p, x, out.shape)) for x in operands]
        return convert(e.p, compute(e, *xs, **params), out.dtype)

    return rule


def extern(name: str) -> Callable[..., Value]:
    """A call of the device's mathematical library."""

    def compute(e: Lowering, *xs: Value) -> Value:
        single = xs[0].dtype.itemsize == 4
        if e.target.kind == "rocm":
            symbol = f"__ocml_{name}_f{32 if single else 64}"
        else:
            symbol = f"__nv_{name}{'f' if single else ''}"
        types = ", ".join(x.type for x in xs)
        return e.p.op(
            f"tt.extern_elementwise {', '.join(x.name for x in xs)} "
            f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}} : ({types}) -> {xs[0].type}',
            xs[0].shape, xs[0].dtype)  # fmt: skip

    return compute


def instruction(name: str) -> Callable[..., Value]:
    return lambda e, *xs: e.p.same(name, *xs)


EXP2 = "ex2.approx.ftz.f32 $0, $1;"
TWO_EXP2 = (
    "{ .reg .b64 x0, x1, x2, x3; .reg .f32 a, b; mov.b64 x1, {$2, $3}; mov.b64 x2, {$4, $5}; mov.b64 x3, {$6, $7}; "
    "fma.rn.f32x2 x0, x1, x2, x3; mov.b64 {a, b}, x0; ex2.approx.ftz.f32 $0, a; ex2.approx.ftz.f32 $1, b; }"
)


def _scaled_exp2(e: Lowering, x: Value, scale: Value, shift: Value) -> Value:
    """A multiply-add, of two numbers at once where Blackwell has it, and a power of two.

    Denormal results are zero, so that NVIDIA's instruction needs no scaling.
    """
    if e.target.kind != "cuda" or x.dtype.itemsize != 4:
        return e.p.same("math.exp2", e.p.same("math.fma", x, scale, shift))
    if e.target.name.startswith("cuda:sm_100"):
        return _instructions(e, TWO_EXP2, 2, x, scale, shift)
    return _instructions(e, EXP2, 1, e.p.same("math.fma", x, scale, shift))


def _instructions(e: Lowering, ptx: str, pack: int, *xs: Value) -> Value:
    """PTX that makes one float32 of one of each operand, `pack` at a time."""
    constraints = ",".join(["=f"] * pack + ["f"] * pack * len(xs))
    names, types = (", ".join(parts) for parts in zip(*((x.name, x.type) for x in xs), strict=True))
    text = (f'tt.elementwise_inline_asm "{ptx}" {{constraints = "{constraints}", packed_element = {pack} : i32, '
            f"pure = true}} {names} : {types} -> {xs[0].type}")  # fmt: skip
    return e.p.op(text, xs[0].shape, xs[0].dtype)


# ---------------------------------------------------------------------------- arithmetic


def _arithmetic(operation: Operation) -> Rule:
    """A binary operation of each kind of number; booleans are unsigned."""

    def rule(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
        xs = [spread(e.p, x, out.shape) for x in operands]
        if is_float(out.dtype):
            return convert(e.p, e.p.same(operation.floats, *(wide(e.p, x) for x in xs)), out.dtype)
        return e.p.same(operation.unsigned if is_bool(out.dtype) else operation.name(out.dtype), *xs)

    return rule


def _add(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    return plus(e.p, *(spread(e.p, x, out.shape) for x in operands))


def _minus(e: Lowering, x: Value) -> Value:
    """`-x` with the sign of zeros; Triton has no conversion of arith.negf."""
    return e.p.same("arith.mulf", x, constant_like(e, -1.0, x))


def _neg(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    (x,) = operands
    if is_float(out.dtype):
        return convert(e.p, _minus(e, wide(e.p, x)), out.dtype)
    return e.p.same("arith.subi", constant_like(e, 0, x), x)


def _abs(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    (x,) = operands
    if is_float(out.dtype):
        return convert(e.p, e.p.same("math.absf", wide(e.p, x)), out.dtype)
    if is_unsigned(out.dtype):
        return x
    negative = compare(e.p, "lt", x, e.p.constant(0, x.dtype))
    return select(e.p, negative, _neg(e, operands, out), x)


def _sign(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    p, (x,) = e.p, operands
    zero = p.constant(0, x.dtype)
    found = select(p, compare(p, "gt", x, zero), p.constant(1, x.dtype), x)
    if is_unsigned(out.dtype):
        return found
    return select(p, compare(p, "lt", x, zero), p.constant(-1, x.dtype), found)


def _square(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    return RULES[ew.mul_p](e, [operands[0], operands[0]], out)


def _mulhi(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    return e.p.same("tt.mulhiui", *(spread(e.p, x, out.shape) for x in operands))


def _pow(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    p = e.p
    x, y = (spread(p, v, out.shape) for v in operands)
    base = wide(p, x)
    return convert(p, extern("pow")(e, base, convert(p, y, base.dtype)), out.dtype)


# ---------------------------------------------------------------------------- functions of floats


def _round(e: Lowering, x: Value, rounding_method: int) -> Value:
    name = "rint" if rounding_method == RoundingMethod.TO_NEAREST_EVEN else "round"
    return extern(name)(e, x)


def _is_finite(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    size = e.p.same("math.absf", wide(e.p, operands[0]))
    return compare(e.p, "lt", size, e.p.constant(math.inf, size.dtype))


# ---------------------------------------------------------------------------- comparison, selection, bits


def _compare(how: str) -> Rule:
    def rule(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
        return compare(e.p, how, *(spread(e.p, x, out.shape) for x in operands))

    return rule


def _select_n(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    p, (which, *cases) = e.p, operands
    found = spread(p, cases[0], out.shape)
    for i, case in enumerate(cases[1:], 1):
        chosen = which if is_bool(which.dtype) else compare(p, "ge", which, p.constant(i, which.dtype))
        found = select(p, chosen, case, found)
    return found


def _clamp(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    low, x, high = operands
    return RULES[ew.min_p](e, [RULES[ew.max_p](e, [x, low], out), high], out)


def _not(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    (x,) = operands
    ones = True if is_bool(x.dtype) else np.array(-1).astype(x.dtype)
    return e.p.same("arith.xori", x, constant_like(e, ones, x))


# ---------------------------------------------------------------------------- conversion


def _convert(e: Lowering, operands: Sequence[Value], out: ArrayType, **params: Any) -> Value:
    return convert(e.p, operands[0], out.dtype)


def _identity(e: Lowering, operands: Sequence[Value], out: ArrayType, **params: Any) -> Value:
    return Value(operands[0].name, out.shape, operands[0].dtype)


def _bitcast(e: Lowering, operands: Sequence[Value], out: ArrayType, new_dtype: np.dtype[Any]) -> Value:
    """The bits of elements, joined along or split into a last axis where the widths differ."""
    p, (x,) = e.p, operands
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old == new:
        return bitcast(p, x, new_dtype)
    wider, narrower = (np.dtype(f"uint{8 * max(old, new)}"), np.dtype(f"uint{8 * min(old, new)}"))
    shape = out.shape if old > new else x.shape
    where = convert(p, lanes(p, shape[-1], len(shape) - 1, len(shape)), wider)
    amount = p.same("arith.muli", where, constant_like(e, 8 * min(old, new), where))
    if old > new:
        parts = regroup(p, bitcast(p, x, wider), (*x.shape, 1))
        parts, amount = (spread(p, v, shape) for v in (parts, amount))
        return bitcast(p, convert(p, p.same("arith.shrui", parts, amount), narrower), new_dtype)
    parts, amount = common(p, convert(p, bitcast(p, x, narrower), wider), amount)
    moved = p.same("arith.shli", parts, amount)
    (found,) = p.combine(
        "tt.reduce", [moved], out.shape, f"axis = {len(shape) - 1} : i32", lambda a, b: [p.same("arith.ori", a, b)]
    )
    return bitcast(p, found, new_dtype)


# Functions of the mathematical library; the names are libdevice's and ROCm's.
LIBRARY = {
    ew.sin_p: "sin", ew.cos_p: "cos", ew.tan_p: "tan", ew.asin_p: "asin", ew.acos_p: "acos", ew.atan_p: "atan",
    ew.sinh_p: "sinh", ew.cosh_p: "cosh", ew.tanh_p: "tanh", ew.asinh_p: "asinh", ew.acosh_p: "acosh",
    ew.atanh_p: "atanh", ew.expm1_p: "expm1", ew.log_p: "log", ew.log1p_p: "log1p", ew.cbrt_p: "cbrt", erfc_p: "erfc",
    erf_inv_p: "erfinv", lgamma_p: "lgamma", ew.atan2_p: "atan2", ew.rem_p: "fmod",
}  # fmt: skip
MATH = (ew.exp_p, ew.exp2_p, ew.sqrt_p, ew.rsqrt_p, ew.floor_p, ew.ceil_p, erf_p)

RULES: dict[Primitive, Rule] = {
    **{primitive: _arithmetic(operation) for primitive, operation in BINARY.items()},
    **{primitive: in_float32(extern(symbol)) for primitive, symbol in LIBRARY.items()},
    **{primitive: in_float32(instruction(FUNCTIONS[primitive])) for primitive in MATH},
    scaled_exp2_p: in_float32(_scaled_exp2),
    **{primitive: _compare(how) for primitive, how in COMPARISONS.items()},
    ew.add_p: _add, ew.add_any_p: _add, ew.mulhi_p: _mulhi, ew.neg_p: _neg, ew.abs_p: _abs, ew.sign_p: _sign,
    ew.square_p: _square, ew.pow_p: _pow, ew.round_p: in_float32(_round), cmp.is_finite_p: _is_finite,
    cmp.select_n_p: _select_n, cmp.clamp_p: _clamp, bitwise.not_p: _not,
    conv.convert_element_type_p: _convert, conv.bitcast_convert_type_p: _bitcast,
    conv.stop_gradient_p: _identity, copy_p: _identity, name_p: _identity,
}  # fmt: skip


def narrow_or_signed(eqn: Eqn) -> Callable[..., Any] | None:
    """The expansion of `mulhi` where Triton has no instruction: `tt.mulhiui` takes unsigned words of 32 and 64 bits."""
    dtype = eqn.outputs[0].type.dtype
    return None if is_unsigned(dtype) and dtype.itemsize >= 4 else ew.mulhi_p.expand
