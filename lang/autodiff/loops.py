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

from ...core.ir.array import Array, ArrayLike
from ...core.ir.primitive import Zero
from ...core.ir.program import Eqn, Program, Var
from ...core.ir.types import ArrayType, MemorySpace, RefType, is_inexact
from ...core.primitives.control_flow.checkpointed_sweep import CHECKPOINTS, LEAST, Room, reverse_sweep, room_for
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.loop_adjoint import bounds_of, check_repeatable, counted_up, counter, iterations
from ...core.primitives.control_flow.scan import bind_scan, cut, scan_p
from ...core.primitives.control_flow.while_loop import while_loop, while_p
from ...core.primitives.elementwise.arithmetic import add_p, sub_p
from ...core.primitives.refs.ref_views import view, write
from ...core.support.memo import cached, kept
from ...core.tracing.trace import eval_program, trace_program
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


def _looped(program: Program, consts: int, length: int) -> Program:
    """A Program that takes some iterations of a loop."""
    eqn = Eqn(scan_p, program.inputs, [Var(a.type) for a in program.outputs],
              {"program": program, "length": length, "reverse": False, "unroll": 1, "num_consts": consts,
               "num_carry": len(program.inputs) - consts}, program.effects)  # fmt: skip
    return Program(program.inputs, [eqn], eqn.outputs, name=program.name)


class IterationAdjoint:
    """An iteration of a loop of a cell, to be run backwards: `step` takes `consts` constants, then what is carried.

    `active` says which of what it takes has a tangent.
    """

    step: Program
    consts: int
    active: Flags
    record_back: Callable[..., Any]
    counters: dict[int, int]
    first = 0  # the operand that the first input of `step` is

    def __init__(self, step: Program, consts: int, active: Sequence[bool], back: Callable[..., Any]):
        self.step, self.consts, self.record_back = step, consts, back
        while True:
            after = dependent(step, active)
            grown = [*active[:consts], *(a or b for a, b in zip(active[consts:], after, strict=True))]
            if grown == list(active):
                break
            active = grown
        self.active = tuple(active)
        self.counters = self._counters()

    @property
    def carried(self) -> list[Var]:
        return list(self.step.inputs[self.consts :])

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self.step,)

    @property
    def derived(self) -> Flags:
        """Which of what the loop gives has a tangent."""
        return self.active[self.consts :]

    def _counters(self) -> dict[int, int]:
        """What is added in each iteration to what is carried, by position among it."""
        found = {k: counter(self.step, v, self.step.outputs[k]) for k, v in enumerate(self.carried)}
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

    def count(self, k: int, at: ArrayLike, start: ArrayLike) -> Any:
        """A counter in an iteration; zeros for what nothing reads."""
        if not self.counters.get(k):
            return start if k in self.counters else instantiate(Zero(self.carried[k].type))
        return counted_up(start, at, self.counters[k])


