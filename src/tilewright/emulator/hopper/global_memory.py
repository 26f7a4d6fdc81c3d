"""Global memory, the operands and results of a launch: a pointer is a buffer's number plus one, shifted, and a byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.array import DTypeLike
from ...core.support.errors import OutOfBoundsError

SHIFT = 44


class GlobalMemory:
    """Buffers, which are copied first: results may be in place."""

    def __init__(self, buffers: Sequence[np.ndarray]):
        self.shapes: list[tuple[Any, ...]] = [b.shape for b in buffers]
        self.buffers: list[np.ndarray] = [np.array(b, order="C") for b in buffers]
        self.bytes: list[np.ndarray] = [b.reshape(-1).view(np.uint8) for b in self.buffers]

    @property
    def found(self) -> list[np.ndarray]:
        return [b.reshape(shape) for b, shape in zip(self.buffers, self.shapes)]

    def located(self, at: Any, size: int) -> tuple[int, Any]:
        at = np.asarray(at, np.int64)
        number = int(at.reshape(-1)[0]) >> SHIFT
        offset = at - (number << SHIFT)
        known = 0 < number <= len(self.bytes)
        if not known or np.any(offset < 0) or np.any(offset + size > self.bytes[number - 1].size):
            raise OutOfBoundsError(f"memory is accessed outside of argument {number - 1}")
        return number - 1, offset

    def load(self, at: Any, dtype: DTypeLike) -> Any:
        dtype = np.dtype(dtype)
        if not np.size(at):
            return np.zeros(np.shape(at), dtype)
        number, offset = self.located(at, dtype.itemsize)
        found = self.bytes[number][offset[..., None] + np.arange(dtype.itemsize)]
        return np.ascontiguousarray(found).view(dtype)[..., 0]

    def store(self, at: Any, values: Any) -> None:
        if np.size(at):
            values = np.ascontiguousarray(values)
            number, offset = self.located(at, values.itemsize)
            self.bytes[number][offset[..., None] + np.arange(values.itemsize)] = values[..., None].view(np.uint8)
