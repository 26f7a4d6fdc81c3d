"""Parallel axes along which cells write one block of an output: run in order where the configuration asks for it."""

from __future__ import annotations

from ..core.types import MemorySpace
from .carries import only_atomic
from .kernel import Block, Kernel
from .maps import map_of, shared_block


def shared_axes(kernel: Kernel, block: Block) -> list[int]:
    """The axes declared parallel whose cells write one block of an output; none where its index map is not known."""
    fact = map_of(kernel, block)
    far = block.space in (MemorySpace.ANY, MemorySpace.HBM)
    if kernel.semantics is None or far or fact is None or fact.table is None:
        return []
    if only_atomic(kernel, kernel.outputs.index(block)):
        return []
    parallel = [a for a, kind in enumerate(kernel.semantics) if kind == "parallel" and kernel.grid[a] > 1]
    ignored = [a for a in parallel if a not in fact.axes]
    among = [a in parallel for a in fact.axes]
    pair = shared_block(fact, among)
    differ = [] if pair is None else [a for a, p, i, j in zip(fact.axes, among, *pair, strict=True) if p and i != j]
    return ignored + differ


def in_order(kernel: Kernel) -> Kernel:
    """The kernel, whose parallel axes along which cells write one block of an output are `arbitrary`.

    Every order of the cells of a parallel axis is one that its author allowed; this one is that of the grid.
    """
    while axes := {a for block in kernel.outputs for a in shared_axes(kernel, block)}:
        assert kernel.semantics is not None
        semantics = tuple("arbitrary" if a in axes else s for a, s in enumerate(kernel.semantics))
        kernel = kernel.replace(semantics=semantics)
    return kernel
