"""Rules of operations on single elements: `RULES` by primitive, each from operands in registers to a result.

Floats of 16 bits are float32 in registers and rounded after every operation, as the language says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.elementwise import conversion as conv
from ...core.primitives.special import functions as spc
from ...core.transforms.structural_primitives import add_any_p
from ...lang.ops.machine_integers import bits_down_p, bits_up_p, quotient_p, remainder_p, sign_down_p
from ..functions import FUNCTIONS
from ..functions.parts import bits_of, from_bits
from ..llvm.builder import Builder, Value, vector, with_scalar
from .expression_graph import HELD, STORED, Monoid

Rule = Callable[..., Value]


def is_float(dtype: np.dtype) -> bool:
    return HELD[str(dtype)] in ("float", "double")


def is_signed(dtype: np.dtype) -> bool:
    return np.dtype(dtype).kind == "i"


# ---------------------------------------------------------------------------- representation


def rounded(b: Builder, x: Value, dtype: np.dtype) -> Value:
    """A float32 as the nearest number of a dtype of 16 bits, still a float32."""
    name = str(dtype)
    if name == "float16":
        return b.cast("fpext", b.cast("fptrunc", x, "half"), "float")
    if name != "bfloat16":
        return x
    bits = bits_of(b, x)
    odd = b.binary("and", b.binary("lshr", bits, 16), 1)
    near = b.binary("and", bits + odd + 0x7FFF, -65536)
    return from_bits(b, b.select(b.compare("uno", x, x), 0x7FC00000, near), x)


def from_stored(b: Builder, x: Value, dtype: np.dtype) -> Value:
    """An element as memory has it, in registers."""
    name = str(dtype)
    if name == "bool":
        return b.compare("ne", x, 0)
    if name == "float16":
        return b.cast("fpext", x, "float")
    if name == "bfloat16":
        wide = b.binary("shl", b.cast("zext", x, "i32"), 16)
        return b.value(
            with_scalar(x.type, "float"), f"bitcast {wide.type} {wide.text} to {with_scalar(x.type, 'float')}"
        )
    return x


def to_stored(b: Builder, x: Value, dtype: np.dtype) -> Value:
    """The other way round."""
    name = str(dtype)
    if name == "bool":
        return b.cast("zext", x, "i8")
    if name == "float16":
        return b.cast("fptrunc", x, "half")
    if name == "bfloat16":
        return b.cast("trunc", b.binary("lshr", bits_of(b, x), 16), "i16")
    return x


def number(value: Any, dtype: np.dtype) -> Any:
    """A number of a dtype as a Python number."""
    one = np.asarray(value).astype(dtype)
    return bool(one) if np.dtype(dtype).kind == "b" else float(one) if is_float(dtype) else int(one)


# ---------------------------------------------------------------------------- rules


def _binary(floats: str | None, signed: str | None, unsigned: str | None = None) -> Rule:
    def rule(b: Builder, x: Value, y: Value, *, dtypes: Any, **_: Any) -> Value:
        name = floats if is_float(dtypes[0]) else signed if is_signed(dtypes[0]) or unsigned is None else unsigned
        assert name is not None
        return b.binary(name, x, y)

    return rule


def _division(name: str) -> Rule:
    """Vectors by floats of twice the digits, whose quotient is less than a unit off only where it is not whole."""

    def rule(b: Builder, x: Value, y: Value, *, dtypes: Any, **_: Any) -> Value:
        sign = "s" if is_signed(dtypes[0]) else "u"
        if dtypes[0].itemsize > 4 or not x.lanes or not y.text.startswith("%"):  # constants are multiplied by
            return b.binary(sign + name, x, y)
        wide = "float" if dtypes[0].itemsize < 4 else "double"
        quotient = b.cast(f"{sign}itofp", x, wide) / b.cast(f"{sign}itofp", y, wide)
        found = b.cast(f"fpto{sign}i", quotient, x.scalar)
        return found if name == "div" else x - found * y

    return rule


def _boolean_sum(name: str, boolean: str) -> Rule:
    def rule(b: Builder, x: Value, y: Value, *, dtypes: Any, **_: Any) -> Value:
        return b.binary(boolean if str(dtypes[0]) == "bool" else name, x, y)

    return rule


def extremum(b: Builder, x: Value, y: Value, dtype: np.dtype, greatest: bool) -> Value:
    """The greater (lesser) of two; NaN where either is."""
    if str(dtype) == "bool":
        return b.binary("or" if greatest else "and", x, y)
    if not is_float(dtype):
        return b.intrinsic(("s" if is_signed(dtype) else "u") + ("max" if greatest else "min"), x, y)
    chosen = b.select(b.compare("ogt" if greatest else "olt", x, y), x, y)  # y where either is NaN
    return b.select(b.compare("uno", x, x), x, chosen)


def combined(b: Builder, monoid: Monoid, x: Value, y: Value, dtype: np.dtype) -> Value:
    """Two elements of a reduction as one."""
    if monoid.name in ("max", "min"):
        return extremum(b, x, y, dtype, monoid.name == "max")
    if dtype.kind == "b":
        return b.binary({"add": "or", "mul": "and"}.get(monoid.name, monoid.name), x, y)
    return b.binary(monoid.name, x, y)


def across(b: Builder, monoid: Monoid, x: Value, dtype: np.dtype) -> Value:
    """The lanes of a vector combined, half with half."""
    lanes = x.lanes
    while lanes > 1:
        half = lanes // 2
        type_ = vector(x.scalar, half)
        parts = []
        for start in (0, half):
            picked = ", ".join(f"i32 {start + i}" for i in range(half))
            parts.append(
                b.value(type_, f"shufflevector {x.type} {x.text}, {x.type} poison, <{half} x i32> <{picked}>")
            )
        x, lanes = combined(b, monoid, parts[0], parts[1], dtype), half
    return b.extract(x, 0) if x.lanes else x


def _extremum(greatest: bool) -> Rule:
    return lambda b, x, y, *, dtypes, **_: extremum(b, x, y, dtypes[0], greatest)


def _clamp(b: Builder, low: Value, x: Value, high: Value, *, dtypes: Any, **_: Any) -> Value:
    return extremum(b, extremum(b, x, low, dtypes[1], True), high, dtypes[1], False)


_PREDICATES = {"eq": ("oeq", "eq", "eq"), "ne": ("une", "ne", "ne"), "lt": ("olt", "slt", "ult"),
               "le": ("ole", "sle", "ule"), "gt": ("ogt", "sgt", "ugt"), "ge": ("oge", "sge", "uge")}  # fmt: skip


def _comparison(name: str) -> Rule:
    floats, signed, unsigned = _PREDICATES[name]

    def rule(b: Builder, x: Value, y: Value, *, dtypes: Any, **_: Any) -> Value:
        return b.compare(floats if is_float(dtypes[0]) else signed if is_signed(dtypes[0]) else unsigned, x, y)

    return rule


def _select(b: Builder, which: Value, *cases: Value, dtypes: Any, **_: Any) -> Value:
    if str(dtypes[0]) == "bool":
        return b.select(which, cases[1], cases[0])
    found = cases[0]
    for i, case in enumerate(cases[1:], 1):
        found = b.select(b.compare("sge", which, i), case, found)
    return found


def _negative(b: Builder, x: Value, **_: Any) -> Value:
    return b.negative(x)


def _abs(b: Builder, x: Value, *, dtypes: Any, **_: Any) -> Value:
    if is_float(dtypes[0]):
        return b.intrinsic("fabs", x)
    return b.select(b.compare("slt", x, 0), 0 - x, x) if is_signed(dtypes[0]) else x


def _sign(b: Builder, x: Value, *, dtypes: Any, **_: Any) -> Value:
    if is_float(dtypes[0]):
        one = b.intrinsic("copysign", b.constant(1.0, x.type), x)
        return b.select(b.compare("ueq", x, 0.0), x, one)  # NaN and the sign of zeros stay
    above = b.select(b.compare("ne", x, 0), b.constant(1, x.type), 0)
    return b.select(b.compare("slt", x, 0), -1, above) if is_signed(dtypes[0]) else above


def _intrinsic(name: str) -> Rule:
    return lambda b, x, **_: b.intrinsic(name, x)


def _round(b: Builder, x: Value, *, rounding_method: int, **_: Any) -> Value:
    return b.intrinsic("roundeven" if int(rounding_method) == 1 else "round", x)


def _function(name: str) -> Rule:
    return lambda b, *x, **_: FUNCTIONS[name](b, *x)


def _square(b: Builder, x: Value, **_: Any) -> Value:
    return x * x


def _one_minus_square(b: Builder, x: Value, **_: Any) -> Value:
    return (1.0 - x) * (x + 1.0)


def _finite(b: Builder, x: Value, **_: Any) -> Value:
    return b.compare("olt", b.intrinsic("fabs", x), float("inf"))


def _not(b: Builder, x: Value, **_: Any) -> Value:
    return b.binary("xor", x, True if x.scalar == "i1" else -1)


def _leading_zeros(b: Builder, x: Value, **_: Any) -> Value:
    name = f"llvm.ctlz.{f'v{x.lanes}' if x.lanes else ''}{x.scalar}"
    b.declare(name, x.type, x.type, "i1")
    return b.value(x.type, f"call {x.type} @{name}({x.type} {x.text}, i1 false)")


def _power(b: Builder, x: Value, y: Value, *, dtypes: Any, **_: Any) -> Value:
    return FUNCTIONS["pow"](b, x, y if is_float(dtypes[1]) else b.cast("sitofp", y, x.scalar))


def convert(b: Builder, x: Value, old: np.dtype, new: np.dtype) -> Value:
    """The same number in another dtype: saturated from floats to integers, NaN 0; integers wrap."""
    held = HELD[str(new)]
    if str(new) == "bool":
        return x if str(old) == "bool" else b.compare("une" if is_float(old) else "ne", x, 0)
    if is_float(old):
        if is_float(new):
            wide = b.cast("fptrunc" if x.scalar == "double" and held == "float" else "fpext", x, held)
            return rounded(b, wide, new)
        name = f"llvm.fpto{'s' if is_signed(new) else 'u'}i.sat"
        target = with_scalar(x.type, held)
        ends = [
            f"{'v' + str(x.lanes) if x.lanes else ''}{s}" for s in (held, {"float": "f32", "double": "f64"}[x.scalar])
        ]
        return b.call(f"{name}.{ends[0]}.{ends[1]}", target, x)
    if is_float(new):
        return rounded(b, b.cast("sitofp" if is_signed(old) else "uitofp", x, held), new)
    small, large = (np.dtype(d).itemsize if str(d) != "bool" else 0 for d in (old, new))
    return b.cast("trunc" if large < small else "sext" if is_signed(old) else "zext", x, held)


def _convert(b: Builder, x: Value, *, dtypes: Any, dtype: np.dtype, **_: Any) -> Value:
    return convert(b, x, dtypes[0], dtype)


def bitcast(b: Builder, x: Value, *, dtypes: Any, dtype: np.dtype, **_: Any) -> Value:
    kept = to_stored(b, x, dtypes[0])
    type_ = with_scalar(kept.type, STORED[str(dtype)])
    same = kept if type_ == kept.type else b.value(type_, f"bitcast {kept.type} {kept.text} to {type_}")
    return from_stored(b, same, dtype)


def _same(b: Builder, x: Value, **_: Any) -> Value:
    return x


RULES: dict[Primitive, Rule] = {
    ew.neg_p: _negative, ew.add_p: _boolean_sum("add", "or"),
    add_any_p: _boolean_sum("add", "or"), ew.sub_p: _binary("sub", "sub"),
    ew.mul_p: _boolean_sum("mul", "and"), ew.div_p: _binary("div", None),
    quotient_p: _division("div"), remainder_p: _division("rem"),
    ew.max_p: _extremum(True), ew.min_p: _extremum(False), cmp.clamp_p: _clamp,
    **{p: _comparison(p.name) for p in (cmp.eq_p, cmp.ne_p, cmp.lt_p, cmp.le_p, cmp.gt_p, cmp.ge_p)},
    cmp.is_finite_p: _finite, cmp.select_n_p: _select, ew.abs_p: _abs, ew.sign_p: _sign, ew.square_p: _square,
    ew.floor_p: _intrinsic("floor"), ew.ceil_p: _intrinsic("ceil"), ew.round_p: _round,
    ew.sqrt_p: _intrinsic("sqrt"), ew.one_minus_square_p: _one_minus_square,
    ew.exp_p: _function("exp"), ew.exp2_p: _function("exp2"), ew.expm1_p: _function("expm1"),
    ew.log_p: _function("log"), ew.log1p_p: _function("log1p"), ew.tanh_p: _function("tanh"),
    ew.logistic_p: _function("logistic"), spc.erf_p: _function("erf"), ew.rsqrt_p: _function("rsqrt"),
    ew.sin_p: _function("sin"), ew.cos_p: _function("cos"), ew.pow_p: _power,
    bitwise.not_p: _not, bitwise.and_p: _binary(None, "and"), bitwise.or_p: _binary(None, "or"),
    bitwise.xor_p: _binary(None, "xor"),
    bits_up_p: _binary(None, "shl"), bits_down_p: _binary(None, "lshr"), sign_down_p: _binary(None, "ashr"),
    bitwise.population_count_p: _intrinsic("ctpop"), bitwise.clz_p: _leading_zeros,
    conv.convert_element_type_p: _convert, conv.stop_gradient_p: _same,
}  # fmt: skip
# What an element costs beside an addition: what is dear is kept rather than computed twice.
COST: dict[Primitive, int] = {
    ew.exp_p: 12, ew.exp2_p: 10, ew.expm1_p: 30, ew.log_p: 16, ew.log1p_p: 30, ew.tanh_p: 24, ew.logistic_p: 16,
    spc.erf_p: 30, ew.sin_p: 40, ew.cos_p: 40, ew.pow_p: 50, ew.div_p: 5, ew.sqrt_p: 6, ew.rsqrt_p: 10,
    quotient_p: 8, remainder_p: 10,
}  # fmt: skip
