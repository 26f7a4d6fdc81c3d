"""Elements put together in wider ones, and taken apart: how vectors of TPUs hold narrow numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ArgumentError, DtypeError, ShapeError
from ..core.primitives.compare import and_p, shift_left_p, shift_right_arithmetic_p, shift_right_logical_p
from ..core.primitives.convert import bitcast_convert_type, convert_element_type
from ..core.primitives.shape import full_like
from ..core.primitives.words import apart, joined, moved, piece, rows_of, unsigned
from ..core.trace import shape_of, typeof
from ..core.types import as_dtype, is_float, is_integer, itemsize_bits


def bitcast(x: Any, ty: Any) -> Any:
    """The bits of an array as another dtype, `ty`.

    Of a wider one: elements that follow along the last axis but one make one, the first in the lowest bits. Of a
    narrower one: they are taken apart so. Raises `ShapeError` where these axes are not there.

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


def pack_elementwise(xs: Sequence[Any], *, packed_dtype: Any) -> Any:
    """Arrays as one of unsigned integers of their width, whose elements hold one of `packed_dtype` from each.

    The first array's are in the lowest bits; integers are cut to their lowest bits, floats rounded. Raises `DtypeError`
    for dtypes that do not go together, `ArgumentError` for another number of arrays than fit.

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


def unpack_elementwise(x: Any, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> Any:
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
