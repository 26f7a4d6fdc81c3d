"""Blocks of an array as axes of one array, where index maps are known: nothing is copied cell by cell.

A `Layout` names the axes of a value in order: `("grid", a)` is grid axis `a`, `("block", d)` axis `d` of the
block as a kernel's body sees it. An array `[I*bm, K*bk]` seen in blocks `(i, k)` is, with no data moved, a
value of layout grid i, block 0, grid k, block 1; and so back for outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import AxisInfo
from ...core.ir.program import Program
from ...core.primitives.movement.dynamic_slice import dynamic_update_slice
from ...core.primitives.movement.shape import broadcast_in_dim_p, reshape_to, rev_p, transpose_p
from ...core.primitives.movement.shape import slice as slice_
from ...core.tracing.trace import eval_program, shape_of, typeof
from ...core.transforms.batching import batch_flat
from ...lang.analysis.affine import Affine
from ...lang.kernel.kernel import Block
from ...lang.transforms.windows import padded
from ..cpu_passes.window_primitive import windows_p

if TYPE_CHECKING:
    from ...core.ir.array import Array

Entry = tuple[str, int]
Layout = tuple[Entry, ...]


def grid_entry(axis: int) -> Entry:
    return ("grid", axis)


def block_layout(rank: int) -> Layout:
    return tuple(("block", d) for d in range(rank))


@dataclass(frozen=True, slots=True)
class DimPlan:
    """One axis of an array cut by an index map: grid axes from slowest to fastest, which of them run backwards.

    The first of `count` blocks starts at element `start` (before the array where it is negative), each next one
    `stride` later.
    """

    axes: tuple[int, ...]
    backwards: tuple[int, ...]
    start: int
    count: int
    stride: int


def plan_dims(block: Block, affine: Affine | None, grid: Sequence[int]) -> list[DimPlan] | None:
    """How each axis of an array splits into grid axes and a block axis; None where blocks do not tile."""
    if affine is None:
        return None
    plans = []
    for d in range(block.array.ndim):
        plan = _plan_dim(block, d, affine, grid)
        if plan is None:
            return None
        plans.append(plan)
    axes = [a for p in plans for a in p.axes]
    return plans if len(set(axes)) == len(axes) else None


def _plan_dim(block: Block, d: int, affine: Affine, grid: Sequence[int]) -> DimPlan | None:
    step = block.steps[d]
    terms = {a: k * step for a, k in affine.coefficients[d].items() if grid[a] > 1}
    start = affine.const[d] * step - block.padding[d][0]
    backwards = tuple(a for a, k in terms.items() if k < 0)
    start += sum(terms[a] * (grid[a] - 1) for a in backwards)
    ordered = sorted(((abs(k), a) for a, k in terms.items()), reverse=True)
    stride = ordered[-1][0] if ordered else block.sizes[d]
    unit = 1
    for k, a in reversed(ordered):
        if k != unit * stride:
            return None
        unit *= grid[a]
    return DimPlan(tuple(a for _, a in ordered), backwards, start, unit, stride)


def disjoint(block: Block, plans: Sequence[DimPlan] | None) -> bool:
    """Whether blocks are adjacent, so that they can be joined again."""
    return plans is not None and all(p.start >= 0 and p.stride == n for p, n in zip(plans, block.sizes, strict=True))


def natural_layout(block: Block, plans: Sequence[DimPlan]) -> Layout:
    """The layout in which a tiled array is the array itself, reshaped."""
    out: list[Entry] = []
    seen = 0
    for d, plan in enumerate(plans):
        out += [grid_entry(a) for a in plan.axes]
        if not block.squeezed[d]:
            out.append(("block", seen))
            seen += 1
    return tuple(out)


def tile(block: Block, plans: Sequence[DimPlan], grid: Sequence[int], array: Array) -> Any:
    """An array as a value of its natural layout."""
    lows, highs, pads, shape, reverse, specs = [], [], [], [], [], []
    for d, plan in enumerate(plans):
        size, n = block.sizes[d], block.array.shape[d]
        end = plan.start + (plan.count - 1) * plan.stride + size
        lows.append(max(plan.start, 0))
        highs.append(min(end, n))
        pads.append((max(-plan.start, 0), max(end - n, 0), 0))
        specs.append((0, plan.count, plan.stride, size))
        for a in plan.axes:
            if a in plan.backwards:
                reverse.append(len(shape))
            shape.append(grid[a])
        if not block.squeezed[d]:
            shape.append(size)
    if any(lows) or tuple(highs) != block.array.shape:
        array = slice_(array, lows, highs)
    array = padded(block, array, pads)
    if not disjoint(block, [replace(p, start=0) for p in plans]):
        array = windows_p.bind(array, specs=tuple(specs))
    array = reshape_to(array, tuple(shape))
    return rev_p.bind(array, dimensions=tuple(reverse)) if reverse else array


def untile(block: Block, plans: Sequence[DimPlan], value: Array, base: Callable[[], Any]) -> Any:
    """The array that a value of natural layout is; `base` gives what parts that no block covers hold."""
    reverse, sizes, position = [], [], 0
    for d, plan in enumerate(plans):
        for a in plan.axes:
            if a in plan.backwards:
                reverse.append(position)
            position += 1
        position += not block.squeezed[d]
        sizes.append(plan.count * block.sizes[d])
    if reverse:
        value = rev_p.bind(value, dimensions=tuple(reverse))
    value = reshape_to(value, tuple(sizes))
    starts = [p.start for p in plans]
    kept = [min(start + n, total) - start for start, n, total in zip(starts, sizes, block.array.shape, strict=True)]
    if kept != sizes:
        value = slice_(value, [0] * len(kept), kept)
    if tuple(kept) == block.array.shape:
        return value
    return dynamic_update_slice(base(), value, starts)


def arrange(value: Any, layout: Layout, target: Layout, grid: Sequence[int]) -> Any:
    """A value of one layout in another; grid axes it lacks are repeated."""
    if layout == target:
        return value
    wanted = [e for e in target if e in layout]
    if list(layout) != wanted:
        value = transpose_p.bind(value, permutation=tuple(layout.index(e) for e in wanted))
    if len(wanted) == len(target):
        return value
    sizes = dict(zip(wanted, shape_of(value), strict=True))
    shape = tuple(sizes[e] if e in sizes else grid[e[1]] for e in target)
    return broadcast_in_dim_p.bind(
        value, shape=shape, broadcast_dimensions=tuple(i for i, e in enumerate(target) if e in sizes)
    )


def evaluate_over(
    program: Program, axes: Sequence[int], grid: Sequence[int], args: Sequence[Any], layouts: Sequence[Layout],
    out_layouts: Sequence[Layout],
) -> tuple[list[Any], list[Layout]]:  # fmt: skip
    """Evaluate a Program of one cell over grid axes at once, the first axis innermost.

    `layouts` say where each argument has those axes (entries of other axes are the Program's own);
    `out_layouts` name the Program's own output axes. Each operand keeps its layout, so that the batching
    rule of a contraction makes free axes of it, and nothing is moved.
    """
    found: dict[int, list[int | None]] = {}

    def go(k: int, values: Sequence[Any]) -> list[Any]:
        if k == 0:
            return eval_program(program, *values)
        hidden = {grid_entry(a) for a in axes[k:]}
        here = grid_entry(axes[k - 1])
        dims = []
        for layout in layouts:
            visible = [e for e in layout if e not in hidden]
            dims.append(visible.index(here) if here in visible else None)
        outs, found[k] = batch_flat(lambda *v: go(k - 1, v), AxisInfo(grid[axes[k - 1]]), values, dims)
        return outs

    outs = go(len(axes), args)
    result = []
    for i, base in enumerate(out_layouts):
        entries = list(base)
        for k, axis in enumerate(axes, 1):
            dim = found[k][i]
            if dim is not None:
                entries.insert(dim, grid_entry(axis))
        result.append(tuple(entries))
    return outs, result


def type_without(value: Any, layout: Layout, axes: Sequence[int]) -> Any:
    """The type of a value seen by one cell of some grid axes."""
    gone = {grid_entry(a) for a in axes}
    type_ = typeof(value)
    return type_.with_shape(n for n, e in zip(type_.shape, layout, strict=True) if e not in gone).strong()
