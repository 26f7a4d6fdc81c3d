"""Equations on blocks without the axes that loops go along one step at a time.

A loop of tile 1 gives every block an axis of one element. Bodies do not see those: a batch of products is a product of
matrices in each cell. Nor do bodies with products see axes of one element, which no loop goes along (None).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir.program import Eqn, Literal, Var
from ...core.primitives.contraction.dot_general import dot_general_p
from .group import Axes, Group
from .tiles import Tiling


def unseen(group: Group, tiling: Tiling, eqns: Sequence[Eqn]) -> frozenset[int | None]:
    """The loops along which blocks have one element; a product keeps a row, a column and a depth."""
    gone: set[int | None] = {x for x in tiling.grid if tiling.tile.get(x) == 1}
    if any(eqns[i].primitive is dot_general_p for i in group.eqns) and all(
            axes[-1:] != (None,) for axes in group.axes.values()):  # fmt: skip
        gone.add(None)
    for i in group.eqns:
        if eqns[i].primitive is not dot_general_p:
            continue
        (lc, _), (lb, rb) = eqns[i].params["dimension_numbers"]
        lhs, rhs = (group.axes[a] for a in eqns[i].inputs)  # type: ignore[index]
        batch = {lhs[b] for b in lb} | {rhs[b] for b in rb}
        depth = [lhs[c] for c in lc]
        rows = [x for x in lhs if x not in depth and x not in batch]
        columns = [x for x in rhs if x not in depth and x not in batch]
        for kept in (depth, rows, columns):
            found = [x for x in kept if x is not None]
            if not found:
                gone.discard(None)
            elif gone.issuperset(found):
                gone.discard(found[-1])
    return frozenset(gone)


class Seen:
    """The axes of a group's values that bodies see."""

    group: Group
    gone: frozenset[int | None]

    def __init__(self, group: Group, gone: frozenset[int | None]):
        self.group, self.gone = group, gone

    def axes(self, atom: Literal | Var) -> Axes:
        """The loops that the seen axes of a value follow."""
        return tuple([x for x in self.group.axes[atom] if x not in self.gone]) if type(atom) is Var else ()

    def places(self, axes: Axes) -> dict[int, int]:
        """For each axis that is seen, its place among those."""
        seen = [i for i, x in enumerate(axes) if x not in self.gone]
        return {i: k for k, i in enumerate(seen)}

    def params(self, eqn: Eqn, params: dict[str, Any]) -> dict[str, Any] | None:
        """The parameters of an equation on blocks, axes numbered anew; None where none is left to reduce."""
        if not self.gone or not eqn.primitive.axes and eqn.primitive is not dot_general_p:
            return params
        if eqn.primitive is dot_general_p:
            return params | {"dimension_numbers": self._contracted(eqn)}
        found = dict(params)
        place = self.places(self.group.axes[eqn.inputs[0]]) if type(eqn.inputs[0]) is Var else {}
        for name in eqn.primitive.axes or {}:
            axes = (params[name],) if isinstance(params[name], int) else params[name]
            left = tuple(place[a] for a in axes if a in place)
            if not left:
                return None
            found[name] = left if axes is params[name] else left[0]
        return found

    def _contracted(self, eqn: Eqn) -> Any:
        left, right = (self.places(self.group.axes[a]) for a in eqn.inputs)  # type: ignore[index]

        def seen(pair: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
            found = [(left[a], right[b]) for a, b in zip(*pair, strict=True) if a in left]
            return tuple(a for a, _ in found), tuple(b for _, b in found)

        return tuple(map(seen, eqn.params["dimension_numbers"]))
