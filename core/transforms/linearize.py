"""Linearisation: primal values computed now, the linear map of tangents recorded for later.

`LinearizeTrace` evaluates primals under its parent and, by the same jvp rules, records what depends on
a tangent as linear equations whose other operands are values already known (the residuals). Reverse
mode transposes that record (`core/transforms/transpose.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.array import ArrayLike, Operand
from ..ir.binding import EVAL, CustomCall, Trace, current_trace, under
from ..ir.primitive import Linear, Primitive, Zero
from ..ir.program import CALLBACK, ORDERED, Eqn, Program, Var
from ..support.config import current
from ..support.memo import cached
from ..support.runtime import runtime
from ..tracing.trace import Scalar, Tracer, eval_program, line_here, of_line, outputs_of, trace_program, typed, typeof
from .jvp import DualTrace, DualTracer
from .rule_helpers import instantiate

if TYPE_CHECKING:
    from ..ir.types import Type


class Known:
    """An operand of a linear equation whose value is known: a residual."""

    __slots__ = ("value", "type")
    value: Any
    type: Type

    def __init__(self, value: ArrayLike):
        self.value, self.type = value, typeof(value)


class LinearTracer(Tracer):
    """Stands for a tangent."""

    __slots__ = ("_var",)  # `var` is a method of arrays

    def __init__(self, trace: LinearTrace, var: Var):
        self._trace, self._var = trace, var

    @property
    def aval(self) -> Any:
        return self._var.type


class LinearTrace(Trace):
    """Records what depends on its tracers; everything else evaluates under the parent."""

    __slots__ = ("eqns", "inputs", "lines")

    def __init__(self, parent: Trace):
        super().__init__(parent)
        now = current()  # whether anything asks for the lines of equations
        self.lines: Any = parent is not EVAL or now.watches or now.source_lines
        self.eqns: list[Eqn] = []
        self.inputs: list[Var] = []

    def new_input(self, type: Type) -> LinearTracer:
        var = Var(type)
        self.inputs.append(var)
        return LinearTracer(self, var)

    def owns(self, x: Any) -> bool:
        return isinstance(x, LinearTracer) and x._trace is self

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not any(self.owns(a) for a in args):
            return under(self.parent, self.parent.bind, primitive, args, params)  # type: ignore[union-attr, arg-type]
        if self.meshed:
            args = runtime.interceptors.varying_axes.align(primitive, args, params)
        atoms: list[Any] = [a._var if self.owns(a) else Known(a) for a in args]
        outs = outputs_of(self, primitive, [a.type for a in atoms], params)
        self.eqns.append(Eqn(primitive, atoms, outs, params, source=line_here() if self.lines else None))
        tracers = [LinearTracer(self, v) for v in outs]
        return tracers if primitive.multiple else tracers[0]

    def splitting(self) -> Trace:
        return SplitTrace(self)

    def custom_jvp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        if any(self.owns(a) for a in args):
            return super().custom_jvp(call, args)
        return under(self.parent, self.parent.custom_jvp, call, args)  # type: ignore[union-attr, arg-type]

    def custom_vjp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        if any(self.owns(a) for a in args):
            return super().custom_vjp(call, args)
        return under(self.parent, self.parent.custom_vjp, call, args)  # type: ignore[union-attr, arg-type]

    def out(self, tangent: Operand | Zero) -> Var | Zero:
        """An output tangent as a Var. A known one can only be zero: a linear map of no input."""
        return tangent._var if self.owns(tangent) else Zero(typeof_tangent(tangent))


def typeof_tangent(tangent: Operand | Zero) -> Any:
    return tangent.type if type(tangent) is Zero else typeof(tangent).tangent()


class Purpose(Enum):
    """What a linear map is recorded for. What is remembered of a split Program is remembered for one purpose."""

    TRANSPOSE = "to be transposed, as `vjp` does"
    APPLY = "to be applied as it is, as `linearize` does"
    SEPARATE = "what a function does that is linear in some arguments, apart from what it does with the others"


_purpose: ContextVar[Purpose] = ContextVar("tilewright_purpose", default=Purpose.TRANSPOSE)


def purpose() -> Purpose:
    """The request to the rule `linearize` that is running."""
    return _purpose.get()


def _linearize_rule(
    trace: Trace, why: Purpose, primitive: Primitive, primals: Sequence[Any], nonzero: Sequence[Any],
    params: Mapping[str, Any],
) -> Any:  # fmt: skip
    """A primitive's rule `linearize`: its results, and the linear map of its tangents."""
    token = _purpose.set(why)
    try:
        return under(trace, primitive.linearize, primals, nonzero, **params)  # type: ignore[arg-type]
    finally:
        _purpose.reset(token)


