"""Elementwise operations: one instruction where there is one, else a function of libdevice or of ROCm's library.

Floats of less than 32 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_bool, is_float, is_unsigned
from ...core.primitives.custom.checkpoint import name_p
from ...core.primitives.elementwise.arithmetic import (
    RoundingMethod,
    abs_p,
    acos_p,
    acosh_p,
    add_any_p,
    add_p,
    asin_p,
    asinh_p,
    atan2_p,
    atan_p,
    atanh_p,
    cbrt_p,
    ceil_p,
    cos_p,
    cosh_p,
    div_p,
    exp2_p,
    exp_p,
    expm1_p,
    floor_p,
    log1p_p,
    log_p,
    max_p,
    min_p,
    mul_p,
    mulhi_p,
    neg_p,
    nextafter_p,
    pow_p,
    rem_p,
    round_p,
    rsqrt_p,
    sign_p,
    sin_p,
    sinh_p,
    sqrt_p,
    square_p,
    sub_p,
    tan_p,
    tanh_p,
)
from ...core.primitives.elementwise.comparison import (
    and_p,
    clamp_p,
    clz_p,
    eq_p,
    ge_p,
    gt_p,
    is_finite_p,
    le_p,
    lt_p,
    ne_p,
    not_p,
    or_p,
    population_count_p,
    select_n_p,
    xor_p,
)
from ...core.primitives.elementwise.conversion import (
    bitcast_convert_type_p,
    convert_element_type_p,
    reduce_precision_p,
    stop_gradient_p,
)
from ...core.primitives.movement.shape import copy_p
from ...core.primitives.special.functions import erf_inv_p, erf_p, erfc_p, lgamma_p
from ...lang.ops.machine_integers import bits_down_p, bits_up_p, quotient_p, remainder_p, sign_down_p
from ..text import Value
from ..values import bitcast, common, compare, convert, lanes, plus, regroup, select, spread, wide

Rule = Callable[..., Any]
COMPARISONS = {eq_p: "eq", ne_p: "ne", lt_p: "lt", le_p: "le", gt_p: "gt", ge_p: "ge"}


def constant_like(e: Any, value: Any, x: Value) -> Value:
    return e.p.constant(value, x.dtype, x.shape)


def in_float32(compute: Callable[..., Value]) -> Rule:
    """A rule on floats of at least 32 bits, for operands of any float dtype."""

    def rule(e: Any, operands: Sequence[Value], out: ArrayType, **params: Any) -> Value:
        xs = [wide(e.p, spread(e.p, x, out.shape)) for x in operands]
        return convert(e.p, compute(e, *xs, **params), out.dtype)

    return rule


def extern(name: str) -> Callable[..., Value]:
    """A call of the device's mathematical library."""

    def compute(e: Any, *xs: Value) -> Value:
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


# ---------------------------------------------------------------------------- arithmetic


