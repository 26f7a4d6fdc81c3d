"""How the axes of an operation's operands and results run together: the loops that a kernel of it has.

    Axes     ::= a loop number (None for an axis of one element) for each axis of a value
    Relation ::= Axes of every operand and result, the loops that are summed over, those that must stay whole

Operations are joined into one loop nest by making the loops equal that a shared value's axes follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.caches import cached
from ...core.ir import Eqn, Literal
from ...core.primitive import Primitive
from ...core.primitives import compare, convert, cumulative, elementwise, reduce, shape, special
from ...core.primitives.checkpoint import name_p
from ...core.primitives.contract import dot_general_p, free_axes
from ...core.types import FLOAT0, ArrayType, is_key

Axes = tuple[int | None, ...]
NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Relation:
    """The loops of one operation."""

    operands: tuple[Axes, ...]
    results: tuple[Axes, ...]
    reduced: frozenset[int] = NONE
    whole: frozenset[int] = NONE


class Fresh:
    """Gives out loops, and knows their sizes and the equations that have them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.known: dict[Eqn, Relation | None] = {}

    def __call__(self, sizes: Sequence[int]) -> Axes:
        found: list[int | None] = []
        for n in sizes:
            found.append(None if n == 1 else len(self.sizes))
            if n != 1:
                self.sizes.append(n)
        return tuple(found)


Rule = Callable[[Eqn, Fresh], Relation | None]


def _shapes(eqn: Eqn) -> list[tuple[int, ...]]:
    return [a.type.shape for a in eqn.inputs]


def _pointwise(eqn: Eqn, fresh: Fresh) -> Relation:
    out = fresh(eqn.outputs[0].type.shape)
    return Relation(tuple(out if s else () for s in _shapes(eqn)), (out,) * len(eqn.outputs))


def _bitcast(eqn: Eqn, fresh: Fresh) -> Relation | None:
    same = eqn.inputs[0].type.dtype.itemsize == eqn.params["new_dtype"].itemsize
    return _pointwise(eqn, fresh) if same else None


def _broadcast(eqn: Eqn, fresh: Fresh) -> Relation:
    out = fresh(eqn.params["shape"])
    (old,) = _shapes(eqn)
    axes = tuple(None if n == 1 else out[d] for n, d in zip(old, eqn.params["broadcast_dimensions"], strict=True))
    return Relation((axes,), (out,))


def _reshape(eqn: Eqn, fresh: Fresh) -> Relation | None:
    """Axes of one element come or go; nothing else."""
    (old,), new = _shapes(eqn), eqn.outputs[0].type.shape
    turned = eqn.primitive is shape.reshape_p and eqn.params["dimensions"] is not None
    if turned or [n for n in old if n != 1] != [n for n in new if n != 1]:
        return None
    axes = fresh(old)
    left = iter(a for a in axes if a is not None)
    return Relation((axes,), (tuple(None if n == 1 else next(left) for n in new),))


def _transpose(eqn: Eqn, fresh: Fresh) -> Relation:
    axes = fresh(*_shapes(eqn))
    return Relation((axes,), (tuple(axes[p] for p in eqn.params["permutation"]),))


def _iota(eqn: Eqn, fresh: Fresh) -> Relation:
    return Relation((), (fresh(eqn.params["shape"]),))


def _reduce(eqn: Eqn, fresh: Fresh) -> Relation:
    axes, gone = fresh(*_shapes(eqn)), eqn.params["axes"]
    reduced = frozenset(axes[a] for a in gone if axes[a] is not None)
    return Relation((axes,), (tuple(a for i, a in enumerate(axes) if i not in gone),), reduced)


def _position(eqn: Eqn, fresh: Fresh) -> Relation:
    found = _reduce(eqn, fresh)
    return Relation(found.operands, found.results, NONE, found.reduced)


