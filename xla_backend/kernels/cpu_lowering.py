"""Kernels on the CPU: compiled to plain array Programs, vectorised over cells rather than one after the other.

Index maps that tile become reshapes. Parallel axes are batched. Carries that only add up become one sum over
their axes, and a sum of contractions one contraction; any other carry is one loop. Where an output does not
tile, one loop over all cells slices and updates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.ir.passes import eliminate_dead
from ...core.ir.primitive import Zero
from ...core.ir.program import Literal, Program
from ...core.ir.types import MemorySpace
from ...core.primitives.control_flow.scan import bind_scan
from ...core.primitives.control_flow.while_loop import fori_loop
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p, mul_p
from ...core.primitives.movement.dynamic_slice import dynamic_slice, dynamic_update_slice
from ...core.primitives.movement.shape import broadcast_in_dim_p, full, iota_p, reshape_to
from ...core.primitives.movement.shape import slice as slice_
from ...core.primitives.reduction.reduce import reduce_max_p, reduce_sum_p
from ...core.primitives.refs.state_primitives import swap_p
from ...core.support.memo import cached
from ...core.tracing.trace import shape_of, trace_program, typeof
from ...lang.analysis.facts import analyse
from ...lang.analysis.index_maps import map_of
from ...lang.analysis.reductions import Phases
from ...lang.kernel.kernel import ID, Block, Kernel
from ...lang.ops.basic import unravel
from ...lang.ops.interpret_params import poison
from ...lang.transforms.desugar import desugared
from ...lang.transforms.discharge import Cell, run_cells, undefined
from ...lang.transforms.dynamic_grid import by_ids, guarded
from ...lang.transforms.windows import margins, padded, read_window, starts_of
from ..cpu_passes.contractions import exchange, merge_sums
from ..cpu_passes.narrow_windows import narrow
from ..cpu_passes.options import ZEROS
from .block_layout import (
    DimPlan,
    Layout,
    arrange,
    block_layout,
    disjoint,
    evaluate_over,
    grid_entry,
    natural_layout,
    plan_dims,
    tile,
    type_without,
    untile,
)
from .grid_chunking import budget_of, chunked, peak_bytes

if TYPE_CHECKING:
    from ...core.ir.array import Array, ArrayLike
    from ...lang.analysis.loop_carried import Axes


INT32 = np.dtype(np.int32)


@dataclass(frozen=True, eq=False)
class View:
    """An operand as cells get at it: `plans` where it tiles (then `value` is of natural layout), else sliced."""

    block: Block
    plans: list[DimPlan] | None
    value: Any
    layout: Layout

    @property
    def shape(self) -> tuple[int, ...]:
        return self.block.shape


def view_of(kernel: Kernel, block: Block, array: Array) -> View:
    """An array tiled, or padded so that each block is in bounds."""
    fact = map_of(kernel, block)
    plans = plan_dims(block, fact.affine, kernel.grid) if fact is not None else None
    if plans is not None:
        return View(block, plans, tile(block, plans, kernel.grid, array), natural_layout(block, plans))
    value = padded(block, array, margins(block))
    return View(block, None, value, block_layout(block.array.ndim))


def read_block(view: View, value: Any, ids: Sequence[Any], prefetched: Sequence[Any]) -> Any:
    """The block of one cell, from what the cell was given of the operand."""
    if view.plans is not None:
        return value
    return read_window(view.block, value, ids, prefetched)


# ---------------------------------------------------------------------------- one kernel


class Lowering:
    """One kernel applied to arrays under the current trace."""

    kernel: Kernel
    grid: tuple[int, ...]
    outer: tuple[int, ...]
    off: frozenset[str]
    prefetched: list[Any]
    arrays: list[Any]

    def __init__(self, kernel: Kernel, arrays: Sequence[Any], outer: Sequence[int], off: frozenset[str]):
        self.kernel, self.grid, self.outer, self.off = kernel, kernel.grid, tuple(outer), off
        self.route = "nothing: there are no cells"
        n = len(kernel.prefetch)
        self.prefetched, self.arrays = list(arrays[:n]), list(arrays[n:])
        self.started: dict[int, Any] = {o: self.arrays[i] for i, o in kernel.aliases}
        self.inputs: list[View] = [view_of(kernel, b, a) for b, a in zip(kernel.inputs, self.arrays, strict=True)]
        self.out_plans: list[list[DimPlan] | None] = [self._plans(b) for b in kernel.outputs]

    def _plans(self, block: Block) -> list[DimPlan] | None:
        fact = map_of(self.kernel, block)
        plans = None if fact is None else plan_dims(block, fact.affine, self.grid)
        return plans if disjoint(block, plans) else None

    def start_array(self, number: int) -> Any:
        """What an output holds before the first cell."""
        array = self.kernel.outputs[number].array
        return self.started[number] if number in self.started else self.unwritten(array.shape, array.dtype)

    def unwritten(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """A value for memory that nothing has written."""
        return full(tuple(shape), poison((), dtype)[()]) if ZEROS in self.off else undefined(shape, dtype)

    def run(self) -> list[Any]:
        kernel = self.kernel
        if kernel.cells == 0:
            return [self.start_array(o) for o in range(len(kernel.outputs))]
        tiled = all(p is not None for p in self.out_plans)
        ordered = set(self.outer) & set(analyse(kernel).carry)  # sums that are too large to be taken all at once
        parts = analyse(kernel).phases if tiled and not ordered and ZEROS not in self.off else None
        if parts is not None:
            self.route = self._route(self.outer, parts.carry)
            return Additive(self, parts).run()
        carry = sorted({*(analyse(kernel).carry if tiled else kernel.long_axes), *self.outer, *kernel.computed})
        self.route: str = self._route(carry, ())
        return Sequential(self, carry).run()

    def _route(self, looped: Sequence[int], summed: Sequence[int]) -> str:
        """How the cells are run, in words."""
        turns = math.prod(self.grid[a] for a in looped)
        parts = ["vectorised over cells"]
        if any(self.grid[a] > 1 for a in summed):
            parts.append(f"sums over {_axes(summed)}")
        if self.kernel.extents:
            parts.append(f"a loop over {_axes(looped)}, with a computed number of iterations")
        elif turns > 1:
            parts.append(f"a loop of {turns:,} iterations over {_axes(looped)}")
        return ", ".join(parts)

    def ids(self, axes: Sequence[int], fixed: dict[int, Any]) -> tuple[list[Any], list[Layout]]:
        """Ids of every grid axis: all of the batched `axes` at once, a given value for the `fixed` ones."""
        values: list[Any] = []
        layouts: list[Layout] = []
        for a, n in enumerate(self.grid):
            if a in fixed:
                values.append(fixed[a])
                layouts.append(())
            elif a in axes:
                values.append(iota_p.bind(dtype=INT32, shape=(n,), dimension=0))
                layouts.append((grid_entry(a),))
            else:
                values.append(np.int32(0))
                layouts.append(())
        return values, layouts


def _axes(numbers: Sequence[int]) -> str:
    return f"grid {'axis' if len(numbers) == 1 else 'axes'} {', '.join(map(str, numbers))}"


def at_ids(value: Array, layout: Layout, fixed: dict[int, Any]) -> tuple[Any, Layout]:
    """A value at given ids of some of its grid axes."""
    for axis, i in fixed.items():
        entry = grid_entry(axis)
        if entry not in layout:
            continue
        d, shape = layout.index(entry), shape_of(value)
        kept = (*shape[:d], *shape[d + 1 :])
        if isinstance(i, (int, np.integer)):
            lows, highs = [0] * len(shape), list(shape)
            lows[d], highs[d] = int(i), int(i) + 1
            value = reshape_to(slice_(value, lows, highs), kept)
        else:
            sizes = (*shape[:d], 1, *shape[d + 1 :])
            starts = [i if k == d else np.int32(0) for k in range(len(shape))]
            value = reshape_to(dynamic_slice(value, starts, sizes, allow_negative_indices=False), kept)
        layout = (*layout[:d], *layout[d + 1 :])
    return value, layout


# ---------------------------------------------------------------------------- additive carries


class Additive:
    """A kernel of `Phases`: sums over the carry axes, everything else batched."""

    low: Lowering
    kernel: Kernel
    parts: Phases
    parallel: tuple[int, ...]
    ids_end: int
    pre_end: int
    in_end: int
    out_end: int
    end: int

    def __init__(self, lowering: Lowering, parts: Phases):
        self.low, self.kernel, self.parts = lowering, lowering.kernel, parts
        self.carry: Axes = parts.carry
        self.parallel = tuple(a for a in self.kernel.long_axes if a not in (*parts.carry, *lowering.outer))[::-1]
        self.ids_end, self.pre_end, self.in_end, self.out_end, self.end = self.kernel.splits
        self.outer: dict[int, Any] = {}  # ids of the axes that are looped over

    def starts(self) -> dict[int, View]:
        """Blocks of aliased outputs as they start, by position among the body's inputs."""
        return {self.in_end + o: view_of(self.kernel, self.kernel.outputs[o], a) for o, a in self.low.started.items()}

    def cell(self, program: Program, given: dict[int, Any], wanted: Sequence[int], args: Sequence[Any]) -> list[Any]:
        """Run one phase for one cell; `given` are the values of Refs by position; gives those of `wanted`."""
        ids, prefetched = list(args[: self.ids_end]), list(args[self.ids_end : self.pre_end])
        blocks = args[self.pre_end : self.in_end]
        refs: list[Cell] = [Cell(p) for p in prefetched]
        refs += [Cell(read_block(v, b, ids, prefetched)) for v, b in zip(self.low.inputs, blocks, strict=True)]
        for position in range(self.in_end, self.end):
            type_ = program.inputs[position].type.array
            refs.append(Cell(given.get(position, Zero(type_))))
        run_cells(program, [*ids, *refs])
        return [refs[p - self.ids_end].content for p in wanted]

    def phase(
        self, program: Program, wanted: Sequence[int], states: dict[int, tuple[Any, Layout]], fixed: dict[int, Any],
        summed: bool = False,
    ) -> dict[int, tuple[Any, Layout] | None]:  # fmt: skip
        """Run a phase over all parallel cells; None for a wanted Ref that stays untouched."""
        fixed = self.outer | fixed
        axes = (*self.carry, *self.parallel) if summed else self.parallel
        values, layouts = self.low.ids(axes, fixed)
        values += self.low.prefetched
        layouts += [block_layout(len(shape_of(p))) for p in self.low.prefetched]
        for view in self.low.inputs:
            value, layout = at_ids(view.value, view.layout, fixed)
            values.append(value)
            layouts.append(layout)
        positions = list(states)
        for value, layout in states.values():
            value, layout = at_ids(value, layout, fixed)
            values.append(value)
            layouts.append(layout)
        n = self.in_end
        untouched: set[int] = set()

        def one(*args: Any) -> list[Any]:
            found = self.cell(program, dict(zip(positions, args[n:], strict=True)), wanted, args[:n])
            untouched.update(p for p, v in zip(wanted, found, strict=True) if type(v) is Zero)
            return [v for v in found if type(v) is not Zero]

        types = [type_without(v, la, axes) for v, la in zip(values, layouts, strict=True)]
        traced = eliminate_dead(trace_program(one, types, program.name))[0]
        touched = [p for p in wanted if p not in untouched]
        out_layouts = [block_layout(len(t.shape)) for t in traced.out_types]
        if summed and self.carry:
            traced, out_layouts = self.sum_carry(traced, values, layouts, out_layouts, touched)
        outs, found = evaluate_over(traced, self.parallel, self.low.grid, values, layouts, out_layouts)
        result: dict[int, tuple[Any, Layout] | None] = dict.fromkeys(wanted)
        result.update(zip(touched, zip(outs, found, strict=True), strict=True))
        return result

    def sum_carry(
        self, program: Program, values: Sequence[Any], layouts: Sequence[Layout], out_layouts: Sequence[Layout],
        touched: Sequence[int],
    ) -> tuple[Program, list[Layout]]:  # fmt: skip
        """The Program over all cells of the carry axes at once: states are summed, emitted blocks keep the axes."""
        result: list[Layout] = []

        def fun(*args: Any) -> list[Any]:
            seen = [tuple(e for e in la if e[0] == "block" or e[1] in self.carry) for la in layouts]
            outs, found = evaluate_over(program, self.carry, self.low.grid, args, seen, out_layouts)
            done = []
            for position, value, layout in zip(touched, outs, found, strict=True):
                if position in self.parts.states:
                    value, layout = self.summed(value, layout)
                done.append(value)
                result.append(layout)
            return done

        types = [type_without(v, la, self.parallel) for v, la in zip(values, layouts, strict=True)]
        traced = trace_program(fun, types, program.name)
        return traced if "merged_sums" in self.low.off else merge_sums(traced), result

    def summed(self, value: Any, layout: Layout) -> tuple[Any, Layout]:
        axes = tuple(i for i, e in enumerate(layout) if e[0] == "grid")
        missing = [a for a in self.carry if grid_entry(a) not in layout]
        if axes:
            value = reduce_sum_p.bind(value, axes=axes)
        if missing:
            times = int(np.prod([self.low.grid[a] for a in missing]))
            value = mul_p.bind(value, np.asarray(times).astype(typeof(value).dtype)[()])
        return value, tuple(e for e in layout if e[0] == "block")

    def run(self) -> list[Any]:
        outputs = range(self.in_end, self.out_end)
        found = self.loop() if self.low.outer else self.cells()
        return [self.output(p - self.in_end, found[p]) for p in outputs]

    def loop(self) -> dict[int, Any]:
        """The outputs, cells of the outer axes one after the other."""
        low, views = self.low, self.low.inputs
        sizes = [low.grid[a] for a in low.outer]
        turns, p, n = int(np.prod(sizes)), len(low.prefetched), len(views)
        known: dict[int, Any] = {}

        def body(*args: Any) -> list[Any]:
            kept = low.prefetched, low.inputs, low.started
            low.prefetched = list(args[:p])
            low.inputs = [replace(v, value=x) for v, x in zip(views, args[p : p + n], strict=True)]
            low.started = dict(zip(kept[2], args[p + n : -1], strict=True))
            self.outer = unravel(args[-1], low.outer, low.grid)
            found = self.cells()
            low.prefetched, low.inputs, low.started = kept
            self.outer = {}
            known.update({k: v[1] for k, v in found.items() if v is not None})
            return [v[0] for v in found.values() if v is not None]

        fixed = [*low.prefetched, *(v.value for v in views), *low.started.values()]
        program = trace_program(body, [*(typeof(x).strong() for x in fixed), ID], self.kernel.name)
        steps = iota_p.bind(dtype=INT32, shape=(turns,), dimension=0)
        stacked = bind_scan(program, fixed, [], [steps], length=turns, reverse=False, unroll=1)
        lead = tuple(grid_entry(a) for a in low.outer)
        result: dict[int, Any] = dict.fromkeys(range(self.in_end, self.out_end))
        for (position, layout), value in zip(known.items(), stacked, strict=True):
            result[position] = reshape_to(value, (*sizes, *shape_of(value)[1:])), (*lead, *layout)
        return result

    def cells(self) -> dict[int, Any]:
        """The outputs by position, with their layouts; None for one that stays as it started."""
        states = list(self.parts.states)
        outputs = range(self.in_end, self.out_end)
        starts = {p: (v.value, v.layout) for p, v in self.starts().items()}
        first = dict.fromkeys(self.carry, np.int32(0))
        last = {a: np.int32(self.low.grid[a] - 1) for a in self.carry}
        emitted = [p for p in outputs if p not in states]
        held: dict[int, Any] = {p: at_both(starts.get(p), self.outer | first) for p in states}
        if states:
            found = self.phase(self.parts.init, states, {p: s for p, s in held.items() if s is not None}, first)
            held.update({p: self.not_zero(self.parts.init, found[p], p) for p in states if found[p] is not None})
        added = self.phase(
            self.parts.main, [*states, *emitted], {p: s for p, s in starts.items() if p in emitted}, {}, summed=True
        )
        for p in states:
            held[p] = self.plus(held[p], added[p])
        results: dict[int, Any] = {p: added[p] for p in emitted}
        if states:
            known = {p: s for p, s in held.items() if s is not None}
            carried = [p for p in states if p in outputs]
            found = self.phase(self.parts.final, carried, known, last)
            results.update(found)
        return {p: results[p] for p in outputs}

    def not_zero(self, program: Program, found: Any, position: int) -> Any:
        """None for a state that is reset to zero, so that nothing is added to the sums."""
        value, layout = found
        ref = program.inputs[position]
        for eqn in program.eqns:
            if ref in eqn.inputs:
                source = eqn.inputs[1]
                made = next((e for e in program.eqns if source in e.outputs), None)
                if made is not None and made.primitive is broadcast_in_dim_p:
                    source = made.inputs[0]
                if eqn.primitive is swap_p and type(source) is Literal and source.value == 0:
                    return None
        return value, layout

    def plus(self, held: Any, added: Any) -> Any:
        if held is None or added is None:
            return added if held is None else held
        target = added[1]
        target += tuple(e for e in held[1] if e not in target)
        pair = [arrange(v, la, target, self.low.grid) for v, la in (held, added)]
        return add_p.bind(*pair), target

    def output(self, number: int, found: Any) -> Any:
        block, plans = self.kernel.outputs[number], self.low.out_plans[number]
        assert plans is not None
        if found is None:
            return self.low.start_array(number)
        target = natural_layout(block, plans)
        value = arrange(found[0], found[1], target, self.low.grid)
        return untile(block, plans, value, lambda: self.low.start_array(number))


