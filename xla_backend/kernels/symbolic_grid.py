"""Kernels with a grid axis of symbolic size, for XLA to compute: the kernel of one tile of that axis, batched."""

from __future__ import annotations

from typing import Any

from ...core.ir.primitive import AxisInfo
from ...core.tracing.trace import eval_program, trace_program
from ...core.transforms.batching import batch_program
from ...lang.kernel.kernel import Kernel
from ...lang.transforms.symbolic_tiles import tiles_of
from .cpu_lowering import Lowered, lowered


def lowered_tiles(kernel: Kernel, off: frozenset[str] = frozenset()) -> Lowered:
    """A kernel for XLA to compute, its grid axes of symbolic size as axes of a batch.

    Raises:
      UnsupportedError: the kernel tiles an axis of symbolic size in another way.
    """
    tiles = tiles_of(kernel)
    if tiles is None:
        return lowered(kernel, off)
    one = lowered_tiles(tiles.kernel, off)

    def placed(*operands: Any) -> list[Any]:
        parts, dims = tiles.split(operands)
        batched, _ = batch_program(one.program, AxisInfo(tiles.count), dims, True)
        return [tiles.join(i, x) for i, x in enumerate(eval_program(batched, *parts))]

    program = trace_program(placed, kernel.in_types, kernel.name)
    return Lowered(program, f"a batch of {tiles.count}: {one.route}")
