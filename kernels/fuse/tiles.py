"""Tiles of a loop nest on a target, and the exact bytes that its kernel moves with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...core.caches import cached
from ...core.errors import ArgumentError
from ...core.ir import Eqn
from ...lang.target import Target
from ..reduce import accumulator
from ..template import Loops, Tiles
from .axes import Axes, nbytes
from .nest import Group, Nest

Choose = Callable[[Loops], Tiles | None]  # tiles asked for, or None for the target's
LIVE = 2  # how many of the values between operands and results a cell is taken to hold at once
OUTER = 8  # outer loops are cut while blocks fill more than this part, so that the next ones come in meanwhile
RESIDENT = 4  # the programs without sums that share the registers of a GPU's processor


@dataclass(frozen=True, slots=True)
class Tiling:
    """A loop nest with tiles. `grid` lists the loops that are cut, in order; `refused` says why there are no tiles."""

    nest: Nest
    sizes: Mapping[int, int]
    tile: Mapping[int, int]
    grid: tuple[int, ...]
    carry: frozenset[int]  # the loops that carry and are cut
    bytes: int
    held: int
    refused: str | None = None

    def block(self, axes: Axes) -> tuple[int, ...]:
        return tuple(1 if x is None else self.tile[x] for x in axes)

    def count(self, loop: int) -> int:
        return -(-self.sizes[loop] // self.tile[loop])

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
    place = {x: i for i, x in enumerate(nest.order)}
    return Loops(
        tuple(sizes[x] for x in nest.order), tuple(sorted(place[x] for x in nest.carry)),
        tuple(sorted(place[x] for x in nest.whole)), tuple(place[x] for x in nest.matrix),
    )  # fmt: skip


Entry = tuple[int, Axes]  # bytes of an element, axes


@dataclass(frozen=True, slots=True)
class _Blocks:
    """What a cell holds: blocks, each with how many lie in fast memory at once, sums, and values between.

    On a GPU the operands of a product lie in shared memory; those of anything else are `loaded`, to registers. Of
    `between` those are left out whose blocks are never the largest.
    """

    fast: Mapping[Entry, int]
    sums: Sequence[Entry]
    loaded: Sequence[Entry]
    between: Sequence[Entry]
    at_once: int  # how many of the values between are held together

    def held(self, tile: Mapping[int, int], gpu: bool = False) -> int:
        """The bytes of fast memory: blocks twice, for the next ones come in meanwhile; a GPU's registers apart."""
        total = 0
        for (n, axes), times in self.fast.items():
            for x in axes:
                if x is not None:
                    n *= tile[x]
            total += n * times
        return total if gpu else total + self.live(tile)

    def live(self, tile: Mapping[int, int]) -> int:
        """The bytes of the values that a cell computes with at once."""
        most = 0
        for n, axes in self.between:
            for x in axes:
                if x is not None:
                    n *= tile[x]
            if n > most:
                most = n
        return self.at_once * most

    def too_much(self, tile: Mapping[int, int], target: Target, room: int) -> str | None:
        """Why a cell cannot hold its blocks in `room` bytes, if so."""
        gpu = target.gpu
        if (held := self.held(tile, gpu)) > room:
            return f"a cell would hold {held:,} bytes of the {room:,} that blocks have on {target.name}"
        if not gpu:
            return None
        sums, loaded = (sum(_size(e, tile) for e in es) for es in (self.sums, self.loaded))
        few = target.register_bytes // (1 if self.sums else RESIDENT)
        live = max(sums + self.live(tile), loaded * (RESIDENT if self.sums else 1))
        if 4 * sums > few or live > few:
            return f"a cell would compute with {live:,} bytes of the {few:,} in its registers on {target.name}"
        return None


def _size(entry: Entry, tile: Mapping[int, int]) -> int:
    n = entry[0]
    for x in entry[1]:
        if x is not None:
            n *= tile[x]
    return n


