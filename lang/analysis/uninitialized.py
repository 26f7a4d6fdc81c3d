"""Uninitialised-memory analysis: whether poison reaches an output, by interpreting the cells in grid order.

Poison is the ragged tail of an operand without `fill`, memory that no cell has written, and the destination of a
copy that nobody has waited for. A cell depends on its ids only through the values that the interpreter reads (tests of
`when`, indices, masks), so cells that agree in these, and in the memory they find, are interpreted once.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.program import Eqn, Var
from ...core.ir.types import FAR, MemorySpace
from ...core.primitives.control_flow.cond import cond_p
from ..kernel.kernel import Block, Kernel, ragged_axes
from .affine import MAX_CELLS, Fact, dependencies, predicate
from .index_maps import linear_index, map_of, spread
from .poison_interp import Interpreter, OverBudget
from .poison_lattice import (
    CLEAN,
    MAYBE,
    MAYBE_UNWRITTEN,
    POISON,
    TAINTED,
    UNWRITTEN,
    Level,
    State,
    canonical,
    escaping,
    join_memory,
    uniform,
    worst_of,
)
from .ragged_tails import tails_contained

Ids = tuple[int, ...]
STEPS = 50_000  # over grid axes for one kernel


class _RaggedBlock:
    """Where the block of an operand ends past its array, cell by cell."""

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
        """For each of some axes a number per cell, equal where the same part of the block is out of bounds."""
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
                past = (self.past(d, int(starts.min())) | self.past(d, int(starts.max()))) * np.uint8(POISON)
            else:
                past = self.past(d, self.start(d, ids)) * np.uint8(POISON)
            found.append(canonical(past.reshape([-1 if k == d else 1 for k in self.block.seen]).astype(np.uint8)))
        return worst_of(found, self.rank)

    def element(self, content: np.ndarray, ids: Ids) -> tuple[int, ...] | None:
        """The in-bounds element with the worst level."""
        if self.fact is None or self.fact.table is None:
            return None
        at = iter(np.unravel_index(int(content.argmax()), content.shape))
        index = self.fact.table[tuple(ids[a] for a in self.fact.axes)]
        found = []
        for d in range(self.block.array.ndim):
            start = self.block.axes[d].start(int(index[d]))
            found.append(max(start, 0) + (int(next(at)) if d in self.block.seen else 0))
        return tuple(found)

    def within(self, content: np.ndarray, ids: Ids) -> np.ndarray:
        """The in-bounds part of a block's level."""
        for place, d in enumerate(self.block.seen):
            if d in self.axes and self.known and content.shape[place] > 1:
                start, n = self.start(d, ids), self.block.array.shape[d]
                content = content[(slice(None),) * place + (slice(max(-start, 0), max(n - start, 0)),)]
        return content


@dataclass(frozen=True)
class Witness:
    """A cell after which an element of an output is poison."""

    cell: Ids
    element: tuple[int, ...] | None


def _escaping_level(content: np.ndarray, edge: _RaggedBlock) -> int:
    """The worst level of a block that is copied out. Poison in place may be meant, where the output is longer than an
    operand, but not in a block of nothing else."""
    worst = int(content.max())
    if edge.axes and not edge.known:  # it may be past the output's end
        return min(worst, MAYBE)
    return TAINTED if worst == POISON == content.min() else worst


