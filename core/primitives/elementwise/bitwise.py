"""Operations on the bits of integers and booleans: and, or, xor, not, shifts, population count, leading zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import DTypeLike, Operand
from ...ir.elementwise_typing import BITS, INT
from ...ir.primitive import Primitive
from ...ir.types import kind
from .builders import function, nary, unary

if TYPE_CHECKING:
    from .builders import Binary, Unary


def bits_of(dtype: DTypeLike) -> int:
    """The number of bits of an integer dtype, those narrower than a byte included."""
    name = str(dtype)
    return int("".join(c for c in name if c.isdigit()))


def _unsigned(x: Operand) -> Any:
    """The bits of integers as uint64."""
    bits = bits_of(x.dtype)
    return x.astype(np.int64 if kind(x.dtype) == "int" else np.uint64).astype(np.uint64) & np.uint64(2**bits - 1)


def _shift(direction: str) -> Any:
    def shift(x: Operand, y: Operand) -> Any:
        bits = bits_of(x.dtype)
        amount = _unsigned(y)
        inside = amount < bits
        amount = np.where(inside, amount, 0).astype(np.uint64)
        if direction == "left":
            moved = np.where(inside, np.left_shift(_unsigned(x), amount), np.uint64(0))
        elif direction == "logical":
            moved = np.where(inside, np.right_shift(_unsigned(x), amount), np.uint64(0))
        else:
            wide = _unsigned(x).astype(np.int64)
            if bits < 64:  # the highest bit is the sign, of an unsigned dtype too
                wide = (wide ^ 1 << bits - 1) - (1 << bits - 1)
            moved = np.where(inside, np.right_shift(wide, amount.astype(np.int64)), np.where(wide < 0, -1, 0))
        return moved.astype(np.int64).astype(x.dtype)

    return shift


def _population_count(x: Operand) -> Any:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _leading_zeros(x: Operand) -> Any:
    bits, value = bits_of(x.dtype), _unsigned(x)
    length = sum((value >> np.uint64(i)) > 0 for i in range(bits))
    return np.asarray(bits - length).astype(x.dtype)


not_p: Primitive = unary("not", BITS, np.invert, flat=True)
and_p: Primitive = nary("and", BITS, np.bitwise_and, flat=True)
or_p: Primitive = nary("or", BITS, np.bitwise_or, flat=True)
xor_p: Primitive = nary("xor", BITS, np.bitwise_xor, flat=True)
shift_left_p: Primitive = nary("shift_left", INT, _shift("left"), flat=True)
shift_right_logical_p: Primitive = nary("shift_right_logical", INT, _shift("logical"), flat=True)
shift_right_arithmetic_p: Primitive = nary("shift_right_arithmetic", INT, _shift("arithmetic"), flat=True)
population_count_p: Primitive = unary("population_count", INT, _population_count, flat=True)
clz_p: Primitive = unary("clz", INT, _leading_zeros, flat=True)


# ---------------------------------------------------------------------------- functions of jax.lax

bitwise_not: Unary = function(not_p, 1, "Elementwise complement of bits, or of booleans.", "bitwise_not")
bitwise_and: Binary = function(and_p, 2, "Elementwise conjunction of bits, or of booleans.", "bitwise_and")
bitwise_or: Binary = function(or_p, 2, "Elementwise disjunction of bits, or of booleans.", "bitwise_or")
bitwise_xor: Binary = function(xor_p, 2, "Elementwise exclusive disjunction of bits, or of booleans.", "bitwise_xor")
shift_left: Binary = function(shift_left_p, 2, "Elementwise x shifted left by y bits, 0 once all are shifted out.")
shift_right_logical: Binary
shift_right_logical = function(shift_right_logical_p, 2, "Elementwise x shifted right by y bits, filled with zeros.")
shift_right_arithmetic: Binary = function(
    shift_right_arithmetic_p, 2, "Elementwise x shifted right by y bits, filled with its highest one.")  # fmt: skip
population_count: Unary = function(population_count_p, 1, "Elementwise number of bits that are set.")
clz: Unary = function(clz_p, 1, "Elementwise number of leading zero bits.")

PRIMITIVES: tuple[Primitive, ...] = (
    not_p, and_p, or_p, xor_p, shift_left_p, shift_right_logical_p, shift_right_arithmetic_p, population_count_p, clz_p,
)  # fmt: skip

__all__ = [
    "and_p", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "clz_p", "not_p", "or_p",
    "population_count", "population_count_p", "shift_left", "shift_left_p", "shift_right_arithmetic",
    "shift_right_arithmetic_p", "shift_right_logical", "shift_right_logical_p", "xor_p",
]  # fmt: skip
