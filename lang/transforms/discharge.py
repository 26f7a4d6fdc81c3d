"""From Programs over Refs to Programs over values: every Ref becomes a value that is replaced when written.

The meaning is the same; what is lost is that a Ref is memory, so this serves the backends and passes that
think in whole values (XLA, and derivatives of loops).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.array import Array, DTypeLike, Operand
from ...core.ir.primitive import Primitive, Zero
from ...core.ir.program import Eqn, Program, run
from ...core.ir.types import RefType
from ...core.primitives.control_flow.cond import bind_cond, cond_p
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.scan import bind_scan, scan_p
from ...core.primitives.control_flow.while_loop import bind_while, while_p
from ...core.primitives.custom.checkpoint import checkpoint_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p
from ...core.primitives.movement.shape import full
from ...core.primitives.refs.state_discharge_rules import read_value, write_value
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p
from ...core.support.errors import DifferentiationError, UnsupportedError
from ...core.support.memo import cached
from ...core.tracing.trace import bind_eqn, of_line, trace_program, typeof
from ..ops.atomics import PRIMITIVES as ATOMICS
from ..ops.atomics import discharged


class Cell:
    """What a Ref holds at this point of a Program; a symbolic `Zero` until something else is needed."""

    __slots__ = ("content",)

    def __init__(self, value: Array | Zero):
        self.content = value

    @property
    def value(self) -> Any:
        if type(self.content) is Zero:
            self.content = undefined(self.content.type.shape, self.content.type.dtype)
        return self.content

    @value.setter
    def value(self, value: Operand) -> None:
        self.content: Any = value


def written(program: Program) -> tuple[int, ...]:
    """The inputs of a Program that it writes or accumulates to."""
    return tuple(sorted({e.operand for e in program.effects if e.kind in ("write", "accumulate")}))  # type: ignore[type-var, misc]


def run_cells(program: Program, args: Sequence[Any]) -> list[Any]:
    """Evaluate a Program under the current trace, its Ref inputs given as Cells."""
    return run(program, lambda eqn, values: of_line(eqn.source, _bind, eqn, values), args)


def _bind(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
    if not any(type(v) is Cell for v in values):
        return bind_eqn(eqn, values)
    primitive = eqn.primitive
    if primitive is get_p:
        return (read_value(values[0].value, values[1:], **eqn.params),)
    if primitive is swap_p or primitive is addupdate_p:
        cell, value, rest = values[0], values[1], values[2:]
        whole = type(cell.content) is Zero and eqn.params["index"].is_whole(cell.content.type.shape)
        if whole and not eqn.params.get("masked"):
            old = (cell.value,) if primitive is swap_p else ()
            cell.value = value
            return old
        old = (read_value(cell.value, rest, **eqn.params),) if primitive is swap_p else ()
        cell.value = write_value(cell.value, value, rest, add=primitive is addupdate_p, **eqn.params)
        return old
    rule = RULES.get(primitive)
    if rule is None:
        raise UnsupportedError(
            f"{primitive} takes a Ref inside a kernel, which this lowering does not know",
            "read the Ref before, and pass the value", eqn.source)  # fmt: skip
    return rule(values, **eqn.params)


class _Cells:
    """The Cells among some operands: each once, those that are written first. Refs that stay Refs are plain values."""

    def __init__(self, operands: Sequence[Any], wrote: set[int]):
        self.operands = operands
        ids: dict[int, Any] = {}
        for i in wrote:
            if type(operands[i]) is Cell:
                ids[id(operands[i])] = operands[i]
        self.n_written = len(ids)
        for x in operands:
            if type(x) is Cell:
                ids.setdefault(id(x), x)
        self.cells = list(ids.values())
        self.number = {k: i for i, k in enumerate(ids)}
        self.plain = [x for x in operands if type(x) is not Cell]

    @property
    def values(self) -> list[Any]:
        return [c.value for c in self.cells]

    def rebuild(self, values: Sequence[Any], plain: Sequence[Any]) -> tuple[list[Any], list[Cell]]:
        """The operands again, with fresh Cells and other plain values; and the Cells that may be written."""
        fresh = [Cell(v) for v in values]
        rest = iter(plain)
        operands = [fresh[self.number[id(x)]] if type(x) is Cell else next(rest) for x in self.operands]
        return operands, fresh[: self.n_written]

    def pure(self, program: Program) -> Program:
        """A Program as one of the Cells' values and the plain ones; what is left in the Cells follows its outputs."""
        n = len(self.cells)

        def fun(*args: Any) -> list[Any]:
            inner, changed = self.rebuild(args[:n], args[n:])
            outs = run_cells(program, inner)
            return [*outs, *(c.value for c in changed)]

        return trace_program(fun, [typeof(x) for x in (*self.values, *self.plain)], program.name)

    def update(self, values: Sequence[Any]) -> None:
        for cell, value in zip(self.cells, values, strict=False):
            cell.value = value