def _along(eqn: Eqn, fresh: Fresh) -> Relation:
    axes = fresh(*_shapes(eqn))
    loop = axes[eqn.params["axis"]]
    return Relation((axes,), (axes,), NONE, NONE if loop is None else frozenset((loop,)))


def _contract(eqn: Eqn, fresh: Fresh) -> Relation:
    (lc, rc), (lb, rb) = eqn.params["dimension_numbers"]
    left, right = _shapes(eqn)
    lhs, rhs = fresh(left), list(fresh(right))
    for a, b in (*zip(lc, rc, strict=True), *zip(lb, rb, strict=True)):
        rhs[b] = lhs[a]
    out = [lhs[a] for a in (*lb, *free_axes(len(left), lc, lb))] + [rhs[a] for a in free_axes(len(right), rc, rb)]
    reduced = frozenset(lhs[a] for a in lc if lhs[a] is not None)
    return Relation((lhs, tuple(rhs)), (tuple(out),), reduced)


MAPS = frozenset(
    p
    for p in (
        *elementwise.PRIMITIVES,
        *special.PRIMITIVES,
        *compare.PRIMITIVES,
        *convert.PRIMITIVES,
        shape.copy_p,
        name_p,
    )
    if p is not convert.bitcast_convert_type_p
)
MONOIDS = frozenset(
    (reduce.reduce_sum_p, reduce.reduce_prod_p, reduce.reduce_max_p, reduce.reduce_min_p, reduce.reduce_and_p,
     reduce.reduce_or_p, reduce.reduce_xor_p)
)  # fmt: skip
MOVERS = frozenset((shape.broadcast_in_dim_p, shape.reshape_p, shape.squeeze_p, shape.transpose_p, shape.iota_p))
RULES: dict[Primitive, Rule] = {
    **dict.fromkeys(MAPS, _pointwise),
    **dict.fromkeys(MONOIDS, _reduce),
    **dict.fromkeys((reduce.argmax_p, reduce.argmin_p), _position),
    **dict.fromkeys(cumulative.PRIMITIVES, _along),
    convert.bitcast_convert_type_p: _bitcast,
    shape.broadcast_in_dim_p: _broadcast,
    shape.reshape_p: _reshape,
    shape.squeeze_p: _reshape,
    shape.transpose_p: _transpose,
    shape.iota_p: _iota,
    dot_general_p: _contract,
}


PARTIAL = frozenset((shape.reshape_p, shape.squeeze_p, convert.bitcast_convert_type_p))


def why_not(eqn: Eqn) -> str | None:
    """Why an equation stays outside of kernels made by fusion; None where it may go in."""
    if "kernel" in eqn.params:
        return "a kernel keeps its own body"
    if eqn.effects:
        return "it acts on the world, in order"
    if eqn.primitive not in RULES:
        return "its blocks do not lie as its operands' do"
    for atom in (*eqn.inputs, *eqn.outputs):
        t = atom.type
        if not isinstance(t, ArrayType):
            return "it takes a token"
        if is_key(t.dtype) or t.dtype == FLOAT0:
            return "random keys and float0 are types of the trace"
        if 0 in t.shape:
            return "an array in it is empty"
    if eqn.primitive in PARTIAL and relate(eqn, Fresh()) is None:
        return "its axes are cut anew"
    return None


def relate(eqn: Eqn, fresh: Fresh) -> Relation | None:
    """The loops of an equation, the same each time; None where it has no loop nest of this kind."""
    if eqn not in fresh.known:
        fresh.known[eqn] = RULES[eqn.primitive](eqn, fresh)
    return fresh.known[eqn]


def nbytes(atom: Any) -> int:
    """The bytes of an atom in memory; none for a literal."""
    return 0 if type(atom) is Literal else _bytes_of(atom.type)


@cached(4096)
def _bytes_of(t: Any) -> int:
    return math.prod(t.shape) * t.dtype.itemsize if isinstance(t, ArrayType) else 0
