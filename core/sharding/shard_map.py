"""`shard_map`: a function of each device's parts of arrays, run on every device of a mesh.

    shard_map[program, mesh, in_specs, out_specs, manual] operands

`program` takes and gives the parts. `manual` are the axes of the mesh that it sees, by collectives over their names;
along the others the compiler splits. Types of its variables say along which axes the devices may differ
(`core/primitives/spmd/varying_axes.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from ..ir.array import Array, Operand
from ..ir.extension_types import OpaqueSpec, is_opaque
from ..ir.passes import eliminate_dead, hoist
from ..ir.primitive import OWN, AxisInfo, Linear, Primitive, Zero
from ..ir.program import Effects, Eqn, Program
from ..ir.types import ArrayType, ShardedType, VaryingType
from ..jit.jit import Jit, Options
from ..jit.stages import Wrapped
from ..primitives.control_flow.subprograms import with_output_types
from ..primitives.movement.shape import expand_dims, squeeze
from ..primitives.spmd.varying_axes import assume_equal_p, ordered, psum_invariant_p
from ..support import pytree as tree
from ..support.config import config, current
from ..support.errors import (
    ArgumentError,
    ArgumentTypeError,
    MeshAxisError,
    ShapeError,
    TreeError,
    UnsupportedError,
    plural,
)
from ..tracing.numpy_interpreter import evaluate
from ..tracing.trace import Value, axis_environment, eval_program, on_each_device, trace_program, typeof
from ..transforms.batching import batch_program
from ..transforms.jvp import jvp_program
from ..transforms.linearize import linearized
from ..transforms.transpose import transpose_program
from .mesh import UNCONSTRAINED, AbstractMesh, Mesh, NamedSharding, PartitionSpec
from .unreduced_bodies import unreduced_results

if TYPE_CHECKING:
    from ..checkify.transform import Walk

Specs = tuple[PartitionSpec, ...]
_ARRAYS = (Value, np.ndarray, np.generic, float, complex)  # passed as values, whatever their spec
INFER = object()  # in place of specs or axes: types of arguments tell


def _on_device(mesh: AbstractMesh | Mesh, manual: Sequence[Any]) -> Any:
    return on_each_device([(name, mesh.shape[name]) for name in manual])


def part_type(
    t: ArrayType, spec: PartitionSpec, mesh: AbstractMesh | Mesh, manual: Sequence[str] | None = None,
    check: bool = True,
) -> Any:  # fmt: skip
    """The type of a device's part of a value."""
    return t.shard(mesh, frozenset(mesh.axis_names if manual is None else manual), check, spec)


def _whole_type(t: ArrayType, spec: PartitionSpec, mesh: AbstractMesh | Mesh, manual: Sequence[Any]) -> Any:
    return t.unshard(mesh, True, spec) if is_opaque(t) else t.unshard(mesh, True, spec, manual)


def _dual(spec: Any) -> Any:
    return _tangent_spec(spec) if isinstance(spec, OpaqueSpec) else spec.dual


def _tangent_spec(spec: Any) -> Any:
    return spec.tangent() if isinstance(spec, OpaqueSpec) else spec


def _part_specs(spec: PartitionSpec) -> Sequence[Any]:
    """A spec for each array that a value is made of."""
    return spec.part_specs() if isinstance(spec, OpaqueSpec) else (spec,)


def _recounted(params: dict[str, Any], widths: Sequence[int]) -> dict[str, Any]:
    specs = {name: tuple(p for s in params[name] for p in _part_specs(s)) for name in ("in_specs", "out_specs")}
    return params | specs


def _typing(
    *types: Any, program: Program, mesh: AbstractMesh | Mesh, out_specs: Specs, manual: Sequence[Any], **_: Any
) -> list[Any]:
    return [_whole_type(t, s, mesh, manual) for t, s in zip(program.out_types, out_specs, strict=True)]


