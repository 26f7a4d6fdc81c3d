"""Elementwise functions that take several steps: division with rounding, powers, parts of floats, comparison."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .. import lax
from ..core.arrays import operators
from ..core.ir.array import DTypeLike
from ..core.ir.types import KeyDtype, as_dtype
from ..core.primitives.custom.custom_derivatives import custom_jvp
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, DtypeError
from .create import asarray
from .elementwise import (
    _bits_only,
    equal,
    isfinite,
    isinf,
    isnan,
    less_equal,
    logical_and,
    maximum,
    minimum,
    nextafter,
    real_operand,
    signbit,
    where3,
)
from .util import (
    Array,
    ArrayLike,
    as_weak_as,
    astype,
    broadcast,
    dtype_of,
    inline_jit,
    is_bool,
    is_complex,
    is_inexact,
    is_integer,
    is_unsigned,
    no_out,
    promote,
    promote_dtypes,
    promote_inexact,
    shape_of,
    strong,
    value,
    weak_of_numbers,
)

# ---------------------------------------------------------------------------- division


def _ints(x: Array) -> Array:
    return astype(x, np.dtype(np.int32)) if is_bool(dtype_of(x)) else x


def _no_complex(name: str, *args: ArrayLike) -> None:
    if any(is_complex(dtype_of(x)) for x in args):
        raise DtypeError(f"{name} has no meaning for complex numbers", "take `real` first")


@inline_jit()
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of floor division, with the sign of the divisor.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.remainder(-7, 3))
    2
    """
    _no_complex("remainder", x1, x2)
    return operators.remainder(x1, x2)


mod = remainder


@inline_jit()
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of truncating division, with the sign of the dividend.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.fmod(-7, 3))
    -1
    """
    x1, x2 = promote(x1, x2)
    _no_complex("fmod", x1)
    x1, x2 = _ints(x1), _ints(x2)
    if is_inexact(dtype_of(x1)):
        return lax.rem_p.bind(x1, x2)
    zero = lax.eq(x2, 0)
    return where3(zero, 0, lax.rem_p.bind(x1, where3(zero, 1, x2)))


@inline_jit()
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient rounded down.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.floor_divide(-7, 3))
    -3
    """
    _no_complex("floor_divide", x1, x2)
    return operators.floor_divide(x1, x2)


@inline_jit()
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:  # noqa: A001
    """Floor division and its remainder.

    >>> from tilewright import numpy as jnp
    >>> [int(v) for v in jnp.divmod(7, 3)]
    [2, 1]
    """
    _no_complex("divmod", x1, x2)
    return operators.divmod_(x1, x2)


@inline_jit()
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """The fraction and the whole part, both with the sign of `x`.

    >>> from tilewright import numpy as jnp
    >>> [float(v) for v in jnp.modf(-2.5)]
    [-0.5, -2.0]
    """
    no_out(out, "modf")
    (x,) = promote_inexact(x)
    whole = where3(lax.ge(x, 0), lax.floor(x), lax.ceil(x))
    return as_weak_as(where3(isinf(x), copysign(0.0, x), x - whole), x), whole


# ---------------------------------------------------------------------------- powers


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1` to the power of `x2`; a negative power of an integer is truncated.

    A Python integer as exponent is repeated multiplication, whose derivative is exact everywhere.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.power(2.0, 3))
    8.0
    """
    if isinstance(x2, (int, np.integer)) and not isinstance(x2, (bool, np.bool_)):
        return operators.power(value(x1), int(x2)) if is_inexact(dtype_of(x1)) or x2 >= 0 else _power(x1, x2)
    return _power(x1, x2)


pow = power  # noqa: A001


@inline_jit()
def _power(x1: Any, x2: Any) -> Array:
    return operators.power(x1, x2)


@inline_jit()
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x` to the power of `y` in floating point.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.float_power(2, -1))
    0.5
    """
    return lax.pow_p.bind(*promote_inexact(x, y))


@inline_jit()
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`sqrt(x1**2 + x2**2)` without overflow.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.hypot(3, 4))
    5.0
    """
    given = x1, x2
    x1, x2 = promote_inexact(x1, x2)
    _no_complex("hypot", x1)
    a, b = lax.abs(x1), lax.abs(x2)
    infinite = lax.bitwise_or(*broadcast([isinf(a), isinf(b)]))
    # One comparison for both, so that each side is the whole function and derivatives are right where a = b.
    second = lax.lt(a, b)
    large, small = where3(second, b, a), where3(second, a, b)
    nothing = lax.eq(large, 0)
    ratio = small / where3(nothing, 1.0, large)
    result = where3(nothing, (a + b) / 2, large * lax.sqrt(1 + ratio * ratio))  # at the origin both count alike
    return weak_of_numbers(where3(infinite, np.inf, result), *given)


