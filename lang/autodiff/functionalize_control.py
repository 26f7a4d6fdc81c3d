"""Loops and branches of a cell in the form that its adjoint takes.

A loop over no values stays a loop over Refs. Operands that are only read, Refs that are only written and Refs that each
iteration sets before it reads them stay memory; any other is a value that the loop carries. So it is with branches over
HBM. Other loops and branches work on values: they read their Refs before and write them after.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...core.ir.passes import within
from ...core.ir.program import Eqn, Program, Var, run, subprograms
from ...core.ir.types import FAR, RefType
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.refs.ref_views import view, write
from ...core.tracing.trace import bind_eqn, trace_program, typeof
from ..analysis.dead_stores import ACCESSES, reads, sets_first
from ..kernel.canonicalize import touches_refs
from ..transforms.discharge import Cell, run_cells, written


def is_turns(eqn: Eqn) -> bool:
    """Whether an equation is a loop that maps over no values and gives none but what it carries."""
    if eqn.primitive is not scan_p:
        return False
    consts, carry = eqn.params["num_consts"], eqn.params["num_carry"]
    return len(eqn.inputs) == consts + carry and len(eqn.outputs) == carry


def is_far(eqn: Eqn) -> bool:
    """Whether an equation is a branch that takes far memory."""
    return eqn.primitive is cond_p and any(isinstance(a.type, RefType) and a.type.space in FAR for a in eqn.inputs)


def _in_place(eqn: Eqn, values: Sequence[Any], fixed: Collection[Var]) -> Sequence[Any]:
    """Bind a loop, or a branch over far memory, the Refs that do not stay as values that it carries."""
    first = int(eqn.primitive is cond_p)  # the operand that the first input of its Programs is
    programs = [p for _, p in subprograms(eqn)]
    refs = [i for i, v in enumerate(values) if isinstance(typeof(v), RefType)]
    changed = {i + first for p in programs for i in written(p)}
    known = [i for i in refs if eqn.inputs[i] in fixed and i not in changed]

    def stays(i: int) -> bool:
        sees = [(p, p.inputs[i - first]) for p in programs]
        return i in known or (i in changed and all(not reads(p, ref) or sets_first(p, ref) for p, ref in sees))

    stay = [i for i in refs if stays(i)]
    if first and not any(typeof(values[i]).space in FAR for i in stay):  # then it is a branch like any other
        return _on_values(eqn, values, refs)
    inner = within(eqn, lambda p: flatten_control(p, [i - first for i in known]))
    return _on_values(inner, values, [i for i in refs if i not in stay])


def _loop_in_place(eqn: Eqn, values: Sequence[Any], fixed: Collection[Var]) -> Sequence[Any]:
    """Bind a loop of a computed number of iterations, the Refs that do not stay as values that it carries."""
    cond, body, first = eqn.params["cond_program"], eqn.params["body_program"], eqn.params["cond_nconsts"]
    refs = [i for i, v in enumerate(values) if isinstance(typeof(v), RefType)]
    changed = {i + first for i in written(body)} | set(written(cond))

    def stays(ref: Var) -> bool:
        at = [i for i in refs if eqn.inputs[i] is ref]
        if changed.isdisjoint(at):
            return ref in fixed
        return all(i >= first and (not reads(body, body.inputs[i - first]) or sets_first(body, body.inputs[i - first]))
                   for i in at)  # fmt: skip

    stay = [i for i in refs if stays(eqn.inputs[i])]
    known = [i for i in stay if i not in changed]
    flat = flatten_control(body, [i - first for i in known if i >= first])
    test = flatten_control(cond, [i for i in known if i < first])
    inner = eqn.replace(params=eqn.params | {"cond_program": test, "body_program": flat})
    return _on_values(inner, values, [i for i in refs if i not in stay])


def _on_values(eqn: Eqn, values: Sequence[Any], which: Sequence[int]) -> Sequence[Any]:
    """Bind an equation, some of the Refs that it takes read before and written after."""
    cells = {id(values[i]): Cell(view(values[i])[...]) for i in which}
    refs = {id(values[i]): values[i] for i in which}
    inputs = [Var(typeof(v)) for v in values]
    inner = Program(inputs, [eqn.replace(inputs=tuple(inputs))], eqn.outputs)
    outs = run_cells(inner, [cells.get(id(v), v) for v in values])
    for key in dict.fromkeys(id(values[i]) for i in written(inner)):
        if key in refs:
            write(view(refs[key]), cells[key].value)
    return outs


def flatten_control(program: Program, fixed: Collection[int]) -> Program:
    """A Program in the form above; the inputs `fixed` are Refs that nothing writes."""
    if not any(touches_refs(e) and e.primitive not in ACCESSES for e in program.eqns):
        return program
    known = {program.inputs[i] for i in fixed}

    def bind(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
        if not touches_refs(eqn) or eqn.primitive in ACCESSES:
            return bind_eqn(eqn, values)
        if eqn.primitive is while_p:
            return _loop_in_place(eqn, values, known)
        if is_turns(eqn) or is_far(eqn):
            return _in_place(eqn, values, known)
        return _on_values(eqn, values, [i for i, v in enumerate(values) if isinstance(typeof(v), RefType)])

    return trace_program(lambda *args: run(program, bind, args), program.in_types, program.name)
