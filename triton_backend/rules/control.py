"""Branches and loops. Registers that they write travel through them with the other values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program
from ...core.ir.types import INT32, ArrayType, is_bool
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.custom.checkpoint import checkpoint_p, optimization_barrier_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p, linear_call_p
from ...lang.ops.inline_asm import inline_asm_p, staged_p
from ...lang.targets.target import Target
from ...lang.transforms.discharge import written
from ..builders import (
    all_lanes,
    as_value,
    compare,
    convert,
    lanes,
    regroup,
    select,
    spread,
    sub,
    take,
)
from ..refs import Memory, Register
from ..text import Value, spell
from .elementwise import Rule

if TYPE_CHECKING:
    from ..lower import Lowering


def changed(programs: Sequence[Program], operands: Sequence[Any]) -> list[Register]:
    """The registers among some operands that Programs of them write, each once."""
    found = {i for program in programs for i in written(program)}
    return list(dict.fromkeys(operands[i] for i in sorted(found) if isinstance(operands[i], Register)))


def _memories(operands: Sequence[Any]) -> list[Memory]:
    return [x for x in operands if isinstance(x, Memory)]


def _carried(registers: Sequence[Register]) -> list[Value]:
    return [r.value for r in registers]


def _restore(registers: Sequence[Register], values: Sequence[Value]) -> None:
    for register, value in zip(registers, values, strict=True):
        register.value = value


def _call(e: Lowering, operands: Sequence[Any], outs: Sequence[Any], program: Program, **_: Any) -> list[Value]:
    return e.inline(program, operands)


# ---------------------------------------------------------------------------- branches


def _cond(e: Any, operands: Sequence[Any], outs: Sequence[Any], branches: Sequence[Program]) -> list[Value]:
    which, arguments = operands[0], operands[1:]
    which = e.p.truths.get(which.name, which)
    registers = changed(branches, arguments)
    memories = _memories(arguments)
    before = _carried(registers)
    traffic = [list(m.traffic.recent) for m in memories]
    after: list[list[Any]] = [[] for _ in memories]

    def branch(program: Program) -> Callable[[], list[Value]]:
        def body() -> list[Value]:
            _restore(registers, before)
            for m, was in zip(memories, traffic, strict=True):
                m.traffic.recent[:] = was
            results = e.inline(program, arguments)
            for m, seen in zip(memories, after, strict=True):
                seen += [one for one in m.traffic.recent if one not in seen]
            return [*results, *_carried(registers)]

        return body

    def among(number: Value, programs: Sequence[Program], first: int) -> list[Value]:
        if len(programs) == 1:
            return branch(programs[0])()
        here = compare(e.p, "le", number, e.p.constant(first, number.dtype))
        return e.p.branch(here, branch(programs[0]), lambda: among(number, programs[1:], first + 1))

    if is_bool(which.dtype) and len(branches) == 2:
        results = e.p.branch(which, branch(branches[1]), branch(branches[0]))
    else:
        results = among(convert(e.p, which, INT32), branches, 0)
    for m, seen in zip(memories, after, strict=True):
        m.traffic.recent[:] = seen
    _restore(registers, results[len(outs) :])
    return results[: len(outs)]


# ---------------------------------------------------------------------------- loops


def _while(
    e: Lowering, operands: Sequence[Any], outs: Sequence[Any], cond_program: Program, body_program: Program,
    cond_nconsts: int, body_nconsts: int, **_: Any,
) -> list[Value]:  # fmt: skip
    n = cond_nconsts + body_nconsts
    tests, consts, carry = operands[:cond_nconsts], operands[cond_nconsts:n], operands[n:]
    registers = list(dict.fromkeys([
        *changed([cond_program], [*tests, *carry]), *changed([body_program], [*consts, *carry])
    ]))  # fmt: skip
    memories = _memories(operands)

    def test(*state: Value) -> tuple[Value, list[Value]]:
        for m in memories:
            m.traffic.again()
        _restore(registers, state[len(carry) :])
        (going,) = e.inline(cond_program, [*tests, *state[: len(carry)]])
        return going, [*state[: len(carry)], *_carried(registers)]

    def body(*state: Value) -> list[Value]:
        _restore(registers, state[len(carry) :])
        results = e.inline(body_program, [*consts, *state[: len(carry)]])
        return [*results, *_carried(registers)]

    results = e.p.loop_while([*carry, *_carried(registers)], test, body)
    _restore(registers, results[len(carry) :])
    return results[: len(carry)]


def _item(e: Lowering, x: Value, i: Value) -> Value:
    """`x[i]`."""
    shape = x.shape[1:]
    one = take(e.p, x, (1, *shape), [i, *all_lanes(e.p, (1, *shape))[1:]])
    return regroup(e.p, one, shape)


def _stored(e: Lowering, stack: Value, value: Value, i: Value) -> Value:
    """`stack` with `value` at `i`."""
    p = e.p
    here = compare(p, "eq", lanes(p, stack.shape[0], 0, len(stack.shape)), i)
    new = spread(p, regroup(p, value, (1, *value.shape)), stack.shape)
    return select(p, here, new, stack)


def _scan(
    e: Lowering, operands: Sequence[Any], outs: Sequence[ArrayType], program: Program, length: int, reverse: bool,
    num_consts: int, num_carry: int, unroll: int,
) -> list[Value]:  # fmt: skip
    p, n = e.p, num_consts + num_carry
    consts, carry, xs = operands[:num_consts], operands[num_consts:n], operands[n:]
    registers, memories = changed([program], consts), _memories(consts)
    stacks = [p.constant(0, o.dtype, o.shape) for o in outs[num_carry:]]

    def body(i: Value, *state: Value) -> list[Value]:
        for m in memories:
            m.traffic.again()
        i = as_value(p, sub(p, length - 1, i)) if reverse else i
        _restore(registers, state[len(outs) :])
        results = e.inline(program, [*consts, *state[:num_carry], *(_item(e, x, i) for x in xs)])
        kept = [_stored(e, s, v, i) for s, v in zip(state[num_carry : len(outs)], results[num_carry:], strict=True)]
        return [*results[:num_carry], *kept, *_carried(registers)]

    if not length:
        return [*carry, *stacks]
    stages = max((eqn.params["num_stages"] for eqn in program.eqns if eqn.primitive is staged_p), default=None)
    results = p.loop(length, [*carry, *stacks, *_carried(registers)], body, stages=stages)
    _restore(registers, results[len(outs) :])
    return results[: len(outs)]


def _barrier(e: Lowering, operands: Sequence[Value], outs: Sequence[Any], **_: Any) -> list[Value]:
    return list(operands)


def _staged(e: Lowering, operands: Sequence[Value], out: ArrayType, num_stages: int) -> Value:
    return operands[0]


def foreign(params: Mapping[str, Any], target: Target) -> bool:
    """Whether instructions are of other devices than a target."""
    return params["dialect"] != ("amdgcn" if target.kind == "rocm" else "ptx")


def _asm(e: Lowering, operands: Sequence[Value], outs: Sequence[ArrayType], **params: Any) -> list[Value]:
    """`tt.elementwise_inline_asm`, for instructions that the target has."""
    p, asm = e.p, params["asm"].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\0A")
    text = (f'tt.elementwise_inline_asm "{asm}" {{constraints = "{params["constraints"]}", '
            f'packed_element = {params["pack"]} : i32, pure = {str(params["pure"]).lower()}}} '
            f"{', '.join(x.name for x in operands)} : {', '.join(x.type for x in operands)} -> ")  # fmt: skip
    if len(outs) == 1:
        return [p.op(text + spell(outs[0].shape, outs[0].dtype), outs[0].shape, outs[0].dtype)]
    return p.several(text + ", ".join(spell(o.shape, o.dtype) for o in outs), outs)


RULES: dict[Primitive, Rule] = {
    staged_p: _staged, inline_asm_p: _asm,
    cond_p: _cond, while_p: _while, scan_p: _scan, optimization_barrier_p: _barrier,
    **dict.fromkeys((jit_p, custom_jvp_call_p, custom_vjp_call_p, checkpoint_p, linear_call_p), _call),
}  # fmt: skip
