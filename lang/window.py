"""Blocks as windows of an array, at starts computed from ids: what serves any index map, on values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.linearize import linear_part
from ..core.primitive import AxisInfo, Linear
from ..core.primitives.convert import convert_element_type
from ..core.primitives.elementwise import mul_p
from ..core.primitives.shape import broadcast_in_dim_p, concatenate, iota_p, pad, reshape_to, slice_in_dim, transpose
from ..core.primitives.slicing import dynamic_slice
from ..core.rules import instantiate, moved
from ..core.trace import dtype_of, shape_of
from ..core.transpose import transpose_map
from ..core.vmap import batch_flat
from .affine import facts
from .discharge import Cell, run_cells
from .kernel import EDGE, Block, Kernel

INT32 = np.dtype(np.int32)


def margins(block: Block) -> list[tuple[int, int, int]]:
    """How much to pad an array so that every block lies within it: (before, after, between) along every axis."""
    margins = []
    for d, (size, n) in enumerate(zip(block.sizes, block.array.shape, strict=True)):
        low, high = block.padding[d] if block.padding else (0, 0)
        margins.append((low, high, 0) if block.element[d] else (0, -n % size, 0))
    return margins


def starts_of(block: Block, ids: Sequence[Any], prefetched: Sequence[Any]) -> list[Any]:
    """Where a cell's block starts in the padded array."""
    if block.index_map is None:
        return [np.int32(0)] * block.array.ndim
    cells = [*ids, *(Cell(p) for p in prefetched)]
    found = run_cells(block.index_map, cells)
    return [
        mul_p.bind(convert_element_type(i, INT32), np.int32(step)) if step != 1 else convert_element_type(i, INT32)
        for i, step in zip(found, block.steps, strict=True)
    ]


def padded(block: Block, array: Any, pads: Sequence[tuple[int, int, int]]) -> Any:
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


def read_window(block: Block, value: Any, ids: Sequence[Any], prefetched: Sequence[Any]) -> Any:
    """The block that one cell sees of a padded array."""
    starts = starts_of(block, ids, prefetched)
    return reshape_to(dynamic_slice(value, starts, block.sizes, allow_negative_indices=False), block.shape)


def cut_axis(x: Any, axis: int, spec: tuple[int, int, int, int]) -> Any:
    """Windows (first, count, stride, size) along one axis, which becomes (count, size): slices and reshapes alone."""
    first, count, stride, size = spec
    shape = shape_of(x)
    before, after = shape[:axis], shape[axis + 1 :]
    parts = []
    for offset in range(0, size, stride):
        width = min(stride, size - offset)
        length = (count - 1) * stride + width
        part = slice_in_dim(x, first + offset, first + offset + length, 1, axis)
        if length < count * stride:
            room = [(0, count * stride - length if d == axis else 0, 0) for d in range(len(shape))]
            part = pad(part, np.zeros((), dtype_of(part))[()], room)
        part = reshape_to(part, (*before, count, stride, *after))
        parts.append(part if width == stride else slice_in_dim(part, 0, width, 1, axis + 1))
    return parts[0] if len(parts) == 1 else concatenate(parts, axis + 1)


def _static_windows(kernel: Kernel, block: Block, axes: Sequence[int], fixed: dict[int, int]) -> Any:
    """(grid axis or None, window) along every axis of the padded array, where the map is affine in one id for each."""
    fact = None if block.index_map is None else facts(block.index_map, kernel.grid)
    if fact is None or fact.affine is None:
        return None
    found, seen = [], []
    for d, (step, size) in enumerate(zip(block.steps, block.sizes, strict=True)):
        terms = {a: k * step for a, k in fact.affine.coefficients[d].items() if kernel.grid[a] > 1}
        first = fact.affine.const[d] * step + sum(terms.pop(a) * i for a, i in fixed.items() if a in terms)
        if len(terms) > 1 or any(k <= 0 for k in terms.values()):
            return None
        axis = next(iter(terms), None)
        seen += terms
        window = (first, 1, size, size) if axis is None else (first, kernel.grid[axis], terms[axis], size)
        found.append((axis, window))
    return found if sorted(seen) == sorted(axes) else None


def gather_blocks(kernel: Kernel, block: Block, array: Any, prefetched: Sequence[Any], axes: Sequence[int],
                  fixed: dict[int, int]) -> Any:  # fmt: skip
    """The blocks of an array for every cell of some grid axes, those axes leading."""
    whole = padded(block, array, margins(block))
    static = _static_windows(kernel, block, axes, fixed)
    if static is not None:
        for d in reversed(range(len(static))):
            whole = cut_axis(whole, d, static[d][1])
        where = {axis: 2 * d for d, (axis, _) in enumerate(static) if axis is not None}
        kept = [2 * d + 1 for d, gone in enumerate(block.squeezed) if not gone]
        rest = [d for d in range(2 * len(static)) if d not in where.values() and d not in kept]
        turned = transpose(whole, (*(where[a] for a in axes), *kept, *rest))
        return reshape_to(turned, (*(kernel.grid[a] for a in axes), *block.shape))

    def at(known: dict[int, Any], rest: Sequence[int]) -> Any:
        if not rest:
            ids = [known.get(a, np.int32(0)) for a in range(len(kernel.grid))]
            return read_window(block, whole, ids, prefetched)
        n = kernel.grid[rest[0]]
        steps = iota_p.bind(dtype=INT32, shape=(n,), dimension=0)
        outs, dims = batch_flat(lambda i: [at(known | {rest[0]: i}, rest[1:])], AxisInfo(n), [steps], [0])
        return moved(AxisInfo(n), outs[0], dims[0], 0)

    return at({a: np.int32(i) for a, i in fixed.items()}, list(axes))


def scatter_blocks(kernel: Kernel, block: Block, partial: Any, prefetched: Sequence[Any], axes: Sequence[int],
                   fixed: dict[int, int]) -> Any:  # fmt: skip
    """The transpose of `gather_blocks`: blocks added up where they lie in the array."""
    exact = replace(block, fill=None)  # what is past the end is dropped

    def gather(array: Any) -> list[Any]:
        return [gather_blocks(kernel, exact, array, prefetched, axes, fixed)]

    linear = linear_part(gather, [Linear(block.array)], [True])
    return instantiate(transpose_map(linear, [partial])[0])