class _LoopCells(_Cells):
    """The Cells among the constants of a loop, which carries those that are written before its own state."""

    def __init__(self, operands: Sequence[Any], wrote: set[int]):
        super().__init__(operands, wrote)
        values = self.values
        self.state, self.fixed = values[: self.n_written], [*self.plain, *values[self.n_written :]]
        self.types = [*map(typeof, self.fixed), *map(typeof, self.state)]

    def iteration(self, args: Sequence[Any]) -> tuple[list[Any], list[Cell], Sequence[Any]]:
        """The operands in an iteration of the loop, the Cells that may be written, and what else the loop carries."""
        p, first, end = len(self.plain), len(self.fixed), len(self.types)
        inner, changed = self.rebuild([*args[first:end], *args[p:first]], args[:p])
        return inner, changed, args[end:]

    def outs(self, results: list[Any]) -> list[Any]:
        """What the loop gives, after it has left its values in the Cells."""
        self.update(results[: self.n_written])
        return results[self.n_written :]


def _cond(values: Sequence[Any], *, branches: Sequence[Program]) -> list[Any]:
    index, operands = values[0], values[1:]
    cells = _Cells(operands, {i for b in branches for i in written(b)})
    results = bind_cond(index, [*cells.values, *cells.plain], [cells.pure(b) for b in branches])
    n_outs = len(branches[0].outputs)
    cells.update(results[n_outs:])
    return results[:n_outs]


def _scan(values: Sequence[Any], *, program: Program, num_consts: int, num_carry: int, **how: Any) -> list[Any]:
    consts, carry = values[:num_consts], values[num_consts : num_consts + num_carry]
    loop = _LoopCells(consts, set(written(program)))

    def fun(*args: Any) -> list[Any]:
        inner, changed, rest = loop.iteration(args)
        outs = run_cells(program, [*inner, *rest])
        return [*(c.value for c in changed), *outs]

    body = trace_program(fun, [*loop.types, *program.in_types[num_consts:]], program.name)
    results = bind_scan(body, loop.fixed, [*loop.state, *carry], values[num_consts + num_carry :], **how)
    return loop.outs(results)


def _while(
    values: Sequence[Any], *, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int,
    **how: Any,
) -> list[Any]:  # fmt: skip
    n = cond_nconsts + body_nconsts
    loop = _LoopCells(values[:n], {i + cond_nconsts for i in written(body_program)} | set(written(cond_program)))

    def test(*args: Any) -> list[Any]:
        inner, _, rest = loop.iteration(args)
        return run_cells(cond_program, [*inner[:cond_nconsts], *rest])

    def body(*args: Any) -> list[Any]:
        inner, changed, rest = loop.iteration(args)
        outs = run_cells(body_program, [*inner[cond_nconsts:], *rest])
        return [*(c.value for c in changed), *outs]

    types = [*loop.types, *body_program.in_types[body_nconsts:]]
    test_program, loop_program = trace_program(test, types, "cond"), trace_program(body, types, body_program.name)
    return loop.outs(bind_while(test_program, loop_program, loop.fixed, loop.fixed, [*loop.state, *values[n:]],
                                **how))  # fmt: skip


def _call(values: Sequence[Any], *, program: Program, **_: Any) -> list[Any]:
    return run_cells(program, values)


def _no_rule(*_: Any) -> Any:
    raise DifferentiationError(
        "a function with derivatives of its own takes a Ref, and the loop or the function under `jit` around it is "
        "differentiated from outside of what made the Ref",
        "differentiate within: `jit(grad(f))` rather than `grad(jit(f))`",
    )


def _with_rules(primitive: Primitive, rule: str) -> Any:
    """A function whose custom rules concern Refs: over values it has none."""

    def discharge(values: Sequence[Any], *, program: Program, num_consts: int, **params: Any) -> list[Any]:
        cells, outs = _Cells(values, set(written(program))), len(program.outputs)
        operands = [*cells.values, *cells.plain]
        results = primitive.bind(*operands, program=cells.pure(program), num_consts=0, **params | {rule: _no_rule})
        cells.update(results[outs:])
        return results[:outs]

    return discharge


RULES = {
    cond_p: _cond, scan_p: _scan, while_p: _while, jit_p: _call, checkpoint_p: _call,
    custom_jvp_call_p: _with_rules(custom_jvp_call_p, "rule"), custom_vjp_call_p: _with_rules(custom_vjp_call_p, "fwd"),
    **dict.fromkeys(ATOMICS, lambda values, **params: discharged(*values, **params)),
}  # fmt: skip


@cached(4096)
def discharge(program: Program) -> Program:
    """The Program with values for Refs; what it leaves in the Refs it writes follows its outputs."""
    changed = written(program)

    def fun(*args: Any) -> list[Any]:
        inner = [Cell(a) if isinstance(v.type, RefType) else a for a, v in zip(args, program.inputs, strict=True)]
        outs = run_cells(program, inner)
        return [*outs, *(inner[i].value for i in changed)]

    types = [t.array if isinstance(t, RefType) else t for t in program.in_types]
    return trace_program(fun, types, program.name)


def undefined(shape: Sequence[int], dtype: DTypeLike) -> Any:
    """A value for memory that nothing has written."""
    return full(tuple(shape), np.zeros((), dtype)[()]) if shape else np.zeros((), dtype)[()]
