"""Operations that XLA's partitioner gathers or computes wrongly, split by their relation instead.

A parallel factor may be split over devices: each device applies the operation to its parts. So may the axis of a
scan: devices scan their parts, exchange the totals once and join what comes before. A factor that a scatter adds up
along is left to XLA, which inserts the all-reduce.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.ir.axis_relation import PARALLEL, Axes, relate
from ...core.ir.passes import primitives_of
from ...core.ir.program import Eqn, Program
from ...core.primitives import linalg
from ...core.primitives.contraction.fft import fft_p
from ...core.primitives.elementwise.arithmetic import add_p
from ...core.primitives.elementwise.comparison import clamp, eq_p, select_n_p
from ...core.primitives.movement import gather_scatter, sort
from ...core.primitives.movement.dynamic_slice import dynamic_slice_in_dim
from ...core.primitives.movement.gather_scatter import gather_p
from ...core.primitives.movement.shape import broadcast_in_dim, slice_in_dim
from ...core.primitives.reduction import reduce_window
from ...core.primitives.reduction.reduce import MAXIMUM, MINIMUM, PRODUCT, SUM
from ...core.primitives.special.cumulative import COMBINE, cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p
from ...core.primitives.spmd.collective import all_gather_p
from ...core.primitives.spmd.varying_axes import mesh_axes
from ...core.tracing.trace import typeof
from ...lang.partition.custom_rule import Partition
from ...lang.partition.sharding_rule import Splits, ruled
from .halo_exchange import place

SPLIT_BY_RELATION = frozenset(
    (*linalg.PRIMITIVES, *COMBINE, *gather_scatter.PRIMITIVES, *reduce_window.PRIMITIVES,
     *sort.PRIMITIVES, fft_p)
)  # fmt: skip


# What pads a scanned axis: reversed scans begin with the padding.
_NEUTRAL = {cumsum_p: SUM.neutral, cumprod_p: PRODUCT.neutral, cummax_p: MAXIMUM.neutral, cummin_p: MINIMUM.neutral,
            cumlogsumexp_p: lambda dtype: np.asarray(-np.inf).astype(dtype)[()]}  # fmt: skip


def has_operations(program: Program) -> bool:
    """Whether a Program, or one within it, has an operation that is split by its relation."""
    return not SPLIT_BY_RELATION.isdisjoint(primitives_of(program))


def operation_splits(eqn: Eqn) -> Splits | None:
    """How an operation may be split by its relation; None where that is left to XLA."""
    relation = relate(eqn) if eqn.primitive in SPLIT_BY_RELATION else None
    types = [a.type for a in eqn.inputs], [v.type for v in eqn.outputs]
    if relation is None or any(0 in t.shape for side in types for t in side):
        return None
    scans = eqn.primitive in COMBINE
    free = {f for f, kind in enumerate(relation.kinds) if kind == PARALLEL or scans}
    for axes in relation.results:
        free &= {f for axis in axes for f in axis}
    for axes in (*relation.operands, *relation.results):  # a factor beside others of its axis stays in one piece
        free -= {f for axis in axes if len(axis) > 1 for f in axis}

    def named(side: Sequence[Axes]) -> list[list[str | None]]:
        return [[f"f{axis[0]}" if axis and axis[0] in free else None for axis in axes] for axes in side]

    if not free:
        return None
    names = named(relation.operands)

    def part(axes: Mapping[Any, tuple[Any, ...]], *parts: Any) -> Any:
        over = axes.get(names[0][eqn.params["axis"]], ()) if scans else ()
        return _scan(eqn, parts[0], over) if over else _part(eqn, parts)

    found = ruled(Partition.of(names, named(relation.results), part), *types)
    return replace(found, fills=(_NEUTRAL[eqn.primitive](types[0][0].dtype),)) if scans else found


def _scan(eqn: Eqn, x: Any, over: tuple[Any, ...]) -> Any:
    """A scan along an axis that mesh axes split: a local scan, one exchange of totals, one pass that joins them."""
    axis, reverse = eqn.params["axis"], eqn.params["reverse"]
    sizes = [mesh_axes()[name] for name in over]
    count, number = math.prod(sizes), place(over, sizes)
    local = eqn.primitive.bind(x, **eqn.params)
    shape = typeof(local).shape
    last = 0 if reverse else shape[axis] - 1
    total = slice_in_dim(local, last, last + 1, axis=axis)
    totals = all_gather_p.bind(total, axes=over, dimension=axis, size=count, tiled=True)
    before = eqn.primitive.bind(totals, **eqn.params)
    first, neighbour = np.int32(count - 1 if reverse else 0), np.int32(1 if reverse else -1)
    at = clamp(np.int32(0), add_p.bind(number, neighbour), np.int32(count - 1))
    offset = dynamic_slice_in_dim(before, at, 1, axis)
    joined = COMBINE[eqn.primitive](broadcast_in_dim(offset, shape, range(len(shape))), local)
    return select_n_p.bind(eq_p.bind(number, first), joined, local)


def _part(eqn: Eqn, parts: Sequence[Any]) -> Any:
    """An operation on a device's parts of its operands."""
    params = eqn.params
    if eqn.primitive is gather_p:  # windows take whole axes, which are shorter here
        have, full = typeof(parts[0]).shape, eqn.inputs[0].type.shape
        sizes = (h if w == m else w for h, w, m in zip(have, params["slice_sizes"], full, strict=True))
        params = params | {"slice_sizes": tuple(sizes)}
    return eqn.primitive.bind(*parts, **params)
