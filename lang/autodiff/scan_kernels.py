"""Reverse mode of kernels with any carry, a sweep, as two kernels.

Forward: the kernel, which also gives what its states hold on entry to each cell, where the derivative reads it. (What
would take more than the budget is saved now and then, and computed again in between: `lang/autodiff/checkpointing.py`.)
Backward: the same parallel axes, the carry axes run from the last cell to the first. Each cell runs again from
its operands and saved states, then backwards; cotangents of states live in scratch from cell to cell, those of
outputs in a copy of what came in, which overwriting stores of later cells have already ended. Cotangents of an
operand accumulate where its block stays; where other cells come back to it, each gives its part and the parts
are summed (or, where blocks overlap or lie as data says, scattered) outside.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.types import FAR
from ...core.primitives.elementwise.arithmetic import sub_p
from ...core.primitives.elementwise.bitwise import or_p
from ...core.primitives.elementwise.comparison import eq_p, ne_p
from ...core.primitives.reduction.reduce import reduce_sum_p
from ...core.primitives.refs.ref_views import view, write
from ...core.tracing.trace import eval_program
from ..analysis.dead_stores import reads
from ..analysis.facts import analyse
from ..kernel.kernel import Block, Kernel, edged, ragged_axes
from ..ops.basic import when_all
from ..transforms.rebuild import blank, for_each, grid_block, remap, trace_kernel
from ..transforms.windows import scatter_blocks
from .adjoint import ReadOnly, is_active, plan, record, run_backwards, work_space
from .functionalize_control import flatten_control
from .reduction_kernels import Assembly, Route, covers, route_of

if TYPE_CHECKING:
    from ...core.ir.program import Program
    from ...core.ir.types import RefType
    from .adjoint import Record


Axes = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """How an operand's cotangent leaves the sweep: over `axes` apart (then summed over `summed`, or scattered)."""

    position: int
    axes: Axes
    summed: Axes
    scattered: bool


@dataclass(frozen=True, eq=False)
class Sweep:
    """The two kernels of a sweep, and what the operands and outputs of the second are."""

    kernel: Kernel
    forward: Kernel
    saved: Axes
    backward: Kernel
    operands: tuple[tuple[str, int], ...]
    parts: tuple[Part, ...]
    starts: tuple[int, ...]  # outputs (positions) whose cotangent at the start follows the parts
    every: int = 1  # how many cells apart states are saved

    @property
    def saved_bytes(self) -> int:
        """What the forward kernel saves."""
        return sum(b.array.nbytes for b in self.forward.outputs[len(self.kernel.outputs) :])


