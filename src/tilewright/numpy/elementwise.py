"""The elementwise functions: a table of unary ones, the binary ones with NumPy's promotion.

Those that NumPy has methods of (`add.reduce`) are objects in `src/tilewright/numpy/protocols/binary_ufuncs.py`; the
modules of this package call these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .. import lax
from ..core.arrays import operators
from ..core.ir.types import FLOAT32, is_key
from ..core.support.call_errors import public
from ..core.support.errors import DtypeError
from ..core.tracing.trace import Scalar
from .create import full, zeros_like
from .dtypes import finfo
from .util import (
    Array,
    ArrayLike,
    astype,
    broadcast,
    broadcast_to_shape,
    dtype_of,
    inline_jit,
    is_bool,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_unsigned,
    no_out,
    promote,
    promote_dtypes,
    promote_dtypes_inexact,
    promote_inexact,
    shape_of,
    strong,
    typeof,
    value,
    weak_of_numbers,
)


class UnaryFunction(Protocol):
    """An elementwise function of one array."""

    __name__: str
    __qualname__: str

    def __call__(self, x: ArrayLike, /) -> Array: ...


class BinaryFunction(Protocol):
    """An elementwise function of two arrays."""

    __name__: str
    __qualname__: str

    def __call__(self, x: ArrayLike, y: ArrayLike, /) -> Array: ...


def _finish(function: Any, name: str, doc: str, example: str = "") -> Any:
    lines = [">>> from tilewright import numpy as jnp", *example.splitlines()] if example else []
    text = "".join(f"\n    {line}" for line in lines)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}\n{text}\n    " if lines else doc
    return function


# ---------------------------------------------------------------------------- one operand


def _inexact_unary(name: str, primitive: Any, doc: str, at: float, gives: float) -> UnaryFunction:
    def function(x: ArrayLike, /) -> Array:
        dtype = typeof(x).dtype
        if dtype is not FLOAT32 and not is_inexact(dtype):
            (x,) = promote_dtypes_inexact(x)
        return primitive.bind(x)

    return _finish(function, name, doc + "; integers become floats.", f">>> float(jnp.{name}({at}))\n{gives}")


exp: UnaryFunction = _inexact_unary("exp", lax.exp_p, "The exponential", 0.0, 1.0)
exp2: UnaryFunction = _inexact_unary("exp2", lax.exp2_p, "2 to the power of `x`", 3.0, 8.0)
expm1: UnaryFunction = _inexact_unary("expm1", lax.expm1_p, "`exp(x) - 1`, exact near zero", 0.0, 0.0)
log: UnaryFunction = _inexact_unary("log", lax.log_p, "The natural logarithm", 1.0, 0.0)
log1p: UnaryFunction = _inexact_unary("log1p", lax.log1p_p, "`log(1 + x)`, exact near zero", 0.0, 0.0)
sqrt: UnaryFunction = _inexact_unary("sqrt", lax.sqrt_p, "The square root", 4.0, 2.0)
cbrt: UnaryFunction = _inexact_unary("cbrt", lax.cbrt_p, "The cube root", 8.0, 2.0)
sin: UnaryFunction = _inexact_unary("sin", lax.sin_p, "The sine", 0.0, 0.0)
cos: UnaryFunction = _inexact_unary("cos", lax.cos_p, "The cosine", 0.0, 1.0)
tan: UnaryFunction = _inexact_unary("tan", lax.tan_p, "The tangent", 0.0, 0.0)
sinh: UnaryFunction = _inexact_unary("sinh", lax.sinh_p, "The hyperbolic sine", 0.0, 0.0)
cosh: UnaryFunction = _inexact_unary("cosh", lax.cosh_p, "The hyperbolic cosine", 0.0, 1.0)
tanh: UnaryFunction = _inexact_unary("tanh", lax.tanh_p, "The hyperbolic tangent", 0.0, 0.0)
asin: UnaryFunction
arcsin: UnaryFunction
asin = arcsin = _inexact_unary("arcsin", lax.asin_p, "The inverse sine", 0.0, 0.0)
acos: UnaryFunction
arccos: UnaryFunction
acos = arccos = _inexact_unary("arccos", lax.acos_p, "The inverse cosine", 1.0, 0.0)
atan: UnaryFunction
arctan: UnaryFunction
atan = arctan = _inexact_unary("arctan", lax.atan_p, "The inverse tangent", 0.0, 0.0)
asinh: UnaryFunction
arcsinh: UnaryFunction
asinh = arcsinh = _inexact_unary("arcsinh", lax.asinh_p, "The inverse hyperbolic sine", 0.0, 0.0)
acosh: UnaryFunction
arccosh: UnaryFunction
acosh = arccosh = _inexact_unary("arccosh", lax.acosh_p, "The inverse hyperbolic cosine", 1.0, 0.0)
atanh: UnaryFunction
arctanh: UnaryFunction
atanh = arctanh = _inexact_unary("arctanh", lax.atanh_p, "The inverse hyperbolic tangent", 0.0, 0.0)


def _on_floats(name: str, primitive: Any, doc: str, gives: float, **params: Any) -> UnaryFunction:
    def function(x: ArrayLike, /) -> Array:
        x = value(x, name)
        dtype = dtype_of(x)
        if is_complex(dtype):
            raise DtypeError(f"{name} has no meaning for complex numbers, got {typeof(x).show()}", "take `real` first")
        return x if not is_float(dtype) else primitive.bind(x, **params)

    return _finish(function, name, doc + "; integers are as they are.", f">>> float(jnp.{name}(1.5))\n{gives}")


floor: UnaryFunction = _on_floats("floor", lax.floor_p, "The largest integer not above `x`", 1.0)
ceil: UnaryFunction = _on_floats("ceil", lax.ceil_p, "The smallest integer not below `x`", 2.0)


def rint(x: ArrayLike, /) -> Array:
    """Round to the nearest integer, halves to the even one.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.rint(2.5))
    2.0
    """
    exact = not is_inexact(dtype_of(x))
    (x,) = promote_dtypes_inexact(x)
    if exact:
        return strong(x)
    if is_complex(dtype_of(x)):
        return lax.complex(rint(lax.real(x)), rint(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


@inline_jit("decimals")
def _round(a: Any, decimals: int) -> Array:
    found = operators.round_to(value(a, "round"), decimals)
    return weak_of_numbers(found, found) if decimals and is_inexact(dtype_of(found)) else found


@public
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:  # noqa: A001
    """Round to a number of decimals, halves to the even digit.

    >>> from tilewright import numpy as jnp
    >>> jnp.round(jnp.array([1.25, 2.5]), 1)
    Array([1.2, 2.5], dtype=float32)
    """
    no_out(out, "round")
    return _round(a, decimals)


around = round


@inline_jit()
def trunc(x: ArrayLike) -> Array:
    """Drop the fraction, towards zero; integers are as they are.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.trunc(-1.5))
    -1.0
    """
    x = value(x, "trunc")
    if not is_float(dtype_of(x)):
        return floor(x)
    return where3(lax.lt(x, 0), lax.ceil(x), lax.floor(x))


def where3(condition: Any, x: Any, y: Any) -> Array:
    """`where` of three arguments, promoted and broadcast."""
    x, y = promote_dtypes(x, y)
    condition, x, y = broadcast([condition, x, y])
    shape = shape_of(condition) or shape_of(x) or shape_of(y)
    if shape:  # select takes cases of one shape; its predicate may be a scalar
        x, y = broadcast_to_shape(x, shape), broadcast_to_shape(y, shape)
    return lax.select_n_p.bind(condition, y, x)


def absolute(x: ArrayLike, /) -> Array:
    """The absolute value; of a complex number its modulus.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.abs(-2.0))
    2.0
    """
    dtype = dtype_of(x)
    return value(x) if is_bool(dtype) or is_unsigned(dtype) else lax.abs_p.bind(x)


abs = absolute  # noqa: A001


def real_operand(name: str, x: Array) -> Array:
    """An operand of a function that has no meaning for complex numbers; DtypeError if it is one."""
    if is_complex(dtype_of(x)):
        raise DtypeError(f"{name} of {dtype_of(x)}", f"{name} takes real numbers: take the real part or `abs` first")
    return x


def fabs(x: ArrayLike, /) -> Array:
    """The absolute value as a float; DtypeError for complex numbers.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.fabs(-2))
    2.0
    """
    return lax.abs_p.bind(real_operand("fabs", *promote_dtypes_inexact(x)))


@inline_jit()
def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 by the sign, 0 without one; `x / abs(x)` of a complex number.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.sign(-3.0))
    -1.0
    """
    if not is_inexact(dtype_of(x)):
        return lax.sign_p.bind(x)
    found = lax.sign_p.bind(x)
    if is_complex(dtype_of(x)):
        zero = lax.full_like(x, 0)
        return where3(lax.eq(x, zero), zero, found)
    # -0 becomes 0 without a comparison, so that sparse arrays stay sparse: 1 - |1 - 1|, 1 - |-1 - 1|, 0 - |-0 - 0|.
    size = lax.abs_p.bind(found)
    return lax.sub_p.bind(size, lax.abs_p.bind(lax.sub_p.bind(found, size)))


