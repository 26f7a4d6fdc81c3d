"""Gathers and scatters on Refs, as reads and writes of the entire Ref.

A TPU has no addressing of single elements: what is picked is picked from a value, and what is put goes into a value
that is stored as a whole. Far memory, which only copies reach, keeps its accesses where a kernel copies by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..core.ir.passes import eliminate_dead, within
from ..core.ir.program import Eqn, Program, Var
from ..core.ir.types import MemorySpace
from ..core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p, whole
from ..core.tracing.trace import shape_of, trace_program
from ..lang.kernel.canonicalize import replaced
from ..lang.kernel.kernel import Kernel
from ..lang.ops.atomics import atomic_cas_p, atomic_rmw_p
from ..lang.transforms.discharge import Cell, run_cells

ACCESSES = frozenset({get_p, swap_p, addupdate_p, atomic_rmw_p, atomic_cas_p})


def on_entire_refs(kernel: Kernel, kept: Collection[MemorySpace] = ()) -> Kernel:
    """A kernel whose accesses at index arrays cover the entire Ref, but in the memory spaces `kept`."""
    body = _program(kernel.body, kept)
    return kernel if body is kernel.body else kernel.replace(body=eliminate_dead(body)[0])


def _program(program: Program, kept: Collection[MemorySpace]) -> Program:
    eqns = [within(e, lambda inner: _program(inner, kept)) for e in program.eqns]
    if any(new is not old for new, old in zip(eqns, program.eqns, strict=True)):
        program = program.replace(eqns=eqns)
    return replaced(program, lambda e: _on_entire_ref(e) if _taken(e) and e.inputs[0].type.space not in kept else None)


def _taken(eqn: Eqn) -> bool:
    return eqn.primitive in ACCESSES and eqn.params["index"].takes


def _on_entire_ref(eqn: Eqn) -> Program:
    """The access as a read of the whole, what it does to that value, and a write where it changes it."""
    made = trace_program(_on_value(eqn), [a.type for a in eqn.inputs], eqn.primitive.name)
    return made.replace(eqns=[e.replace(source=eqn.source) for e in made.eqns])


def _on_value(eqn: Eqn) -> Callable[..., list[Any]]:
    inputs = tuple(Var(a.type) for a in eqn.inputs)
    alone = Program(inputs, [eqn.replace(inputs=inputs)], eqn.outputs, name=eqn.primitive.name)

    def access(ref: Any, *rest: Any) -> list[Any]:
        index = whole(shape_of(ref))
        cell = Cell(get_p.bind(ref, index=index, masked=False))
        outs = run_cells(alone, [cell, *rest])
        if eqn.primitive is not get_p:
            swap_p.bind(ref, cell.value, index=index, masked=False)
        return outs

    return access
