"""Arithmetic, comparison, selection and conversion, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import UINT32, ArrayType, is_bool, is_float, is_integer, is_unsigned
from ...core.primitives.custom.checkpoint import name_p
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.elementwise import conversion as conv
from ...core.primitives.movement.shape import copy_p
from ...core.primitives.special.functions import erf_p
from ...core.support.errors import Source, UnsupportedError
from ...lang.mlir.scalar_operations import BINARY, COMPARISONS, FUNCTIONS
from ...lang.ops.basic import multiple_of_p
from ...lang.ops.machine_integers import bits_down_p, remainder_p
from ...lang.tpu import approx_reciprocal_p
from ..body import Body, Rule
from ..text import SSA
from ..values import Value, physical, stored, wide

UNARY = (ew.neg_p, ew.floor_p, ew.ceil_p, ew.sqrt_p, ew.rsqrt_p, ew.exp2_p, ew.log_p, ew.log1p_p, ew.sin_p, ew.cos_p,
         ew.tan_p, ew.tanh_p, erf_p)  # fmt: skip
# A result has no more bits than the operands.
EXACT = (bitwise.and_p, bitwise.or_p, ew.max_p, ew.min_p, ew.rem_p, remainder_p)
SIGN = -(2**31)
UNSIGNED = {"arith.maxui": "arith.maxsi", "arith.minui": "arith.minsi"}


def operands_of(b: Body, xs: Sequence[Value], out: ArrayType) -> tuple[list[SSA], Any]:
    """Operands of one form: scalars, where the result is an integer of rank 0 and all are known there; else vectors."""
    if not out.shape and all(b.in_scalar_unit(x) and wide(x.dtype) != "f32" for x in xs):
        return [b.scalar(x) for x in xs], None
    shape = physical(out.shape)
    return [b.vector(b.spread(x, out.shape)) for x in xs], shape


def _binary(primitive: Primitive) -> Rule:
    operation = BINARY[primitive]

    def rule(b: Body, xs: list[Value], out: ArrayType, **params: Any) -> Value:
        (x, y), shape = operands_of(b, xs, out)
        name = operation.name(out.dtype)
        if name in UNSIGNED:  # the vector unit compares signed numbers
            made = flipped(b, b.w.op(UNSIGNED[name], [flipped(b, x), flipped(b, y)], shape, "i32"))
        else:
            made = b.w.op(name, [x, y], shape, x.element)
        found = b.value(out, made, rounded=x.element != "i1" and primitive not in EXACT)
        found.multiple = _multiple(primitive, xs)
        if primitive is ew.mul_p and str(out.dtype) == "float32":
            pairs = ((x, xs[1].known), (y, xs[0].known))
            found.factors = next(((v, float(k)) for v, k in pairs if k is not None), None)
        return found

    return rule


def flipped(b: Body, x: SSA) -> SSA:
    """An integer with its sign bit turned over: unsigned order becomes signed order."""
    return b.w.op("arith.xori", [x, b.w.constant(SIGN, "i32", x.shape)], x.shape, "i32")


def _multiple(primitive: Primitive, xs: Sequence[Value]) -> int:
    """A number that divides the result."""
    x, y = xs[0].multiple, xs[1].multiple
    if primitive in (ew.add_p, ew.sub_p):
        return int(np.gcd(x, y))
    return x * y if primitive is ew.mul_p else 1


def _unary(name: str) -> Rule:
    def rule(b: Body, xs: list[Value], out: ArrayType, **params: Any) -> Value:
        x, shape = operands_of(b, xs, out)
        if x[0].element == "i32":
            zero = b.w.constant(0, "i32", shape)
            return b.value(out, b.w.op("arith.subi", [zero, x[0]], shape, "i32"))
        return b.value(out, b.w.op(name, x, shape, "f32"))

    return rule


def _exp(b: Body, xs: list[Value], out: ArrayType, **params: Any) -> Value:
    """The hardware has 2 ** x alone: where x is multiplied by a constant, that is the only multiplication."""
    if xs[0].factors is None:
        return _unary("math.exp")(b, xs, out)
    x, by = xs[0].factors
    scaled = b.w.op("arith.mulf", [x, b.w.constant(by * math.log2(math.e), "f32", x.shape)], x.shape, "f32")
    return b.value(out, b.w.op("math.exp2", [scaled], x.shape, "f32"))


def _multiple_of(b: Body, xs: list[Value], out: ArrayType, multiple: int) -> Value:
    (x,) = xs
    return Value(out, x.vector, x.narrow, x.scalar, math.lcm(x.multiple, multiple), x.known)


def _approx_reciprocal(b: Body, xs: list[Value], out: ArrayType, full_range: bool) -> Value:
    x = b.vector(xs[0])
    attributes = f"approx = true, full_range = {str(full_range).lower()}"
    return b.value(out, b.w.op("tpu.reciprocal", [x], x.shape, "f32", attributes))


def _abs(b: Body, xs: list[Value], out: ArrayType) -> Value:
    (x,), shape = operands_of(b, xs, out)
    if is_unsigned(out.dtype):
        return xs[0]
    if x.element == "f32":
        return b.value(out, b.w.op("math.absf", [x], shape, "f32"), rounded=False)
    less = b.w.op("arith.subi", [b.w.constant(0, "i32", shape), x], shape, "i32")
    return b.value(out, b.w.op("arith.maxsi", [x, less], shape, "i32"))


def _sign(b: Body, xs: list[Value], out: ArrayType) -> Value:
    (x,), shape = operands_of(b, xs, out)
    zero, one, minus = (b.w.constant(v, x.element, shape) for v in (0, 1, -1))
    if is_unsigned(out.dtype):
        return b.value(out, b.select(compared(b, "ne", x, zero, False), one, zero), rounded=False)
    below = b.select(compared(b, "lt", x, zero, False), minus, x)
    return b.value(out, b.select(compared(b, "gt", x, zero, False), one, below), rounded=False)


def _square(b: Body, xs: list[Value], out: ArrayType) -> Value:
    return _binary(ew.mul_p)(b, [xs[0], xs[0]], out)


def _round(b: Body, xs: list[Value], out: ArrayType, rounding_method: int) -> Value:
    (x,), shape = operands_of(b, xs, out)
    return b.value(out, b.w.op("math.roundeven" if rounding_method else "math.round", [x], shape, "f32"))


def _pow(b: Body, xs: list[Value], out: ArrayType) -> Value:
    x, y = b.spread(xs[0], out.shape), convert(b, b.spread(xs[1], out.shape), ArrayType(out.shape, out.dtype))
    return b.value(out, b.w.op("math.powf", [b.vector(x), b.vector(y)], physical(out.shape), "f32"))


def _atan2(b: Body, xs: list[Value], out: ArrayType) -> Value:
    x, y = (b.vector(b.spread(x, out.shape)) for x in xs)
    return b.value(out, b.w.op("math.atan2", [x, y], physical(out.shape), "f32"))


# ---------------------------------------------------------------------------- comparison, selection

_FLOAT = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5}
_INTEGER = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}


def compared(b: Body, name: str, x: SSA, y: SSA, unsigned: bool) -> SSA:
    """A comparison of two vectors or scalars."""
    if x.element == "f32":
        if name == "ne":
            equal = compared(b, "eq", x, y, False)
            return b.w.op("arith.xori", [equal, b.w.constant(True, "i1", x.shape)], x.shape, "i1")
        return b.w.op("arith.cmpf", [x, y], x.shape, "i1", f"predicate = {_FLOAT[name]} : i64")
    if x.element == "i1":
        x, y = (b.w.op("arith.extui", [v], v.shape, "i32") for v in (x, y))
    elif unsigned and name not in ("eq", "ne"):
        x, y = flipped(b, x), flipped(b, y)
    return b.w.op("arith.cmpi", [x, y], x.shape, "i1", f"predicate = {_INTEGER[name]} : i64")


def _compare(name: str) -> Rule:
    def rule(b: Body, xs: list[Value], out: ArrayType) -> Value:
        (x, y), _ = operands_of(b, xs, out)
        return b.value(out, compared(b, name, x, y, is_unsigned(xs[0].dtype)))

    return rule


def _select_n(b: Body, xs: list[Value], out: ArrayType) -> Value:
    which, *cases = xs
    scalars = not out.shape and all(b.in_scalar_unit(x) and wide(x.dtype) != "f32" for x in xs)
    form = b.scalar if scalars else lambda x: b.vector(b.spread(x, out.shape))
    chosen, found = form(which), form(cases[0])
    for i, case in enumerate(cases[1:], 1):
        mask = chosen
        if not is_bool(which.dtype):
            mask = compared(b, "ge", chosen, b.w.constant(i, "i32", chosen.shape), False)
        found = b.select(mask, form(case), found)
    return b.value(out, found, rounded=False)


def _clamp(b: Body, xs: list[Value], out: ArrayType) -> Value:
    low, x, high = xs
    return _binary(ew.min_p)(b, [_binary(ew.max_p)(b, [x, low], out), high], out)


def _is_finite(b: Body, xs: list[Value], out: ArrayType) -> Value:
    x = b.vector(xs[0])
    size = b.w.op("math.absf", [x], x.shape, "f32")
    return b.value(out, compared(b, "lt", size, b.w.constant(np.inf, "f32", x.shape), False))


# ---------------------------------------------------------------------------- bits


def _not(b: Body, xs: list[Value], out: ArrayType) -> Value:
    (x,), shape = operands_of(b, xs, out)
    ones = b.w.constant(True if x.element == "i1" else -1, x.element, shape)
    return b.value(out, b.w.op("arith.xori", [x, ones], shape, x.element))


def _bits_down(b: Body, xs: list[Value], out: ArrayType) -> Value:
    """Registers hold narrow integers with the sign above."""
    (x, by), shape = operands_of(b, xs, out)
    bits = ml_dtypes.iinfo(out.dtype).bits
    if bits < 32:
        x = b.w.op("arith.andi", [x, b.w.constant(2**bits - 1, "i32", shape)], shape, "i32")
    return b.value(out, b.w.op("arith.shrui", [x, by], shape, "i32"))


def _count(name: str) -> Rule:
    def rule(b: Body, xs: list[Value], out: ArrayType) -> Value:
        x = b.vector(xs[0])
        bits = ml_dtypes.iinfo(out.dtype).bits
        if bits < 32:
            x = b.w.op("arith.andi", [x, b.w.constant(2**bits - 1, "i32", x.shape)], x.shape, "i32")
        found = b.w.op(name, [x], x.shape, "i32")
        if name == "math.ctlz" and bits < 32:
            found = b.w.op("arith.subi", [found, b.w.constant(32 - bits, "i32", x.shape)], x.shape, "i32")
        return b.value(out, found)

    return rule


# ---------------------------------------------------------------------------- conversion


def convert(b: Body, x: Value, out: ArrayType) -> Value:
    """A value in another dtype."""
    if x.dtype == out.dtype:
        return x
    if x.known is not None:
        with np.errstate(all="ignore"):
            return b.known(np.asarray(x.known).astype(out.dtype), out)
    source, target = wide(x.dtype), wide(out.dtype)
    form = b.scalar(x) if b.in_scalar_unit(x) and source != "f32" else b.vector(x)
    if source == "i1" and target != "i1":
        form, source = b.w.op("arith.extui", [form], form.shape, "i32"), "i32"
    if target == "i1":
        zero = b.w.constant(0, source, form.shape)
        return b.value(out, compared(b, "ne", form, zero, False) if source != "i1" else form)
    if source == target:
        made = b.value(out, form)
        made.multiple = x.multiple if is_integer(out.dtype) and out.dtype.itemsize == 4 else 1
        return made
    if source == "f32":
        name = "arith.fptoui" if is_unsigned(out.dtype) and out.dtype.itemsize == 4 else "arith.fptosi"
    else:
        name = "arith.uitofp" if is_unsigned(x.dtype) else "arith.sitofp"
    return b.value(out, b.w.op(name, [form], form.shape, target))


def _convert(b: Body, xs: list[Value], out: ArrayType, **params: Any) -> Value:
    return convert(b, xs[0], out)


def _bitcast(b: Body, xs: list[Value], out: ArrayType, new_dtype: np.dtype[Any]) -> Value:
    (x,) = xs
    if x.dtype == out.dtype:
        return x
    check_bits(x.type, out.dtype, b.source)
    return _of_bits(b, _bits_of(b, x), out)


NO_BITS = {
    "float16": "the vector unit has no float16, which is held as float32",
    **dict.fromkeys(("int4", "uint4", "int2", "uint2"), "memory holds it in words of 32 bits"),
    "bool": "a mask has no bits of its own",
}


def check_bits(type: Any, wanted: Any, source: Source | None = None) -> None:
    """Raise `UnsupportedError` unless the bits of both dtypes are those that a register holds."""
    for dtype in (type.dtype, wanted):
        if str(dtype) in NO_BITS:
            raise UnsupportedError(f"bitcast_convert_type of {type.show()} to {wanted} in a TPU kernel: "
                                   f"{NO_BITS[str(dtype)]}", "bitcast around the kernel call", source)  # fmt: skip


def _bits_of(b: Body, x: Value) -> Value:
    """The bits of each element, as uint32."""
    type = ArrayType(x.shape, UINT32)
    if not is_float(x.dtype):
        v = b.vector(x)
        if x.dtype.itemsize < 4:
            v = b.w.op("arith.andi", [v, b.w.constant(2 ** (8 * x.dtype.itemsize) - 1, "i32", v.shape)], v.shape, "i32")
        return Value(type, vector=v)
    if x.dtype.itemsize == 1:
        v = b.narrow(x)
        v = b.w.op("tpu.bitcast", [v], v.shape, "i8")
        return Value(type, vector=b.w.op("arith.extui", [v], v.shape, "i32"))
    v = b.vector(x)
    v = b.w.op("tpu.bitcast", [v], v.shape, "i32")
    if x.dtype.itemsize == 2:  # bfloat16 is the upper half of a float32
        v = b.w.op("arith.shrui", [v, b.w.constant(16, "i32", v.shape)], v.shape, "i32")
    return Value(type, vector=v)


def _of_bits(b: Body, x: Value, out: ArrayType) -> Value:
    """What `_bits_of` undoes."""
    v = b.vector(x)
    if not is_float(out.dtype):
        return b.value(out, v)
    if out.dtype.itemsize == 1:
        v = b.w.op("arith.trunci", [v], v.shape, "i8")
        return b.value(out, b.w.op("tpu.bitcast", [v], v.shape, stored(out.dtype)), rounded=False)
    if out.dtype.itemsize == 2:
        v = b.w.op("arith.shli", [v, b.w.constant(16, "i32", v.shape)], v.shape, "i32")
    return b.value(out, b.w.op("tpu.bitcast", [v], v.shape, "f32"), rounded=False)


def _reduce_precision(b: Body, xs: list[Value], out: ArrayType, exponent_bits: int, mantissa_bits: int) -> Value:
    v = b.vector(xs[0])
    attributes = f"exponent_bits = {exponent_bits} : i32, mantissa_bits = {mantissa_bits} : i32"
    return b.value(out, b.w.op("tpu.reduce_precision", [v], v.shape, "f32", attributes))


def _identity(b: Body, xs: list[Value], out: ArrayType, **params: Any) -> Value:
    return xs[0]


RULES: dict[Primitive, Rule] = {
    **{primitive: _binary(primitive) for primitive in BINARY},
    **{primitive: _unary(FUNCTIONS[primitive]) for primitive in UNARY},
    **{primitive: _compare(name) for primitive, name in COMPARISONS.items()},
    ew.exp_p: _exp, ew.abs_p: _abs, ew.sign_p: _sign, ew.square_p: _square, ew.round_p: _round, ew.pow_p: _pow,
    ew.atan2_p: _atan2, approx_reciprocal_p: _approx_reciprocal, multiple_of_p: _multiple_of,
    cmp.select_n_p: _select_n, cmp.clamp_p: _clamp, cmp.is_finite_p: _is_finite, bitwise.not_p: _not,
    bits_down_p: _bits_down, bitwise.population_count_p: _count("math.ctpop"), bitwise.clz_p: _count("math.ctlz"),
    conv.convert_element_type_p: _convert, conv.bitcast_convert_type_p: _bitcast,
    conv.reduce_precision_p: _reduce_precision, conv.stop_gradient_p: _identity, copy_p: _identity, name_p: _identity,
}  # fmt: skip
