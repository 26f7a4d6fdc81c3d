"""The bits of elements: several narrow ones as one wide one, and one of those that a wide one holds."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..trace import typeof
from ..types import as_dtype, itemsize_bits
from .compare import or_p, shift_left_p, shift_right_logical_p
from .convert import bitcast_convert_type, convert_element_type
from .shape import full_like


def unsigned(dtype: Any) -> Any:
    """The unsigned integers of a dtype's width."""
    return as_dtype(f"uint{itemsize_bits(dtype)}")


def moved(primitive: Any, bits: Any, count: int) -> Any:
    """Bits shifted by a count."""
    return primitive.bind(bits, full_like(bits, count)) if count else bits


def joined(parts: Sequence[Any], dtype: Any) -> Any:
    """Arrays of one dtype as one of a wider dtype: the bits of the first are the lowest."""
    wide, width = unsigned(dtype), itemsize_bits(typeof(parts[0]).dtype)
    words = [convert_element_type(bitcast_convert_type(p, unsigned(typeof(p).dtype)), wide) for p in parts]
    words = [moved(shift_left_p, w, j * width) for j, w in enumerate(words)]
    return bitcast_convert_type(functools.reduce(or_p.bind, words), dtype)


def piece(x: Any, number: int, dtype: Any) -> Any:
    """The element of a narrower dtype that each element of an array holds at a place, counted from the lowest bits."""
    bits = bitcast_convert_type(x, unsigned(typeof(x).dtype))
    bits = moved(shift_right_logical_p, bits, number * itemsize_bits(dtype))
    return bitcast_convert_type(convert_element_type(bits, unsigned(dtype)), dtype)
