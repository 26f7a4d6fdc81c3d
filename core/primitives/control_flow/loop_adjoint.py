"""The Programs that the reverse sweep of a `while` runs: one iteration forward, and one backwards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.array import ArrayLike
from ...ir.passes import within
from ...ir.program import Eqn, Literal, Program, Var
from ...ir.types import RefType, is_integer
from ...support.errors import DifferentiationError
from ...support.memo import cached
from ...tracing.trace import Tracer, eval_program, trace_program, typeof
from ...transforms.linearize import linearized
from ...transforms.structural_primitives import add_tangents
from ...transforms.transpose import transpose_program
from ..elementwise.arithmetic import add_p, max_p, mul_p, sub_p
from ..elementwise.comparison import lt_p
from ..elementwise.conversion import convert_element_type
from .scan import cut
from .subprograms import chosen, prune, prune_loop, with_output_types

Flags = tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class LoopAdjoint:
    """What the reverse sweep of a loop runs; flags are over what the loop carries.

    `back`: consts, carry, cotangents of the `active` carry, sums of those of the wanted consts -> the last two, anew.
    `step`: consts, carry -> the carry that is in the `state`: what `back` and the condition need, and what changes.
    """

    back: Program
    step: Program
    active: Flags
    read: Flags  # by `back`
    state: Flags
    counters: dict[int, int]  # what is added to a carried integer in each iteration
    bounds: tuple[int, int] | None  # of a condition `carry[i] < carry[j]` that counts by one up to a fixed end

    @property
    def counted(self) -> bool:
        """Whether an iteration backwards reads only what can be counted, so that nothing is kept."""
        return all(k in self.counters for k, used in enumerate(self.read) if used)

    @property
    def kept(self) -> list[Any]:
        """The types of the values that are kept for a checkpoint."""
        consts = len(self.step.inputs) - len(self.state)
        return [] if self.counted else chosen(self.step.in_types[consts:], self.state)


def counter(program: Program, var: Var, out: Var) -> int | None:
    """What a loop's Program adds to a carried integer, where that is a literal; 0 to what stays as it is."""
    if out is var:
        return 0
    eqn = next((e for e in program.eqns if out in e.outputs), None)
    if eqn is None or eqn.primitive is not add_p or not is_integer(var.type.dtype):
        return None
    rest = [a for a in eqn.inputs if a is not var]
    return int(rest[0].value) if len(rest) == 1 and type(rest[0]) is Literal else None


def iterations(start: ArrayLike, end: ArrayLike) -> Any:
    """How many iterations there are from one bound to another."""
    count = max_p.bind(sub_p.bind(end, start), np.zeros((), typeof(end).dtype)[()])
    return convert_element_type(count, np.int32)


def counted_up(start: ArrayLike, number: ArrayLike, step: int) -> Any:
    """A counter after a number of iterations."""
    dtype = typeof(start).dtype
    number = convert_element_type(number, dtype)
    if step != 1:
        number = mul_p.bind(number, np.asarray(step, dtype)[()])
    return number if not isinstance(start, Tracer) and not np.asarray(start) else add_p.bind(start, number)


def silenced(program: Program) -> Program:
    """A Program without the equations that act on the world and give nothing, as prints do: it runs again."""
    live: set[Any] = set(program.outputs)
    kept: list[Eqn] = []
    for eqn in reversed(program.eqns):
        eqn = within(eqn, silenced)
        acts = any(e.kind not in ("read", "axis") and not isinstance(e.operand, int) for e in eqn.effects)
        if acts and live.isdisjoint(eqn.outputs):
            continue
        live.update(eqn.inputs)
        kept.append(eqn)
    return program if len(kept) == len(program.eqns) and kept[::-1] == [*program.eqns] else program.replace(
        eqns=kept[::-1])  # fmt: skip


