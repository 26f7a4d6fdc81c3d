"""Elementwise operations: on the numbers of a thread, one after the other, on Blackwell two at once where it can.

Floats are computed in float32 and rounded once. `exp` is a power of two by the special function unit, as Triton has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import DTypeLike
from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_bool, is_float
from ...core.primitives.custom.checkpoint import name_p
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.elementwise import conversion as conv
from ...core.primitives.elementwise.arithmetic import RoundingMethod
from ...core.primitives.movement.shape import copy_p
from ...core.primitives.special.functions import erf_p
from ...lang.legalize import Unfit
from ...lang.mlir.scalar_operations import BINARY, COMPARISONS, FUNCTIONS, Operation, comparison
from ...lang.ops.scaled_exp2 import scaled_exp2_p
from ...lang.tpu import approx_reciprocal_p
from ..layout_conversion import agreed
from ..text import Printer
from ..values import Fragment, Lazy, Product, computed, convert, halves, rounded, wrapped

if TYPE_CHECKING:
    from ..lower import Lowering

Numbers = Callable[..., str]  # (printer, dtype of the operands, *numbers) -> number
Pair = tuple[str, str]
Both = Callable[..., Sequence[str]]  # (printer, *pairs) -> pair


def finished(p: Printer, x: str, dtype: DTypeLike) -> str:
    """A computed number as one of its dtype."""
    if is_bool(dtype):
        return x
    return rounded(p, x, dtype) if is_float(dtype) else wrapped(p, x, dtype)


def elementwise(compute: Numbers, both: Both | None = None) -> Callable[..., Any]:
    """The rule of an operation on numbers, given the dtype of its last operand; `both`: on two floats at once."""

    def rule(e: Lowering, operands: list[Any], out: ArrayType, **params: Any) -> Any:
        dtype = operands[-1].dtype

        def number(p: Printer, *xs: str) -> str:
            found = compute(p, dtype, *xs, **params)
            return found if halves(out.dtype) else finished(p, found, out.dtype)

        def rounding(p: Printer, *xs: str) -> str:
            return finished(p, number(p, *xs), out.dtype)

        operands = agreed(e, [e.settled(x) if isinstance(x, Product) else x for x in operands])
        layout = e.joined(operands, out.shape)
        if layout is None:
            varies = frozenset[int]().union(*(x.varies for x in operands))
            fixed = all(x.fixed for x in operands)
            return Lazy(
                out.shape, out.dtype,
                lambda p, place: rounding(p, *(x.at(p, place if x.shape else ()) for x in operands)), varies, fixed,
            )  # fmt: skip
        late = any(isinstance(x, Fragment) and x.late for x in operands)

        def element(r: int, j: int) -> str:
            return number(e.p, *(e.element(x, layout, r, j) for x in operands))

        def one_of_two(r: int, j: int) -> str:
            first = j & ~1
            two = [(e.element(x, layout, r, first), e.element(x, layout, r, first + 1)) for x in operands]
            found = both(e.p, *two)[j % 2]  # type: ignore[misc]
            return found if halves(out.dtype) else finished(e.p, found, out.dtype)

        pairs = both is not None and e.own_rows and layout.cols is not None and is_float(dtype)
        return e.make(layout, out.dtype, one_of_two if pairs else element, late)

    return rule


def _op(operation: Operation) -> Numbers:
    """One operation of arith or math by the kind of its operands."""

    def compute(p: Printer, dtype: np.dtype[Any], *xs: str) -> str:
        name = operation.name(dtype)
        assert name
        return p.pure(f"{name} {', '.join(xs)} : {computed(dtype)}")

    return compute


def _comparison(how: str) -> Numbers:
    return lambda p, dtype, x, y: p.pure(f"{comparison(how, dtype)} {x}, {y} : {computed(dtype)}")


def special(p: Printer, name: str, x: str) -> str:
    """An instruction of the special function unit."""
    return p.asm(f"{name}.f32 $0, $1;", "=f,f", [x], ["f32"], ["f32"], pure=True)[0]


def exp2(p: Printer, dtype: DTypeLike, x: str) -> str:
    return special(p, "ex2.approx.ftz", x)


def exp(p: Printer, dtype: DTypeLike, x: str) -> str:
    return exp2(p, dtype, p.pure(f"arith.mulf {x}, {p.constant(math.log2(math.e), 'f32')} : f32"))


def packed(p: Printer, name: str, *pairs: Pair) -> Sequence[str]:
    """An instruction on two floats in two registers side by side, which Blackwell has."""
    given = range(1, 1 + len(pairs))
    joined = " ".join(f"mov.b64 x{i}, {{${2 * i}, ${2 * i + 1}}};" for i in given)
    names = ", ".join(f"x{i}" for i in given)
    return p.asm(
        f"{{ .reg .b64 x0, {names}; {joined} {name}.rn.f32x2 x0, {names}; mov.b64 {{$0, $1}}, x0; }}",
        "=f,=f" + ",f" * (2 * len(pairs)), [x for pair in pairs for x in pair], ["f32"] * (2 * len(pairs)),
        ["f32", "f32"], pure=True)  # fmt: skip


def _scaled_exp2(p: Printer, dtype: np.dtype[Any], x: str, scale: str, shift: str) -> str:
    return exp2(p, dtype, p.pure(f"math.fma {x}, {scale}, {shift} : f32"))


def _packs(name: str) -> Both:
    return lambda p, *pairs: packed(p, name, *pairs)


def _two_scaled_exp2(p: Printer, *pairs: Pair) -> Sequence[str]:
    return [exp2(p, None, x) for x in packed(p, "fma", *pairs)]


def _rsqrt(p: Printer, dtype: np.dtype[Any], x: str) -> str:
    return special(p, "rsqrt.approx", x)


def _logistic(p: Printer, dtype: np.dtype[Any], x: str) -> str:
    low = exp(p, dtype, p.pure(f"arith.negf {x} : f32"))
    one = p.constant(1, "f32")
    return p.pure(f"arith.divf {one}, {p.pure(f'arith.addf {one}, {low} : f32')} : f32")


def _reciprocal(p: Printer, dtype: np.dtype[Any], x: str, **params: Any) -> str:
    return p.pure(f"arith.divf {p.constant(1, 'f32')}, {x} : f32")


def _neg(p: Printer, dtype: np.dtype[Any], x: str) -> str:
    if is_float(dtype):
        return p.pure(f"arith.negf {x} : f32")
    return p.pure(f"arith.subi {p.constant(0)}, {x} : i32")


def _abs(p: Printer, dtype: np.dtype[Any], x: str) -> str:
    if is_float(dtype):
        return p.pure(f"math.absf {x} : f32")
    return x if dtype.kind == "u" else p.pure(f"arith.maxsi {x}, {_neg(p, dtype, x)} : i32")


def _sign(p: Printer, dtype: np.dtype[Any], x: str) -> str:
    """-1, 0 or 1 with the sign of zeros, and NaN, as they are."""
    type_, zero = computed(dtype), p.constant(0, computed(dtype))
    if not is_float(dtype):
        how = "ne" if dtype.kind == "u" else "sgt"
        one = p.pure(f"arith.extui {p.compare(how, x, zero)} : i1 to i32")
        return one if dtype.kind == "u" else str(
            p.int("subi", one, p.pure(f"arith.extui {p.compare('slt', x, zero)} : i1 to i32")))  # fmt: skip
    other = p.pure(f"arith.cmpf une, {x}, {zero} : f32")
    number = p.pure(f"arith.cmpf oeq, {x}, {x} : f32")
    unit = p.pure(f"math.copysign {p.constant(1, 'f32')}, {x} : f32")
    live = p.pure(f"arith.andi {other}, {number} : i1")
    return p.pure(f"arith.select {live}, {unit}, {x} : {type_}")


def _bits(e: Lowering, operands: list[Any], out: ArrayType, **params: Any) -> Any:
    (x,) = operands
    if x.dtype.itemsize != 4 or out.dtype.itemsize != 4:
        raise Unfit(f"the bits of {x.dtype} as {out.dtype}: it is one of the same width")
    old, new = computed(x.dtype), computed(out.dtype)
    return elementwise(lambda p, dtype, a: a if old == new else p.pure(f"arith.bitcast {a} : {old} to {new}"))(
        e, operands, out
    )


def _square(p: Printer, dtype: np.dtype[Any], x: str) -> str:
    return ew_op[ew.mul_p](p, dtype, x, x)


def _not(p: Printer, dtype: np.dtype[Any], x: str) -> str:
    type_ = computed(dtype)
    return p.pure(f"arith.xori {x}, {p.constant(True if type_ == 'i1' else -1, type_)} : {type_}")


def _round(p: Printer, dtype: np.dtype[Any], x: str, rounding_method: Any) -> str:
    even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return p.pure(f"math.{'roundeven' if even else 'round'} {x} : f32")


def _finite(p: Printer, dtype: np.dtype[Any], x: str) -> str:
    size = p.pure(f"math.absf {x} : f32")
    return p.pure(f"arith.cmpf olt, {size}, {p.constant(np.inf, 'f32')} : f32")


def _select(e: Lowering, operands: list[Any], out: ArrayType) -> Any:
    if len(operands) != 3:
        raise Unfit("a selection among more than two values: choose by `where` within `where`")
    type_ = computed(out.dtype)

    def compute(p: Printer, dtype: np.dtype[Any], which: str, no: str, yes: str) -> str:
        if not is_bool(operands[0].dtype):
            which = p.pure(f"arith.cmpi ne, {which}, {p.constant(0)} : i32")
        return p.pure(f"arith.select {which}, {yes}, {no} : {type_}")

    return elementwise(compute)(e, operands, out)


def _clamp(p: Printer, dtype: np.dtype[Any], low: str, x: str, high: str) -> str:
    most, least = ew_op[ew.min_p], ew_op[ew.max_p]
    return most(p, dtype, least(p, dtype, x, low), high)


def _converted(e: Lowering, operands: list[Any], out: ArrayType, new_dtype: np.dtype[Any], weak_type: bool) -> Any:
    (x,) = operands
    if x.dtype == out.dtype:
        return x
    to = np.dtype(np.float32) if halves(out.dtype) else out.dtype  # what is rounded is so once, at the end
    return elementwise(lambda p, dtype, a: convert(p, a, dtype, to))(e, operands, out)


def _same(e: Lowering, operands: list[Any], out: ArrayType, **params: Any) -> Any:
    return operands[0]


FUNCTION = (ew.tan_p, ew.atan2_p, ew.floor_p, ew.ceil_p, ew.sqrt_p, ew.expm1_p, ew.log_p, ew.log1p_p, ew.tanh_p,
            ew.sin_p, ew.cos_p, erf_p)  # fmt: skip
ew_op: dict[Primitive, Numbers] = {
    **{primitive: _op(operation) for primitive, operation in BINARY.items()},
    **{primitive: _op(Operation(FUNCTIONS[primitive])) for primitive in FUNCTION},
    ew.neg_p: _neg, ew.abs_p: _abs, ew.square_p: _square, ew.sign_p: _sign, ew.round_p: _round, ew.rsqrt_p: _rsqrt,
    ew.exp_p: exp, ew.exp2_p: exp2, scaled_exp2_p: _scaled_exp2, ew.logistic_p: _logistic,
    approx_reciprocal_p: _reciprocal,
    cmp.is_finite_p: _finite, cmp.clamp_p: _clamp, bitwise.not_p: _not,
}  # fmt: skip

both_of: dict[Primitive, Both] = {
    **{p: _packs(name) for p, name in ((ew.add_p, "add"), (ew.sub_p, "sub"), (ew.mul_p, "mul"))},
    ew.square_p: lambda p, x: packed(p, "mul", x, x),
    scaled_exp2_p: _two_scaled_exp2,
}


def _remainder(e: Lowering, operands: list[Any], out: ArrayType) -> Any:
    raise Unfit("a remainder of floats: write `x - y * floor(x / y)`")  # that of integers is made of `remainder_p`


RULES: dict[Primitive, Callable[..., Any]] = {
    **{p: elementwise(compute, both_of.get(p)) for p, compute in ew_op.items()},
    **{p: elementwise(_comparison(how)) for p, how in COMPARISONS.items()},
    ew.rem_p: _remainder,
    cmp.select_n_p: _select,
    conv.convert_element_type_p: _converted,
    conv.bitcast_convert_type_p: _bits,
    conv.stop_gradient_p: _same,
    copy_p: _same,
    name_p: _same,
}