def _blocks(group: Group, nest: Nest, eqns: Sequence[Eqn], gpu: bool) -> _Blocks:
    axes, carry = group.axes, nest.carry
    carried = [i for i, loops in group.sums.items() if loops & carry]
    totals = [v for i in carried for v in eqns[i].outputs]
    sums = [(accumulator(v.type.dtype).itemsize, axes[v]) for v in totals]
    reads = [(v.type.dtype.itemsize, axes[v]) for v in group.inputs]
    made = axes.keys() - {*group.inputs, *totals}
    between = {(v.type.dtype.itemsize, axes[v]) for v in made}
    fast: dict[Entry, int] = {}
    if gpu and not nest.matrix:
        return _Blocks(fast, sums, reads, _largest(between), min(len(between), LIVE))
    if gpu:  # operands that come in at every step of a sum
        staged = [e for e in reads if not carry.isdisjoint(e[1])] if carry else reads
    else:
        staged = reads + [(v.type.dtype.itemsize, axes[v]) for v in nest.outputs]
        fast.update(dict.fromkeys(sums, 0))
        for e in sums:
            fast[e] += 1
    for e in staged:
        fast[e] = fast.get(e, 0) + 2
    return _Blocks(fast, sums, (), _largest(between), min(len(between), LIVE))


def _largest(entries: Iterable[Entry]) -> list[Entry]:
    """Entries without those that are along some of the loops of another whose elements are as wide."""
    kept: list[tuple[Entry, set[int | None]]] = []
    for entry in sorted(entries, key=lambda e: (-len(e[1]), -e[0])):
        loops = set(entry[1])
        if not any(entry[0] <= e[0] and loops <= known for e, known in kept):
            kept.append((entry, loops))
    return [e for e, _ in kept]


def tile_nest(group: Group, nest: Nest, eqns: Sequence[Eqn], sizes: Sequence[int], target: Target,
              choose: Choose | None = None, runs: int = 1) -> Tiling:  # fmt: skip
    """The tiles of a group: those asked for, or the largest that fit the target, inner loops grown first.

    `runs`: how many cells share the steps of each sum.
    """
    gpu, room = target.gpu, target.block_bytes
    blocks = _blocks(group, nest, eqns, gpu)
    own = {x: sizes[x] for x in nest.order}
    asked = None if choose is None else choose(loops_of(nest, own))
    if asked is not None:
        _check(asked, loops_of(nest, own))
        tile = dict(zip(nest.order, asked, strict=True))
        return measured(
            group, nest, eqns, own, tile, blocks.held(tile, gpu), blocks.too_much(tile, target, target.fast_bytes)
        )
    if target.whole_arrays:
        return measured(group, nest, eqns, own, own, blocks.held(own, gpu))
    options = _options(nest, own, target)
    least = {x: options[x][0] for x in nest.order}
    if why := blocks.too_much(least, target, room):
        return Tiling(nest, own, least, (), frozenset(), 0, blocks.held(least, gpu), why)
    tile = _grown(nest, own, blocks, options, least, target, runs)
    return measured(group, nest, eqns, own, tile, blocks.held(tile, gpu))


def rough_tiling(group: Group, nest: Nest, eqns: Sequence[Eqn], sizes: Sequence[int], target: Target) -> Tiling:
    """The least tiles of a group, and its bytes with no operand read twice: enough to see what to join."""
    blocks, own = _blocks(group, nest, eqns, target.gpu), {x: sizes[x] for x in nest.order}
    options = _options(nest, own, target)
    least = {x: options[x][0] for x in nest.order}
    why = None if target.whole_arrays else blocks.too_much(least, target, target.block_bytes)
    grid = tuple(x for x in nest.order if own[x] > least[x])
    moved = sum(map(nbytes, group.inputs)) + sum(map(nbytes, nest.outputs))
    return Tiling(nest, own, least, grid, nest.carry.intersection(grid), moved, 0, why)


