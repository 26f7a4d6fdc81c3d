"""Kernels whose cells, all at once, would need too much memory: which parallel axes to loop over instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.axis_relation import EFFECT, IDENTITY, MOVER, POINTWISE, Reduced, Whole, Window, relate
from ...core.ir.program import Eqn, Program, subprograms
from ...core.ir.types import ArrayType
from ...core.primitives.elementwise.arithmetic import add_p, mul_p
from ...core.tracing.trace import eval_program
from ...lang.analysis.facts import analyse
from ...lang.cpu import CompilerParams
from ...lang.kernel.kernel import Kernel
from ...lang.targets.compiler_params import params_of
from ...lang.transforms.rebuild import remap, trace_kernel
from ..cpu_passes.options import BUDGET, LOOP_BUDGET

FUSED = (POINTWISE, IDENTITY, MOVER, EFFECT)


def stays_in_memory(eqn: Eqn) -> bool:
    """Whether XLA holds an equation's results in memory: it fuses what is elementwise, moves or sums up elements."""
    if eqn.primitive.kind in FUSED:
        return False
    relation = relate(eqn)
    if relation is None:
        return not any(True for _ in subprograms(eqn))
    summed = relation.of_kind(Reduced)
    product = sum(any(summed.intersection(axis) for axis in axes) for axes in relation.operands) > 1
    return product or bool(relation.of_kind(Whole) or relation.of_kind(Window))


def peak_bytes(program: Program) -> int:
    """The bytes of the largest intermediate result of a Program."""
    largest = 0
    for eqn in program.eqns:
        if stays_in_memory(eqn):
            sizes = [v.type.nbytes for v in eqn.outputs if isinstance(v.type, ArrayType)]
            largest = max(largest, *sizes, 0)
        for _, inner in subprograms(eqn):
            largest = max(largest, peak_bytes(inner))
    return largest


def budget_of(kernel: Kernel) -> int:
    """The bytes that an intermediate result may take: as stated, else a fixed sum or a few times the operands."""
    stated = params_of(kernel, CompilerParams).intermediate_bytes
    if stated is not None:
        return stated
    if analyse(kernel).phases is None:  # a loop over the carry axes: one iteration's results should fit the cache
        return LOOP_BUDGET
    return max(BUDGET, 4 * sum(t.nbytes for t in (*kernel.in_types, *kernel.out_types)))


def chunked(kernel: Kernel, program: Program) -> tuple[Kernel, tuple[int, ...]]:
    """A kernel (its axes perhaps split) and the axes to loop over, so that its largest intermediate fits."""
    needed = -(-peak_bytes(program) // budget_of(kernel))
    outer: list[int] = []
    carry = analyse(kernel).carry
    for axis in kernel.long_axes:
        if needed <= 1 or axis in carry:
            continue
        size = kernel.grid[axis]
        if needed >= size:
            outer.append(axis)
            needed = -(-needed // size)
            continue
        inner = max(c for c in range(1, size // needed + 1) if size % c == 0)
        if inner == 1:
            outer.append(axis)
        else:
            kernel = split_axis(kernel, axis, inner)
            outer.append(axis)
        needed = 1
    # Sums of which the parts do not fit are added one after the other.
    known = analyse(kernel)
    return kernel, (*outer, *known.carry) if needed > 1 and known.phases is not None else tuple(outer)


def split_axis(kernel: Kernel, axis: int, inner: int) -> Kernel:
    """The kernel with one grid axis as two: the outer of them in its place, the inner, of the given size, after it."""
    grid = (*kernel.grid[:axis], kernel.grid[axis] // inner, inner, *kernel.grid[axis + 1 :])

    def old_ids(ids: Sequence[Any]) -> list[Any]:
        joined = add_p.bind(mul_p.bind(ids[axis], np.int32(inner)), ids[axis + 1])
        return [*ids[:axis], joined, *ids[axis + 2 :]]

    def body(ids: Sequence[Any], prefetched: Sequence[Any], inputs: Any, outputs: Any, scratch: Sequence[Any]) -> None:
        eval_program(kernel.body, *old_ids(ids), *prefetched, *inputs, *outputs, *scratch)

    semantics = kernel.semantics
    return trace_kernel(
        kernel, body, grid=grid, inputs=[remap(b, kernel.prefetch, grid, old_ids) for b in kernel.inputs],
        outputs=[remap(b, kernel.prefetch, grid, old_ids) for b in kernel.outputs],
        semantics=None if semantics is None else (*semantics[: axis + 1], *semantics[axis:]))  # fmt: skip
