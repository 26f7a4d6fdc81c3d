"""vmap of a kernel: one more grid axis, outermost; batched operands have it as their leading axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.ir.types import ArrayType
from ...core.primitives.refs.ref_views import view
from ...core.support.memo import cached
from ..kernel.kernel import Block, Kernel, trace_map
from .discharge import Cell, run_cells
from .rebuild import carried, trace_kernel


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
                return [args[0], *block.index()]
            return [*([args[0]] if has else []), *run_cells(block.index_map, [*args[1:n], *of_row(args)])]

        if not has and block.index_map is None:
            return block
        index_map = trace_map(grid, prefetch, index)
        return block.stacked([size], index_map) if has else replace(block, index_map=index_map)

    def body(
        ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        values = [*ids[1:], *of_row([*ids, *prefetched]), *inputs, *outputs, *scratch]
        run_cells(kernel.body, values)

    extents = tuple(
        (a + 1, trace_map(grid, prefetch, lambda *args, p=p: run_cells(p, [*args[1:n], *of_row(args)])))
        for a, p in kernel.extents
    )
    return trace_kernel(
        kernel, body, name=f"{kernel.name}_vmap", grid=grid, prefetch=prefetch,
        inputs=[with_axis(b, h) for b, h in zip(kernel.inputs, batched, strict=True)],
        outputs=[with_axis(b, True) for b in kernel.outputs], extents=extents, settings=carried(kernel, 1),
        semantics=None if kernel.semantics is None else ("parallel", *kernel.semantics))  # fmt: skip
