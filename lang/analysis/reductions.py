"""Kernels that only add up, split in three.

Where every state (a scratch, or an output whose block several cells see) is only reset in the first cell of a run,
added to in any cell, and read (or overwritten) in the last, the kernel is `Phases`:

    init    the resets, run at the first cell          states := init
    main    what every cell adds and emits             states += main, in any order
    final   what the last cell makes of the sums       outputs := final(states)

Each is a Program with the inputs of the body (ids and Refs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.ir.program import Atom, Eqn, Program, Var
from ...core.ir.types import RefType
from ...core.primitives.control_flow.subprograms import shifted
from ...core.primitives.elementwise.comparison import eq_p
from ...core.primitives.refs.state_primitives import addupdate_p, swap_p
from ...core.tracing.trace import eval_program, trace_program
from ..ops.basic import when
from .dead_stores import drop_local_writes, reads
from .loop_carried import Axes, Carries, Guard, branches, overwrites


@dataclass(frozen=True, eq=False)
class Phases:
    """A kernel of additive carries. `states` and `local` are indices of the body's inputs."""

    carry: Axes
    states: tuple[int, ...]
    init: Program
    main: Program
    final: Program


def _under(guard: Guard, program: Program) -> Program:
    """A phase of a guarded body, run only where the guard's test holds."""

    def fun(*args: Any) -> list[Any]:
        (index,) = eval_program(guard.test, *args)
        given = guard.test.outputs[0].type.dtype.type(guard.taken)
        when(eq_p.bind(index, given))(lambda: eval_program(program, *args))
        return []

    return trace_program(fun, program.in_types, program.name)


class _NotAdditive(Exception):
    pass


