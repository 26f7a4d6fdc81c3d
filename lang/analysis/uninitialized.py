"""Kernels followed cell by cell with the levels of what their memory holds: whether anything unspecified comes out.

Unspecified is what lies past the end of an operand without `fill`; what scratch and output blocks hold that no cell has
written; and what a copy brings that nobody has waited for. A cell depends on its ids only by the values that it asks
for (the test of a `when`, a place, a mask), so cells that agree in these, and in the memory they find, are one.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.program import Eqn
from ...core.ir.types import FAR, MemorySpace
from ...core.primitives.control_flow.cond import cond_p
from ..kernel.kernel import Block, Kernel, ragged_axes
from .affine import MAX_CELLS, Fact, predicate
from .index_maps import linear_index, map_of, spread
from .poison_control import RULES
from .poison_interp import Follower, TooLong
from .poison_lattice import (
    CLEAN,
    MAYBE,
    PERHAPS,
    RAW,
    SPOILED,
    UNWRITTEN,
    Level,
    State,
    flat,
    joined,
    most,
    stored,
    tidy,
)

Ids = tuple[int, ...]
STEPS = 50_000  # over grid axes for one question


class _Edge:
    """Where the block of an operand lies past the end of its array, cell by cell."""

    def __init__(self, kernel: Kernel, block: Block):
        self.block, self.rank = block, len(block.shape)
        self.fact: Fact | None = map_of(kernel, block)
        self.axes = ragged_axes(block)
        self.known = self.fact is not None and self.fact.table is not None

    def starts(self, d: int) -> np.ndarray:
        """The first element of the block along an axis of the array, for every cell of the map's axes."""
        assert self.fact is not None and self.fact.table is not None
        return self.block.axes[d].start(self.fact.table[..., d])

    def past(self, d: int, start: int) -> np.ndarray:
        place = start + np.arange(self.block.sizes[d])
        return (place < 0) | (place >= self.block.array.shape[d])

    def tables(self, axes: Sequence[int], rank: int) -> list[np.ndarray]:
        """For each of some axes a number for every cell, equal where the same part of the block lies past the end."""
        assert self.fact is not None
        out = []
        for d in axes:
            start, size, n = self.starts(d), self.block.sizes[d], self.block.array.shape[d]
            part = np.clip(-start, 0, size) * (size + 1) + np.clip(start + size - n, 0, size)
            out.append(spread(part, self.fact.axes, rank))
        return out

    def start(self, d: int, ids: Ids) -> int:
        assert self.fact is not None and self.fact.table is not None
        return self.block.axes[d].start(int(self.fact.table[tuple(ids[a] for a in self.fact.axes)][d]))

    def level(self, ids: Ids | None, axes: Sequence[int]) -> Level:
        """The level of the block in a cell (None: the worst of all cells), of its ends along some axes."""
        found: list[Level] = []
        for d in axes:
            if not self.known:
                past = np.ones(self.block.sizes[d], np.uint8) * MAYBE
            elif ids is None:
                starts = self.starts(d)
                past = (self.past(d, int(starts.min())) | self.past(d, int(starts.max()))) * np.uint8(RAW)
            else:
                past = self.past(d, self.start(d, ids)) * np.uint8(RAW)
            found.append(tidy(past.reshape([-1 if k == d else 1 for k in self.block.seen]).astype(np.uint8)))
        return most(found, self.rank)

    def element(self, held: np.ndarray, ids: Ids) -> tuple[int, ...] | None:
        """The element of the array that has the worst level of those that lie within it."""
        if self.fact is None or self.fact.table is None:
            return None
        at = iter(np.unravel_index(int(held.argmax()), held.shape))
        index = self.fact.table[tuple(ids[a] for a in self.fact.axes)]
        found = []
        for d in range(self.block.array.ndim):
            start = self.block.axes[d].start(int(index[d]))
            found.append(max(start, 0) + (int(next(at)) if d in self.block.seen else 0))
        return tuple(found)

    def within(self, held: np.ndarray, ids: Ids) -> np.ndarray:
        """The part of a level of the block that lies within the array."""
        for place, d in enumerate(self.block.seen):
            if d in self.axes and self.known and held.shape[place] > 1:
                start, n = self.start(d, ids), self.block.array.shape[d]
                held = held[(slice(None),) * place + (slice(max(-start, 0), max(n - start, 0)),)]
        return held