class LinearizeTrace(DualTrace):
    """Evaluates primals under the parent and records tangents in `linear`."""

    __slots__ = ("linear", "why")
    linear: LinearTrace
    why: Purpose

    def __init__(self, parent: Trace, why: Purpose = Purpose.TRANSPOSE):
        self.linear, self.why = LinearTrace(parent), why
        super().__init__(parent, self.linear)

    def wrap(self, primal: Any, tangent: ArrayLike | Zero) -> Any:
        return DualTracer(self, primal, tangent) if self.linear.owns(tangent) else primal

    def derived(self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> Any:
        if primitive.linearize is None:
            return super().derived(primitive, primals, tangents, params)
        nonzero = tuple(type(t) is not Zero for t in tangents)
        out, linear = _linearize_rule(self.parent, self.why, primitive, primals, nonzero, params)
        return out, under(self.linear, linear, *tangents)

    def reversed(self, call: CustomCall, primals: list[Any], tangents: list[Any]) -> Any:
        outs, linear = under(self.parent, call.derive, primals, tangents)
        return outs, under(self.linear, linear, *tangents)


@dataclass(frozen=True, slots=True)
class LinearMap:
    """The recorded map: `inputs` (Zero where an input has no tangent) to `outputs`, through `eqns`."""

    inputs: tuple[Any, ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Any, ...]

    def __call__(self, tangents: Sequence[Any]) -> list[Any]:
        """Apply it under the current trace; tangents and results may be Zero."""
        env: dict[Any, Any] = {v: instantiate(t) for v, t in zip(self.inputs, tangents, strict=True) if type(v) is Var}
        trace = current_trace()
        for eqn in self.eqns:
            args = [a.value if type(a) is Known else env[a] for a in eqn.inputs]
            if eqn.source is None:
                out = trace.bind(eqn.primitive, args, eqn.params)
            else:
                out = of_line(eqn.source, trace.bind, eqn.primitive, args, eqn.params)
            for var, value in zip(eqn.outputs, out if eqn.primitive.multiple else (out,), strict=True):
                env[var] = value
        return [env[v] if type(v) is Var else v for v in self.outputs]


def _needed(eqns: Sequence[Eqn], outputs: Sequence[Any]) -> tuple[Eqn, ...]:
    live = {v for v in outputs if type(v) is Var}
    kept = []
    for eqn in reversed(eqns):
        if any(v in live for v in eqn.outputs):
            live.update(a for a in eqn.inputs if type(a) is Var)
            kept.append(eqn)
    return tuple(reversed(kept))


def linearize_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], nonzero: Sequence[bool],
    why: Purpose = Purpose.TRANSPOSE,
) -> tuple[list[Any], LinearMap]:  # fmt: skip
    """Evaluate a flat function and record the linear map of the tangents of the `nonzero` arguments."""
    trace = LinearizeTrace(current_trace(), why)
    linear = trace.linear
    try:
        tangents = [
            linear.new_input(typeof(p).tangent()) if nz else Zero(typeof(p).tangent())
            for p, nz in zip(primals, nonzero, strict=True)
        ]
        outs = under(trace, fun, *trace.wrap_all(primals, tangents))
    finally:
        trace.done = linear.done = True
    out_primals, out_tangents = trace.split(outs)
    outputs = tuple(linear.out(t) for t in out_tangents)
    inputs = tuple(t._var if isinstance(t, LinearTracer) else t for t in tangents)
    return out_primals, LinearMap(inputs, _needed(linear.eqns, outputs), outputs)