def positive(x: ArrayLike, /) -> Array:
    """The argument itself, as an array.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.positive(3.0))
    3.0
    """
    return value(x)


def square(x: ArrayLike, /) -> Array:
    """The square.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.square(3.0))
    9.0
    """
    x = value(x, "square")
    return lax.square_p.bind(astype(x, np.dtype(np.int32)) if is_bool(dtype_of(x)) else x)


def reciprocal(x: ArrayLike, /) -> Array:
    """`1 / x`; integers become floats.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.reciprocal(2.0))
    0.5
    """
    (x,) = promote_dtypes_inexact(x)
    return lax.div(1, x) if typeof(x).shape or not isinstance(x, float | complex) else 1 / value(x)


def _scaled(name: str, doc: str, factor: float, at: float, gives: float) -> UnaryFunction:
    def function(x: ArrayLike, /) -> Array:
        (x,) = promote_dtypes_inexact(x)
        return weak_of_numbers(lax.mul(x, factor), x)

    return _finish(function, name, doc, f">>> float(jnp.{name}({at}))\n{gives}")


deg2rad: UnaryFunction
radians: UnaryFunction
deg2rad = radians = _scaled("deg2rad", "Degrees to radians.", math.pi / 180, 0.0, 0.0)
rad2deg: UnaryFunction
degrees: UnaryFunction
rad2deg = degrees = _scaled("rad2deg", "Radians to degrees.", 180 / math.pi, 0.0, 0.0)