@dataclass(frozen=True)
class Witness:
    """A cell after which an element of an output holds what is unspecified."""

    cell: Ids
    element: tuple[int, ...] | None


def _worst(held: np.ndarray, edge: _Edge) -> int:
    """The worst level that a block lets out. What a longer output holds past an operand's end may be meant; a block
    that holds nothing else is not."""
    worst = int(held.max())
    if edge.axes and not edge.known:  # it may lie past the output's end
        return min(worst, MAYBE)
    return SPOILED if worst == RAW == held.min() else worst


class Memory:
    """One kernel followed through its cells, with some sources of what is unspecified.

    `ragged`: the inputs, with the axes, whose ends count. `unwritten`: whether what nothing has written does. `asks`:
    masks over what is partly unspecified are worked out. `worst` has the worst level that comes out in each output.
    """

    def __init__(self, kernel: Kernel, ragged: Sequence[tuple[int, int]], unwritten: bool, asks: bool):
        self.kernel, self.unwritten = kernel, unwritten
        _, self.first_in, self.first_out, self.first_scratch, self.end = kernel.splits
        self.ragged: dict[int, list[int]] = {}
        for i, axis in ragged:
            self.ragged.setdefault(i, []).append(axis)
        self.edges = {i: _Edge(kernel, kernel.inputs[i]) for i in self.ragged}
        self.outs = [_Edge(kernel, b) for b in kernel.outputs]
        self.aliased = {o for _, o in kernel.aliases}
        self.moving = [o for o, b in enumerate(kernel.outputs) if b.space not in FAR or b.index_map is not None]
        self.steps = 0
        self.worst = [CLEAN] * len(kernel.outputs)
        self.witnesses: dict[tuple[State, int], Witness] = {}
        self.shown: dict[int, Witness | None] = {}
        self.ids: Ids | None = None
        self.body = Follower(kernel, self.input_level, unwritten, asks, RULES)
        self.states: dict[Any, State] = {}
        self.memo: dict[Any, dict[tuple[int, ...], dict[Ids, State]]] = {}  # by class; by the ids that were asked for

    # ------------------------------------------------------------ what a cell finds

    def input_level(self, position: int) -> Level:
        number = position - self.first_in
        return self.edges[number].level(self.ids, self.ragged[number]) if number in self.edges else None

    def entered(self, o: int) -> Level:
        """What an output block holds when its run of cells begins."""
        block = self.kernel.outputs[o]
        if not self.unwritten:
            return None
        if o in self.aliased:
            return self.outs[o].level(self.ids, self.outs[o].axes)
        return flat(PERHAPS if block.space in FAR else UNWRITTEN, len(block.shape))  # far memory may have been written

    def start(self) -> State:
        """The memory before the first cell."""
        levels: dict[int, Level] = {}
        for o, block in enumerate(self.kernel.outputs):
            bare = o in self.aliased or not self.unwritten
            levels[self.first_out + o] = None if bare else flat(UNWRITTEN, len(block.shape))
        for k, scratch in enumerate(self.kernel.scratch):
            bare = scratch.space is MemorySpace.SEMAPHORE or not self.unwritten
            levels[self.first_scratch + k] = None if bare else flat(UNWRITTEN, len(scratch.shape))
        return self.intern(levels, (), {})

    def intern(self, levels: dict[int, Level], dirty: tuple[int, ...], copies: dict[Any, Any]) -> State:
        state = State(levels, dirty, copies)
        return self.states.setdefault(state.key, state)

    def leaves(self, state: State) -> None:
        """The output blocks of a cell are copied out."""
        for o in range(len(state.dirty)):
            self.lets_out(o, state)

    def lets_out(self, o: int, state: State) -> None:
        """An output block of a cell is copied out."""
        if state.dirty[o] > self.worst[o]:
            self.worst[o] = state.dirty[o]
            self.shown[o] = self.witnesses.get((state, o))

    def cell(self, ids: Ids | None, fresh: tuple[int, ...], state: State) -> State:
        """The memory after a cell; `fresh`: the outputs whose block was another before."""
        self.ids = ids
        levels = dict(state.levels)
        for o in fresh:
            if state.dirty:
                self.lets_out(o, state)
            position, edge = self.first_out + o, self.outs[o]
            sure = ids is None or edge.known or (edge.fact is not None and edge.fact.affine is not None)
            levels[position] = self.entered(o) if sure else joined(levels[position], self.entered(o))
        levels, copies = self.body.cell(ids, levels, state.copies)
        dirty: list[int] = []
        found: dict[int, Witness] = {}
        for o, edge in enumerate(self.outs):
            held = None if edge.block.loose or 0 in edge.block.shape else stored(levels[self.first_out + o])
            if held is not None and ids is not None:  # what lies past the end is dropped
                held = edge.within(held, ids)
            dirty.append(0 if held is None or not held.size else _worst(held, edge))
            if held is not None and dirty[-1] and ids is not None:
                found[o] = Witness(ids, edge.element(held, ids))
        state = self.intern({p: tidy(x) for p, x in levels.items()}, tuple(dirty), copies)
        for o, witness in found.items():
            self.witnesses.setdefault((state, o), witness)
        return state

    # ------------------------------------------------------------ all cells

    def anywhere(self) -> bool:
        """Whether a cell of which nothing is known, not even what it finds, lets out nothing: then none does."""
        try:
            after = self.cell(None, tuple(self.moving), self.start())
        except (TooLong, RecursionError):
            return False
        return not any(after.dirty) and not after.copies

    def run(self) -> None:
        """Follow all cells in grid order; raises `TooLong` where they are too many to be told apart."""
        kernel, rank = self.kernel, len(self.kernel.grid)
        if rank == 0:
            self.leaves(self.cell((), tuple(self.moving), self.start()))
            return
        self.classes = [self.kinds()]
        for axis in range(rank - 1, -1, -1):  # for each number of leading ids, which of them lead to the same cells
            rows = self.classes[0].reshape(-1, self.classes[0].shape[axis])
            _, which = np.unique(rows, axis=0, return_inverse=True)
            self.classes.insert(0, which.reshape(self.classes[0].shape[:axis]))
        final, _ = self.inner((), None, self.start())
        self.leaves(final)
        if final.copies and kernel.outputs:
            self.worst = [max(w, MAYBE) for w in self.worst]

    def tables(self) -> list[np.ndarray]:
        """What tells cells apart: ends of blocks, tests, and where blocks that are not affine change."""
        kernel, rank = self.kernel, len(self.kernel.grid)
        found = [t for i, e in self.edges.items() if e.known for t in e.tables(self.ragged[i], rank)]
        found += [t for e in self.outs if e.known for t in e.tables(e.axes, rank)]
        found += [self.turns(e) for e in self.outs if e.known and e.fact.affine is None]  # type: ignore[union-attr]
        for eqn in (e for e in kernel.body.eqns if e.primitive is cond_p):
            table = predicate(kernel.body, eqn.inputs[0], kernel.grid)
            if table is not None:
                self.body.tables[eqn] = table
                found.append(table)
        return found

    def kinds(self) -> np.ndarray:
        """A number for every cell, equal where they are not told apart, over `runs` of ids: the first of each run."""
        rank, tables = len(self.kernel.grid), self.tables()
        self.runs: list[list[int]] = []
        for axis in range(rank):
            new = np.zeros(1, bool)
            for table in (t for t in tables if t.shape[axis] > 1):
                rows = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)
                new = new | (rows[1:] != rows[:-1]).any(axis=1)
            self.runs.append([0, *(np.flatnonzero(new) + 1).tolist()])
        found = np.zeros((1,) * rank, np.int64)
        for table in tables:
            table = table[np.ix_(*(r if n > 1 else [0] for r, n in zip(self.runs, table.shape, strict=True)))]
            if np.broadcast(found, table).size > MAX_CELLS // 4:
                raise TooLong
            _, which = np.unique(table, return_inverse=True)
            found = found * (int(which.max()) + 1) + which.reshape(table.shape)
            _, which = np.unique(found, return_inverse=True)
            found = which.reshape(found.shape)
        return found

    def turns(self, edge: _Edge) -> np.ndarray:
        """Where a cell's block is another than that of the cell before it."""
        fact: Any = edge.fact
        grid, last = self.kernel.grid, max(fact.axes, default=-1) + 1
        if math.prod(grid[:last]) > MAX_CELLS:
            raise TooLong
        numbers = spread(linear_index(fact.table - fact.table.min(initial=0)), fact.axes, last)
        row = np.broadcast_to(numbers, grid[:last]).reshape(-1)
        found = np.concatenate([[True], row[1:] != row[:-1]])
        return found.reshape((*grid[:last], *[1] * (len(grid) - last)))

    def index(self, o: int, ids: Ids | None) -> Any:
        fact = self.outs[o].fact
        if ids is None or fact is None:
            return None
        if fact.table is not None:
            return fact.table[tuple(ids[a] for a in fact.axes)].tobytes()
        if fact.affine is None:
            return None
        terms = zip(fact.affine.const, fact.affine.coefficients, strict=True)
        return tuple(c + sum(k * ids[a] for a, k in t.items()) for c, t in terms)

    def fresh(self, ids: Ids, last: Ids | None) -> tuple[int, ...]:
        """The outputs whose block in a cell is another than in the cell before."""
        def moves(o: int) -> bool:
            index = self.index(o, ids)
            return last is None or index is None or index != self.index(o, last)

        return tuple(filter(moves, self.moving))

    def class_of(self, prefix: Ids) -> int:
        return int(self.classes[len(prefix)][self.run_of(prefix, len(prefix))])

    def run_of(self, prefix: Ids, depth: int) -> tuple[int, ...]:
        """The runs that some first ids lie in, as an index of the classes at a depth."""
        shape = self.classes[depth].shape
        return tuple(bisect.bisect_right(r, i) - 1 if n > 1 else 0 for r, i, n in
                     zip(self.runs, prefix, shape, strict=False))  # fmt: skip

    def inner(self, prefix: Ids, last: Ids | None, state: State) -> tuple[State, frozenset[int]]:
        """The memory after all cells whose first ids these are, and which of those ids their results depend on."""
        depth, grid = len(prefix), self.kernel.grid
        first = (*prefix, *[0] * (len(grid) - depth))
        fresh = self.fresh(first, last)
        key = (depth, self.class_of(prefix), state, fresh)
        entries = self.memo.setdefault(key, {})
        for axes, known in entries.items():
            found = known.get(tuple(prefix[a] for a in axes))
            if found is not None:
                return found, frozenset(axes)
        if depth == len(grid):
            self.body.asked = set()
            after = self.cell(prefix, fresh, state)
            used = frozenset(self.body.asked)
        else:
            after, used = self.along(prefix, last, state)
        used = frozenset(a for a in used if a < depth)
        axes = tuple(sorted(used))
        entries.setdefault(axes, {})[tuple(prefix[a] for a in axes)] = after
        return after, used

    def along(self, prefix: Ids, last: Ids | None, state: State) -> tuple[State, frozenset[int]]:
        """The memory after the cells along one more axis."""
        axis, grid = len(prefix), self.kernel.grid
        ends = (grid[a] - 1 for a in range(axis + 1, len(grid)))
        rest, zeros = tuple(ends), (0,) * (len(grid) - axis - 1)
        row = self.classes[axis + 1][self.run_of(prefix, axis + 1)]
        stops = [*(self.runs[axis][k + 1] for k in np.flatnonzero(row[1:] != row[:-1])), grid[axis]]
        used: frozenset[int] = frozenset()
        result, i = state, 0
        while i < grid[axis]:
            self.steps += 1
            if self.steps > STEPS:
                raise TooLong
            before, entry = state, self.fresh((*prefix, i, *zeros), last)
            state, asked = self.inner((*prefix, i), last, state)
            used |= asked
            result = either_state(self, result, state) if axis in self.kernel.computed else state
            last = (*prefix, i, *rest)
            i += 1
            stop = stops[bisect.bisect_left(stops, i)]
            if state is before and axis not in asked and i < stop and i > 1:
                if self.fresh((*prefix, i, *zeros), last) == entry:  # nothing changes until the class does
                    i = stop
                    last = (*prefix, i - 1, *rest)
        return result, used


