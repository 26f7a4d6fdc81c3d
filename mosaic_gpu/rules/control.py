"""Branches on what all threads know alike, and Programs within Programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.ir import Program
from ...core.primitive import Primitive
from ...core.primitives.checkpoint import checkpoint_p, optimization_barrier_p
from ...core.primitives.cond import cond_p
from ...core.primitives.custom_calls import custom_jvp_call_p, custom_vjp_call_p, linear_call_p
from ...core.primitives.jit import jit_p
from ...core.types import is_bool
from ...lang.discharge import written
from ..refs import Register
from ..text import Int
from ..values import Product, Unfit


def _call(e: Any, operands: list[Any], outs: list[Any], program: Program, **_: Any) -> list[Any]:
    return e.inline(program, operands)


def _barrier(e: Any, operands: list[Any], outs: list[Any], **_: Any) -> list[Any]:
    return list(operands)


def _cond(e: Any, operands: list[Any], outs: list[Any], branches: Sequence[Program]) -> list[Any]:
    which, arguments = operands[0], operands[1:]
    if len(branches) != 2 or outs:
        raise Unfit("a branch that gives values, or is one of many")
    changed = {i for program in branches for i in written(program)}
    registers = list(dict.fromkeys(arguments[i] for i in sorted(changed) if isinstance(arguments[i], Register)))
    name = which.at(e.p, ())
    if not is_bool(which.dtype):
        name = e.p.compare("ne", name, 0)
    arguments = [e.settled(x) if isinstance(x, Product) else x for x in arguments]
    e.ready()
    e.wait()

    def side(program: Program) -> Callable[[], None]:
        def run() -> None:
            e.branches += 1
            e.inline(program, arguments)
            e.wait()
            e.branches -= 1

        return run

    yes, no = side(branches[1]), side(branches[0])
    e.unify(registers, [yes, no])
    before, layouts = [r.value for r in registers], [r.layout for r in registers]
    types = [t for r in registers for t in r.types()]

    def body(run: Callable[[], None]) -> Callable[[], list[str]]:
        def printed() -> list[str]:
            for register, value in zip(registers, before, strict=True):
                register.value = value
            run()
            for register, layout in zip(registers, layouts, strict=True):  # which branches within it have changed
                register.layout = layout
            return [name for r in registers for name in r.names(e)]

        return printed

    if types:
        results: list[Int] = list(e.p.branch(name, types, body(yes), body(no)))
    else:
        e.p.either(name, yes, no)
        results = []
    e.restore(registers, results)
    return []


RULES: dict[Primitive, Callable[..., Any]] = {
    cond_p: _cond,
    optimization_barrier_p: _barrier,
    **dict.fromkeys((jit_p, custom_jvp_call_p, custom_vjp_call_p, checkpoint_p, linear_call_p), _call),
}