@inline_jit()
def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2; integers become floats.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.log2(8.0))
    3.0
    """
    (x,) = promote_dtypes_inexact(x)
    return lax.log2(x)


@inline_jit()
def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10; integers become floats.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.log10(1.0))
    0.0
    """
    (x,) = promote_dtypes_inexact(x)
    return strong(_over(log(x), math.log(10)))


def _over(x: Array, divisor: float) -> Array:
    """x / divisor, part by part: an infinite part leaves the other as it is."""
    if not is_complex(dtype_of(x)):
        return x / divisor
    return lax.complex(lax.real(x) / divisor, lax.imag(x) / divisor)


@inline_jit()
def sinc(x: ArrayLike, /) -> Array:
    """`sin(pi x) / (pi x)`, 1 at zero, 0 at infinities of the real axis; all derivatives at zero are right.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.sinc(0.0))
    1.0
    """
    (x,) = promote_dtypes_inexact(x)
    scaled = lax.mul(x, math.pi)
    small = less(absolute(x), 0.1)  # where the quotient's derivatives would cancel, its power series
    far = logical_and(isinf(real(x)), isfinite(imag(x)))
    safe = where3(logical_or(small, far), 1.0, scaled)
    series: Any = 1.0
    squared = lax.square(where3(small, scaled, 0.0))
    for n in (156, 110, 72, 42, 20, 6):
        series = 1 - squared * (1 / n) * series
    return weak_of_numbers(where3(small, series, where3(far, 0.0, lax.sin(safe) / safe)), x)


def real(val: ArrayLike, /) -> Array:
    """The real part.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.real(1 + 2j))
    1.0
    """
    val = value(val)
    return lax.real_p.bind(val) if is_complex(dtype_of(val)) else val


def imag(val: ArrayLike, /) -> Array:
    """The imaginary part; zeros for real numbers.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.imag(1 + 2j))
    2.0
    """

    val = value(val)
    return lax.imag_p.bind(val) if is_complex(dtype_of(val)) else zeros_like(val)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate.

    >>> from tilewright import numpy as jnp
    >>> complex(jnp.conj(1 + 2j))
    (1-2j)
    """
    x = value(x)
    return lax.conj(x) if is_complex(dtype_of(x)) else x


conj = conjugate


@inline_jit("deg")
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The argument of complex numbers, in radians or degrees.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.angle(1.0))
    0.0
    """
    strongly = not (is_complex(dtype_of(z)) or is_inexact(dtype_of(z)) and shape_of(z))
    (z,) = promote_dtypes_inexact(z)
    result = lax.atan2(imag(z), real(z))
    result = strong(result) if strongly else result
    return rad2deg(result) if deg else result


