"""Elementwise arithmetic and elementary functions: primitives as data, and the functions of `jax.lax`.

Every entry gives the dtypes taken, the NumPy meaning and the derivative; see `builders.py` for the words.
Special functions are in `core/primitives/special/functions.py`, comparisons in `comparison.py`, bits in `bitwise.py`,
conversions in `conversion.py`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import POINTWISE, pointwise
from ...ir.elementwise_typing import FLOAT, INEXACT, INT, NUMBER, ORDERED, check_kind, common_shape, same_dtype, widened
from ...ir.primitive import Linear, Primitive, Zero
from ...ir.types import ArrayType, is_complex, is_integer, is_unsigned, kind
from ...support.call_errors import public
from ...support.errors import ShapeError, UnsupportedError
from ...tracing.trace import typeof
from ...transforms.rule_helpers import like, nary_jvp
from ...transforms.structural_primitives import add_any_p, add_p, neg_p
from .bitwise import and_p, bits_of, shift_right_arithmetic_p, shift_right_logical_p
from .builders import curve, curves, function, nary, operands, real_dtype, stretched, unary
from .comparison import eq_p, lt_p, select_n_p
from .conversion import complex as make_complex
from .conversion import conj, convert_element_type, imag, real

if TYPE_CHECKING:
    from .builders import Binary, Unary


class RoundingMethod(enum.IntEnum):
    """Where `round` sends numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


# ---------------------------------------------------------------------------- sums and products


def _is_linear(x: ArrayLike | Linear) -> bool:
    return type(x) is Linear


sub_p: Primitive = nary(
    "sub", NUMBER, np.subtract, [lambda t, out, x, y: t, lambda t, out, x, y: neg_p.bind(t)],
    transpose=lambda ct, x, y: [ct, neg_p.bind(ct) if _is_linear(y) else None],
)  # fmt: skip
mul_p: Primitive = nary(
    "mul", NUMBER, np.multiply, [lambda t, out, x, y: mul_p.bind(t, y), lambda t, out, x, y: mul_p.bind(x, t)],
    transpose=lambda ct, x, y: [mul_p.bind(ct, y), None] if _is_linear(x) else [None, mul_p.bind(x, ct)],
)  # fmt: skip


def _divide(x: Operand, y: Operand) -> Any:
    if not is_integer(x.dtype):
        return np.divide(x, y)
    quotient, _ = _integer_divide(x, y)
    return quotient


def _remainder(x: Operand, y: Operand) -> Any:
    if not is_integer(x.dtype):
        return np.fmod(x, y)
    _, remainder = _integer_divide(x, y)
    return remainder


def _integer_divide(x: Operand, y: Operand) -> tuple[Any, Any]:
    """Division that truncates; by zero it gives all bits set and the dividend, as XLA defines."""
    dtype = x.dtype
    if dtype.itemsize < 8:
        x, y = x.astype(np.int64), y.astype(np.int64)
    x, y = np.broadcast_arrays(x, y)
    one = np.ones((), y.dtype)
    wraps = (y == -1) if not is_unsigned(y.dtype) else np.zeros(y.shape, bool)
    safe = np.where((y == 0) | wraps, one, y)
    remainder = np.where(wraps, 0, np.where(y == 0, x, np.fmod(x, safe)))
    exact = np.where(y == 0, 0, x - remainder) // safe
    quotient = np.where(wraps, np.negative(x), exact)
    quotient = np.where(y == 0, np.array(-1).astype(y.dtype), quotient)
    return quotient.astype(dtype), remainder.astype(dtype)


div_p: Primitive = nary(
    "div", NUMBER, _divide,
    [lambda t, out, x, y: div_p.bind(t, y), lambda t, out, x, y: neg_p.bind(mul_p.bind(t, div_p.bind(out, y)))],
    transpose=lambda ct, x, y: [div_p.bind(ct, y), None],
)  # fmt: skip
rem_p: Primitive = nary(
    "rem", ("int", "uint", "float"), _remainder,
    [lambda t, out, x, y: t, lambda t, out, x, y: neg_p.bind(mul_p.bind(t, _truncated(div_p.bind(x, y))))],
)  # fmt: skip


def _high_product(x: Operand, y: Operand) -> Any:
    wide = np.uint64 if is_unsigned(x.dtype) else np.int64
    x, y, dtype = x.astype(wide).astype(object), y.astype(wide).astype(object), x.dtype
    return np.asarray(x * y >> bits_of(dtype)).astype(wide).astype(dtype)


