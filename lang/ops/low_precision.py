"""Low precision and counting in bodies: rounding at random, numbers of a few bits in words, products of scaled blocks.

Each is composed of operations that every target has, and so has their derivatives and batching.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...core.ir.array import Array, ArrayLike, DTypeLike, Operand
from ...core.ir.types import INT32, as_dtype, bfloat16, canonical_dtype, is_float, is_integer, itemsize_bits
from ...core.primitives.contraction.dot_general import dot
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...core.primitives.elementwise.arithmetic import abs_p, floor
from ...core.primitives.elementwise.bitwise import and_p, shift_left_p, shift_right_arithmetic_p, shift_right_logical_p
from ...core.primitives.elementwise.comparison import select
from ...core.primitives.elementwise.conversion import bitcast_convert_type, convert_element_type
from ...core.primitives.movement.bit_packing import apart, joined, moved, piece, rows_of, unsigned
from ...core.primitives.movement.shape import (
    broadcast_in_dim,
    concatenate,
    full_like,
    iota_p,
    reshape,
    stack,
    transpose,
)
from ...core.primitives.reduction.reduce import reduce_sum_p
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, DtypeError, ShapeError
from ...core.support.memo import cached
from ...core.tracing.array_conversion import as_array
from ...core.tracing.trace import shape_of, typeof

FLOAT32 = np.dtype(np.float32)
ROUNDED = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")

# ---------------------------------------------------------------------------- rounding at random


@public
def stochastic_round(x: ArrayLike, random_bits: ArrayLike, target_dtype: DTypeLike) -> Any:
    """`x`, of float32, as one of the two neighbours in a smaller dtype: the nearer, the likelier.

    `random_bits` are uint32 (or int32) words of the shape of `x`, one draw for each element; the mean over draws is
    `x`. Infinities and NaN are converted; what is finite stays finite. `target_dtype` is bfloat16, float16,
    float8_e4m3fn or float8_e5m2. The derivative is that of a conversion. Raises `DtypeError` for other dtypes and
    `ShapeError` for bits of another shape.

    >>> import numpy as np
    >>> bits = np.array([0, 2**32 - 1], np.uint32)
    >>> print(stochastic_round(np.full(2, 1 + 2**-9, np.float32), bits, "bfloat16"))
    [1 1.00781]
    """
    dtype = canonical_dtype(as_dtype(target_dtype))
    x, random_bits = as_array(x), as_array(random_bits)
    if typeof(x).dtype != FLOAT32 or str(dtype) not in ROUNDED:
        raise DtypeError(f"stochastic_round of {typeof(x).show()} to {dtype}",
                         f"round float32 to one of {', '.join(ROUNDED)}")  # fmt: skip
    if str(typeof(random_bits).dtype) not in ("uint32", "int32") or shape_of(random_bits) != shape_of(x):
        raise ShapeError(f"stochastic_round of {typeof(x).show()} with random bits {typeof(random_bits).show()}",
                         "give a word of 32 random bits for each element")  # fmt: skip
    return _rounding(dtype)(x, random_bits)


@cached(len(ROUNDED))
def _rounding(dtype: np.dtype[Any]) -> Any:
    @custom_jvp
    def rounded(x: Array, random_bits: Array) -> Any:
        found = _in_bits(x, random_bits) if dtype == bfloat16 else _by_quantum(x, random_bits, dtype)
        largest = np.float32(ml_dtypes.finfo(dtype).max)
        found = select(found > largest, _full(largest, found), select(found < -largest, _full(-largest, found), found))
        return convert_element_type(select(abs_p.bind(x) < np.float32(np.inf), found, x), dtype)

    @rounded.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        return rounded(*primals), convert_element_type(tangents[0], dtype)

    return rounded


def _full(value: Any, like: Array) -> Any:
    return broadcast_in_dim(value, shape_of(like), ())


def _in_bits(x: Array, random_bits: Array) -> Any:
    """To the upper half of the bits: what is random is added to the lower half, and carries."""
    low = bitcast_convert_type(random_bits, INT32) & np.int32(0xFFFF)
    words = (bitcast_convert_type(x, INT32) + low) & np.int32(-0x10000)
    return bitcast_convert_type(words, FLOAT32)


def _power(exponent: Array) -> Any:
    """Two to a power, of int32 that a normal float32 has."""
    return bitcast_convert_type((exponent + np.int32(127)) << np.int32(23), FLOAT32)


def _by_quantum(x: Array, random_bits: Array, dtype: np.dtype[Any]) -> Any:
    """To whole multiples of the distance of neighbours at `x`."""
    limits = ml_dtypes.finfo(dtype)
    exponent = ((bitcast_convert_type(x, INT32) >> np.int32(23)) & np.int32(255)) - np.int32(127)
    least = np.int32(limits.minexp)
    exponent = select(exponent < least, _full(least, exponent), exponent) - np.int32(limits.nmant)
    steps = abs_p.bind(x) * _power(-exponent)
    whole = floor(steps)
    draw = (bitcast_convert_type(random_bits, INT32) >> np.int32(8)) & np.int32(0xFFFFFF)
    above = convert_element_type(draw, FLOAT32) * np.float32(2**-24) < steps - whole
    found = (whole + convert_element_type(above, FLOAT32)) * _power(exponent)
    return select(x < np.float32(0), -found, found)


# ---------------------------------------------------------------------------- a few bits in a word


def _width(words: Operand, bits: int, what: str) -> int:
    type_ = typeof(words)
    width = type_.dtype.itemsize * 8
    if not is_integer(type_.dtype) or bits not in (1, 2, 4, 8, 16) or width <= bits:
        raise DtypeError(f"{what} of {type_.show()} in numbers of {bits} bits",
                         "give integers of 8 to 32 bits, and 1, 2, 4, 8 or 16 bits, less than theirs")  # fmt: skip
    return width


@public
def unpack(words: ArrayLike, bits: int = 4, *, axis: int = -1, signed: bool = True, interleaved: bool = True) -> Any:
    """The numbers of `bits` bits that integers hold, lowest first, as int32: `axis` becomes as many times longer.

    Those of one word stand side by side; with `interleaved=False` all first ones stand before all second ones.
    Raises `DtypeError` for words that do not hold several.

    >>> import numpy as np
    >>> print(unpack(np.array([0x21, 0xF3], np.uint8)))
    [ 1  2  3 -1]
    """
    words = as_array(words)
    width = _width(words, bits, "unpack")
    axis %= len(shape_of(words))
    wide = convert_element_type(words, INT32)
    parts = []
    for low in range(0, width, bits):
        part = wide << np.int32(32 - bits - low) if low + bits < 32 else wide
        part = part >> np.int32(32 - bits)
        parts.append(part if signed else part & np.int32(2**bits - 1))
    if not interleaved:
        return concatenate(parts, axis)
    shape = shape_of(words)
    return reshape(stack(parts, axis + 1), (*shape[:axis], shape[axis] * len(parts), *shape[axis + 1 :]))


@public
def pack(values: ArrayLike, bits: int = 4, dtype: DTypeLike = "uint8", *, axis: int = -1) -> Any:
    """Integers of `bits` bits packed in words of `dtype`, lowest first: the inverse of `unpack`.

    >>> import numpy as np
    >>> [hex(w) for w in np.asarray(pack(np.array([1, 2, 3, -1]))).tolist()]
    ['0x21', '0xf3']
    """
    values, dtype = as_array(values), canonical_dtype(as_dtype(dtype))
    count = _width(np.zeros((), dtype), bits, "pack") // bits
    shape = shape_of(values)
    axis %= len(shape)
    if shape[axis] % count:
        raise ShapeError(f"pack: axis {axis} of {typeof(values).show()} is no multiple of {count}", "pad it")
    parts = reshape(convert_element_type(values, INT32), (*shape[:axis], -1, count, *shape[axis + 1 :]))
    parts = parts & np.int32(2**bits - 1)
    places = iota_p.bind(dtype=INT32, shape=shape_of(parts), dimension=axis + 1) * np.int32(bits)
    return convert_element_type(reduce_sum_p.bind(parts << places, axes=(axis + 1,)), dtype)


# ---------------------------------------------------------------------------- products of scaled blocks

_DECODED = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "bf16": "bfloat16", "fp16": "float16"}
GROUP = 32  # elements along the contracted axis that have one scale


def _decoded(x: Array, form: str, axis: int) -> Any:
    """An operand as numbers of float32, exactly."""
    if form == "e2m1":  # two in a byte: a sign, two bits of exponent, one of mantissa
        codes = unpack(x, 4, axis=axis, signed=False)
        exponent, mantissa = (codes >> np.int32(1)) & np.int32(3), codes & np.int32(1)
        shift = exponent - convert_element_type(exponent > np.int32(0), INT32)
        doubled = (mantissa + (convert_element_type(exponent > np.int32(0), INT32) << np.int32(1))) << shift
        found = convert_element_type(doubled, FLOAT32) * np.float32(0.5)
        return select(codes > np.int32(7), -found, found)
    if form not in _DECODED:
        raise ArgumentError(f"dot_scaled: the format is {form!r}", f"give e2m1 or one of {', '.join(_DECODED)}")
    dtype = as_dtype(_DECODED[form])
    if typeof(x).dtype == np.uint8 and dtype.itemsize == 1:
        x = bitcast_convert_type(x, dtype)
    if typeof(x).dtype != dtype:
        raise DtypeError(f"dot_scaled: an operand of {typeof(x).show()} in the format {form}", f"give {dtype}")
    return convert_element_type(x, FLOAT32)


def _scales(scale: Operand) -> Any:
    """Powers of two whose exponents are bytes (e8m0), each as often as elements share it."""
    scale = as_array(scale)
    if str(typeof(scale).dtype) != "uint8" or len(shape_of(scale)) != 2:
        raise DtypeError(f"dot_scaled: scales are {typeof(scale).show()}", "give uint8 exponents, 127 for 1")
    wide = convert_element_type(scale, INT32)
    half = np.int32(1 << 22)  # the last bit of 2**-127, and what makes NaN of infinity
    edge = convert_element_type(wide < np.int32(1), INT32) + convert_element_type(wide > np.int32(254), INT32)
    found = bitcast_convert_type((wide << np.int32(23)) + edge * half, FLOAT32)
    rows, groups = shape_of(scale)
    return reshape(broadcast_in_dim(found, (rows, groups, GROUP), (0, 1)), (rows, groups * GROUP))


@public
def dot_scaled(
    lhs: ArrayLike, lhs_scale: ArrayLike | None, lhs_format: str, rhs: ArrayLike, rhs_scale: ArrayLike | None,
    rhs_format: str, acc: Any = None, *, out_dtype: DTypeLike = "float32",
) -> Any:  # fmt: skip
    """The product of two matrices in microscaled formats, summed in float32; `acc` is added.

    `lhs` is (M, K), `rhs` (K, N); every 32 elements along K share a scale, a power of two as a byte (e8m0): `lhs_scale`
    is uint8 of (M, K / 32), `rhs_scale` of (N, K / 32), None for no scale. Formats: "e2m1" (two in a uint8, the lower
    first, so that K is half as long in memory), "e4m3", "e5m2" (float8, or its bits as uint8), "bf16", "fp16". Source:
    OCP Microscaling Formats (MX) 1.0. Raises `ShapeError`, `DtypeError` and `ArgumentError` for what does not go
    together.

    >>> import numpy as np
    >>> ones = np.full((2, 16), 0x22, np.uint8)
    >>> scale = np.full((2, 1), 128, np.uint8)
    >>> print(dot_scaled(ones, scale, "e2m1", ones.T.copy(), None, "e2m1"))
    [[64. 64.]
     [64. 64.]]
    """
    left, right = _decoded(as_array(lhs), lhs_format, 1), _decoded(as_array(rhs), rhs_format, 0)
    (rows, depth), (other, columns) = shape_of(left), shape_of(right)
    if depth != other:
        raise ShapeError(f"dot_scaled: {depth} elements along K in lhs, {other} in rhs", "make them as many")
    for scale, n, what in ((lhs_scale, rows, "lhs"), (rhs_scale, columns, "rhs")):
        if scale is not None and shape_of(scale) != (n, depth // GROUP) or depth % GROUP and scale is not None:
            raise ShapeError(f"dot_scaled: the scales of {what} are {shape_of(scale)}, its K is {depth}",
                             f"give one for each row and every {GROUP} elements: {(n, depth // GROUP)}")  # fmt: skip
    if lhs_scale is not None:
        left = left * _scales(lhs_scale)
    if rhs_scale is not None:
        right = right * transpose(_scales(rhs_scale), (1, 0))
    if "fp16" not in (lhs_format, rhs_format):  # the others, and powers of two times them, are numbers of bfloat16
        left, right = (convert_element_type(x, bfloat16) for x in (left, right))
    found = dot(left, right, preferred_element_type=FLOAT32)
    found = found if acc is None else found + acc
    if not is_float(as_dtype(out_dtype)):
        raise DtypeError(f"dot_scaled: out_dtype is {out_dtype}", "give a float")
    return convert_element_type(found, as_dtype(out_dtype))


# ---------------------------------------------------------------------------- counts


@public
def histogram(x: ArrayLike, num_bins: int, *, mask: Any = None) -> Any:
    """How often each of 0 to `num_bins - 1` is among the integers of `x` (where `mask` is true): int32 of (num_bins,).

    Other numbers are not counted. Raises `DtypeError` for what is no integer.

    >>> import numpy as np
    >>> print(histogram(np.array([0, 2, 2, 7]), 4))
    [1 0 2 0]
    """
    x = as_array(x)
    if not is_integer(typeof(x).dtype):
        raise DtypeError(f"histogram of {typeof(x).show()}", "count integers")
    size = typeof(x).size
    column = reshape(convert_element_type(x, INT32), (size, 1))
    hit = convert_element_type(column == iota_p.bind(dtype=INT32, shape=(size, num_bins), dimension=1), INT32)
    if mask is not None:
        hit = hit * reshape(convert_element_type(mask, INT32), (size, 1))
    return reduce_sum_p.bind(hit, axes=(0,))


__all__ = ["dot_scaled", "histogram", "pack", "stochastic_round", "unpack"]


def bitcast(x: ArrayLike, ty: Any) -> Any:
    """The bits of an array as another dtype, `ty`.

    Of a wider one: elements that follow along the last axis but one make one, the first in the lowest bits. Of a
    narrower one, and are unpacked so. Raises `ShapeError` where these axes do not exist.

    >>> import numpy as np
    >>> print(bitcast(np.array([[1], [2]], np.uint16), np.uint32))
    [[131073]]
    """
    dtype, shape = as_dtype(ty), shape_of(x)
    old, new = itemsize_bits(typeof(x).dtype), itemsize_bits(dtype)
    if old == new:
        return bitcast_convert_type(x, dtype)
    if len(shape) < 2 or shape[-2] * old % new:
        raise ShapeError(f"bitcast of {typeof(x).show()} to {dtype}",
                         f"its last axis but one must be a multiple of {max(new // old, 1)}")  # fmt: skip
    if old < new:
        return joined(rows_of(x, new // old), dtype)
    return apart(x, dtype)


def _count(wide: Any, packed: Any, what: str) -> int:
    narrowed = is_integer(wide) and is_integer(packed) or is_float(wide) and is_float(packed)
    if not narrowed or itemsize_bits(wide) % itemsize_bits(packed) or itemsize_bits(wide) == itemsize_bits(packed):
        raise DtypeError(f"{what}: {wide} does not hold elements of {packed}", "give integers of fewer bits, or floats")
    return itemsize_bits(wide) // itemsize_bits(packed)


def pack_elementwise(xs: Sequence[Any], *, packed_dtype: DTypeLike) -> Any:
    """Arrays as one of unsigned integers of their width, whose elements hold one of `packed_dtype` from each.

    The first array's are in the lowest bits; integers are cut to their lowest bits, floats rounded. Raises `DtypeError`
    for incompatible dtypes, `ArgumentError` for a wrong number of arrays.

    >>> import numpy as np
    >>> ones, twos = np.full((2,), 1, np.int32), np.full((2,), 2, np.int32)
    >>> print(pack_elementwise([ones, twos], packed_dtype=np.int16))
    [131073 131073]
    """
    packed, wide = as_dtype(packed_dtype), typeof(xs[0]).dtype
    if len(xs) != _count(wide, packed, "pack_elementwise"):
        raise ArgumentError(f"pack_elementwise is given {len(xs)} arrays of {wide} for {packed}",
                            f"give {_count(wide, packed, 'pack_elementwise')}")  # fmt: skip
    return joined([convert_element_type(x, packed) for x in xs], unsigned(wide))


def unpack_elementwise(x: ArrayLike, *, index: int, packed_dtype: DTypeLike, unpacked_dtype: DTypeLike) -> Any:
    """The elements of `packed_dtype` at one place of each element of an array, as `unpacked_dtype` of its width.

    Place 0 is the lowest bits. Errors as `pack_elementwise`; `ArgumentError` for a place that there is not.

    >>> import numpy as np
    >>> print(unpack_elementwise(np.array([131073], np.uint32), index=1, packed_dtype="int16", unpacked_dtype="int32"))
    [2]
    """
    packed, unpacked = as_dtype(packed_dtype), as_dtype(unpacked_dtype)
    count = _count(unpacked, packed, "unpack_elementwise")
    if itemsize_bits(typeof(x).dtype) != itemsize_bits(unpacked):
        raise DtypeError(f"unpack_elementwise of {typeof(x).show()} to {unpacked}", "give a dtype of the array's width")
    if not 0 <= index < count:
        raise ArgumentError(f"unpack_elementwise: the index is {index}", f"give 0 to {count - 1}")
    width = itemsize_bits(packed)
    if is_float(packed):
        return convert_element_type(piece(x, index, packed), unpacked)
    bits = bitcast_convert_type(x, unpacked)
    bits = moved(shift_left_p, bits, (count - 1 - index) * width)  # its sign becomes the word's
    signed = not str(unpacked).startswith("u") and not str(packed).startswith("u")
    last = (count - 1) * width
    if signed:
        return moved(shift_right_arithmetic_p, bits, last)
    return and_p.bind(moved(shift_right_logical_p, bits, last), full_like(bits, 2**width - 1))
