"""The current trace, and `bind`: how every primitive reaches it.

A trace gives meaning to `Primitive.bind`. The outermost one, `EVAL`, evaluates by the backend; the transformations'
traces (core/tracing, core/transforms) are opened above it. One context variable holds the current one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from ..support.runtime import runtime
from .extension_types import opaque_types
from .typeof import Value

if TYPE_CHECKING:
    from .primitive import Primitive

_axes: ContextVar[tuple[tuple[Any, ...], ...]] = ContextVar("tilewright_axes", default=())


class CustomCall(Protocol):
    """A flat function with a custom derivative, as traces see it (`custom/custom_derivative_primitives.py`)."""

    @property
    def fun(self) -> Callable[..., Any]: ...

    def record(self, trace: Trace, args: Sequence[Any]) -> Any:
        """Bind the call as an equation that knows the rule."""
        ...

    def derive(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The rule: of a jvp rule, outputs and tangents; of one for reverse mode, outputs and the linear map.

        (For reverse mode `tangents` says which primals have one.)
        """
        ...


class Trace:
    """Gives meaning to primitives. `done` once its transformation has returned."""

    __slots__ = ("parent", "done", "meshed")
    parent: Trace | None
    done: bool
    meshed: bool

    def __init__(self, parent: Trace | None):
        self.parent, self.done = parent, False
        axes = _axes.get()
        self.meshed = bool(axes) and any([len(a) == 3 for a in axes])  # on each device of a mesh

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        raise NotImplementedError

    def run(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """`bind` with this trace current."""
        return under(self, self.bind, primitive, args, params)

    def custom_jvp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        """Call a function that has a jvp rule; by default recorded as an equation."""
        return call.record(self, args)

    def custom_vjp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        """Call a function that has a rule for reverse mode; by default recorded as an equation."""
        return call.record(self, args)

    def splitting(self) -> Trace:
        """The trace for users' rules, which may hand values and tangents to one function; what it knows is computed."""
        return self


class EvalTrace(Trace):
    """Evaluates at once."""

    __slots__ = ()

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.impl is not None:
            return primitive.impl(*args, **params)
        if opaque_types and primitive.recounted is not None:
            return runtime.interceptors.opaque_values.evaluate(primitive, args, params)
        return runtime.backend.evaluate(primitive, args, params)

    def custom_jvp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        return call.fun(*args)

    def custom_vjp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        return call.fun(*args)


EVAL = EvalTrace(None)
_current: ContextVar[Trace] = ContextVar("tilewright_trace", default=EVAL)


def current_trace() -> Trace:
    return _current.get()


def is_evaluating() -> bool:
    """Whether primitives are evaluated at once here (no transformation is under way)."""
    return _current.get() is EVAL


def bind(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive under the current trace; operands that stand for arrays are replaced by them."""
    mutable = False
    for i, x in enumerate(args):  # an object that stands for an array must not hide a tracer from the traces
        if isinstance(x, Value) or type(x) in opaque_types:
            continue
        if getattr(type(x), "is_mutable_ref", False):
            mutable = True
        elif getattr(x, "__jax_array__", None) is not None:  # None: a tracer of jax
            return bind(primitive, [*args[:i], x.__jax_array__(), *args[i + 1 :]], params)
    if mutable:
        return runtime.interceptors.mutable_refs.bind_refs(primitive, args, params)
    return _current.get().bind(primitive, args, params)


@contextlib.contextmanager
def using(trace: Trace) -> Iterator[None]:
    """Make a trace current within a `with` block."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


def under(trace: Trace, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function with `trace` current: the fast form of `using`."""
    token = _current.set(trace)
    try:
        return function(*args, **kwargs)
    finally:
        _current.reset(token)


def with_out_sharding(
    out_sharding: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """The result of a function with the sharding asked for; those that `public` wraps need not call this."""
    return runtime.interceptors.sharded_types.placed(out_sharding, function, *args, **kwargs)
