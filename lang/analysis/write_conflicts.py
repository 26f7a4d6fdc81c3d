"""Two cells of a parallel axis that write one block of an output."""

from __future__ import annotations

from typing import NamedTuple

from ..kernel.kernel import Kernel
from .affine import Fact
from .index_maps import cell_at, shared_block


class WriteConflict(NamedTuple):
    """Two cells that write one block, its index, and the parallel axes on which the two differ."""

    cells: tuple[tuple[int, ...], tuple[int, ...]]
    index: tuple[int, ...]
    axes: tuple[int, ...]


def write_conflict(kernel: Kernel, fact: Fact) -> WriteConflict | None:
    """Where two cells of a parallel axis write one block of an output with this index map; None where none do."""
    if kernel.semantics is None or fact.table is None:
        return None
    parallel = [a for a, kind in enumerate(kernel.semantics) if kind == "parallel" and kernel.grid[a] > 1]
    rank = len(kernel.grid)
    for axis in parallel:
        if axis not in fact.axes:
            one = tuple(int(a == axis) for a in range(rank))
            return WriteConflict(((0,) * rank, one), tuple(fact.table[(0,) * len(fact.axes)].tolist()), (axis,))
    pair = shared_block(fact, [a in parallel for a in fact.axes])
    if pair is None:
        return None
    first, second = (cell_at(kernel, fact.axes, place) for place in pair)
    axes = tuple(a for a in parallel if first[a] != second[a])
    return WriteConflict((first, second), tuple(fact.table[pair[0]].tolist()), axes)