class Sweeper(Assembly):
    """Plans a Sweep that saves the states on entry to every cell."""

    every = 1

    active: tuple[int, ...]

    def __init__(self, kernel: Kernel, wanted: Axes, given: Kernel):
        super().__init__(kernel, kernel.grid)
        self.given = given
        self.program: Program = flatten_control(kernel.body, range(kernel.splits[0], kernel.splits[2]))
        self.long: tuple[int, ...] = kernel.long_axes
        self.carry: Axes = analyse(kernel).carry
        still = set(range(self.first_in, self.first_out)).difference(wanted)
        self.active = tuple(i for i, v in enumerate(kernel.body.inputs) if is_active(v.type) and i not in still)
        self.linear: Record = plan(self.program, self.active)
        self.space: list[RefType] = work_space(self.program, self.active)
        self.wanted: tuple[int, ...] = tuple(p for p in wanted if self.linear.uses(p))
        self.aliased: tuple[int, ...] = tuple(self.first_out + o for _, o in kernel.aliases)
        self.readonly: set[int] = set()

    # ------------------------------------------------------------ ids and blocks

    def old_ids(self, ids: Sequence[Any]) -> list[Any]:
        n = self.kernel.grid
        return [sub_p.bind(np.int32(n[a] - 1), i) if a in self.carry else i for a, i in enumerate(ids)]

    out_ids = old_ids  # of the cell whose blocks of cotangents it sees

    def old_axes(self) -> list[int | None]:
        """The axis of the kernel that each axis of the backward kernel's grid runs along, where it is one."""
        return list(range(len(self.grid)))

    def parallel(self, axis: int | None) -> bool:
        """Whether the cells along an axis may run at the same time: no carry, and no cotangent is summed along it."""
        stated = self.kernel.semantics
        return (axis is not None and axis not in self.carry and (stated is None or stated[axis] == "parallel")
                and all(axis not in self.summed_along(part) for part in self.parts))  # fmt: skip

    def summed_along(self, part: Part) -> list[int]:
        """The axes along which the block of an operand's cotangent stays, so that cells add to it."""
        used = {*route_of(self.kernel, self.kernel.inputs[part.position - self.first_in]).axes, *part.axes}
        return [a for a in self.long if a not in used]

    def added(self, part: Part) -> bool:
        """Whether cells only add to the cotangent of an operand, wherever they like: then it starts as zeros."""
        block = self.kernel.inputs[part.position - self.first_in]
        return block.space in FAR and block.index_map is None and not part.axes

    def remap_out(self, block: Block, **changes: Any) -> Block:
        return remap(block, self.kernel.prefetch, self.grid, self.out_ids, **changes)

    def entry_block(self, position: int) -> Block:
        """Where a state is saved on entry: a block for every cell."""
        ref = self.type_of(position)
        made = grid_block(f"entry{position - self.first_out}", ref.shape, ref.dtype, self.long, self.kernel.grid,
                          self.kernel.prefetch)  # fmt: skip
        return replace(made, loose=True)

    def entry_operand(self, position: int) -> Block:
        """What the backward kernel sees of it."""
        return self.remap(self.entry_block(position))

    def floats(self) -> list[int]:
        return [p for p in range(self.first_out, self.end) if p in self.active]

    def resident(self, position: int) -> bool:
        """Whether what an output's block holds may come from an earlier cell."""
        return position in self.aliased or analyse(self.kernel).ignored(position - self.first_out) != ()

    def enters(self, position: int) -> bool:
        """Whether a cell may read what a state held before."""
        if position < self.first_scratch:
            return self.resident(position) and reads(self.kernel.body, self.kernel.body.inputs[position])
        return bool(analyse(self.kernel).live(position))

    def anew(self, position: int) -> Axes:
        """The axes whose first cells find nothing in a state."""
        if position >= self.first_scratch:
            return analyse(self.kernel).live(position)
        return () if position in self.aliased else analyse(self.kernel).ignored(position - self.first_out) or ()

    def part_of(self, position: int) -> Part:
        block = self.kernel.inputs[position - self.first_in]
        route: Route = route_of(self.kernel, block)
        ignored = [a for a in self.long if a not in route.axes]
        # Those the cotangent may stay resident along are innermost; along the others its block is seen again.
        innermost = []
        for a in reversed(self.long):
            if a not in ignored:
                break
            innermost.append(a)
        again = tuple(a for a in ignored if a not in innermost)
        return Part(position, (*again, *route.axes) if not route.exact else again, again, not route.exact)

    # ------------------------------------------------------------ assembly

    def operands(self) -> None:
        for i, block in enumerate(self.kernel.inputs):
            self.inputs.append((("in", self.first_in + i), self.remap(edged(block))))
        for p in range(self.first_out, self.end):
            if self.enters(p):
                self.inputs.append((("entry", p), self.entry_operand(p)))
        self.add_scratch(self.first_scratch, self.space)
        self.parts: list[Part] = [self.part_of(p) for p in self.wanted]
        for part in self.parts:
            block = self.kernel.inputs[part.position - self.first_in]
            self.outputs.append((part.position, self.part_block(part, block)))
        for o, block in enumerate(self.kernel.outputs):
            p = self.first_out + o
            if p not in self.active:
                continue
            readonly = self.linear.only_added(p) or (self.linear.only_read_back(p) and not self.resident(p))
            seen = self.remap if readonly else self.remap_out
            zero = np.zeros((), block.array.dtype)[()]
            self.inputs.append((("ct", p), seen(block, name=f"{block.name}_bar", fill=zero)))
            if readonly:
                self.readonly.add(p)
            else:
                self.aliases.append((len(self.inputs) - 1, len(self.outputs)))
                past = zero if ragged_axes(block) else None
                self.outputs.append((p, self.remap_out(block, name=f"{block.name}_bar", fill=past)))

    def part_block(self, part: Part, block: Block) -> Block:
        name, prefetch, grid = f"{block.name}_bar", self.kernel.prefetch, self.kernel.grid
        if part.scattered:
            made = grid_block(name, block.shape, block.array.dtype, part.axes, grid, prefetch)
            return self.remap_out(made)
        if not part.axes:
            return self.remap_out(block, name=name, fill=None)
        made = for_each(replace(block, name=name, fill=None, buffers=None), part.axes, grid, prefetch)
        return self.remap_out(made)

    def cover(self) -> None:
        for number, part in enumerate(self.parts):
            block = self.kernel.inputs[part.position - self.first_in]
            if not part.scattered and (self.added(part) or not covers(self.kernel, block)):
                self.aliases.append((len(self.inputs), number))
                self.inputs.append(
                    (("zero", part.position), replace(self.outputs[number][1], name=f"{block.name}_start"))
                )

    def body(
        self, ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        given, results, held = self.named(inputs, outputs, scratch)
        for p in range(self.first_out, self.end):
            if self.enters(p):
                write(view(held["work", p]), view(given["entry", p])[...])
        self.restart(held)
        self.backwards(self.old_ids(ids), prefetched, given, results, held)

    def restart(self, held: Mapping[str, Any]) -> None:
        """Give up what earlier cells left in the work space of blocks that cells write bit by bit, or not always."""
        for p in range(self.first_out, self.first_scratch):
            again = reads(self.program, self.program.inputs[p])  # as flattened branches do, to write it back
            if not self.enters(p) and (again or analyse(self.kernel).carry_of(p)):
                blank(held["work", p])

    def backwards(
        self, ids: Sequence[Any], prefetched: Sequence[Any], given: Mapping[str, Any], results: Mapping[str, Any],
        held: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Run the cell of these ids again from what `work` holds, then backwards."""
        cotangents: dict[int, Any] = {}
        for p in self.floats():
            if p in self.readonly:
                cotangents[p] = ReadOnly(given["ct", p])
            else:
                cotangents[p] = results[p] if p < self.first_scratch else held["ct", p]
        self.clear(ids, self.carry, [held["ct", p] for p in self.floats() if p >= self.first_scratch])
        for part in self.parts:
            if not self.added(part):
                self.clear(ids, self.summed_along(part), [results[part.position]])
            cotangents[part.position] = results[part.position]
        space = [held["space", k] for k in range(len(self.space))]
        found = record(self.program, [*ids, *prefetched, *self.primal(given, held)], self.active, space)
        run_backwards(found, cotangents)

    def clear(self, ids: Sequence[Any], axes: Sequence[int], refs: Sequence[Any]) -> None:
        """Zero Refs in the cells that come first along some axes: the last ones of carry axes."""
        first = (eq_p.bind(ids[a], np.int32(self.kernel.grid[a] - 1 if a in self.carry else 0)) for a in axes)
        if refs:
            when_all(first, lambda: blank(*refs))

    def build(self) -> Sweep:
        self.operands()
        self.cover()
        kernel = self.kernel
        made, operands = self.traced(f"{kernel.name}_bwd", [self.parallel(a) for a in self.old_axes()])
        saved = tuple(p for kind, p in operands if kind == "entry")
        starts = tuple(p for p, _ in self.outputs[len(self.parts) :])
        return Sweep(kernel, self.saving(saved), saved, made, operands, tuple(self.parts), starts, self.every)

    def saves(self, ids: Sequence[Any]) -> list[Any]:
        """Where cells save what they find in their states, as tests that all hold."""
        return []

    def save(self, ids: Sequence[Any], pairs: Sequence[tuple[int, Any, Any]]) -> None:
        """Save what a cell finds in its states (position, entry, state), where it may find anything."""
        groups: dict[Axes, list[tuple[Any, Any]]] = {}
        for p, entry, state in pairs:
            groups.setdefault(self.anew(p), []).append((entry, state))
        for axes, refs in groups.items():

            def act(refs: Sequence[Any] = refs) -> None:
                for entry, state in refs:
                    write(view(entry), view(state)[...])

            found = [ne_p.bind(ids[a], np.int32(0)) for a in axes]
            tests = self.saves(ids) + ([functools.reduce(or_p.bind, found)] if found else [])
            when_all(tests, act)

    def saving(self, saved: Axes) -> Kernel:
        """The kernel that also gives some states on entry to every cell."""
        kernel = self.given
        if not saved:
            return kernel
        if min(saved) < self.first_scratch or kernel.scratch != self.kernel.scratch:
            kernel = self.kernel  # what an output holds on entry depends on the order of its updates
        n_out = len(kernel.outputs)

        def body(
            ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
            scratch: Sequence[Any],
        ) -> None:  # fmt: skip
            args = [*ids, *prefetched, *inputs, *outputs[:n_out], *scratch]
            self.save(ids, [(p, entry, args[p]) for p, entry in zip(saved, outputs[n_out:], strict=True)])
            eval_program(kernel.body, *args)

        more = [self.entry_block(p) for p in saved]
        aliased = {i for i, _ in kernel.aliases}
        inputs = [b if i in aliased else edged(b) for i, b in enumerate(kernel.inputs)]
        return trace_kernel(kernel, body, name=f"{kernel.name}_fwd", inputs=inputs, outputs=[*kernel.outputs, *more],
                            semantics=kernel.semantics)  # fmt: skip


def assemble(sweep: Sweep, part: Part, value: ArrayLike, prefetched: Sequence[Any]) -> Any:
    """The cotangent of an operand from what the sweep gives of it."""
    if part.scattered:
        kernel = sweep.kernel
        block = kernel.inputs[part.position - kernel.splits[1]]
        n = len(part.summed)
        if n:
            value = reduce_sum_p.bind(value, axes=tuple(range(n)))
        return scatter_blocks(kernel, block, value, prefetched, part.axes[n:], {})
    return reduce_sum_p.bind(value, axes=tuple(range(len(part.axes)))) if part.axes else value
