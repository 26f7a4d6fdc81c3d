"""Cells of parallel axes that write one block of an output: refused, or serialised on request."""

from __future__ import annotations

from typing import NamedTuple

from ...core.ir.types import FAR
from ..analysis.affine import Fact
from ..analysis.index_maps import cell_at, map_of, shared_block
from ..analysis.loop_carried import only_atomic
from ..kernel.kernel import Block, Kernel


class Meeting(NamedTuple):
    """Two cells that write one block, its index, and the parallel axes on which the two differ."""

    cells: tuple[tuple[int, ...], tuple[int, ...]]
    index: tuple[int, ...]
    axes: tuple[int, ...]


def meeting(kernel: Kernel, fact: Fact) -> Meeting | None:
    """Where two cells of a parallel axis write one block of an output with this index map; None where none do."""
    if kernel.semantics is None or fact.table is None:
        return None
    parallel = [a for a, kind in enumerate(kernel.semantics) if kind == "parallel" and kernel.grid[a] > 1]
    rank = len(kernel.grid)
    for axis in parallel:
        if axis not in fact.axes:
            one = tuple(int(a == axis) for a in range(rank))
            return Meeting(((0,) * rank, one), tuple(fact.table[(0,) * len(fact.axes)].tolist()), (axis,))
    pair = shared_block(fact, [a in parallel for a in fact.axes])
    if pair is None:
        return None
    first, second = (cell_at(kernel, fact.axes, place) for place in pair)
    axes = tuple(a for a in parallel if first[a] != second[a])
    return Meeting((first, second), tuple(fact.table[pair[0]].tolist()), axes)


def _axes_to_order(kernel: Kernel, block: Block) -> tuple[int, ...]:
    """Parallel axes of two cells that write one block of an output; none where its index map is not known."""
    fact = map_of(kernel, block)
    if block.space in FAR or fact is None or only_atomic(kernel, kernel.outputs.index(block)):
        return ()
    met = meeting(kernel, fact)
    return () if met is None else met.axes


def in_order(kernel: Kernel) -> Kernel:
    """The kernel, whose parallel axes along which cells write one block of an output are `arbitrary`.

    Every order of the cells of a parallel axis is one that its author allowed; this one is that of the grid.
    """
    while axes := {a for block in kernel.outputs for a in _axes_to_order(kernel, block)}:
        assert kernel.semantics is not None
        semantics = tuple("arbitrary" if a in axes else s for a, s in enumerate(kernel.semantics))
        kernel = kernel.replace(semantics=semantics)
    return kernel