def _high_product_by_halves(x: Array, y: Array) -> Any:
    """The upper half of a product, by products of halves, which fit (Knuth, The Art of Computer Programming, 4.3.1)."""
    half = bits_of(typeof(x).dtype) // 2
    low, by = like(x, 2**half - 1), like(x, half)
    down = shift_right_logical_p if is_unsigned(typeof(x).dtype) else shift_right_arithmetic_p
    (x0, x1), (y0, y1) = ((and_p.bind(v, low), down.bind(v, by)) for v in (x, y))
    first = shift_right_logical_p.bind(mul_p.bind(x0, y0), by)
    second = add_p.bind(mul_p.bind(x1, y0), first)
    third = add_p.bind(mul_p.bind(x0, y1), and_p.bind(second, low))
    return add_p.bind(mul_p.bind(x1, y1), add_p.bind(down.bind(second, by), down.bind(third, by)))


mulhi_p: Primitive = nary("mulhi", INT, _high_product, flat=True, expand=_high_product_by_halves)


def _truncated(x: Array) -> Any:
    return mul_p.bind(sign_p.bind(x), floor_p.bind(abs_p.bind(x)))


def _share(t: Array, out: Array, x: Array, y: Array) -> Any:
    """The tangent of x in a maximum or minimum: all of it where x won, half where the two are equal."""
    mine = select_n_p.bind(eq_p.bind(x, out), like(out, 0), like(out, 1))
    number = select_n_p.bind(eq_p.bind(y, out), like(out, 1), like(out, 2))
    return mul_p.bind(t, div_p.bind(mine, number))


max_p: Primitive = nary("max", ORDERED, np.maximum, [_share, lambda t, out, x, y: _share(t, out, y, x)])
min_p: Primitive = nary("min", ORDERED, np.minimum, [_share, lambda t, out, x, y: _share(t, out, y, x)])


# ---------------------------------------------------------------------------- powers


def _pow_typing(x: ArrayType, y: ArrayType) -> ArrayType:
    shape = common_shape("pow", (x, y))
    check_kind("pow", x, NUMBER)
    if not (is_integer(y.dtype) and kind(x.dtype) in INEXACT):
        same_dtype("pow", (x, y))
    return ArrayType(shape, x.dtype, x.weak_type and y.weak_type)


def _power(x: Operand, y: Operand) -> Any:
    if not is_integer(x.dtype):  # one exponent for all would be a square root where it is a half: NaN at -inf
        shape = np.broadcast_shapes(x.shape, y.shape)
        return np.power(x, np.array(np.broadcast_to(y, shape or (1,)), x.dtype)).reshape(shape)
    x, y = np.broadcast_arrays(x, y)
    result, base, left = np.ones_like(x), x.copy(), np.where(y < 0, np.zeros_like(y), y)
    while left.any():
        result = np.where(left & 1, result * base, result)
        base, left = base * base, left >> 1
    # A negative power of an integer is truncated: only 1 and -1 have one that is not zero.
    negative = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0)).astype(x.dtype)
    return np.where(y < 0, negative, result)


def _pow_by_base(t: Array, out: Operand, x: Array, y: Array) -> Any:
    # y x^(y-1); where both are 0 this is 0 times infinity, and x^0 does not depend on x.
    flat = eq_p.bind(y, like(y, 0))
    factor = y
    if is_integer(typeof(y).dtype):
        factor = convert_element_type(y, typeof(x).dtype)
    else:
        flat = and_p.bind(flat, eq_p.bind(x, like(x, 0)))
    lower = select_n_p.bind(flat, sub_p.bind(y, like(y, 1)), like(y, 1))
    slope = select_n_p.bind(flat, mul_p.bind(factor, pow_p.bind(x, lower)), like(x, 0))
    return mul_p.bind(t, slope)


def _pow_by_exponent(t: Array, out: Array, x: Array, y: ArrayLike) -> Any:
    safe = select_n_p.bind(eq_p.bind(x, like(x, 0)), x, like(x, 1))
    return mul_p.bind(t, mul_p.bind(log_p.bind(safe), out))


pow_p: Primitive = curves("pow", NUMBER, _power, [_pow_by_base, _pow_by_exponent], typing=_pow_typing)


def _integer_power(x: Operand, y: int) -> Any:
    n, result, base = abs(y), None, x
    while n:
        if n & 1:
            result = base if result is None else result * base
        n >>= 1
        base = base * base if n else base
    if result is None:
        return np.ones_like(x)
    return 1 / result if y < 0 else result


