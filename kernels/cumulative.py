"""Cumulative operations along one axis, across blocks: each block's own, combined with what came before it.

The loop of the axis carries the total so far, in float32 for narrow floats. In reverse the blocks come last one first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.axis_relation import Monoid
from ..core.ir.primitive import Primitive
from ..core.ir.types import ArrayType, MemorySpace, RefType
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.shape import broadcast_in_dim_p, slice_in_dim
from ..core.primitives.reduction.reduce import MAXIMUM, MINIMUM, PRODUCT, SUM
from ..core.primitives.special import cumulative as c
from ..lang.kernel.block_spec import BlockSpec
from ..lang.ops.basic import when
from .generate.accumulators import accumulator, full
from .generate.loops import Cut, Loops
from .template import Params, Parts, Template, Types, own

if TYPE_CHECKING:
    from ..core.primitives.refs.ref_views import AnyRef

LOGSUMEXP = Monoid("logsumexp", lambda dtype: np.asarray(-np.inf).astype(dtype)[()], c.log_add_exp)
MONOIDS: dict[Primitive, Monoid] = {
    c.cumsum_p: SUM, c.cumprod_p: PRODUCT, c.cummax_p: MAXIMUM, c.cummin_p: MINIMUM, c.cumlogsumexp_p: LOGSUMEXP
}  # fmt: skip


def cumulative(primitive: Primitive, monoid: Monoid) -> Template:
    def parts(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        (x,), axis, reverse = types, params["axis"], params["reverse"]
        count, tile, sizes = cut.counts[axis], cut.tiles[axis], cut.tiles

        def index_map(*ids: Any) -> tuple[Any, ...]:
            found = [cut.at(i, ids) for i in range(x.ndim)]
            if reverse:
                found[axis] = count - 1 - found[axis]
            return tuple(found)

        source = BlockSpec(sizes, index_map, fill=monoid.neutral(x.dtype) if cut.ragged(axis) else None)
        result = BlockSpec(sizes, index_map)
        wide = accumulator(x.dtype)
        edge = tuple(1 if i == axis else n for i, n in enumerate(sizes))

        def body(x: AnyRef, o: AnyRef, total: AnyRef) -> None:
            @when(cut.first())
            def _() -> None:
                total[...] = full(monoid.neutral(wide), edge)

            part = primitive.bind(convert_element_type(x[...], wide), **params)
            before = broadcast_in_dim_p.bind(total[...], shape=sizes, broadcast_dimensions=tuple(range(len(sizes))))
            found = monoid.combine(before, part)
            o[...] = convert_element_type(found, o.dtype)
            end = 0 if reverse else tile - 1
            total[...] = slice_in_dim(found, end, end + 1, 1, axis)

        return Parts(body, [source], [result], [RefType(ArrayType(edge, wide), MemorySpace.VMEM)])

    def loops(types: Types, params: Params) -> Loops:
        return Loops(types[0].shape, carry=(params["axis"],))

    return own("cumulative", primitive, parts, loops, blockwise=True)


TEMPLATES = {p: cumulative(p, monoid) for p, monoid in MONOIDS.items()}