class SplitTrace(Trace):
    """Records in `linear` what depends on its tracers, of a function that is linear in them.

    Everything else evaluates under the parent, also within an equation that holds Programs and has operands of both
    kinds: its rule `linearize` is applied with zero linear operands.
    """

    __slots__ = ("linear",)
    parent: Trace

    def __init__(self, linear: LinearTrace):
        super().__init__(linear.parent)
        self.linear: LinearTrace = linear

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        linear = tuple([self.linear.owns(a) for a in args])
        if all(linear) or not any(linear) or not _has_known_part(primitive, args, params, linear):
            return self.linear.run(primitive, args, params)
        zeros = [Zero(typeof(a).tangent()) for a in args]
        primals = [instantiate(z) if li else a for a, z, li in zip(args, zeros, linear, strict=True)]
        outs, apply = _linearize_rule(self.parent, Purpose.SEPARATE, primitive, primals, linear, params)
        found = under(self.linear, apply, *(a if li else z for a, z, li in zip(args, zeros, linear, strict=True)))
        return [out if type(t) is Zero else t for out, t in zip(outs, found, strict=True)]

    def custom_jvp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        return under(self.linear, self.linear.custom_jvp, call, args)

    def custom_vjp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        return under(self.linear, self.linear.custom_vjp, call, args)


def _has_known_part(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], linear: Sequence[bool]) -> bool:
    """Whether an equation acts on the world, or has a result that needs none of its linear operands."""
    if primitive.dce is None or primitive.linearize is None:
        return False
    atoms = [Var(typeof(a)) for a in args]
    types = [a.type for a in atoms]
    if primitive.effects is not None and not primitive.effects(*types, **params).isdisjoint((ORDERED, CALLBACK)):
        return True
    outs = [Var(t) for t in typed(primitive, types, params)]
    eqn, given = Eqn(primitive, atoms, outs, params), {a for a, li in zip(atoms, linear, strict=True) if li}
    parts = (primitive.dce([v is out for v in outs], eqn) for out in outs)
    return any(part is None or given.isdisjoint(part.inputs) for part in parts)


def linear_part(
    fun: Callable[..., Sequence[Any]], args: Sequence[Any], linear: Sequence[bool]
) -> tuple[list[Any], LinearMap]:
    """Evaluate what is known of a function that is linear in some arguments, and record the map of these.

    Gives the results (those that are not known are zero) and the map.
    """
    record = LinearTrace(current_trace())
    trace = SplitTrace(record)
    try:
        given = [record.new_input(typeof_arg(a)) if li else a for a, li in zip(args, linear, strict=True)]
        outs = under(trace, fun, *given)
    finally:
        trace.done = record.done = True
    outputs = tuple(record.out(o) for o in outs)
    inputs = tuple(t._var if record.owns(t) else Zero(typeof_arg(t)) for t in given)
    known = [instantiate(Zero(o.aval)) if record.owns(o) else o for o in outs]
    return known, LinearMap(inputs, _needed(record.eqns, outputs), outputs)


def typeof_arg(x: Operand | Linear) -> Any:
    return x.type if isinstance(x, (Linear, Zero)) else typeof(x)


# ---------------------------------------------------------------------------- Programs


