"""The accesses of a body to its Refs, in program order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program, Var
from ...core.ir.types import RefType
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.refs.state_primitives import Index, get_p, swap_p
from ..kernel.traverse import inner_programs


@dataclass(frozen=True)
class Access:
    """One access to a Ref of the body, in the order of the text."""

    primitive: Primitive  # get, swap, addupdate, atomic_rmw or atomic_cas
    index: Index
    params: Any
    used: bool  # whether its result is
    always: bool  # in every cell, and once
    loop: int | None  # which loop of the body's top level it is in
    number: int

    @property
    def reads(self) -> bool:
        return self.primitive is not swap_p or self.used

    @property
    def writes(self) -> bool:
        return self.primitive is not get_p

    @property
    def dynamic(self) -> bool:
        return bool(self.index.dynamic)


def accesses(program: Program) -> dict[Var, list[Access]]:
    """The accesses to every Ref among a Program's inputs, those of inner Programs included."""
    found: dict[Var, list[Access]] = {v: [] for v in program.inputs if isinstance(v.type, RefType)}

    def walk(inner: Program, roots: dict[Var, Var], always: bool, loop: int | None) -> None:
        used = {a for e in inner.eqns for a in e.inputs} | set(inner.outputs)
        for eqn in inner.eqns:
            refs = [a for a in eqn.inputs if type(a) is Var and a in roots]
            if not refs:
                continue
            below = list(inner_programs(eqn))
            for one, taken in below:
                passed = {v: roots[a] for v, a in zip(one.inputs, taken, strict=True) if a in roots}
                repeats = eqn.primitive in (scan_p, while_p)
                here = sum(map(len, found.values())) if repeats and loop is None else loop
                walk(one, passed, always and not repeats and eqn.primitive is not cond_p, here)
            if not below:
                root, number = roots[refs[0]], sum(map(len, found.values()))
                found[root].append(Access(
                    eqn.primitive, eqn.params["index"], eqn.params, any(v in used for v in eqn.outputs), always,
                    loop, number))  # fmt: skip

    walk(program, {v: v for v in found}, True, None)
    return found
