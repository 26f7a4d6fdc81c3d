"""The adjoint of one cell: a Program over Refs run backwards, its Refs still memory.

`y = r[i]` becomes `rbar[i] += ybar`; `r[i] += u` gives `ubar = rbar[i]`; `y = swap(r[i], v)` becomes
`vbar = swap(rbar[i], ybar)`. Everything else is transposed by its own rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.ir.array import Array
from ...core.ir.binding import current_trace, under
from ...core.ir.primitive import Linear, Primitive, Zero
from ...core.ir.program import Eqn, Program, Var, run
from ...core.ir.types import RefType, Type, is_inexact
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p, transpose_access
from ...core.support.errors import DifferentiationError
from ...core.tracing.trace import bind_eqn, trace_program, typeof
from ...core.transforms.linearize import Known, LinearizeTrace, LinearTracer
from ...core.transforms.structural_primitives import add_tangents
from ..analysis.dead_stores import ACCESSES
from ..kernel.traverse import inner_programs
from .branches import Choice
from .loops import IterationAdjoint, WhileAdjoint, loops_of, spaces

turns_p: Primitive = Primitive("turns", lambda *types, **params: [], multiple=True)  # a loop of a record; never bound


@dataclass(frozen=True, eq=False)
class Record:
    """The linear equations of a Program, in order; `refs` are the tangents by position among its inputs."""

    refs: dict[int, Var]
    eqns: list[Eqn]
    outputs: tuple[Any, ...] = ()  # the tangents of its outputs, or Zero

    def uses(self, position: int) -> list[Eqn]:
        return [e for e in self.eqns if self.refs[position] in e.inputs]

    def only_added(self, position: int) -> bool:
        """Whether a Ref is only added to."""
        return all(_adds(e, self.refs[position]) for e in self.uses(position))

    def only_read_back(self, position: int) -> bool:
        """Whether the adjoint only reads the cotangent of a Ref: it is only added to, or only stored to once."""
        uses = self.uses(position)
        return self.only_added(position) or (len(uses) == 1 and uses[0].primitive is swap_p)


def _adds(eqn: Eqn, ref: Var) -> bool:
    """Whether an equation of a record only adds to a Ref, in loops and branches too."""
    if eqn.primitive is not turns_p:
        return eqn.primitive is addupdate_p
    loop = eqn.params["loop"]
    taken = [i - loop.first for i, a in enumerate(eqn.inputs) if a is ref]
    return all(_only_adds(program, i) for program in loop.programs for i in taken)


def _only_adds(program: Program, number: int) -> bool:
    """Whether all that a Program does to a Ref that it takes is to add to it."""
    ref = program.inputs[number]

    def adds(eqn: Eqn) -> bool:
        below = (_only_adds(p, i) for p, given in inner_programs(eqn) for i, a in enumerate(given) if a is ref)
        return eqn.primitive is addupdate_p or eqn.primitive in (scan_p, cond_p, while_p) and all(below)

    return all(adds(eqn) for eqn in program.eqns if ref in eqn.inputs)


def is_active(type: Type) -> bool:
    return isinstance(type, RefType) and is_inexact(type.dtype)


def record(program: Program, args: Sequence[Any], active: Sequence[int], space: Sequence[Any] = ()) -> Record:
    """Run a cell's primal part under the current trace and record what depends on the tangents of `active` inputs.

    Loops keep what they carry in the Refs of `space`, which are of the types that `work_space` says.
    """
    trace = LinearizeTrace(current_trace())
    linear = trace.linear
    loops, rest = loops_of(program, tuple(active), _turn_back), iter(space)

    def bind(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
        loop = loops.get(eqn)
        if loop is None:
            return bind_eqn(eqn, values)
        refs = [next(rest) for _ in loop.space]
        primals, tangents = trace.split(values)
        outs = under(trace.parent, loop.forward, primals, refs)
        atoms: list[Any] = [t._var if linear.owns(t) and i >= loop.first else Known(p)
                            for i, (p, t) in enumerate(zip(primals, tangents, strict=True))]  # fmt: skip
        derived = [Var(typeof(x).tangent()) for x, a in zip(outs, loop.derived, strict=True) if a]
        linear.eqns.append(Eqn(turns_p, atoms, derived, {"loop": loop, "primals": primals, "space": refs}))
        given = iter(LinearTracer(linear, v) for v in derived)
        return trace.wrap_all(outs, [next(given) if a else Zero(typeof(x).tangent())
                                     for x, a in zip(outs, loop.derived, strict=True)])  # fmt: skip

    try:
        tangents = [
            linear.new_input(v.type.tangent()) if i in active else Zero(v.type.tangent())
            for i, v in enumerate(program.inputs)
        ]
        outs = under(trace, run, program, bind, trace.wrap_all(args, tangents))
    finally:
        trace.done = linear.done = True
    outputs = tuple(linear.out(t) for t in trace.split(outs)[1])
    return Record({i: tangents[i]._var for i in active}, _live(linear.eqns, outputs), outputs)


def _live(eqns: Sequence[Eqn], outputs: Sequence[Any]) -> list[Eqn]:
    live: set[Any] = {v for v in outputs if type(v) is Var}
    kept = []
    for eqn in reversed(eqns):
        if eqn.primitive in (swap_p, addupdate_p, turns_p) or any(v in live for v in eqn.outputs):
            live.update(a for a in eqn.inputs if type(a) is Var)
            kept.append(eqn)
    return kept[::-1]


def _turn_back(
    program: Program, args: Sequence[Any], active: Sequence[int], space: Sequence[Any], refs: dict[int, Any],
    cts: Sequence[Any],
) -> dict[int, Any]:  # fmt: skip
    """Run one iteration of a loop again, then backwards: gives the cotangents of the values that it takes."""
    return run_backwards(record(program, args, active, space), refs, cts)


def work_space(program: Program, active: Sequence[int]) -> list[RefType]:
    """The scratch that the adjoint of a Program needs for what its loops carry."""
    return spaces(program, tuple(active), _turn_back)


def run_backwards(found: Record, refs: dict[int, Any], cts: Sequence[Any] = ()) -> dict[int, Any]:
    """Run a record backwards; `refs` are the Refs of cotangents by position, read and written in place.

    A Ref that is not among them is one whose cotangent is zero and not wanted. `cts` are the cotangents of the outputs;
    gives those of the inputs that are values, by position, where they are not zero.
    """
    ref_of = {found.refs[p]: r for p, r in refs.items()}
    env: dict[Var, Any] = {}

    def accumulate(var: Any, ct: Array | None) -> None:
        if type(var) is Var and ct is not None and type(ct) is not Zero:
            env[var] = add_tangents(env[var], ct) if var in env else ct

    for var, ct in zip(found.outputs, cts, strict=False):
        accumulate(var, ct)
    for eqn in reversed(found.eqns):
        cts = [env.pop(v, None) for v in eqn.outputs]
        cts = [Zero(v.type) if ct is None else ct for v, ct in zip(eqn.outputs, cts, strict=True)]
        if eqn.primitive in ACCESSES:
            ref = ref_of.get(eqn.inputs[0])  # type: ignore[call-overload]
            if ref is None:
                continue
            rest = [a.value for a in eqn.inputs[1 if eqn.primitive is get_p else 2 :]]
            access = addupdate_p if eqn.primitive is swap_p and isinstance(ref, ReadOnly) else eqn.primitive
            ct = transpose_access(access, cts[0] if cts else None, _memory(ref), rest, eqn.params)
            accumulate(None if eqn.primitive is get_p else eqn.inputs[1], ct)
            continue
        if eqn.primitive is turns_p:
            for atom, ct in _turns_back(eqn, ref_of, cts):
                accumulate(atom, ct)
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
    return {p: env[v] for p, v in found.refs.items() if v in env}


def _turns_back(eqn: Eqn, ref_of: dict[Var, Any], cts: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Run a loop, or a branch, backwards: the cotangents of the values that it takes."""
    loop: IterationAdjoint | Choice = eqn.params["loop"]
    refs = {i: _memory(ref_of[a]) for i, a in enumerate(eqn.inputs) if a in ref_of}
    given = iter(cts)
    outs = [next(given) if a else None for a in loop.derived]
    if not refs and all(ct is None or type(ct) is Zero for ct in outs):
        return []
    found = loop.backward(eqn.params["primals"], eqn.params["space"], refs, outs)
    return [(eqn.inputs[i], ct) for i, ct in found.items()]


@dataclass(frozen=True)
class ReadOnly:
    """A Ref of cotangents that the adjoint only reads, so that it may be a kernel's input."""

    ref: Any


def _memory(ref: Any) -> Any:
    return ref.ref if isinstance(ref, ReadOnly) else ref


def kept_states(program: Program, active: Sequence[int]) -> list[tuple[int, int]]:
    """What the adjoint of a Program keeps of each loop with computed bounds: the states, and the bytes of each."""
    found = loops_of(program, tuple(active), _turn_back).values()
    return [loop.kept for loop in found if isinstance(loop, WhileAdjoint)]


def plan(program: Program, active: Sequence[int]) -> Record:
    """The record of a cell, made only to be looked at."""
    found: list[Record] = []
    n = len(program.inputs)

    def fun(*args: Any) -> list[Any]:
        found.append(record(program, args[:n], active, args[n:]))
        return []

    trace_program(fun, [*program.in_types, *work_space(program, active)], program.name)
    return found[0]
