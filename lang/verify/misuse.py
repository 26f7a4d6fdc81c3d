"""Semaphores and aliased operands that are surely misused, found before a kernel runs.

Cells start with every semaphore at zero. So a first use that waits, in every cell, waits for what nothing started or
signalled; and a copy that is started in every cell, and never waited for, is in flight when the kernel ends. What a
branch or loop does to a semaphore is left to the interpreter, which sees every run. Of an operand that an output is
aliased to, no cell may read a block that another cell writes.
"""

from __future__ import annotations

import numpy as np

from ...core.ir.program import Effect, Eqn
from ...core.ir.types import MemorySpace, RefType
from ...core.support.errors import RaceError, SemaphoreError
from ..analysis.affine import MAX_CELLS, Fact
from ..analysis.index_maps import map_of, spread
from ..kernel.kernel import UNBOUNDED, Block, Kernel
from ..ops.dma import dma_start_p, dma_wait_p, semaphore_wait_p
from ..ops.run_scoped import undefine_p


def check_semaphores(kernel: Kernel) -> None:
    """Raise a `SemaphoreError` for a semaphore whose misuse the body alone shows."""
    if kernel.interpret:  # says more: which cell, and how many bytes
        return
    start = kernel.splits[3]
    for position in range(start, len(kernel.body.inputs)):
        ref = kernel.body.inputs[position]
        if isinstance(ref.type, RefType) and ref.type.space is MemorySpace.SEMAPHORE:
            uses = [e for e in kernel.body.eqns if ref in e.inputs and e.primitive is not undefine_p]
            _check(kernel, kernel.scratch_name(position), uses)


def _check(kernel: Kernel, name: str, uses: list[Eqn]) -> None:
    if not uses:
        return
    if uses[0].primitive in (dma_wait_p, semaphore_wait_p):
        raise kernel.error(SemaphoreError, f"the first use of semaphore {name} waits, and nothing was started on it "
                           "before", "start the copy, or signal, before it is waited for", uses[0].source)  # fmt: skip
    if all(e.primitive is dma_start_p for e in uses):
        raise kernel.error(SemaphoreError, f"a copy is started on semaphore {name}, and nothing waits for it",
                           "call `.wait()` on what `make_async_copy` gave", uses[0].source)  # fmt: skip


def check_aliases(kernel: Kernel) -> None:
    """Raise `RaceError` where a cell reads, through an aliased operand, a block that another cell writes."""
    for i, o in kernel.aliases:
        source, target = kernel.inputs[i], kernel.outputs[o]
        if Effect("read", kernel.splits[1] + i) not in kernel.body.effects:
            continue
        read, written = (map_of(kernel, b) for b in (source, target))
        if read is None or written is None or read.table is None or written.table is None:
            continue
        if kernel.cells > MAX_CELLS or UNBOUNDED in kernel.grid:
            continue
        _check_one(kernel, source, target, _starts(kernel, source, read), _starts(kernel, target, written))


def _starts(kernel: Kernel, block: Block, fact: Fact) -> np.ndarray:
    """The first element of the block of every cell, [*grid, axes of the array]."""
    assert fact.table is not None
    table = spread(fact.table, fact.axes, len(kernel.grid)) * np.asarray(block.steps, np.int64)
    low = np.array([a.padding[0] for a in block.axes], np.int64)
    return np.broadcast_to(table - low, (*kernel.grid, block.array.ndim))


def _check_one(kernel: Kernel, source: Block, target: Block, read: np.ndarray, written: np.ndarray) -> None:
    if source.sizes == target.sizes and np.array_equal(read, written):
        return
    cells = kernel.cells
    flat_read, flat_written = read.reshape(cells, -1), written.reshape(cells, -1)
    blocks = np.unique(flat_written, axis=0)
    for c in range(min(cells, 4096)):
        low = np.maximum(blocks, flat_read[c])
        high = np.minimum(blocks + target.sizes, flat_read[c] + np.asarray(source.sizes))
        for start in blocks[(low < high).all(axis=1)]:
            writers = np.flatnonzero((flat_written == start).all(axis=1))
            other = writers[writers != c]
            if not (flat_written[c] == start).all() and other.size:
                ids = [tuple(int(n) for n in np.unravel_index(k, kernel.grid)) for k in (c, other[0])]
                raise kernel.error(RaceError, f"cell {ids[0]} reads, through operand {source.name}, elements of output "
                                   f"{target.name} that cell {ids[1]} writes: the two are aliased",
                                   "give both the same index map, or do not alias them")  # fmt: skip