def check_repeatable(cond: Program, body: Program, refs: bool = False) -> None:
    """Raise unless the iterations of a loop may run again; they may take Refs where `refs` says so.

    Raises:
      DifferentiationError: they act on the world, or on Refs.
    """
    for program in (silenced(cond), silenced(body)):
        for eqn in program.eqns:
            acts = any(e.kind not in ("read", "axis") and not isinstance(e.operand, int) for e in eqn.effects)
            if acts or not refs and any(isinstance(a.type, RefType) for a in eqn.inputs):
                raise DifferentiationError(
                    f"reverse mode of a loop with a computed number of iterations runs them again, and {eqn.primitive}"
                    f" in {program.name} has effects ({', '.join(sorted(e.show() for e in eqn.effects)) or 'a Ref'})",
                    "take it out of the loop, make the bounds static, or give the function a `custom_vjp`",
                    eqn.source,
                )


@cached(1024)
def loop_adjoint(cond: Program, body: Program, cond_nconsts: int, body_nconsts: int, wanted: Flags) -> LoopAdjoint:
    """What the reverse sweep of a loop runs; `wanted` says of which operands of `body` the cotangents are wanted."""
    cond, body = silenced(cond), silenced(body)
    back, active = _back(body, body_nconsts, wanted)
    _, live = prune(back, [True] * len(back.outputs))
    carried = body.inputs[body_nconsts:]
    read = tuple(live[body_nconsts : body_nconsts + len(carried)])
    counters = {k: n for k, (v, out) in enumerate(zip(carried, body.outputs, strict=True))
                if (n := counter(body, v, out)) is not None}  # fmt: skip
    fixed = {k for k, n in counters.items() if not n and body.outputs[k] is carried[k]}
    counted = all(k in counters for k, used in enumerate(read) if used)
    _, tested = prune(cond, [True])
    needed = [t or (r and not counted) for t, r in zip(tested[cond_nconsts:], read, strict=True)]
    _, _, needed = prune_loop(body, needed, body_nconsts)
    state = tuple(n and k not in fixed for k, n in enumerate(needed))
    step, _ = prune(body, state)
    return LoopAdjoint(back, step, active, read, state, counters, bounds_of(cond, cond_nconsts, counters, fixed))


def _back(body: Program, num_consts: int, wanted: Flags) -> tuple[Program, Flags]:
    """One iteration backwards, and which of the carry depends on the wanted operands."""
    flags = wanted
    while True:
        after = linearized(body, flags).out_nonzero
        consts, carry = flags[:num_consts], flags[num_consts:]
        grown = (*consts, *(a or b for a, b in zip(carry, after, strict=True)))
        if grown == flags:
            break
        flags = grown
    parts = linearized(body, flags, carry)
    residuals = len(parts.residuals)
    transposed = transpose_program(parts.linear, (*(False,) * residuals, *(True,) * sum(flags)))
    n, active = len(body.inputs), sum(carry)

    def fun(*args: Any) -> list[Any]:
        operands, cts, sums = cut(args, n, active)
        _, known = parts.gather(operands, eval_program(parts.primal, *operands))
        new_sums, new_cts = cut(eval_program(transposed, *known, *cts), len(sums))
        return [*new_cts, *map(add_tangents, sums, new_sums)]

    types = [t.cotangent() for t in (*chosen(body.in_types[num_consts:], carry),
                                     *chosen(body.in_types[:num_consts], consts))]  # fmt: skip
    made = trace_program(fun, [*body.in_types, *types], f"{body.name}_back")
    return prune(with_output_types(made, types), [True] * len(types))[0], carry


def bounds_of(
    cond: Program, num_consts: int, counters: dict[int, int], fixed: Collection[int]
) -> tuple[int, int] | None:
    """The positions i, j of a condition `carry[i] < carry[j]` that counts by one up to a fixed end."""
    if len(cond.eqns) != 1 or cond.eqns[0].primitive is not lt_p or cond.eqns[0].outputs[0] is not cond.outputs[0]:
        return None
    place = {v: k for k, v in enumerate(cond.inputs[num_consts:])}
    first, last = (place.get(a) if type(a) is Var else None for a in cond.eqns[0].inputs)
    found = first is not None and last in fixed and counters.get(first) == 1
    return (first, last) if found else None  # type: ignore[return-value]


def full_carry(init: Sequence[Any], state: Flags, values: Sequence[Any]) -> list[Any]:
    """What the loop carries, of which only the state is known; what stays as it is, or is not read, is as on entry."""
    rest = iter(values)
    return [next(rest) if s else x for x, s in zip(init, state, strict=True)]
