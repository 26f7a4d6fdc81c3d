"""Outputs with axes of `BoundedSlice`: the body sees a block in scratch, of which each cell stores the slice.

The output itself is in ANY memory, so that a cell stores to no element outside of its slice. One that starts as an
operand is read into the block on entry to each cell.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.types import ArrayType, MemorySpace, RefType
from ...core.primitives.elementwise.arithmetic import add_p, min_p
from ...core.primitives.refs import ref_views as refs
from ...core.tracing.index_entries import Slice
from ..kernel.block_spec import BlockAxis, BlockSpec, BoundedSlice
from ..ops.basic import current_cell
from ..ops.block_parts import block_part, starts_of
from ..ops.dynamic_slices import int32_of

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef

UNBLOCKED: BlockSpec = BlockSpec(memory_space=MemorySpace.ANY)


def has_slices(spec: BlockSpec) -> bool:
    """Whether a block shape has an axis of `BoundedSlice`."""
    return any(isinstance(size, BoundedSlice) for size in spec.block_shape or ())


def _part(ref: AnyRef, axes: Sequence[BlockAxis], index: Sequence[Any], array: ArrayType) -> tuple[Any, Any]:
    """The part of an output that a cell stores, as a block's size of it and a mask."""
    starts = starts_of(axes, [int32_of(i.start if isinstance(i, Slice) else i) for i in index])
    ends = [
        min_p.bind(add_p.bind(start, int32_of(i.size)), np.int32(n)) if isinstance(i, Slice)
        else np.int32(n) if axis.ragged(n) else None
        for i, start, axis, n in zip(index, starts, axes, array.shape, strict=True)
    ]  # fmt: skip
    return block_part(ref, axes, starts, ends)


@contextlib.contextmanager
def sliced_outputs(
    outputs: Sequence[Any], specs: Mapping[int, BlockSpec], aliased: Collection[int],
    index: Callable[[int, BlockSpec], Sequence[Any]],
) -> Iterator[list[Any]]:  # fmt: skip
    """The Refs that a body sees as its outputs, given those of the kernel; their slices are stored on exit.

    `index(o, spec)` is the block index of output `o` in this cell, with its slices.
    """
    seen, parts = list(outputs), {}
    for o, spec in specs.items():
        array, axes = outputs[o].aval.array, [BlockAxis.of(size) for size in spec.block_shape or ()]
        kept = array.with_shape(tuple(a.size for a in axes if not a.squeezed))
        space = spec.memory_space or MemorySpace.VMEM
        seen[o] = current_cell("kernel_call").allocate(RefType(kept, space))  # kept from cell to cell, as a block is
        parts[o] = part, mask = _part(outputs[o], axes, index(o, spec), array)
        if o in aliased:
            refs.write(refs.view(seen[o]), refs.read(part, mask))
    yield seen
    for o, (part, mask) in parts.items():
        refs.write(part, refs.read(refs.view(seen[o])), mask)