def _integer_pow_typing(x: ArrayType, *, y: int) -> ArrayType:
    check_kind("integer_pow", x, NUMBER)
    if y < 0:
        check_kind(f"integer_pow with exponent {y}", x, INEXACT)
    return x


def _integer_pow_tangent(t: Array, out: Operand, x: ArrayLike, *, y: int) -> Any:
    if y == 0:
        return mul_p.bind(t, like(t, 0))
    return mul_p.bind(t, mul_p.bind(like(x, y), integer_pow(x, y - 1)))


integer_pow_p: Primitive = Primitive(
    "integer_pow",
    _integer_pow_typing,
    jvp=nary_jvp(lambda: integer_pow_p, _integer_pow_tangent),
    numpy=widened(_integer_power),
    relation=pointwise,
    kind=POINTWISE,
)
square_p: Primitive = unary(
    "square", NUMBER, np.square, lambda t, out, x: mul_p.bind(t, mul_p.bind(like(x, 2), x)),
)  # fmt: skip
sqrt_p: Primitive = curve("sqrt", INEXACT, np.sqrt, lambda t, out, x: mul_p.bind(t, div_p.bind(like(x, 0.5), out)))
rsqrt_p: Primitive = curve(
    "rsqrt", INEXACT, lambda x: 1 / np.sqrt(x),
    lambda t, out, x: mul_p.bind(t, mul_p.bind(like(x, -0.5), div_p.bind(out, x))),
)  # fmt: skip
cbrt_p: Primitive = curve(
    "cbrt", FLOAT, np.cbrt,
    lambda t, out, x: mul_p.bind(t, mul_p.bind(like(x, 1 / 3), integer_pow_p.bind(out, y=-2))),
)  # fmt: skip


# ---------------------------------------------------------------------------- sign and rounding


def _abs_tangent(t: Array, out: Array, x: Array) -> Any:
    if not is_complex(typeof(x).dtype):
        return select_n_p.bind(lt_p.bind(x, like(x, 0)), t, neg_p.bind(t))
    length = select_n_p.bind(eq_p.bind(out, like(out, 0)), out, like(out, 1))
    return div_p.bind(real(mul_p.bind(t, conj(x))), length)


def _sign_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    out = sign_p.bind(x)
    type_ = typeof(out)
    if type(t) is Zero or not is_complex(type_.dtype):
        return out, Zero(type_.tangent())
    # x / |x| turns by the part of the step that is across x: i * out * Im(conj(out) t) / |x|; at 0 the slope is 0.
    length = abs_p.bind(x)
    length = select_n_p.bind(eq_p.bind(length, like(length, 0)), length, like(length, 1))
    across = div_p.bind(imag(mul_p.bind(conj(out), t)), length)
    return out, mul_p.bind(out, make_complex(mul_p.bind(across, like(across, 0)), across))


def _round(x: Operand, rounding_method: int) -> Any:
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), np.copysign(whole, x)).astype(x.dtype)


abs_p: Primitive = unary("abs", NUMBER, np.abs, _abs_tangent, result=real_dtype)
sign_p: Primitive = unary("sign", NUMBER, np.sign, jvp=_sign_jvp)
floor_p: Primitive = unary("floor", FLOAT, np.floor, flat=True)
ceil_p: Primitive = unary("ceil", FLOAT, np.ceil, flat=True)
round_p: Primitive = unary("round", FLOAT, _round, flat=True)


# ---------------------------------------------------------------------------- exponentials and trigonometry


def _one_minus_square(x: Array) -> Any:
    return mul_p.bind(sub_p.bind(like(x, 1), x), add_p.bind(like(x, 1), x))


def _one_plus_square(x: Array) -> Any:
    return add_p.bind(like(x, 1), square_p.bind(x))


def _logistic(x: Operand) -> Any:
    if is_complex(x.dtype):
        return 1 / (1 + np.exp(-x))
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _times(factor: Callable[..., Any]) -> Any:
    """A tangent rule `t * factor(out, x)`."""
    return lambda t, out, x: mul_p.bind(t, factor(out, x))