@dataclass(frozen=True, slots=True)
class Linearized:
    """A Program split in two.

    `primal`: inputs -> outputs and stored residuals. `linear`: residuals and nonzero tangents -> nonzero
    output tangents. `residuals` says where each residual comes from: ("in", i), ("out", i) or ("stored", i).
    """

    primal: Program
    linear: Program
    out_nonzero: tuple[bool, ...]
    residuals: tuple[tuple[str, int], ...]

    def gather(self, inputs: Sequence[Any], primal_results: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Split the primal Program's results into outputs and the residuals to pass to `linear`."""
        n = len(self.out_nonzero)
        outs, stored = list(primal_results[:n]), primal_results[n:]
        source = {"in": inputs, "out": outs, "stored": stored}
        return outs, [source[kind][i] for kind, i in self.residuals]


def is_literal(value: ArrayLike) -> bool:
    return type(value) in Scalar or isinstance(value, np.generic)


def linear_to_program(linear: LinearMap, present: Sequence[bool], name: str) -> tuple[Program, list[Any]]:
    """A recorded map as a Program from residuals and tangents; gives the residual values too."""
    values: dict[int, Any] = {}
    for eqn in linear.eqns:
        for atom in eqn.inputs:
            if type(atom) is Known and not is_literal(atom.value):
                values.setdefault(id(atom.value), atom.value)
    residuals = list(values.values())
    tangent_types = [v.type for v in linear.inputs if type(v) is Var]

    def fun(*args: Any) -> list[Any]:
        known = dict(zip(values, args, strict=False))
        given = iter(args[len(residuals) :])
        tangents = [next(given) if type(v) is Var else v for v in linear.inputs]
        eqns = tuple(e.replace(inputs=tuple(_renamed(a, known) for a in e.inputs)) for e in linear.eqns)
        outs = LinearMap(linear.inputs, eqns, linear.outputs)(tangents)
        return [instantiate(o) for o, p in zip(outs, present, strict=True) if p]

    return trace_program(fun, [*map(typeof, residuals), *tangent_types], name), residuals


def _renamed(atom: Any, known: dict[int, Any]) -> Any:
    return Known(known[id(atom.value)]) if type(atom) is Known and id(atom.value) in known else atom


def linearized(program: Program, nonzero: tuple[bool, ...], instantiated: Any = False) -> Linearized:
    """Linearise a Program at the inputs marked `nonzero`; inputs and outputs are not stored twice."""
    return _linearized(program, nonzero, instantiated, purpose())


@cached(4096)
def _linearized(program: Program, nonzero: tuple[bool, ...], instantiated: Any, why: Purpose) -> Linearized:
    split = linear_part if why is Purpose.SEPARATE else functools.partial(linearize_flat, why=why)
    force = (instantiated,) * len(program.outputs) if isinstance(instantiated, bool) else instantiated
    found: dict[str, Any] = {}

    def fun(*args: Any) -> list[Any]:
        outs, linear = split(functools.partial(eval_program, program), args, nonzero)
        present = tuple(f or type(t) is not Zero for f, t in zip(force, linear.outputs, strict=True))
        linear_program, values = linear_to_program(linear, present, f"linear_{program.name}")
        places = {id(x): ("out", i) for i, x in enumerate(outs)} | {id(x): ("in", i) for i, x in enumerate(args)}
        stored = [x for x in values if id(x) not in places]
        places |= {id(x): ("stored", i) for i, x in enumerate(stored)}
        found.update(linear=linear_program, present=present, residuals=tuple(places[id(x)] for x in values))
        return [*outs, *stored]

    primal = trace_program(fun, program.in_types, program.name)
    return Linearized(primal, found["linear"], found["present"], found["residuals"])


def linearize_program(
    program: Program, nonzero: tuple[bool, ...]
) -> tuple[Program, Program, tuple[bool, ...], int]:
    """`linearized` with every residual an output of the primal Program, after its own outputs."""
    parts = linearized(program, nonzero)
    outs = len(parts.out_nonzero)
    atoms = {"in": parts.primal.inputs, "out": parts.primal.outputs[:outs], "stored": parts.primal.outputs[outs:]}
    outputs = (*parts.primal.outputs[:outs], *(atoms[kind][i] for kind, i in parts.residuals))
    return parts.primal.replace(outputs=outputs), parts.linear, parts.out_nonzero, len(parts.residuals)
