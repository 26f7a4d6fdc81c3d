"""Operands in whose buffers results may be written: no cell reads an element after a cell has written it."""

from __future__ import annotations

from ...lang.analysis.index_maps import map_of, same_blocks
from ...lang.kernel.kernel import Block, Kernel


def in_place(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    """The aliases (input, output) whose two buffers may be one; for the others the operand is copied."""
    return tuple((i, o) for i, o in kernel.aliases if _matches(kernel, i, o) and _read_first(kernel, i, o))


def _matches(kernel: Kernel, i: int, o: int) -> bool:
    """Whether each cell sees one block of both, and no other cell sees any of it."""
    source, target = kernel.inputs[i], kernel.outputs[o]
    maps = map_of(kernel, source), map_of(kernel, target)
    return source.axes == target.axes and same_blocks(*maps) and disjoint(kernel, target)


def disjoint(kernel: Kernel, block: Block) -> bool:
    """Whether different cells see different elements: each axis of the grid is known to step along one of the array."""
    fact = map_of(kernel, block)
    if fact is None or fact.affine is None or any(block.element):
        return False
    steps = [[axis for axis, factor in dict(terms).items() if factor] for terms in fact.affine.coefficients]
    stepped = [axis for axes in steps for axis in axes if kernel.grid[axis] > 1]
    long = [axis for axis, n in enumerate(kernel.grid) if n > 1]
    return sorted(stepped) == long and all(len(axes) <= 1 for axes in steps)


def _read_first(kernel: Kernel, i: int, o: int) -> bool:
    """Whether every equation that uses the operand, and only reads it, comes before those that use the result."""
    _, inputs, outputs, *_ = kernel.splits
    if any(e.operand == inputs + i and e.kind != "read" for e in kernel.body.effects):
        return False
    operand, result = kernel.body.inputs[inputs + i], kernel.body.inputs[outputs + o]
    uses = [[n for n, eqn in enumerate(kernel.body.eqns) if ref in eqn.inputs] for ref in (operand, result)]
    return not uses[0] or not uses[1] or max(uses[0]) < min(uses[1])
