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
from ..refs import Register
from ..rules.control import RULES as CONTROL
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


def _loop(e: Any, program: Program, consts: list[Any], carry: list[Any], count: Int) -> list[Any]:
    """Some turns of a Program, with what it carries and the registers that it changes."""
    p = e.p
    carried = [Register(ArrayType(x.shape, x.dtype), x) for x in map(e.settled_value, carry)]
    changed = [consts[i] for i in sorted(written(program)) if i < len(consts)]
    registers = [*dict.fromkeys(r for r in changed if isinstance(r, Register)), *carried]
    value = _carried(e)
    e.wait()

    def turn() -> None:
        found = e.inline(program, [*consts, *map(value, carried)])
        for register, one in zip(carried, found, strict=True):
            register.value = e.settled_value(one)

    late = e.unify(registers, [turn])

    def body(i: str, *names: str) -> list[str]:
        given = iter(names)
        for register in registers:
            if register.layout is not None:
                register.value = register.value.with_flat([next(given) for _ in register.value.flat])
        layouts = [r.layout for r in registers]
        if late:
            e.pending(late)
        turn()
        for register, layout in zip(registers, layouts, strict=True):
            register.layout = layout
        found = [name for r in registers for name in r.names(e)]
        e.groups = []
        return found

    start = [name for r in registers for name in r.names(e)]
    types = [t for r in registers for t in r.types()]
    e.restore(registers, p.loop(0, count, start, types, body))
    if late:
        e.pending(late)
    e.apart()
    return [value(r) for r in carried]


def _repeat(e: Any, test: Program, program: Program, given: list[Any], consts: list[Any], carry: list[Any]
            ) -> list[Any]:  # fmt: skip
    """Turns of a Program as long as a test, which all threads answer alike, holds of what is carried."""
    p = e.p
    carried = [Register(ArrayType(x.shape, x.dtype), x) for x in map(e.settled_value, carry)]
    changed = [given[i] for i in sorted(written(test)) if i < len(given)]
    changed += [consts[i] for i in sorted(written(program)) if i < len(consts)]
    registers = [*dict.fromkeys(r for r in changed if isinstance(r, Register)), *carried]
    e.wait()

    def asked() -> str:
        (found,) = e.inline(test, [*given, *map(_carried(e), carried)])
        name = e.settled_value(found).at(p, ())
        e.wait()
        return name

    def turn() -> None:
        found = e.inline(program, [*consts, *map(_carried(e), carried)])
        for register, one in zip(carried, found, strict=True):
            register.value = e.settled_value(one)
        e.wait()

    def tried() -> None:
        asked()
        turn()

    e.unify(registers, [tried])
    layouts = [r.layout for r in registers]

    def named(names: Sequence[str]) -> None:
        left = iter(names)
        for register, layout in zip(registers, layouts, strict=True):
            register.layout = layout
            if layout is not None:
                register.value = register.value.with_flat([next(left) for _ in register.value.flat])

    def held() -> list[str]:
        for register, layout in zip(registers, layouts, strict=True):
            register.layout = layout
        return [name for r in registers for name in r.names(e)]

    def before(*names: str) -> tuple[str, list[str]]:
        named(names)
        return asked(), held()

    def after(*names: str) -> list[str]:
        named(names)
        turn()
        return held()

    start = held()
    e.restore(registers, p.repeat(start, [t for r in registers for t in r.types()], before, after))
    e.apart()
    return list(map(_carried(e), carried))


def _carried(e: Any) -> Callable[[Register], Any]:
    """What a register holds of what a loop carries; a number is one that all threads have."""

    def value(register: Register) -> Any:
        held = register.value
        if register.array.shape or isinstance(held, Lazy):
            return held
        name = e.word(held)
        return Lazy((), held.dtype, lambda p, place: name, fixed=True)

    return value


RULES: dict[Primitive, Callable[..., Any]] = {cond_p: _cond, scan_p: _scan, while_p: _while}
