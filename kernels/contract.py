"""Contractions: `dot_general` with batch, free and contracted axes anywhere.

Loops: batch, free of the left operand, free of the right one, contracted (which carry). Products of narrow floats are
added up in float32; what lies past the end of a contracted axis is 0 on both sides. The steps of the longest contracted
loop may be shared out over runs (split-k): each run has a partial sum in memory, a second kernel adds them up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.primitives.contract import dot_general_p, free_axes
from ..core.primitives.convert import convert_element_type
from ..core.types import ArrayType, MemorySpace, RefType, is_complex
from ..lang.block import BlockSpec
from ..lang.ops import when
from .reduce import accumulator, full, total
from .template import RUN, Cut, Loops, Parts, Template


def roles(types: Sequence[ArrayType], params: dict[str, Any]) -> tuple[list[int], list[int], Loops]:
    """Which loop each axis of the operands follows, and the loops."""
    lhs, rhs = types
    (lc, rc), (lb, rb) = params["dimension_numbers"]
    lf, rf = free_axes(lhs.ndim, lc, lb), free_axes(rhs.ndim, rc, rb)
    order_l, order_r = [*lb, *lf], rf
    sizes = [lhs.shape[a] for a in order_l] + [rhs.shape[a] for a in order_r] + [lhs.shape[a] for a in lc]
    free = len(order_l) + len(order_r)
    left, right = [0] * lhs.ndim, [0] * rhs.ndim
    for loop, axis in enumerate(order_l):
        left[axis] = loop
    for loop, axis in enumerate(rb):
        right[axis] = loop
    for loop, axis in enumerate(order_r):
        right[axis] = len(order_l) + loop
    for loop, (a, b) in enumerate(zip(lc, rc, strict=True)):
        left[a] = right[b] = free + loop
    carry = tuple(range(free, free + len(lc)))
    # A matrix unit takes the last free axis of each side and the last contracted one.
    matrix = [len(order_l) - 1] * bool(lf) + [free - 1] * bool(rf) + [free + len(lc) - 1] * bool(lc)
    shared = max(carry, key=lambda i: (sizes[i], i), default=None)
    return left, right, Loops(tuple(sizes), carry, (), tuple(matrix) if len(matrix) == 3 else (), shared=shared)


def _loops(types: Sequence[ArrayType], params: dict[str, Any]) -> Loops:
    return roles(types, params)[2]


def _cut(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any], cut: Cut) -> Parts:
    (lhs, rhs), (out,) = types, outs
    left, right, loops = roles(types, params)
    shape = tuple(cut.tiles[i] for i in range(len(cut.tiles)) if i not in loops.carry)
    result = cut.spec(range(out.ndim), out.shape)
    if any(loops.sizes[i] == 0 for i in loops.carry):

        def nothing(o: Any) -> None:
            o[...] = full(np.zeros((), out.dtype)[()], shape)

        return Parts(nothing, [], [result], args=())
    fill = 0 if any(cut.ragged(i) for i in loops.carry) else None
    sources = [cut.spec(left, lhs.shape, fill=fill), cut.spec(right, rhs.shape, fill=fill)]
    if cut.runs > 1:
        return _partial(sources, out, params, cut)
    if not any(cut.split(i) for i in loops.carry):

        def whole(x: Any, y: Any, o: Any) -> None:
            o[...] = dot_general_p.bind(x[...], y[...], **params)

        return Parts(whole, sources, [result])
    wide = accumulator(out.dtype)

    def step(x: Any, y: Any, state: Any) -> None:
        @when(cut.first())
        def _() -> None:
            state[...] = full(np.zeros((), wide)[()], shape)

        state[...] += dot_general_p.bind(x[...], y[...], **params | {"preferred_element_type": wide})

    if wide == out.dtype:
        return Parts(step, sources, [result])

    def widened(x: Any, y: Any, o: Any, state: Any) -> None:
        step(x, y, state)

        @when(cut.last())
        def _() -> None:
            o[...] = convert_element_type(state[...], out.dtype)

    return Parts(widened, sources, [result], [RefType(ArrayType(shape, wide), MemorySpace.VMEM)])


def _partial(sources: Sequence[BlockSpec], out: ArrayType, params: dict[str, Any], cut: Cut) -> Parts:
    """Each run's sum as a row of an array, and the kernel that adds up its rows."""
    free = [i for i in range(len(cut.tiles)) if i not in cut.loops.carry]
    shape = tuple(cut.tiles[i] for i in free)
    wide = accumulator(out.dtype)
    rows = ArrayType((cut.runs, *out.shape), wide)

    def row(*ids: Any) -> tuple[Any, ...]:
        return tuple(cut.at(i, ids) for i in (RUN, *free))

    def step(x: Any, y: Any, o: Any) -> None:
        @when(cut.first())
        def _() -> None:
            o[...] = full(np.zeros((), wide)[()], shape)

        @when(cut.busy())
        def _() -> None:
            o[...] += dot_general_p.bind(x[...], y[...], **params | {"preferred_element_type": wide})

    return Parts(
        step, sources, [BlockSpec((None, *shape), row)], outs=[rows], then=lambda target: total(rows, out, target)
    )


def _work(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any]) -> tuple[int, int]:
    return (8 if is_complex(outs[0].dtype) else 2) * math.prod(_loops(types, params).sizes), 0


TEMPLATES = {dot_general_p: Template("contract", dot_general_p, _loops, _cut, _work)}
