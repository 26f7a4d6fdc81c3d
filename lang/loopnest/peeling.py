"""Loop peeling: branches that a body takes only in the first or the last iteration move out of its loops.

The usual `when(k == 0)` that resets an accumulator runs before the loop over k, and the `when(k == last)` that writes
it out runs after it, so that the loop itself has no branches and the compiler can pipeline it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...core.ir.program import Eqn, Program, Var
from ...core.ir.types import RefType
from ...core.primitives.control_flow.cond import cond_p
from ..analysis.affine import dependencies, slice_of
from ..analysis.facts import analyse
from ..analysis.loop_carried import taken
from ..kernel.canonicalize import rename
from ..kernel.kernel import Kernel
from .plan import Plan


@dataclass(frozen=True)
class Peeled:
    """`before[level]` runs just before the loop of that number, `after[level]` just after it, `main` in every cell."""

    before: dict[int, Program]
    main: Program
    after: dict[int, Program]


class Nest(Protocol):
    """A backend's printer of a kernel within its loops, `ids` those of the cell at hand."""

    kernel: Kernel
    plan: Plan
    ids: list[Any]

    def cell(self, program: Program, level: int) -> None:
        """Print a part of the body at the ids of the cell at hand, around loop number `level`."""


def end_cell(nest: Nest, parts: Mapping[int, Program], level: int, place: int) -> None:
    """Print what runs in the first (`place` 0) or the last (-1) cell of the loops from `level` on."""
    if level not in parts:
        return
    ids = list(nest.ids)
    for axis in nest.plan.carry[level:]:
        nest.ids[axis] = place % nest.kernel.grid[axis]
    nest.cell(parts[level], level)
    nest.ids = ids


def peeled(kernel: Kernel, carry: tuple[int, ...], homes: Mapping[Var, int]) -> Peeled:
    """The body of a kernel in three parts, all Programs of the body's inputs; `homes` are those of registers."""
    body = kernel.body
    eqns = list(body.eqns)
    before, after = _taken(kernel, carry, homes, eqns, False), _taken(kernel, carry, homes, eqns, True)
    if not before and not after:
        return Peeled({}, body, {})
    taken = {id(e) for found in (before, after) for group in found.values() for e in group}
    main = body.replace(eqns=[e for e in eqns if id(e) not in taken])
    return Peeled(
        {level: _program(kernel, group) for level, group in before.items()}, main,
        {level: _program(kernel, group) for level, group in after.items()})  # fmt: skip


def _taken(
    kernel: Kernel, carry: tuple[int, ...], homes: Mapping[Var, int], eqns: Sequence[Eqn], last: bool
) -> dict[int, list[Eqn]]:
    """The branches that run in the first (last) cell of the loops from some level on, in their order.

    They must not depend on values of the cell, nor meet what they are moved across; the registers must be alive.
    """
    found: dict[int, list[Eqn]] = {}
    ids = len(kernel.grid)
    needs = dependencies(kernel.body, ids)
    order = eqns[::-1] if last else eqns
    passed: list[Eqn] = []
    for eqn in order:
        level = _level(kernel, carry, eqn, last)
        known = all("data" not in needs[a] for a in eqn.inputs if type(a) is Var and not isinstance(a.type, RefType))
        if level is None or not known or any(homes.get(a, 0) > level for a in eqn.inputs if type(a) is Var):
            passed.append(eqn)
            continue
        crossed = [*passed, *(e for inner, group in found.items() if inner > level for e in group)]
        if any(_meet(eqn, other) for other in crossed):
            passed.append(eqn)
        else:
            found.setdefault(level, []).append(eqn)
    return {level: group[::-1] if last else group for level, group in found.items()}


def _level(kernel: Kernel, carry: tuple[int, ...], eqn: Eqn, last: bool) -> int | None:
    """The loop in whose first (last) cell alone an equation does something."""
    if eqn.primitive is not cond_p or eqn.outputs or len(eqn.params["branches"]) != 2:
        return None
    table = taken(kernel, eqn)
    if table is None or eqn.params["branches"][0].eqns:
        return None
    for level in range(len(carry)):
        expected = analyse(kernel).ends(carry[level:], last)
        if np.broadcast_shapes(table.shape, expected.shape) == expected.shape and (table == expected).all():
            return level
    return None


def _touched(eqn: Eqn) -> tuple[set[Any], set[Any]]:
    """The Refs that an equation touches, and those that it changes."""
    changed = {
        eqn.inputs[e.operand] for e in eqn.effects
        if isinstance(e.operand, int) and e.kind in ("write", "accumulate")
    }  # fmt: skip
    return {a for a in eqn.inputs if isinstance(a.type, RefType)}, changed


def _meet(one: Eqn, other: Eqn) -> bool:
    """Whether the order of two equations matters."""
    (a, a_changed), (b, b_changed) = _touched(one), _touched(other)
    spoken = any(e.operand is None for e in one.effects) and any(e.operand is None for e in other.effects)
    return bool(a_changed & b or b_changed & a) or spoken


def _program(kernel: Kernel, group: Sequence[Eqn]) -> Program:
    """The taken branches one after the other, with what they need of the ids."""
    body = kernel.body
    operands = [a for e in group for a in e.inputs if type(a) is Var and not isinstance(a.type, RefType)]
    eqns = list(slice_of(body, operands).eqns)
    for eqn in group:
        eqns += rename(eqn.params["branches"][1], eqn.inputs[1:]).eqns
    return Program(body.inputs, eqns, (), body.constants, body.values, f"{body.name}_ends")
