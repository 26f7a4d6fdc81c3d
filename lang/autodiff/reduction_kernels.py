"""Reverse mode of kernels with additive carries, as kernels.

A kernel of `Phases` is init, then a sum of main over its carry axes, then final; each is a kernel of cells that
do not depend on one another, and so is its adjoint. The cotangent of a state is that of final, the same for
every cell of a run. For each operand the grid axes that its index map ignores go innermost and accumulate,
the others are parallel; operands with the same axes share a kernel. No atomics.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.ir.program import Program
from ...core.ir.types import FAR, RefType, is_inexact
from ...core.primitives.elementwise.comparison import eq_p
from ...core.primitives.refs.ref_views import view, write
from ...core.support.memo import cached
from ...core.tracing.trace import eval_program
from ...core.transforms.rule_helpers import zeros
from ...core.transforms.structural_primitives import spread
from ..analysis.affine import Fact, needs_of
from ..analysis.dead_stores import reads
from ..analysis.facts import analyse
from ..analysis.index_maps import block_count, distinct, linear_index, map_of
from ..analysis.reductions import Phases
from ..kernel.kernel import Block, Kernel, edged
from ..ops.basic import when_all
from ..transforms.rebuild import backwards, blank, grid_block, prune, remap, trace_kernel
from .adjoint import ReadOnly, Record, is_active, plan, record, run_backwards, work_space
from .functionalize_control import flatten_control

Key = tuple[str, int]  # what an operand or scratch is, and of which input of the kernel's body


class Assembly(ABC):
    """One backward kernel of a kernel, over a grid of its own; `outputs` are cotangents by position in the body."""

    kernel: Kernel
    grid: tuple[int, ...]
    first_in: int
    first_out: int
    first_scratch: int
    end: int

    def __init__(self, kernel: Kernel, grid: Sequence[int]):
        self.kernel, self.grid = kernel, tuple(grid)
        _, self.first_in, self.first_out, self.first_scratch, self.end = kernel.splits
        self.inputs: list[tuple[Key, Block]] = []
        self.outputs: list[tuple[int, Block]] = []
        self.aliases: list[tuple[int, int]] = []
        self.scratch: list[tuple[Key, RefType]] = []

    @abstractmethod
    def old_ids(self, ids: Sequence[Any]) -> list[Any]:
        """The ids of the cell that a cell of the backward kernel runs."""

    @abstractmethod
    def body(self, ids: Any, prefetched: Any, inputs: Any, outputs: Any, scratch: Any) -> None:
        """What a cell does."""

    def remap(self, block: Block, **changes: Any) -> Block:
        return remap(block, self.kernel.prefetch, self.grid, self.old_ids, **changes)

    def type_of(self, position: int) -> Any:
        return self.kernel.body.inputs[position].type

    def add_scratch(self, first: int, space: Sequence[RefType]) -> None:
        """Memory to run cells again in, for cotangents (of Refs from position `first` on), and what loops need."""
        for p in range(self.first_out, self.end):
            self.scratch.append((("work", p), self.type_of(p)))
            if p >= first and is_inexact(self.type_of(p).dtype):
                self.scratch.append((("ct", p), self.type_of(p)))
        self.scratch += [(("space", k), type_) for k, type_ in enumerate(space)]

    def named(
        self, inputs: Sequence[Any], outputs: Sequence[Any], scratch: Sequence[Any]
    ) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        """The Refs of the backward kernel by what they are."""
        given = {key: ref for (key, _), ref in zip(self.inputs, inputs, strict=True)}
        held = {key: ref for (key, _), ref in zip(self.scratch, scratch, strict=True)}
        results = {p: ref for (p, _), ref in zip(self.outputs, outputs, strict=True)}
        return given, results, held

    def primal(self, given: Mapping[str, Any], held: Mapping[str, Any]) -> list[Any]:
        """The Refs that a cell runs again with, after ids and prefetched ones."""
        operands = [given["in", p] for p in range(self.first_in, self.first_out)]
        return operands + [held["work", p] for p in range(self.first_out, self.end)]

    def traced(self, name: str, parallel: Sequence[bool]) -> tuple[Kernel, tuple[Key, ...]]:
        """The kernel, and what those of its operands are that it reads."""
        built = trace_kernel(
            self.kernel, self.body, name=name, grid=self.grid, inputs=[b for _, b in self.inputs],
            outputs=[b for _, b in self.outputs], scratch=[t for _, t in self.scratch], aliases=self.aliases,
        )  # fmt: skip
        smaller, kept = prune(built)
        return backwards(self.kernel, smaller, parallel), tuple(self.inputs[i][0] for i in kept)

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Route:
    """How the cotangent of an operand is put together.

    `axes`: the grid axes its blocks depend on. `exact`: every cell of those axes has a block of its own, so that the
    cotangent is an array of blocks; otherwise blocks overlap or lie where data says, and are scattered.
    """

    axes: Axes
    exact: bool


def route_of(kernel: Kernel, block: Block) -> Route:
    """The route of an operand's cotangent."""
    fact: Fact | None = map_of(kernel, block)
    if fact is None:
        assert block.index_map is not None
        ids = needs_of(block.index_map, len(kernel.grid))
        return Route(tuple(a for a in kernel.long_axes if a in ids), False)
    if fact.table is None:
        return Route(fact.axes, False)
    different = distinct(linear_index(fact.table - fact.table.min(initial=0))).size
    cells = int(np.prod([kernel.grid[a] for a in fact.axes], dtype=np.int64))
    return Route(fact.axes, different == cells and (not any(block.element) or _disjoint(block, fact)))


