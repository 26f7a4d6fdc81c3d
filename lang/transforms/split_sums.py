"""Splits a reduction within one device (split-K): partial sums of stretches of its steps in parallel, then a total.

    partial   a parallel axis of the grid counts stretches of the carried steps; each gives its own sums
    total     adds up the stretches, in order, and runs what the kernel does with its sums in its last cell

Sums of narrower floats are kept in float32. Results do not depend on the order in which blocks run. Maxima, minima,
products and logical reductions are split likewise (`monoid_carries.py`); "sum" stands for all of them here.
`split_reduction.py` splits a reduction across devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program, Var
from ...core.ir.types import ArrayType, RefType, is_inexact
from ...core.primitives.elementwise.arithmetic import add_p, min_p, mul_p
from ...core.primitives.elementwise.comparison import eq_p, lt_p
from ...core.primitives.elementwise.conversion import convert_element_type, convert_element_type_p
from ...core.primitives.movement.shape import broadcast_in_dim
from ...core.primitives.refs.ref_views import AnyRef, addupdate, read, view, write
from ...core.primitives.refs.state_primitives import addupdate_p
from ...core.support.memo import cached
from ...core.tracing.trace import eval_program
from ..analysis.facts import analyse
from ..analysis.reductions import Phases
from ..kernel.block_spec import BlockAxis
from ..kernel.kernel import Block, Kernel, trace_map
from ..kernel.traverse import equation
from ..ops.basic import cdiv, next_power_of_2, when_all
from .desugar import desugared
from .monoid_carries import REDUCERS, as_sums, from_sums, start_of
from .rebuild import INHERITED, carried, grid_block, prune, remap, trace_kernel
from .split_blocks import smaller_outputs

FLOAT32 = np.dtype(np.float32)
TOTAL_BLOCK = 8192  # elements of partial sums that a block of the total takes at once
COLUMNS = 32  # the least that is left of the last axis of a block: a line of 128 bytes


@dataclass(frozen=True, eq=False)
class State:
    """A sum: its position among the inputs of the body, what combines its addends, and the number that it starts at.

    `block` is that of an array of its sums, one for every cell of the axes that do not carry, in their dtype.
    """

    position: int
    combine: Primitive
    start: Any
    block: Block

    def reset(self, ref: AnyRef) -> None:
        """Store the start to a whole Ref."""
        write(view(ref), broadcast_in_dim(convert_element_type(self.start, ref.aval.dtype), ref.aval.shape, ()))


@dataclass(frozen=True, eq=False)
class Addends:
    """A kernel of additive carries in plain accesses: its phases, and the states that its steps add to.

    `emitted` are the outputs of which each cell has its own block.
    """

    kernel: Kernel
    phases: Phases
    states: tuple[State, ...]
    emitted: tuple[int, ...]

    @property
    def carry(self) -> tuple[int, ...]:
        return self.phases.carry

    @property
    def nbytes(self) -> int:
        """The bytes of one stretch's partial sums."""
        return sum(state.block.array.nbytes for state in self.states)


@cached(512)
def addends(kernel: Kernel) -> Addends | None:
    """What a kernel adds up; None where it carries anything else, or where its steps must run in order."""
    if kernel.interpret or kernel.symbolic or kernel.extents or kernel.aliases or not kernel.cells:
        return None
    kernel, ops = as_sums(desugared(kernel, atomics=True, in_step=False))
    phases = analyse(kernel).phases
    if phases is None or not phases.carry:
        return None
    if any(e.kind not in ("read", "write", "accumulate") for e in (*phases.main.effects, *phases.final.effects)):
        return None
    first_out, first_scratch = kernel.splits[2:4]
    added = [p for p in phases.states if any(e.operand == p for e in phases.main.effects)]
    starts = {p: start_of(phases.init, phases.init.inputs[p], ops.get(p, add_p)) for p in added}
    if not added or any(start is None for start in starts.values()):
        return None
    phases = replace(phases, main=from_sums(phases.main, {p: ops[p] for p in added if p in ops}))
    states = tuple(State(p, ops.get(p, add_p), starts[p], _state(kernel, phases, p)) for p in added)
    emitted = tuple(o for o in range(first_scratch - first_out) if first_out + o not in phases.states)
    return Addends(kernel, phases, states, emitted)


def _state(kernel: Kernel, phases: Phases, position: int) -> Block:
    """The array of a state's sums: a block for each cell of the axes that do not carry."""
    _, _, first_out, first_scratch, _ = kernel.splits
    type: Any = kernel.body.inputs[position].type
    if position < first_scratch:
        block = kernel.outputs[position - first_out]
    else:
        rest = [a for a in range(len(kernel.grid)) if a not in phases.carry]
        block = grid_block(f"sum{position}", type.shape, type.dtype, rest, kernel.grid, kernel.prefetch)
    wide = is_inexact(type.dtype) and type.dtype.itemsize < 4 and _widens(phases.main, phases.main.inputs[position])
    return replace(block, array=ArrayType(block.array.shape, FLOAT32)) if wide else block