class LoopAdjoint(IterationAdjoint):
    """A loop of a static number of iterations, to be run backwards."""

    step: Program

    def __init__(self, eqn: Eqn, active: Sequence[bool], back: Callable[..., Any]):
        super().__init__(eqn.params["program"], eqn.params["num_consts"], active, back)
        self.length: int = eqn.params["length"]
        self.how: dict[str, Any] = {"reverse": False, "unroll": eqn.params["unroll"]}
        every = self._every()
        if every:
            self.step, self.length = _looped(self.step, self.consts, every), self.length // every
            self.counters: dict[int, int] = {k: n * every for k, n in self.counters.items()}
            for name in ("saved", "inner", "back()"):
                self.__dict__.pop(name, None)

    def _every(self) -> int:
        """How many iterations apart what the loop carries is kept; 0: in each."""
        size = sum(self.carried[k].type.nbytes for k in self.saved)
        if size * self.length <= BYTES:
            return 0
        parts = [n for n in range(2, self.length) if self.length % n == 0]
        best = min(parts, key=lambda n: self.length // n + n, default=0)
        return best if best and (self.length // best + best) * 2 < self.length else 0

    # ------------------------------------------------------------ the loop

    @property
    def space(self) -> list[RefType]:
        """The scratch that the loop keeps what it carries in, then that of the loops within."""
        return [*(_slots(self.carried[k].type, self.length) for k in self.saved), *self.inner]

    def forward(self, primals: Sequence[Any], space: Sequence[Any]) -> list[Any]:
        """Run the loop, and keep what it carries."""
        consts, init = primals[: self.consts], primals[self.consts :]

        def iteration(number: Array, *carry: Any) -> list[Any]:
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

        def iteration(number: Array, *carried: Any) -> list[Any]:
            at = sub_p.bind(np.int32(self.length - 1), number)
            kept = {k: view(ref, (at,))[...] for k, ref in zip(self.saved, space, strict=False)}
            values = [kept[k] if k in kept else self.count(k, at, init[k]) for k in range(len(init))]
            outs = eval_program(back, *consts, *values, *(refs[i] for i in given), *carried, *inner)
            return [add_p.bind(number, np.int32(1)), *outs]

        types = [ArrayType((), np.dtype(np.int32)), *(self.step.inputs[i].type.tangent() for i in (*carried, *summed))]
        body = trace_program(iteration, types, f"{self.step.name}_back")
        outs = bind_scan(body, [], [np.int32(0), *start], [], length=self.length, **self.how)[1:]
        return dict(zip((*carried, *summed), outs, strict=True))

class Slots:
    """Slots for states in Refs, one for each value of a state: a store of `reverse_sweep` that loops do not carry."""

    def __init__(self, refs: Sequence[Any]):
        self.refs = refs

    def empty(self, state: Sequence[Any]) -> Sequence[Any]:
        return ()

    def put(self, slots: Sequence[Any], index: ArrayLike, state: Sequence[Any]) -> Sequence[Any]:
        for ref, value in zip(self.refs, state, strict=True):
            write(view(ref, (index,)), value)
        return ()

    def get(self, slots: Sequence[Any], index: ArrayLike) -> Sequence[Any]:
        return tuple(view(ref, (index,))[...] for ref in self.refs)


class WhileAdjoint(IterationAdjoint):
    """A loop of a computed number of iterations, to be run backwards from checkpoints in scratch of a fixed size."""

    def __init__(self, eqn: Eqn, active: Sequence[bool], back: Callable[..., Any]):
        self.params: dict[str, Any] = eqn.params
        self.cond: Program = eqn.params["cond_program"]
        self.first: int = eqn.params["cond_nconsts"]
        check_repeatable(self.cond, self.params["body_program"], refs=True)
        super().__init__(eqn.params["body_program"], eqn.params["body_nconsts"], active[self.first :], back)

    @cached_property
    def tested(self) -> list[int]:
        """What the condition reads, by position among what is carried."""
        used = {a for e in self.cond.eqns for a in e.inputs} | set(self.cond.outputs)
        return [k for k, v in enumerate(self.cond.inputs[self.first :]) if v in used]

    @cached_property
    def advancing(self) -> tuple[Program, tuple[int, ...]]:
        """An iteration forward without what it stores, and the state: what is carried that it needs, and changes."""
        needed, refs = {*self.tested, *self.saved}, [self.step.inputs[i] for i in written(self.step)]
        while True:
            state = tuple(k for k in sorted(needed) if self.step.outputs[k] is not self.carried[k])
            made = drop_local_writes(self.step.replace(outputs=[self.step.outputs[k] for k in state]), refs)
            used = {a for e in made.eqns for a in e.inputs} | set(made.outputs)
            more = {k for k, v in enumerate(made.inputs[self.consts :]) if v in used}
            if more <= needed:
                return made, state
            needed |= more

    @cached_property
    def room(self) -> Room:
        """How many states are kept: as many as are asked for, or as `BYTES` have room for."""
        size = sum(self.carried[k].type.nbytes for k in self.advancing[1])
        return room_for(self.params.get("checkpoints") or max(LEAST, min(CHECKPOINTS, BYTES // max(size, 1))))

    @property
    def kept(self) -> tuple[int, int]:
        """How many states are kept, and the bytes of each."""
        if not self.saved:
            return 0, 0
        return self.room.stack + self.room.tape, sum(self.carried[k].type.nbytes for k in self.advancing[1])

    @property
    def space(self) -> list[RefType]:
        """The slots of the stack, those of the tape, then the scratch of the loops within; none of a counted loop."""
        if not self.saved:
            return self.inner
        types = [self.carried[k].type for k in self.advancing[1]]
        numbers = ArrayType((), np.dtype(np.int32))
        return [*(_slots(t, self.room.stack) for t in (numbers, *types)), *(_slots(t, self.room.tape) for t in types),
                *self.inner]  # fmt: skip

    def forward(self, primals: Sequence[Any], space: Sequence[Any]) -> list[Any]:
        """Run the loop."""
        return while_p.bind(*primals, **self.params)

    def backward(
        self, primals: Sequence[Any], space: Sequence[Any], refs: dict[int, Any], cts: Sequence[Any]
    ) -> dict[int, Any]:
        """Run the loop backwards: Refs of cotangents by operand, those of what it gives; gives those of the values."""
        tests, consts, init = cut(primals, self.first, self.consts)
        program, state = self.advancing
        given = tuple(sorted(i - self.first for i in refs))
        back, inner = self.back(given), space[len(self.space) - len(self.inner) :]
        carried, summed = self.positions(False, self.consts), self.positions(False, 0, self.consts)
        start = [instantiate(cts[i - self.consts]) for i in carried]
        start += [instantiate(Zero(self.step.inputs[i].type.tangent())) for i in summed]

        def full(values: Sequence[Any]) -> list[Any]:
            known = dict(zip(state, values, strict=True))
            return [known.get(k, x) for k, x in enumerate(init)]

        def going(values: Sequence[Any]) -> Any:
            return eval_program(self.cond, *tests, *full(values))[0]

        def advance(values: Sequence[Any]) -> list[Any]:
            return eval_program(program, *consts, *full(values))

        def turn(carry: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            return eval_program(back, *consts, *carry, *(refs[i + self.first] for i in given), *cts, *inner)

        first = tuple(init[k] for k in state)
        if self.saved:
            slots = Slots(space[: len(state) + 1]), Slots(space[len(state) + 1 : 2 * len(state) + 1])
            outs = reverse_sweep(
                while_loop, going, advance, lambda s, c: turn(full(s), c), first, start, self.room, slots)
        else:
            outs = self._counted(going, advance, turn, init, first, start)
        return {i + self.first: x for i, x in zip((*carried, *summed), outs, strict=True)}

    def _counted(
        self, going: Callable[..., Any], advance: Callable[..., Any], turn: Callable[..., Any], init: Sequence[Any],
        first: Sequence[Any], start: Sequence[Any],
    ) -> Sequence[Any]:  # fmt: skip
        """Run backwards what reads only counters: nothing is kept, and nothing run again."""
        fixed = {k for k in self.counters if self.step.outputs[k] is self.carried[k]}
        bounds, one = bounds_of(self.cond, self.first, self.counters, fixed), np.int32(1)
        if bounds is not None:
            number = iterations(*(init[k] for k in bounds))
        else:
            number, _ = while_loop(lambda c: going(c[1]), lambda c: (c[0] + one, tuple(advance(c[1]))),
                                   (np.int32(0), tuple(first)))  # fmt: skip

        def iteration(c: Sequence[Any]) -> Any:
            at = c[0] - one
            return at, tuple(turn([self.count(k, at, x) for k, x in enumerate(init)], c[1]))

        return while_loop(lambda c: c[0] > np.int32(0), iteration, (number, tuple(start)))[1]


def _slots(type: ArrayType, size: int) -> RefType:
    space = MemorySpace.VMEM if type.shape else MemorySpace.SMEM
    return RefType(ArrayType((size, *type.shape), type.dtype), space)


@cached(1024)
def loops_of(
    program: Program, active: tuple[int, ...], back: Callable[..., Any]
) -> dict[Eqn, IterationAdjoint | Choice]:
    """The loops of a Program that are run backwards, and branches over far memory, by equation.

    `active` inputs have tangents.
    """
    live = {program.inputs[i] for i in active}
    found: dict[Eqn, IterationAdjoint | Choice] = {}
    for eqn in program.eqns:
        flags = [a in live for a in eqn.inputs]
        if not any(flags):
            continue
        live.update(v for v in eqn.outputs if is_inexact(v.type.dtype))
        if is_turns(eqn):
            found[eqn] = LoopAdjoint(eqn, flags, back)
        elif eqn.primitive is while_p:
            found[eqn] = WhileAdjoint(eqn, flags, back)
        elif is_far(eqn) or eqn.primitive is cond_p and residual_bytes(eqn, flags) > RESIDUALS:
            found[eqn] = Choice(eqn, flags, dependent, back, spaces)
    return found


def spaces(program: Program, active: tuple[int, ...], back: Callable[..., Any]) -> list[RefType]:
    """The scratch that the loops of a Program need."""
    return [type for loop in loops_of(program, active, back).values() for type in loop.space]
