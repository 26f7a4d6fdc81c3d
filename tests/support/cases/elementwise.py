"""Cases of the elementwise families: arithmetic, comparisons, bits, conversions, special functions."""

from typing import Any

from tests.support.cases import Case
from tilewright.core.ir.types import ArrayType, as_dtype
from tilewright.core.primitives.elementwise import arithmetic as e
from tilewright.core.primitives.elementwise import bitwise
from tilewright.core.primitives.elementwise import comparison as c
from tilewright.core.primitives.elementwise import conversion as v
from tilewright.core.primitives.special import functions as s

SHAPE = (2, 3)


def _type(dtype: str, shape: tuple[int, ...] = SHAPE) -> ArrayType:
    return ArrayType(shape, as_dtype(dtype))


def _cases(primitive: Any, arity: int, dtypes: str, low: float = -2.0, high: float = 2.0, **how: Any) -> list[Case]:
    """One case per dtype on operands of one shape, and one with scalars beside an array for each operand."""
    found = [Case(primitive, (_type(d),) * arity, low=low, high=high, **how) for d in dtypes.split()]
    first = dtypes.split()[0]
    if arity > 1:
        for i in range(arity):
            types = tuple(_type(first, SHAPE if i == j else ()) for j in range(arity))
            found.append(Case(primitive, types, low=low, high=high, **{**how, "note": f"scalars-but-{i}"}))
    return found


_INEXACT = "float32 bfloat16 float16 complex64"
_FLOAT = "float32 bfloat16"
_NUMBER = "float32 bfloat16 complex64 int32 uint8 int4"
_COARSE = {"tolerance": 1e-4}

ARITHMETIC = [
    *_cases(e.add_p, 2, _NUMBER), *_cases(e.add_any_p, 2, "float32 complex64"), *_cases(e.sub_p, 2, _NUMBER),
    *_cases(e.mul_p, 2, _NUMBER), *_cases(e.mulhi_p, 2, "int32 uint32 int8 uint8 uint16", 0, 2**32 - 1),
    *_cases(e.div_p, 2, "float32 complex64", 0.5, 2.0),
    *_cases(e.div_p, 2, "int32 uint8 int8", -9, 9), *_cases(e.rem_p, 2, "int32 uint8 int8", -9, 9),
    *_cases(e.rem_p, 2, "float32 float16", 0.5, 4.0), *_cases(e.max_p, 2, "float32 bfloat16 complex64 int32 bool"),
    *_cases(e.min_p, 2, "float32 bfloat16 complex64 int32 bool"), *_cases(e.atan2_p, 2, "float32"),
    *_cases(e.pow_p, 2, "float32 complex64", 0.3, 2.0, **_COARSE), *_cases(e.pow_p, 2, "int32 uint8", 0, 4),
    Case(e.pow_p, (_type("float32"), _type("int32")), low=-3.0, high=3.0, note="integer-exponent"),
    *_cases(e.nextafter_p, 2, "float32 bfloat16"),
    *_cases(e.neg_p, 1, _NUMBER), *_cases(e.square_p, 1, _NUMBER), *_cases(e.abs_p, 1, "float32 complex64 int32 uint8"),
    *_cases(e.sign_p, 1, "float32 complex64 int32 uint8", 0.1, 2.0),
    *_cases(e.sign_p, 1, "float32", -2.0, 2.0, note="both"),
    *_cases(e.floor_p, 1, _FLOAT, -3.3, 3.3), *_cases(e.ceil_p, 1, _FLOAT, -3.3, 3.3),
    *[Case(e.round_p, (_type(d),), {"rounding_method": m}, low=-3.3, high=3.3, note=f"method-{int(m)}")
      for m in e.RoundingMethod for d in _FLOAT.split()],
    *[Case(e.integer_pow_p, (_type(d),), {"y": y}, low=0.3, note=f"y{y}")
      for y, d in [(3, "float32"), (5, "int32"), (-2, "float32"), (-1, "complex64"), (0, "float32"), (7, "bfloat16")]],
]  # fmt: skip

ELEMENTARY = [
    *_cases(e.exp_p, 1, _INEXACT), *_cases(e.exp2_p, 1, _INEXACT), *_cases(e.expm1_p, 1, _INEXACT, **_COARSE),
    *_cases(e.log_p, 1, _INEXACT, 0.1, 3.0), *_cases(e.log1p_p, 1, _INEXACT, -0.9, 3.0, **_COARSE),
    *_cases(e.sqrt_p, 1, _INEXACT, 0.1, 3.0), *_cases(e.rsqrt_p, 1, _INEXACT, 0.1, 3.0),
    *_cases(e.one_minus_square_p, 1, _INEXACT),
    *_cases(e.cbrt_p, 1, _FLOAT, 0.1, 3.0),
    *_cases(e.logistic_p, 1, _INEXACT), *_cases(e.sin_p, 1, _INEXACT), *_cases(e.cos_p, 1, _INEXACT),
    *_cases(e.tan_p, 1, _INEXACT, -1.2, 1.2), *_cases(e.sinh_p, 1, _INEXACT), *_cases(e.cosh_p, 1, _INEXACT),
    *_cases(e.tanh_p, 1, _INEXACT), *_cases(e.asin_p, 1, _INEXACT, -0.9, 0.9),
    *_cases(e.acos_p, 1, _INEXACT, -0.9, 0.9),
    *_cases(e.atan_p, 1, _INEXACT), *_cases(e.asinh_p, 1, _INEXACT), *_cases(e.acosh_p, 1, _INEXACT, 1.2, 3.0),
    *_cases(e.atanh_p, 1, _INEXACT, -0.9, 0.9),
]  # fmt: skip