def _effects(*types: Any, program: Program, manual: Sequence[Any], **_: Any) -> Effects:
    return frozenset(e for e in program.effects if not (e.kind == "axis" and e.operand in manual))


def _bind(*operands: Any, program: Program, out_specs: Specs, **how: Any) -> list[Any]:
    """Bind a body each of whose results differs along the axes that its spec names: where parts are joined."""
    outs: list[Any] = program.out_types
    types: list[Any] = [t if is_opaque(t) else VaryingType(t, t.vary | s.unreduced.union(s.axes))
             for t, s in zip(outs, out_specs, strict=True)]  # fmt: skip
    program = with_output_types(program, types)
    return shard_map_p.bind(*operands, program=program, out_specs=out_specs, **how)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, in_specs: Specs, out_specs: Specs,
         **how: Any) -> Any:  # fmt: skip
    nonzero = tuple(type(t) is not Zero for t in tangents)
    with _on_device(how["mesh"], how["manual"]):
        derived, present = jvp_program(program, nonzero)
    given = [t for t in tangents if type(t) is not Zero]
    specs = (*in_specs, *(_tangent_spec(s) for s, nz in zip(in_specs, nonzero, strict=True) if nz))
    tangent_specs = (_tangent_spec(s) for s, p in zip(out_specs, present, strict=True) if p)
    outs = _bind(*primals, *given, program=derived, in_specs=specs, out_specs=(*out_specs, *tangent_specs), **how)
    n = len(program.outputs)
    rest = iter(outs[n:])
    return outs[:n], [next(rest) if p else Zero(typeof(o).tangent()) for o, p in zip(outs[:n], present, strict=True)]


def _linearize(primals: Sequence[Any], nonzero: tuple[bool, ...], *, program: Program, in_specs: Specs,
               out_specs: Specs, **how: Any) -> Any:  # fmt: skip
    mesh, manual = how["mesh"], how["manual"]
    with _on_device(mesh, manual):
        parts = linearized(program, nonzero)
        n = len(program.outputs)
        stored = [a.type for a in parts.primal.outputs[n:]]
        if any(map(is_opaque, stored)):
            raise UnsupportedError("a derivative of shard_map would store a value of a client's own type",
                                   "return the value, or make it of arguments again (`checkpoint`)")  # fmt: skip
        spread = tuple(PartitionSpec(tuple(a for a in manual if a in t.vary)) for t in stored)
        primal, linear = _with_leading(parts, n)
    results = _bind(*primals, program=primal, in_specs=in_specs, out_specs=(*out_specs, *spread), **how)
    outs, residuals = parts.gather(primals, results)
    source = {"in": in_specs, "out": out_specs, "stored": spread}
    specs = tuple(source[kind][i] for kind, i in parts.residuals)
    tangent_specs = tuple(_tangent_spec(s) for s, nz in zip(in_specs, nonzero, strict=True) if nz)
    given_specs = tuple(_tangent_spec(s) for s, p in zip(out_specs, parts.out_nonzero, strict=True) if p)

    def apply(*tangents: Any) -> list[Any]:
        given = [t for t in tangents if type(t) is not Zero]
        found = iter(_bind(*residuals, *given, program=linear, in_specs=(*specs, *tangent_specs),
                                      out_specs=given_specs, **how))  # fmt: skip
        return [next(found) if p else Zero(typeof(o).tangent()) for o, p in zip(outs, parts.out_nonzero, strict=True)]

    return outs, apply


def _with_leading(parts: Any, n: int) -> tuple[Program, Program]:
    """A linearised body whose stored values have a leading axis of one, along which those of the devices are joined."""
    def primal(*args: Any) -> list[Any]:
        outs = eval_program(parts.primal, *args)
        return [*outs[:n], *(expand_dims(x, (0,)) for x in outs[n:])]

    wide = [kind == "stored" for kind, _ in parts.residuals]

    def linear(*args: Any) -> list[Any]:
        given = [squeeze(x, (0,)) if w else x for x, w in zip(args, wide)]
        return eval_program(parts.linear, *given, *args[len(wide) :])

    types = [v.type for v in parts.linear.inputs]
    types[: len(wide)] = [t.with_axis(0, 1) if w else t for t, w in zip(types, wide)]
    return trace_program(primal, parts.primal.in_types, parts.primal.name), trace_program(linear, types, "linear")


