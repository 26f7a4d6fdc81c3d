"""Stores of a body that come to nothing, and Refs that are set before they are read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...core.ir.axis_relation import MOVER
from ...core.ir.passes import within, without_unread
from ...core.ir.program import Eqn, Program, Var, subprograms
from ...core.ir.types import RefType
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.refs.state_primitives import Index, Point, addupdate_p, get_p, swap_p
from ..kernel.canonicalize import normalize, touches_refs
from ..kernel.traverse import inner_programs
from .loop_carried import fills, overwrites, writes

ACCESSES = (get_p, swap_p, addupdate_p)


def reads(program: Program, ref: Var) -> bool:
    """Whether anything in a Program gives what a Ref holds."""
    used = {a for e in program.eqns for a in e.inputs} | set(program.outputs)
    for eqn in program.eqns:
        for effect in eqn.effects:
            if isinstance(effect.operand, int) and eqn.inputs[effect.operand] is ref:
                if effect.kind == "read":
                    return True
                if eqn.primitive is swap_p and eqn.outputs[0] in used:
                    return True
                if effect.kind == "write" and any(_exchanges(inner) for _, inner in subprograms(eqn)):
                    return True
    return False


def _exchanges(program: Program) -> bool:
    """Whether a Program uses what some swap gives, which is a read that its effects do not name."""
    used = {a for e in program.eqns for a in e.inputs} | set(program.outputs)
    return any(
        (e.primitive is swap_p and e.outputs[0] in used) or any(_exchanges(inner) for _, inner in subprograms(e))
        for e in program.eqns
    )


def drop_local_writes(program: Program, local: Sequence[Var]) -> Program:
    """Drop stores to Refs that nothing reads."""
    while True:
        dead = {ref for ref in local if any(ref in e.inputs for e in program.eqns) and not reads(program, ref)}
        smaller = normalize(without(program, dead))
        if len(smaller.eqns) == len(program.eqns):
            return smaller
        program = smaller


def without(program: Program, dead: Collection[Any]) -> Program:
    """A Program without its accesses to some Refs, in loops and branches too; one whose results are used stays."""
    eqns = []
    used = {a for e in program.eqns for a in e.inputs} | set(program.outputs)
    for eqn in program.eqns:
        alone = all(a in dead for a in eqn.inputs if isinstance(a.type, RefType))
        if alone and touches_refs(eqn) and used.isdisjoint(eqn.outputs):
            continue
        if eqn.primitive in (scan_p, cond_p, while_p) and any(a in dead for a in eqn.inputs):
            programs = list(inner_programs(eqn))

            def below(inner: Program, programs: Sequence[Any] = programs) -> Program:
                given = next(given for program, given in programs if program is inner or len(programs) == 1)
                return without(inner, {v for v, a in zip(inner.inputs, given, strict=True) if a in dead})

            eqn = without_unread(within(eqn, below))
        eqns.append(eqn)
    return program if len(eqns) == len(program.eqns) and not dead else program.replace(eqns=eqns)


def _place(eqn: Eqn) -> list[tuple[Any, ...]]:
    """Where an access is along each axis: points by what they are, the rest as it stands."""
    index: Index = eqn.params["index"]
    rest = iter(eqn.inputs[1 if eqn.primitive is get_p else 2 :])
    found: list[tuple[Any, ...]] = []
    for axis, entry in enumerate(index):
        start = next(rest) if axis in index.dynamic else entry.start
        found.append((type(entry), start if type(start) in (Var, int) else getattr(start, "key", start), entry))
    return found


def sets_first(program: Program, ref: Var) -> bool:
    """Whether a Program sets what it reads of a Ref before: all of it, or the one part of it that it sees."""
    first = None
    used = {a for e in program.eqns for a in e.inputs} | set(program.outputs)
    for eqn in (e for e in program.eqns if ref in e.inputs):
        if first is None:
            if eqn.primitive is swap_p and eqn.outputs[0] in used:
                return False
            if overwrites(eqn, ref):
                return True
            if eqn.primitive is swap_p and not eqn.params["masked"]:
                first = eqn
            elif reads(program.replace(eqns=[eqn], outputs=()), ref) or eqn.primitive is addupdate_p:
                return False
        elif eqn.primitive not in ACCESSES:
            return False
        else:
            for (kind, at, entry), (kind2, at2, _), n in zip(_place(first), _place(eqn), ref.type.shape, strict=True):
                whole = Index((entry,)).is_whole((n,))
                if not whole and not (kind is kind2 is Point and at == at2):
                    return False
    return first is not None


def _sets(program: Program, eqn: Eqn, ref: Var) -> bool:
    """Whether an equation of a Program sets a whole Ref, or what it sees of it, before anything is read there."""
    if eqn.primitive is scan_p and eqn.params["length"]:
        inner = eqn.params["program"]
        return fills(eqn, ref) or sets_first(inner, inner.inputs[eqn.inputs.index(ref)])
    return overwrites(eqn, ref) and not any(v in e.inputs for e in program.eqns for v in eqn.outputs)


def drop_overwritten(program: Program, local: Sequence[Var], once: bool) -> Program:
    """Drop stores to Refs that are set again before anything reads them, in later cells too unless it runs `once`."""
    live = set()
    for ref in () if once else local:
        first = next((e for e in program.eqns if ref in e.inputs), None)
        if first is not None and not _sets(program, first, ref):
            live.add(ref)
    eqns: list[Eqn] = []
    used = {a for e in program.eqns for a in e.inputs} | set(program.outputs)
    for eqn in reversed(program.eqns):
        one = program.replace(eqns=[eqn], outputs=[v for v in eqn.outputs if v in used])
        here = [r for r in local if r in eqn.inputs]
        read = [r for r in here if reads(one, r)]
        dead = {r for r in here if r not in live and r not in read and writes(eqn, r)}
        eqns[:0] = without(one, dead).eqns if dead else [eqn]
        live -= {r for r in here if _sets(program, eqn, r)}
        live |= {r for r in here if not _sets(program, eqn, r) and (r in read or not writes(eqn, r))}
    return program if eqns == list(program.eqns) else drop_local_writes(program.replace(eqns=eqns), local)


def read_late(program: Program, fixed: frozenset[Any] = frozenset()) -> Program:
    """A Program whose reads of Refs, and what only moves their elements, stand just before what first needs them.

    Reads of Refs in `fixed` stay where they are.
    """
    eqns: list[Eqn] = []  # from the last to the first
    for eqn in reversed(program.eqns):
        refs: list[Any] = [a for a in eqn.inputs if isinstance(a.type, RefType)]
        at = len(eqns)
        if eqn.primitive is get_p and refs[0] not in fixed or eqn.primitive.kind is MOVER and not eqn.effects:
            made = set(eqn.outputs)
            while at and not made.intersection(eqns[at - 1].inputs) and not any(writes(eqns[at - 1], r) for r in refs):
                at -= 1
        elif refs and len(set(refs)) == len(refs) and not fixed.intersection(refs):
            eqn = within(eqn, read_late)
        eqns.insert(at, eqn)
    return program.replace(eqns=eqns[::-1])
