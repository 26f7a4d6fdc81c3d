"""Tracing: tracers, and the trace that records a Program.

The current trace (`core/ir/binding.py`) gives meaning to `Primitive.bind`. `ProgramTrace` records a Program; the
transformations' traces (jvp, linearize, vmap) rewrite one bind into binds on the trace they were opened under. A value
that is not a trace's own tracer is a constant to it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from operator import attrgetter
from types import FrameType
from typing import Any

import numpy as np

from ..ir.array import Array, ArrayLike
from ..ir.binding import EVAL, CustomCall, Trace, _axes, _current, under, using
from ..ir.dimension import dimension
from ..ir.extension_types import OpaqueType, flat_parts, is_opaque, opaque_types
from ..ir.primitive import Primitive
from ..ir.program import NO_EFFECTS, Atom, Eqn, Literal, Program, Var, run
from ..ir.typeof import Scalar, Value, typeof
from ..ir.types import (
    ArrayType,
    RefType,
    ShardedType,
    Type,
    VaryingType,
    as_dtype,
    canonical_dtype,
    is_key,
    with_sharding,
)
from ..ir.verifier import check_program
from ..support.config import current as current_config
from ..support.errors import (
    ArgumentTypeError,
    ConcretizationError,
    LeakedTracerError,
    OpaqueValueError,
    Source,
    TracerArrayConversionError,
    TracerBoolError,
    TracerIntegerConversionError,
    user_source,
)
from ..support.runtime import runtime


def shape_of(x: ArrayLike) -> tuple[int, ...]:
    return typeof(x).shape


def dtype_of(x: Any) -> Any:
    return typeof(x).dtype


# ---------------------------------------------------------------------------- traces

_line: ContextVar[Source | None] = ContextVar("tilewright_line", default=None)


@contextlib.contextmanager
def at_line(source: Source | None) -> Iterator[None]:
    """Within it, equations come from a line of the user's, as by `of_line`, which takes a frame of the stack more."""
    token = _line.set(source)
    try:
        yield
    finally:
        _line.reset(token)


