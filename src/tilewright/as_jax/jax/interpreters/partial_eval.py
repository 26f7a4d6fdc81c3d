"""`jax.interpreters.partial_eval`: functions as jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ....core.ir.passes import hoist
from ....core.ir.types import Type
from ....core.tracing.trace import ProgramTracer, Tracer, trace_program
from ...jaxprs import dce_jaxpr, view
from ...linear_util import WrappedFun
from ...missing import not_adapted

DynamicJaxprTracer = ProgramTracer
JaxprTracer = ProgramTracer


class PartialVal(NamedTuple):
    """A value that is known, or the type of one that is not."""

    aval: Type | None
    value: Any

    @classmethod
    def unknown(cls, aval: Type) -> PartialVal:
        return cls(aval, None)

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        return cls(None, value)

    def is_known(self) -> bool:
        return self.aval is None

    def get_known(self) -> Any:
        return self.value if self.is_known() else None

    def get_aval(self) -> Any:
        return self.aval


def trace_to_jaxpr_dynamic(fun: WrappedFun, in_avals: Sequence[Type], **_: Any) -> tuple[Any, list[Any], list[Any]]:
    """A function as a jaxpr, the types of its results, and the values of the jaxpr's constants."""
    program = trace_program(fun.call_wrapped, list(in_avals), fun.__name__)
    return view(program), list(program.out_types), list(program.values)


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: Any = False
) -> tuple[Any, list[PartialVal], list[Any]]:
    """What of a function depends on unknown inputs, as a jaxpr of these; its results, known or not; and constants.

    A result that does not depend on them is known, unless `instantiate` asks for it in the jaxpr.
    """
    unknown = [p.aval for p in pvals if p.aval is not None]
    outs: list[Any] = []

    def traced(*tracers: Any) -> list[Any]:
        given = iter(tracers)
        outs[:] = fun.call_wrapped(*(p.value if p.is_known() else next(given) for p in pvals))
        wanted = [instantiate] * len(outs) if isinstance(instantiate, bool) else list(instantiate)
        depends = [w or (isinstance(x, Tracer) and x._trace is _trace_of(tracers)) for x, w in zip(outs, wanted)]
        kept = [x for x, d in zip(outs, depends) if d]
        outs[:] = [None if d else PartialVal.known(x) for x, d in zip(outs, depends)]
        return kept

    program = trace_program(traced, unknown, fun.__name__)
    types = iter(program.out_types)
    results = [PartialVal.unknown(next(types)) if p is None else p for p in outs]
    return view(program), results, list(program.values)


def _trace_of(tracers: Sequence[Any]) -> Any:
    return tracers[0]._trace if tracers else None


def convert_constvars_jaxpr(jaxpr: Any) -> Any:
    """A jaxpr whose constants are leading inputs."""
    return view(jaxpr.replace(inputs=(*jaxpr.constants, *jaxpr.inputs), constants=(), values=()))


def close_jaxpr(jaxpr: Any) -> Any:
    """A jaxpr without constants as a closed one."""
    return hoist(jaxpr)[0] if jaxpr.constants else jaxpr


__all__ = [
    "DynamicJaxprTracer", "JaxprTracer", "PartialVal", "close_jaxpr", "convert_constvars_jaxpr", "dce_jaxpr",
    "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.interpreters.partial_eval")