COMPARISON = [
    *[case for p in (c.eq_p, c.ne_p, c.lt_p, c.le_p, c.gt_p, c.ge_p)
      for case in _cases(p, 2, "int32 float32 bfloat16 complex64 bool uint8", -2, 2)],
    *_cases(c.is_finite_p, 1, _FLOAT),
    *_cases(c.clamp_p, 3, "float32 int32 bfloat16"),
    *[Case(c.select_n_p, (_type("bool", w), _type(d), _type(d)), note=f"which-{len(w)}")
      for w in (SHAPE, ()) for d in ("float32", "int32", "complex64")],
    Case(c.select_n_p, (_type("bool"), _type("float32", ()), _type("float32")), note="scalar-case"),
    Case(c.select_n_p, (_type("int32"), *(_type("float32"),) * 3), low=0, high=2, note="three"),
    Case(c.select_n_p, (_type("int32", ()), *(_type("float32"),) * 3), low=0, high=2, note="three-scalar"),
    *[case for p in (bitwise.and_p, bitwise.or_p, bitwise.xor_p) for case in _cases(p, 2, "int32 bool uint8")],
    *_cases(bitwise.not_p, 1, "int32 bool uint8 int4"),
    *[case for p in (bitwise.shift_left_p, bitwise.shift_right_logical_p, bitwise.shift_right_arithmetic_p)
      for case in _cases(p, 2, "int32 uint32 int8 uint8", -9, 40)],
    *_cases(bitwise.population_count_p, 1, "int32 uint8", -99, 99), *_cases(bitwise.clz_p, 1, "int32 uint8", -99, 99),
]  # fmt: skip

_CONVERSIONS = [
    ("float32", "int32"), ("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "bool"), ("int32", "float32"),
    ("bool", "float32"), ("float32", "complex64"), ("complex64", "float32"), ("int32", "uint8"), ("float32", "uint8"),
    ("float32", "float8_e4m3fn"), ("float32", "float16"), ("int32", "int4"), ("float32", "float64"), ("bool", "int8"),
]  # fmt: skip
_BITS = [("float32", "int32", SHAPE), ("int32", "float32", SHAPE), ("float32", "uint8", SHAPE),
         ("int8", "int32", (2, 4)),
         ("bfloat16", "uint16", SHAPE), ("int16", "int8", ())]  # fmt: skip


def _convert(old: str, new: str) -> Case:
    # Rounding to a narrower float is a step function to a finite difference, and a complex number's
    # imaginary part is dropped: neither has the derivative that the rule states.
    smooth = {"float32", "float64", "complex64"} >= {old, new} and (old, new) != ("float32", "float64")
    params = {"new_dtype": as_dtype(new), "weak_type": False}
    return Case(v.convert_element_type_p, (_type(old),), params, high=9.0, grad=(smooth,), note=f"to-{new}")


CONVERSION = [
    *[_convert(old, new) for old, new in _CONVERSIONS],
    *[Case(v.bitcast_convert_type_p, (_type(old, s),), {"new_dtype": as_dtype(new)}, low=-9, high=9, note=f"to-{new}")
      for old, new, s in _BITS],
    *[Case(v.reduce_precision_p, (_type("float32"),), {"exponent_bits": x, "mantissa_bits": m}, grad=(False,),
           note=f"{x}-{m}") for x, m in ((5, 10), (8, 7), (4, 3), (8, 23))],
    *_cases(v.real_p, 1, "complex64"), *_cases(v.imag_p, 1, "complex64"), *_cases(v.complex_p, 2, "float32"),
    Case(v.conj_p, (_type("complex64"),), {"input_dtype": as_dtype("complex64")}),
    Case(v.conj_p, (_type("float32"),), {"input_dtype": as_dtype("float32")}),
    *_cases(v.stop_gradient_p, 1, "float32 int32", grad=(False,)),
]  # fmt: skip

_SECOND = {"grad": (False, True)}
SPECIAL = [
    *_cases(s.erf_p, 1, _FLOAT), *_cases(s.erfc_p, 1, _FLOAT), *_cases(s.erf_inv_p, 1, _FLOAT, -0.9, 0.9),
    *_cases(s.lgamma_p, 1, _FLOAT, 0.2, 5.0), *_cases(s.digamma_p, 1, _FLOAT, 0.2, 5.0, **_COARSE),
    Case(s.polygamma_p, (_type("float32", ()), _type("float32")), low=1.0, high=1.0, tolerance=1e-4, **_SECOND),
    *_cases(s.zeta_p, 2, "float32", 1.5, 5.0, tolerance=1e-4),
    *_cases(s.igamma_p, 2, _FLOAT, 0.3, 4.0, **_COARSE), *_cases(s.igammac_p, 2, _FLOAT, 0.3, 4.0, **_COARSE),
    *_cases(s.igamma_grad_a_p, 2, "float32", 0.3, 4.0, tolerance=1e-4, **_SECOND),
    *_cases(s.regularized_incomplete_beta_p, 3, _FLOAT, 0.1, 0.9, grad=(False, False, True), **_COARSE),
    *_cases(s.bessel_i0e_p, 1, _FLOAT, -9, 12.0), *_cases(s.bessel_i1e_p, 1, _FLOAT, -9, 12.0),
]  # fmt: skip

CASES = [*ARITHMETIC, *ELEMENTARY, *COMPARISON, *CONVERSION, *SPECIAL]