def of_line(source: Source | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function whose equations come from a line of the user's; None: from the lines that are on the stack.

    So what transformations make of an equation keeps the equation's line.
    """
    token = _line.set(source)
    try:
        return function(*args, **kwargs)
    finally:
        _line.reset(token)


def line_here() -> Source | None:
    """The line of the user's that equations made here come from."""
    return _line.get() or user_source(_scope.get(), current_config().xla_notes)


class _KnownFirst(Trace):
    """Evaluates at once what is known; what depends on traced values is the surrounding trace's."""

    __slots__ = ()

    def _trace(self, args: Sequence[Any]) -> Trace:
        assert self.parent is not None
        return self.parent if any(isinstance(x, Tracer) for x in args) else EVAL

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return self._trace(args).run(primitive, args, params)

    def custom_jvp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        trace = self._trace(args)
        return under(trace, trace.custom_jvp, call, args)

    def custom_vjp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        trace = self._trace(args)
        return under(trace, trace.custom_vjp, call, args)


def ensure_compile_time_eval() -> contextlib.AbstractContextManager[None]:
    """Evaluate at trace time what does not depend on traced values.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> @tw.jit
    ... def f(x):
    ...     with tw.ensure_compile_time_eval():
    ...         n = int(tnp.sum(tnp.arange(4)))  # a number, not a tracer
    ...     return x * n
    >>> print(f(2.0))
    12.0
    """
    around = _current.get()
    return using(around if around is EVAL else _KnownFirst(around))


# ---------------------------------------------------------------------------- named axes and scopes

_scope: ContextVar[str] = ContextVar("tilewright_scope", default="")


def axis_environment() -> tuple[tuple[Any, ...], ...]:
    """The named axes in force, outermost first: name, size and, of an axis of a mesh, True; part of tracing's keys.

    An axis along which the place is a value that is known has as its fourth entry what gives it.
    """
    return _axes.get()


@contextlib.contextmanager
def on_each_device(sizes: Sequence[tuple[Any, int]]) -> Iterator[None]:
    """Within, a program of one device among those along axes of a mesh is traced."""
    inner = {name for name, _ in sizes}
    token = _axes.set((*(a for a in _axes.get() if a[0] not in inner), *((n, s, True) for n, s in sizes)))
    try:
        yield
    finally:
        _axes.reset(token)


@contextlib.contextmanager
def on_one_device() -> Iterator[None]:
    """Within, the axes of a mesh are names and sizes alone: no type says along which of them values differ."""
    token = _axes.set(tuple(a[:2] for a in _axes.get()))
    try:
        yield
    finally:
        _axes.reset(token)


@contextlib.contextmanager
def extended_axes(name: Sequence[Any] | None, size: int, index: Callable[[], Any] | None = None) -> Iterator[None]:
    """Within it there is an axis of this name; `index` gives the place along it, where that is a value."""
    axis = (name, size) if index is None else (name, size, None, index)
    token = _axes.set((*_axes.get(), axis) if name is not None else _axes.get())
    try:
        yield
    finally:
        _axes.reset(token)


@contextlib.contextmanager
def outside_of_axis(name: str | None) -> Iterator[None]:
    """Within, the innermost axis of this name is not in force."""
    axes = _axes.get()
    at = max((i for i, axis in enumerate(axes) if axis[0] == name), default=len(axes))
    token = _axes.set((*axes[:at], *axes[at + 1 :]))
    try:
        yield
    finally:
        _axes.reset(token)


@contextlib.contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Prefix the names of operations made within, as profiles and printed programs show them.

    >>> import tilewright as tw
    >>> @tw.jit
    ... def f(x):
    ...     with tw.named_scope('layer'):
    ...         return tw.numpy.sin(x)
    >>> 'layer' in f.lower(1.0).as_text(debug_info=True)
    False
    """
    token = _scope.set(f"{_scope.get()}/{name}".lstrip("/"))
    try:
        yield
    finally:
        _scope.reset(token)


def named_call[**P, R](fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """A function whose operations carry a name, its own by default, in profiles and printed programs.

    >>> named_call(lambda x: x + 1, name="next")(1)
    2
    """
    label = getattr(fun, "__name__", "function") if name is None else name
    if not isinstance(label, str):
        raise ArgumentTypeError(f"named_call takes a string for a name, got {label!r}", "pass name='...'")

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return wrapped


# ---------------------------------------------------------------------------- tracers


_NUMBER_REMEDY = (
    "keep it an array (`astype` casts), convert it outside of the transformed function, show it with `debug.print`, or "
    "mark the argument static (`static_argnums`)"
)


class Tracer(Value):
    """Stands for an array within a transformation."""

    __slots__ = ("_trace", "__weakref__")
    _trace: Trace
    aval: Any

    def __init__(self, trace: Trace, aval: Type):  # of tracers outside of this package
        self._trace, self.aval = trace, aval

    # Overridden by tracers that know their value (a jvp of concrete arrays does).
    def concrete(self) -> Any:
        """The actual value if this tracer knows it, else None."""
        return None

    def describe(self) -> str:
        return f"a traced value of type {self.aval.show()}"

    @property
    def differentiated(self) -> bool:
        """Whether a number taken from this value would lack its derivative."""
        return False

    def _known(self, error: type[Exception], wanted: str, remedy: str) -> Any:
        value = self.concrete()
        if value is None:
            raise error(
                f"{wanted} of {self.describe()} was asked for, but its value is not known while tracing", remedy
            )
        return value

    def __bool__(self) -> bool:
        remedy = (
            "use `tilewright.lax.cond` or `numpy.where` for a branch (`lang.when` in a kernel), `lax.while_loop` for a "
            "loop, or mark the argument static (`static_argnums`)"
        )
        return bool(self._known(TracerBoolError, "the truth value", remedy))

    def _whole(self, error: type[Exception], wanted: str, remedy: str) -> Any:
        """The value, where no derivative is lost with it."""
        if self.differentiated and self.concrete() is not None:
            raise error(f"{wanted} of {self.describe()} was asked for, which would lose its derivative",
                        f"{remedy}; where none is wanted, take it of `lax.stop_gradient(x)`")  # fmt: skip
        return self._known(error, wanted, remedy)

    def _number(self, wanted: str) -> Any:
        return self._whole(ConcretizationError, wanted, _NUMBER_REMEDY)

    def _integer(self, wanted: str) -> Any:
        remedy = (
            "use `tilewright.lax.fori_loop` for a loop (`lang.loop` in a kernel), index arrays rather than Python "
            "sequences, or mark the argument static (`static_argnums`)"
        )
        return self._known(TracerIntegerConversionError, wanted, remedy)

    def __index__(self) -> int:
        return operator.index(self._integer("a Python integer"))

    def __format__(self, spec: str) -> str:
        return format(self._known(ConcretizationError, "a formatted text", _NUMBER_REMEDY), spec) if spec else str(self)

    def __int__(self) -> int:
        return int(self._integer("a Python integer"))

    def __float__(self) -> float:
        return float(self._number("a Python float"))

    def __complex__(self) -> complex:
        return complex(self._number("a Python complex"))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        remedy = (
            "use `tilewright.numpy` in place of `numpy` (for NumPy's `a[i]`, `tilewright.numpy.asarray(a)[i]`), or "
            "`pure_callback` to call NumPy at run time"
        )
        return np.asarray(self._whole(TracerArrayConversionError, "a NumPy array", remedy), *args, **kwargs)

    def item(self, *args: int) -> Any:
        return self._number("the Python value").item(*args)

    def tolist(self) -> Any:
        return self._number("the Python value").tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return np.asarray(self).tobytes(order)

    def block_until_ready(self) -> Any:
        return self

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Mapping[str, Any]) -> Any:
        return self

    __hash__ = None

    def __getattr__(self, name: str) -> Any:
        if name != "aval" and is_opaque(type_ := self.aval):
            with contextlib.suppress(AttributeError):
                return type_.attribute(self, name)
            raise AttributeError(f"a traced value of type {type_.show()} has no attribute {name!r}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"JitTracer({'~' if getattr(self.aval, 'weak_type', False) else ''}{self.aval})"


class ProgramTracer(Tracer):
    """A value of a Program being recorded."""

    __slots__ = ("_var",)  # `var` is a method of arrays

    def __init__(self, trace: ProgramTrace, var: Var):
        self._trace, self._var = trace, var

    @property
    def aval(self) -> Any:
        return self._var.type


def typed(primitive: Primitive, types: Sequence[Type], params: dict[str, Any]) -> Any:
    """The type of a primitive's result, or of each, for operands of some types."""
    if ShardedType in map(type, types):
        return runtime.interceptors.sharded_types.type_of_result(primitive, types, params)
    return primitive.typing(*types, **params)


def outputs_of(trace: Trace, primitive: Primitive, types: Sequence[Type], params: dict[str, Any]) -> list[Var]:
    """New variables for an equation's results, with the mesh axes along which they vary."""
    out = typed(primitive, types, params)
    outs = out if primitive.multiple else (out,)
    if trace.meshed:
        outs = runtime.interceptors.varying_axes.varied(primitive, types, outs, params)
    return [Var(t) for t in outs]


class ProgramTrace(Trace):
    """Records equations into a Program."""

    __slots__ = ("inputs", "eqns", "constants", "keep", "name", "made")
    name: str

    def __init__(self, parent: Trace | None, name: str = "program"):
        super().__init__(parent)
        self.inputs: list[Var] = []
        self.eqns: list[Eqn] = []
        self.constants: dict[int, tuple[Var, Any]] = {}
        self.name = name
        # With check_tracer_leaks: the tracers made.
        self.made: list[weakref.ref[Any]] | None = [] if current_config().check_tracer_leaks else None

    def new_input(self, type: Type) -> Any:
        var = Var(type)
        self.inputs.append(var)
        return tracer_of(self, var)

    def atom(self, x: ArrayLike) -> Atom:
        """A value as an operand: this trace's own, a literal, or a constant of the Program."""
        if isinstance(x, Tracer):
            if x._trace is self:
                return x._var
            if x._trace.done:
                raise leaked(x)
        elif type(x) in Scalar or isinstance(x, np.generic) or (type(x) is np.ndarray and x.ndim == 0):
            type_ = typeof(x)
            if not is_key(type_.dtype):
                return Literal(np.asarray(x).astype(type_.dtype)[()], type_)  # type: ignore[union-attr, arg-type]
        elif getattr(x, "symbolic", False):
            return self.atom(dimension(x))
        found = self.constants.get(id(x))
        if found is None:
            type_ = typeof(x)
            if type(x) in opaque_types:
                _check_parts(flat_parts(type_, x), type_)
            if self.meshed and type(type_) is ShardedType:  # the value within a `shard_map`, along the axes left to it
                type_ = type_.within(type_.unplaced, frozenset(a[0] for a in _axes.get() if len(a) == 3))
            found = self.constants[id(x)] = (Var(type_), x)
        return found[0]

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.meshed:
            args = runtime.interceptors.varying_axes.align(primitive, args, params)
        atoms = [self.atom(a) for a in args]
        types = [a.type for a in atoms]
        outs = outputs_of(self, primitive, types, params)
        effects = NO_EFFECTS if primitive.effects is None else primitive.effects(*types, **params)
        self.eqns.append(Eqn(primitive, atoms, outs, params, effects, line_here()))
        if primitive.multiple:
            return [tracer_of(self, v) for v in outs]
        return tracer_of(self, outs[0])

    def finish(self, outputs: Sequence[Any]) -> Program:
        atoms = [self.atom(x) for x in outputs]
        self.done = True
        constants = [var for var, _ in self.constants.values()]
        values = [value for _, value in self.constants.values()]
        return Program(self.inputs, self.eqns, atoms, constants, values, self.name)


def _check_parts(parts: Sequence[Any], type: Any) -> None:
    """Raise where an object of a client's own class, which is a constant, holds traced arrays."""
    if any([isinstance(part, Tracer) for part in parts]):
        raise OpaqueValueError(f"a value of type {type.show()} was made of traced arrays",
                               "make it by a primitive, whose `expand` may do so")  # fmt: skip


# What a Var of each type becomes for the code being traced; the Ref layer adds its own entry.
TRACERS: dict[type, Callable[[ProgramTrace, Var], Any]] = {}


def tracer_of(trace: ProgramTrace, var: Var) -> Any:
    tracer = TRACERS.get(type(var.type), ProgramTracer)(trace, var)
    if trace.made is not None:
        trace.made.append(weakref.ref(tracer))
    return tracer


def leaked(x: Tracer) -> LeakedTracerError:
    return LeakedTracerError(
        f"{x.describe()}{_made(x)} was used after the transformation that made it had returned",
        "return the value from the function instead of storing it in a global, an attribute or a closure",
    )


def _made(x: Array) -> str:
    """Where a tracer was made, for messages."""
    if isinstance(x, ProgramTracer):
        trace: Any = x._trace
        if x._var in trace.inputs:
            return f", argument {trace.inputs.index(x._var)} of {trace.name},"
        source = next((e.source for e in trace.eqns if x._var in e.outputs), None)
        return "" if source is None else f", made at {source},"
    inner = getattr(x, "primal", getattr(x, "value", None))
    return _made(inner) if isinstance(inner, Tracer) else ""


def _check_leaks(trace: ProgramTrace, made: Sequence[weakref.ref[Any]]) -> None:
    """Raise where a tracer of a trace that has ended is still referred to. Raises `LeakedTracerError`."""
    alive = [found for found in made if found() is not None]
    if alive:
        gc.collect()  # those in circles that nothing refers to
    for found in alive:
        x = found()
        if x is not None:
            holder = next((h for h in gc.get_referrers(x) if not isinstance(h, (FrameType, list))), None)
            held = "" if holder is None else f", by an object of type {type(holder).__name__}"
            raise LeakedTracerError(
                f"{x.describe()}{_made(x)} is still referred to after {trace.name} was traced{held}",
                "return the value from the function instead of storing it in a global, an attribute or a closure",
                next((e.source for e in trace.eqns if x._var in e.outputs), None))  # fmt: skip


def trace_program(fun: Callable[..., Sequence[Any]], types: Sequence[Type], name: str = "program") -> Program:
    """Record `fun(*tracers) -> outputs` (flat) as a Program; what it closes over become constants."""
    trace = ProgramTrace(_current.get(), name)
    outer = _current.set(trace)  # not by `under`: nested traces cost few frames
    try:
        tracers = [trace.new_input(t) for t in types]
        program = trace.finish(fun(*tracers))
    finally:
        _current.reset(outer)
        trace.done = True
    if trace.made:
        del tracers
        _check_leaks(trace, trace.made)
    if current_config().debug_checks:
        check_program(program)
    return program


def bind_eqn(eqn: Eqn, values: Sequence[Any]) -> Sequence[Any]:
    out = of_line(eqn.source or _line.get(), _current.get().bind, eqn.primitive, values, eqn.params)
    return out if eqn.primitive.multiple else (out,)


def eval_program(program: Program, *args: Any) -> list[Any]:
    """Evaluate a Program under the current trace."""
    return run(program, bind_eqn, args, attrgetter("val"))


def as_type(x: Any) -> Type:
    """The type of an array, or of anything with `shape` and `dtype` such as a `ShapeDtypeStruct`."""
    if isinstance(x, (ArrayType, RefType, OpaqueType)):
        return x  # type: ignore[return-value]  (an opaque type acts as one)
    own = isinstance(x, (Value, np.ndarray, np.generic, *opaque_types))
    if not own and hasattr(x, "shape") and hasattr(x, "dtype"):
        dtype = as_dtype(x.dtype)
        found = ArrayType(tuple(x.shape), canonical_dtype(dtype), bool(getattr(x, "weak_type", False)))
        place, manual = getattr(x, "sharding", None), getattr(x, "manual_axis_type", None)
        found = VaryingType(found, frozenset(getattr(manual, "varying", ())))
        return found if place is None else with_sharding(found, place)
    return typeof(x)
