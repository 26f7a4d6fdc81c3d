"""Kernels with a grid axis of symbolic size, for XLA to compute: the kernel of one row of that axis, batched.

Such an axis is that of a batch: each operand is cut along one of its axes into rows of one element, or has no part in
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.ir.primitive import AxisInfo
from ...core.ir.program import Program
from ...core.primitives.movement.shape import expand_dims, squeeze
from ...core.support.errors import UnsupportedError
from ...core.tracing.trace import eval_program, trace_program
from ...core.transforms.batching import batch_program
from ...core.transforms.structural_primitives import moveaxis
from ...lang.analysis.affine import closed_form
from ...lang.kernel.kernel import Block, Kernel
from .cpu_lowering import Lowered, lowered


def lowered_rows(kernel: Kernel, off: frozenset[str] = frozenset()) -> Lowered:
    """A kernel for XLA to compute, its grid axes of symbolic size as axes of a batch.

    Raises:
      UnsupportedError: the kernel tiles an axis of symbolic size in another way.
    """
    axis = next((a for a, n in enumerate(kernel.grid) if type(n) is not int), None)
    if axis is None:
        if kernel.symbolic:
            raise _refused(kernel, "an array has a symbolic size that no axis of the grid has")
        return lowered(kernel, off)
    size = kernel.grid[axis]
    if axis in (a for a, _ in kernel.extents) or kernel.prefetch:
        raise _refused(kernel, f"axis {axis} of its grid is symbolic, and scalars are prefetched")
    dims = [_row_axis(kernel, b, axis) for b in (*kernel.inputs, *kernel.outputs)]
    blocks = [_one_row(b, d) for b, d in zip((*kernel.inputs, *kernel.outputs), dims, strict=True)]
    n = len(kernel.inputs)
    grid = (*kernel.grid[:axis], 1, *kernel.grid[axis + 1 :])
    row = kernel.replace(grid=grid, inputs=tuple(blocks[:n]), outputs=tuple(blocks[n:]))
    if any(d is None for d in dims[n:]):
        raise _refused(kernel, "every cell along it writes the same block of a result")
    found = lowered_rows(row, off)
    return Lowered(_batched(found.program, dims, n, size, kernel), f"a batch of {size}: {found.route}")


def _batched(program: Program, dims: Sequence[int | None], count: int, size: Any, kernel: Kernel) -> Program:
    """The program of one row, of arrays with one row, as the program of arrays with all of them."""

    def one(*rows: Any) -> list[Any]:
        whole = [x if d is None else expand_dims(x, (d,)) for x, d in zip(rows, dims[:count], strict=True)]
        outs = eval_program(program, *whole)
        return [x if d is None else squeeze(x, (d,)) for x, d in zip(outs, dims[count:], strict=True)]

    types = [t if d is None else t.with_shape((*t.shape[:d], *t.shape[d + 1 :]))
             for t, d in zip(program.in_types, dims[:count], strict=True)]  # fmt: skip
    batched, _ = batch_program(trace_program(one, types, kernel.name), AxisInfo(size), tuple(dims[:count]), True)

    def placed(*arrays: Any) -> list[Any]:
        outs = eval_program(batched, *arrays)
        return [moveaxis(x, 0, d or 0) for x, d in zip(outs, dims[count:], strict=True)]

    return trace_program(placed, kernel.in_types, kernel.name)


def _row_axis(kernel: Kernel, block: Block, axis: int) -> int | None:
    """The axis of an operand of which each cell along a grid axis has one element; None if it has no part in it."""
    forms = None if block.index_map is None else closed_form(block.index_map)
    if block.index_map is not None and forms is None:
        raise _refused(kernel, f"the index map of {block.name} is not affine")
    found = [d for d, form in enumerate(forms or ()) if form.terms.get(axis)]
    if not found:
        return None
    (d, *more), form = found, (forms or ())[found[0]]
    if more or dict(form.terms) != {axis: 1} or form.const or block.steps[d] != 1 or block.sizes[d] != 1:
        raise _refused(kernel, f"{block.name} is not cut into single rows by axis {axis} of its grid")
    if block.array.shape[d] != kernel.grid[axis]:
        raise _refused(kernel, f"axis {d} of {block.name} is {block.array.shape[d]}, not {kernel.grid[axis]}")
    return d


def _one_row(block: Block, d: int | None) -> Block:
    if d is None:
        return block
    shape = block.array.shape
    return replace(block, array=block.array.with_shape((*shape[:d], 1, *shape[d + 1 :])))


def _refused(kernel: Kernel, why: str) -> UnsupportedError:
    return UnsupportedError(f"the kernel {kernel.name} with symbolic sizes: {why}",
                            "give each row of the symbolic axis cells of its own, as `vmap` does, or export each size",
                            kernel.source)  # fmt: skip