def _grown(nest: Nest, sizes: Mapping[int, int], blocks: _Blocks, options: Mapping[int, Sequence[int]],
           least: dict[int, int], target: Target, runs: int) -> dict[int, int]:  # fmt: skip
    """The largest tiles that fit; on a GPU, with cells for half of the processors."""
    room, parallel = target.block_bytes, nest.parallel
    outer = parallel[:-2]
    busy = min(target.units, runs * _cells(parallel, sizes, least)) if target.gpu else 0
    tile, full = least, set[int]()
    for x, size in _steps(nest, options):
        if size <= tile[x] or x in full:
            continue
        trial = {**tile, x: size}
        few = busy and x in parallel and 2 * runs * _cells(parallel, sizes, trial) < busy
        if few or blocks.too_much(trial, target, room // OUTER if x in outer else room):
            full.add(x)
        else:
            tile = trial
    return tile


def _steps(nest: Nest, options: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    """The order in which loops grow: the sides of a product in turn, its depth, then from the innermost outwards."""
    sides = nest.matrix[:2]  # rows and columns of a product: the squarer its block, the fewer bytes come in
    rounds = max((len(options[x]) for x in sides), default=0)
    found = [(x, options[x][r]) for r in range(1, rounds) for x in sides if r < len(options[x])]
    rest = (*nest.matrix[2:], *(x for x in reversed(nest.order) if x not in nest.matrix))
    return found + [(x, n) for x in rest for n in options[x][1:]]


def _cells(loops: Sequence[int], sizes: Mapping[int, int], tile: Mapping[int, int]) -> int:
    return math.prod(-(-sizes[x] // tile[x]) for x in loops)


def _check(tiles: Tiles, loops: Loops) -> None:
    if len(tiles) != len(loops.sizes) or any(t < 1 for t in tiles):
        raise ArgumentError(
            f"fused kernel: tiles {tuple(tiles)} for loops of {loops.sizes}", "give one positive size for each"
        )
    for i in loops.whole:
        if tiles[i] != loops.sizes[i]:
            raise ArgumentError(
                f"fused kernel: loop {i} of {loops.sizes} is cut by the tile {tiles[i]}",
                "this loop is kept whole: its tile is its size")  # fmt: skip


def _options(nest: Nest, sizes: Mapping[int, int], target: Target) -> dict[int, Sequence[int]]:
    """The sizes that each loop may be cut in, smallest first.

    A vector unit's lanes and sublanes lie along the two innermost loops that are cut; where rows stay whole they are
    its lanes. Loops outside of those may take any power of two.
    """
    cut = [x for x in nest.order if x not in nest.whole]
    inner = len(cut) - 1 + bool(nest.whole)  # the place of the lanes
    found: dict[int, Sequence[int]] = {}
    for x in nest.order:
        n = sizes[x]
        if x in nest.whole:
            found[x] = (n,)
        elif x in nest.matrix:
            found[x] = _matrix_sizes(target, n, min(nest.matrix.index(x), 2))
        elif nest.matrix:
            found[x] = (1,)
        else:
            found[x] = _vector_sizes(target, n, inner - cut.index(x))
    return found


@cached(4096)
def _matrix_sizes(target: Target, n: int, side: int) -> Sequence[int]:
    loops = Loops((n,) * 3, matrix=(0, 1, 2))
    return tuple(target.tile_sizes(n, loops, side))


@cached(4096)
def _vector_sizes(target: Target, n: int, place: int) -> Sequence[int]:
    """Sizes of the loop that is `place` loops from the innermost; a GPU's vectors have no sublanes."""
    if place > 1 or (place == 1 and target.gpu):
        return tuple(2**k for k in range(max(n, 1).bit_length()) if 2**k <= n)
    return tuple(target.tile_sizes(n, Loops((n, *(1,) * place)), 0))


def measured(group: Group, nest: Nest, eqns: Sequence[Eqn], sizes: Mapping[int, int], tile: Mapping[int, int],
             held: int, refused: str | None = None) -> Tiling:  # fmt: skip
    """A nest with given tiles: its grid, and the bytes that its blocks move."""
    cut = [x for x in nest.order if sizes[x] > tile[x]]
    carry = frozenset(x for x in cut if x in nest.carry)
    grid = (*(x for x in cut if x not in carry), *(x for x in cut if x in carry))
    counts = {x: -(-sizes[x] // tile[x]) for x in grid}
    moved = sum(nbytes(v) * revisits(group.axes[v], grid, counts) for v in group.inputs)
    moved += sum(nbytes(v) for v in nest.outputs)
    return Tiling(nest, sizes, tile, grid, carry, moved, held, refused)


def revisits(axes: Axes, grid: Sequence[int], counts: Mapping[int, int]) -> int:
    """How often an operand comes in whole: once for each cell of the loops that it ignores outside of its own."""
    times = again = 1
    for x in grid:
        if x in axes:
            times = again
        else:
            again *= counts[x]
    return times