def at_both(found: Any, fixed: dict[int, Any]) -> Any:
    return None if found is None else at_ids(found[0], found[1], fixed)


# ---------------------------------------------------------------------------- any carry


class Sequential:
    """A kernel whose carry axes run as one loop, parallel axes batched inside it."""

    low: Lowering
    kernel: Kernel
    grid: tuple[int, ...]
    ids_end: int
    pre_end: int
    in_end: int
    out_end: int
    end: int

    def __init__(self, lowering: Lowering, carry: Sequence[int]):
        self.low, self.kernel, self.grid = lowering, lowering.kernel, lowering.grid
        self.carry: tuple[int, ...] = tuple(carry)
        self.sizes: tuple[Any, ...] = self.grid  # with those that are computed
        self.parallel: tuple[int, ...] = tuple(a for a in self.kernel.long_axes if a not in carry)[::-1]
        self.ids_end, self.pre_end, self.in_end, self.out_end, self.end = self.kernel.splits

    def state_layouts(self) -> list[Layout]:
        """The layout of what the loop carries of each output and scratch."""
        layouts: list[Layout] = []
        for block, plans in zip(self.kernel.outputs, self.low.out_plans, strict=True):
            layouts.append(block_layout(block.array.ndim) if plans is None else natural_layout(block, plans))
        parallel = tuple(grid_entry(a) for a in sorted(self.parallel))
        return layouts + [(*parallel, *block_layout(len(s.shape))) for s in self.kernel.scratch]

    def start(self) -> list[Any]:
        values = []
        for number, (block, plans) in enumerate(zip(self.kernel.outputs, self.low.out_plans, strict=True)):
            array = self.low.start_array(number)
            if plans is None:
                values.append(padded(block, array, margins(block)))
            else:
                values.append(tile(block, plans, self.grid, array))
        sizes = [self.grid[a] for a in sorted(self.parallel)]
        return values + [
            undefined((*sizes, *s.shape), s.dtype)
            if s.space is MemorySpace.SEMAPHORE
            else self.low.unwritten((*sizes, *s.shape), s.dtype)
            for s in self.kernel.scratch
        ]

    def fixed(self, t: ArrayLike) -> dict[int, Any]:
        """The ids of the carry axes in iteration `t` of the loop."""
        return unravel(t, self.carry, self.sizes)

    def cell(self, args: Sequence[Any]) -> list[Any]:
        """One cell: ids, prefetched, operands and states in; the states out."""
        ids, prefetched = list(args[: self.ids_end]), list(args[self.ids_end : self.pre_end])
        blocks, held = args[self.pre_end : self.in_end], args[self.in_end :]
        refs = [Cell(p) for p in prefetched]
        refs += [Cell(read_block(v, b, ids, prefetched)) for v, b in zip(self.low.inputs, blocks, strict=True)]
        n = len(self.kernel.outputs)
        starts: dict[int, list[Any]] = {}
        for number, (block, plans) in enumerate(zip(self.kernel.outputs, self.low.out_plans, strict=True)):
            value = held[number]
            if plans is None:
                starts[number] = starts_of(block, ids, prefetched)
                part = dynamic_slice(value, starts[number], block.sizes, allow_negative_indices=False)
                value = reshape_to(part, block.shape)
            refs.append(Cell(value))
        refs += [Cell(s) for s in held[n:]]
        run_cells(self.kernel.body, [*ids, *refs])
        found = [c.value for c in refs[len(prefetched) + len(blocks) :]]
        for number, where in starts.items():
            part = reshape_to(found[number], self.kernel.outputs[number].sizes)
            found[number] = dynamic_update_slice(held[number], part, where, allow_negative_indices=False)
        return found

    def turn(
        self, t: ArrayLike, prefetched: Sequence[Any], operands: Sequence[Any], states: Sequence[Any]
    ) -> list[Any]:
        """All parallel cells in one iteration of the loop."""
        fixed = self.fixed(t) if self.carry else {}
        values, layouts = self.low.ids(self.parallel, fixed)
        values += prefetched
        layouts += [block_layout(len(shape_of(p))) for p in prefetched]
        state_layouts = self.state_layouts()
        held_layouts = [v.layout for v in self.low.inputs] + state_layouts
        for value, layout in zip([*operands, *states], held_layouts, strict=True):
            value, layout = at_ids(value, layout, fixed)
            values.append(value)
            layouts.append(layout)
        types = [type_without(v, la, self.parallel) for v, la in zip(values, layouts, strict=True)]
        program = trace_program(lambda *args: self.cell(args), types, self.kernel.name)
        out_layouts = [
            tuple(e for e in la if e not in {grid_entry(a) for a in self.parallel}) for la in layouts[self.in_end :]
        ]
        outs, found = evaluate_over(program, self.parallel, self.grid, values, layouts, out_layouts)
        done = []
        for value, layout, held, target in zip(outs, found, states, state_layouts, strict=True):
            part = tuple(e for e in target if e != () and (e[0] == "block" or e[1] not in fixed))
            done.append(put_at(held, arrange(value, layout, part, self.grid), target, fixed))
        return done

    def run(self) -> list[Any]:
        operands = [v.value for v in self.low.inputs]
        states = self.start()
        turns = math.prod(self.grid[a] for a in self.carry)
        if self.kernel.extents:
            states = self.while_loop(operands, states)
        elif turns == 1:
            states = self.turn(np.int32(0), self.low.prefetched, operands, states)
        else:
            states = self.loop(turns, operands, states)
        outs = []
        for number, (block, plans) in enumerate(zip(self.kernel.outputs, self.low.out_plans, strict=True)):
            if plans is not None:
                outs.append(untile(block, plans, states[number], lambda n=number: self.low.start_array(n)))
            else:
                lows = [m[0] for m in margins(block)]
                highs = [low + n for low, n in zip(lows, block.array.shape, strict=True)]
                outs.append(slice_(states[number], lows, highs))
        return outs

    def loop(self, turns: int, operands: Sequence[Any], states: Sequence[Any]) -> list[Any]:
        p, n = len(self.low.prefetched), len(operands)

        def body(*args: Any) -> list[Any]:
            fixed, rest = args[: p + n], args[p + n :]
            return self.turn(rest[-1], list(fixed[:p]), fixed[p:], rest[:-1])

        fixed_values = [*self.low.prefetched, *operands]
        types = [typeof(x).strong() for x in (*fixed_values, *states)]
        program = trace_program(body, [*types, ID], self.kernel.name)
        steps = iota_p.bind(dtype=INT32, shape=(turns,), dimension=0)
        return bind_scan(program, fixed_values, states, [steps], length=turns, reverse=False, unroll=1)

    def while_loop(self, operands: Sequence[Any], states: Sequence[Any]) -> list[Any]:
        """A loop with a computed trip count."""
        prefetched = self.low.prefetched
        sizes = list(self.grid)
        for axis, size in computed_sizes(self.kernel, prefetched).items():
            sizes[axis] = size
        self.sizes = tuple(sizes)
        total: Any = np.int32(math.prod(n for a, n in enumerate(self.grid) if a in self.carry and n is sizes[a]))
        for axis in self.kernel.computed:
            total = mul_p.bind(sizes[axis], total)

        def body(t: Array, held: Any) -> Any:
            return tuple(self.turn(t, prefetched, operands, held))

        return list(fori_loop(np.int32(0), total, body, tuple(states)))


