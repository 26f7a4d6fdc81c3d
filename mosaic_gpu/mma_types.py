"""What the tensor cores multiply: operand types, by one table for Hopper and Blackwell.

Sources: the PTX ISA, on wgmma.mma_async, on tcgen05.mma and its instruction descriptor. One instruction sums over 32
bytes of each operand. Hopper's takes numbers of 8 and 32 bits along the rows of memory alone, Blackwell's those of 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.ir.array import DTypeLike
from ..core.ir.types import INT32
from ..core.primitives.contraction.dot_general import Precision
from ..lang.legalize import Unfit

FLOAT32 = np.dtype(np.float32)
BYTES = 32  # of an operand, that one instruction sums over


@dataclass(frozen=True)
class Kind:
    """`name` is the type in wgmma's name, `family` what it may be combined with, `code` its number on Blackwell."""

    name: str
    family: str
    code: int

    @property
    def tensor(self) -> str:
        """The kind in the name of Blackwell's instruction."""
        return {"bf16": "f16", "f8": "f8f6f4"}.get(self.family, self.family)

    @property
    def result(self) -> np.dtype[Any]:
        return INT32 if self.family == "i8" else FLOAT32


KINDS = {
    "float16": Kind("f16", "f16", 0), "bfloat16": Kind("bf16", "bf16", 1), "float8_e4m3fn": Kind("e4m3", "f8", 0),
    "float8_e5m2": Kind("e5m2", "f8", 1), "uint8": Kind("u8", "i8", 0), "int8": Kind("s8", "i8", 1),
    "float32": Kind("tf32", "tf32", 2),
}  # fmt: skip


def depth(dtype: DTypeLike) -> int:
    """How many numbers of a type one instruction sums over."""
    return BYTES // dtype.itemsize


def kind_of(a: Any, b: Any, precision: Any) -> Kind:
    """The kind of a product's left operand, whose right one goes with it.

    Raises:
      Unfit: the tensor cores do not take both, or not as precisely as is asked for.
    """
    found = KINDS.get(str(a)), KINDS.get(str(b))
    if found[0] is None or found[1] is None or found[0].family != found[1].family:
        raise Unfit(f"a product of {a} and {b}: the tensor cores take two of float16, bfloat16 or float32, or of "
                    "float8 or 8-bit integers: convert one of them")  # fmt: skip
    asked = max(precision, key=lambda one: one.value) if precision else Precision.DEFAULT
    if asked != Precision.DEFAULT and found[0].family in ("tf32", "f8"):
        why = "the tensor cores round its operands to TF32" if a == FLOAT32 else "its sums are shorter than float32"
        raise Unfit(f"a product of {a} of precision {asked.name.lower()}: {why}; ask for the default precision")
    return found[0]