def either_state(memory: Memory, one: State, two: State) -> State:
    """The memory that is one of two."""
    if one is two:
        return one
    if one.copies != two.copies:
        raise TooLong
    levels = {p: joined(one.levels[p], two.levels[p]) for p in one.levels}
    dirty = tuple(map(max, one.dirty or two.dirty, two.dirty or one.dirty))
    return memory.intern(levels, dirty, one.copies)


# ---------------------------------------------------------------------------- the question


@dataclass(frozen=True)
class Leak:
    """What comes out of a source of what is unspecified: the worst level, in which output, stored by which equation.

    `read`: the position of a Ref that is read before anything has written it. `witness`: where it shows first.
    """

    level: int = CLEAN
    output: str = ""
    eqn: Eqn | None = None
    read: int | None = None
    witness: Witness | None = None


UNKNOWN = Leak(MAYBE)


@dataclass(frozen=True)
class Leaks:
    """What comes out of a kernel: of the ragged ends of inputs, by number, and of memory that nothing has written."""

    ragged: dict[int, Leak]
    unwritten: Leak


def _question(kernel: Kernel, ragged: Sequence[tuple[int, int]], unwritten: bool, asks: bool = False) -> Leak:
    memory = Memory(kernel, ragged, unwritten, asks)
    try:
        memory.run()
    except (TooLong, RecursionError):
        return UNKNOWN
    o = max(range(len(memory.worst)), key=memory.worst.__getitem__, default=-1)
    if o < 0 or not memory.worst[o]:
        return Leak()
    if not asks:
        return _question(kernel, ragged, unwritten, True)
    _, eqn = memory.body.culprits.get(memory.first_out + o, (0, None))
    first = memory.body.unwritten
    level = min(memory.worst[o], MAYBE) if kernel.extents else memory.worst[o]
    return Leak(level, kernel.outputs[o].name, eqn or (first and first[1]), first and first[0],
                memory.shown.get(o))  # fmt: skip


def leaks(kernel: Kernel) -> Leaks:
    """What of that which is unspecified comes out of a kernel."""
    ends = {i: ragged_axes(b) for i, b in enumerate(kernel.inputs) if b.fill is None and ragged_axes(b)}
    every = [(i, d) for i, axes in ends.items() for d in axes]
    if every and not _question(kernel, every, True).level:  # one walk answers for all sources
        return Leaks(dict.fromkeys(ends, Leak()), Leak())
    unwritten = Leak() if Memory(kernel, (), True, False).anywhere() else _question(kernel, (), True)
    found = {i: max((_question(kernel, [(i, d)], False) for d in axes), key=lambda leak: leak.level)
             for i, axes in ends.items()}  # fmt: skip
    return Leaks(found, unwritten)
