"""What the blocks and scratch of a kernel take of a TPU's VMEM; kernels on smaller blocks that it holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.ir.types import ArrayType, MemorySpace
from ...core.support.memo import cached
from ..kernel.kernel import Kernel
from ..targets.target import Target
from .rebuild import INHERITED
from .split_blocks import Smaller, smaller

ELSEWHERE = (MemorySpace.ANY, MemorySpace.HBM, MemorySpace.SMEM, MemorySpace.SEMAPHORE)  # not in VMEM
ROUNDS = 3  # how often blocks are made smaller


def bits_of(dtype: np.dtype) -> int:
    """Bits of an element: 4 for the dtypes of half a byte; booleans are stored as 32-bit integers."""
    name = str(dtype)
    if name == "bool":
        return 32
    return int(name[-1]) if name in ("int4", "uint4", "int2", "uint2") else dtype.itemsize * 8


def padded_bytes(shape: Sequence[int], dtype: np.dtype, target: Target) -> int:
    """The bytes that a value of some shape takes in VMEM: its last two axes in whole tiles."""
    bits = bits_of(dtype)
    sizes = list(shape) if len(shape) > 1 else [1, *shape, *([1] if not shape else [])]
    tile = target.tile(sizes, bits)
    for back, unit in enumerate(reversed(tile), 1):
        sizes[-back] = -(-sizes[-back] // unit) * unit
    return math.prod(sizes) * bits // 8


def vmem_bytes(kernel: Kernel, target: Target) -> list[tuple[str, int]]:
    """For each block and scratch of a kernel in VMEM, its bytes: blocks that move as often as they are buffered."""
    sizes = []
    for block in kernel.blocks:
        if block.space not in ELSEWHERE:
            copies = block.buffers or 2 if block.index_map is not None and kernel.cells > 1 else 1
            sizes.append((f"{copies} of {block.name}", copies * padded_bytes(block.shape, block.array.dtype, target)))
    for number, scratch in enumerate(kernel.scratch):
        if scratch.space not in ELSEWHERE:
            sizes.append((f"scratch {number}", padded_bytes(scratch.array.shape, scratch.array.dtype, target)))
    return sizes


def most_vmem(target: Target) -> int:
    """The most VMEM that a kernel may have: XLA keeps some for itself."""
    return target.fast_bytes // 16 * 15


@dataclass(frozen=True)
class _Tiles:
    """What is left of an axis is in whole tiles."""

    target: Target

    def __call__(self, array: ArrayType, axis: int) -> int:
        tile = self.target.tile(array.shape, bits_of(array.dtype))
        back = array.ndim - axis
        return tile[-back] if back <= len(tile) else 1


@cached(256)
def in_vmem(kernel: Kernel, target: Target) -> Smaller:
    """A kernel on smaller blocks, if VMEM does not hold those that it has; a derived one also has room for values."""
    found, copies = Smaller(kernel), 2 if dict(kernel.settings).get(INHERITED) else 1
    for _ in range(ROUNDS):
        held = _vmem_bytes(found.kernel, target)
        if copies * held <= most_vmem(target):
            break
        ways = smaller(found.kernel, _Tiles(target))
        less = [way for way in ways if not isinstance(way, str) and _vmem_bytes(way.kernel, target) < held]
        if not less:
            break
        found = found.then(less[0])
    return found


def _vmem_bytes(kernel: Kernel, target: Target) -> int:
    return sum(size for _, size in vmem_bytes(kernel, target))