def _numbered(keys: Iterable[Any]) -> np.ndarray:
    """Keys as numbers from 0, equal where the keys are (`numpy.unique` takes 20 us for a few)."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


class GridInterpreter:
    """Interprets the cells of a kernel in grid order, with some sources of poison.

    `ragged`: the inputs, with the axes, whose tails are poison. `unwritten`: whether uninitialised memory is.
    `precise`: masks over partly poisoned values are computed. `worst` has the worst level that reaches each output.
    """

    kernel: Kernel
    tracks_unwritten: bool
    first_in: int
    first_out: int
    first_scratch: int
    end: int
    moving: list[int]
    steps: int

    def __init__(self, kernel: Kernel, ragged: Sequence[tuple[int, int]], unwritten: bool, precise: bool):
        self.kernel, self.tracks_unwritten = kernel, unwritten
        _, self.first_in, self.first_out, self.first_scratch, self.end = kernel.splits
        self.ragged: dict[int, list[int]] = {}
        for i, axis in ragged:
            self.ragged.setdefault(i, []).append(axis)
        self.edges: dict[int, _RaggedBlock] = {i: _RaggedBlock(kernel, kernel.inputs[i]) for i in self.ragged}
        self.outs: list[_RaggedBlock] = [_RaggedBlock(kernel, b) for b in kernel.outputs]
        self.aliased: set[int] = {o for _, o in kernel.aliases}
        self.moving = [o for o, b in enumerate(kernel.outputs) if b.space not in FAR or b.index_map is not None]
        self.steps = 0
        self.worst = [CLEAN] * len(kernel.outputs)
        self.witnesses: dict[tuple[State, int], Witness] = {}
        self.shown: dict[int, Witness | None] = {}
        self.ids: Ids | None = None
        self.body: Interpreter = Interpreter(kernel, self.input_level, unwritten, precise)
        self.states: dict[Any, State] = {}
        self.memo: dict[Any, dict[tuple[int, ...], dict[Ids, State]]] = {}  # by class; by the ids that were asked for

    # ------------------------------------------------------------ what a cell finds

    def input_level(self, position: int) -> Level:
        number = position - self.first_in
        return self.edges[number].level(self.ids, self.ragged[number]) if number in self.edges else None

    def entered(self, o: int) -> Level:
        """The level of an output block when its run of cells begins."""
        block = self.kernel.outputs[o]
        if not self.tracks_unwritten:
            return None
        if o in self.aliased:
            return self.outs[o].level(self.ids, self.outs[o].axes)
        # Unblocked memory may have been written by other cells.
        return uniform(MAYBE_UNWRITTEN if block.space in FAR else UNWRITTEN, len(block.shape))

    def start(self) -> State:
        """The memory before the first cell."""
        levels: dict[int, Level] = {}
        for o, block in enumerate(self.kernel.outputs):
            bare = o in self.aliased or not self.tracks_unwritten
            levels[self.first_out + o] = None if bare else uniform(UNWRITTEN, len(block.shape))
        for k, scratch in enumerate(self.kernel.scratch):
            bare = scratch.space is MemorySpace.SEMAPHORE or not self.tracks_unwritten
            levels[self.first_scratch + k] = None if bare else uniform(UNWRITTEN, len(scratch.shape))
        return self.intern(levels, (), {})

    def intern(self, levels: dict[int, Level], escapes: tuple[int, ...], copies: dict[Any, Any]) -> State:
        state = State(levels, escapes, copies)
        return self.states.setdefault(state.key, state)

    def leaves(self, state: State) -> None:
        """The output blocks of a cell are copied out."""
        for o in range(len(state.escapes)):
            self.lets_out(o, state)

    def lets_out(self, o: int, state: State) -> None:
        """An output block of a cell is copied out."""
        if state.escapes[o] > self.worst[o]:
            self.worst[o] = state.escapes[o]
            self.shown[o] = self.witnesses.get((state, o))

    def cell(self, ids: Ids | None, fresh: tuple[int, ...], state: State) -> State:
        """The memory after a cell; `fresh`: the outputs whose block was another before."""
        self.ids = ids
        levels = dict(state.levels)
        for o in fresh:
            if state.escapes:
                self.lets_out(o, state)
            position, edge = self.first_out + o, self.outs[o]
            sure = ids is None or edge.known or (edge.fact is not None and edge.fact.affine is not None)
            levels[position] = self.entered(o) if sure else join_memory(levels[position], self.entered(o))
        levels, copies = self.body.cell(ids, levels, state.copies)
        escapes: list[int] = []
        found: dict[int, Witness] = {}
        for o, edge in enumerate(self.outs):
            content = None if edge.block.loose or 0 in edge.block.shape else escaping(levels[self.first_out + o])
            if content is not None and ids is not None:  # stores past the end are dropped
                content = edge.within(content, ids)
            escapes.append(0 if content is None or not content.size else _escaping_level(content, edge))
            if content is not None and escapes[-1] and ids is not None:
                found[o] = Witness(ids, edge.element(content, ids))
        state = self.intern({p: canonical(x) for p, x in levels.items()}, tuple(escapes), copies)
        for o, witness in found.items():
            self.witnesses.setdefault((state, o), witness)
        return state

    # ------------------------------------------------------------ all cells

    def clean_in_any_cell(self) -> bool:
        """Whether a cell that stands for all of them lets no poison out."""
        try:
            after = self.cell(None, tuple(self.moving), self.start())
        except (OverBudget, RecursionError):
            return False
        return not any(after.escapes) and not after.copies

    def run(self) -> None:
        """Interpret all cells in grid order; raises `OverBudget` where too many of them differ."""
        kernel, rank = self.kernel, len(self.kernel.grid)
        if rank == 0:
            self.leaves(self.cell((), tuple(self.moving), self.start()))
            return
        self.classes: list[np.ndarray] = [self.cell_classes()]
        for axis in range(rank - 1, -1, -1):  # for each number of leading ids, which of them lead to the same cells
            rows = self.classes[0].reshape(-1, self.classes[0].shape[axis])
            self.classes.insert(0, _numbered(map(np.ndarray.tobytes, rows)).reshape(self.classes[0].shape[:axis]))
        final, _ = self.inner((), None, self.start())
        self.leaves(final)
        if final.copies and kernel.outputs:
            self.worst: list[int] = [max(w, MAYBE) for w in self.worst]

    def tables(self) -> list[np.ndarray]:
        """What distinguishes cells: ends of blocks, tests, and where blocks that are not affine change."""
        kernel, rank = self.kernel, len(self.kernel.grid)
        found = [t for i, e in self.edges.items() if e.known for t in e.tables(self.ragged[i], rank)]
        found += [t for e in self.outs if e.known for t in e.tables(e.axes, rank)]
        found += [self.block_changes(e) for e in self.outs if e.known and e.fact.affine is None]  # type: ignore[union-attr]
        for eqn in (e for e in kernel.body.eqns if e.primitive is cond_p):
            table = predicate(kernel.body, eqn.inputs[0], kernel.grid)
            if table is not None:
                self.body.tables[eqn] = table
                found.append(table)
        return found

    def cell_classes(self) -> np.ndarray:
        """The class of every cell, over `runs` of ids: the first of each run."""
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
                raise OverBudget
            part = _numbered(table.reshape(-1).tolist()).reshape(table.shape)
            found = found * (int(part.max()) + 1) + part
            found = _numbered(found.reshape(-1).tolist()).reshape(found.shape)
        return found

    def block_changes(self, edge: _RaggedBlock) -> np.ndarray:
        """Where a cell's block is another than that of the cell before it."""
        fact: Any = edge.fact
        grid, last = self.kernel.grid, max(fact.axes, default=-1) + 1
        if math.prod(grid[:last]) > MAX_CELLS:
            raise OverBudget
        numbers = spread(linear_index(fact.table - fact.table.min(initial=0)), fact.axes, last)
        row = np.broadcast_to(numbers, grid[:last]).reshape(-1)
        found = np.concatenate([[True], row[1:] != row[:-1]])
        return found.reshape((*grid[:last], *[1] * (len(grid) - last)))

    def map_axes(self, o: int) -> tuple[int, ...] | None:
        """The grid axes that an index map which reads tables depends on; None where the body may change the tables."""
        ids, tables, *_ = self.kernel.splits
        index_map = self.outs[o].block.index_map
        changed = any(e.kind != "read" and e.operand in range(ids, tables) for e in self.kernel.body.effects)
        if index_map is None or changed:
            return None
        found = dependencies(index_map, ids)
        return tuple(sorted({a for x in index_map.outputs if type(x) is Var for a in found[x] if a != "data"}))

    def index(self, o: int, ids: Ids | None) -> Any:
        fact = self.outs[o].fact
        if ids is None:
            return None
        if fact is None:
            axes = self.map_axes(o)
            return None if axes is None else tuple(ids[a] for a in axes)
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
        """The runs of some first ids, as an index of the classes at a depth."""
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
            self.body.ids_read = set()
            after = self.cell(prefix, fresh, state)
            used = frozenset(self.body.ids_read)
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
                raise OverBudget
            before, entry = state, self.fresh((*prefix, i, *zeros), last)
            state, asked = self.inner((*prefix, i), last, state)
            used |= asked
            result = join_states(self, result, state) if axis in self.kernel.computed else state
            last = (*prefix, i, *rest)
            i += 1
            stop = stops[bisect.bisect_left(stops, i)]
            if state is before and axis not in asked and i < stop and i > 1:
                if self.fresh((*prefix, i, *zeros), last) == entry:  # nothing changes until the class does
                    i = stop
                    last = (*prefix, i - 1, *rest)
        return result, used


