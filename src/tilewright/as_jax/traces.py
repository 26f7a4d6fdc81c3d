"""Traces: the one that is current, and those that clients write by jax's protocol."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import GenericAlias
from typing import Any

from ..core.ir.binding import EVAL, CustomCall, current_trace, using
from ..core.tracing import trace as core
from ..core.tracing.trace import ProgramTrace, axis_environment
from ..core.transforms.batching import BatchTrace
from ..core.transforms.jvp import JVPTrace
from .jaxprs import NAMES, Params
from .linear_util import wrap_init


class OpaqueTraceState:
    """What is being traced now, to be compared with what was traced at another time."""

    __slots__ = ("trace", "convention")

    def __init__(self, convention: str | None = None):
        self.trace, self.convention = current_trace(), convention

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self.trace is other.trace

    def __hash__(self) -> int:
        return hash(id(self.trace))

    def __repr__(self) -> str:
        return f"OpaqueTraceState({type(self.trace).__name__})"


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """The state of tracing here: equal to another one where no transformation began or ended in between."""
    return OpaqueTraceState(convention)


@contextlib.contextmanager
def set_current_trace(trace: Any, check_leaks: bool = False) -> Iterator[Any]:
    """Make a trace current within a `with` block."""
    with using(trace):
        yield trace


@contextlib.contextmanager
def take_current_trace() -> Iterator[Any]:
    """The current trace; within the `with` block, operations are evaluated at once."""
    trace = current_trace()
    with using(EVAL):
        yield trace


def find_top_trace(values: Sequence[Any] = ()) -> Any:
    """The current trace."""
    return current_trace()


def _enclosing() -> Iterator[Any]:
    trace: Any = current_trace()
    while trace is not None:
        yield trace
        trace = trace.parent


def under_jit() -> bool:
    """Whether a function is being traced by `jit`."""
    return any(isinstance(trace, ProgramTrace) for trace in _enclosing())


def under_vmap() -> bool:
    """Whether a function is being batched."""
    return any(isinstance(trace, BatchTrace) for trace in _enclosing())


def under_jvp() -> bool:
    """Whether a function is being differentiated in forward mode."""
    return any(isinstance(trace, JVPTrace) for trace in _enclosing())


def axis_names() -> list[Any]:
    """The names of axes that are mapped over here."""
    return [axis[0] for axis in axis_environment()]


class TraceTag:
    """Marks the traces of one transformation."""

    __slots__ = ("__weakref__",)


class _IsTrace(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (cls is Trace and isinstance(instance, core.Trace))


class Trace(core.Trace, metaclass=_IsTrace):
    """`jax.core.Trace`: a client's trace, which says in `process_primitive` what an operation means."""

    __class_getitem__ = classmethod(GenericAlias)  # clients name the type of their tracers

    def __init__(self, parent: Any = None):
        super().__init__(current_trace() if parent is None else parent)

    def bind(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return self.process_primitive(primitive, args, Params(params, NAMES.get(primitive, {})))

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no process_primitive")

    def custom_jvp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        fun = wrap_init(call.fun)
        return self.process_custom_jvp_call(None, fun, None, args, symbolic_zeros=False)

    def custom_vjp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        fun = wrap_init(call.fun)
        return self.process_custom_vjp_call(None, fun, None, None, args, out_trees=None, symbolic_zeros=False)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: Any) -> Any:
        return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, out_trees: Any,
                                symbolic_zeros: Any) -> Any:  # fmt: skip
        return fun.call_wrapped(*tracers)

    def stage_value(self, value: Any) -> Any:
        return value


__all__ = [
    "OpaqueTraceState", "Trace", "TraceTag", "axis_names", "find_top_trace", "get_opaque_trace_state",
    "set_current_trace", "take_current_trace", "under_jit", "under_jvp", "under_vmap",
]  # fmt: skip