def _transpose(cts: Sequence[Any], *args: Any, program: Program, in_specs: Specs, out_specs: Specs,
               **how: Any) -> list[Any]:  # fmt: skip
    linear = tuple(isinstance(a, Linear) for a in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    with _on_device(how["mesh"], how["manual"]):
        outs = tuple(_dual(s) for s, li in zip(in_specs, linear, strict=True) if li)
        given = [s for s, nz in zip(out_specs, nonzero, strict=True) if nz]
        transposed = _given_in_parts(transpose_program(program, linear, nonzero), given)
        transposed = _summed(transposed, outs, how["manual"])
    operands = [*(a for a, li in zip(args, linear, strict=True) if not li), *(ct for ct in cts if type(ct) is not Zero)]
    specs = [s for s, li in zip(in_specs, linear, strict=True) if not li]
    specs += map(_dual, given)
    found = iter(_bind(*operands, program=transposed, in_specs=tuple(specs), out_specs=outs, **how))
    return [next(found) if li else None for li in linear]


def _summed(program: Program, specs: Specs, manual: Sequence[Any]) -> Program:
    """A body whose results are summed over those axes that it sees along which they differ, and that specs leave out.

    So is the cotangent of an argument of a client's own type, which does not tell where it differs. The cotangent of
    what was given in parts is the same on all devices.
    """
    left: list[Any] = [() if is_opaque(a.type) else _left_out(a.type, s, manual)
                       for a, s in zip(program.outputs, specs, strict=True)]  # fmt: skip
    if not any(left):
        return program

    def one(x: Any, axes: Sequence[Any], spec: Any) -> Any:
        equal = ordered(n for n in axes if n in spec.reduced)
        x = assume_equal_p.bind(x, axes=equal) if equal else x
        summed = ordered(n for n in axes if n not in spec.reduced)
        return psum_invariant_p.bind(x, axes=summed) if summed else x

    def summed(*args: Any) -> list[Any]:
        outs = zip(eval_program(program, *args), left, specs, strict=True)
        return [one(x, axes, spec) if axes else x for x, axes, spec in outs]

    return trace_program(summed, program.in_types, program.name)


def _left_out(t: ArrayType, spec: PartitionSpec, manual: Sequence[Any]) -> tuple[Any, ...]:
    """The axes that a body sees along which a result differs, and of which its spec does not say so."""
    return ordered(n for n in t.vary if n in manual and n not in spec.axes and n not in spec.unreduced)


def _given_in_parts(program: Program, specs: Sequence[Any]) -> Program:
    """A transposed body whose last inputs, cotangents of results that specs call reduced, are in parts."""
    reduced = [frozenset() if isinstance(s, OpaqueSpec) else s.reduced for s in specs]
    if not any(reduced):
        return program
    start = len(program.inputs) - len(specs)
    types = [VaryingType(t, t.vary | axes) for t, axes in zip(program.in_types[start:], reduced, strict=True)]

    def summing(*args: Any) -> list[Any]:
        cts = zip(args[start:], reduced, strict=True)
        whole = [psum_invariant_p.bind(ct, axes=ordered(axes)) if axes else ct for ct, axes in cts]
        return eval_program(program, *args[:start], *whole)

    return trace_program(summing, [*program.in_types[:start], *types], program.name)


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, program: Program, in_specs: Specs,
           out_specs: Specs, **how: Any) -> Any:  # fmt: skip
    mesh, manual = how["mesh"], how["manual"]
    lies = () if axis.lies is None else axis.lies.spec.axes
    names = lies if axis.spmd is None else axis.spmd if isinstance(axis.spmd, tuple) else (axis.spmd,)
    names = tuple(n for n in names if n in manual)
    free = tuple(n for n in lies if n not in manual)
    lies_free = axis.lies.with_spec([free]) if axis.lies is not None and free else None
    here = AxisInfo(axis.size // mesh.parts(names), axis.name, lies=lies_free)
    with _on_device(mesh, manual):
        if names:
            program = _varying(program, [d is not None for d in dims], frozenset(names))
        batched, out_dims = batch_program(program, here, tuple(dims))

    def placed(spec: PartitionSpec, t: Any, d: int | None) -> PartitionSpec:
        if d is None:
            return spec
        whole = spec.padded(t.ndim)
        return spec.with_dims(*whole[:d], names or None, *whole[d:])

    ins = tuple(placed(s, v.type, d) for s, v, d in zip(in_specs, program.inputs, dims, strict=True))
    outs = tuple(placed(s, a.type, d) for s, a, d in zip(out_specs, program.outputs, out_dims, strict=True))
    return _bind(*args, program=batched, in_specs=ins, out_specs=outs, **how), out_dims


def _varying(program: Program, flags: Sequence[bool], names: frozenset[Any]) -> Program:
    """A body some of whose inputs differ along more axes."""
    ins: list[Any] = program.in_types
    types = [VaryingType(t, t.vary | names) if f else t for t, f in zip(ins, flags, strict=True)]
    return trace_program(functools.partial(eval_program, program), types, program.name)


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn:
    params = eqn.params
    program, live = eliminate_dead(params["program"], used, keep_inputs=False)
    kept = [i for i, u in enumerate(live) if u]
    specs = {"in_specs": tuple(params["in_specs"][i] for i in kept),
             "out_specs": tuple(s for s, u in zip(params["out_specs"], used, strict=True) if u)}  # fmt: skip
    inputs = tuple(eqn.inputs[i] for i in kept)
    params: dict[str, Any] = params | specs | {"program": program}
    return eqn.replace(inputs=inputs, outputs=tuple(v for v, u in zip(eqn.outputs, used, strict=True) if u),
                       params=params, effects=_effects(**params))  # fmt: skip


def _checked(walk: Walk, eqn: Eqn, values: Sequence[Any]) -> Any:
    """Every device's failures along a leading axis; that of the first device counts."""
    params: dict[str, Any] = dict(eqn.params)
    mesh, manual = params["mesh"], params["manual"]
    with _on_device(mesh, manual):
        inner = walk.checked(params["program"])
        if not inner.sites:
            return None
        w = inner.width

        def body(*args: Any) -> list[Any]:
            outs = eval_program(inner.program, *args)
            return [*(expand_dims(x, (0,)) for x in outs[:w]), *outs[w:]]

        program = trace_program(body, inner.program.in_types, inner.program.name)
    spread = (PartitionSpec(tuple(manual)),) * w
    params |= {"program": program, "in_specs": ((PartitionSpec(),) * len(inner.constants) + params["in_specs"]),
               "out_specs": spread + params["out_specs"]}  # fmt: skip
    outs = _bind(*inner.constants, *values, **params)
    walk.discharge(outs[0], outs[1:w], inner.sites)
    return outs[w:]


def _numpy(*arrays: Any, program: Program, mesh: Any, in_specs: Specs, out_specs: Specs, manual: Any) -> list[Any]:
    axes = list(manual)
    parts = (parts_of(x, s, axes, mesh) for x, s in zip(arrays, in_specs, strict=True))
    outs = evaluate(over_devices(program, mesh, manual), *parts)
    return [joined(x, s, axes, mesh) for x, s in zip(outs, out_specs, strict=True)]


def over_devices(program: Program, mesh: AbstractMesh, manual: Sequence[Any]) -> Program:
    """A device's program batched: every device's part along leading axes, one for each axis of the mesh."""
    with _on_device(mesh, manual):
        for name in reversed(manual):
            program, _ = batch_program(program, AxisInfo(mesh.shape[name], name), (0,) * len(program.inputs), True)
    return program


def parts_of(x: Operand, spec: PartitionSpec, axes: list[Any], mesh: AbstractMesh) -> Any:
    """The parts of an array, along leading axes."""
    shape, order = [], {}
    for n, names in zip(x.shape, spec.padded(x.ndim), strict=True):
        for a in names:
            order[a] = len(shape)
            shape.append(mesh.shape[a])
        shape.append(n // mesh.parts(names))
    x = x.reshape(shape)
    x = np.moveaxis(x, [order[a] for a in axes if a in order], range(len(order)))
    for i, a in enumerate(axes):
        if a not in order:
            x = np.repeat(np.expand_dims(x, i), mesh.shape[a], i)
        if a in spec.unreduced:  # the first part is the value, the others are zero
            x = x * (np.arange(mesh.shape[a]) == 0).astype(x.dtype).reshape(-1, *(1,) * (x.ndim - i - 1))
    return x


def joined(x: Operand, spec: PartitionSpec, axes: list[Any], mesh: AbstractMesh) -> Any:
    """The array of parts along leading axes."""
    used = [a for a in axes if a in spec.axes]
    x = x.sum(tuple(i for i, a in enumerate(axes) if a in spec.unreduced), x.dtype, keepdims=True)
    x = x[tuple(slice(None) if a in used else 0 for a in axes)]
    local = x.shape[len(used) :]
    order, shape = [], []
    for i, (n, names) in enumerate(zip(local, spec.padded(len(local)), strict=True)):
        order += [*(used.index(a) for a in names), len(used) + i]
        shape.append(n * mesh.parts(names))
    return np.transpose(x, order).reshape(shape)


shard_map_p: Primitive = Primitive(
    "shard_map", _typing, jvp=_jvp, linearize=_linearize, transpose=_transpose, batch=_batch, dce=_dce,
    effects=_effects, numpy=_numpy, recounted=_recounted, multiple=True, varies=OWN, checked=_checked,
)  # fmt: skip
PRIMITIVES = (shard_map_p,)

# ---------------------------------------------------------------------------- the function


class ShardMapDecorator(Protocol):
    """What `shard_map` gives without a function: a decorator."""

    def __call__[**P, R](self, f: Callable[P, R], /) -> Wrapped[P, R]: ...


@overload
def shard_map[**P, R](
    f: Callable[P, R], /, *, out_specs: Any, in_specs: Any = INFER, mesh: AbstractMesh | Mesh | None = None,
    axis_names: Any = frozenset(), check_vma: bool = True,
) -> Wrapped[P, R]: ...  # fmt: skip
@overload
def shard_map(
    f: None = None, /, *, out_specs: Any, in_specs: Any = INFER, mesh: AbstractMesh | Mesh | None = None,
    axis_names: Any = frozenset(), check_vma: bool = True,
) -> ShardMapDecorator: ...  # fmt: skip
def shard_map(
    f: Callable[..., Any] | None = None, /, *, out_specs: Any, in_specs: Any = INFER,
    mesh: AbstractMesh | Mesh | None = None, axis_names: Any = frozenset(), check_vma: bool = True,
) -> Any:  # fmt: skip
    """A function that runs `f` on every device of a mesh, on the parts of its arguments that the device holds.

    `in_specs` and `out_specs` (prefixes of the trees of arguments and results) say which axes split which dimensions;
    `out_specs` may be a function that gives them once `f` was traced. Where `in_specs` hold None, arrays and floats are
    replicated and any other value is passed to `f` as it is. Without `in_specs` the
    types of the arguments tell how they lie, along axes of the type `Explicit`.
    Within, collectives of `lax` over the axes' names move values between devices. `mesh` is by default the one in
    force; `axis_names` are the axes that `f` sees, all by default, and along the others the compiler splits. A result
    that may differ along an axis which its spec leaves out is an error, unless `check_vma=False` says that it does not.

    Raises:
      MeshAxisError: an axis that the mesh has not, a result that differs along an axis that its spec leaves out.
      ShapeError: a dimension that the axes of its spec do not divide.
      ArgumentError: no mesh; no `in_specs`, on a mesh whose axes types do not tell of.
      TreeError: specs that are not a prefix of the arguments' structure.

    >>> import tilewright as tw
    >>> mesh = tw.make_mesh((1,), ("x",))
    >>> total = shard_map(lambda x: tw.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=tw.P("x"), out_specs=tw.P())
    >>> float(total(tw.numpy.arange(4.0)))
    6.0
    """
    if f is None:
        return functools.partial(shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names,
                                 check_vma=check_vma)  # fmt: skip
    if not callable(f):
        raise ArgumentTypeError(f"shard_map takes a function, got {f!r}", "pass a callable")

    def run(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ArgumentTypeError(f"{getattr(f, '__name__', f)} of shard_map was given {sorted(kwargs)} by keyword",
                                    "pass arguments by position, as `in_specs` has them")  # fmt: skip
        over = current().mesh if mesh is None else mesh
        if not isinstance(over, (Mesh, AbstractMesh)):
            raise ArgumentError("shard_map without a mesh", "pass `mesh=`, or use it within `use_mesh(mesh)`")
        return _call(f, args, over, in_specs, out_specs, _manual(over, axis_names), check_vma)

    functools.update_wrapper(run, f, updated=())
    mapped = Jit(run, Options()).function
    open_specs = in_specs is not INFER and None in tree.leaves(in_specs, lambda s: s is None)
    return _with_statics(mapped, f, in_specs) if open_specs else mapped


class _Static:
    """A Python value among arguments, as a part of their structure."""

    def __init__(self, value: Any):
        self.value, self.key = value, (type(value), value)
        try:
            hash(value)
        except Exception:  # a user's `__hash__` may raise anything
            self.key = (type(value), id(value))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self.key == other.key


tree.register_pytree_node(_Static, lambda s: ((), s), lambda s, _: s)


def _with_statics(mapped: Any, f: Any, in_specs: Any) -> Any:
    """A mapped function to which what is no array passes unchanged where `in_specs` hold None."""

    def known(args: Any) -> Any:
        leaves, structure = tree.flatten(args)
        specs = _prefix(in_specs, args, "in_specs", f)
        return structure.unflatten([_Static(x) if s is None and not isinstance(x, _ARRAYS) else x
                                    for x, s in zip(leaves, specs, strict=True)])  # fmt: skip

    return functools.update_wrapper(lambda *args, **kwargs: mapped(*known(args), **kwargs), f, updated=())


def _mapped() -> set[Any]:
    """The axes that each `shard_map` around the current trace maps over."""
    return {a[0] for a in axis_environment() if len(a) == 3}


def _manual(mesh: AbstractMesh | Mesh, names: frozenset[Any]) -> tuple[Any, ...]:
    """The axes that the function sees, in the mesh's order: those named, by default all that none outside sees."""
    outside = _mapped()
    names = set(names) or set(mesh.axis_names) - outside
    for name in names:
        if name not in mesh.shape:
            raise MeshAxisError(f"shard_map over the axis {name!r}, which {mesh} does not have", "name the mesh's axes")
        if name in outside:
            raise MeshAxisError(f"shard_map over {name!r} within one over {name!r}", "name other axes of the mesh")
    return tuple(n for n in mesh.axis_names if n in names)


def _call(
    f: Callable[..., Any], args: Sequence[Any], mesh: AbstractMesh | Mesh, in_specs: Any, out_specs: Any,
    manual: Sequence[str], check: bool,
) -> Any:  # fmt: skip
    leaves, in_tree = tree.flatten(args)
    types: list[Any] = [typeof(x) for x in leaves]
    specs: Any = _inferred(types, mesh, manual) if in_specs is INFER else _flat_specs(in_specs, args, "in_specs", f)
    for t, s in zip(types, specs, strict=True):
        for part, spec in zip(t.part_types() if is_opaque(t) else (t,), _part_specs(s), strict=True):
            _check_in(part, spec, mesh, manual)
    out: dict[str, Any] = {}

    def body(*parts: Any) -> list[Any]:
        given = in_tree.unflatten(parts)
        results = f(*tree.map(lambda x: x.value if type(x) is _Static else x, given, is_leaf=_is_static))
        flat, out["tree"] = tree.flatten(results)
        wanted = out_specs() if callable(out_specs) else out_specs
        out["specs"] = _flat_specs(wanted, results, "out_specs", f)
        return [_leaving(x, s, mesh, manual, check) for x, s in zip(flat, out["specs"], strict=True)]

    with _on_device(mesh, manual), config(mesh=mesh.mapped(_mapped().intersection(mesh.axis_names))):
        program = trace_program(body, [part_type(t, s, mesh, manual, check) for t, s in zip(types, specs, strict=True)],
                                getattr(f, "__name__", "shard_map"))  # fmt: skip
    if check:
        _check_unreduced(program, specs, out["specs"])
    program, constants = hoist(program)
    leaves = [_entering(x, t, s, mesh) for x, t, s in zip(leaves, types, specs, strict=True)]
    everywhere = (PartitionSpec(),) * len(constants)
    outs = _bind(*constants, *leaves, program=program, mesh=mesh, in_specs=(*everywhere, *specs),
                            out_specs=tuple(out["specs"]), manual=manual)  # fmt: skip
    return out["tree"].unflatten(outs)


def _entering(x: Array, t: ArrayType, spec: PartitionSpec, mesh: AbstractMesh | Mesh) -> Any:
    """An argument that is unreduced, or reduced, along those axes of which its spec says so."""
    now = PartitionSpec() if is_opaque(t) or t.placed is None else t.placed.spec
    if is_opaque(t) or (now.unreduced, now.reduced) == (spec.unreduced, spec.reduced):
        return x
    return NamedSharding(mesh, spec).constrain(x)


def _inferred(types: Sequence[Any], mesh: Any, manual: Any) -> Specs:
    """How arguments lie along the axes that the function sees, as their types tell."""
    if not mesh.explicit.issuperset(manual):
        raise ArgumentError(f"shard_map without in_specs over {manual} of {mesh}",
                            "pass `in_specs`: argument types have shardings only along Explicit axes")  # fmt: skip
    lies = [t.placed.spec if isinstance(t, ShardedType) else PartitionSpec() for t in types]
    return tuple(s.with_dims(*(tuple(n for n in names if n in manual) for names in s.dims)) for s in lies)


def _is_static(x: Any) -> bool:
    return type(x) is _Static


def _prefix(specs: Any, values: Any, what: str, function: Callable[..., Any]) -> list[Any]:
    """The spec of each leaf of the arguments (`in_specs`) or of the results (`out_specs`)."""
    if what == "in_specs" and not isinstance(specs, (PartitionSpec, tuple)):
        specs = (specs,)
    try:
        return tree.broadcast_prefix(specs, values)
    except TreeError as error:
        problem, parts = error.what, "arguments" if what == "in_specs" else "results"
        if type(specs) is type(values) is tuple and len(specs) != len(values):
            names = _argument_names(function, values) if parts == "arguments" else ""
            problem = f"{plural(len(specs), 'spec')} for {plural(len(values), parts[:-1])}{names}"
        remedy = f"give one PartitionSpec for each of the {parts}, or one for all of a subtree"
        raise TreeError(f"{what}={specs!r} of shard_map do not fit the {parts}: {problem}", remedy) from None


def _argument_names(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The names of a call's arguments in parentheses, where its function has a name for each."""
    try:
        names = inspect.signature(function).bind(*args).arguments
    except (TypeError, ValueError):
        return ""
    return f" ({', '.join(names)})" if len(names) == len(args) else ""


def _flat_specs(specs: Any, values: Any, what: str, function: Callable[..., Any]) -> Specs:
    found = _prefix(specs, values, what, function)
    for s in found:
        if s is not None and not isinstance(s, (PartitionSpec, OpaqueSpec)):
            raise ArgumentTypeError(f"{what} of shard_map hold {s!r}", "use PartitionSpecs")
        if isinstance(s, PartitionSpec) and UNCONSTRAINED in s.dims:
            raise ArgumentError(f"{what} of shard_map hold {s}", "name the axes of each dimension, or None")
    return tuple(PartitionSpec() if s is None else s for s in found)


def _check_axes(spec: PartitionSpec, mesh: AbstractMesh | Mesh, manual: Sequence[str]) -> None:
    for name in (*spec.axes, *spec.marked):
        if name not in manual:
            known = "is not one of axis_names" if name in mesh.shape else f"{mesh} has not"
            raise MeshAxisError(f"{spec} of shard_map names the axis {name!r}, which {known}", f"one of {manual}")


def _check_in(t: ArrayType, spec: PartitionSpec, mesh: AbstractMesh | Mesh, manual: Sequence[str]) -> None:
    _check_axes(spec, mesh, manual)
    if len(spec) > t.ndim:
        raise ShapeError(f"{spec} of shard_map for an argument of type {t.show()}", "one entry for each dimension")
    for d, (n, names) in enumerate(zip(t.shape, spec.padded(t.ndim), strict=True)):
        if n % mesh.parts(names):
            raise ShapeError(
                f"dimension {d} of an argument of type {t.show()} is split {mesh.parts(names)} ways by {spec}",
                "pad it to a multiple; outside of shard_map, `jit` pads by itself",
            )


def _check_unreduced(program: Program, in_specs: Specs, out_specs: Specs) -> None:
    """Refuse a body that is not linear in its unreduced arguments, or whose specs call a partial sum a value."""
    found = unreduced_results(program, [getattr(s, "unreduced", frozenset()) for s in in_specs])
    for axes, atom, spec in zip(found, program.outputs, out_specs, strict=True):
        if not axes <= getattr(spec, "unreduced", frozenset()):
            raise MeshAxisError(f"a result of type {atom.type.show()} is unreduced along "
                                f"{', '.join(map(repr, ordered(axes)))}, and its spec {spec} does not say so",
                                "sum it (`lax.psum`), or name the axes as `unreduced` in out_specs")  # fmt: skip


def _leaving(x: Array, spec: PartitionSpec, mesh: AbstractMesh | Mesh, manual: Sequence[str], check: bool) -> Any:
    """A result of the body: along axes that its spec leaves out the devices have one value, or are said to."""
    for part in _part_specs(spec):
        _check_axes(part, mesh, manual)
    t: Any = typeof(x)
    if is_opaque(t):
        return x
    if len(spec) > t.ndim:
        raise ShapeError(f"{spec} of shard_map for a result of type {t.show()}", "one entry for each dimension")
    same = ordered(spec.unreduced - t.vary)
    if same:
        raise MeshAxisError(f"a result of type {t.show()}, whose spec {spec} takes it for parts that are to be summed, "
                            f"is the same on all devices along {', '.join(map(repr, same))}",
                            "leave `unreduced` out of the spec")  # fmt: skip
    left = _left_out(t, spec, manual)
    if not left:
        return x
    if check:
        raise MeshAxisError(
            f"a result of type {t.show()} may differ between devices along {', '.join(map(repr, left))}, and its spec "
            f"{spec} does not name that",
            "name the axis in out_specs, reduce over it (`lax.psum`), or pass check_vma=False if the values are equal",
        )
    return assume_equal_p.bind(x, axes=left)
