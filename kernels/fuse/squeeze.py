"""Equations on blocks without the axes that loops go along one step at a time.

A loop of tile 1 gives every block an axis of one element. Bodies do not see those: a batch of products is a product of
matrices in each cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.ir import Atom, Eqn, Var
from ...core.primitive import Primitive
from ...core.primitives import cumulative, reduce, shape
from ...core.primitives.contract import dot_general_p
from .axes import MONOIDS, Axes
from .nest import Group
from .tiles import Tiling

Written = tuple[Primitive, dict[str, Any]] | None  # an operation and its parameters; None where nothing is to do


def unseen(group: Group, tiling: Tiling, eqns: Sequence[Eqn]) -> frozenset[int]:
    """The loops along which blocks have one element; a product keeps a row, a column and a depth."""
    gone = {x for x in tiling.grid if tiling.tile[x] == 1}
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
            if found and gone.issuperset(found):
                gone.discard(found[-1])
    return frozenset(gone)


class Squeezer:
    """Rewrites equations for blocks without the unseen axes."""

    def __init__(self, group: Group, gone: frozenset[int]):
        self.group, self.gone = group, gone

    def places(self, axes: Axes) -> dict[int, int]:
        """For each axis that is seen, its place among those."""
        seen = [i for i, x in enumerate(axes) if x not in self.gone]
        return {i: k for k, i in enumerate(seen)}

    def write(self, eqn: Eqn, out_shape: tuple[int, ...]) -> Written:
        """An equation, for blocks whose result has a shape."""
        rule = RULES.get(eqn.primitive)
        if rule is None:
            return eqn.primitive, eqn.params
        axes = [self.group.axes[a] if type(a) is Var else () for a in eqn.inputs]
        return rule(self, eqn, axes, self.group.axes[eqn.outputs[0]], out_shape)

    def lost(self, eqn: Eqn, operand: Atom) -> tuple[int, ...] | None:
        """The shape of a broadcast's operand without its axes of one element whose counterparts are unseen."""
        if eqn.primitive is not shape.broadcast_in_dim_p or type(operand) is not Var:
            return None
        axes, out = self.group.axes[operand], self.group.axes[eqn.outputs[0]]
        dims = eqn.params["broadcast_dimensions"]
        kept = [i for i in self.places(axes) if out[dims[i]] not in self.gone]
        return tuple(kept) if len(kept) < len(self.places(axes)) else None


def _broadcast(s: Squeezer, eqn: Eqn, axes: Sequence[Axes], out: Axes, sizes: tuple[int, ...]) -> Written:
    place = s.places(out)
    dims = eqn.params["broadcast_dimensions"]
    own = axes[0] if axes else ()
    found = tuple(place[dims[i]] for i in s.places(own) if dims[i] in place)
    return eqn.primitive, {"shape": sizes, "broadcast_dimensions": found}


def _reshape(s: Squeezer, eqn: Eqn, axes: Sequence[Axes], out: Axes, sizes: tuple[int, ...]) -> Written:
    return shape.reshape_p, {"new_sizes": sizes, "dimensions": None}


def _transpose(s: Squeezer, eqn: Eqn, axes: Sequence[Axes], out: Axes, sizes: tuple[int, ...]) -> Written:
    place = s.places(axes[0])
    permutation = tuple(place[p] for p in eqn.params["permutation"] if p in place)
    return None if permutation == tuple(range(len(place))) else (eqn.primitive, {"permutation": permutation})


def _axes(s: Squeezer, eqn: Eqn, axes: Sequence[Axes], out: Axes, sizes: tuple[int, ...]) -> Written:
    place = s.places(axes[0])
    found = tuple(place[a] for a in eqn.params["axes"] if a in place)
    return (eqn.primitive, eqn.params | {"axes": found}) if found else None


def _axis(s: Squeezer, eqn: Eqn, axes: Sequence[Axes], out: Axes, sizes: tuple[int, ...]) -> Written:
    return eqn.primitive, eqn.params | {"axis": s.places(axes[0])[eqn.params["axis"]]}


def _contract(s: Squeezer, eqn: Eqn, axes: Sequence[Axes], out: Axes, sizes: tuple[int, ...]) -> Written:
    left, right = map(s.places, axes)
    (lc, rc), (lb, rb) = eqn.params["dimension_numbers"]

    def seen(pairs: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        found = [(left[a], right[b]) for a, b in pairs if a in left]
        return tuple(a for a, _ in found), tuple(b for _, b in found)

    numbers = (seen(zip(lc, rc, strict=True)), seen(zip(lb, rb, strict=True)))
    return eqn.primitive, eqn.params | {"dimension_numbers": numbers}


RULES: dict[Primitive, Callable[..., Written]] = {
    shape.broadcast_in_dim_p: _broadcast,
    shape.reshape_p: _reshape,
    shape.squeeze_p: _reshape,
    shape.transpose_p: _transpose,
    **dict.fromkeys((*MONOIDS, reduce.argmax_p, reduce.argmin_p), _axes),
    **dict.fromkeys(cumulative.PRIMITIVES, _axis),
    dot_general_p: _contract,
}
