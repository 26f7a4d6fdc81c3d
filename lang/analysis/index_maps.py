"""The blocks of a kernel's cells: index maps as functions of the cell, and the cells that share a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.program import Var
from ...core.support.memo import cached
from ..kernel.kernel import Block, Kernel
from .affine import Affine, Fact, dependencies, facts, slice_of


def map_of(kernel: Kernel, block: Block) -> Fact | None:
    """What is known of the index map of a block of a kernel; None where it reads data."""
    if block.index_map is None:
        n = block.array.ndim
        return Fact((), np.zeros((n,), np.int64), Affine((0,) * n, ({},) * n))
    return facts(block.index_map, kernel.grid)


def cell_at(kernel: Kernel, axes: Sequence[int], position: Sequence[Any]) -> tuple[int, ...]:
    """The cell of a position in a table over some grid axes, with 0 along the others."""
    ids = [0] * len(kernel.grid)
    for axis, i in zip(axes, position, strict=True):
        ids[axis] = int(i)
    return tuple(ids)


def same_blocks(one: Fact | None, other: Fact | None) -> bool:
    """Whether two maps are known to give the same index in each cell."""
    if one is None or other is None or one.axes != other.axes:
        return False
    if one.table is not None and other.table is not None:
        return np.array_equal(one.table, other.table)
    if one.affine is None or other.affine is None:
        return False
    return (one.affine.const, one.affine.coefficients) == (other.affine.const, other.affine.coefficients)


def block_count(block: Block) -> int:
    """How many blocks an array is cut into."""
    return math.prod(-(-n // s) for n, s in zip(block.array.shape, block.sizes, strict=True))


def linear_index(table: np.ndarray) -> np.ndarray:
    """One number per block index, equal where the blocks are."""
    out = np.zeros(table.shape[:-1], np.int64)
    for d in range(table.shape[-1]):
        out = out * (int(table[..., d].max(initial=0)) + 1) + table[..., d]
    return out


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The different numbers in an array, in order: by sorting, as `numpy.unique` takes 20 times as long for a million.

    >>> distinct(np.array([[3, 1], [1, 3]])).tolist()
    [1, 3]
    """
    flat = np.sort(numbers, axis=None)
    return flat[np.concatenate([np.ones(min(flat.size, 1), bool), flat[1:] != flat[:-1]])]


def spread(table: np.ndarray, axes: Sequence[int], rank: int) -> np.ndarray:
    """A table over some grid axes, reshaped so that it broadcasts to the grid; what is left of it comes last."""
    sizes = dict(zip(axes, table.shape, strict=False))
    return table.reshape((*(sizes.get(a, 1) for a in range(rank)), *table.shape[len(axes) :]))


def shared_block(fact: Fact, parallel: Sequence[bool]) -> tuple[Any, Any] | None:
    """Two entries in a map's table with equal blocks that differ along a parallel axis; None if there are none."""
    assert fact.table is not None
    if not any(parallel):
        return None
    numbers = linear_index(fact.table)
    groups = np.zeros(numbers.shape, np.int64)  # equal where all parallel ids are
    for d, is_parallel in enumerate(parallel):
        if is_parallel:
            ids = np.arange(numbers.shape[d]).reshape([-1 if k == d else 1 for k in range(numbers.ndim)])
            groups = groups * numbers.shape[d] + ids
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    wrong = np.flatnonzero(groups.reshape(-1)[first][which.reshape(-1)] != groups.reshape(-1))
    if not wrong.size:
        return None
    other = int(wrong[0])
    pair = (int(first[which.reshape(-1)[other]]), other)
    one, two = (tuple(int(i) for i in np.unravel_index(at, numbers.shape)) for at in pair)
    return one, two


@cached(1024)
def separating_axes(kernel: Kernel, block: Block) -> tuple[int, ...]:
    """The grid axes along which no two cells see one block, by the components of its index that read no data."""
    if block.index_map is None:
        return ()
    made = dependencies(block.index_map, len(kernel.grid))
    parts = [a for a, element in zip(block.index_map.outputs, block.element, strict=True)
             if not element and not (type(a) is Var and "data" in made[a])]  # fmt: skip
    fact = facts(slice_of(block.index_map, parts), kernel.grid)
    if fact is None or fact.table is None:
        return ()
    return tuple(a for a in fact.axes if shared_block(fact, [a == b for b in fact.axes]) is None)


def runs_again(kernel: Kernel, fact: Fact) -> tuple[int, ...] | None:
    """The first cell that re-enters a block left before, in grid order; None if there is none."""
    if not fact.axes or fact.table is None:
        return None
    # Cells of ignored axes outside the used ones repeat the whole sequence, so that two show it; those inside
    # lengthen runs.
    outer = {a for a in kernel.long_axes if a not in fact.axes and a < fact.axes[-1]}
    axes = sorted({*outer, *fact.axes})
    grid = [2 if a in outer else kernel.grid[a] for a in axes]
    shape = [1 if a in outer else n for a, n in zip(axes, grid, strict=True)]
    numbers = np.broadcast_to(linear_index(fact.table).reshape(shape), grid).reshape(-1)
    starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
    if len(distinct(numbers)) == len(starts):
        return None
    seen: set[int] = set()
    for at in starts:
        if int(numbers[at]) in seen:
            return cell_at(kernel, axes, np.unravel_index(at, grid))
        seen.add(int(numbers[at]))
    return None


def inside(kernel: Kernel, block: Block) -> tuple[tuple[bool, bool], ...]:
    """Along each axis, whether every cell's block is proved not to start before the array, and not to end after it."""
    fact = map_of(kernel, block)
    found = []
    for d, (n, axis) in enumerate(zip(block.array.shape, block.axes, strict=True)):
        ends = None if fact is None else _ends(fact, kernel.grid, d)
        first, last = (-1, n) if ends is None else map(axis.start, ends)
        found.append((first >= 0, last + axis.size <= n))
    return tuple(found)


def _ends(fact: Fact, grid: Sequence[int], d: int) -> tuple[int, int] | None:
    """The least and the greatest index along an axis."""
    if fact.affine is not None:
        terms = [k * (grid[a] - 1) for a, k in fact.affine.coefficients[d].items()]
        const = fact.affine.const[d]
        return const + sum(min(t, 0) for t in terms), const + sum(max(t, 0) for t in terms)
    if fact.table is None:
        return None
    column = fact.table[..., d]
    return (int(column.min()), int(column.max())) if column.size else (0, 0)
