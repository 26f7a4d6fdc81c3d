"""Groups of equations and the loops that their values' axes follow, read from the relations on their primitives.

    Axes  ::= a loop number (None for an axis of one element) for each axis of a value
    Group ::= equations, the axes of each value, the loops that each reduction sums over, those that stay whole

Operations are joined into one loop nest by making the loops equal that a shared value's axes follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.ir.axis_relation import (
    IDENTITY,
    MOVER,
    PARALLEL,
    POINTWISE,
    Axis,
    Monoid,
    Parallel,
    Reduced,
    Relation,
    Window,
    relate,
)
from ...core.ir.program import Eqn, Literal, Var
from ...core.ir.types import FLOAT0, ArrayType, is_key
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.movement.shape import iota_p
from ...core.support.memo import cached

Axes = tuple[int | None, ...]
Sums = dict[int, frozenset[int]]  # the loops that the equations of some numbers sum over
NONE: frozenset[int] = frozenset()
ELEMENTWISE = (POINTWISE, IDENTITY)  # kinds of operations on elements
NAMES = frozenset(("axes", "axis"))  # parameters that name what is reduced or whole; a sort's row is no part of a group
OWN_BODY = "the body of a user's kernel is kept"
ELSEWHERE = "its blocks do not match its operands'"


@dataclass(frozen=True, slots=True)
class Related:
    """The loops of one operation in a Program."""

    operands: tuple[Axes, ...]
    results: tuple[Axes, ...]
    reduced: frozenset[int]
    whole: frozenset[int]


class Factors:
    """Gives out loops, and knows their sizes and the equations that have them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.known: dict[Eqn, Related] = {}
        self.relations: dict[Eqn, Relation | None] = {}
        self.reasons: dict[Any, str | None] = {}  # by primitive and relation

    def why_no_blocks(self, eqn: Eqn) -> str | None:
        """Why an operation is not written on blocks by its relation alone; None where it is."""
        relation = self.relation(eqn)
        key = eqn.primitive, id(relation), len(eqn.inputs)
        if key not in self.reasons:
            self.reasons[key] = _why_no_blocks(eqn, relation)
        return self.reasons[key]

    def relation(self, eqn: Eqn) -> Relation | None:
        """An equation's relation, looked up once."""
        if eqn not in self.relations:
            self.relations[eqn] = relate(eqn)
        return self.relations[eqn]

    def related(self, eqn: Eqn) -> Related:
        """The loops of an equation that may be in a group, the same each time."""
        found = self.known.get(eqn)
        if found is None:
            relation = self.relation(eqn)
            assert relation is not None
            found = self.known[eqn] = self._numbered(relation, eqn.primitive.kind is None)
        return found

    def _numbered(self, relation: Relation, computes: bool) -> Related:
        base = len(self.sizes)
        self.sizes.extend(relation.sizes)
        known: dict[tuple[Axis, ...], Axes] = {}
        for axes in (*relation.operands, *relation.results):
            if axes not in known:
                known[axes] = tuple([a[0] + base if a else None for a in axes])
        operands, results = tuple([known[a] for a in relation.operands]), tuple([known[a] for a in relation.results])
        if not computes and relation.kinds.count(PARALLEL) == len(relation.kinds):
            return Related(operands, results, NONE, NONE)
        reduced = frozenset([i + base for i, k in enumerate(relation.kinds) if type(k) is Reduced])
        whole = [i for i, k in enumerate(relation.kinds) if type(k) is not Parallel and type(k) is not Reduced]
        if computes:  # what comes out along such a loop is made all at once
            read = {f for axes in relation.operands for axis in axes for f in axis}
            whole += [f for axes in relation.results for axis in axes for f in axis if f not in read]
        return Related(operands, results, reduced, frozenset([i + base for i in whole]))


def monoid_of(eqn: Eqn) -> Monoid:
    """How a reduction joins what it sums over."""
    relation = relate(eqn)
    assert relation is not None
    return next(k.monoid for k in relation.kinds if isinstance(k, Reduced))


def _why_no_blocks(eqn: Eqn, relation: Relation | None) -> str | None:
    primitive = eqn.primitive
    if relation is None or len(eqn.outputs) != 1 or any(type(k) is Window for k in relation.kinds):
        return ELSEWHERE
    if any(len(axis) > 1 for axes in (*relation.operands, *relation.results) for axis in axes):
        return "it splits or merges axes"
    parallel = all(type(k) is Parallel for k in relation.kinds)
    if primitive.kind is MOVER:
        return None if parallel and (len(eqn.inputs) == 1 or primitive is iota_p) else ELSEWHERE
    if primitive is dot_general_p or (primitive.axes and len(eqn.inputs) == 1 and not NAMES.isdisjoint(primitive.axes)):
        return None
    same = all(axes == relation.results[0] or not axes for axes in (*relation.operands, *relation.results))
    return None if parallel and same else ELSEWHERE


