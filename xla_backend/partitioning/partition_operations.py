"""Operations that XLA's partitioner gathers or computes wrongly, split by their relation instead.

A parallel factor may be split over devices: each device applies the operation to its parts. So may the axis of a
scan: devices scan their parts, exchange the totals once and join what comes before; an axis that indices select one
element of, and updates by maxima (`split_indices`); space and taps of convolutions (`split_convolutions`). A factor
that a scatter adds up along is left to XLA, which inserts the all-reduce.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.ir.axis_relation import PARALLEL, Axes, relate
from ...core.ir.passes import primitives_of
from ...core.ir.program import Eqn, Program
from ...core.primitives import linalg
from ...core.primitives.contraction.conv import conv_general_dilated_p
from ...core.primitives.contraction.fft import fft_p
from ...core.primitives.movement import gather_scatter, sort
from ...core.primitives.movement.gather_scatter import gather_p
from ...core.primitives.reduction import reduce_window
from ...core.primitives.special.cumulative import COMBINE
from ...core.tracing.trace import typeof
from ...lang.partition.custom_rule import Partition
from ...lang.partition.sharding_rule import Splits, ruled
from .split_convolutions import convolution_splits
from .split_indices import indexed, indexed_name, joined, listed, on_part
from .split_scans import NEUTRAL, scan_parts

SPLIT_BY_RELATION = frozenset(
    (*linalg.PRIMITIVES, *COMBINE, *gather_scatter.PRIMITIVES, *reduce_window.PRIMITIVES,
     *sort.PRIMITIVES, conv_general_dilated_p, fft_p)
)  # fmt: skip


def has_operations(program: Program) -> bool:
    """Whether a Program, or one within it, has an operation that is split by its relation."""
    return not SPLIT_BY_RELATION.isdisjoint(primitives_of(program))


def operation_splits(eqn: Eqn) -> Splits | None:
    """How an operation may be split by its relation; None where that is left to XLA."""
    relation = relate(eqn) if eqn.primitive in SPLIT_BY_RELATION else None
    types = [a.type for a in eqn.inputs], [v.type for v in eqn.outputs]
    if relation is None or any(0 in t.shape for side in types for t in side):
        return None
    if eqn.primitive is conv_general_dilated_p:
        return convolution_splits(eqn)
    scans = eqn.primitive in COMBINE
    free = {f for f, kind in enumerate(relation.kinds) if kind == PARALLEL or scans}
    for axes in relation.results:
        free &= {f for axis in axes for f in axis}
    for axes in (*relation.operands, *relation.results):  # of the factors of an axis the major one may be split
        free -= {f for axis in axes for f in axis[1:]}

    def named(side: Sequence[Axes]) -> list[list[str | None]]:
        return [[_name(axis[0]) if axis and axis[0] in free else None for axis in axes] for axes in side]

    selected, updates = indexed(eqn), listed(eqn)
    if not (free or selected or updates):
        return None
    names, results = named(relation.operands), named(relation.results)
    for i, u in updates.items():
        names[1][i] = names[2][u] = _name(u, "u")
    for d in selected:
        names[0][d] = indexed_name(d)
        if eqn.primitive is not gather_p:
            results[0][d] = indexed_name(d)

    def part(axes: Mapping[Any, tuple[Any, ...]], *parts: Any) -> Any:
        if scans and (over := axes.get(names[0][eqn.params["axis"]], ())):
            return scan_parts(eqn, parts[0], over)
        split = {d: over for d in selected if (over := axes.get(indexed_name(d), ()))}
        out = on_part(eqn, split, parts, _part) if split else _part(eqn, parts)
        return joined(eqn, out, tuple(name for u in updates.values() for name in axes.get(_name(u, "u"), ())))

    found = ruled(Partition.of(names, results, part), *types)
    found = replace(found, sizes={**found.sizes, **{_name(f): relation.sizes[f] for f in free}})
    if selected and eqn.primitive is gather_p and 2 * types[1][0].size <= types[0][0].size:
        found = replace(found, first=frozenset(map(indexed_name, selected)))  # indices are moved, not the operand
    return replace(found, fills=(NEUTRAL[eqn.primitive](types[0][0].dtype),)) if scans else found


def _name(number: int, of: str = "f") -> str:
    return f"{of}{number}"


def _part(eqn: Eqn, parts: Sequence[Any]) -> Any:
    """An operation on a device's parts of its operands."""
    params = eqn.params
    if eqn.primitive is gather_p:  # windows take whole axes, which are shorter here
        have, full = typeof(parts[0]).shape, eqn.inputs[0].type.shape
        sizes = (h if w == m else w for h, w, m in zip(have, params["slice_sizes"], full, strict=True))
        params = params | {"slice_sizes": tuple(sizes)}
    return eqn.primitive.bind(*parts, **params)
