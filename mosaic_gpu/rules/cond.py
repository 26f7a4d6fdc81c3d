"""Branches on what all threads know alike, and Programs within Programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program
from ...core.ir.types import ArrayType, is_bool
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.custom.checkpoint import checkpoint_p, optimization_barrier_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p, linear_call_p
from ...lang.transforms.discharge import written
from ..refs import Carried, Register
from ..values import Lazy, Product

if TYPE_CHECKING:
    from ..lower import Lowering


def _call(e: Lowering, operands: list[Any], outs: list[Any], program: Program, **_: Any) -> list[Any]:
    return e.inline(program, operands)


def _barrier(e: Lowering, operands: list[Any], outs: list[Any], **_: Any) -> list[Any]:
    return list(operands)


def _cond(e: Any, operands: list[Any], outs: list[ArrayType], branches: Sequence[Program]) -> list[Any]:
    """A branch: what it changes, and what it gives, are registers of `scf.if`; one of many is a branch in a branch."""
    which, arguments = operands[0], [e.settled(x) if isinstance(x, Product) else x for x in operands[1:]]
    p, (first, *others) = e.p, branches
    changed = {i for program in branches for i in written(program)}
    found = [Register(out, _zeros(e, out)) for out in outs]
    registers = [*dict.fromkeys(arguments[i] for i in sorted(changed) if isinstance(arguments[i], Register)), *found]
    number = which.at(p, ())
    name = number if is_bool(which.dtype) else p.compare("ne" if len(others) == 1 else "sgt", number, 0)
    e.ready()
    e.wait()

    def other() -> list[Any]:
        if len(others) == 1:
            return e.inline(others[0], arguments)
        rest = p.int("subi", number, 1)
        return _cond(e, [Lazy((), which.dtype, lambda p, place: rest, fixed=True), *arguments], outs, others)

    def side(run: Callable[[], list[Any]]) -> Callable[[], None]:
        def printed() -> None:
            e.branches += 1
            for register, value in zip(found, run(), strict=True):
                value = e.settled(value) if isinstance(value, Product) else value
                register.value = value if isinstance(value, Lazy) and value.fixed else e.fragment(value).held
            e.wait()
            e.branches -= 1

        return printed

    yes, no = side(other), side(lambda: e.inline(first, arguments))
    carried = Carried(e, registers, [yes, no])
    before, types = [r.value for r in registers], carried.types

    def body(run: Callable[[], None]) -> Callable[[], list[str]]:
        def printed() -> list[str]:
            for register, value in zip(registers, before, strict=True):
                register.value = value
            run()
            return carried.names()

        return printed

    if types:
        carried.restore(p.branch(name, types, body(yes), body(no)))
    else:
        p.either(name, yes, no)
        carried.restore([])
    return [_given(e, r.value) for r in found]


def _zeros(e: Lowering, out: ArrayType) -> Lazy:
    zero = e.scalar(0, out.dtype)
    return Lazy(out.shape, out.dtype, lambda p, place: zero.at(p, ()), fixed=True)


def _given(e: Lowering, value: Any) -> Any:
    """What a branch gives; a number is one that all threads have."""
    if value.shape or isinstance(value, Lazy):
        return value
    name = e.element(value, value.layout, 0, 0)
    return Lazy((), value.dtype, lambda p, place: name, fixed=True)


RULES: dict[Primitive, Callable[..., Any]] = {
    cond_p: _cond,
    optimization_barrier_p: _barrier,
    **dict.fromkeys((jit_p, custom_jvp_call_p, custom_vjp_call_p, checkpoint_p, linear_call_p), _call),
}
