"""Tiles of a loop nest on a target, and the exact bytes that its kernel moves with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...core.ir import Eqn, Var
from ...lang.target import Target
from ..reduce import accumulator
from ..template import Loops, Tiles
from .axes import Axes, nbytes
from .nest import Group, Nest

Choose = Callable[[Loops], Tiles | None]  # tiles asked for, or None for the target's
LIVE = 3  # how many of the values between operands and results a cell is taken to hold at once


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


@dataclass(frozen=True, slots=True)
class _Blocks:
    """What a cell holds: (bytes of an element, axes) of operands and results, of sums, of values between."""

    moved: list[tuple[int, Axes]]
    sums: list[tuple[int, Axes]]
    between: list[tuple[int, Axes]]

    def held(self, tile: Mapping[int, int]) -> int:
        def size(entry: tuple[int, Axes]) -> int:
            n = entry[0]
            for x in entry[1]:
                n *= 1 if x is None else tile[x]
            return n

        most = max(map(size, self.between), default=0)
        return 2 * sum(map(size, self.moved)) + sum(map(size, self.sums)) + min(len(self.between), LIVE) * most


def _blocks(group: Group, nest: Nest, eqns: Sequence[Eqn]) -> _Blocks:
    def entry(v: Var) -> tuple[int, Axes]:
        return v.type.dtype.itemsize, group.axes[v]  # type: ignore[union-attr]

    moved = [entry(v) for v in (*group.inputs, *nest.outputs)]
    carried = [i for i, loops in group.sums.items() if loops & nest.carry]
    sums = [(accumulator(v.type.dtype).itemsize, group.axes[v]) for i in carried for v in eqns[i].outputs]  # type: ignore[union-attr]
    edges = {*group.inputs, *nest.outputs}
    return _Blocks(moved, sums, list({entry(v) for v in group.axes if v not in edges}))


def tile_nest(group: Group, nest: Nest, eqns: Sequence[Eqn], sizes: Sequence[int], target: Target,
              choose: Choose | None = None) -> Tiling:  # fmt: skip
    """The tiles of a group: those asked for, or the largest that fit the target, inner loops grown first."""
    blocks = _blocks(group, nest, eqns)
    own = {x: sizes[x] for x in nest.order}
    loops = loops_of(nest, own)
    asked = None if choose is None else choose(loops)
    if asked is not None:
        tile = dict(zip(nest.order, asked, strict=True))
        return measured(group, nest, eqns, own, tile, blocks.held(tile))
    if target.whole_arrays:
        tile = dict(own)
    else:
        options = {x: target.tile_sizes(n, loops, i) for i, (x, n) in enumerate(own.items())}
        tile = {x: options[x][0] for x in nest.order}
        if (held := blocks.held(tile)) > target.block_bytes:
            why = f"a cell would hold {held:,} bytes of the {target.block_bytes:,} that blocks have on {target.name}"
            return Tiling(nest, own, tile, (), frozenset(), 0, held, why)
        for x in (*nest.matrix, *reversed(nest.order)):
            for size in options[x]:
                trial = {**tile, x: size}
                if size > tile[x] and blocks.held(trial) <= target.block_bytes:
                    tile = trial
    return measured(group, nest, eqns, own, tile, blocks.held(tile))


def measured(group: Group, nest: Nest, eqns: Sequence[Eqn], sizes: Mapping[int, int], tile: Mapping[int, int],
             held: int) -> Tiling:  # fmt: skip
    """A nest with given tiles: its grid, and the bytes that its blocks move."""
    cut = [x for x in nest.order if sizes[x] > tile[x]]
    carry = frozenset(x for x in cut if x in nest.carry)
    grid = (*(x for x in cut if x not in carry), *(x for x in cut if x in carry))
    counts = {x: -(-sizes[x] // tile[x]) for x in grid}
    moved = sum(nbytes(v) * revisits(group.axes[v], grid, counts) for v in group.inputs)
    moved += sum(nbytes(v) for v in nest.outputs)
    return Tiling(nest, sizes, tile, grid, carry, moved, held)


def revisits(axes: Axes, grid: Sequence[int], counts: Mapping[int, int]) -> int:
    """How often an operand comes in whole: once for each cell of the loops that it ignores outside of its own."""
    last = max((i for i, x in enumerate(grid) if x in axes), default=-1)
    return math.prod(counts[x] for x in grid[: last + 1] if x not in axes)