def arithmetic(of_floats: str, of_signed: str, of_unsigned: str | None = None) -> Rule:
    """A binary operation of each kind of number."""

    def rule(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
        xs = [spread(e.p, x, out.shape) for x in operands]
        if is_float(out.dtype):
            return convert(e.p, e.p.same(of_floats, *(wide(e.p, x) for x in xs)), out.dtype)
        unsigned = is_unsigned(out.dtype) or is_bool(out.dtype)
        return e.p.same((of_unsigned or of_signed) if unsigned else of_signed, *xs)

    return rule


def _add(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    return plus(e.p, *(spread(e.p, x, out.shape) for x in operands))


def _minus(e: Any, x: Value) -> Value:
    """`-x` with the sign of zeros; Triton has no conversion of arith.negf."""
    return e.p.same("arith.mulf", x, constant_like(e, -1.0, x))


def _neg(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    (x,) = operands
    if is_float(out.dtype):
        return convert(e.p, _minus(e, wide(e.p, x)), out.dtype)
    return e.p.same("arith.subi", constant_like(e, 0, x), x)


def _abs(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    (x,) = operands
    if is_float(out.dtype):
        return convert(e.p, e.p.same("math.absf", wide(e.p, x)), out.dtype)
    if is_unsigned(out.dtype):
        return x
    negative = compare(e.p, "lt", x, e.p.constant(0, x.dtype))
    return select(e.p, negative, _neg(e, operands, out), x)


def _sign(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    p, (x,) = e.p, operands
    zero = p.constant(0, x.dtype)
    found = select(p, compare(p, "gt", x, zero), p.constant(1, x.dtype), x)
    if is_unsigned(out.dtype):
        return found
    return select(p, compare(p, "lt", x, zero), p.constant(-1, x.dtype), found)


def _square(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    return RULES[mul_p](e, [operands[0], operands[0]], out)


def _mulhi(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    p, bits = e.p, 8 * out.dtype.itemsize
    x, y = (spread(p, v, out.shape) for v in operands)
    if bits < 32:
        wider = np.dtype("uint32" if is_unsigned(out.dtype) else "int32")
        whole = p.same("arith.muli", convert(p, x, wider), convert(p, y, wider))
        shift = "arith.shrui" if is_unsigned(out.dtype) else "arith.shrsi"
        return convert(p, p.same(shift, whole, constant_like(e, bits, whole)), out.dtype)
    found = p.same("tt.mulhiui", x, y)
    if is_unsigned(out.dtype):
        return found
    zero = constant_like(e, 0, x)
    for a, b in ((x, y), (y, x)):  # a negative number counts 2 ** bits too many
        found = p.same("arith.subi", found, select(p, compare(p, "lt", a, zero), b, zero))
    return found


def _pow(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    p = e.p
    x, y = (spread(p, v, out.shape) for v in operands)
    base = wide(p, x)
    return convert(p, extern("pow")(e, base, convert(p, y, base.dtype)), out.dtype)


# ---------------------------------------------------------------------------- functions of floats


def _round(e: Any, x: Value, rounding_method: int) -> Value:
    name = "rint" if rounding_method == RoundingMethod.TO_NEAREST_EVEN else "round"
    return extern(name)(e, x)


def _is_finite(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    size = e.p.same("math.absf", wide(e.p, operands[0]))
    return compare(e.p, "lt", size, e.p.constant(math.inf, size.dtype))


def _nextafter(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    """A step of one in the integers whose order is that of the floats' magnitudes."""
    p = e.p
    x, y = (spread(p, v, out.shape) for v in operands)
    bits = np.dtype(f"int{8 * out.dtype.itemsize}")
    n = bitcast(p, x, bits)
    one = constant_like(e, 1, n)
    wide_x, wide_y = wide(p, x), wide(p, y)
    zero = p.constant(0.0, wide_x.dtype)
    outward = compare(p, "eq", compare(p, "gt", wide_x, zero), compare(p, "gt", wide_y, wide_x))
    moved = select(p, outward, p.same("arith.addi", n, one), p.same("arith.subi", n, one))
    least = np.array(1, bits), np.array(np.iinfo(bits).min + 1, bits)
    from_zero = select(p, compare(p, "gt", wide_y, zero), p.constant(least[0], bits), p.constant(least[1], bits))
    moved = select(p, compare(p, "eq", wide_x, zero), from_zero, moved)
    found = select(p, compare(p, "eq", wide_x, wide_y), y, bitcast(p, moved, out.dtype))
    for v, w in ((x, wide_x), (y, wide_y)):
        found = select(p, compare(p, "ne", w, w), v, found)
    return found


# ---------------------------------------------------------------------------- comparison, selection, bits


def _compare(how: str) -> Rule:
    def rule(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
        return compare(e.p, how, *(spread(e.p, x, out.shape) for x in operands))

    return rule


def _select_n(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    p, (which, *cases) = e.p, operands
    found = spread(p, cases[0], out.shape)
    for i, case in enumerate(cases[1:], 1):
        chosen = which if is_bool(which.dtype) else compare(p, "ge", which, p.constant(i, which.dtype))
        found = select(p, chosen, case, found)
    return found


def _clamp(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    low, x, high = operands
    return RULES[min_p](e, [RULES[max_p](e, [x, low], out), high], out)


def _not(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    (x,) = operands
    ones = True if is_bool(x.dtype) else np.array(-1).astype(x.dtype)
    return e.p.same("arith.xori", x, constant_like(e, ones, x))


def _population_count(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    """Counts of 1, 2, 4, ... bits side by side, added in pairs."""
    p, (x,) = e.p, operands
    bits, width = 8 * x.dtype.itemsize, 1
    while width < bits:
        pattern = sum(((1 << width) - 1) << at for at in range(0, bits, 2 * width))
        mask = constant_like(e, np.array(pattern, f"uint{bits}").view(f"int{bits}"), x)
        mask = Value(mask.name, x.shape, x.dtype)
        low = p.same("arith.andi", x, mask)
        high = p.same("arith.andi", p.same("arith.shrui", x, constant_like(e, width, x)), mask)
        x, width = p.same("arith.addi", low, high), 2 * width
    return x


def _leading_zeros(e: Any, operands: Sequence[Value], out: ArrayType) -> Value:
    """The zeros among the bits, after the highest one has been copied to all below it."""
    p, (x,) = e.p, operands
    reach = 1
    while reach < 8 * x.dtype.itemsize:
        x = p.same("arith.ori", x, p.same("arith.shrui", x, constant_like(e, reach, x)))
        reach *= 2
    return _population_count(e, [_not(e, [x], out)], out)


# ---------------------------------------------------------------------------- conversion


def _convert(e: Any, operands: Sequence[Value], out: ArrayType, **params: Any) -> Value:
    return convert(e.p, operands[0], out.dtype)


def _identity(e: Any, operands: Sequence[Value], out: ArrayType, **params: Any) -> Value:
    return Value(operands[0].name, out.shape, operands[0].dtype)


def _bitcast(e: Any, operands: Sequence[Value], out: ArrayType, new_dtype: Any) -> Value:
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


def _reduce_precision(e: Any, operands: Sequence[Value], out: ArrayType, exponent_bits: int, mantissa_bits: int
                      ) -> Value:  # fmt: skip
    """Rounding to nearest even in the integers: half a unit is added and the bits below are cut."""
    p, x = e.p, wide(e.p, operands[0])
    size = 8 * x.dtype.itemsize
    bits, (mantissa, bias) = np.dtype(f"int{size}"), (23, 127) if size == 32 else (52, 1023)
    n, drop = bitcast(p, x, bits), mantissa - mantissa_bits
    sign = p.same("arith.andi", n, constant_like(e, np.iinfo(bits).min, n))
    if drop > 0:
        one = constant_like(e, 1, n)
        odd = p.same("arith.andi", p.same("arith.shrui", n, constant_like(e, drop, n)), one)
        half = constant_like(e, (1 << (drop - 1)) - 1, n)
        n = p.same("arith.addi", n, p.same("arith.addi", odd, half))
        n = p.same("arith.andi", n, constant_like(e, -(1 << drop), n))
    found = bitcast(p, n, x.dtype)
    top = 2 ** (exponent_bits - 1) - 1
    if top < bias:
        length = p.same("math.absf", found)
        infinite = bitcast(p, p.same("arith.ori", sign, bitcast(p, constant_like(e, math.inf, x), bits)), x.dtype)
        found = select(p, compare(p, "ge", length, p.constant(2.0 ** (top + 1), x.dtype)), infinite, found)
        tiny = compare(p, "lt", length, p.constant(2.0 ** (1 - top), x.dtype))
        found = select(p, tiny, bitcast(p, sign, x.dtype), found)
    finite = compare(p, "lt", p.same("math.absf", x), p.constant(math.inf, x.dtype))
    return convert(p, select(p, finite, found, x), out.dtype)


# Of the mathematical library, by primitive; the first names are libdevice's, which are ROCm's too.
LIBRARY = {
    sin_p: "sin", cos_p: "cos", tan_p: "tan", asin_p: "asin", acos_p: "acos", atan_p: "atan", sinh_p: "sinh",
    cosh_p: "cosh", tanh_p: "tanh", asinh_p: "asinh", acosh_p: "acosh", atanh_p: "atanh", expm1_p: "expm1",
    log_p: "log", log1p_p: "log1p", cbrt_p: "cbrt", erfc_p: "erfc", erf_inv_p: "erfinv", lgamma_p: "lgamma",
    atan2_p: "atan2",
}  # fmt: skip
MATH = {exp_p: "math.exp", exp2_p: "math.exp2", sqrt_p: "math.sqrt", rsqrt_p: "math.rsqrt", floor_p: "math.floor",
        ceil_p: "math.ceil", erf_p: "math.erf"}  # fmt: skip

RULES: dict[Primitive, Rule] = {
    **{primitive: in_float32(extern(symbol)) for primitive, symbol in LIBRARY.items()},
    **{primitive: in_float32(instruction(op)) for primitive, op in MATH.items()},
    **{primitive: _compare(how) for primitive, how in COMPARISONS.items()},
    add_p: _add, add_any_p: _add, mulhi_p: _mulhi,
    sub_p: arithmetic("arith.subf", "arith.subi"), mul_p: arithmetic("arith.mulf", "arith.muli"),
    max_p: arithmetic("arith.maximumf", "arith.maxsi", "arith.maxui"),
    min_p: arithmetic("arith.minimumf", "arith.minsi", "arith.minui"),
    and_p: arithmetic("", "arith.andi"), or_p: arithmetic("", "arith.ori"), xor_p: arithmetic("", "arith.xori"),
    div_p: in_float32(instruction("arith.divf")), rem_p: in_float32(extern("fmod")),  # of floats
    quotient_p: arithmetic("", "arith.divsi", "arith.divui"), remainder_p: arithmetic("", "arith.remsi", "arith.remui"),
    bits_up_p: arithmetic("", "arith.shli"), bits_down_p: arithmetic("", "arith.shrui"),
    sign_down_p: arithmetic("", "arith.shrsi"), neg_p: _neg, abs_p: _abs, sign_p: _sign, square_p: _square, pow_p: _pow,
    round_p: in_float32(_round), is_finite_p: _is_finite, nextafter_p: _nextafter, select_n_p: _select_n,
    clamp_p: _clamp, not_p: _not,
    population_count_p: _population_count, clz_p: _leading_zeros,
    convert_element_type_p: _convert, bitcast_convert_type_p: _bitcast, reduce_precision_p: _reduce_precision,
    stop_gradient_p: _identity, copy_p: _identity, name_p: _identity,
}  # fmt: skip
