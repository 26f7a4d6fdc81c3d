"""Loops and branches of a cell in the form that its adjoint takes.

A loop over no values stays a loop over Refs. Of those that it takes, operands that are only read, Refs that are only
written and Refs that each turn sets before it reads them stay memory; any other is a value that the loop carries. So it
is with branches over far memory. Other loops and branches work on values: they read their Refs before and write them
after.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..core.ir import Eqn, Program, Var, run
from ..core.primitives.cond import cond_p
from ..core.primitives.refview import view, write
from ..core.primitives.scan import scan_p
from ..core.trace import bind_eqn, trace_program, typeof
from ..core.types import FAR, RefType
from .discharge import Cell, run_cells, written
from .normalize import touches_refs
from .stores import ACCESSES, reads, sets_first


def is_turns(eqn: Eqn) -> bool:
    """Whether an equation is a loop that maps over no values and gives none but what it carries."""
    if eqn.primitive is not scan_p:
        return False
    consts, carry = eqn.params["num_consts"], eqn.params["num_carry"]
    return len(eqn.inputs) == consts + carry and len(eqn.outputs) == carry


def is_far(eqn: Eqn) -> bool:
    """Whether an equation is a branch that takes far memory."""
    return eqn.primitive is cond_p and any(isinstance(a.type, RefType) and a.type.space in FAR for a in eqn.inputs)


def _stays(program: Program, number: int, fixed: bool) -> bool:
    """Whether a Ref that a loop takes stays one."""
    ref = program.inputs[number]
    if number not in written(program):
        return fixed
    return not reads(program, ref) or sets_first(program, ref)


def _turns(eqn: Eqn, values: Sequence[Any], fixed: Collection[Var]) -> Sequence[Any]:
    """Bind a loop, the Refs that do not stay as values that it carries."""
    program = eqn.params["program"]
    refs = [i for i, v in enumerate(values) if isinstance(typeof(v), RefType)]
    known = [i for i in refs if eqn.inputs[i] in fixed and i not in written(program)]
    stay = [i for i in refs if _stays(program, i, i in known)]
    inner = eqn.replace(params=eqn.params | {"program": flatten_control(program, known)})
    return _on_values(inner, values, [i for i in refs if i not in stay])


def _choice(eqn: Eqn, values: Sequence[Any], fixed: Collection[Var]) -> Sequence[Any]:
    """Bind a branch over far memory, the Refs that do not stay as values."""
    branches = eqn.params["branches"]
    refs = [i for i, v in enumerate(values) if isinstance(typeof(v), RefType)]
    changed = {i + 1 for b in branches for i in written(b)}
    known = [i for i in refs if eqn.inputs[i] in fixed and i not in changed]
    made = [flatten_control(b, [i - 1 for i in known]) for b in branches]

    def stays(i: int) -> bool:
        sees = [(b, b.inputs[i - 1]) for b in branches]
        return i in known or (i in changed and all(not reads(b, ref) or sets_first(b, ref) for b, ref in sees))

    stay = [i for i in refs if stays(i)]
    if not any(typeof(values[i]).space in FAR for i in stay):  # then it is a branch like any other
        return _on_values(eqn, values, refs)
    inner = eqn.replace(params={"branches": tuple(made)})
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
        if is_turns(eqn):
            return _turns(eqn, values, known)
        if is_far(eqn):
            return _choice(eqn, values, known)
        return _on_values(eqn, values, [i for i, v in enumerate(values) if isinstance(typeof(v), RefType)])

    return trace_program(lambda *args: run(program, bind, args), program.in_types, program.name)
