"""What a kernel costs: bytes moved between memories, counted from its index maps, and the work of its body."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..lang.analysis.affine import MAX_CELLS, Fact
from ..lang.analysis.index_maps import map_of
from ..lang.cost.estimate import reached_bytes
from ..lang.kernel.kernel import UNBOUNDED, Block, Kernel
from ..lang.kernel.traverse import stays_in_hbm


@dataclass(frozen=True)
class Cost:
    """Work and traffic: floating point (or integer) operations, calls of transcendental functions, bytes moved.

    `bytes` counts a block each time it enters or leaves fast memory, so revisits count again.
    """

    flops: int
    transcendentals: int
    bytes: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.transcendentals + other.transcendentals, self.bytes + other.bytes)


def _clipped(block: Block, axis: int, index: np.ndarray) -> np.ndarray:
    """How many elements of the array blocks at some indices hold along an axis."""
    start = block.axes[axis].start(index)
    stop = np.minimum(start + block.sizes[axis], block.array.shape[axis])
    return np.maximum(stop - np.maximum(start, 0), 0)


def elements_moved(kernel: Kernel, block: Block) -> int:
    """How many elements of a block's array enter (or leave) over the whole grid, in grid order.

    Exact where the index map is known; where it reads prefetched data, one block for every cell, the most there
    can be.
    """
    if kernel.cells == 0:
        return 0
    if UNBOUNDED in kernel.grid:
        kernel = kernel.replace(grid=tuple(1 if n == UNBOUNDED else n for n in kernel.grid))
    fact = map_of(kernel, block)
    if fact is None:
        return kernel.cells * math.prod(block.sizes)
    axes = [a for a in fact.axes if kernel.grid[a] > 1]
    last = max(axes, default=-1)
    found = _separable(kernel, block, fact, last)
    if found is not None:
        return found
    prefix = kernel.grid[: last + 1]
    if fact.table is None or math.prod(prefix) > MAX_CELLS:
        return math.prod(prefix) * math.prod(block.sizes)
    shape = [kernel.grid[a] if a in fact.axes else 1 for a in range(last + 1)]
    rank = block.array.ndim
    table = np.broadcast_to(fact.table.reshape(*shape, rank), (*prefix, rank)).reshape(-1, rank)
    moved = np.ones(len(table), np.int64)
    for d in range(rank):
        moved *= _clipped(block, d, table[:, d])
    entered = np.ones(len(table), bool)
    entered[1:] = (table[1:] != table[:-1]).any(1)
    return int(moved[entered].sum())


def _separable(kernel: Kernel, block: Block, fact: Fact, last: int) -> int | None:
    """The count in closed form, where every axis of the array follows at most one grid axis, each its own.

    A step of the grid along the last axis that the map uses, or back to its start, changes the block: so each cell
    of the axes up to that one moves a block.
    """
    if fact.affine is None:
        return None
    used: list[int] = []
    total = 1
    for d, (const, terms) in enumerate(zip(fact.affine.const, fact.affine.coefficients, strict=True)):
        terms = {a: c for a, c in terms.items() if kernel.grid[a] > 1 and c}
        if len(terms) > 1:
            return None
        ids = np.zeros(1, np.int64)
        for axis, coefficient in terms.items():
            if axis in used:
                return None
            used.append(axis)
            ids = np.arange(kernel.grid[axis]) * coefficient
        total *= int(_clipped(block, d, const + ids).sum())
    return total * math.prod(kernel.grid[a] for a in range(last + 1) if a not in used)


def bytes_moved(kernel: Kernel) -> int:
    """The bytes that a kernel's blocks move: operands in, outputs out, and outputs in too where they are aliased.

    Of unblocked operands in HBM the bytes that the body accesses count, at most each byte once.
    """
    far = [b for b in kernel.blocks if stays_in_hbm(b)]
    aliased = {o for _, o in kernel.aliases}
    starts = {i for i, _ in kernel.aliases}
    total = sum(math.prod(p.shape) * p.dtype.itemsize for p in kernel.prefetch)
    for i, block in enumerate(kernel.inputs):
        if i not in starts and block not in far:
            total += elements_moved(kernel, block) * block.array.dtype.itemsize
    for o, block in enumerate(kernel.outputs):
        if block not in far:
            total += elements_moved(kernel, block) * block.array.dtype.itemsize * (2 if o in aliased else 1)
    if far:
        total += min(kernel.cells * reached_bytes(kernel.body), sum(b.array.nbytes for b in far))
    return total
