"""StableHLO of the elementwise families: most are one operation, named in a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, Dtype, is_bool, is_complex, is_float, is_inexact, is_integer, is_unsigned
from ...core.primitives.elementwise.arithmetic import (
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
    integer_pow_p,
    log1p_p,
    log_p,
    logistic_p,
    max_p,
    min_p,
    mul_p,
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
from ...core.primitives.elementwise.bitwise import (
    and_p,
    clz_p,
    not_p,
    or_p,
    population_count_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    xor_p,
)
from ...core.primitives.elementwise.builders import real_dtype
from ...core.primitives.elementwise.comparison import (
    clamp_p,
    eq_p,
    ge_p,
    gt_p,
    is_finite_p,
    le_p,
    lt_p,
    ne_p,
    select_n_p,
)
from ...core.primitives.elementwise.conversion import (
    bitcast_convert_type_p,
    complex_p,
    conj_p,
    convert_element_type_p,
    imag_p,
    real_p,
    reduce_precision_p,
    stop_gradient_p,
)
from ...core.primitives.special.functions import digamma_p, erf_inv_p, erf_p, erfc_p, lgamma_p, polygamma_p, zeta_p
from .emit import Emitter, Operand, Rule
from .special_values import poles
from .special_values.limits import LIMITS, with_limits
from .special_values.signed_zeros import SYMMETRIES, reflected

if TYPE_CHECKING:
    from ...core.ir.array import ArrayLike

# Primitive -> operation of one type of operands; scalar operands are broadcast by the rule.
PLAIN = {
    neg_p: "stablehlo.negate", floor_p: "stablehlo.floor", ceil_p: "stablehlo.ceil",
    sqrt_p: "stablehlo.sqrt", rsqrt_p: "stablehlo.rsqrt", cbrt_p: "stablehlo.cbrt",
    exp_p: "stablehlo.exponential", expm1_p: "stablehlo.exponential_minus_one",
    log_p: "stablehlo.log", log1p_p: "stablehlo.log_plus_one", logistic_p: "stablehlo.logistic",
    tan_p: "stablehlo.tan", tanh_p: "stablehlo.tanh",
    asin_p: "chlo.asin", acos_p: "chlo.acos", atan_p: "chlo.atan", sinh_p: "chlo.sinh", cosh_p: "chlo.cosh",
    asinh_p: "chlo.asinh", acosh_p: "chlo.acosh", atanh_p: "chlo.atanh",
    erf_p: "chlo.erf", erfc_p: "chlo.erfc", erf_inv_p: "chlo.erf_inv", lgamma_p: "chlo.lgamma",
    digamma_p: "chlo.digamma", polygamma_p: "chlo.polygamma", zeta_p: "chlo.zeta",
    add_p: "stablehlo.add", add_any_p: "stablehlo.add", sub_p: "stablehlo.subtract", mul_p: "stablehlo.multiply",
    div_p: "stablehlo.divide", rem_p: "stablehlo.remainder", atan2_p: "stablehlo.atan2",
    nextafter_p: "chlo.next_after",
    not_p: "stablehlo.not", and_p: "stablehlo.and", or_p: "stablehlo.or", xor_p: "stablehlo.xor",
    shift_left_p: "stablehlo.shift_left", shift_right_logical_p: "stablehlo.shift_right_logical",
    shift_right_arithmetic_p: "stablehlo.shift_right_arithmetic",
    population_count_p: "stablehlo.popcnt", clz_p: "stablehlo.count_leading_zeros",
    complex_p: "stablehlo.complex", real_p: "stablehlo.real", imag_p: "stablehlo.imag",
    is_finite_p: "stablehlo.is_finite",
}  # fmt: skip


def spread(e: Emitter, operands: Sequence[Operand], shape: Sequence[int]) -> list[Operand]:
    """Operands of one shape: scalars are broadcast."""
    return [e.broadcast(o, shape) for o in operands]


def one_operation(name: str) -> Rule:
    """The rule of a primitive that is one operation."""

    def rule(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
        return e.op(name, spread(e, operands, out.shape), out)

    return rule


def scalar(e: Emitter, value: ArrayLike, like: ArrayType) -> Operand:
    """A constant of the shape and dtype of a type."""
    return e.constant(value, ArrayType(like.shape, like.dtype))


# ---------------------------------------------------------------------------- arithmetic


def _abs(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    (x,) = operands
    return x if is_unsigned(x.dtype) else e.op("stablehlo.abs", [x], out)


def _sign(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    (x,) = operands
    if not is_unsigned(x.dtype):
        return e.op("stablehlo.sign", [x], out)
    return e.op("stablehlo.minimum", [x, scalar(e, 1, out)], out)


def _circular(name: str, part: str, slope: str) -> Rule:
    """Sine and cosine; of complex numbers on an axis, a part of the result is 0 however large the other is."""

    def rule(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
        found = e.op(name, operands, out)
        if not is_complex(out.dtype):
            return found
        real = ArrayType(out.shape, real_dtype(out.dtype))
        x, y = (e.op(f"stablehlo.{p}", operands, real) for p in ("real", "imag"))
        parts = {p: e.op(f"stablehlo.{p}", [found], real) for p in ("real", "imag")}
        flat = e.op("stablehlo.multiply", [y, e.op(slope, [x], real)], real)
        for which, at, zero in (("imag", y, flat), (part, x, x)):
            if name == "stablehlo.cosine":
                zero = e.op("stablehlo.negate", [zero], real)
            on_axis = compare(e, "EQ", at, scalar(e, 0, real))
            parts[which] = e.op("stablehlo.select", [on_axis, zero, parts[which]], real)
        return e.op("stablehlo.complex", [parts["real"], parts["imag"]], out)

    return rule


def _round(e: Emitter, operands: list[Operand], out: ArrayType, rounding_method: int) -> Operand:
    return e.op("stablehlo.round_nearest_even" if rounding_method else "stablehlo.round_nearest_afz", operands, out)


def _square(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    return e.op("stablehlo.multiply", [operands[0], operands[0]], out)


def _exp2(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    if is_complex(out.dtype):
        part = ArrayType(out.shape, real_dtype(out.dtype))
        parts = (e.op(f"stablehlo.{p}", operands, part) for p in ("real", "imag"))
        scaled = [e.op("stablehlo.multiply", [p, scalar(e, math.log(2), part)], part) for p in parts]
        return e.op("stablehlo.exponential", [e.op("stablehlo.complex", scaled, out)], out)
    # 2 ** x as a power is exact at integers, which exp(x log 2) is not.
    return e.op("stablehlo.power", [scalar(e, 2.0, out), operands[0]], out)


def _pow(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    x, y = spread(e, operands, out.shape)
    y = e.convert(y, out.dtype)
    if is_integer(out.dtype):
        return _integer_power(e, x, y, out)
    found = e.op("stablehlo.power", [x, y], out)
    return _power_of_zero(e, x, y, found) if is_complex(out.dtype) else found


def _power_of_zero(e: Emitter, x: Operand, y: Operand, found: Operand) -> Operand:
    """A complex power, 0 where the base is and the exponent's real part is positive: XLA's is NaN there."""
    real = ArrayType(found.shape, real_dtype(found.dtype))
    positive = compare(e, "GT", e.op("stablehlo.real", [y], real), scalar(e, 0, real))
    zero = scalar(e, 0, found.type)
    fits = e.op("stablehlo.and", [compare(e, "EQ", x, zero), positive], positive.type)
    return e.op("stablehlo.select", [fits, zero, found], found.type)


def _integer_power(e: Emitter, x: Operand, y: Operand, out: ArrayType) -> Operand:
    """Integers to the power of integers, six bits of the exponent at a time: XLA looks at no more of them."""
    bits = np.iinfo(out.dtype).bits - (not is_unsigned(out.dtype))
    zero, low, six = (scalar(e, n, out) for n in (0, 63, 6))
    negative = compare(e, "LT", y, zero)  # such a power is XLA's, in the first step
    left = e.op("stablehlo.select", [negative, zero, y], out)
    first = e.op("stablehlo.select", [negative, y, e.op("stablehlo.and", [y, low], out)], out)
    result = e.op("stablehlo.power", [x, first], out)
    for _ in range(6, bits, 6):
        x = _integer_pow(e, [x], out, 64)
        left = e.op("stablehlo.shift_right_logical", [left, six], out)
        step = e.op("stablehlo.power", [x, e.op("stablehlo.and", [left, low], out)], out)
        result = e.op("stablehlo.multiply", [result, step], out)
    return result


def _integer_pow(e: Emitter, operands: list[Operand], out: ArrayType, y: int) -> Operand:
    base, n, result = operands[0], abs(y), None
    while n:
        if n & 1:
            result = base if result is None else e.op("stablehlo.multiply", [result, base], out)
        n >>= 1
        if n:
            base = e.op("stablehlo.multiply", [base, base], out)
    if result is None:
        return scalar(e, 1, out)
    return e.op("stablehlo.divide", [scalar(e, 1, out), result], out) if y < 0 else result


def _extremum(name: str, direction: str) -> Rule:
    def rule(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
        x, y = spread(e, operands, out.shape)
        if not is_complex(out.dtype):
            return e.op(name, [x, y], out)
        return e.op("stablehlo.select", [compare(e, direction, x, y), x, y], out)

    return rule


# ---------------------------------------------------------------------------- comparison and selection


def compare(e: Emitter, direction: str, x: Operand, y: Operand, total: bool = False) -> Operand:
    """An elementwise comparison; `total` orders -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    out = ArrayType(x.shape, np.dtype(bool))
    if is_complex(x.dtype) and direction not in ("EQ", "NE"):
        return _compare_complex(e, direction, x, y, out)
    kind = "FLOAT" if is_inexact(x.dtype) else "UNSIGNED" if is_unsigned(x.dtype) or is_bool(x.dtype) else "SIGNED"
    kind = "TOTALORDER" if total and is_float(x.dtype) else kind
    attributes = (
        f"compare_type = #stablehlo<comparison_type {kind}>, "
        f"comparison_direction = #stablehlo<comparison_direction {direction}>"
    )
    return e.op("stablehlo.compare", [x, y], out, attributes)