def _widens(main: Program, ref: Var) -> bool:
    """Whether a Ref is added to by the body itself alone, not in branches and loops."""
    return all(e.primitive is addupdate_p and e.inputs[0] is ref for e in main.eqns if ref in e.inputs)


# ---------------------------------------------------------------------------- partial sums


Stretches = tuple[tuple[int, int], ...]  # carried axes, each with the number of stretches that it is cut in


def partial_kernel(found: Addends, stretches: Stretches) -> Kernel:
    """The kernel of partial sums: outputs are those that cells emit, then an array of sums for each state.

    Stretches along an axis have one length; the last may be shorter, where nothing is emitted.
    """
    kernel, phases, ahead = found.kernel, found.phases, len(stretches)
    steps = {a: cdiv(kernel.grid[a], n) for a, n in stretches}
    grid = (*(n for _, n in stretches), *(steps.get(a, n) for a, n in enumerate(kernel.grid)))
    _, _, first_out, first_scratch, end = kernel.splits
    added = [s.position for s in found.states]
    local = [p for p in range(first_scratch, end) if p not in added]
    main = _widened(phases.main, {s.position: s.block.array.dtype for s in found.states})

    def cell(ids: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The ids of the kernel, and what must hold for the cell to be one of its own."""
        own, valid = list(ids[ahead:]), []
        for number, (a, n) in enumerate(stretches):
            own[a] = add_p.bind(mul_p.bind(ids[number], np.int32(steps[a])), own[a])
            if n * steps[a] > kernel.grid[a]:
                valid.append(lt_p.bind(own[a], np.int32(kernel.grid[a])))
                own[a] = min_p.bind(own[a], np.int32(kernel.grid[a] - 1))
        return own, valid

    def body(
        ids: Sequence[Any], prefetch: Sequence[Any], ins: Sequence[Any], outs: Sequence[Any], scratch: Sequence[Any]
    ) -> None:
        emitted, sums = outs[: len(found.emitted)], outs[len(found.emitted) :]
        first = [eq_p.bind(ids[ahead + a], np.int32(0)) for a in phases.carry]
        when_all(first, lambda: [s.reset(ref) for s, ref in zip(found.states, sums, strict=True)])
        refs = dict(zip(added, sums, strict=True)) | dict(zip(local, scratch, strict=True))
        refs |= {first_out + o: ref for o, ref in zip(found.emitted, emitted, strict=True)}
        every = [refs.get(p, sums[0]) for p in range(first_out, end)]  # main touches none of the others
        own, valid = cell(ids)
        when_all(valid, lambda: eval_program(main, *own, *prefetch, *ins, *every)) if valid else eval_program(
            main, *own, *prefetch, *ins, *every)  # fmt: skip

    def block(b: Block) -> Block:
        return remap(b, kernel.prefetch, grid, lambda ids: cell(ids)[0])

    def sums(b: Block) -> Block:
        whole = block(b)

        def index(*args: Any) -> list[Any]:
            number = np.int32(0)
            for k, (_, n) in enumerate(stretches):
                number = add_p.bind(mul_p.bind(number, np.int32(n)), args[k])
            return [number, *whole.index(*args)]

        return whole.stacked([math.prod(n for _, n in stretches)], trace_map(grid, kernel.prefetch, index))

    outputs = [block(kernel.outputs[o]) for o in found.emitted] + [sums(s.block) for s in found.states]
    semantics = tuple("parallel" if a < ahead or a - ahead not in phases.carry else "arbitrary"
                      for a in range(len(grid)))  # fmt: skip
    return trace_kernel(
        kernel, body, name=f"{kernel.name}_part", grid=grid, inputs=[block(b) for b in kernel.inputs], outputs=outputs,
        scratch=[kernel.scratch[p - first_scratch] for p in local], semantics=semantics,
        settings=(*carried(kernel, ahead), (INHERITED, True)))  # fmt: skip


def _widened(main: Program, dtypes: Mapping[int, np.dtype]) -> Program:
    """The Program with Refs of other dtypes at some positions, which what is added is converted to."""
    new = {}
    for p, dtype in dtypes.items():
        old: Any = main.inputs[p]
        if old.type.dtype != dtype:
            new[old] = Var(RefType(ArrayType(old.type.shape, dtype), old.type.space))
    if not new:
        return main
    made = {v: e for e in main.eqns for v in e.outputs}
    eqns = []
    for eqn in main.eqns:
        ref: Any = eqn.inputs[0] if eqn.inputs else None
        if ref in new:
            value, dtype = eqn.inputs[1], new[ref].type.dtype
            source = made.get(value) if type(value) is Var else None
            if source is not None and source.primitive is convert_element_type_p:
                if source.inputs[0].type.dtype == dtype:
                    value = source.inputs[0]
            if value.type.dtype != dtype:
                cast = equation(convert_element_type_p, [value], {"new_dtype": dtype, "weak_type": False}, eqn)
                eqns.append(cast)
                value = cast.outputs[0]
            eqn = eqn.replace(inputs=(new[ref], value, *eqn.inputs[2:]))
        eqns.append(eqn)
    return main.replace(inputs=[new.get(v, v) for v in main.inputs], eqns=eqns)


# ---------------------------------------------------------------------------- the total


@dataclass(frozen=True)
class Total:
    """The kernel of the total: it takes inputs of these numbers of the kernel, then the partial sums."""

    kernel: Kernel
    inputs: tuple[int, ...]


def total_kernel(found: Addends, parts: int, blocks: int) -> Total:
    """The kernel that adds up `parts` arrays of partial sums, and makes of them the outputs that are sums.

    Its blocks are cut along axes that its body treats alike, until there are about `blocks` of them.
    """
    rest = math.prod(n for a, n in enumerate(found.kernel.grid) if a not in found.carry)
    elements = max(math.prod(s.block.shape) for s in found.states)
    for pieces in (256, 128, 64, 32, 16, 8, 4, 2):
        if rest * pieces > 2 * blocks or elements < pieces * COLUMNS:
            continue
        whole = _total(found, parts, elements // pieces)
        cut = smaller_outputs(whole.kernel, _unit, pieces)
        if cut is not None:
            return replace(whole, kernel=cut)
    return _total(found, parts, elements)


def _unit(type: ArrayType, axis: int) -> int:
    """What divides a piece of an axis: rows that lie side by side stay so."""
    return COLUMNS if axis == type.ndim - 1 else 1


def _total(found: Addends, parts: int, elements: int) -> Total:
    """The kernel of the total for blocks of so many elements of a state."""
    kernel, phases, n = found.kernel, found.phases, len(found.kernel.inputs)
    first_out, first_scratch, end = kernel.splits[2:5]
    rows = min(next_power_of_2(parts), max(1, TOTAL_BLOCK // next_power_of_2(max(elements, 1))))
    steps = cdiv(parts, rows)
    grid = (*(1 if a in phases.carry else size for a, size in enumerate(kernel.grid)), steps)

    def ids_of(ids: Sequence[Any]) -> list[Any]:
        return [np.int32(kernel.grid[a] - 1) if a in phases.carry else ids[a] for a in range(len(kernel.grid))]

    def addend(state: State) -> Block:
        b = state.block
        whole = remap(b, kernel.prefetch, grid, ids_of)
        index_map = trace_map(grid, kernel.prefetch, lambda *args: [args[len(grid) - 1], *whole.index(*args)])
        stacked = whole.stacked([parts], index_map)
        fill = b.array.dtype.type(state.start) if parts % rows else None
        return replace(stacked, axes=(BlockAxis(rows), *whole.axes), fill=fill, loose=False)

    def body(
        ids: Sequence[Any], prefetch: Sequence[Any], ins: Sequence[Any], outs: Sequence[Any], scratch: Sequence[Any]
    ) -> None:
        held, sums = scratch[: end - first_scratch], scratch[end - first_scratch :]
        refs = dict(zip(range(first_out, end), [*own_outputs(outs), *held], strict=True))
        first = [eq_p.bind(ids[-1], np.int32(0))]
        when_all(first, lambda: [s.reset(ref) for s, ref in zip(found.states, sums, strict=True)])
        for state, ref, given in zip(found.states, sums, ins[n:], strict=True):
            made = REDUCERS[state.combine].bind(read(view(given)), axes=(0,))
            if state.combine is add_p:
                addupdate(view(ref), made)
            else:
                write(view(ref), state.combine.bind(read(view(ref)), made))

        def last() -> None:
            for state, ref in zip(found.states, sums, strict=True):
                own = refs[state.position]
                write(view(own), convert_element_type(read(view(ref)), own.aval.dtype))
            eval_program(phases.final, *ids_of(ids), *prefetch, *ins[:n], *refs.values())

        when_all([eq_p.bind(ids[-1], np.int32(steps - 1))], last)

    kept = [o for o in range(len(kernel.outputs)) if o not in found.emitted]

    def own_outputs(outs: Sequence[Any]) -> list[Any]:
        given = dict(zip(kept, outs, strict=True))
        return [given.get(o, outs[0]) for o in range(len(kernel.outputs))]  # final touches none of the others

    inputs = [*(remap(b, kernel.prefetch, grid, ids_of) for b in kernel.inputs), *map(addend, found.states)]
    outputs = [remap(kernel.outputs[o], kernel.prefetch, grid, ids_of) for o in kept]
    sums = [RefType(ArrayType(s.block.shape, s.block.array.dtype), kernel.body.inputs[s.position].type.space)
            for s in found.states]  # fmt: skip
    made = trace_kernel(
        kernel, body, name=f"{kernel.name}_total", grid=grid, inputs=inputs, outputs=outputs,
        scratch=[*kernel.scratch, *sums], settings=((INHERITED, True),))  # fmt: skip
    final, taken = prune(made)
    return Total(final, tuple(taken))
