"""A group of equations as one loop nest: which loops are parallel, carry, or must stay whole.

    Nest ::= a group's loops in order, those that carry, those kept whole, and the values that leave it

A loop is kept whole where a reduction over it meets it again (softmax: the sum of a row divides the row), and where a
result does not have it. A loop that a reduction alone runs over carries: its sum is kept from cell to cell, and what
is computed from the sum is computed in the last cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.ir.program import Eqn, Var
from ...core.primitives.contraction.dot_general import dot_general_p
from .group import NONE, Axes, Group, Sums


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest: every loop once in `order`, and the values that leave it."""

    order: tuple[int, ...]
    carry: frozenset[int]
    whole: frozenset[int]
    matrix: tuple[int, ...]
    outputs: tuple[Var, ...]


def after_sums(group: Group, eqns: Sequence[Eqn], carried: Sequence[int]) -> dict[Var, int]:
    """The values that are computed from reductions, each with those: bit k is the k-th of `carried`."""
    found: dict[Any, int] = {}
    if not carried:
        return found
    bits = {i: 1 << k for k, i in enumerate(carried)}
    for i in group.eqns:
        mine, eqn = bits.get(i, 0), eqns[i]
        for a in eqn.inputs:
            mine |= found.get(a, 0)
        if mine:
            for v in eqn.outputs:
                found[v] = mine
    return found


def nest_of(group: Group, eqns: Sequence[Eqn], outputs: Sequence[Var]) -> Nest:
    """The loops of a group whose results are `outputs`."""
    order: dict[int | None, None] = {}
    for axes in _by_weight(group, eqns):
        order.update(dict.fromkeys(axes))
    order.pop(None, None)
    loops: tuple[int, ...] = tuple(order)  # type: ignore[arg-type]
    whole, carry = _classify(group, eqns, outputs, frozenset(loops))
    return Nest(loops, carry, whole, _matrix(group, eqns), tuple(outputs))


def _by_weight(group: Group, eqns: Sequence[Eqn]) -> list[Axes]:
    """The axes of values in the order in which they say how loops are nested: a contraction's, then the largest's."""
    dots = [group.axes[eqns[i].outputs[0]] for i in group.eqns if eqns[i].primitive is dot_general_p]
    return [*dots, *sorted(group.weight, key=group.weight.__getitem__, reverse=True)]


def _classify(group: Group, eqns: Sequence[Eqn], outputs: Sequence[Var], every: frozenset[int]
              ) -> tuple[frozenset[int], frozenset[int]]:  # fmt: skip
    whole: set[int] = set(group.whole)
    numbers = tuple(group.sums)
    after = after_sums(group, eqns, numbers)
    seen: dict[int, set[int | None]] = {i: set() for i in numbers}
    for axes, bits in {(group.axes[v], bits) for v, bits in after.items()}:
        for k, i in enumerate(numbers):
            if bits >> k & 1:
                seen[i].update(axes)
    for i, loops in group.sums.items():
        whole |= loops.intersection(seen[i])
    lacking = [(every.difference(group.axes[v]), after.get(v, 0)) for v in outputs]
    # Reductions other than contractions are dropped first; among them the one over the fewest loops.
    turn = sorted(group.sums, key=lambda i: (eqns[i].primitive is dot_general_p, len(group.sums[i]), i))
    while True:
        open_ = {i: group.sums[i] - whole for i in turn if group.sums[i] - whole}
        carry: frozenset[int] = frozenset().union(*open_.values()) if open_ else NONE
        late = sum(1 << k for k, i in enumerate(numbers) if i in open_)
        added = _conflict(open_, seen, carry) or _missing(lacking, late, carry, whole)
        if not added:
            return frozenset(whole), carry
        whole |= added


def _conflict(open_: Sums, seen: dict[int, set[int | None]], carry: frozenset[int]) -> set[int]:
    for i, loops in open_.items():
        if again := carry.intersection(seen[i]):
            return set(again)
        if loops != carry:
            return set(loops)
    return set()


def _missing(lacking: Sequence[tuple[frozenset[int], int]], late: int, carry: frozenset[int], whole: set[int]
             ) -> set[int]:  # fmt: skip
    """The loops that a result lacks, so that several cells would write it; `late` are the sums that carry."""
    found: set[int] = set()
    for lacks, after in lacking:
        found |= lacks - carry if after & late else lacks
    return found - whole


def _matrix(group: Group, eqns: Sequence[Eqn]) -> tuple[int, ...]:
    """The loops that a matrix unit runs over: the last free ones of each side and the last contracted one."""
    for i in group.eqns:
        if eqns[i].primitive is not dot_general_p:
            continue
        lhs, rhs = (group.axes[a] if type(a) is Var else () for a in eqns[i].inputs)
        out = group.axes[eqns[i].outputs[0]]
        summed = group.sums.get(i, NONE)
        rows = [x for x in lhs if x is not None and x in out and x not in rhs]
        columns = [x for x in rhs if x is not None and x in out and x not in lhs]
        depth = [x for x in lhs if x is not None and x in summed]
        if rows and columns and depth:
            return (rows[-1], columns[-1], depth[-1])
    return ()
