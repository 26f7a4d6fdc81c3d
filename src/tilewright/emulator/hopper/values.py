"""What registers hold while programs for Hopper and Blackwell are walked, and what the tensor cores make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...core.support.errors import EmulationError

LANES, WARP = 128, 32
HALF = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
COMBINED = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
            "xor": np.bitwise_xor}  # what is in memory with what comes  # fmt: skip
EIGHT = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
# What wgmma multiplies, and by the kinds of tcgen05 and the numbers of their operands.
MULTIPLIED = {**HALF, **EIGHT, "tf32": np.float32, "s8": np.int8, "u8": np.uint8}
KINDS = {"f16": (np.float16, ml_dtypes.bfloat16), "f8f6f4": tuple(EIGHT.values()), "i8": (np.uint8, np.int8),
         "tf32": (None, None, np.float32)}  # fmt: skip


def fragment_places(i: int) -> tuple[Any, Any]:
    """The row and column of register `i` of a product's result, lane by lane."""
    t = np.arange(LANES)
    return 16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2


def number(pattern: str, text: str) -> int:
    """The number in a text that a pattern finds."""
    found = re.search(pattern, text)
    if found is None:
        raise EmulationError(f"the emulator does not know {text}")
    return int(found[1])


def product(a: Any, b: Any) -> Any:
    """`a @ b.T` as the tensor cores have it: float32 loses its low bits, integers are summed in 32 bits."""
    if a.dtype.kind in "iu":
        return (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.int64).astype(np.int32)
    if a.dtype == np.float32:
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    return a.astype(np.float32) @ b.astype(np.float32).T


def rounded(x: Any) -> Any:
    """float32 rounded to TF32, as the copy engine does it."""
    return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


class Sum:
    """The results of products, which are not to be read while one is being made."""

    def __init__(self, start: Sequence[Any], columns: int, dtype: Any):
        self.value: np.ndarray = np.zeros((64, columns), dtype)
        for i, x in enumerate(start):
            self.value[fragment_places(i)] = x
        self.pending = 0


class Register:
    sum: Sum
    i: int

    def __init__(self, sum: Sum, i: int):
        self.sum, self.i = sum, i

    def read(self) -> Any:
        if self.sum.pending:
            raise EmulationError("registers of a product are read before wgmma.wait_group")
        return self.sum.value[fragment_places(self.i)].copy()


class Loaded:
    """What is being loaded from tensor memory."""

    value: Any
    ready: bool

    def __init__(self, value: Any):
        self.value, self.ready = value, False

    def read(self) -> Any:
        if not self.ready:
            raise EmulationError("registers are read before tcgen05.wait::ld")
        return self.value


def plain(x: Any) -> Any:
    return x.read() if isinstance(x, (Register, Loaded)) else x
