"""Where the elements of a matrix are in shared memory: its rows of 128 bytes are swizzled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.support.errors import EmulationError


def swizzled(at: Any) -> Any:
    """Places under the 128-byte swizzle."""
    return at ^ (at >> 7 & 7) << 4


def matrix_places(descriptor: int, rows: int, depth: int, turned: bool, size: int = 2) -> Any:
    """Where a descriptor has elements of `size` bytes of (rows, depth); `turned`: the sum goes down memory."""
    start, leading, stride = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    if descriptor >> 62 & 3 != 1:
        raise EmulationError("a matrix that is not swizzled by 128 bytes")
    if start & 0x380 or descriptor >> 49 & 7 or not turned and stride % 1024:
        raise EmulationError(
            f"a matrix at {start}, {stride} bytes from 8 rows to the next: the swizzle repeats after 1024 bytes"
        )
    r, c = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    if turned:  # 128 bytes of elements and 8 of the sum make 1024 bytes
        row = 128 // size
        at = start + r // row * leading + c // 8 * stride + c % 8 * 128 + r % row * size
    else:  # 8 rows of 128 bytes do
        at = start + r // 8 * stride + r % 8 * 128 + c * size
    return swizzled(at)
