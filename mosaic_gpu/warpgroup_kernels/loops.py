"""Loops and branches of a kernel for warpgroups, through which goes what they carry and change of registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.ir.passes import primitives_of
from ...core.ir.primitive import Primitive
from ...core.ir.program import Literal, Program
from ...core.ir.types import ArrayType
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.elementwise.arithmetic import add_p
from ...core.primitives.elementwise.comparison import lt_p
from ...lang.legalize import Unfit
from ...lang.transforms.discharge import written
from ...lang.warpgroups.products import wait_products_p
from ..refs import Carried, Register
from ..rules.cond import RULES as CONTROL
from ..text import Int
from ..values import Lazy
from .memory import Barriers


def _cond(e: Any, operands: list[Any], outs: list[Any], branches: Sequence[Program]) -> list[Any]:
    sums = any(isinstance(x, Register) and not isinstance(x, Barriers) for x in operands[1:])
    if sums or any(wait_products_p in primitives_of(program) for program in branches):
        e.wait()
    groups, e.groups = e.groups, []  # products that the branches have nothing to do with
    found = CONTROL[cond_p](e, operands, outs, branches=branches)
    e.groups = groups
    e.apart()
    return found


def _scan(e: Any, operands: list[Any], outs: list[Any], program: Program, num_consts: int, num_carry: int,
          length: int, **params: Any) -> list[Any]:  # fmt: skip
    if len(operands) != num_consts + num_carry or len(outs) != num_carry:
        raise Unfit("a loop over slices of arrays: loop over a range, and index Refs by its number")
    return _loop(e, program, operands[:num_consts], operands[num_consts:], length)


def _while(e: Any, operands: list[Any], outs: list[Any], cond_program: Program, body_program: Program,
           cond_nconsts: int, body_nconsts: int, **params: Any) -> list[Any]:  # fmt: skip
    n = cond_nconsts + body_nconsts
    carry = operands[n:]
    tests, turn = cond_program.eqns, body_program
    first = turn.inputs[body_nconsts:]
    steps = [q for q in turn.eqns if q.outputs and q.outputs[0] is turn.outputs[0]]
    counted = (
        len(tests) == 1 and tests[0].primitive is lt_p and not cond_nconsts
        and tests[0].inputs == tuple(cond_program.inputs[:2]) and turn.outputs[1] is first[1] and len(steps) == 1
        and steps[0].primitive is add_p and steps[0].inputs[0] is first[0]
        and isinstance(steps[0].inputs[1], Literal) and int(steps[0].inputs[1].value) == 1
    )  # fmt: skip
    if not counted:
        return _repeat(e, cond_program, turn, operands[:cond_nconsts], operands[cond_nconsts:n], carry)
    count = e.p.int("subi", e.integer(carry[1]), e.integer(carry[0]))
    return _loop(e, turn, operands[cond_nconsts:n], carry, count)


def _registers(carry: Sequence[Register], *reads: tuple[Program, list[Any]]) -> list[Register]:
    """The registers that Programs change, given the operands of each, and those that a loop carries."""
    changed = [xs[i] for program, xs in reads for i in sorted(written(program)) if i < len(xs)]
    return [*dict.fromkeys(r for r in changed if isinstance(r, Register)), *carry]


def _iteration(e: Any, program: Program, consts: list[Any], carried: Sequence[Register]) -> None:
    """One iteration: the Program's results become what is carried."""
    found = e.inline(program, [*consts, *(_number(e, r) for r in carried)])
    for register, value in zip(carried, found, strict=True):
        register.value = e.settled_value(value)


def _loop(e: Any, program: Program, consts: list[Any], carry: list[Any], count: Int) -> list[Any]:
    """`count` iterations of a Program; products that one leaves unfinished are awaited in the next."""
    carried = [Register(ArrayType(x.shape, x.dtype), x) for x in map(e.settled_value, carry)]
    e.wait()
    state = Carried(e, _registers(carried, (program, consts)), [lambda: _iteration(e, program, consts, carried)])

    def body(i: str, *names: str) -> list[str]:
        state.rename(names)
        e.pending(state.late)
        _iteration(e, program, consts, carried)
        found = state.names()
        e.groups = []
        return found

    start, types = state.names(), state.types
    state.restore(e.p.loop(0, count, start, types, body))
    e.pending(state.late)
    e.apart()
    return [_number(e, r) for r in carried]


def _repeat(e: Any, test: Program, program: Program, given: list[Any], consts: list[Any], carry: list[Any]
            ) -> list[Any]:  # fmt: skip
    """Iterations of a Program while a test, which has the same result in all threads, holds of what is carried."""
    carried = [Register(ArrayType(x.shape, x.dtype), x) for x in map(e.settled_value, carry)]
    e.wait()

    def tested() -> str:
        (found,) = e.inline(test, [*given, *(_number(e, r) for r in carried)])
        name = e.settled_value(found).at(e.p, ())
        e.wait()
        return name

    def iteration() -> None:
        _iteration(e, program, consts, carried)
        e.wait()

    def both() -> None:
        tested()
        iteration()

    state = Carried(e, _registers(carried, (test, given), (program, consts)), [both])

    def before(*names: str) -> tuple[str, list[str]]:
        state.rename(names)
        return tested(), state.names()

    def after(*names: str) -> list[str]:
        state.rename(names)
        iteration()
        return state.names()

    start = state.names()
    state.restore(e.p.repeat(start, state.types, before, after))
    e.apart()
    return [_number(e, r) for r in carried]


def _number(e: Any, register: Register) -> Any:
    """What a carried register holds; a scalar is one that all threads have."""
    held = register.value
    if register.array.shape or isinstance(held, Lazy):
        return held
    name = e.word(held)
    return Lazy((), held.dtype, lambda p, place: name, fixed=True)


RULES: dict[Primitive, Callable[..., Any]] = {cond_p: _cond, scan_p: _scan, while_p: _while}
