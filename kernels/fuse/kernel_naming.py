"""Names of fused kernels: what kind of loop nest, and the operations that weigh most, in order."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.ir.axis_relation import IDENTITY, MOVER, POINTWISE
from ...core.ir.program import Eqn
from ...core.primitives.contraction.dot_general import dot_general_p
from ..generate.group import Group
from ..generate.tiles import Tiling

LENGTH = 5  # operations shown in a name
_SHORT = {"dot_general": "dot", "integer_pow": "pow", "convert_element_type": "cast", "select_n": "select"}


def kind_of(group: Group, tiling: Tiling, eqns: Sequence[Eqn]) -> str:
    """`contract`, `rows` (a reduction within a block), `reduce` (across blocks) or `map`."""
    if any(eqns[i].primitive is dot_general_p for i in group.eqns):
        return "contract"
    if any(loops & tiling.nest.whole for loops in group.sums.values()) or group.whole:
        return "rows"
    return "reduce" if group.sums else "map"


def name_of(group: Group, tiling: Tiling, eqns: Sequence[Eqn]) -> str:
    """A name that the same group always has, such as `rows_max_exp_sum_div`."""
    told_of = [eqns[i].primitive for i in group.eqns if eqns[i].primitive.kind not in (MOVER, IDENTITY)]
    names = [p.name for p in told_of]
    heavy = [p.name for p in told_of if p.work.transcendentals or p.kind is not POINTWISE]
    rest = [n for n in names if n not in heavy]
    told = list(dict.fromkeys(heavy))[:LENGTH]
    if len(told) < 2:
        told += [n for n in dict.fromkeys(rest) if n not in told][: 2 - len(told)]
    order = list(dict.fromkeys(n for n in names if n in told))
    short = [_SHORT.get(n, n.removeprefix("reduce_")) for n in order]
    kind = kind_of(group, tiling, eqns)
    return "_".join((kind, *(s for s in short if not (kind == "contract" and s == "dot"))))
