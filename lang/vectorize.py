"""vmap of a kernel: one more grid axis, outermost; batched operands have it as their leading axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.caches import cached
from ..core.primitives.refview import view
from ..core.types import ArrayType
from .build import carried, trace_kernel
from .discharge import Cell, run_cells
from .kernel import Block, Kernel, trace_map


@cached(512)
def batched_kernel(kernel: Kernel, size: int, batched: tuple[bool, ...]) -> Kernel:
    """The kernel over a leading grid axis of `size`; `batched` says which operands have it. Every output does."""
    grid = (size, *kernel.grid)
    p, n = len(kernel.prefetch), len(grid)
    rows, batched = batched[:p], batched[p:]
    pairs = zip(kernel.prefetch, rows, strict=True)
    prefetch = [ArrayType((size, *t.shape), t.dtype) if row else t for t, row in pairs]

    def of_row(args: Sequence[Any]) -> list[Any]:
        """Prefetched Refs as the unbatched kernel sees them: this row's values."""
        return [Cell(view(ref)[args[0]]) if row else ref for ref, row in zip(args[n : n + p], rows, strict=True)]

    def with_axis(block: Block, has: bool) -> Block:
        def index(*args: Any) -> list[Any]:
            if block.index_map is None:
                rest = [np.int32(0)] * block.array.ndim
            else:
                rest = run_cells(block.index_map, [*args[1:n], *of_row(args)])
            return [args[0], *rest] if has else list(rest)

        index_map = trace_map(grid, prefetch, index)
        if not has:
            return replace(block, index_map=index_map if block.index_map is not None else None)
        return replace(
            block, array=ArrayType((size, *block.array.shape), block.array.dtype), sizes=(1, *block.sizes),
            squeezed=(True, *block.squeezed), element=(False, *block.element), index_map=index_map,
            padding=((0, 0), *block.padding),
        )  # fmt: skip

    def body(ids: Any, prefetched: Any, inputs: Any, outputs: Any, scratch: Any) -> None:
        values = [*ids[1:], *of_row([*ids, *prefetched]), *inputs, *outputs, *scratch]
        run_cells(kernel.body, values)

    made = trace_kernel(
        f"{kernel.name}_vmap", grid, prefetch,
        [with_axis(b, h) for b, h in zip(kernel.inputs, batched, strict=True)],
        [with_axis(b, True) for b in kernel.outputs], kernel.scratch, body, kernel, kernel.aliases,
    )  # fmt: skip
    semantics = kernel.semantics
    extents = tuple(
        (a + 1, trace_map(grid, prefetch, lambda *args, p=p: run_cells(p, [*args[1:n], *of_row(args)])))
        for a, p in kernel.extents
    )
    semantics = None if semantics is None else ("parallel", *semantics)
    return made.replace(semantics=semantics, extents=extents, settings=carried(kernel, 1))