class _Splitter:
    """Sorts the equations of a body into init, main and final."""

    def __init__(self, known: Carries):
        kernel = known.kernel
        self.kernel, self.known, self.carry = kernel, known, known.carry
        _, self.first_in, self.first_out, self.first_scratch, end = kernel.splits
        refs = kernel.body.inputs
        self.states: set[Var] = set()
        self.emitted: set[Var] = set()
        self.local: set[Var] = set()
        for number, ref in enumerate(refs[self.first_out : self.first_scratch]):
            ignored = known.ignored(number)
            if ignored is None or (ignored and ignored != self.carry) or known.shared(number):
                raise _NotAdditive
            (self.states if ignored else self.emitted).add(ref)
        for position, ref in enumerate(refs[self.first_scratch : end], self.first_scratch):
            own = known.live(position)
            if own and own != self.carry:
                raise _NotAdditive
            (self.states if own else self.local).add(ref)
        self.parts: dict[str, list[Eqn]] = {"init": [], "main": [], "final": []}
        self.phase: dict[Var, str] = {}  # how far each state has come
        self.home: dict[Var, str] = {}  # the only phase in which a variable is bound

    def put(self, eqn: Eqn, *phases: str) -> None:
        for phase in phases:
            self.parts[phase].append(eqn)
        if len(phases) == 1:
            self.home.update((v, phases[0]) for v in eqn.outputs)

    def homes(self, eqn: Eqn) -> set[str]:
        return {self.home[a] for a in eqn.inputs if type(a) is Var and a in self.home}

    def advance(self, ref: Var, phase: str) -> None:
        order = ("init", "main", "final")
        now = self.phase.get(ref, "init")
        if order.index(phase) < order.index(now):
            raise _NotAdditive
        self.phase[ref] = phase

    def run(self) -> Phases:
        for eqn in self.kernel.body.eqns:
            self.one(eqn)
        body = self.kernel.body
        programs = {
            name: drop_local_writes(body.replace(eqns=eqns, outputs=(), name=f"{body.name}_{name}"), list(self.local))
            for name, eqns in self.parts.items()
        }
        states = tuple(i for i, v in enumerate(body.inputs) if v in self.states)
        return Phases(self.carry, states, **programs)

    def one(self, eqn: Eqn) -> None:
        ref0: Any = eqn.inputs[0] if eqn.inputs else None
        touched: set[Any] = {a for a in eqn.inputs if isinstance(a.type, RefType)}
        states: set[Any] = touched & self.states
        emitted = touched & self.emitted
        homes = self.homes(eqn)
        if len(homes) > 1:
            raise _NotAdditive
        if not states and not emitted:
            # What speaks to the world does so once in every cell; the rest is there for whoever needs it.
            speaks = any(e.kind in ("callback", "ordered") for e in eqn.effects)
            self.put(eqn, *(homes or (("main",) if speaks else ("init", "main", "final"))))
            return
        found = None if homes or eqn.outputs else branches(self.kernel, eqn)
        if found is not None:
            for taken, (program, cells) in enumerate(found):
                if cells.any() and program.eqns:
                    self.branch(eqn, taken, program, cells)
            return
        if emitted and not states:
            self.emit(eqn, homes)
        elif eqn.primitive is addupdate_p and len(states) == 1 and homes <= {"main"}:
            (ref,) = states
            self.advance(ref, "main")
            self.put(eqn, "main")
        elif eqn.primitive is swap_p and homes <= {"final"} and self.last_wins(eqn, ref0):
            self.advance(ref0, "final")
            self.put(eqn, "final")
        else:
            raise _NotAdditive

    def last_wins(self, eqn: Eqn, ref: Var) -> bool:
        """Whether every cell overwrites a state that none reads, so that the last cell's store is what stays."""
        body = self.kernel.body
        return not _uses(body, eqn.outputs) and overwrites(eqn, ref) and not reads(body, ref)

    def emit(self, eqn: Eqn, homes: set[str]) -> None:
        """An access to an output block that this cell alone sees."""
        if self.carry and not homes <= {"main"}:
            raise _NotAdditive
        self.put(eqn, "main")

    def branch(self, eqn: Eqn, taken: int, program: Program, cells: np.ndarray) -> None:
        """The branch of a `when` taken in the given cells."""
        refs: set[Any] = {a for e in program.eqns for a in e.inputs if isinstance(a.type, RefType)}
        states, emitted = refs & self.states, refs & self.emitted
        if cells.all() or not self.carry:
            if not cells.all():
                self.keep_when(eqn, taken)
                return
            for inner in program.eqns:
                self.one(inner)
        elif not emitted and (cells == self.known.ends(self.carry, False)).all() and self.only_resets(program, states):
            for ref in states:
                self.advance(ref, "init")
            self.parts["init"] += program.eqns
        elif not emitted and (cells == self.known.ends(self.carry, True)).all():
            for ref in states:
                self.advance(ref, "final")
            self.parts["final"] += program.eqns
        else:
            self.keep_when(eqn, taken)

    def only_resets(self, program: Program, states: set[Var]) -> bool:
        return all(
            overwrites(e, a) and not _uses(program, e.outputs) for e in program.eqns for a in e.inputs if a in states
        )

    def keep_when(self, eqn: Eqn, taken: int) -> None:
        """A `when` that stays one in main: it may add to states and write what is emitted."""
        program = eqn.params["branches"][taken]
        for effect in program.effects:
            if not isinstance(effect.operand, int):
                continue
            ref = eqn.inputs[1 + effect.operand]
            if ref in self.states:
                if effect.kind != "accumulate":
                    raise _NotAdditive
                self.advance(ref, "main")
        branches = list(eqn.params["branches"])
        other = branches[1 - taken]
        branches[1 - taken] = other.replace(eqns=())
        self.put(eqn.replace(params={"branches": tuple(branches)}, effects=shifted(program.effects, 1)), "main")


def _uses(program: Program, outputs: Sequence[Atom]) -> bool:
    wanted = set(outputs)
    return any(a in wanted for e in program.eqns for a in e.inputs)


def split(known: Carries) -> Phases | None:
    """The three parts of a kernel whose carries are additive; None for any other, or where sizes are computed."""
    if known.kernel.extents:
        return None
    inner = None if known.guarded is None else split(known.guarded)
    if inner is not None and inner.carry and known.guard is not None:
        return replace(inner, **{n: _under(known.guard, getattr(inner, n)) for n in ("init", "main", "final")})
    try:
        return _Splitter(known).run()
    except _NotAdditive:
        return None
