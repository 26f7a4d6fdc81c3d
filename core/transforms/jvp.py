"""Traces that carry a tangent with each value, and forward mode, which computes it at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.array import Array, ArrayLike
from ..ir.binding import CustomCall, Trace, current_trace, under
from ..ir.primitive import Primitive, Zero, all_zero
from ..ir.program import Program
from ..ir.types import is_inexact
from ..support.errors import DifferentiationError, NoDerivativeError
from ..support.memo import cached
from ..support.runtime import runtime
from ..tracing.trace import Tracer, eval_program, trace_program, typeof
from .rule_helpers import instantiate


class DualTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("primal", "tangent")
    primal: Any
    tangent: Any

    def __init__(self, trace: DualTrace, primal: Any, tangent: Array):
        self._trace, self.primal, self.tangent = trace, primal, tangent

    @property
    def aval(self) -> Any:
        return typeof(self.primal)

    def concrete(self) -> Any:
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    @property
    def differentiated(self) -> bool:
        return is_inexact(self.aval.dtype)

    def describe(self) -> str:
        return f"a differentiated value of type {self.aval.show()}"

    def __repr__(self) -> str:
        if hasattr(self._trace, "linear"):  # the tangent is recorded, and only its type is known
            return f"GradTracer(primal={self.primal}, typeof(tangent)={typeof(self.tangent).show()})"
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"


class DualTrace(Trace):
    """Applies jvp rules on the trace `rules`; values without a tangent of this trace pass to the parent."""

    __slots__ = ("rules",)
    parent: Trace

    def __init__(self, parent: Trace, rules: Trace):
        super().__init__(parent)
        self.rules: Trace = rules

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        primals, tangents = [], []
        for a in args:
            if isinstance(a, DualTracer) and a._trace is self:
                primals.append(a.primal)
                tangents.append(a.tangent)
            else:
                primals.append(a)
                tangents.append(Zero(typeof(a).tangent()))
        return primals, tangents

    def wrap(self, primal: ArrayLike, tangent: ArrayLike | Zero) -> Any:
        return primal if type(tangent) is Zero else DualTracer(self, primal, tangent)

    def wrap_all(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        return [self.wrap(p, t) for p, t in zip(primals, tangents, strict=True)]

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.meshed:
            args = runtime.interceptors.varying_axes.align(primitive, args, params)
        primals, tangents = self.split(args)
        if all_zero(tangents):
            return under(self.parent, self.parent.bind, primitive, primals, params)
        out, tangent = self.derived(primitive, primals, tangents, params)
        return self.wrap_all(out, tangent) if primitive.multiple else self.wrap(out, tangent)

    def derived(self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> Any:
        """The results of a primitive and their tangents."""
        if primitive.jvp is None:
            raise NoDerivativeError(
                f"{primitive.name} has no derivative",
                "wrap the function in `custom_jvp` or `custom_vjp`, or use `stop_gradient`",
            )
        return under(self.rules, primitive.jvp, primals, tangents, **params)

    def custom_jvp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        primals, tangents = self.split(args)
        if all_zero(tangents):
            return under(self.parent, self.parent.custom_jvp, call, primals)
        return self.wrap_all(*under(self.rules.splitting(), call.derive, primals, tangents))

    def custom_vjp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        primals, tangents = self.split(args)
        if all_zero(tangents):
            return under(self.parent, self.parent.custom_vjp, call, primals)
        return self.wrap_all(*self.reversed(call, primals, tangents))

    def reversed(self, call: CustomCall, primals: list[Any], tangents: list[Any]) -> Any:
        """The results of a function that has a rule for reverse mode, and their tangents."""
        raise DifferentiationError(
            "forward-mode differentiation (jvp, jacfwd) of a `custom_vjp` function",
            "use reverse mode (grad, vjp, jacrev), or give the function a `custom_jvp` rule",
        )


class JVPTrace(DualTrace):
    """Computes tangents where it computes primals."""

    __slots__ = ()

    def __init__(self, parent: Trace):
        super().__init__(parent, parent)


def jvp_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
    """Outputs and tangents (Zero where none) of a flat function under the current trace."""
    trace = JVPTrace(current_trace())
    try:
        outs = under(trace, fun, *trace.wrap_all(primals, tangents))
    finally:
        trace.done = True
    return trace.split(outs)


@cached(4096)
def jvp_program(
    program: Program, nonzero: tuple[bool, ...], instantiated: Any = False
) -> tuple[Program, tuple[bool, ...]]:
    """The Program from primals and nonzero tangents to outputs and nonzero output tangents.

    `instantiated` (a bool, or one per output) forces an output's tangent to be present. Also gives which
    output tangents are present.
    """
    n = len(program.inputs)
    force = (instantiated,) * len(program.outputs) if isinstance(instantiated, bool) else instantiated
    present: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        given = iter(args[n:])
        tangents = [
            next(given) if nz else Zero(v.type.tangent()) for v, nz in zip(program.inputs, nonzero, strict=True)
        ]
        outs, out_tangents = jvp_flat(functools.partial(eval_program, program), args[:n], tangents)
        present[:] = [f or type(t) is not Zero for f, t in zip(force, out_tangents, strict=True)]
        return [*outs, *(instantiate(t) for t, p in zip(out_tangents, present, strict=True) if p)]

    types = [*program.in_types, *(v.type.tangent() for v, nz in zip(program.inputs, nonzero, strict=True) if nz)]
    result = trace_program(fun, types, f"jvp_{program.name}")
    return result, tuple(present)


def expanded_jvp(function: Callable[..., Any], multiple: bool = False) -> Callable[..., Any]:
    """The jvp rule of a primitive whose derivative is that of `function`, the same in other primitives."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        def flat(*args: Any) -> Sequence[Any]:
            out = function(*args, **params)
            return out if multiple else [out]

        outs, out_tangents = jvp_flat(flat, primals, tangents)
        return (outs, out_tangents) if multiple else (outs[0], out_tangents[0])

    return rule