@inline_jit()
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 for negative `x1`, 1 for positive, `x2` at zero. DtypeError for complex numbers.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.heaviside(0.0, 0.5))
    0.5
    """
    given = x1, x2
    x1, x2 = promote_inexact(x1, x2)
    real_operand("heaviside", x1)
    step = where3(lax.lt(x1, 0), 0.0, where3(lax.gt(x1, 0), 1.0, x2))
    return weak_of_numbers(where3(isnan(x1), x1, step), *given)


# ---------------------------------------------------------------------------- parts of floats


@inline_jit()
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The magnitude of `x1` with the sign of `x2`. DtypeError for complex numbers.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.copysign(1.0, -0.0))
    -1.0
    """
    x1, x2 = promote_inexact(x1, x2)
    size = lax.abs(real_operand("copysign", x1))
    return as_weak_as(where3(signbit(x2), -size, size), x1, x2)


@inline_jit()
def spacing(x: ArrayLike, /) -> Array:
    """The distance to the next float of larger magnitude, with the sign of the argument; that of float16, as NumPy
    has it, to the next larger float, which is positive.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.spacing(jnp.float32(1.0))) == 2 ** -23
    True
    """
    (x,) = promote_inexact(x)
    if dtype_of(x) == np.float16:
        return nextafter(x, np.float16(np.inf)) - x
    size, limits = lax.abs(x), ml_dtypes.finfo(dtype_of(x))
    # Processors may take numbers below the least normal one as 0: their spacing is known without a subtraction.
    step = nextafter(size, limits.dtype.type(np.inf)) - size
    return copysign(where3(lax.lt(size, limits.tiny), limits.smallest_subnormal, step), x)


_LAYOUT = {2: (np.uint16, 10, 15), 4: (np.uint32, 23, 127), 8: (np.uint64, 52, 1023)}


def _layout(dtype: Any) -> tuple[Any, int, int]:
    bits, mantissa, bias = _LAYOUT[dtype.itemsize]
    return np.dtype(bits), mantissa, bias


def _wide(x: Array) -> Array:
    """Narrow floats as float32, where their bits are easier to take apart."""
    return astype(x, np.dtype(np.float32)) if dtype_of(x).itemsize < 4 else x


def _power_of_two(n: Array, dtype: DTypeLike) -> Array:
    """`2**n` exactly, for integers within the exponents of a float dtype."""
    bits, mantissa, bias = _layout(dtype)
    return lax.bitcast_convert_type(lax.shift_left(astype(n + bias, bits), np.asarray(mantissa, bits)[()]), dtype)


