"""Tiles of a loop nest on a target: the sizes that loops may have, and the largest that a cell can hold.

One choice for all nests: of groups (`tile_nest`, with the exact bytes that the kernel moves) and of special loop nests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...core.ir.program import Eqn
from ...core.support.errors import ArgumentError
from ...lang.ops.basic import cdiv
from ...lang.targets.target import Target
from .accumulators import accumulator
from .group import Axes, Group, nbytes
from .loops import Loops, Tiles
from .nest import Nest

Choose = Callable[[Loops], Tiles | None]  # tiles asked for, or None for the target's
Refuse = Callable[[Sequence[int], int], str | None]  # why a cell cannot hold its blocks at some tiles in some bytes
RUN = -1  # in a grid, the runs that the steps of the shared loop are divided over
LIVE = 2  # how many of the values between operands and results a cell is taken to hold at once
OUTER = 8  # outer loops are cut while blocks fill more than this part, so that the next ones come in meanwhile
RESIDENT = 4  # the programs without sums that share the registers of a GPU's processor
WIDE = 0.8  # of the time of two square blocks, which shared memory bounds, one of twice the columns takes
SHORT = 8  # steps of a loop that a kernel writes out one by one


# ---------------------------------------------------------------------------- sizes


def options(loops: Loops, target: Target, regular: bool = True) -> list[Sequence[int]]:
    """The candidate tile sizes of each loop, smallest first.

    A vector unit's lanes and sublanes follow the two innermost tiled loops; untiled rows are its
    lanes. Loops outside of those may take any power of two, in a `regular` nest; where there is a product, one step.
    """
    found: list[Sequence[int]] = []
    cut, rows = 0, False  # the loops within that are cut, and whether any is whole
    for i in reversed(range(len(loops.sizes))):
        n, place, whole = loops.sizes[i], cut + rows, i in loops.whole
        cut, rows = cut + (not whole), rows or whole
        if whole:
            found.append((max(n, 1),))
        elif i in loops.single or (loops.matrix and i not in loops.matrix):
            found.append((1,))
        elif i in loops.short:
            few = 1 if target.gpu and n > SHORT else min(n, SHORT)  # some of many would spill a GPU's registers
            found.append((1, few) if few > 1 else (1,))
        elif i in loops.matrix:
            found.append(_matrix_sizes(target, n, min(loops.matrix.index(i), 2)))
        elif place > 1 or (place == 1 and target.gpu and regular):
            found.append(_powers(n) if regular else (1,))
        else:
            found.append(_vector_sizes(target, n, target.sublanes if place else target.lanes))
    return found[::-1]


def _powers(n: int) -> Sequence[int]:
    return tuple(2**k for k in range(max(n, 1).bit_length()) if 2**k <= max(n, 1))


def _vector_sizes(target: Target, n: int, unit: int) -> Sequence[int]:
    return tuple(unit * 2**f for f in range(6) if unit * 2**f <= n) or (_least(target, n),)


def _matrix_sizes(target: Target, n: int, side: int) -> Sequence[int]:
    steps = (1, 2, 4) if target.kind == "tpu" else (0.5, 1, 2, 4)
    base = target.matrix[side]
    return tuple(int(base * f) for f in steps if base * f <= n) or (_least(target, n),)


def _least(target: Target, n: int) -> int:
    """The size of a loop that is shorter than a unit: Triton's blocks are powers of two."""
    n = max(n, 1)
    return n if target.kind == "tpu" else 1 << (n - 1).bit_length()


# ---------------------------------------------------------------------------- the choice


