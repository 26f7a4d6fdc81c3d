"""Batching: a trace whose values may carry one more axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.array import ArrayLike, Operand
from ..ir.axis_relation import PARALLEL, Axis, Relation, inserted, pointwise, without
from ..ir.binding import Trace, current_trace, under
from ..ir.extension_types import MappingSpec
from ..ir.primitive import NAMED, SIZE, AxisInfo, Primitive
from ..ir.program import Effect, Program
from ..support.errors import UnsupportedError
from ..support.memo import cached
from ..tracing.trace import Tracer, eval_program, extended_axes, shape_of, trace_program, typeof
from .structural_primitives import align, moved


class BatchTracer(Tracer):
    """A value with a batch axis at position `dim`; its type is that of one element."""

    __slots__ = ("value", "dim")
    _trace: BatchTrace
    value: Any
    dim: Any

    def __init__(self, trace: BatchTrace, value: Operand, dim: int):
        self._trace, self.value, self.dim = trace, value, dim

    @property
    def val(self) -> Any:  # as clients of jax read it
        return self.value

    @property
    def batch_dim(self) -> Any:
        return self.dim

    @property
    def aval(self) -> Any:
        return typeof(self.value).without_axis(self.dim, self._trace.axis.size)

    def __repr__(self) -> str:
        return f"VmapTracer(aval={self.aval}, batched={typeof(self.value)})"

    def describe(self) -> str:
        return f"a batched value of type {self.aval.show()}"


class BatchTrace(Trace):
    """Applies batching rules; primitives that name the axis are always batched."""

    __slots__ = ("axis",)

    def __init__(self, parent: Trace, axis: AxisInfo):
        super().__init__(parent)
        self.axis: AxisInfo = axis

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
        values: list[Any] = []
        dims: list[int | None] = []
        for a in args:
            mine = isinstance(a, BatchTracer) and a._trace is self
            values.append(a.value if mine else a)
            dims.append(a.dim if mine else None)
        return values, dims

    def wrap(self, value: ArrayLike, dim: int | None) -> Any:
        return value if dim is None else BatchTracer(self, value, dim)

    def wrap_all(self, values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
        return [self.wrap(v, d) for v, d in zip(values, dims, strict=True)]

    def _names_axis(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
        if self.axis.name is None or primitive.effects is None:
            return False
        return Effect("axis", self.axis.name) in primitive.effects(*map(typeof, args), **params)

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        parent = self.parent
        assert parent is not None
        values, dims = self.split(args)
        if all(d is None for d in dims) and not self._names_axis(primitive, args, params):
            return under(parent, parent.bind, primitive, values, params)
        out, dim = under(parent, batched, primitive, self.axis, values, dims, params)
        return self.wrap_all(out, dim) if primitive.multiple else self.wrap(out, dim)


def batched(
    primitive: Primitive, axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> Any:
    """What a primitive's batching rule gives, its own or the one that its relation implies."""
    if primitive.batch is not None:
        return primitive.batch(axis, args, dims, **params)
    return batch_by_relation(primitive, axis, args, dims, params)


def batch_by_relation(
    primitive: Primitive, axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> Any:
    """The batching rule that a relation implies: one more parallel factor.

    Where `primitive.axes` names the parameters that tell of axes, these follow and nothing moves: the operands then lie
    alike, scalars apart, as those of a pointwise operation do. Without them the new axis leads in every operand.
    """
    alike = primitive.relation is pointwise
    if not (alike or primitive.axes):  # the new axis leads everywhere
        operands, at, batched = [moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True)], 0, (True,) * len(args)
    else:
        operands, at = (args, dims[0]) if len(args) == 1 else align(axis, args, dims)
        if alike:
            out = primitive.bind(*operands, **params)
            return out, [at] * len(out) if primitive.multiple else at
        assert at is not None
        batched = (True,) if len(args) == 1 else tuple([bool(shape_of(x)) for x in operands])
    shifted, places = _extended(primitive, tuple(map(typeof, operands)), batched, at, tuple(params.items()))
    out = primitive.bind(*operands, **shifted)
    return out, list(places) if primitive.multiple else places[0]