def _sign_bits(x: Array) -> Array:
    """Floats as signed integers of the same bits."""
    return lax.bitcast_convert_type(x, np.dtype(f"int{dtype_of(x).itemsize * 8}"))


@inline_jit()
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: of negative numbers and of -0.0. DtypeError for complex numbers.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.signbit(-0.0))
    True
    """
    x = real_operand("signbit", value(x))
    dtype = dtype_of(x)
    if is_bool(dtype):
        x = astype(x, np.dtype(np.int32))
    return lax.lt(_sign_bits(x) if is_float(dtype) else x, 0)


def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of bits set in the magnitude of an integer.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.bitwise_count(7))
    3
    """
    x = value(x)
    if is_bool(dtype_of(x)):
        return astype(x, np.dtype(np.uint8))
    return astype(lax.population_count(absolute(x)), np.dtype(np.uint8))


def _bits_only(name: str, x: Any) -> Any:
    dtype = dtype_of(x)
    if not is_bool(dtype) and not is_integer(dtype):
        raise DtypeError(f"{name} takes integers or booleans, got {typeof(x).show()}", "cast with `astype`")
    return x


def bitwise_not(x: ArrayLike, /) -> Array:
    """Flip every bit; of booleans, the negation.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.invert(0))
    -1
    """
    return lax.not_p.bind(_bits_only("bitwise_not", x))


bitwise_invert: Callable[..., Array]
invert = bitwise_invert = bitwise_not


def as_boolean(x: Any) -> Array:
    """Whether elements are not 0; of booleans these. DtypeError for random keys."""
    dtype = typeof(x).dtype
    if is_key(dtype):
        raise DtypeError("a random key is neither true nor false", "use `random.key_data` to see its bits")
    return x if is_bool(dtype) else lax.ne(x, np.zeros((), dtype)[()])


def logical_not(x: ArrayLike, /) -> Array:
    """Whether `x` is zero or false.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.logical_not(0))
    True
    """
    return lax.not_p.bind(as_boolean(x))


@inline_jit()
def isfinite(x: ArrayLike, /) -> Array:
    """Whether numbers are neither infinite nor nan.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.isfinite(jnp.inf))
    False
    """
    x = value(x)
    if is_complex(dtype_of(x)):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.is_finite(x) if is_float(dtype_of(x)) else _constant(x, True)


def _constant(x: Array, truth: bool) -> Array:
    return full(shape_of(x), truth, bool)


@inline_jit()
def isinf(x: ArrayLike, /) -> Array:
    """Whether numbers are infinite, of either sign.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.isinf(-jnp.inf))
    True
    """
    x = value(x)
    if is_complex(dtype_of(x)):
        return lax.bitwise_or(isinf(lax.real(x)), isinf(lax.imag(x)))
    return strong(lax.eq(lax.abs(x), np.inf)) if is_float(dtype_of(x)) else _constant(x, False)


def isnan(x: ArrayLike, /) -> Array:
    """Whether numbers are nan.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.isnan(jnp.nan))
    True
    """
    x = value(x)
    return lax.ne_p.bind(x, x) if is_inexact(dtype_of(x)) else _constant(x, False)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether numbers are positive infinity.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.isposinf(jnp.inf))
    True
    """
    no_out(out, "isposinf")
    x = value(x)
    return strong(lax.eq(x, np.inf)) if is_float(dtype_of(x)) else _constant(x, False)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether numbers are negative infinity.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.isneginf(jnp.inf))
    False
    """
    no_out(out, "isneginf")
    x = value(x)
    return strong(lax.eq(x, -np.inf)) if is_float(dtype_of(x)) else _constant(x, False)


def isreal(x: ArrayLike) -> Array:
    """Whether numbers have no imaginary part.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.isreal(1 + 0j))
    True
    """
    return logical_not(iscomplex(x))


def iscomplex(x: ArrayLike) -> Array:
    """Whether numbers have an imaginary part.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.iscomplex(1j))
    True
    """
    return as_boolean(imag(x))