def grown(loops: Loops, sizes: Sequence[Sequence[int]], target: Target, refuse: Refuse, runs: int = 1) -> Tiles:
    """The largest of the `sizes` that fit; on a GPU, with cells for half of the processors.

    `runs`: how many cells share the steps of each sum.
    """
    parallel = [i for i in range(len(sizes)) if i not in loops.carry and i not in loops.whole]
    outer = [i for i in parallel[:-2] if not (target.gpu and i in loops.matrix)]
    tile = [s[0] for s in sizes]

    def cells(tile: Sequence[int]) -> int:
        return math.prod(cdiv(loops.sizes[i], tile[i]) for i in parallel)

    busy = min(target.units, runs * cells(tile)) if target.gpu else 0
    closed = set[int]()
    for i, size in _steps(loops, sizes):
        if size <= tile[i] or i in closed:
            continue
        trial = [*tile[:i], size, *tile[i + 1 :]]
        few = busy and i in parallel and 2 * runs * cells(trial) < busy
        if few or refuse(trial, target.block_bytes // OUTER if i in outer else target.block_bytes):
            closed.add(i)
        else:
            tile = trial
    return tuple(tile)


def widened(loops: Loops, tiles: Tiles, blocks: Blocks) -> Tiles:
    """A product of 16-bit operands in blocks of more columns, where those that remain fill a GPU as well."""
    target = blocks.target
    plain = {n for n, _ in blocks.fast} == {2} and sum(blocks.fast.values()) == 4 and len(blocks.sums) == 1
    if not target.wide_columns or len(loops.matrix) < 3 or not plain:
        return tiles
    rows, columns = loops.matrix[:2]
    trial = (*tiles[:columns], target.wide_columns, *tiles[columns + 1 :])
    square = tiles[rows] == tiles[columns] == trial[columns] // 2
    if not square or blocks.fast_bytes(trial) > target.block_bytes:
        return tiles

    def waves(tile: Sequence[int]) -> int:
        parallel = [i for i in range(len(tile)) if i not in loops.carry]
        return cdiv(math.prod(cdiv(loops.sizes[i], tile[i]) for i in parallel), target.units)

    return trial if WIDE * 2 * waves(trial) < waves(tiles) and waves(trial) > 1 else tiles


def _steps(loops: Loops, sizes: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The order in which loops grow: a product's sides alternately, its depth, then from the innermost outwards."""
    sides = loops.matrix[:2]  # rows and columns of a product: the squarer its block, the fewer bytes come in
    rounds = max((len(sizes[i]) for i in sides), default=0)
    found = [(i, sizes[i][r]) for r in range(1, rounds) for i in sides if r < len(sizes[i])]
    rest = (*loops.matrix[2:], *(i for i in reversed(range(len(sizes))) if i not in loops.matrix))
    return found + [(i, n) for i in rest for n in sizes[i][1:]]


def candidates(loops: Loops, target: Target, refuse: Refuse, regular: bool) -> list[Tiles]:
    """Candidate tiles: the largest that fit, then each loop alone at each of its other sizes."""
    sizes = options(loops, target, regular)
    first = grown(loops, sizes, target, refuse)
    found = [first]
    for i in (*loops.matrix, *reversed(range(len(sizes)))):
        for size in sizes[i]:
            tiles = (*first[:i], size, *first[i + 1 :])
            if tiles not in found and refuse(tiles, target.block_bytes) is None:
                found.append(tiles)
    return found


def check(name: str, tiles: Tiles, loops: Loops) -> None:
    """Raises ArgumentError for tiles that are not those of a nest."""
    more = len(tiles) - len(loops.sizes)
    if more not in (0, loops.shared is not None) or any(t < 1 for t in tiles):
        remedy = "give one positive size for each"
        raise ArgumentError(f"{name}: tiles {tuple(tiles)} for loops of {loops.sizes}",
                            remedy if loops.shared is None else f"{remedy}, and no more than the runs")  # fmt: skip
    for i in loops.whole:
        if tiles[i] < loops.sizes[i]:
            raise ArgumentError(
                f"{name}: loop {i} of {loops.sizes} is cut by the tile {tiles[i]}",
                "use the full size as the tile of this loop")  # fmt: skip
    if any(tiles[i] != 1 for i in loops.single) and loops.cut(tiles).cells > 1:
        raise ArgumentError(
            f"{name}: tiles {tiles} for loops of {loops.sizes}",
            f"loops {loops.single} go step by step: their tiles are 1")  # fmt: skip


def runs_at(loops: Loops, tiles: Tiles) -> int:
    """Into how many runs tiles with one number more divide the shared loop, none of them without a step."""
    if len(tiles) == len(loops.sizes) or loops.shared is None:
        return 1
    count = cdiv(loops.sizes[loops.shared], tiles[loops.shared])
    return cdiv(count, cdiv(count, tiles[-1]))


# ---------------------------------------------------------------------------- what a group's cell holds


Entry = tuple[int, tuple[int, ...]]  # bytes of an element, the places of the loops that a block follows


def _size(entry: Entry, tile: Sequence[int]) -> int:
    n = entry[0]
    for i in entry[1]:
        n *= tile[i]
    return n


@dataclass(frozen=True, slots=True)
class Blocks:
    """The fast memory of a group's cell: blocks, each with its number of buffers, sums, and intermediate values.

    On a GPU the operands of a product are in shared memory; all others are `loaded` to registers. Of
    `between` those are left out whose blocks are never the largest.
    """

    target: Target
    fast: Mapping[Entry, int]
    sums: Sequence[Entry]
    loaded: Sequence[Entry]
    between: Sequence[Entry]
    at_once: int  # how many intermediate values are live at once

    def fast_bytes(self, tile: Sequence[int]) -> int:
        """The bytes of fast memory: blocks are double-buffered; a GPU's registers are counted separately."""
        total = 0
        for (n, places), times in self.fast.items():
            for i in places:
                n *= tile[i]
            total += n * times
        return total if self.target.gpu else total + self.live(tile)

    def live(self, tile: Sequence[int]) -> int:
        """The bytes of the values that a cell computes with at once."""
        most = 0
        for n, places in self.between:
            for i in places:
                n *= tile[i]
            if n > most:
                most = n
        return self.at_once * most

    def refuse(self, tile: Sequence[int], room: int) -> str | None:
        """Why a cell cannot hold its blocks in `room` bytes, if so."""
        target = self.target
        if (held := self.fast_bytes(tile)) > room:
            return f"a cell would hold {held:,} bytes of the {room:,} that blocks have on {target.name}"
        if not target.gpu:
            return None
        sums, loaded = (sum(_size(e, tile) for e in es) for es in (self.sums, self.loaded))
        few = target.register_bytes // (1 if self.sums else RESIDENT)
        live = max(sums + self.live(tile), loaded * (RESIDENT if self.sums else 1))
        if 4 * sums > few or live > few:
            return f"a cell would compute with {live:,} bytes of the {few:,} in its registers on {target.name}"
        return None


def blocks_of(group: Group, nest: Nest, eqns: Sequence[Eqn], target: Target) -> Blocks:
    """The blocks of a group whose loops are in the order of a nest."""
    axes, gpu, place = group.axes, target.gpu, {x: i for i, x in enumerate(nest.order)}
    known = {own: tuple([place[x] for x in own if x is not None]) for own in group.weight}
    carried = [i for i, loops in group.sums.items() if loops & nest.carry]
    totals = [v for i in carried for v in eqns[i].outputs]
    sums = [(accumulator(v.type.dtype).itemsize, known[axes[v]]) for v in totals]
    reads = [(v.type.dtype.itemsize, known[axes[v]]) for v in group.inputs]
    between = {(v.type.dtype.itemsize, known[axes[v]]) for v in axes.keys() - {*group.inputs, *totals}}
    fast: dict[Entry, int] = {}
    if gpu and not nest.matrix:
        return Blocks(target, fast, sums, reads, _largest(between), min(len(between), LIVE))
    if gpu:  # operands that come in at every step of a sum
        carry = {place[x] for x in nest.carry}
        staged = [e for e in reads if not carry.isdisjoint(e[1])] if carry else reads
    else:
        staged = reads + [(v.type.dtype.itemsize, known[axes[v]]) for v in nest.outputs]
        for v, e in zip(totals, sums, strict=True):
            if v not in nest.outputs or e[0] != v.type.dtype.itemsize:  # else it is kept in the result's own block
                fast[e] = fast.get(e, 0) + 1
    for e in staged:
        fast[e] = fast.get(e, 0) + 2
    return Blocks(target, fast, sums, (), _largest(between), min(len(between), LIVE))


def _largest(entries: Iterable[Entry]) -> list[Entry]:
    """Entries without those that are along some of the loops of another whose elements are as wide."""
    kept: list[tuple[Entry, set[int]]] = []
    for entry in sorted(entries, key=lambda e: (-len(e[1]), -e[0])):
        loops = set(entry[1])
        if not any(entry[0] <= e[0] and loops <= known for e, known in kept):
            kept.append((entry, loops))
    return [e for e, _ in kept]


# ---------------------------------------------------------------------------- a group's nest with tiles


@dataclass(frozen=True, slots=True)
class Tiling:
    """A loop nest with tiles. `grid` lists the loops that are cut, in order; `refused` says why there are no tiles."""

    nest: Nest
    sizes: Mapping[int, int]
    tile: Mapping[int, int]
    grid: tuple[int, ...]
    carry: frozenset[int]  # the loops that carry and are cut
    bytes: int
    refused: str | None = None
    runs: int = 1  # that the steps of the shared loop are divided over
    shared: int | None = None

    def block(self, axes: Axes) -> tuple[int, ...]:
        return tuple(1 if x is None else self.tile[x] for x in axes)

    def count(self, loop: int) -> int:
        return -(-self.sizes[loop] // self.tile[loop])

    def cells(self, loop: int) -> int:
        """Cells along a loop of the grid: of the shared one, those of a run."""
        if loop == RUN:
            return self.runs
        return cdiv(self.count(loop), self.runs) if loop == self.shared else self.count(loop)

    @property
    def uneven(self) -> bool:
        """Whether the last run has cells with nothing to do."""
        return self.shared is not None and self.cells(self.shared) * self.runs > self.count(self.shared)

    def ragged(self, loop: int) -> bool:
        return self.sizes[loop] % self.tile[loop] != 0

    @property
    def parallel_cells(self) -> int:
        return math.prod(self.count(x) for x in self.grid if x not in self.carry)

    @property
    def loops(self) -> Loops:
        return loops_of(self.nest, self.sizes)

    @property
    def tiles(self) -> Tiles:
        return tuple(self.tile[x] for x in self.nest.order)


def loops_of(nest: Nest, sizes: Mapping[int, int] | Sequence[int]) -> Loops:
    order, carry, whole = nest.order, nest.carry, nest.whole
    return Loops(
        tuple([sizes[x] for x in order]), tuple([i for i, x in enumerate(order) if x in carry]) if carry else (),
        tuple([i for i, x in enumerate(order) if x in whole]) if whole else (), tuple([*map(order.index, nest.matrix)]),
    )  # fmt: skip


def tile_nest(group: Group, nest: Nest, eqns: Sequence[Eqn], sizes: Sequence[int], target: Target,
              choose: Choose | None = None, runs: int = 1, parts: int = 1) -> Tiling:  # fmt: skip
    """The tiles of a group: those asked for, or the largest that fit the target, inner loops grown first.

    `runs`: how many cells share the steps of each sum. `parts`: how many devices may share the cells of a loop.
    """
    loops = loops_of(nest, sizes)
    asked = None if choose is None else choose(loops)
    if asked is None and target.whole_arrays:
        return measured(group, nest, sizes, loops.sizes)
    blocks = blocks_of(group, nest, eqns, target)
    if asked is not None:
        check("fused kernel", asked, loops)
        return measured(group, nest, sizes, asked, blocks.refuse(asked, target.fast_bytes))
    choices = options(loops, target)
    if parts > 1:
        choices = [[t for t in c if cdiv(n, t) >= parts] or c[:1] for c, n in zip(choices, loops.sizes, strict=True)]
    least = [c[0] for c in choices]
    if why := blocks.refuse(least, target.block_bytes):
        return measured(group, nest, sizes, least, why)
    return measured(group, nest, sizes, widened(loops, grown(loops, choices, target, blocks.refuse, runs), blocks))


def rough_tiling(group: Group, nest: Nest, eqns: Sequence[Eqn], sizes: Sequence[int], target: Target) -> Tiling:
    """The least tiles of a group, and its bytes with no operand read twice: enough to see what to join."""
    least = [c[0] for c in options(loops_of(nest, sizes), target)]
    why = None
    if not target.whole_arrays:
        why = blocks_of(group, nest, eqns, target).refuse(least, target.block_bytes)
    own, tile = {x: sizes[x] for x in nest.order}, dict(zip(nest.order, least, strict=True))
    grid = tuple(x for x in nest.order if own[x] > tile[x])
    moved = sum(map(nbytes, group.inputs)) + sum(map(nbytes, nest.outputs))
    return Tiling(nest, own, tile, grid, nest.carry.intersection(grid), moved, why)


def measured(group: Group, nest: Nest, sizes: Sequence[int], tiles: Sequence[int], refused: str | None = None,
             runs: int = 1, shared: int | None = None) -> Tiling:  # fmt: skip
    """A nest with given tiles: its grid, and the bytes that its blocks move."""
    own, tile = {x: sizes[x] for x in nest.order}, dict(zip(nest.order, tiles, strict=False))
    cut = [x for x in nest.order if own[x] > tile[x]]
    carry = nest.carry.intersection(cut)
    parallel, steps = [x for x in cut if x not in carry], [x for x in cut if x in carry]
    order, counts = [*parallel, *steps], {x: -(-own[x] // tile[x]) for x in cut}
    moved = sum([nbytes(v) * revisits(group.axes[v], order, counts) for v in group.inputs])
    moved += sum(map(nbytes, nest.outputs))
    grid = (*parallel, *([RUN] if runs > 1 else ()), *steps)
    return Tiling(nest, own, tile, grid, carry, moved, refused, runs, shared if runs > 1 else None)


def revisits(axes: Axes, grid: Sequence[int], counts: Mapping[int, int]) -> int:
    """How often an operand is loaded: once per cell of the loops that it ignores, outside of its own loops."""
    times = again = 1
    for x in grid:
        if x in axes:
            times = again
        else:
            again *= counts[x]
    return times