def _compare_complex(e: Emitter, direction: str, x: Operand, y: Operand, out: ArrayType) -> Operand:
    """Lexicographic order: by real part, then by imaginary part."""
    part = ArrayType(x.shape, np.dtype(np.float32 if x.dtype == np.complex64 else np.float64))
    (xr, yr), (xi, yi) = ([e.op(f"stablehlo.{p}", [v], part) for v in (x, y)] for p in ("real", "imag"))
    first, second = compare(e, direction[0] + "T", xr, yr), compare(e, direction, xi, yi)
    return e.op("stablehlo.select", [compare(e, "EQ", xr, yr), second, first], out)


def _compare(direction: str) -> Rule:
    def rule(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
        x, y = spread(e, operands, out.shape)
        return compare(e, direction, x, y)

    return rule


def _select_n(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    which, *cases = operands
    cases = spread(e, cases, out.shape)
    result = cases[0]
    for i, case in enumerate(cases[1:], 1):
        chosen = which
        if not is_bool(which.dtype):
            chosen = compare(e, "GE", which, scalar(e, i, which.type))
        result = e.op("stablehlo.select", [chosen, case, result], out)
    return result


def _clamp(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    low, x, high = spread(e, operands, out.shape)
    if is_complex(out.dtype):
        x = e.op("stablehlo.select", [compare(e, "LT", x, low), low, x], out)
        return e.op("stablehlo.select", [compare(e, "GT", x, high), high, x], out)
    return e.op("stablehlo.clamp", [low, x, high], out)


# ---------------------------------------------------------------------------- conversion


def _convert(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
    return convert(e, operands[0], out.dtype)


def convert(e: Emitter, x: Operand, dtype: Dtype) -> Operand:
    """`convert_element_type`: to a boolean by comparison with zero; a complex number gives its real part."""
    if x.dtype == dtype:
        return x
    if is_bool(dtype):
        return compare(e, "NE", x, scalar(e, 0, x.type))
    if is_complex(x.dtype) and not is_complex(dtype):
        x = e.op("stablehlo.real", [x], ArrayType(x.shape, np.float32 if x.dtype == np.complex64 else np.float64))
    return e.convert(x, dtype)


def _bitcast(e: Emitter, operands: list[Operand], out: ArrayType, new_dtype: np.dtype[Any]) -> Operand:
    return e.op("stablehlo.bitcast_convert", operands, out)


def _reduce_precision(
    e: Emitter, operands: list[Operand], out: ArrayType, exponent_bits: int, mantissa_bits: int
) -> Operand:
    attributes = f"exponent_bits = {exponent_bits} : i32, mantissa_bits = {mantissa_bits} : i32"
    return e.op("stablehlo.reduce_precision", operands, out, attributes)


def _conj(e: Emitter, operands: list[Operand], out: ArrayType, input_dtype: Dtype) -> Operand:
    (x,) = operands
    part = ArrayType(x.shape, np.float32 if out.dtype == np.complex64 else np.float64)
    if is_complex(x.dtype):
        real = e.op("stablehlo.real", [x], part)
        imag = e.op("stablehlo.negate", [e.op("stablehlo.imag", [x], part)], part)
    else:
        real, imag = e.convert(x, part.dtype), scalar(e, -0.0, part)
    return e.op("stablehlo.complex", [real, imag], out)


def _complex(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    part = np.float32 if out.dtype == np.complex64 else np.float64
    return e.op("stablehlo.complex", [e.convert(o, np.dtype(part)) for o in spread(e, operands, out.shape)], out)


def _identity(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
    return operands[0]


RULES: dict[Primitive, Rule] = {name: one_operation(operation) for name, operation in PLAIN.items()} | {
    sin_p: _circular("stablehlo.sine", "real", "stablehlo.cosine"),
    cos_p: _circular("stablehlo.cosine", "imag", "stablehlo.sine"),
    abs_p: _abs, sign_p: _sign, round_p: _round, square_p: _square, exp2_p: _exp2, pow_p: _pow,
    integer_pow_p: _integer_pow,
    max_p: _extremum("stablehlo.maximum", "GT"), min_p: _extremum("stablehlo.minimum", "LT"),
    eq_p: _compare("EQ"), ne_p: _compare("NE"), lt_p: _compare("LT"), le_p: _compare("LE"), gt_p: _compare("GT"),
    ge_p: _compare("GE"), select_n_p: _select_n, clamp_p: _clamp, convert_element_type_p: _convert,
    bitcast_convert_type_p: _bitcast, reduce_precision_p: _reduce_precision, conj_p: _conj, complex_p: _complex,
    stop_gradient_p: _identity,
}  # fmt: skip
RULES |= {p: ends(RULES[p], compare) for p, ends in ((zeta_p, poles.zeta), (polygamma_p, poles.polygamma))}
RULES |= {name: reflected(RULES[name], symmetry, compare) for name, symmetry in SYMMETRIES.items()}
RULES |= {name: with_limits(RULES[name], rows, compare) for name, rows in LIMITS.items()}
