"""Blocks as windows of an array, at starts computed from ids: what serves any index map, on values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.ir.array import Array, ArrayLike
from ...core.ir.primitive import AxisInfo, Linear
from ...core.primitives.elementwise.arithmetic import mul_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.dynamic_slice import dynamic_slice
from ...core.primitives.movement.shape import broadcast_in_dim_p, concatenate, iota_p, pad, reshape_to, slice_in_dim
from ...core.tracing.trace import shape_of
from ...core.transforms.batching import batch_flat
from ...core.transforms.linearize import linear_part
from ...core.transforms.rule_helpers import instantiate
from ...core.transforms.structural_primitives import moved
from ...core.transforms.transpose import transpose_map
from ..kernel.kernel import EDGE, Block, Kernel
from .discharge import Cell, run_cells

INT32 = np.dtype(np.int32)


def margins(block: Block) -> list[tuple[int, int, int]]:
    """The padding of an array that brings each block in bounds: (before, after, between) along each axis."""
    pairs = zip(block.axes, block.array.shape, strict=True)
    return [(*a.padding, 0) if a.element else (0, -n % a.size, 0) for a, n in pairs]


def starts_of(block: Block, ids: Sequence[Any], prefetched: Sequence[Any]) -> list[Any]:
    """Where a cell's block starts in the padded array."""
    if block.index_map is None:
        return list(block.index())
    cells = [*ids, *(Cell(p) for p in prefetched)]
    found = run_cells(block.index_map, cells)
    return [
        mul_p.bind(convert_element_type(i, INT32), np.int32(step)) if step != 1 else convert_element_type(i, INT32)
        for i, step in zip(found, block.steps, strict=True)
    ]


def padded(block: Block, array: ArrayLike, pads: Sequence[tuple[int, int, int]]) -> Any:
    """An array with room around it, filled as the block says."""
    if not any(low or high for low, high, _ in pads):
        return array
    if block.fill is not EDGE:
        return pad(array, np.zeros((), block.array.dtype)[()] if block.fill is None else block.fill, pads)
    for d, (low, high, _) in enumerate(pads):
        shape = shape_of(array)
        ends = [slice_in_dim(array, 0, 1, 1, d), slice_in_dim(array, shape[d] - 1, shape[d], 1, d)]
        sides = [
            broadcast_in_dim_p.bind(
                x, shape=(*shape[:d], n, *shape[d + 1 :]), broadcast_dimensions=tuple(range(len(shape)))
            )
            for x, n in zip(ends, (low, high), strict=True)
        ]
        if low or high:
            array = concatenate([x for x, n in ((sides[0], low), (array, 1), (sides[1], high)) if n], d)
    return array


def read_window(block: Block, value: ArrayLike, ids: Sequence[Any], prefetched: Sequence[Any]) -> Any:
    """The block that one cell sees of a padded array."""
    starts = starts_of(block, ids, prefetched)
    return reshape_to(dynamic_slice(value, starts, block.sizes, allow_negative_indices=False), block.shape)


def gather_blocks(kernel: Kernel, block: Block, array: ArrayLike, prefetched: Sequence[Any], axes: Sequence[int],
                  fixed: dict[int, int]) -> Any:  # fmt: skip
    """The blocks of an array for every cell of some grid axes, those axes leading."""
    whole = padded(block, array, margins(block))

    def at(known: dict[int, Any], rest: Sequence[int]) -> Any:
        if not rest:
            ids = [known.get(a, np.int32(0)) for a in range(len(kernel.grid))]
            return read_window(block, whole, ids, prefetched)
        n = kernel.grid[rest[0]]
        steps = iota_p.bind(dtype=INT32, shape=(n,), dimension=0)
        outs, dims = batch_flat(lambda i: [at(known | {rest[0]: i}, rest[1:])], AxisInfo(n), [steps], [0])
        return moved(AxisInfo(n), outs[0], dims[0], 0)

    return at({a: np.int32(i) for a, i in fixed.items()}, list(axes))


def scatter_blocks(kernel: Kernel, block: Block, partial: ArrayLike, prefetched: Sequence[Any], axes: Sequence[int],
                   fixed: dict[int, int]) -> Any:  # fmt: skip
    """The transpose of `gather_blocks`: blocks scatter-added to their places in the array."""
    exact = replace(block, fill=None)  # what is past the end is dropped

    def gather(array: Array) -> list[Any]:
        return [gather_blocks(kernel, exact, array, prefetched, axes, fixed)]

    _, linear = linear_part(gather, [Linear(block.array)], [True])
    return instantiate(transpose_map(linear, [partial])[0])
