"""Kernels of few large cells as kernels of more, which cores share and whose blocks stay in caches.

XLA fuses whole arrays best, so that operations on the CPU are kernels of one cell (`kernels/fused/base.py`). Machine
code runs a cell on one thread. Sizes do not depend on the machine, so that sums over parts are the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...core.ir.types import ArrayType
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.support.memo import cached
from ...core.tracing.trace import trace_program
from ...lang.analysis.facts import analyse
from ...lang.kernel.kernel import Kernel
from ...lang.kernel.traverse import stays_in_hbm
from ...lang.transforms.monoid_carries import REDUCERS
from ...lang.transforms.split_blocks import Smaller, smaller
from ...lang.transforms.split_sums import addends, partial_kernel

BLOCK_BYTES = 2**19  # of a cell's blocks: a part of the second cache of most processors
CELLS = 16  # that are worth sharing: fewer leave cores without work
TRIES = 4  # numbers of parts that are tried
COPIED = 8  # the most that outputs which each part has a copy of may take of the operands' bytes: one in so many
SHARED = 4  # times the bytes of all operands and results are the most that parts may read of what they share


@cached(256)
def in_cells(kernel: Kernel) -> Smaller:
    """The kernel in cells of at most `BLOCK_BYTES`, where its blocks can be cut; else as it is."""
    if kernel.extents or kernel.symbolic or kernel.interpret or any(stays_in_hbm(b) for b in kernel.blocks):
        return Smaller(kernel)
    carry = analyse(kernel).carry
    cells = math.prod(kernel.grid[a] for a in kernel.long_axes if a not in carry)
    held = sum(math.prod(b.sizes) * b.array.dtype.itemsize for b in kernel.blocks)
    if cells >= CELLS or held * kernel.cells < BLOCK_BYTES:
        return Smaller(kernel)
    stretched = _stretched(kernel, -(-CELLS // cells))
    if stretched is not None and _pays(kernel, stretched.kernel, 1):
        return stretched
    if held <= BLOCK_BYTES // CELLS:
        return Smaller(kernel)
    for parts in _parts(kernel, held, cells):
        ways = smaller(kernel, _unit, parts)
        for way in () if isinstance(ways, str) else ways:
            if _pays(kernel, way.kernel, parts):
                return way
    return Smaller(kernel)


def _stretched(kernel: Kernel, count: int) -> Smaller | None:
    """A kernel whose results are sums over steps, in order, as one of a copy of its sums for each stretch of steps."""
    found = addends(kernel)
    if found is None or any(e.effects for e in found.phases.final.eqns):
        return None
    axis = max(found.carry, key=lambda a: kernel.grid[a])
    parts = next((n for n in range(count, 2 * count) if kernel.grid[axis] % n == 0), 0)
    first, last = kernel.splits[2:4]
    if not parts or any(not first <= s.position < last for s in found.states):
        return None
    cut = partial_kernel(found, ((axis, parts),))

    def finish(*results: Any) -> list[Any]:
        made = dict(zip(found.emitted, results, strict=False))
        for state, x in zip(found.states, results[len(found.emitted) :], strict=True):
            o = state.position - first
            total = REDUCERS[state.combine].bind(x, axes=(0,))
            made[o] = convert_element_type(total, kernel.outputs[o].array.dtype)
        return [made[o] for o in range(len(kernel.outputs))]

    return Smaller(cut, trace_program(finish, cut.out_types, kernel.name))


def _pays(kernel: Kernel, cut: Kernel, parts: int) -> bool:
    """Whether what parts have copies of, and what they share, is little beside what the kernel moves."""
    read, written = (sum(t.nbytes for t in types) for types in (kernel.in_types, kernel.out_types))
    copied = sum(t.nbytes for t in cut.out_types) - written
    pairs = zip(kernel.inputs, cut.inputs, strict=True)
    shared = sum(math.prod(b.sizes) * b.array.dtype.itemsize for a, b in pairs if a.sizes == b.sizes)
    return COPIED * copied <= read and shared * parts * kernel.cells <= SHARED * (read + written)


def _parts(kernel: Kernel, held: int, cells: int) -> Iterator[int]:
    """Numbers of parts that divide the first long axis of an output's blocks, the fewest that are enough first."""
    wanted = max(-(-held // BLOCK_BYTES), -(-CELLS // cells))
    sizes = [next((n for n in b.shape[: max(len(b.shape) - 1, 1)] if n > 1), 1) for b in kernel.outputs]
    largest = max(sizes, default=1)
    found = [n for n in range(wanted, min(largest, 64 * wanted) + 1) if largest % n == 0]
    yield from found[:TRIES]


def _unit(type_: ArrayType, axis: int) -> int:
    """Rows are not cut."""
    return type_.shape[axis] if axis == len(type_.shape) - 1 and len(type_.shape) > 1 else 1