def used_axes(kernel: Kernel, block: Block) -> Axes | None:
    """The grid axes that a block depends on, if it is another block in each of their cells; else None."""
    route = route_of(kernel, block)
    return route.axes if route.exact else None


def _disjoint(block: Block, fact: Fact) -> bool:
    assert fact.table is not None
    for d, windowed in enumerate(block.element):
        starts = distinct(fact.table[..., d])
        if windowed and starts.size > 1 and np.diff(starts).min() < block.sizes[d]:
            return False
    return True


def covers(kernel: Kernel, block: Block, fixed: Sequence[tuple[int, int]] = ()) -> bool:
    """Whether the cells of a kernel (those with the `fixed` ids) see every block of an operand."""
    fact = map_of(kernel, block)
    if fact is None or fact.table is None or any(block.element):
        return block.index_map is None
    known = dict(fixed)
    table = fact.table[tuple(known.get(a, slice(None)) for a in fact.axes)]
    return distinct(linear_index(table)).size == block_count(block)


def state_block(kernel: Kernel, parts: Phases, position: int) -> Block:
    """How an array of the final values of a state is cut: as an output of its shape, or one block for each run."""
    _, _, first_out, first_scratch, _ = kernel.splits
    parallel = tuple(a for a in kernel.long_axes if a not in parts.carry)
    if position < first_scratch:
        return kernel.outputs[position - first_out]
    ref: RefType = kernel.body.inputs[position].type  # type: ignore[assignment]
    for block in kernel.outputs:
        same = block.shape == ref.shape and used_axes(kernel, block) == parallel
        if same and covers(kernel, block):
            name = f"state{position - first_scratch}"
            return replace(block, name=name, array=type(block.array)(block.array.shape, ref.dtype), fill=None)
    return grid_block(f"state{position - first_scratch}", ref.shape, ref.dtype, parallel, kernel.grid, kernel.prefetch)


# ---------------------------------------------------------------------------- one adjoint kernel


@dataclass(frozen=True)
class Cells:
    """Cells that do not depend on one another: a Program over the inputs of a kernel's body, at every cell of its
    grid (`fixed` ids aside).

    `given`: positions of Refs whose cotangent is an operand. `held`: positions of Refs that hold a saved value at
    first, and whose cotangent at first is wanted too. `counted`: positions of integer Refs that hold a saved value.
    `fixed_inputs`: positions of float inputs that nothing is differentiated in.
    """

    kernel: Kernel
    parts: Phases
    program: Program
    fixed: tuple[tuple[int, int], ...]
    given: tuple[int, ...]
    held: tuple[int, ...] = ()
    counted: tuple[int, ...] = ()
    fixed_inputs: tuple[int, ...] = ()

    @functools.cached_property
    def axes(self) -> Axes:
        fixed = dict(self.fixed)
        return tuple(a for a in self.kernel.long_axes if a not in fixed)

    @functools.cached_property
    def linear(self) -> Record:
        return plan(self.program, self.active)

    @functools.cached_property
    def space(self) -> list[RefType]:
        return work_space(self.program, self.active)

    @functools.cached_property
    def active(self) -> Axes:
        """The positions of the Refs that carry derivatives."""
        return tuple(i for i, v in enumerate(self.program.inputs) if is_active(v.type) and i not in self.fixed_inputs)


@dataclass(frozen=True)
class Piece:
    """A kernel of the backward pass: what its operands are, and what its outputs are the cotangents of.

    Operands: ("in", i) input i, ("held", p) the saved value of state p, ("ct", p) a cotangent, ("zero", k) zeros for
    output k. Outputs: positions among the inputs of the body; those in `scattered` are blocks for every cell of `axes`.
    """

    kernel: Kernel
    operands: tuple[tuple[str, int], ...]
    outputs: tuple[int, ...]
    scattered: tuple[int, ...] = ()
    axes: Axes = ()


