"""The kernel of one device of a mesh, along whose axes some axes of the grid are split.

Each device has as many cells of a split axis, side by side; where they do not divide, the last ones have some that are
none: what these make of padding is cut off, and to sums they add nothing. Where the body or an index map needs to know
which cell of the whole grid it is, the number of the device's first one comes as a prefetched operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.ir.program import Program
from ...core.ir.types import INT32, ArrayType
from ...core.primitives.elementwise.arithmetic import add_p, div_p, min_p, mul_p, sub_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import lt_p, select
from ...core.primitives.refs.ref_views import view
from ...core.tracing.trace import eval_program
from ..analysis.affine import slice_of
from ..kernel.kernel import Block, Kernel, trace_map
from ..transforms.rebuild import trace_kernel
from .sharding_rule import Dim, dims_of, needs_cell_number

Parts = Mapping[int, int]  # into how many parts each split axis is cut
Body = Callable[..., None]  # ids of the part, ids of the whole, whether the cell is one, then the Refs by kind


@dataclass(frozen=True)
class Piece:
    """What a device takes of a dimension: `length` elements, which begin at `step` times its number less `before`."""

    axis: int
    step: int
    before: int
    length: int


Pieces = tuple[Piece | None, ...]


def pieces(kernel: Kernel, parts: Parts) -> tuple[tuple[Pieces, ...], tuple[Pieces, ...]]:
    """What a device takes of each dimension of each input, and makes of each output; None: all of it."""
    ins, outs = dims_of(kernel)

    def found(blocks: Sequence[Block], given: Sequence[Any]) -> tuple[Pieces, ...]:
        return tuple(tuple(_piece(kernel, b, d, dim, parts) for d, dim in enumerate(dims))
                     for b, dims in zip(blocks, given, strict=True))  # fmt: skip

    return found(kernel.inputs, ins), found(kernel.outputs, outs)


def _piece(kernel: Kernel, block: Block, d: int, dim: Dim | None, parts: Parts) -> Piece | None:
    if dim is None or dim.axis not in parts:
        return None
    n = kernel.grid[dim.axis]
    cells = -(-n // parts[dim.axis])
    step = dim.step * cells
    if step.denominator > 1 or step % block.steps[d]:
        return None
    step = int(step)
    if type(dim.low) is int:
        before, after = max(0, -dim.low), max(0, dim.high - int(dim.step))
    else:
        part = np.arange(n) // cells
        before = max(0, int((part * step - dim.low).max()))
        after = max(0, int((dim.high - (part + 1) * step).max()))
    length = before + step + after
    return Piece(dim.axis, step, before, length) if dim.adjacent or length < block.array.shape[d] else None


def numbered(kernel: Kernel, parts: Parts) -> frozenset[int]:
    """The split axes whose number in the whole grid a device needs."""
    needs, (ins, _) = needs_cell_number(kernel), dims_of(kernel)
    found = {a for a in parts if a in needs or (kernel.grid[a] % parts[a] and a in _summed(kernel))}
    for dims, kept in zip(ins, pieces(kernel, parts)[0], strict=True):  # what turned out to be needed whole
        found |= {d.axis for d, piece in zip(dims, kept, strict=True) if d and d.axis in parts and piece is None}
    return frozenset(found)


def _summed(kernel: Kernel) -> set[int]:
    outs = dims_of(kernel)[1]
    return {a for a in range(len(kernel.grid)) if not all(any(d and d.axis == a for d in dims) for dims in outs)}


def local(kernel: Kernel, parts: Parts, numbers: frozenset[int], body: Body | None = None) -> Kernel:
    """The kernel of one device; with a last prefetched operand, its first cell's number along each axis, if `numbers`.

    `body` is in place of the kernel's own.
    """
    cells = {a: -(-kernel.grid[a] // p) for a, p in parts.items()}
    grid = tuple(cells.get(a, n) for a, n in enumerate(kernel.grid))
    prefetch = (*kernel.prefetch, ArrayType((len(grid),), INT32)) if numbers else kernel.prefetch
    frame = _Frame(kernel, grid, prefetch, numbers, cells, parts)
    ins, outs = pieces(kernel, parts)
    every = zip(kernel.blocks, (*ins, *outs), sum(dims_of(kernel), ()), strict=True)
    blocks = [frame.block(*given) for given in every]
    n = len(kernel.inputs)
    if not numbers:
        return kernel.replace(grid=grid, inputs=tuple(blocks[:n]), outputs=tuple(blocks[n:]))
    run = body or (lambda ids, whole, valid, *refs: eval_program(kernel.body, *whole, *sum(map(list, refs), [])))

    def traced(ids: Any, refs: Any, *others: Any) -> None:
        whole, valid = frame.whole(ids, refs[-1])
        run(ids, whole, valid, refs[:-1], *others)

    extents = tuple((a, trace_map(grid, prefetch, frame.mapped(p))) for a, p in kernel.extents)
    return trace_kernel(kernel, traced, grid=grid, prefetch=prefetch, inputs=blocks[:n], outputs=blocks[n:],
                        semantics=kernel.semantics, extents=extents, scratch_names=kernel.scratch_names)  # fmt: skip


@dataclass(frozen=True)
class _Frame:
    """A kernel of one device, as its ids and index maps see it."""

    kernel: Kernel
    grid: tuple[int, ...]
    prefetch: tuple[ArrayType, ...]
    numbers: frozenset[int]
    cells: Mapping[int, int]
    parts: Parts

    def whole(self, ids: Sequence[Any], starts: Any) -> tuple[list[Any], Any]:
        """The ids in the whole grid, where there are no more the last cell's; whether the cell is one (None: yes)."""
        found, valid = list(ids), None
        for a in sorted(self.numbers):
            n = self.kernel.grid[a]
            found[a] = add_p.bind(ids[a], view(starts, a)[...])
            if self.cells[a] * self.parts[a] > n:
                inside = lt_p.bind(found[a], np.int32(n))
                valid = inside if valid is None else and_p.bind(valid, inside)
                found[a] = min_p.bind(found[a], np.int32(n - 1))
        return found, valid

    def mapped(self, program: Program) -> Callable[..., list[Any]]:
        """A Program of the whole grid's ids and the prefetched Refs, as one of the part's."""
        n = len(self.grid)

        def fun(*args: Any) -> list[Any]:
            ids, refs = args[:n], args[n:]
            whole, _ = self.whole(ids, refs[-1]) if self.numbers else (ids, None)
            return eval_program(program, *whole, *refs[: len(self.kernel.prefetch)])

        return fun

    def block(self, block: Block, pieces: Pieces, dims: Sequence[Any]) -> Block:
        """A block of the part that a device has of an operand."""
        if block.index_map is None:
            return block
        n, old, maps = len(self.grid), block.index_map, []
        for d, (atom, piece, dim) in enumerate(zip(old.outputs, pieces, dims, strict=True)):
            before = 0 if piece is None else piece.before - block.padding[d][0]
            maps.append((slice_of(old, [atom]), piece, dim, block.steps[d], before // block.steps[d]))

        def fun(*args: Any) -> list[Any]:
            return [self.index(args[:n], args[n:], *given) for given in maps]

        shape = [m if p is None else p.length for m, p in zip(block.array.shape, pieces, strict=True)]
        axes = [a if piece is None else replace(a, padding=(0, 0)) for a, piece in zip(block.axes, pieces, strict=True)]
        return replace(block, array=ArrayType(tuple(shape), block.array.dtype), axes=tuple(axes),
                       index_map=trace_map(self.grid, self.prefetch, fun))  # fmt: skip

    def index(self, ids: Sequence[Any], refs: Sequence[Any], program: Program, piece: Piece | None, dim: Any,
              unit: int, before: int) -> Any:  # fmt: skip
        """One index of a block within what the device has: that in the whole array, less where the part begins."""
        whole, valid = self.whole(ids, refs[-1]) if self.numbers else (list(ids), None)
        near = piece is not None and type(dim.low) is int
        if piece is not None and near:  # as far from the part's beginning as in the first part
            whole[piece.axis] = ids[piece.axis]
        (found,) = eval_program(program, *whole, *refs[: len(self.kernel.prefetch)])
        if piece is not None and not near:
            part = div_p.bind(view(refs[-1], piece.axis)[...], np.int32(self.cells[piece.axis]))
            found = sub_p.bind(found, mul_p.bind(part, np.int32(piece.step // unit)))
        found = add_p.bind(found, np.int32(before)) if before else found
        return found if near or piece is None or valid is None else select(valid, found, np.int32(0))
