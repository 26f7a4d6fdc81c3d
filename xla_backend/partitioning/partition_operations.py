"""Operations that XLA's partitioner gathers or computes wrongly, split by their relation instead.

A parallel factor may be split over devices: each device applies the operation to its parts. A factor that a scatter
adds up along is left to XLA, which inserts the all-reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir.axis_relation import PARALLEL, Axes, relate
from ...core.ir.passes import primitives_of
from ...core.ir.program import Eqn, Program
from ...core.primitives import linalg
from ...core.primitives.contraction.fft import fft_p
from ...core.primitives.movement import gather_scatter, sort
from ...core.primitives.movement.gather_scatter import gather_p
from ...core.primitives.reduction import reduce_window
from ...core.primitives.special import cumulative
from ...core.tracing.trace import typeof
from ...lang.partition.custom_rule import Partition
from ...lang.partition.sharding_rule import Splits, ruled

SPLIT_BY_RELATION = frozenset(
    (*linalg.PRIMITIVES, *cumulative.PRIMITIVES, *gather_scatter.PRIMITIVES, *reduce_window.PRIMITIVES,
     *sort.PRIMITIVES, fft_p)
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
    free = {f for f, kind in enumerate(relation.kinds) if kind == PARALLEL}
    for axes in relation.results:
        free &= {f for axis in axes for f in axis}
    for axes in (*relation.operands, *relation.results):  # a factor beside others of its axis stays in one piece
        free -= {f for axis in axes if len(axis) > 1 for f in axis}

    def named(side: Sequence[Axes]) -> list[list[str | None]]:
        return [[f"f{axis[0]}" if axis and axis[0] in free else None for axis in axes] for axes in side]

    if not free:
        return None
    rule = Partition.of(named(relation.operands), named(relation.results), lambda _, *parts: _part(eqn, parts))
    return ruled(rule, *types)


def _part(eqn: Eqn, parts: Sequence[Any]) -> Any:
    """An operation on a device's parts of its operands."""
    params = eqn.params
    if eqn.primitive is gather_p:  # windows take whole axes, which are shorter here
        have, full = typeof(parts[0]).shape, eqn.inputs[0].type.shape
        sizes = (h if w == m else w for h, w, m in zip(have, params["slice_sizes"], full, strict=True))
        params = params | {"slice_sizes": tuple(sizes)}
    return eqn.primitive.bind(*parts, **params)