@inline_jit()
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 * 2**x2`, exactly wherever that is a float.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.ldexp(0.5, 4))
    8.0
    """
    if not is_integer(dtype_of(x2)) and not is_bool(dtype_of(x2)):
        raise DtypeError(f"ldexp takes an integer exponent, got {dtype_of(x2)}", "cast it with `astype`")
    (x,) = promote_inexact(x1)
    dtype = dtype_of(x)
    x, n = broadcast([_wide(x), astype(_within_int32(x2), np.dtype(np.int32))])
    limit = _layout(dtype_of(x))[2] - 1
    # Three factors reach from the largest float to the smallest subnormal; a first factor alone overflows.
    for _ in range(3):
        part = minimum(maximum(n, -limit), limit)
        x, n = x * _power_of_two(part, dtype_of(x)), n - part
    return astype(x, dtype)


def _within_int32(n: Any) -> Any:
    """Integers, those far from 0 brought nearer to it where their dtype has more than int32."""
    if dtype_of(n).itemsize <= 4 - is_unsigned(dtype_of(n)):
        return n
    n = minimum(n, 2**30)
    return n if is_unsigned(dtype_of(n)) else maximum(n, -(2**30))


@custom_jvp
def _mantissa(x: Any, mantissa: Any, power: Any) -> Array:
    """The mantissa of x, found from its bits, with the derivative of `x / 2**power`."""
    return mantissa


_mantissa.defjvps(lambda t, out, x, mantissa, power: ldexp(t, -power), None, None)


@inline_jit()
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Mantissa in [0.5, 1) and integer exponent: `x = mantissa * 2**exponent`.

    >>> from tilewright import numpy as jnp
    >>> [float(v) for v in jnp.frexp(8.0)]
    [0.5, 4.0]
    """
    (x,) = promote_inexact(x)
    dtype, x = dtype_of(x), _wide(x)
    bits, mantissa, bias = _layout(dtype_of(x))
    places = bits.itemsize * 8 - 1
    width = (1 << (places - mantissa)) - 1

    def number(n: int) -> Any:
        return np.asarray(n, bits)[()]

    # In bits alone, since processors may take subnormal floats as zero.
    raw = lax.bitcast_convert_type(x, bits)
    exponent = lax.bitwise_and(lax.shift_right_logical(raw, number(mantissa)), number(width))
    low = lax.bitwise_and(raw, number((1 << mantissa) - 1))
    zero_exponent, zero_low = lax.eq(exponent, number(0)), lax.eq(low, number(0))
    subnormal = lax.bitwise_and(zero_exponent, lax.bitwise_not(zero_low))
    shift = where3(subnormal, lax.clz(low) - number(places - mantissa), number(0))
    low = lax.bitwise_and(lax.shift_left(low, shift), number((1 << mantissa) - 1))
    signed = [astype(n, np.dtype(np.int32)) for n in (exponent, shift)]
    power = where3(subnormal, 1 - signed[1], signed[0]) - (bias - 1)
    sign = lax.bitwise_and(raw, number(1 << places))
    half = lax.bitwise_or(lax.bitwise_or(sign, low), number((bias - 1) << mantissa))
    half = lax.bitcast_convert_type(half, dtype_of(x))
    plain = lax.bitwise_or(lax.bitwise_and(zero_exponent, zero_low), lax.bitwise_not(lax.is_finite(x)))
    power = where3(plain, np.int32(0), power)
    return astype(_mantissa(x, where3(plain, x, half), power), dtype), power


# ---------------------------------------------------------------------------- integers


@inline_jit()
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.gcd(12, 18))
    6
    """
    given = x1, x2
    x1, x2 = broadcast(promote_dtypes(x1, x2), scalars=False)
    _integers_only("gcd", x1)
    start = (_magnitude(x1), _magnitude(x2))

    def step(pair: Any) -> Any:
        a, b = pair
        done = lax.eq(b, 0)
        return where3(done, a, b), where3(done, b, lax.rem(a, where3(done, 1, b)))

    found = lax.while_loop(lambda pair: _any_nonzero(pair[1]), step, start)[0]
    return weak_of_numbers(astype(found, dtype_of(x1)), *given)


def _magnitude(x: Array) -> Array:
    dtype = dtype_of(x)
    return x if is_unsigned(dtype) else astype(lax.abs(x), as_dtype(f"u{dtype.name}"))  # |-128| fits uint8


def _any_nonzero(x: Array) -> Array:
    return lax.reduce_or(lax.ne(x, 0), tuple(range(len(shape_of(x)))))


def _integers_only(name: str, x: Array) -> None:
    if not is_integer(dtype_of(x)):
        raise DtypeError(f"{name} takes integers, got {dtype_of(x)}", "cast with `astype`")


@inline_jit()
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.lcm(4, 6))
    12
    """
    given = x1, x2
    x1, x2 = broadcast(promote_dtypes(x1, x2), scalars=False)
    _integers_only("lcm", x1)
    a, b = _magnitude(x1), _magnitude(x2)
    common = gcd(a, b)
    nothing = lax.eq(common, 0)
    found = where3(nothing, 0, lax.mul(lax.div(a, where3(nothing, 1, common)), b))
    return weak_of_numbers(astype(found, dtype_of(x1)), *given)


@inline_jit()
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Shift bits to the left.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.left_shift(1, 3))
    8
    """
    x, y = promote(x, y)
    return lax.shift_left_p.bind(_bits_only("left_shift", _ints(x)), _ints(y))


bitwise_left_shift = left_shift


@inline_jit()
def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Shift bits to the right, the sign bit filling in for signed integers.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.right_shift(-8, 1))
    -4
    """
    x1, x2 = promote(x1, x2)
    x1, x2 = _bits_only("right_shift", _ints(x1)), _ints(x2)
    unsigned = is_unsigned(dtype_of(x1))
    return (lax.shift_right_logical_p if unsigned else lax.shift_right_arithmetic_p).bind(x1, x2)


bitwise_right_shift = right_shift

# ---------------------------------------------------------------------------- bounds and closeness


@public
def clip(arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:  # noqa: A002
    """Bound elements below by `min` and above by `max`, either of which may be absent.

    >>> from tilewright import numpy as jnp
    >>> jnp.clip(jnp.arange(4), 1, 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    if arr is None:
        raise ArgumentError("clip takes an array first", "pass the array to clip")
    if any(is_complex(dtype_of(x)) for x in (arr, min, max) if x is not None):
        raise DtypeError("clip has no meaning for complex numbers", "clip the real and imaginary parts")
    return _clip(arr, min, max)


@inline_jit()
def _clip(arr: Any, min: Any = None, max: Any = None) -> Array:  # noqa: A002
    arr = value(arr, "clip")
    if min is not None:
        arr = maximum(min, arr)
    return arr if max is None else minimum(max, arr)


@inline_jit("equal_nan")
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether `abs(a - b) <= atol + rtol * abs(b)`; infinities, booleans and random keys must be equal.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.isclose(1.0, 1.0 + 1e-6))
    True
    """
    a, b = promote(a, b)
    if not is_inexact(dtype_of(a)):
        if is_bool(dtype_of(a)) or isinstance(dtype_of(a), KeyDtype):
            return equal(a, b)
        a, b = promote_inexact(a, b)
    real = np.zeros((), dtype_of(a)).real.dtype
    tolerance = astype(atol, real) + value(astype(rtol, real)) * lax.abs(b)
    finite = logical_and(isfinite(a), isfinite(b))
    near = logical_and(finite, less_equal(lax.abs(lax.sub(a, b)), tolerance))
    result = lax.bitwise_or(near, *broadcast([logical_and(lax.bitwise_not(finite), equal(a, b))]))
    return strong(lax.bitwise_or(result, logical_and(isnan(a), isnan(b))) if equal_nan else result)


@inline_jit("equal_nan")
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close, as `isclose` says.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.allclose(jnp.ones(2), 1.0))
    True
    """
    close = isclose(a, b, rtol, atol, equal_nan)
    return lax.reduce_and(close, tuple(range(len(shape_of(close)))))


@public
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and elements.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.array_equal(jnp.arange(2), jnp.arange(2)))
    True
    """

    a1, a2 = asarray(a1), asarray(a2)
    if shape_of(a1) != shape_of(a2):
        return asarray(False)
    return _all_equal(a1, a2, equal_nan)


@inline_jit("equal_nan")
def _all_equal(a1: Any, a2: Any, equal_nan: bool) -> Array:
    same = equal(a1, a2)
    if equal_nan:
        same = lax.bitwise_or(same, logical_and(isnan(a1), isnan(a2)))
    return lax.reduce_and(same, tuple(range(len(shape_of(same)))))


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays broadcast to equal ones.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.array_equiv(jnp.ones(2), 1))
    True
    """

    a1, a2 = asarray(a1), asarray(a2)
    try:
        np.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:
        return asarray(False)
    return _all_equal(a1, a2, False)


__all__ = [
    "allclose", "array_equal", "array_equiv", "bitwise_left_shift", "bitwise_right_shift", "clip", "copysign",
    "divmod", "float_power", "floor_divide", "fmod", "frexp", "gcd", "heaviside", "hypot", "isclose", "lcm",
    "ldexp", "left_shift", "mod", "modf", "pow", "power", "remainder", "right_shift", "spacing",
]  # fmt: skip
