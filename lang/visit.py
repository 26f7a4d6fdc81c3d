"""Finding the kernels in Programs, and what a kernel's cells hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.ir import Program, subprograms
from ..core.types import FAR
from .kernel import Block, Kernel


def kernels_of(program: Program) -> Iterator[Kernel]:
    """Every kernel that a Program calls, in order."""
    for eqn in program.eqns:
        for value in eqn.params.values():
            if isinstance(value, Kernel):
                yield value
        for _, inner in subprograms(eqn):
            yield from kernels_of(inner)


def stays(block: Block) -> bool:
    """Whether an operand stays in far memory, its body reaching it from there: all of it, or of each of a batch."""
    whole = zip(block.sizes, block.array.shape, block.squeezed, strict=True)
    return block.space in FAR and (block.index_map is None or all(gone or size == n for size, n, gone in whole))


def block_bytes(kernel: Kernel) -> int:
    """Bytes that a cell of a kernel holds: blocks, as often as they are buffered (twice if they move), and scratch."""
    total = 0
    for block in kernel.blocks:
        if stays(block):
            continue
        moves = block.buffers or 2 if block.index_map is not None and kernel.cells > 1 else 1
        total += moves * int(np.prod(block.sizes, dtype=np.int64)) * block.array.dtype.itemsize
    return total + sum(s.array.nbytes for s in kernel.scratch)
