"""Blocks that data places, checked while a kernel runs: what `kernel_call(..., debug=True)` adds to a body.

Where an index map reads prefetched data nothing can be proved of it. Compiled, a block past the end of its operand is
moved to the last place where it fits; checked, it is an error that names the operand, the index and the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.primitives.external.host_callback import debug_callback
from ...core.support.errors import OutOfBoundsError
from ...core.tracing.trace import eval_program
from ..analysis.index_maps import map_of
from ..kernel.kernel import Block, Kernel
from .rebuild import with_body


class _Bounds:
    """What is done on the host with the index of one operand's block."""

    def __init__(self, kernel: str, block: Block, rank: int):
        self.kernel, self.block, self.rank = kernel, block, rank

    def __call__(self, *values: Any) -> None:
        ids, index = (tuple(map(int, part)) for part in (values[: self.rank], values[self.rank :]))
        block = self.block
        for d, (i, axis, n) in enumerate(zip(index, block.axes, block.array.shape, strict=True)):
            start = axis.start(i)
            if not axis.fits(start, n):
                raise OutOfBoundsError(
                    f"kernel {self.kernel}, cell {ids}: the index map of operand {block.name} of {block.array.show()} "
                    f"gives block {index}, and along axis {d} that starts at {start}, outside of {n}",
                    "the prefetched data that the map reads names blocks within the operand")  # fmt: skip


def checked(kernel: Kernel) -> Kernel:
    """The kernel with a check of every index that prefetched data goes into; itself where there is none."""
    placed = [b for b in kernel.blocks if b.index_map is not None and map_of(kernel, b) is None]
    if not placed:
        return kernel

    def body(
        ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        for block in placed:
            index = eval_program(block.index_map, *ids, *prefetched)  # type: ignore[arg-type]
            debug_callback(_Bounds(kernel.name, block, len(ids)), *ids, *map(_int32, index))
        eval_program(kernel.body, *ids, *prefetched, *inputs, *outputs, *scratch)

    return with_body(kernel, body)


def _int32(i: ArrayLike) -> Any:
    return np.int32(i) if isinstance(i, (int, np.integer)) else i
