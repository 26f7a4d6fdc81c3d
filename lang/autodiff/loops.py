"""Reverse mode of loops: saves loop-carried values in scratch.

    forward     the loop, which also keeps what it carries on entry to each iteration, where the derivative reads it
    backward    the iterations from the last to the first: each runs again from what was kept, then backwards

What would take more than `BYTES` is kept every few iterations: the loop becomes nested loops, whose inner ones keep
what they carry while they are run again. Carried counters are counted and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...core.ir.primitive import Zero
from ...core.ir.program import Eqn, Literal, Program, Var
from ...core.ir.types import ArrayType, MemorySpace, RefType, is_inexact
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import bind_scan, scan_p
from ...core.primitives.elementwise.arithmetic import add_p, mul_p, sub_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.refs.ref_views import view, write
from ...core.support.memo import cached, kept
from ...core.tracing.trace import Tracer, eval_program, trace_program
from ...core.transforms.rule_helpers import instantiate
from ...core.transforms.structural_primitives import add_tangents
from ..analysis.dead_stores import drop_local_writes
from ..transforms.discharge import written
from .branches import RESIDUALS, Choice, residual_bytes
from .functionalize_control import is_far, is_turns

BYTES = 2**18
Flags = tuple[bool, ...]


def dependent(program: Program, active: Sequence[bool]) -> list[bool]:
    """Which outputs of a Program depend on its active inputs (Refs too), through numbers that have derivatives."""
    live = {v for v, a in zip(program.inputs, active, strict=True) if a}
    for eqn in program.eqns:
        if any(a in live for a in eqn.inputs):
            live.update(v for v in eqn.outputs if is_inexact(v.type.dtype))
    return [a in live for a in program.outputs]


def _counter(program: Program, var: Var, out: Any) -> int | None:
    """What a loop adds to a carried integer in each iteration, where that is a literal; 0 to what stays as it is."""
    eqn = next((e for e in program.eqns if out in e.outputs), None)
    if out is var or eqn is None or eqn.primitive is not add_p or is_inexact(var.type.dtype):
        return 0 if out is var else None
    rest = [a for a in eqn.inputs if a is not var]
    return int(rest[0].value) if len(rest) == 1 and type(rest[0]) is Literal else None


def _looped(program: Program, consts: int, length: int) -> Program:
    """A Program that takes some iterations of a loop."""
    eqn = Eqn(scan_p, program.inputs, [Var(a.type) for a in program.outputs],
              {"program": program, "length": length, "reverse": False, "unroll": 1, "num_consts": consts,
               "num_carry": len(program.inputs) - consts}, program.effects)  # fmt: skip
    return Program(program.inputs, [eqn], eqn.outputs, name=program.name)


class LoopAdjoint:
    """A loop of a cell, to be run backwards; `active` says which of what it takes has a tangent."""

    def __init__(self, eqn: Eqn, active: Sequence[bool], back: Callable[..., Any]):
        self.consts: int = eqn.params["num_consts"]
        self.length: int = eqn.params["length"]
        self.step: Program = eqn.params["program"]
        self.how = {"reverse": False, "unroll": eqn.params["unroll"]}
        self.record_back = back
        while True:
            after = dependent(self.step, active)
            grown = [*active[: self.consts], *(a or b for a, b in zip(active[self.consts :], after, strict=True))]
            if grown == list(active):
                break
            active = grown
        self.active = tuple(active)
        self.counters = self._counters()
        every = self._every()
        if every:
            self.step, self.length = _looped(self.step, self.consts, every), self.length // every
            self.counters = {k: n * every for k, n in self.counters.items()}
            for name in ("saved", "inner", "back()"):
                self.__dict__.pop(name, None)

    @property
    def carried(self) -> list[Var]:
        return list(self.step.inputs[self.consts :])

    def _every(self) -> int:
        """How many iterations apart what the loop carries is kept; 0: in each."""
        size = sum(self.carried[k].type.nbytes for k in self.saved)
        if size * self.length <= BYTES:
            return 0
        parts = [n for n in range(2, self.length) if self.length % n == 0]
        best = min(parts, key=lambda n: self.length // n + n, default=0)
        return best if best and (self.length // best + best) * 2 < self.length else 0

    first = 0  # the operand that the first input of the loop's Program is

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self.step,)

    @property
    def derived(self) -> Flags:
        """Which of what the loop gives has a tangent."""
        return self.active[self.consts :]

    # ------------------------------------------------------------ one iteration backwards

    def _counters(self) -> dict[int, int]:
        """What is added in each iteration to what is carried, by position among it."""
        found = {k: _counter(self.step, v, self.step.outputs[k]) for k, v in enumerate(self.carried)}
        return {k: n for k, n in found.items() if n is not None}

    def positions(self, refs: bool, first: int = 0, last: int | None = None) -> list[int]:
        """The inputs of an iteration that have a tangent: Refs, or values."""
        types = self.step.in_types[:last]
        return [i for i, t in enumerate(types) if self.active[i] and i >= first and isinstance(t, RefType) is refs]

    @kept
    def back(self, given: tuple[int, ...]) -> Program:
        """An iteration backwards: takes operands, Refs of cotangents (of inputs `given`), cotangents of the carry, sums
        of those of its constants, and its work space; gives new cotangents of the carry, and sums."""
        step, n = self.step, len(self.step.inputs)
        carried, summed = self.positions(False, self.consts), self.positions(False, 0, self.consts)
        types: list[Any] = [*step.in_types, *(step.inputs[i].type.tangent() for i in (*given, *carried, *summed))]
        inner = self.inner
        active = [i for i, a in enumerate(self.active) if a]

        def fun(*args: Any) -> list[Any]:
            rest = iter(args[n:])
            refs = {i: next(rest) for i in given}
            cts = {i: next(rest) for i in carried}
            sums = {i: next(rest) for i in summed}
            outs = [cts.get(self.consts + k, Zero(a.type.tangent())) for k, a in enumerate(step.outputs)]
            values = self.record_back(step, args[:n], active, list(rest), refs, outs)
            new = [instantiate(values.get(i, Zero(step.inputs[i].type.tangent()))) for i in carried]
            return [*new, *(add_tangents(sums[i], values[i]) if i in values else sums[i] for i in summed)]

        made = trace_program(fun, [*types, *inner], f"{step.name}_back")
        return drop_local_writes(made, [made.inputs[i] for i in written(step)])

    @cached_property
    def inner(self) -> list[RefType]:
        """The work space of the loops within an iteration."""
        return spaces(self.step, tuple(i for i, a in enumerate(self.active) if a), self.record_back)

    @cached_property
    def saved(self) -> tuple[int, ...]:
        """What is kept, by position among what is carried: what an iteration backwards reads, but for counters."""
        back = self.back(tuple(self.positions(True)))
        used = {a for e in back.eqns for a in e.inputs} | set(back.outputs)
        return tuple(k for k in range(len(self.carried))
                     if back.inputs[self.consts + k] in used and k not in self.counters)  # fmt: skip

    @property
    def space(self) -> list[RefType]:
        """The scratch that the loop keeps what it carries in, then that of the loops within."""
        own = []
        for k in self.saved:
            type = self.carried[k].type
            space = MemorySpace.VMEM if type.shape else MemorySpace.SMEM
            own.append(RefType(ArrayType((self.length, *type.shape), type.dtype), space))
        return [*own, *self.inner]

    # ------------------------------------------------------------ the loop

    def forward(self, primals: Sequence[Any], space: Sequence[Any]) -> list[Any]:
        """Run the loop, and keep what it carries."""
        consts, init = primals[: self.consts], primals[self.consts :]

        def iteration(number: Any, *carry: Any) -> list[Any]:
            for k, ref in zip(self.saved, space, strict=False):
                write(view(ref, (number,)), carry[k])
            return [add_p.bind(number, np.int32(1)), *eval_program(self.step, *consts, *carry)]

        types = [ArrayType((), np.dtype(np.int32)), *(v.type for v in self.carried)]
        body = trace_program(iteration, types, self.step.name)
        return bind_scan(body, [], [np.int32(0), *init], [], length=self.length, **self.how)[1:]

    def backward(
        self, primals: Sequence[Any], space: Sequence[Any], refs: dict[int, Any], cts: Sequence[Any]
    ) -> dict[int, Any]:
        """Run the loop backwards: Refs of cotangents by input, those of what it gives; gives those of the values."""
        consts, init = primals[: self.consts], primals[self.consts :]
        given = tuple(sorted(refs))
        back, inner = self.back(given), space[len(self.saved) :]
        carried, summed = self.positions(False, self.consts), self.positions(False, 0, self.consts)
        start = [instantiate(cts[i - self.consts]) for i in carried]
        start += [instantiate(Zero(self.step.inputs[i].type.tangent())) for i in summed]

        def iteration(number: Any, *carried: Any) -> list[Any]:
            at = sub_p.bind(np.int32(self.length - 1), number)
            kept = {k: view(ref, (at,))[...] for k, ref in zip(self.saved, space, strict=False)}
            values = [kept[k] if k in kept else self.count(k, at, init[k]) for k in range(len(init))]
            outs = eval_program(back, *consts, *values, *(refs[i] for i in given), *carried, *inner)
            return [add_p.bind(number, np.int32(1)), *outs]

        types = [ArrayType((), np.dtype(np.int32)), *(self.step.inputs[i].type.tangent() for i in (*carried, *summed))]
        body = trace_program(iteration, types, f"{self.step.name}_back")
        outs = bind_scan(body, [], [np.int32(0), *start], [], length=self.length, **self.how)[1:]
        return dict(zip((*carried, *summed), outs, strict=True))

    def count(self, k: int, at: Any, start: Any) -> Any:
        """A counter in an iteration; zeros for what nothing reads."""
        type = self.carried[k].type
        if not self.counters.get(k):
            return start if k in self.counters else instantiate(Zero(type))
        at = convert_element_type(at, type.dtype)
        if self.counters[k] != 1:
            at = mul_p.bind(at, np.asarray(self.counters[k], type.dtype)[()])
        return at if not isinstance(start, Tracer) and not start else add_p.bind(start, at)


@cached(1024)
def loops_of(program: Program, active: tuple[int, ...], back: Callable[..., Any]) -> dict[Eqn, LoopAdjoint | Choice]:
    """The loops of a Program that are run backwards, and branches over far memory, by equation.

    `active` inputs have tangents.
    """
    live = {program.inputs[i] for i in active}
    found: dict[Eqn, LoopAdjoint | Choice] = {}
    for eqn in program.eqns:
        flags = [a in live for a in eqn.inputs]
        if not any(flags):
            continue
        live.update(v for v in eqn.outputs if is_inexact(v.type.dtype))
        if is_turns(eqn):
            found[eqn] = LoopAdjoint(eqn, flags, back)
        elif is_far(eqn) or eqn.primitive is cond_p and residual_bytes(eqn, flags) > RESIDUALS:
            found[eqn] = Choice(eqn, flags, dependent, back, spaces)
    return found


def spaces(program: Program, active: tuple[int, ...], back: Callable[..., Any]) -> list[RefType]:
    """The scratch that the loops of a Program need."""
    return [type for loop in loops_of(program, active, back).values() for type in loop.space]
