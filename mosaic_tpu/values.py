"""Values of a body, as vectors and scalars.

A value of rank 0 is a 1 by 1 vector, one of rank 1 a row; others keep their shape: this is its *physical* shape.
Every number is computed in 32 bits: integers in `i32` (sign- or zero-extended), floats in `f32` (rounded to their own
dtype after each operation), booleans in `i1`. A scalar integer or boolean may live in the scalar unit instead. Each
form of a value is made when it is first needed.
"""

from __future__ import annotations

from typing import Any

from ..core.ir.types import ArrayType, is_bool, is_float, is_unsigned
from ..core.support.errors import DtypeError, Source
from .text import SSA, Shape

_NARROW = {
    "bfloat16": "bf16", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "int8": "i8", "uint8": "i8",
    "int16": "i16", "uint16": "i16",
}  # fmt: skip
_WIDE = ("int32", "uint32", "int4", "uint4", "int2", "uint2", "int8", "uint8", "int16", "uint16")
UNSUPPORTED_DTYPES: dict[str, str] = {
    **dict.fromkeys(("int64", "uint64"), "a TPU's vector and scalar registers hold 32-bit words"),
    "float64": "a TPU has no 64-bit floating point unit",
    **dict.fromkeys(("complex64", "complex128"), "a TPU's vector unit has no complex numbers"),
    "key<fry>": "a key is an opaque pair of words, which no register of a TPU holds",
    "[('float0', 'V')]": "float0 has no bits",
}


def wide(dtype: Any, source: Source | None = None) -> str:
    """The element type in which values of a dtype are computed."""
    if is_bool(dtype):
        return "i1"
    if is_float(dtype) and dtype.itemsize <= 4:
        return "f32"
    if str(dtype) in _WIDE:
        return "i32"
    reason = UNSUPPORTED_DTYPES.get(str(dtype), "it has no vector form")
    raise DtypeError(f"a TPU kernel cannot hold {dtype}: {reason}", "use a dtype of 32 bits or fewer", source)


def stored(dtype: Any, source: Source | None = None) -> str:
    """The element type in which memory holds values of a dtype."""
    element = wide(dtype, source)
    return _NARROW.get(str(dtype), "i32" if element == "i1" else element)


def physical(shape: Shape) -> Shape:
    """The shape of the vector that holds values of a shape."""
    return (1,) * (2 - len(shape)) + tuple(shape)


class Value:
    """A value of the body in any of its forms: `vector` (32-bit or i1), `narrow` (as stored) and `scalar`.

    `multiple` is a number known to divide a scalar integer (0: it is zero); `factors`, of a float32 that is a vector
    times a constant, are the two.
    """

    __slots__ = ("type", "vector", "narrow", "scalar", "multiple", "known", "factors")
    type: ArrayType
    vector: SSA | None
    narrow: SSA | None
    scalar: SSA | None
    multiple: int
    known: Any

    def __init__(self, type: ArrayType, vector: SSA | None = None, narrow: SSA | None = None,
                 scalar: SSA | None = None, multiple: int = 1, known: Any = None):  # fmt: skip
        self.type, self.vector, self.narrow, self.scalar = type, vector, narrow, scalar
        self.multiple, self.known = multiple, known
        self.factors: tuple[SSA, float] | None = None

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    @property
    def unsigned(self) -> bool:
        return is_unsigned(self.type.dtype)