exp_p: Primitive = curve("exp", INEXACT, np.exp, _times(lambda out, x: out))
exp2_p: Primitive = curve("exp2", INEXACT, np.exp2, _times(lambda out, x: mul_p.bind(like(out, math.log(2)), out)))
expm1_p: Primitive = curve("expm1", INEXACT, np.expm1, _times(lambda out, x: add_p.bind(out, like(out, 1))))
log_p: Primitive = curve("log", INEXACT, np.log, lambda t, out, x: div_p.bind(t, x))
log1p_p: Primitive = curve("log1p", INEXACT, np.log1p, lambda t, out, x: div_p.bind(t, add_p.bind(x, like(x, 1))))
logistic_p: Primitive = curve(
    "logistic", INEXACT, _logistic, _times(lambda out, x: mul_p.bind(out, sub_p.bind(like(out, 1), out)))
)
sin_p: Primitive = curve("sin", INEXACT, np.sin, _times(lambda out, x: cos_p.bind(x)))
cos_p: Primitive = curve("cos", INEXACT, np.cos, _times(lambda out, x: neg_p.bind(sin_p.bind(x))))
tan_p: Primitive = curve("tan", INEXACT, np.tan, _times(lambda out, x: _one_plus_square(out)))
# A primitive, so that its derivative is one factor, -2x: that of the product adds 0 times infinity where asin' is one.
one_minus_square_p: Primitive = curve(
    "one_minus_square", INEXACT, lambda x: (1 - x) * (1 + x), _times(lambda out, x: mul_p.bind(like(x, -2), x)),
    expand=_one_minus_square,
)  # fmt: skip
asin_p: Primitive = curve("asin", INEXACT, np.arcsin, _times(lambda out, x: rsqrt_p.bind(one_minus_square_p.bind(x))))
acos_p: Primitive = curve(
    "acos", INEXACT, np.arccos, _times(lambda out, x: neg_p.bind(rsqrt_p.bind(one_minus_square_p.bind(x)))),
)  # fmt: skip
atan_p: Primitive = curve("atan", INEXACT, np.arctan, lambda t, out, x: div_p.bind(t, _one_plus_square(x)))
sinh_p: Primitive = curve("sinh", INEXACT, np.sinh, _times(lambda out, x: cosh_p.bind(x)))
cosh_p: Primitive = curve("cosh", INEXACT, np.cosh, _times(lambda out, x: sinh_p.bind(x)))
tanh_p: Primitive = curve("tanh", INEXACT, np.tanh, _times(lambda out, x: _one_minus_square(out)))
asinh_p: Primitive = curve("asinh", INEXACT, np.arcsinh, _times(lambda out, x: rsqrt_p.bind(_one_plus_square(x))))
acosh_p: Primitive = curve(
    "acosh", INEXACT, np.arccosh,
    _times(lambda out, x: mul_p.bind(rsqrt_p.bind(sub_p.bind(x, like(x, 1))), rsqrt_p.bind(add_p.bind(x, like(x, 1))))),
)  # fmt: skip
atanh_p: Primitive = curve("atanh", INEXACT, np.arctanh, lambda t, out, x: div_p.bind(t, one_minus_square_p.bind(x)))


def _squared_distance(y: Array, x: Array) -> Any:
    return add_p.bind(square_p.bind(y), square_p.bind(x))


def _atan2(y: Operand, x: Operand) -> Any:
    if not is_complex(y.dtype):
        return np.arctan2(y, x)
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


atan2_p: Primitive = curves(
    "atan2", INEXACT, _atan2,
    [
        lambda t, out, y, x: mul_p.bind(t, div_p.bind(x, _squared_distance(y, x))),
        lambda t, out, y, x: mul_p.bind(t, div_p.bind(neg_p.bind(y), _squared_distance(y, x))),
    ],
)  # fmt: skip
nextafter_p: Primitive = nary("nextafter", FLOAT, np.nextafter, wide=False)


# ---------------------------------------------------------------------------- functions of jax.lax


def check_accuracy(name: str, accuracy: Any) -> None:
    """Refuse what is neither an `AccuracyMode` nor a `Tolerance` (`accuracy.py`); the best result meets any."""
    if accuracy is not None and not getattr(accuracy, "says_accuracy", False):
        raise UnsupportedError(f"{name} does not take accuracy={accuracy!r}", "an AccuracyMode or a Tolerance")


class UnaryWithAccuracy(Protocol):
    """A function of one array that takes an `accuracy`."""

    __name__: str

    def __call__(self, x: ArrayLike, *, accuracy: Any = None) -> Array: ...


def _unary_with_accuracy(primitive: Primitive, doc: str) -> UnaryWithAccuracy:
    name = primitive.name

    def one(x: Any, *, accuracy: Any = None) -> Any:
        check_accuracy(name, accuracy)
        return primitive.bind(x)

    one.__name__ = one.__qualname__ = name
    one.__doc__ = doc
    return one