def join_states(grid: GridInterpreter, one: State, two: State) -> State:
    """The memory that is one of two."""
    if one is two:
        return one
    if one.copies != two.copies:
        raise OverBudget
    levels = {p: join_memory(one.levels[p], two.levels[p]) for p in one.levels}
    escapes = tuple(map(max, one.escapes or two.escapes, two.escapes or one.escapes))
    return grid.intern(levels, escapes, one.copies)


# ---------------------------------------------------------------------------- verdict


@dataclass(frozen=True)
class Leak:
    """How poison leaks: the worst level, the output that it reaches, the equation that stores it.

    `read`: the position of a Ref that is read uninitialised. `witness`: where the leak shows first.
    """

    level: int = CLEAN
    output: str = ""
    eqn: Eqn | None = None
    read: int | None = None
    witness: Witness | None = None


UNKNOWN = Leak(MAYBE)


@dataclass(frozen=True)
class Leaks:
    """The leaks of a kernel: from the ragged tails of inputs, by number, and from uninitialised memory."""

    ragged: dict[int, Leak]
    unwritten: Leak


def _walk(kernel: Kernel, ragged: Sequence[tuple[int, int]], unwritten: bool, precise: bool = False) -> Leak:
    grid = GridInterpreter(kernel, ragged, unwritten, precise)
    try:
        grid.run()
    except (OverBudget, RecursionError):
        return UNKNOWN
    o = max(range(len(grid.worst)), key=grid.worst.__getitem__, default=-1)
    if o < 0 or not grid.worst[o]:
        return Leak()
    if not precise:
        return _walk(kernel, ragged, unwritten, True)
    _, eqn = grid.body.worst_stores.get(grid.first_out + o, (0, None))
    first = grid.body.unwritten_read
    level = min(grid.worst[o], MAYBE) if kernel.extents else grid.worst[o]
    return Leak(level, kernel.outputs[o].name, eqn or (first and first[1]), first and first[0],
                grid.shown.get(o))  # fmt: skip


def leaks(kernel: Kernel) -> Leaks:
    """The leaks of a kernel."""
    ends = {i: ragged_axes(b) for i, b in enumerate(kernel.inputs) if b.fill is None and ragged_axes(b)}
    every = [(i, d) for i, axes in ends.items() for d in axes]
    # Without a walk, else by one walk for all sources at once.
    if tails_contained(kernel, ends) or (every and not _walk(kernel, every, True).level):
        return Leaks(dict.fromkeys(ends, Leak()), Leak())
    unwritten = Leak() if GridInterpreter(kernel, (), True, False).clean_in_any_cell() else _walk(kernel, (), True)
    found = {i: max((_walk(kernel, [(i, d)], False) for d in axes), key=lambda leak: leak.level)
             for i, axes in ends.items()}  # fmt: skip
    return Leaks(found, unwritten)
