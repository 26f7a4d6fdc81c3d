"""Operands that outputs are aliased to: no cell may read a block there that another cell writes."""

from __future__ import annotations

import numpy as np

from ...core.ir.program import Effect
from ...core.support.errors import RaceError
from ..analysis.affine import MAX_CELLS, Fact
from ..analysis.index_maps import map_of, spread
from ..kernel.kernel import UNBOUNDED, Block, Kernel


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
