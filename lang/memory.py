"""Kernels followed cell by cell with the levels of what their memory holds: whether anything unspecified comes out.

Unspecified is what lies past the end of an operand without `fill`; what scratch and output blocks hold that no cell has
written; and what a copy brings that nobody has waited for. A cell depends on its ids only by the values that it asks
for (the test of a `when`, a place, a mask), so cells that agree in these, and in the memory they find, are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.ir import Eqn
from ..core.primitives.cond import cond_p
from ..core.types import MemorySpace
from .affine import MAX_CELLS, Fact, predicate
from .flow import RULES
from .follow import Follower, TooLong
from .kernel import Block, Kernel
from .levels import CLEAN, MAYBE, RAW, Level, flat, most, tidy
from .maps import map_of, spread
from .state import PERHAPS, UNWRITTEN, State, joined, stored

FAR = (MemorySpace.ANY, MemorySpace.HBM)
Ids = tuple[int, ...]
STEPS = 50_000  # over grid axes for one question


def ragged_axes(block: Block) -> list[int]:
    """The axes of an array along which a block may reach past its end."""
    if 0 in block.sizes:
        return []
    shape = zip(block.array.shape, block.sizes, strict=True)
    return [d for d, (n, size) in enumerate(shape)
            if (any(block.padding[d]) if block.element[d] else n % size) and not block.squeezed[d]]  # fmt: skip


class _Edge:
    """Where the block of an operand lies past the end of its array, cell by cell."""

    def __init__(self, kernel: Kernel, block: Block):
        self.block, self.rank = block, len(block.shape)
        self.fact: Fact | None = map_of(kernel, block)
        self.axes = ragged_axes(block)
        self.seen = [d for d in range(block.array.ndim) if not block.squeezed[d]]
        self.known = self.fact is not None and self.fact.table is not None

    def starts(self, d: int) -> np.ndarray:
        """The first element of the block along an axis of the array, for every cell of the map's axes."""
        assert self.fact is not None and self.fact.table is not None
        low = self.block.padding[d][0] if self.block.element[d] else 0
        return self.fact.table[..., d] * self.block.steps[d] - low

    def past(self, d: int, start: int) -> np.ndarray:
        place = start + np.arange(self.block.sizes[d])
        return (place < 0) | (place >= self.block.array.shape[d])

    def kinds(self, rank: int) -> np.ndarray | None:
        """A number for every cell, equal where the same part of the block lies past the end; None: not known."""
        assert self.fact is not None and self.fact.table is not None
        out = np.zeros(self.fact.table.shape[:-1], np.int64)
        for d in self.axes:
            start, size, n = self.starts(d), self.block.sizes[d], self.block.array.shape[d]
            part = np.clip(-start, 0, size) * (size + 1) + np.clip(start + size - n, 0, size)
            out = out * (size + 1) ** 2 + part
        return spread(out, self.fact.axes, rank)

    def level(self, ids: Ids | None) -> Level:
        """The level of the block in a cell (None: the worst of all cells)."""
        found: list[Level] = []
        for d in self.axes:
            if not self.known:
                past = np.ones(self.block.sizes[d], np.uint8) * MAYBE
            elif ids is None:
                past = np.any([self.past(d, int(s)) for s in np.unique(self.starts(d))], axis=0) * np.uint8(RAW)
            else:
                past = self.past(d, int(self.starts(d)[tuple(ids[a] for a in self.fact.axes)])) * np.uint8(RAW)  # type: ignore[union-attr]
            found.append(tidy(past.reshape([-1 if k == d else 1 for k in self.seen]).astype(np.uint8)))
        return most(found, self.rank)


