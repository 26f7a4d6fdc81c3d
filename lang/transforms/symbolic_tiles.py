"""Kernels with a grid axis of symbolic size: the kernel of one tile, for each tile along that axis.

Each operand is cut along one of its axes into tiles of a known size, of which the last may be ragged, or has no part in
the axis. The tiles are independent of each other, so that they are a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array
from ...core.ir.types import INT32
from ...core.primitives.control_flow.scan import scan
from ...core.primitives.movement.dynamic_slice import dynamic_slice_in_dim, dynamic_update_slice
from ...core.primitives.movement.shape import broadcast_in_dim, iota_p, reshape, slice_in_dim
from ...core.primitives.refs.ref_views import view
from ...core.support.errors import UnsupportedError
from ...core.support.memo import cached
from ...core.tracing.trace import shape_of
from ...core.transforms.structural_primitives import moveaxis
from ..analysis.affine import closed_form
from ..analysis.facts import analyse
from ..kernel.kernel import ID, Block, Kernel, trace_map
from .discharge import run_cells
from .rebuild import trace_kernel

if TYPE_CHECKING:
    from ...core.support.pytree import PyTree

SAMPLE = 3  # tiles of the kernel that is verified in the place of one with a symbolic number of them


@dataclass(frozen=True)
class Tiles:
    """A kernel as that of one tile along a grid axis. `dims` says along which axis operands and outputs are cut."""

    kernel: Kernel
    count: Any
    dims: tuple[int | None, ...]
    blocks: tuple[Block, ...]
    prefetched: int
    numbered: bool  # whether the kernel of a tile takes the tile's number, as its first operand

    def split(self, operands: Sequence[Any]) -> tuple[list[Any], tuple[int | None, ...]]:
        """The operands of the kernel of a tile with one more axis, of the tiles; and which that is (None: none)."""
        scalars, arrays = list(operands[: self.prefetched]), operands[self.prefetched :]
        dims: list[int | None] = [None] * self.prefetched
        if self.numbered:
            scalars, dims = [iota_p.bind(dtype=INT32, shape=(self.count,), dimension=0), *scalars], [0, *dims]
        parts = zip(arrays, self.dims, self.blocks, strict=False)
        return [*scalars, *(x if d is None else self._cut(x, d, b) for x, d, b in parts)], (
            *dims, *self.dims[: len(arrays)])  # fmt: skip

    def _cut(self, x: Array, d: int, block: Block) -> Any:
        shape, size = shape_of(x), block.sizes[d]
        padded = (*shape[:d], self.count * size, *shape[d + 1 :])
        if padded != shape:
            last = dynamic_slice_in_dim(x, shape[d] - 1, 1, d) if block.fill is None else block.fill
            rest = broadcast_in_dim(last, padded, tuple(range(len(shape))) if block.fill is None else ())
            x = dynamic_update_slice(rest, x, [0] * len(shape))
        return reshape(x, (*shape[:d], self.count, size, *shape[d + 1 :]))

    def join(self, number: int, tiles: Mapping[Any, Any]) -> Any:
        """Output `number` of the kernel, from those of its tiles, along a leading axis."""
        number += len(self.dims) - len(self.kernel.outputs)
        d, block = self.dims[number] or 0, self.blocks[number]
        shape = block.array.shape
        merged = reshape(moveaxis(tiles, 0, d), (*shape[:d], self.count * block.sizes[d], *shape[d + 1 :]))
        return merged if shape_of(merged) == shape else slice_in_dim(merged, 0, shape[d], axis=d)


@cached(256)
def tiles_of(kernel: Kernel) -> Tiles | None:
    """A kernel by its first grid axis of symbolic size; None if it has none.

    Raises:
      UnsupportedError: the kernel tiles an axis of symbolic size in another way.
    """
    axis = next((a for a, n in enumerate(kernel.grid) if type(n) is not int), None)
    if axis is None:
        if kernel.symbolic:
            raise _refused(kernel, "an array has a symbolic size that no axis of the grid has")
        return None
    if kernel.extents:
        raise _refused(kernel, "axes of its grid are computed at the call")
    dims = tuple(_tiled_axis(kernel, b, axis) for b in kernel.blocks)
    if any(d is None for d in dims[len(kernel.inputs) :]):
        raise _refused(kernel, f"every cell along axis {axis} of its grid writes the same block of a result")
    numbered = any(kernel.body.inputs[axis] in eqn.inputs for eqn in kernel.body.eqns)
    return Tiles(_one_tile(kernel, axis, dims, numbered), kernel.grid[axis], dims, kernel.blocks,
                 len(kernel.prefetch), numbered)  # fmt: skip


def _one_tile(kernel: Kernel, axis: int, dims: Sequence[int | None], numbered: bool) -> Kernel:
    grid = (*kernel.grid[:axis], *kernel.grid[axis + 1 :])
    prefetch = (*([ID] if numbered else []), *kernel.prefetch)
    n = len(grid)

    def block(of: Block, d: int | None) -> Block:
        shape = of.array.shape
        array = of.array if d is None else of.array.with_shape((*shape[:d], of.sizes[d], *shape[d + 1 :]))
        places = of.index_map
        if places is None:
            return of

        def index(*args: Any) -> list[Any]:
            return run_cells(places, [*args[:axis], np.int32(0), *args[axis:n], *args[n + numbered :]])

        return replace(of, array=array, index_map=trace_map(grid, prefetch, index))

    def body(
        ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        number = view(prefetched[0])[...] if numbered else np.int32(0)
        run_cells(kernel.body, [*ids[:axis], number, *ids[axis:], *prefetched[numbered:], *inputs, *outputs, *scratch])

    blocks, count = [block(b, d) for b, d in zip(kernel.blocks, dims, strict=True)], len(kernel.inputs)
    semantics = kernel.semantics and (*kernel.semantics[:axis], *kernel.semantics[axis + 1 :])
    return trace_kernel(kernel, body, name=kernel.name, grid=grid, prefetch=prefetch, inputs=blocks[:count],
                        outputs=blocks[count:], semantics=semantics)  # fmt: skip


def _tiled_axis(kernel: Kernel, block: Block, axis: int) -> int | None:
    """The axis of an operand of which each cell along a grid axis has one tile; None if it has no part in it."""
    forms = None if block.index_map is None else closed_form(block.index_map)
    if block.index_map is not None and forms is None:
        raise _refused(kernel, f"the index map of {block.name} is not affine")
    found = [d for d, form in enumerate(forms or ()) if form.terms.get(axis)]
    if not found:
        return None
    (d, *more), form, size = found, (forms or ())[found[0]], block.sizes[found[0]]
    if more or dict(form.terms) != {axis: 1} or form.const or block.steps[d] != size or any(block.padding[d]):
        raise _refused(kernel, f"{block.name} is not cut into tiles by axis {axis} of its grid alone")
    if -(-block.array.shape[d] // size) != kernel.grid[axis]:
        raise _refused(kernel, f"axis {d} of {block.name} is {block.array.shape[d]}, and the grid has "
                               f"{kernel.grid[axis]} tiles of {size}")  # fmt: skip
    return d


def sampled(kernel: Kernel) -> Kernel:
    """The kernel with known sizes, to be verified: some tiles along each symbolic axis, the last of them ragged.

    Raises:
      UnsupportedError: the kernel tiles an axis of symbolic size in another way, or its tiles depend on each other.
    """
    blocks, axes = list(kernel.blocks), [a for a, n in enumerate(kernel.grid) if type(n) is not int]
    for axis in axes:
        for i, block in enumerate(blocks):
            d = _tiled_axis(kernel, kernel.blocks[i], axis)
            if d is not None:
                shape, size = block.array.shape, block.sizes[d]
                ragged = size > 1 and kernel.blocks[i].array.shape[d] != kernel.grid[axis] * size
                known = (*shape[:d], SAMPLE * size - ragged, *shape[d + 1 :])
                blocks[i] = replace(block, array=block.array.with_shape(known))
    grid = tuple(SAMPLE if a in axes else n for a, n in enumerate(kernel.grid))
    n = len(kernel.inputs)
    found = kernel.replace(grid=grid, inputs=tuple(blocks[:n]), outputs=tuple(blocks[n:]))
    if found.symbolic:
        raise _refused(kernel, "an array has a symbolic size that no axis of the grid has")
    for axis in set(axes).intersection(analyse(found).carry):
        raise _refused(kernel, f"its cells along axis {axis} of the grid, of symbolic size, depend on each other")
    return found


def by_tiles(kernel: Kernel, call: Callable[..., Sequence[Any]], operands: Sequence[Any]) -> list[Any]:
    """The outputs of a kernel with a symbolic grid axis, by one call for each tile; for derivatives."""
    tiles = tiles_of(kernel)
    assert tiles is not None
    parts, dims = tiles.split(operands)
    cut = [x if d is None else moveaxis(x, d, 0) for x, d in zip(parts, dims, strict=True)]

    def step(carry: PyTree, rows: Sequence[Any]) -> Any:
        given = iter(rows)
        values = [x if d is None else next(given) for x, d in zip(cut, dims, strict=True)]
        return carry, list(call(tiles.kernel, *values))

    _, outs = scan(step, (), [x for x, d in zip(cut, dims, strict=True) if d is not None])
    return [tiles.join(i, x) for i, x in enumerate(outs)]


def _refused(kernel: Kernel, why: str) -> UnsupportedError:
    return UnsupportedError(f"the kernel {kernel.name} with symbolic sizes: {why}",
                            "let one axis of the grid count the tiles of the symbolic axis, or export each size",
                            kernel.source)  # fmt: skip
