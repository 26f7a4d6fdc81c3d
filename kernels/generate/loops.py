"""Tiled loop nests, and the blocks of arrays whose axes follow them.

Loops ::= the extents of the loop nest that tiles cut; the loops that carry (they go innermost); those kept whole
Cut   ::= a nest with its tiles
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.primitives.elementwise.arithmetic import max_p, min_p
from ...lang.kernel.block_spec import BlockSpec, Element
from ...lang.ops.basic import cdiv, program_id

Tiles = tuple[int, ...]


@dataclass(frozen=True)
class Loops:
    """The loop nest of an operation. `carry` and `whole` are indices into `sizes`.

    `shared` is a loop that carries and whose steps may be shared out over runs, each of which gives a partial result.
    """

    sizes: tuple[int, ...]
    carry: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    matrix: tuple[int, ...] = ()  # the loops that a matrix unit runs over
    single: tuple[int, ...] = ()  # the loops that go step by step: tile 1, unless all is one cell
    short: tuple[int, ...] = ()  # the loops whose steps a cell has one by one in its code: best a few
    shared: int | None = None

    def cut(self, tiles: Tiles) -> Cut:
        """The nest with one tile for each loop."""
        return Cut(self, tuple(tiles[: len(self.sizes)]))

    @property
    def all(self) -> Tiles:
        """The tiles at which everything is one cell."""
        return tuple(max(n, 1) for n in self.sizes)


@dataclass(frozen=True)
class Cut:
    """A tiled loop nest: makes grids, block specs and, within a body, indices."""

    loops: Loops
    tiles: Tiles

    @property
    def counts(self) -> tuple[int, ...]:
        """Cells along each loop; a carry loop without steps still has the one that gives the empty result."""
        return tuple(
            cdiv(n, t) if n or i not in self.loops.carry else 1
            for i, (n, t) in enumerate(zip(self.loops.sizes, self.tiles, strict=True))
        )

    @property
    def order(self) -> tuple[int, ...]:
        """The loops in the order of the grid: what carries innermost, so that a block's visits are one run."""
        carry = self.loops.carry
        return (*(i for i in range(len(self.tiles)) if i not in carry), *carry)

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(self.counts[i] for i in self.order)

    @property
    def cells(self) -> int:
        return math.prod(self.counts)

    def ragged(self, loop: int) -> bool:
        return self.loops.sizes[loop] % self.tiles[loop] != 0

    def split(self, loop: int) -> bool:
        return self.counts[loop] > 1

    def at(self, loop: int, ids: Sequence[Any]) -> Any:
        """The id of a loop among the ids that an index map gets."""
        return ids[self.order.index(loop)]

    def id(self, loop: int) -> Any:
        """The id of a loop, within a body."""
        return program_id(self.order.index(loop))

    def spec(self, follows: Sequence[int | None], shape: Sequence[int], scales: Sequence[int] | None = None,
             fill: int | None = None) -> BlockSpec:  # fmt: skip
        """Blocks of an array each axis of which follows a loop, in `scales` elements a step, or is kept whole."""
        if not shape:
            return BlockSpec()
        scales = scales or [1] * len(shape)
        sizes = tuple(
            max(n, 1) if loop is None else self.tiles[loop] * scale
            for loop, n, scale in zip(follows, shape, scales, strict=True)
        )

        def index_map(*ids: Any) -> tuple[Any, ...]:
            return tuple(np.int32(0) if loop is None else self.at(loop, ids) for loop in follows)

        return BlockSpec(sizes, index_map, fill=fill)

    def carry_ids(self) -> list[tuple[Any, int]]:
        """The ids of the loops that carry and are cut, with their counts, within a body."""
        return [(self.id(i), n) for i in self.loops.carry if (n := self.counts[i]) > 1]

    def first(self) -> Any:
        """Whether a cell is the first of its run along the carry loops; the constant True without any."""
        return functools.reduce(both, [i == 0 for i, _ in self.carry_ids()], True)

    def last(self) -> Any:
        """Whether a cell is the last of its run along the carry loops."""
        return functools.reduce(both, [i == n - 1 for i, n in self.carry_ids()], True)


def both(a: ArrayLike, b: ArrayLike) -> Any:
    """Two conditions as one, each of which may be the constant True."""
    return b if a is True else a if b is True else a & b


@dataclass(frozen=True)
class Window:
    """One axis of `n` elements in blocks of `size` that start at `base + step * id`, in the array or partly before
    or after it; `more` are other loops that move the start, with their steps.

    Blocks that would be entirely out of bounds are moved until one element is inside; their content is unused.
    """

    loop: int
    base: int
    step: int
    size: int
    n: int
    more: tuple[tuple[int, int], ...] = ()

    def start(self, id_of: Callable[[int], Any], size: int = 1) -> Any:
        """Where a block starts, in units of `size`, from the ids of loops."""
        found = id_of(self.loop) * np.int32(self.step // size) + np.int32(self.base // size)
        for loop, step in self.more:
            found = found + id_of(loop) * np.int32(step // size)
        return found

    def starts(self, cut: Cut) -> tuple[int, int]:
        """The least start and the greatest."""
        moves = [(cut.counts[loop] - 1) * step for loop, step in ((self.loop, self.step), *self.more)]
        return self.base + sum(min(m, 0) for m in moves), self.base + sum(max(m, 0) for m in moves)

    def block(self, cut: Cut) -> tuple[Any, Callable[[Sequence[Any]], Any]]:
        """The entry of a block shape, and its index as a function of the ids that an index map gets."""
        size, n = self.size, self.n
        low, high = self.starts(cut)
        if low >= 0 and high < n and all(k % size == 0 for k in (self.base, self.step, *(k for _, k in self.more))):
            return size, lambda ids: self.start(lambda loop: cut.at(loop, ids), size)
        least, most = max(low, 1 - size), min(high, n - 1)
        padding = (max(0, -least), max(0, most + size - n))

        def index(ids: Sequence[Any]) -> Any:
            start = self.start(lambda loop: cut.at(loop, ids))
            if (least, most) != (low, high):
                start = max_p.bind(min_p.bind(start, np.int32(most)), np.int32(least))
            return start + np.int32(padding[0])

        return Element(size, padding), index


def windows(cut: Cut, axes: Sequence[Window | int | None], shape: Sequence[int], fill: Any = None) -> BlockSpec:
    """Blocks each axis of which is a window, follows a loop, or is whole."""
    entries = []
    for axis, n in zip(axes, shape, strict=True):
        if isinstance(axis, Window):
            entries.append(axis.block(cut))
        elif axis is None:
            entries.append((max(n, 1), lambda ids: np.int32(0)))
        else:
            entries.append((cut.tiles[axis], functools.partial(cut.at, axis)))

    def index_map(*ids: Any) -> tuple[Any, ...]:
        return tuple(index(ids) for _, index in entries)

    return BlockSpec(tuple(size for size, _ in entries), index_map, fill=fill) if entries else BlockSpec()
