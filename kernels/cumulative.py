"""Cumulative operations along one axis, across blocks: each block's own, combined with what came before it.

The loop of the axis carries the total so far, in float32 for narrow floats. In reverse the blocks come last one first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.primitive import Primitive
from ..core.primitives import cumulative as c
from ..core.primitives.convert import convert_element_type
from ..core.primitives.elementwise import add_p, max_p, min_p, mul_p
from ..core.primitives.reduce import highest, lowest
from ..core.primitives.shape import broadcast_in_dim_p, slice_in_dim
from ..core.types import ArrayType, MemorySpace, RefType
from ..lang.block import BlockSpec
from ..lang.ops import when
from .reduce import accumulator, constant, full
from .template import Cut, Loops, Parts, Template

MONOIDS: dict[Primitive, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    c.cumsum_p: (constant(0), add_p.bind),
    c.cumprod_p: (constant(1), mul_p.bind),
    c.cummax_p: (lowest, max_p.bind),
    c.cummin_p: (highest, min_p.bind),
    c.cumlogsumexp_p: (constant(-np.inf), c.log_add_exp),
}


def _loops(types: Sequence[ArrayType], params: dict[str, Any]) -> Loops:
    return Loops(types[0].shape, carry=(params["axis"],))


def cumulative(primitive: Primitive) -> Template:
    identity, combine = MONOIDS[primitive]

    def cut(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any], cut: Cut) -> Parts:
        (x,), axis, reverse = types, params["axis"], params["reverse"]
        count, tile = cut.counts[axis], cut.tiles[axis]
        sizes = cut.tiles

        def index_map(*ids: Any) -> tuple[Any, ...]:
            found = [cut.at(i, ids) for i in range(x.ndim)]
            if reverse:
                found[axis] = count - 1 - found[axis]
            return tuple(found)

        source = BlockSpec(sizes, index_map, fill=identity(x.dtype) if cut.ragged(axis) else None)
        result = BlockSpec(sizes, index_map)
        if not cut.split(axis):

            def whole(x: Any, o: Any) -> None:
                o[...] = primitive.bind(x[...], **params)

            return Parts(whole, [source], [result])
        wide = accumulator(x.dtype)
        edge = tuple(1 if i == axis else n for i, n in enumerate(sizes))

        def body(x: Any, o: Any, total: Any) -> None:
            @when(cut.first())
            def _() -> None:
                total[...] = full(identity(wide), edge)

            own = primitive.bind(convert_element_type(x[...], wide), **params)
            before = broadcast_in_dim_p.bind(total[...], shape=sizes, broadcast_dimensions=tuple(range(x.ndim)))
            found = combine(before, own)
            o[...] = convert_element_type(found, x.dtype)
            end = 0 if reverse else tile - 1
            total[...] = slice_in_dim(found, end, end + 1, 1, axis)

        return Parts(body, [source], [result], [RefType(ArrayType(edge, wide), MemorySpace.VMEM)])

    def work(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any]) -> tuple[int, int]:
        count = math.prod(types[0].shape)
        return count, 3 * count if primitive is c.cumlogsumexp_p else 0  # two exponentials and a logarithm each

    return Template("cumulative", primitive, _loops, cut, work)


TEMPLATES = {p: cumulative(p) for p in MONOIDS}