class Memory:
    """One kernel followed through its cells, with some sources of what is unspecified.

    `ragged`: the numbers of the inputs whose ends count. `unwritten`: whether what nothing has written does.
    `worst` has, for each output, the worst level that comes out in it.
    """

    def __init__(self, kernel: Kernel, ragged: Sequence[int], unwritten: bool):
        self.kernel, self.unwritten = kernel, unwritten
        _, self.first_in, self.first_out, self.first_scratch, self.end = kernel.splits
        self.edges = {i: _Edge(kernel, kernel.inputs[i]) for i in ragged}
        self.outs = [_Edge(kernel, b) for b in kernel.outputs]
        self.aliased = {o for _, o in kernel.aliases}
        self.moving = [o for o, b in enumerate(kernel.outputs) if b.space not in FAR or b.index_map is not None]
        self.steps = 0
        self.worst = [CLEAN] * len(kernel.outputs)
        self.ids: Ids | None = None
        self.body = Follower(kernel, self.input_level, unwritten, RULES)
        self.states: dict[Any, State] = {}
        self.memo: dict[Any, list[tuple[tuple[int, ...], dict[Ids, State]]]] = {}

    # ------------------------------------------------------------ what a cell finds

    def input_level(self, position: int) -> Level:
        edge = self.edges.get(position - self.first_in)
        return None if edge is None else edge.level(self.ids)

    def entered(self, o: int) -> Level:
        """What an output block holds when its run of cells begins."""
        block = self.kernel.outputs[o]
        if not self.unwritten:
            return None
        if o in self.aliased:
            return self.outs[o].level(self.ids)
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
        for o, level in enumerate(state.dirty):
            self.worst[o] = max(self.worst[o], level)

    def cell(self, ids: Ids | None, fresh: tuple[int, ...], state: State) -> State:
        """The memory after a cell; `fresh`: the outputs whose block was another before."""
        self.ids = ids
        levels = dict(state.levels)
        for o in fresh:
            if state.dirty:
                self.worst[o] = max(self.worst[o], state.dirty[o])
            position, edge = self.first_out + o, self.outs[o]
            sure = ids is None or edge.known or (edge.fact is not None and edge.fact.affine is not None)
            levels[position] = self.entered(o) if sure else joined(levels[position], self.entered(o))
        levels, copies = self.body.cell(ids, levels, state.copies)
        dirty = []
        for o, edge in enumerate(self.outs):
            held = None if edge.block.loose or 0 in edge.block.shape else stored(levels[self.first_out + o])
            past = None if held is None or not edge.axes or not edge.known else edge.level(ids)
            if held is not None and past is not None and ids is not None:  # what lies past the end is dropped
                held = np.where(past == RAW, np.uint8(CLEAN), held)
            dirty.append(0 if held is None else int(held.max(initial=0)))
        return self.intern({p: tidy(x) for p, x in levels.items()}, tuple(dirty), copies)

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

    def kinds(self) -> np.ndarray:
        """A number for every cell: equal where tests, ends and indices of blocks that are not affine are."""
        kernel, rank = self.kernel, len(self.kernel.grid)
        tables: list[np.ndarray] = []
        for edge in (*self.edges.values(), *(e for e in self.outs if e.axes)):
            if edge.known:
                tables.append(edge.kinds(rank))  # type: ignore[arg-type]
        for edge in self.outs:
            if edge.known and edge.fact.affine is None:  # type: ignore[union-attr]
                tables += [spread(edge.fact.table[..., d], edge.fact.axes, rank) for d in range(edge.block.array.ndim)]  # type: ignore[union-attr, index]
        for eqn in (e for e in kernel.body.eqns if e.primitive is cond_p):
            table = predicate(kernel.body, eqn.inputs[0], kernel.grid)
            if table is not None:
                self.body.tables[eqn] = table
                tables.append(table)
        found = np.zeros((1,) * rank, np.int64)
        for table in tables:
            if np.broadcast(found, table).size > MAX_CELLS // 4:
                raise TooLong
            _, which = np.unique(table, return_inverse=True)
            found = found * (int(which.max()) + 1) + which.reshape(table.shape)
            _, which = np.unique(found, return_inverse=True)
            found = which.reshape(found.shape)
        return found

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
        out = []
        for o in self.moving:
            index = self.index(o, ids)
            if last is None or index is None or index != self.index(o, last):
                out.append(o)
        return tuple(out)

    def class_of(self, prefix: Ids) -> int:
        table = self.classes[len(prefix)]
        return int(table[tuple(i if n > 1 else 0 for i, n in zip(prefix, table.shape, strict=True))])

    def inner(self, prefix: Ids, last: Ids | None, state: State) -> tuple[State, frozenset[int]]:
        """The memory after all cells whose first ids these are, and which of those ids their results depend on."""
        depth, grid = len(prefix), self.kernel.grid
        first = (*prefix, *[0] * (len(grid) - depth))
        fresh = self.fresh(first, last)
        key = (depth, self.class_of(prefix), state, fresh)
        entries = self.memo.setdefault(key, [])
        for axes, known in entries:
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
        place = tuple(prefix[a] for a in axes)
        for have, known in entries:
            if have == axes:
                known[place] = after
                break
        else:
            entries.append((axes, {place: after}))
        return after, used

    def along(self, prefix: Ids, last: Ids | None, state: State) -> tuple[State, frozenset[int]]:
        """The memory after the cells along one more axis."""
        axis, grid = len(prefix), self.kernel.grid
        ends = (grid[a] - 1 for a in range(axis + 1, len(grid)))
        rest, zeros = tuple(ends), (0,) * (len(grid) - axis - 1)
        table = self.classes[axis + 1]
        row = table[tuple(i if n > 1 else 0 for i, n in zip(prefix, table.shape, strict=False))]
        stops = [*(np.flatnonzero(row[1:] != row[:-1]) + 1).tolist(), grid[axis]] if row.size > 1 else [grid[axis]]
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
            stop = next(s for s in stops if s >= i)
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

    `read`: the position of a Ref that is read before anything has written it.
    """

    level: int = CLEAN
    output: str = ""
    eqn: Eqn | None = None
    read: int | None = None


UNKNOWN = Leak(MAYBE)


@dataclass(frozen=True)
class Leaks:
    """What comes out of a kernel: of the ragged ends of inputs, by number, and of memory that nothing has written."""

    ragged: dict[int, Leak]
    unwritten: Leak


def _question(kernel: Kernel, ragged: Sequence[int], unwritten: bool) -> Leak:
    memory = Memory(kernel, ragged, unwritten)
    try:
        memory.run()
    except (TooLong, RecursionError):
        return UNKNOWN
    o = max(range(len(memory.worst)), key=memory.worst.__getitem__, default=-1)
    if o < 0 or not memory.worst[o]:
        return Leak()
    _, eqn = memory.body.culprits.get(memory.first_out + o, (0, None))
    first = memory.body.unwritten
    level = min(memory.worst[o], MAYBE) if kernel.extents else memory.worst[o]
    return Leak(level, kernel.outputs[o].name, eqn or (first and first[1]), first and first[0])


def leaks(kernel: Kernel) -> Leaks:
    """What of that which is unspecified comes out of a kernel."""
    ragged = [i for i, b in enumerate(kernel.inputs) if b.fill is None and ragged_axes(b)]
    if Memory(kernel, ragged, True).anywhere() or ragged and not _question(kernel, ragged, True).level:
        return Leaks(dict.fromkeys(ragged, Leak()), Leak())
    return Leaks({i: _question(kernel, [i], False) for i in ragged}, _question(kernel, [], True))
