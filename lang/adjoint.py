"""The adjoint of one cell: a Program over Refs run backwards, its Refs still memory.

`y = r[i]` becomes `rbar[i] += ybar`; `r[i] += u` gives `ubar = rbar[i]`; `y = swap(r[i], v)` becomes
`vbar = swap(rbar[i], ybar)`. Everything else is transposed by its own rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import DifferentiationError
from ..core.ir import Eqn, Program, Var, run
from ..core.linear import add_tangents
from ..core.linearize import Known, LinearizeTrace
from ..core.primitive import Linear, Zero
from ..core.primitives.ref import addupdate_p, get_p, swap_p, transpose_access
from ..core.primitives.refview import view, write
from ..core.trace import bind_eqn, current_trace, eval_program, trace_program, typeof, under
from ..core.types import RefType, is_inexact
from .discharge import Cell, run_cells, written
from .normalize import touches_refs

ACCESSES = (get_p, swap_p, addupdate_p)


@dataclass(frozen=True, eq=False)
class Record:
    """The linear equations of a cell, in order; `refs` are the tangent Refs by position among its inputs."""

    refs: dict[int, Var]
    eqns: list[Eqn]

    def uses(self, position: int) -> list[Eqn]:
        return [e for e in self.eqns if self.refs[position] in e.inputs]

    def only_added(self, position: int) -> bool:
        """Whether a Ref is only added to."""
        return all(e.primitive is addupdate_p for e in self.uses(position))

    def only_read_back(self, position: int) -> bool:
        """Whether the adjoint only reads the cotangent of a Ref: it is only added to, or only stored to once."""
        uses = self.uses(position)
        return all(e.primitive is addupdate_p for e in uses) or (len(uses) == 1 and uses[0].primitive is swap_p)


def flatten_control(program: Program) -> Program:
    """A Program whose loops and branches work on values, not on Refs: each reads its Refs before and writes after."""
    if not any(touches_refs(e) and e.primitive not in ACCESSES for e in program.eqns):
        return program

    def bind(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
        if not touches_refs(eqn) or eqn.primitive in ACCESSES:
            return bind_eqn(eqn, values)
        cells = {id(v): Cell(view(v)[...]) for v in values if isinstance(typeof(v), RefType)}
        refs = {id(v): v for v in values if id(v) in cells}
        inputs = [Var(typeof(v)) if id(v) not in cells else Var(typeof(v)) for v in values]
        inner = Program(inputs, [eqn.replace(inputs=tuple(inputs))], eqn.outputs)
        outs = run_cells(inner, [cells.get(id(v), v) for v in values])
        for i in written(inner):
            key = id(values[i])
            write(view(refs[key]), cells[key].value)
        return outs

    return trace_program(lambda *args: run(program, bind, args), program.in_types, program.name)


def is_active(type: Any) -> bool:
    return isinstance(type, RefType) and is_inexact(type.dtype)


def record(program: Program, args: Sequence[Any], active: Sequence[int]) -> Record:
    """Run a cell's primal part under the current trace and record what depends on the tangents of `active` Refs."""
    trace = LinearizeTrace(current_trace())
    linear = trace.linear
    try:
        tangents = [
            linear.new_input(v.type.tangent()) if i in active else Zero(v.type.tangent())
            for i, v in enumerate(program.inputs)
        ]
        under(trace, eval_program, program, *trace.wrap_all(args, tangents))
    finally:
        trace.done = linear.done = True
    return Record({i: tangents[i]._var for i in active}, _live(linear.eqns))


def _live(eqns: Sequence[Eqn]) -> list[Eqn]:
    live: set[Any] = set()
    kept = []
    for eqn in reversed(eqns):
        if eqn.primitive in (swap_p, addupdate_p) or any(v in live for v in eqn.outputs):
            live.update(a for a in eqn.inputs if type(a) is Var)
            kept.append(eqn)
    return kept[::-1]


def run_backwards(found: Record, refs: dict[int, Any]) -> None:
    """Run a record backwards; `refs` are the Refs of cotangents by position, read and written in place.

    A position that has no Ref is one whose cotangent is zero and not wanted.
    """
    ref_of = {found.refs[p]: r for p, r in refs.items()}
    env: dict[Var, Any] = {}

    def accumulate(var: Any, ct: Any) -> None:
        if type(var) is Var and ct is not None and type(ct) is not Zero:
            env[var] = add_tangents(env[var], ct) if var in env else ct

    for eqn in reversed(found.eqns):
        cts = [env.pop(v, None) for v in eqn.outputs]
        cts = [Zero(v.type) if ct is None else ct for v, ct in zip(eqn.outputs, cts, strict=True)]
        if eqn.primitive in ACCESSES:
            ref = ref_of.get(eqn.inputs[0])  # type: ignore[call-overload]
            if ref is None:
                continue
            ct = cts[0] if cts else None
            rest = [a.value for a in eqn.inputs[1 if eqn.primitive is get_p else 2 :]]
            value = None if eqn.primitive is get_p else eqn.inputs[1]
            if eqn.primitive is swap_p and getattr(ref, "readonly", False):
                accumulate(value, transpose_access(addupdate_p, None, ref.ref, rest, eqn.params))
                continue
            ct_value = transpose_access(eqn.primitive, ct, getattr(ref, "ref", ref), rest, eqn.params)
            accumulate(value, ct_value)
            continue
        if all(type(ct) is Zero for ct in cts):
            continue
        primitive = eqn.primitive
        if primitive.transpose is None:
            raise DifferentiationError(
                f"{primitive} in a kernel has no transpose, so the kernel has no reverse-mode derivative",
                "use forward mode, or wrap the kernel in a `custom_vjp`")  # fmt: skip
        args = [a.value if type(a) is Known else Linear(a.type) for a in eqn.inputs]
        results = primitive.transpose(cts if primitive.multiple else cts[0], *args, **eqn.params)
        for atom, ct in zip(eqn.inputs, results, strict=True):
            accumulate(atom, ct)


class ReadOnly:
    """A Ref of cotangents that the adjoint only reads, so that it may be a kernel's input."""

    readonly = True

    def __init__(self, ref: Any):
        self.ref = ref


def plan(program: Program, active: Sequence[int]) -> Record:
    """The record of a cell, made only to be looked at."""
    found: list[Record] = []

    def fun(*args: Any) -> list[Any]:
        found.append(record(program, args, active))
        return []

    trace_program(fun, program.in_types, program.name)
    return found[0]