@cached(512)
def pieces(cells: Cells, wanted: tuple[int, ...]) -> tuple[Piece, ...]:
    """The kernels that give the cotangents of the `wanted` inputs (positions), and of what is held."""
    kernel = cells.kernel
    groups: dict[Axes, list[int]] = {}
    if cells.held:
        groups[cells.axes] = list(cells.held)
    first_in = kernel.splits[1]
    for position in wanted:
        if not cells.linear.uses(position):
            continue
        axes = route_of(kernel, kernel.inputs[position - first_in]).axes
        groups.setdefault(tuple(a for a in axes if a not in dict(cells.fixed)), []).append(position)
    return tuple(_Builder(cells, axes, positions).piece() for axes, positions in groups.items())


class _Builder(Assembly):
    """Assembles the operands, Refs and body of one backward kernel."""

    def __init__(self, cells: Cells, used: Axes, positions: Sequence[int]):
        self.order = (*used, *(a for a in cells.axes if a not in used))
        super().__init__(cells.kernel, [cells.kernel.grid[a] for a in self.order])
        self.cells, self.positions, self.used, self.n_used = cells, positions, used, len(used)
        self.scattered: list[int] = []

    def old_ids(self, ids: Sequence[Any]) -> list[Any]:
        known = {a: np.int32(i) for a, i in self.cells.fixed} | dict(zip(self.order, ids, strict=True))
        return [known.get(a, np.int32(0)) for a in range(len(self.kernel.grid))]

    def block_of(self, position: int) -> Block:
        """The block of an input, output or state."""
        if position < self.first_out:
            return self.kernel.inputs[position - self.first_in]
        if position < self.first_scratch:
            return self.kernel.outputs[position - self.first_out]
        return state_block(self.kernel, self.cells.parts, position)

    def added(self, position: int) -> bool:
        """Whether cells only add to the cotangent of an operand, wherever they like: then it starts as zeros."""
        block = self.block_of(position) if position < self.first_out else None
        return block is not None and block.space in FAR and block.index_map is None

    def operands(self) -> None:
        for i, block in enumerate(self.kernel.inputs):
            self.inputs.append((("in", self.first_in + i), self.remap(edged(block))))
        for p in (*self.cells.held, *self.cells.counted):
            self.inputs.append((("held", p), self.remap(edged(replace(self.block_of(p), fill=None)))))
        for p in self.cells.given:
            block = self.block_of(p)
            self.inputs.append((("ct", p), self.remap(block, name=f"{block.name}_bar", fill=block.array.dtype.type(0))))
        for p in self.positions:
            block = self.block_of(p)
            name = f"{block.name}_bar"
            if p < self.first_out and not route_of(self.kernel, block).exact:
                blocks = range(self.n_used)
                made = grid_block(name, block.shape, block.array.dtype, blocks, self.grid, self.kernel.prefetch)
                self.scattered.append(p)
            else:
                made = self.remap(block, name=name, fill=None)
            self.outputs.append((p, made))
        self.add_scratch(self.first_out, self.cells.space)

    def cover(self) -> None:
        """Outputs whose blocks the cells do not all see start as zeros, or as what is given of the cotangent."""
        keys = [key for key, _ in self.inputs]
        for number, (p, block) in enumerate(self.outputs):
            if p in self.scattered or (not self.added(p) and covers(self.kernel, self.block_of(p), self.cells.fixed)):
                continue
            if ("ct", p) in keys:
                self.aliases.append((keys.index(("ct", p)), number))
            else:
                self.aliases.append((len(self.inputs), number))
                self.inputs.append((("zero", p), replace(block, name=f"{block.name}_start")))

    def body(
        self, ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        given, results, held = self.named(inputs, outputs, scratch)
        cells, program = self.cells, self.cells.program
        for p in range(self.first_out, self.end):
            if ("held", p) in given:
                write(view(held["work", p]), view(given["held", p])[...])
            elif analyse(self.kernel.replace(body=program)).carry_of(p):  # what earlier cells left there is given up
                blank(held["work", p])
        cotangents = self.cotangents(given, held, results)
        self.reset(ids, results)
        space = [held["space", k] for k in range(len(cells.space))]
        found = record(program, [*self.old_ids(ids), *prefetched, *self.primal(given, held)], cells.active, space)
        run_backwards(found, cotangents)

    def cotangents(
        self, given: Mapping[str, Any], held: Mapping[str, Any], results: Mapping[str, Any]
    ) -> dict[int, Any]:
        """The Ref that holds the cotangent of each Ref of the cell."""
        found: dict[int, Any] = {p: ref for p, ref in results.items() if p not in self.cells.held}
        for p in range(self.first_out, self.end):
            start = given.get(("ct", p))
            if p in results:
                ref = results[p]
            elif start is not None and self.cells.linear.only_read_back(p):
                found[p] = ReadOnly(start)
                continue
            elif ("ct", p) in held:
                ref = held["ct", p]
            else:
                continue
            value = zeros(ref.aval.array) if start is None else view(start)[...]
            write(view(ref), spread(value, ref.aval.shape))
            found[p] = ref
        return found

    def reset(self, ids: Sequence[Any], results: Mapping[str, Any]) -> None:
        """Zero the accumulated cotangents at the first cell of their run."""
        refs = [ref for p, ref in results.items() if p not in self.cells.held and not self.added(p)]
        if refs:
            when_all((eq_p.bind(i, np.int32(0)) for i in ids[self.n_used :]), lambda: blank(*refs))

    def piece(self) -> Piece:
        self.operands()
        self.cover()
        name = f"{self.kernel.name}_bwd_{'_'.join(b.name.removesuffix('_bar') for _, b in self.outputs)}"
        kernel, operands = self.traced(name, [k < self.n_used for k in range(len(self.grid))])
        return Piece(kernel, operands, tuple(p for p, _ in self.outputs), tuple(self.scattered), self.used)


# ---------------------------------------------------------------------------- the whole kernel


@dataclass(frozen=True, eq=False)
class Backward:
    """One kernel of additive carries: the forward kernel with the states that the backward pass needs, and that pass.

    `saved` are positions of states, in the order of the forward kernel's further outputs.
    """

    kernel: Kernel
    parts: Phases
    forward: Kernel
    saved: tuple[int, ...]
    stages: tuple[Cells, ...]  # final, main, init


@cached(512)
def independent_cells(kernel: Kernel, parts: Phases, active: Sequence[int]) -> Backward:
    """Plan the derivative of a kernel of additive carries in its `active` inputs (positions among the body's)."""
    fixed = range(kernel.splits[0], kernel.splits[2])
    parts = replace(parts, **{n: flatten_control(getattr(parts, n), fixed) for n in ("init", "main", "final")})
    first_out, end = kernel.splits[2], kernel.splits[4]
    floats = tuple(i for i in range(first_out, end) if is_active(kernel.body.inputs[i].type))
    states = tuple(p for p in parts.states if p in floats)
    emitted = tuple(p for p in range(first_out, kernel.splits[3]) if p in floats and p not in states)
    still = tuple(i for i in range(kernel.splits[1], first_out) if i not in active)
    last = tuple((a, kernel.grid[a] - 1) for a in parts.carry)
    outs = tuple(p for p in states if p < kernel.splits[3])
    final = Cells(kernel, parts, parts.final, last, outs, fixed_inputs=still)
    counted = tuple(p for p in parts.states if p not in floats and reads(parts.final, parts.final.inputs[p]))
    final = replace(final, held=tuple(p for p in states if final.linear.uses(p)), counted=counted)
    main = Cells(kernel, parts, parts.main, (), (*states, *emitted), fixed_inputs=still)
    aliased = tuple(kernel.splits[2] + o for _, o in kernel.aliases)
    main = replace(main, held=tuple(p for p in emitted if p in aliased and not main.linear.only_added(p)))
    init = Cells(kernel, parts, parts.init, tuple((a, 0) for a in parts.carry), states, fixed_inputs=still)
    found = pieces(final, tuple(active))
    needed = {p for piece in found for kind, p in piece.operands if kind == "held"}
    saved = tuple(p for p in parts.states if p in needed)
    return Backward(kernel, parts, saving(kernel, parts, saved), saved, (final, main, init))


def saving(kernel: Kernel, parts: Phases, saved: Sequence[int]) -> Kernel:
    """The kernel with the sums of some states, as final finds them, as further outputs."""
    if not saved:
        return kernel
    ids_end, pre_end, first_out, first_scratch, _ = kernel.splits
    more = [replace(state_block(kernel, parts, p), name=f"saved{k}", fill=None) for k, p in enumerate(saved)]
    n_out = len(kernel.outputs)

    def body(
        ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        args = [*ids, *prefetched, *inputs, *outputs[:n_out], *scratch]

        def at(last: bool, act: Callable[..., Any]) -> None:
            when_all((eq_p.bind(ids[a], np.int32(kernel.grid[a] - 1 if last else 0)) for a in parts.carry), act)

        def finish() -> None:
            for ref, p in zip(outputs[n_out:], saved, strict=True):
                write(view(ref), view(args[p])[...])
            eval_program(parts.final, *args)

        at(False, lambda: eval_program(parts.init, *args))
        eval_program(parts.main, *args)
        at(True, finish)

    return trace_kernel(kernel, body, name=f"{kernel.name}_fwd", outputs=[*kernel.outputs, *more],
                        semantics=kernel.semantics)  # fmt: skip