@cached(4096)
def _extended(
    primitive: Primitive, types: tuple[Any, ...], batched: tuple[bool, ...], at: int, params: Sequence[Any]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The parameters for operands that have the new axis at `at`, and where that axis is in the results.

    Raises `UnsupportedError` unless the relation is then the old one and a parallel factor: the axis of an operation
    on arrays with two elements along it tells.
    """
    names = primitive.axes or {}
    named = dict(params)
    shapes = [(*t.shape[:at], *t.shape[at + 1 :]) if b else t.shape for t, b in zip(types, batched, strict=True)]
    old = _relation(primitive, [t.with_shape(s) for t, s in zip(types, shapes, strict=True)], named)
    wide = [t.with_shape(inserted(s, at, 2)) if b else t for t, s, b in zip(types, shapes, batched, strict=True)]
    new = old and _relation(primitive, wide, {k: _with_axis(v, names.get(k), at, 2) for k, v in named.items()})
    axis: Axis = () if new is None else next(a[at] for a, b in zip(new.operands, batched, strict=True) if b)
    if new is None or len(axis) != 1 or new.kinds[axis[0]] is not PARALLEL or without(new, axis[0]) != old:
        raise UnsupportedError(f"{primitive.name} has no batching rule", "call it outside `vmap`, or use `lax.map`")
    places = tuple(axes.index(axis) for axes in new.results)
    size = next(t.shape[at] for t, b in zip(types, batched, strict=True) if b)
    return {k: _with_axis(v, names.get(k), at, size) for k, v in named.items()}, places


def _relation(primitive: Primitive, types: Sequence[Any], params: dict[str, Any]) -> Relation | None:
    if primitive.relation is None:
        return None
    outs = primitive.typing(*types, **params)
    return primitive.relation(types, outs if primitive.multiple else [outs], **params)


def _with_axis(value: Any, rule: Any, at: int, size: int) -> Any:
    """A parameter for operands with one more axis."""
    if rule is None or value is None:
        return value
    if rule is NAMED:
        return tuple([v + (v >= at) for v in value]) if isinstance(value, tuple) else value + (value >= at)
    return inserted(value, at, size if rule is SIZE else rule)


def batch_flat(
    fun: Callable[..., Sequence[Any]], axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None]
) -> tuple[list[Any], list[int | None]]:
    """Outputs of a flat function, each with where its batch axis is (None: it has none)."""
    trace = BatchTrace(current_trace(), axis)
    try:
        with extended_axes(axis.name, axis.size):
            outs = under(trace, fun, *trace.wrap_all(args, dims))
    finally:
        trace.done = True
    return trace.split(outs)


@cached(4096)
def batch_program(
    program: Program, axis: AxisInfo, dims: tuple[int | None, ...], force: Any = False
) -> tuple[Program, tuple[int | None, ...]]:
    """The batched Program, batch axes of outputs leading, and which outputs have one.

    `force` (a bool, or one per output) makes an output batched whether or not it depends on the axis.
    """
    forced = (force,) * len(program.outputs) if isinstance(force, bool) else force
    out_dims: list[int | None] = []

    def fun(*args: Any) -> list[Any]:
        outs, found = batch_flat(functools.partial(eval_program, program), axis, args, dims)
        # What a client mapped in a way of its own stays so.
        out_dims[:] = [d if isinstance(d, MappingSpec) else 0 if f or d is not None else None
                       for f, d in zip(forced, found, strict=True)]  # fmt: skip
        return [x if to is None else moved(axis, x, d, to) for x, d, to in zip(outs, found, out_dims, strict=True)]

    types = [
        v.type if d is None else v.type.with_axis(d, axis.size, axis.lies)
        for v, d in zip(program.inputs, dims, strict=True)
    ]
    return trace_program(fun, types, f"vmap_{program.name}"), tuple(out_dims)


def split_as_mapped(axis: AxisInfo, x: ArrayLike, dim: int) -> Any:
    """A result whose mapped axis lies as that of the arguments, along Explicit axes of which its type tells nothing."""
    if axis.lies is None or axis.spmd is not None or not axis.lies.mesh.are_all_axes_explicit:
        return x
    placed, names = typeof(x).placed, axis.lies.spec.padded(1)[0]
    spec = axis.lies.spec.with_dims() if placed is None else placed.spec
    dims = [*spec.padded(typeof(x).ndim)]
    if dims[dim] or any(n in d for d in dims for n in names) or not spec.marked.isdisjoint(names):
        return x
    dims[dim] = names
    return axis.lies.with_spec(spec.with_dims(*dims)).constrain(x)
