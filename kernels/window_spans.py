"""What the windows of a tile of places read of an operand: spans of elements, masked and spread out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.ir.array import ArrayLike, Operand
from ..core.primitives.elementwise.comparison import select_n_p
from ..core.primitives.movement.shape import pad_p, slice_p
from ..lang.ops.basic import cdiv
from .bodies import ends, within
from .generate.accumulators import full
from .generate.loops import Cut, Window


@dataclass(frozen=True)
class Span:
    """What the windows of a tile of places read along one axis: place p, tap k is element
    (p * stride + k * hole - low) / dilation of the operand, where that is whole and within its `n`."""

    n: int
    taps: int
    stride: int
    low: int
    dilation: int
    hole: int

    @property
    def unit(self) -> int:
        """Places to a step: so many that they advance whole elements."""
        return self.dilation // math.gcd(self.stride, self.dilation)

    @property
    def tap_unit(self) -> int:
        """Taps to a step, likewise."""
        return self.dilation // math.gcd(self.hole, self.dilation)

    @property
    def steps(self) -> int:
        """The size of the loop of the taps."""
        return cdiv(self.taps, self.tap_unit)

    def spread(self, tile: int, taps: int) -> int:
        """How many dilated elements some taps of a tile of units read."""
        return (tile * self.unit - 1) * self.stride + (taps - 1) * self.hole + 1

    @property
    def rest(self) -> int:
        return -self.low % self.dilation


@dataclass(frozen=True)
class Reach:
    """One axis of an operand in a cut: the loops of the places and of the taps (if any) along it, what they read."""

    axis: int
    places: int
    along: int | None
    span: Span

    def taps(self, cut: Cut) -> int:
        """The taps of a cell."""
        return 1 if self.along is None else cut.tiles[self.along] * self.span.tap_unit

    def window(self, cut: Cut) -> Window:
        span, tile, taps = self.span, cut.tiles[self.places], self.taps(cut)
        step = tile * span.unit * span.stride // span.dilation
        size = cdiv(span.rest + span.spread(tile, taps), span.dilation)
        more = () if self.along is None else ((self.along, taps * span.hole // span.dilation),)
        return Window(self.places, -span.low // span.dilation, step, size, span.n, more)


def tap_ends(cut: Cut, reaches: Sequence[Reach]) -> list[tuple[Any, tuple[int, ...]]]:
    """The kinds of cells: a condition, and how many taps along each axis they have."""
    return ends(cut, [(r.along, r.span.taps, r.taps(cut)) for r in reaches if r.along is not None])


def inside(cut: Cut, block: Operand, reaches: Sequence[Reach], filler: ArrayLike) -> Any:
    """A block with its out-of-bounds elements filled."""
    shape = tuple(block.shape)
    bounds = []
    for r in reaches:
        place = r.window(cut)
        low, high = place.starts(cut)
        if low < 0 or high + place.size > place.n:
            bounds.append((r.axis, place.start(cut.id), 0, place.n))
    return select_n_p.bind(within(shape, bounds), full(filler, shape), block) if bounds else block


def spread_out(cut: Cut, block: Operand, reaches: Sequence[Reach], taps: Sequence[int], filler: ArrayLike) -> Any:
    """What the first taps of a block read: dilated, and begun where windows begin."""
    shape = list(block.shape)
    config, starts, stops = [(0, 0, 0)] * len(shape), [0] * len(shape), list(shape)
    for r, n in zip(reaches, taps, strict=True):
        config[r.axis] = (0, r.span.dilation - 1, r.span.dilation - 1)
        starts[r.axis] = r.span.rest
        stops[r.axis] = r.span.rest + r.span.spread(cut.tiles[r.places], n)
    if any(r.span.dilation > 1 for r in reaches):
        block = pad_p.bind(block, filler, padding_config=tuple(config))
    if not any(starts) and tuple(stops) == tuple(block.shape):
        return block
    return slice_p.bind(block, start_indices=tuple(starts), limit_indices=tuple(stops), strides=None)