@inline_jit("copy")
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Replace nan by `nan` and the infinities by the largest numbers, or those given.

    >>> from tilewright import numpy as jnp
    >>> jnp.nan_to_num(jnp.array([jnp.nan, 1.0]))
    Array([0., 1.], dtype=float32)
    """
    x = value(x, "nan_to_num")
    dtype = dtype_of(x)
    if is_complex(dtype):
        parts = [nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (lax.real(x), lax.imag(x))]
        return lax.complex(*parts)
    if not is_float(dtype):
        return x

    limits = finfo(dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    x = where3(isnan(x), astype(nan, dtype), x)
    x = where3(isposinf(x), astype(np.asarray(high) if posinf is None else high, dtype), x)
    return strong(where3(isneginf(x), astype(np.asarray(low) if neginf is None else low, dtype), x))


# ---------------------------------------------------------------------------- two operands


def _binary(primitive: Any, on_bools: Any = None, inexact: bool = False) -> BinaryFunction:
    """The function of two promoted operands; `on_bools` is what it is for booleans."""

    def function(x: ArrayLike, y: ArrayLike, /) -> Array:
        if typeof(x) is not typeof(y) or typeof(x).dtype is not FLOAT32 or type(x) in Scalar:
            x, y = promote_inexact(x, y) if inexact else promote(x, y)
        if on_bools is not None and is_bool(dtype_of(x)):
            return on_bools.bind(x, y)
        return primitive.bind(x, y)

    return function


add: BinaryFunction = _binary(lax.add_p, lax.or_p)
multiply: BinaryFunction = _binary(lax.mul_p, lax.and_p)


def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    x, y = promote(x, y)
    if is_bool(dtype_of(x)):
        raise DtypeError("subtract has no meaning for booleans", "use `logical_xor`, or cast with `astype`")
    return lax.sub_p.bind(x, y)


def negative(x: ArrayLike, /) -> Array:
    if is_bool(dtype_of(x)):
        raise DtypeError("negative has no meaning for booleans", "use `logical_not`")
    return lax.neg_p.bind(x)


def _bitwise(primitive: Any, name: str) -> BinaryFunction:
    def function(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = promote(x, y)
        return primitive.bind(_bits_only(name, x), y)

    return function


def _logical(primitive: Any) -> BinaryFunction:
    def function(x: ArrayLike, y: ArrayLike, /) -> Array:
        pair = [as_boolean(x), as_boolean(y)]
        operators.check_ranks([typeof(x) for x in pair])
        return primitive.bind(*broadcast(pair))

    return function


maximum: BinaryFunction
minimum: BinaryFunction
maximum, minimum = _binary(lax.max_p), _binary(lax.min_p)
bitwise_and: BinaryFunction
bitwise_or: BinaryFunction
bitwise_and, bitwise_or = _bitwise(lax.and_p, "bitwise_and"), _bitwise(lax.or_p, "bitwise_or")
bitwise_xor: BinaryFunction = _bitwise(lax.xor_p, "bitwise_xor")
logical_and: BinaryFunction
logical_or: BinaryFunction
logical_xor: BinaryFunction
logical_and, logical_or, logical_xor = _logical(lax.and_p), _logical(lax.or_p), _logical(lax.xor_p)


@inline_jit()
def logaddexp(x: Any, y: Any) -> Array:
    x, y = promote_inexact(x, y)
    if is_complex(dtype_of(x)):
        return _complex_logaddexp(x, y)
    gap = lax.sub_p.bind(x, y)
    # Equal infinities differ by nan; the gap is made harmless there so that no nan enters a derivative.
    undefined = lax.bitwise_and(isnan(gap), lax.eq_p.bind(x, y))
    safe = where3(undefined, 0.0, gap)
    # One comparison for both: each side is the whole function, so that derivatives are right where they meet.
    second = lax.lt(safe, 0)
    top, below = where3(second, y, x), where3(second, safe, lax.neg(safe))
    return where3(undefined, x + y, top + lax.log1p(lax.exp(below)))


def _complex_logaddexp(x: Array, y: Array) -> Array:
    """The sum is taken relative to the operand with the larger real part, so that it does not overflow."""
    second = lax.lt(lax.real(x), lax.real(y))
    top, below = where3(second, y, x), where3(second, x - y, y - x)
    below = where3(lax.eq_p.bind(x, y), lax.mul(below, 0), below)
    below = where3(isnan(below), 0.0, below)
    found = top + lax.log1p(lax.exp(below))
    turns = lax.imag(found) / (2 * math.pi)
    return lax.complex(lax.real(found), lax.imag(found) - 2 * math.pi * lax.round(turns))


def logaddexp2(x: Any, y: Any) -> Array:
    given = x, y
    x, y = promote_inexact(x, y)
    result = logaddexp(lax.mul(x, math.log(2)), lax.mul(y, math.log(2))) / math.log(2)
    return weak_of_numbers(result, *given)


divide: Any
divide = true_divide = _finish(
    _binary(lax.div_p, inexact=True),
    "divide",
    "The quotient; integers become floats.",
    ">>> float(jnp.divide(1, 2))\n0.5",
)
arctan2: Any
arctan2 = atan2 = _finish(
    _binary(lax.atan2_p, inexact=True), "arctan2", "The angle of the point `(y, x)`, from -pi to pi.",
    ">>> float(jnp.arctan2(0.0, 1.0))\n0.0",
)  # fmt: skip
nextafter: Any = _finish(
    _binary(lax.nextafter_p, inexact=True), "nextafter", "The next float after `x` towards `y`.",
    ">>> float(jnp.nextafter(jnp.float32(1), jnp.float32(2))) > 1\nTrue",
)  # fmt: skip


def _comparison(name: str, primitive: Any, doc: str, on_complex: str = "") -> BinaryFunction:
    def function(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = promote(x, y)
        if on_complex and is_complex(dtype_of(x)):
            return _lexicographic(primitive, getattr(lax, on_complex), x, y)
        return primitive.bind(x, y)

    return _finish(
        function, name, doc, f">>> bool(jnp.{name}(1, 1))\n{name in ('equal', 'less_equal', 'greater_equal')}"
    )


def _lexicographic(primitive: Any, strict: Any, x: Array, y: Array) -> Array:
    same = lax.eq(lax.real(x), lax.real(y))
    return lax.select_n_p.bind(same, strict(lax.real(x), lax.real(y)), primitive.bind(lax.imag(x), lax.imag(y)))


equal: BinaryFunction = _comparison("equal", lax.eq_p, "Whether two are equal.")
not_equal: BinaryFunction = _comparison("not_equal", lax.ne_p, "Whether two differ.")
less: BinaryFunction
less = _comparison("less", lax.lt_p, "Whether `x < y`; complex numbers by real part, then imaginary.", "lt")
less_equal: BinaryFunction = _comparison(
    "less_equal", lax.le_p, "Whether `x <= y`; complex numbers by real part, then imaginary.", "lt"
)
greater: BinaryFunction
greater = _comparison("greater", lax.gt_p, "Whether `x > y`; complex numbers by real part, then imaginary.", "gt")
greater_equal: BinaryFunction = _comparison(
    "greater_equal", lax.ge_p, "Whether `x >= y`; complex numbers by real part, then imaginary.", "gt"
)


@inline_jit()
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger of two, nan only where both are.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.fmax(jnp.nan, 1.0))
    1.0
    """
    x1, x2 = promote(x1, x2)
    return where3(lax.bitwise_or(greater(x1, x2), isnan(x2)), x1, x2)


@inline_jit()
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller of two, nan only where both are.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.fmin(jnp.nan, 1.0))
    1.0
    """
    x1, x2 = promote(x1, x2)
    return where3(lax.bitwise_or(less(x1, x2), isnan(x2)), x1, x2)


__all__ = [
    "abs", "absolute", "acos", "acosh", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "around", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_count", "bitwise_invert",
    "bitwise_not", "cbrt", "ceil", "conj", "conjugate", "cos", "cosh", "deg2rad", "degrees", "divide", "equal",
    "exp", "exp2", "expm1", "fabs", "floor", "fmax", "fmin", "greater", "greater_equal", "imag", "invert",
    "iscomplex", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "less", "less_equal", "log",
    "log10", "log1p", "log2", "logical_not", "nan_to_num", "nextafter", "not_equal", "positive", "rad2deg",
    "radians", "real", "reciprocal", "rint", "round", "sign", "signbit", "sin", "sinc", "sinh", "sqrt", "square",
    "tan", "tanh", "true_divide", "trunc",
]  # fmt: skip
