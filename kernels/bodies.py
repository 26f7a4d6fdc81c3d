"""Shared parts of traced bodies: out-of-bounds masks, cases of ragged cells, elementwise computations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array, ArrayLike
from ..core.ir.primitive import AxisInfo
from ..core.ir.program import Program
from ..core.ir.types import INT32
from ..core.primitives.elementwise.arithmetic import add_p
from ..core.primitives.elementwise.bitwise import and_p, not_p
from ..core.primitives.elementwise.comparison import ge_p, lt_p
from ..core.primitives.movement.shape import iota_p, slice_p
from ..core.tracing.trace import eval_program, shape_of
from ..core.transforms.batching import batch_program
from .generate.loops import Cut, both

if TYPE_CHECKING:
    from ..core.primitives.refs.ref_views import AnyRef


def within(shape: Sequence[int], bounds: Sequence[tuple[int, Any, int, int]]) -> Any:
    """A mask of a block: where, for each (axis, start, low, high), `start` + place is at least low and below high."""

    def inside(axis: int, start: Array, low: int, high: int) -> Any:
        place = add_p.bind(iota_p.bind(dtype=INT32, shape=tuple(shape), dimension=axis), start)
        return and_p.bind(ge_p.bind(place, np.int32(low)), lt_p.bind(place, np.int32(high)))

    return functools.reduce(and_p.bind, (inside(*bound) for bound in bounds))


def ends(cut: Cut, lengths: Sequence[tuple[int, int, int]]) -> list[tuple[Any, tuple[int, ...]]]:
    """The kinds of cells: a condition, and how much of each (loop, size, tile) they have."""
    found: list[tuple[Any, tuple[int, ...]]] = [(True, ())]
    for loop, size, tile in lengths:
        left, split = size % tile, cut.split(loop)
        if not left:
            found = [(c, (*n, tile)) for c, n in found]
            continue
        last = cut.id(loop) == cut.counts[loop] - 1 if split else True
        others = [(both(c, not_p.bind(last)), (*n, tile)) for c, n in found] if split else []
        found = [(both(c, last), (*n, left)) for c, n in found] + others
    return found


def loop_ends(cut: Cut, loops: Sequence[int]) -> list[tuple[Any, tuple[int, ...]]]:
    """The kinds of cells: a condition, and the sizes of a block that is cut off where some loops end."""
    found = ends(cut, [(i, cut.loops.sizes[i], cut.tiles[i]) for i in loops])
    return [(c, tuple(dict(zip(loops, n, strict=True)).get(i, t) for i, t in enumerate(cut.tiles))) for c, n in found]


def cropped(x: ArrayLike, sizes: Sequence[int]) -> Any:
    """The first elements of an array along each axis."""
    if shape_of(x) == tuple(sizes):
        return x
    return slice_p.bind(x, start_indices=(0,) * len(sizes), limit_indices=tuple(sizes), strides=None)


def copied(x: AnyRef, o: AnyRef) -> None:
    """A body that moves its block."""
    o[...] = x[...]


def store(refs: Sequence[Any], values: Sequence[Any]) -> None:
    for ref, value in zip(refs, values, strict=True):
        ref[...] = value


def on_elements(computation: Program, values: Sequence[Any]) -> list[Any]:
    """A scalar computation on the elements of arrays of one shape."""
    program = computation
    for size in reversed(shape_of(values[0])):  # the innermost axis first, each in front of those before
        program, _ = batch_program(program, AxisInfo(size), (0,) * len(values), True)
    return eval_program(program, *values)
