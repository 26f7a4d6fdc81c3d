"""The bits of elements: several narrow ones as one wide one, and one of those that a wide one holds."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...ir.array import ArrayLike, DTypeLike
from ...ir.primitive import Primitive
from ...ir.types import as_dtype, itemsize_bits
from ...tracing.trace import shape_of, typeof
from ..elementwise.bitwise import or_p, shift_left_p, shift_right_logical_p
from ..elementwise.conversion import bitcast_convert_type, convert_element_type
from .shape import full_like, reshape, slice_in_dim, stack


def unsigned(dtype: DTypeLike) -> Any:
    """The unsigned integers of a dtype's width."""
    return as_dtype(f"uint{itemsize_bits(dtype)}")


def moved(primitive: Primitive, bits: ArrayLike, count: int) -> Any:
    """Bits shifted by a count."""
    return primitive.bind(bits, full_like(bits, count)) if count else bits


def joined(parts: Sequence[Any], dtype: DTypeLike) -> Any:
    """Arrays of one dtype as one of a wider dtype: the bits of the first are the lowest."""
    wide, width = unsigned(dtype), itemsize_bits(typeof(parts[0]).dtype)
    words = [convert_element_type(bitcast_convert_type(p, unsigned(typeof(p).dtype)), wide) for p in parts]
    words = [moved(shift_left_p, w, j * width) for j, w in enumerate(words)]
    return bitcast_convert_type(functools.reduce(or_p.bind, words), dtype)


def piece(x: ArrayLike, number: int, dtype: DTypeLike) -> Any:
    """The element of a narrower dtype that each element of an array holds at a place, counted from the lowest bits."""
    bits = bitcast_convert_type(x, unsigned(typeof(x).dtype))
    bits = moved(shift_right_logical_p, bits, number * itemsize_bits(dtype))
    return bitcast_convert_type(convert_element_type(bits, unsigned(dtype)), dtype)


def rows_of(x: ArrayLike, count: int) -> list[Any]:
    """Every `count`-th row of an array along its last axis but one, from each of the first `count`."""
    shape = shape_of(x)
    rows = reshape(x, (*shape[:-2], shape[-2] // count, count, shape[-1]))
    axis = len(shape) - 1
    parts = [slice_in_dim(rows, j, j + 1, axis=axis) for j in range(count)]
    return [reshape(p, (*shape[:-2], -1, shape[-1])) for p in parts]


def apart(x: ArrayLike, dtype: DTypeLike) -> Any:
    """The elements of a narrower dtype that those of an array hold, one after the other along its last axis but one."""
    shape, count = shape_of(x), itemsize_bits(typeof(x).dtype) // itemsize_bits(dtype)
    parts = [piece(x, j, unsigned(dtype)) for j in range(count)]  # as integers: floats moved may lose the bits of NaN
    bits = reshape(stack(parts, len(shape) - 1), (*shape[:-2], shape[-2] * count, shape[-1]))
    return bitcast_convert_type(bits, dtype)