def why_not(eqn: Eqn, factors: Factors) -> str | None:
    """Why an equation stays outside of kernels made by fusion; None where it may go in."""
    if "kernel" in eqn.params:
        return OWN_BODY
    if eqn.effects:
        return "it has ordered side effects"
    if eqn.primitive.relation is None:
        return ELSEWHERE
    for atom in (*eqn.inputs, *eqn.outputs):
        t = atom.type
        if not isinstance(t, ArrayType):
            return "it takes a token"
        if is_key(t.dtype) or t.dtype == FLOAT0:
            return "random keys and float0 are types of the trace"
        if 0 in t.shape:
            return "an array in it is empty"
    return factors.why_no_blocks(eqn)


def nbytes(atom: Var) -> int:
    """The bytes of an atom in memory; none for a literal."""
    return 0 if type(atom) is Literal else _bytes_of(atom.type)


@cached(4096)
def _bytes_of(t: ArrayType) -> int:
    return math.prod(t.shape) * t.dtype.itemsize if isinstance(t, ArrayType) else 0


# ---------------------------------------------------------------------------- groups


@dataclass(frozen=True, slots=True)
class Group:
    """Equations that may become one kernel. `owned` are those whose results others may read; the rest are copies."""

    eqns: tuple[int, ...]
    owned: frozenset[int]
    axes: dict[Var, Axes]
    weight: dict[Axes, int]  # the most bytes of a value with these axes, in the order in which values come
    sums: Sums
    whole: frozenset[int]
    inputs: tuple[Var, ...]

    @property
    def last(self) -> int:
        return max(self.owned)


def single(number: int, copies: Sequence[int], eqns: Sequence[Eqn], factors: Factors) -> Group | None:
    """The group of one equation and of copies of those that make its operands anew."""
    axes: dict[Var, Axes] = {}
    same: list[tuple[Axes, Axes]] = []
    sums: Sums = {}
    whole: frozenset[int] = NONE
    made: set[Var] = set()
    inputs: dict[Var, None] = {}
    for i in (*copies, number):
        eqn = eqns[i]
        found = factors.related(eqn)
        for atom, own in zip((*eqn.inputs, *eqn.outputs), (*found.operands, *found.results), strict=True):
            if type(atom) is not Var:
                continue
            known = axes.setdefault(atom, own)
            if known is not own:
                same.append((known, own))
        if found.reduced:
            sums[i] = found.reduced
        whole |= found.whole
        inputs.update(dict.fromkeys(a for a in eqn.inputs if type(a) is Var and a not in made))
        made.update(eqn.outputs)
    weight: dict[Axes, int] = {}
    for v, own in axes.items():
        weight[own] = max(weight.get(own, 0), nbytes(v))
    group = Group((*copies, number), frozenset((number,)), axes, weight, sums, whole, tuple(inputs))
    return _renamed(group, _made_one(same))


def join(a: Group, b: Group, eqns: Sequence[Eqn]) -> Group | None:
    """Both groups as one; None where a value would follow one loop along two of its axes."""
    if len(b.axes) > len(a.axes):
        a, b = b, a
    new = _made_one([(found, own) for v, own in b.axes.items() if (found := a.axes.get(v)) is not None])
    left, right = _renamed(a, new), _renamed(b, new)
    if left is None or right is None:
        return None
    numbers = tuple(sorted({*a.eqns, *b.eqns}))
    made = {v for i in numbers for v in eqns[i].outputs}
    inputs = tuple(dict.fromkeys(v for v in (*a.inputs, *b.inputs) if v not in made))
    weight = dict(right.weight)
    for axes, n in left.weight.items():
        weight[axes] = max(weight.get(axes, 0), n)
    return Group(
        numbers, a.owned | b.owned, right.axes | left.axes, weight, left.sums | right.sums, left.whole | right.whole,
        inputs,
    )  # fmt: skip


def _made_one(same: Iterable[tuple[Axes, Axes]]) -> dict[int, int]:
    """What loops become where pairs of axes follow the same ones: those on the left stay."""
    parent: dict[int, int] = {}

    def find(loop: int) -> int:
        while loop in parent:
            loop = parent[loop]
        return loop

    for left, right in dict.fromkeys(same):
        if left != right:
            for x, y in zip(left, right, strict=True):
                if x is not None and y is not None and (x := find(x)) != (y := find(y)):
                    parent[y] = x
    return {x: find(x) for x in parent}


def _renamed(group: Group, new: dict[int, int]) -> Group | None:
    """A group whose loops have become others; None where a value would follow one along two of its axes."""
    known: dict[Axes, Axes] = {}
    changed = any(not new.keys().isdisjoint(loops) for loops in (group.whole, *group.sums.values()))
    for own in group.weight:
        if new.keys().isdisjoint(own):
            known[own] = own
            continue
        changed = True
        found = known[own] = tuple([new.get(x, x) for x in own])  # type: ignore[arg-type]
        loops = [x for x in found if x is not None]
        if len(set(loops)) < len(loops):
            return None
    if not changed:
        return group
    weight: dict[Axes, int] = {}
    for own, n in group.weight.items():
        weight[known[own]] = max(weight.get(known[own], 0), n)
    axes = {v: known[own] for v, own in group.axes.items()}
    sums = {i: frozenset([new.get(x, x) for x in loops]) for i, loops in group.sums.items()}
    whole = frozenset([new.get(x, x) for x in group.whole])
    return Group(group.eqns, group.owned, axes, weight, sums, whole, group.inputs)