neg: Unary = function(neg_p, 1, "Elementwise -x, of any number.")
sign: Unary = function(sign_p, 1, "Elementwise sign: -1, 0 or 1; x / abs(x) for complex x.")
abs: Unary = function(abs_p, 1, "Elementwise absolute value; real for complex x.")  # noqa: A001
floor: Unary = function(floor_p, 1, "Elementwise largest integer not above x, of floats.")
ceil: Unary = function(ceil_p, 1, "Elementwise smallest integer not below x, of floats.")
square: Unary = function(square_p, 1, "Elementwise x * x, of any number.")
exp: UnaryWithAccuracy = _unary_with_accuracy(exp_p, "Elementwise exponential, of floats or complex numbers.")
exp2: UnaryWithAccuracy = _unary_with_accuracy(exp2_p, "Elementwise 2 to the power x, of floats or complex numbers.")
expm1: UnaryWithAccuracy = _unary_with_accuracy(expm1_p, "Elementwise exp(x) - 1, exact near 0.")
log: UnaryWithAccuracy = _unary_with_accuracy(log_p, "Elementwise natural logarithm, of floats or complex numbers.")
log1p: UnaryWithAccuracy = _unary_with_accuracy(log1p_p, "Elementwise log(1 + x), exact near 0.")
logistic: UnaryWithAccuracy = _unary_with_accuracy(logistic_p, "Elementwise 1 / (1 + exp(-x)).")
sqrt: UnaryWithAccuracy = _unary_with_accuracy(sqrt_p, "Elementwise square root.")
rsqrt: UnaryWithAccuracy = _unary_with_accuracy(rsqrt_p, "Elementwise 1 / sqrt(x).")
cbrt: UnaryWithAccuracy = _unary_with_accuracy(cbrt_p, "Elementwise cube root, of floats.")
sin: UnaryWithAccuracy = _unary_with_accuracy(sin_p, "Elementwise sine of radians.")
cos: UnaryWithAccuracy = _unary_with_accuracy(cos_p, "Elementwise cosine of radians.")
tan: UnaryWithAccuracy = _unary_with_accuracy(tan_p, "Elementwise tangent of radians.")
tanh: UnaryWithAccuracy = _unary_with_accuracy(tanh_p, "Elementwise hyperbolic tangent.")
asin: Unary = function(asin_p, 1, "Elementwise inverse sine, in radians.")
acos: Unary = function(acos_p, 1, "Elementwise inverse cosine, in radians.")
atan: Unary = function(atan_p, 1, "Elementwise inverse tangent, in radians.")
sinh: Unary = function(sinh_p, 1, "Elementwise hyperbolic sine.")
cosh: Unary = function(cosh_p, 1, "Elementwise hyperbolic cosine.")
asinh: Unary = function(asinh_p, 1, "Elementwise inverse hyperbolic sine.")
acosh: Unary = function(acosh_p, 1, "Elementwise inverse hyperbolic cosine.")
atanh: Unary = function(atanh_p, 1, "Elementwise inverse hyperbolic tangent.")
add: Binary = function(add_p, 2, "Elementwise x + y, of one dtype and one shape (scalars aside).")
sub: Binary = function(sub_p, 2, "Elementwise x - y, of one dtype and one shape (scalars aside).")
div: Binary = function(div_p, 2, "Elementwise x / y; of integers the quotient, truncated (all bits set where y is 0).")
rem: Binary = function(rem_p, 2, "Elementwise remainder of truncated division, of the sign of x.")
mulhi: Binary
mulhi = function(mulhi_p, 2, "Elementwise upper half of the product of integers: the bits that x * y has no room for.")
max: Binary
max = function(max_p, 2, "Elementwise maximum, NaN where either is; complex numbers in lexicographic order.")  # noqa: A001
min: Binary
min = function(min_p, 2, "Elementwise minimum, NaN where either is; complex numbers in lexicographic order.")  # noqa: A001
atan2: Binary = function(atan2_p, 2, "Elementwise angle of the point (y, x), in radians.")
_nextafter = function(nextafter_p, 2, "", "nextafter")
add_any: Binary = function(add_any_p, 2, "Elementwise x + y: the sum of cotangents.")


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise next floating number after x1 in the direction of x2.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.nextafter(jnp.array([0.0]), jnp.array([1.0]))
    Array([1.e-45], dtype=float32)
    """
    return _nextafter(x1, x2)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: Any = None) -> Array:
    """Elementwise x * y, of one dtype and one shape (scalars aside); `out_dtype` converts the operands first.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.mul(jnp.array([1.0, 2.0]), 3.0)
    Array([3., 6.], dtype=float32)
    """
    x, y = operands("mul", x, y)
    if out_dtype is not None:
        x, y = convert_element_type(x, out_dtype), convert_element_type(y, out_dtype)
    try:
        return mul_p.bind(x, y)
    except ShapeError as error:
        return mul_p.bind(*stretched(error, x, y))


def pow(x: ArrayLike, y: ArrayLike) -> Array:  # noqa: A001
    """Elementwise x to the power y; y is of the dtype of x, or an integer.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.pow(jnp.array([2.0, 3.0]), 2)
    Array([4., 9.], dtype=float32)
    """
    if type(y) is int and kind(typeof(x).dtype) in INEXACT:
        return integer_pow(x, y)
    if not is_integer(typeof(y).dtype):
        x, y = operands("pow", x, y)
    try:
        return pow_p.bind(x, y)
    except ShapeError as error:
        return pow_p.bind(*stretched(error, x, y))


@public
def integer_pow(x: ArrayLike, y: int) -> Array:
    """Elementwise x to a power y known as a Python integer, by repeated multiplication.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.integer_pow(jnp.array([2.0, 3.0]), -1)
    Array([0.5       , 0.33333334], dtype=float32)
    """
    return x if y == 1 else square_p.bind(x) if y == 2 else integer_pow_p.bind(x, y=int(y))


def reciprocal(x: ArrayLike) -> Array:
    """Elementwise 1 / x.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.reciprocal(jnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return integer_pow(x, -1)


@public
def round(x: ArrayLike, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Array:  # noqa: A001
    """Elementwise nearest integer of floats; `rounding_method` says where halves go.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.round(jnp.array([0.5, 1.5])), lax.round(jnp.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
    (Array([1., 2.], dtype=float32), Array([0., 2.], dtype=float32))
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


def log2(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise logarithm to base 2.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.log2(jnp.array([1.0, 8.0]))
    Array([0., 3.], dtype=float32)
    """
    check_accuracy("log2", accuracy)
    found = log_p.bind(x)
    if not is_complex(typeof(found).dtype):
        return div_p.bind(found, like(x, math.log(2)))
    parts = real(found), imag(found)  # each by itself: an infinite one leaves the other as it is
    return make_complex(*(div_p.bind(part, like(part, math.log(2))) for part in parts))


PRIMITIVES: tuple[Primitive, ...] = (
    neg_p, sign_p, abs_p, floor_p, ceil_p, round_p, square_p, integer_pow_p, sqrt_p, rsqrt_p, cbrt_p,
    exp_p, exp2_p, expm1_p, log_p, log1p_p, logistic_p, sin_p, cos_p, tan_p, asin_p, acos_p, atan_p,
    sinh_p, cosh_p, tanh_p, asinh_p, acosh_p, atanh_p, one_minus_square_p,
    add_p, add_any_p, sub_p, mul_p, mulhi_p, div_p, rem_p, max_p, min_p, pow_p, atan2_p, nextafter_p,
)  # fmt: skip

__all__ = [
    "RoundingMethod", "abs", "abs_p", "acos", "acos_p", "acosh", "acosh_p", "add", "add_p", "asin", "asin_p",
    "asinh", "asinh_p", "atan", "atan2", "atan2_p", "atan_p", "atanh", "atanh_p", "cbrt", "cbrt_p", "ceil",
    "ceil_p", "cos", "cos_p", "cosh", "cosh_p", "div", "div_p", "exp", "exp2", "exp2_p", "exp_p", "expm1",
    "expm1_p", "floor", "floor_p", "integer_pow", "integer_pow_p", "log", "log1p", "log1p_p", "log2", "log_p",
    "logistic", "logistic_p", "max", "max_p", "min", "min_p", "mul", "mul_p", "mulhi", "mulhi_p", "neg", "neg_p",
    "nextafter", "nextafter_p", "pow", "pow_p", "reciprocal", "rem", "rem_p", "round", "round_p", "rsqrt", "rsqrt_p",
    "sign", "sign_p", "sin", "sin_p", "sinh", "sinh_p", "sqrt", "sqrt_p", "square", "square_p", "sub", "sub_p", "tan",
    "tan_p", "tanh", "tanh_p",
]  # fmt: skip