def computed_sizes(kernel: Kernel, prefetched: Sequence[Any]) -> dict[int, Any]:
    """The sizes of the axes with an extent, no more than their bounds: the largest, where they depend on ids."""
    n = len(kernel.grid)
    found: dict[int, Any] = {}
    for axis, program in kernel.extents:
        over = by_ids(kernel, program)
        values = [iota_p.bind(dtype=INT32, shape=(kernel.grid[a],), dimension=0) if a in over else np.int32(0)
                  for a in range(n)]  # fmt: skip
        layouts: list[Layout] = [(grid_entry(a),) if a in over else () for a in range(n)]
        layouts += [block_layout(len(shape_of(p))) for p in prefetched]
        values += prefetched
        types = [type_without(v, la, over) for v, la in zip(values, layouts, strict=True)]
        flat = trace_program(lambda *args, p=program: run_cells(p, [*args[:n], *map(Cell, args[n:])]), types, "extent")
        (size,), _ = evaluate_over(flat, over, kernel.grid, values, layouts, [()])
        if shape_of(size):
            size = reduce_max_p.bind(size, axes=tuple(range(len(shape_of(size)))))
        found[axis] = max_p.bind(min_p.bind(size, np.int32(kernel.grid[axis])), np.int32(0))
    return found


def put_at(held: Array, part: Array, layout: Layout, fixed: dict[int, Any]) -> Any:
    """What the loop carries with the part at given ids replaced."""
    at = {layout.index(grid_entry(a)): i for a, i in fixed.items() if grid_entry(a) in layout}
    if not at:
        return part
    shape = shape_of(held)
    sizes = tuple(1 if d in at else n for d, n in enumerate(shape))
    starts = [at.get(d, np.int32(0)) for d in range(len(shape))]
    return dynamic_update_slice(held, reshape_to(part, sizes), starts, allow_negative_indices=False)


