"""Parallel axes along which cells write one block of an output, made sequential on request."""

from __future__ import annotations

from ...core.ir.types import FAR
from ..analysis.index_maps import map_of
from ..analysis.loop_carried import only_atomic
from ..analysis.write_conflicts import write_conflict
from ..kernel.kernel import Block, Kernel


def _axes_to_order(kernel: Kernel, block: Block) -> tuple[int, ...]:
    """Parallel axes of two cells that write one block of an output; none where its index map is not known."""
    fact = map_of(kernel, block)
    if block.space in FAR or fact is None or only_atomic(kernel, kernel.outputs.index(block)):
        return ()
    met = write_conflict(kernel, fact)
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
