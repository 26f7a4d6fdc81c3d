"""Work that one branch alone needs is done in that branch, so that nothing of it waits in registers meanwhile.

Derivatives of branches create such work: a branch is recomputed before its reverse pass, possibly much earlier.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...core.ir.passes import eliminate_dead, substitute, within, without_unread
from ...core.ir.program import Atom, Eqn, Literal, Program, Var
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.movement.shape import broadcast_in_dim_p
from ...core.primitives.refs.state_primitives import Index, Point, access_shape, addupdate_p, get_p, swap_p
from ..analysis.dead_stores import ACCESSES
from ..analysis.loop_carried import writes
from ..kernel.canonicalize import rename, replaced
from ..kernel.traverse import equation


class _Known:
    """What a Ref is known to hold: values by the parts that they were stored to, and zeros but in what was touched."""

    def __init__(self) -> None:
        self.parts: dict[Index, Atom] = {}
        self.touched: list[Index] | None = None

    def zero(self, index: Index) -> bool:
        return self.touched is not None and all(_disjoint(index, other) for other in self.touched)

    def clear(self) -> None:
        self.parts, self.touched = {}, []

    def touch(self, index: Index) -> None:
        self.parts = {i: v for i, v in self.parts.items() if _disjoint(i, index)}
        if self.touched is not None:
            self.touched.append(index)


def _disjoint(a: Index, b: Index) -> bool:
    """Whether two parts of a Ref, at places that are known, have no element in common."""
    places: Any = zip(a, b, strict=True)
    return any(_end(x) <= y.start or _end(y) <= x.start for x, y in places)


def _end(entry: Any) -> int:
    return entry.start + (1 if type(entry) is Point else entry.size * entry.stride)


def forwarded(program: Program, local: Collection[Var]) -> Program:
    """A Program in which what is read of Refs is what was stored there, where nothing comes between.

    What is added to zeros is stored.
    """
    known = {ref: _Known() for ref in local}
    env: dict[Var, Atom] = {}
    zeros: set[Atom] = set()
    eqns = []
    for eqn in program.eqns:
        eqn = substitute(eqn, env)
        if eqn.primitive is broadcast_in_dim_p and type(eqn.inputs[0]) is Literal and not eqn.inputs[0].value:
            zeros.add(eqn.outputs[0])
        target: Any = eqn.inputs[0] if eqn.inputs else None
        found = known.get(target)
        index = _fixed(eqn) if found is not None else None
        if found is None or index is None:
            for ref in [r for r in known if r in eqn.inputs and writes(eqn, r)]:
                known[ref] = _Known()
        else:
            old = found.parts.get(index)
            if eqn.primitive is addupdate_p and (old in zeros or found.zero(index)):
                eqn = equation(swap_p, eqn.inputs, eqn.params, eqn)
            elif eqn.outputs and old is not None:
                env[eqn.outputs[0]] = old
            if eqn.primitive is not get_p:
                found.touch(index)
            if eqn.primitive is swap_p:
                found.parts[index] = eqn.inputs[1]
                if eqn.inputs[1] in zeros and index.is_whole(eqn.inputs[0].type.shape):
                    found.clear()
        eqns.append(eqn)
    outputs = [env.get(a, a) if type(a) is Var else a for a in program.outputs]
    return program.replace(eqns=eqns, outputs=outputs)


def _fixed(eqn: Eqn) -> Index | None:
    """The part of a Ref that an equation reads, or gives a value of that type, where it is the same in all cells."""
    if eqn.primitive not in ACCESSES or eqn.params.get("masked") or eqn.params["index"].dynamic:
        return None
    index, array = eqn.params["index"], eqn.inputs[0].type.array
    moved = eqn.outputs[0].type if eqn.primitive is get_p else eqn.inputs[1].type
    return index if moved.shape == access_shape(index) and moved.dtype == array.dtype else None


def sunk(program: Program) -> Program:
    """A Program whose equations without effects stand in the branch that alone needs what they give.

    Scalars stay: analyses read tests and places off them.
    """
    users: dict[Any, set[Eqn | None]] = {a: {None} for a in program.outputs}  # None: what is no branch
    into: dict[Eqn, list[Eqn]] = {}
    eqns: list[Eqn] = []  # from the last to the first
    for eqn in reversed(program.eqns):
        found = set().union(*(users.get(v, ()) for v in eqn.outputs))
        pure = not eqn.effects and any(v.type.shape for v in eqn.outputs)
        home = next(iter(found)) if len(found) == 1 and pure else None
        if home is not None:
            into[home].append(eqn)
        else:
            eqns.append(eqn)
            if eqn.primitive is cond_p and not any(b.constants for b in eqn.params["branches"]):
                home, into[eqn] = eqn, []
        for i, atom in enumerate(eqn.inputs):
            users.setdefault(atom, set()).add(home if home is not eqn or i else None)
    return program.replace(eqns=[_with(e, into.get(e, [])[::-1]) for e in reversed(eqns)])


def _with(eqn: Eqn, more: Sequence[Eqn]) -> Eqn:
    """A branch that first does what was done before it; what was one on the same test is the branch of that number."""
    if not more:
        return within(eqn, sunk)
    index, made = eqn.inputs[0], {v for e in more for v in e.outputs}
    every = [*eqn.inputs[1:], *(a for e in more for a in e.inputs)]
    outside = list(dict.fromkeys(a for a in every if type(a) is Var and a not in made))

    def branch(number: int) -> Program:
        old = rename(eqn.params["branches"][number], eqn.inputs[1:])
        whole = Program(outside, [*more, *old.eqns], old.outputs, name=old.name)
        whole = replaced(whole, lambda e: same(e, number))
        return rename(sunk(eliminate_dead(whole)[0]), [Var(v.type) for v in outside])

    def same(other: Eqn, number: int) -> Program | None:
        if other.primitive is not cond_p or other.inputs[0] is not index or len(other.params["branches"]) != count:
            return None
        taken = other.params["branches"][number]
        return taken.replace(inputs=(Var(index.type), *taken.inputs))

    count = len(eqn.params["branches"])
    new = eqn.replace(inputs=(index, *outside), params={"branches": tuple(map(branch, range(count)))})
    return without_unread(new)