# ---------------------------------------------------------------------------- entry


class Lowered(NamedTuple):
    """A kernel as a plain array Program, and how its cells are run there."""

    program: Program
    route: str


@cached(1024)
def lowered(kernel: Kernel, off: frozenset[str] = frozenset()) -> Lowered:
    """A kernel for XLA to compute; `off` are options of `cpu` that are not used."""
    kernel = poisoned(desugared(kernel, poisons=True)) if ZEROS in off else desugared(kernel)
    # The loop over an axis whose size differs from row to row of a batch runs the most; the rest is masked.
    kernel = guarded(kernel, tuple(a for a, p in kernel.extents if by_ids(kernel, p)))
    found = _lowered(kernel, (), off)
    if kernel.cells and peak_bytes(found.program) > budget_of(kernel):
        smaller, outer = (kernel, kernel.long_axes) if kernel.extents else chunked(kernel, found.program)
        if outer:
            return _lowered(smaller, outer, off)
    return found


def poisoned(kernel: Kernel) -> Kernel:
    """The kernel with poison past the ends of operands that have no fill."""

    def fill(block: Block) -> Block:
        return replace(block, fill=poison((), block.array.dtype)[()]) if block.fill is None else block

    return kernel.replace(inputs=tuple(map(fill, kernel.inputs)), outputs=tuple(map(fill, kernel.outputs)))


def _lowered(kernel: Kernel, outer: tuple[int, ...], off: frozenset[str]) -> Lowered:
    route = ""

    def run(*arrays: Any) -> list[Any]:
        nonlocal route
        low = Lowering(kernel, arrays, outer, off)
        results = low.run()
        route = low.route
        return results

    program = eliminate_dead(trace_program(run, kernel.in_types, kernel.name))[0]
    for name, option in (("narrow_windows", narrow), ("exchanged", exchange)):
        program = program if name in off else option(program)
    return Lowered(program, route)
