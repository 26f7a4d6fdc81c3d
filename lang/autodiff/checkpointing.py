"""A reverse sweep within a budget: states saved every few cells, those in between computed again.

The carry axes, T cells in all, are cut into segments of S = ceil(sqrt T). The forward kernel saves its states on entry
to each segment. The backward kernel takes the segments from the last to the first, each in 2 S steps: S cells forward
again from what was saved, the states on entry to each kept in scratch, then the same cells backwards. So saved states
and scratch are T / S + S times a state instead of T, for one more run of the body.

    t = segment * S + min(step, 2 S - 1 - step)          the cell that a step runs; none where t >= T
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.program import Program
from ...core.ir.types import ArrayType, MemorySpace, RefType
from ...core.primitives.elementwise.arithmetic import add_p, div_p, min_p, mul_p, rem_p, sub_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import eq_p, ge_p, lt_p
from ...core.primitives.refs.ref_views import view, write
from ...core.support.config import current
from ...core.support.memo import cached
from ...core.tracing.trace import eval_program
from ..analysis.dead_stores import reads
from ..analysis.facts import analyse
from ..kernel.kernel import Block, Kernel, trace_map
from ..ops.basic import unravel, when
from ..transforms.rebuild import grid_block, remap
from .scan_kernels import Axes, Sweep, Sweeper

BUDGET = "residual_bytes"  # the name of the setting, and of its value in a kernel's settings


def budgeted(kernel: Kernel) -> Kernel:
    """The kernel with the budget in force here, so that every part of its derivative keeps to one plan."""
    if any(name == BUDGET for name, _ in kernel.settings):
        return kernel
    return kernel.replace(settings=(*kernel.settings, (BUDGET, current().residual_bytes)))


@cached(512)
def reverse_sweep(kernel: Kernel, active: Axes, given: Kernel) -> Sweep:
    """Plan the derivative of a kernel with any carry; `active` are the positions of the operands wanted.

    `given` is the kernel with the atomic updates that it was written with.
    """
    plain = Sweeper(kernel, active, given).build()
    budget = dict(kernel.settings).get(BUDGET, current().residual_bytes)
    carry, long = analyse(kernel).carry, kernel.long_axes
    cells = math.prod(kernel.grid[a] for a in carry)
    if plain.saved_bytes <= budget or cells < 3 or carry != long[len(long) - len(carry) :]:
        return plain
    return Segments(kernel, active, given).build()


class Segments(Sweeper):
    """Plans a Sweep that saves states on entry to every segment."""

    grid: tuple[int, ...]

    def __init__(self, kernel: Kernel, wanted: Axes, given: Kernel):
        super().__init__(kernel, wanted, given)
        self.cells: int = math.prod(kernel.grid[a] for a in self.carry)
        self.every: int = math.isqrt(self.cells - 1) + 1
        self.segments: int = -(-self.cells // self.every)
        self.apart: tuple[int, ...] = tuple(a for a in range(len(kernel.grid)) if a not in self.carry)
        self.grid = (*(kernel.grid[a] for a in self.apart), self.segments, 2 * self.every)
        body = kernel.body
        self.carried: tuple[int, ...] = tuple(
            p for p in range(self.first_out, self.end) if self.enters(p) and reads(body, body.inputs[p])
        )

    # ------------------------------------------------------------ ids

    def turn(self, ids: Sequence[Any]) -> tuple[Any, Any]:
        """The first cell of the segment at hand, and the step within it."""
        segment = sub_p.bind(np.int32(self.segments - 1), ids[-2])
        return mul_p.bind(segment, np.int32(self.every)), ids[-1]

    def at(self, ids: Sequence[Any], t: ArrayLike) -> list[Any]:
        """The ids of cell `t` of the carry axes."""
        found: dict[int, Any] = dict(zip(self.apart, ids, strict=False))
        found |= unravel(min_p.bind(t, np.int32(self.cells - 1)), self.carry, self.kernel.grid)
        return [found[a] for a in range(len(self.kernel.grid))]

    def back(self, step: ArrayLike) -> Any:
        """Which cell of the segment a step of its second half takes."""
        return sub_p.bind(np.int32(2 * self.every - 1), step)

    def old_ids(self, ids: Sequence[Any]) -> list[Any]:
        first, step = self.turn(ids)
        return self.at(ids, add_p.bind(first, min_p.bind(step, self.back(step))))

    def out_ids(self, ids: Sequence[Any]) -> list[Any]:
        # While the segment runs forward, its last cell's: those that the second half begins with.
        first, step = self.turn(ids)
        return self.at(ids, add_p.bind(first, min_p.bind(np.int32(self.every - 1), self.back(step))))

    def old_axes(self) -> list[int | None]:
        return [*self.apart, None, None]

    # ------------------------------------------------------------ what is saved

    def entry_axes(self) -> tuple[int, ...]:
        return tuple(k for k, a in enumerate(self.apart) if a in self.long)

    def entry_operand(self, position: int) -> Block:
        ref = self.type_of(position)
        grid, prefetch = self.grid, self.kernel.prefetch
        axes = (*self.entry_axes(), len(grid) - 2)
        made = grid_block(f"entry{position - self.first_out}", ref.shape, ref.dtype, axes, grid, prefetch)
        return remap(
            made, prefetch, grid, lambda ids: [*ids[:-2], sub_p.bind(np.int32(grid[-2] - 1), ids[-2]), ids[-1]]
        )

    def entry_block(self, position: int) -> Block:
        made = self.entry_operand(position)
        rank = made.array.ndim
        lead = [self.apart[k] for k in self.entry_axes()]

        def index(*args: Any) -> list[Any]:
            segment = div_p.bind(self.number(args), np.int32(self.every))
            return [*(args[a] for a in lead), segment, *[np.int32(0)] * (rank - len(lead) - 1)]

        program: Program = trace_map(self.kernel.grid, self.kernel.prefetch, index)
        return replace(made, index_map=program, loose=True)

    def number(self, ids: Sequence[Any]) -> Any:
        """The number of a cell along the carry axes."""
        t: Any = None
        for a in self.carry:
            t = ids[a] if t is None else add_p.bind(mul_p.bind(t, np.int32(self.kernel.grid[a])), ids[a])
        return t

    def saves(self, ids: Sequence[Any]) -> list[Any]:
        return [eq_p.bind(rem_p.bind(self.number(ids), np.int32(self.every)), np.int32(0))]

    # ------------------------------------------------------------ the body

    def operands(self) -> None:
        super().operands()
        # What the body never reads of its states is not carried.
        self.inputs = [(key, block) for key, block in self.inputs if key[0] != "entry" or key[1] in self.carried]
        self.aliases: list[tuple[int, int]] = []
        keys = [key for key, _ in self.inputs]
        for number, (p, _) in enumerate(self.outputs[len(self.parts) :], len(self.parts)):
            self.aliases.append((keys.index(("ct", p)), number))
        for p in self.carried:
            ref = self.type_of(p)
            history = RefType(ArrayType((self.every, *ref.shape), ref.dtype), MemorySpace.VMEM)
            self.scratch.append((("history", p), history))

    def body(
        self, ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        given, results, held = self.named(inputs, outputs, scratch)
        first, step = self.turn(ids)
        old = self.old_ids(ids)
        place = min_p.bind(step, self.back(step))
        exists = lt_p.bind(add_p.bind(first, place), np.int32(self.cells))
        every = np.int32(self.every)

        @when(eq_p.bind(step, np.int32(0)))
        def _() -> None:
            for p in self.carried:
                write(view(held["work", p]), view(given["entry", p])[...])

        @when(and_p.bind(exists, lt_p.bind(step, every)))
        def _() -> None:
            for p in self.carried:
                write(view(held["history", p], (step,)), view(held["work", p])[...])
            self.restart(held)
            eval_program(self.kernel.body, *old, *prefetched, *self.primal(given, held))

        @when(and_p.bind(exists, ge_p.bind(step, every)))
        def _() -> None:
            for p in self.carried:
                write(view(held["work", p]), view(held["history", p], (place,))[...])
            self.restart(held)
            self.backwards(old, prefetched, given, results, held)
