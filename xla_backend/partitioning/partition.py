"""`partition`: a Program for one mesh. How each input and result lies is settled, and padding is added where needed.

An array whose axes do not divide a dimension is kept padded: the program cuts the padding off where the array enters
and adds it where one leaves, so that no operation sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.ir.passes import hoist, primitives_of, vocabulary
from ...core.ir.program import Program, Var, subprograms
from ...core.ir.types import ArrayType, Type, with_sharding
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.movement.shape import pad_p, slice_p
from ...core.random.key_lowering import physicalize
from ...core.sharding import sharding_in_types
from ...core.sharding.mesh import UNCONSTRAINED, AbstractMesh, AnyMesh, Mesh, NamedSharding, PartitionSpec, constraint_p
from ...core.sharding.mesh_in_force import everywhere, get_mesh
from ...core.sharding.shard_map import shard_map_p
from ...core.sharding.visualize import inspect_sharding_p
from ...core.support.errors import MeshError
from ...core.tracing.trace import trace_program, typeof
from ...core.transforms.rule_helpers import zeros
from ..execution.sharded_execution import make_runner
from ..options.compile_options import Place, Settings, Unit
from ..pipeline import inspect_sharding
from ..stablehlo import spmd

if TYPE_CHECKING:
    from ...core.ir.array import Array


def on_mesh(program: Program, here: bool = False) -> bool:
    """Whether a Program is one of a mesh: of that in force, or it says itself how values lie on one.

    `here`: it is for the devices of this process.
    """
    if here and everywhere() is not None:
        return True
    made_of = vocabulary(program)
    if not made_of.primitives.isdisjoint((constraint_p, shard_map_p)):
        return True
    return any(getattr(value, "_placed", None) is not None for p in (program, *made_of.programs) for value in p.values)


def partition(
    unit: Unit, settings: Settings, lowered: Callable[..., Any], shardy: Any, kernels: Any = None
) -> tuple[Unit, Any]:
    """The unit for one mesh; and where it may have kernels, what became of them (`kernels_on_mesh.Told`).

    Where results are open, `lowered` gives the text of the program, and `shardy` tells how they come to lie. `kernels`
    gives the `kernels_on_mesh.Calls` of a program that may have any.

    Raises:
      MeshError: meshes of different devices in one program.
      ShapeError: a spec that is longer than its array's shape.
    """
    program, constants = hoist(unit.program)
    place = unit.place or Place((None,) * len(unit.program.inputs), (None,) * len(program.outputs))
    given = (*(getattr(c, "_placed", None) for c in constants), *place.ins)
    mesh, devices = _mesh([*given, *place.outs], program, settings)
    everywhere = NamedSharding(mesh, PartitionSpec())
    ins = [everywhere if s is None else _on(s, mesh) for s in given]
    outs = [None if s is None else _on(s, mesh) for s in place.outs]
    for s, t in zip((*ins, *outs), (*program.in_types, *program.out_types), strict=True):
        if s is not None:
            s.check_rank(t.shape)
    settled = replace(unit, constants=tuple(constants), in_types=tuple(program.in_types),
                      out_types=tuple(program.out_types))  # fmt: skip
    outs = [s or (t and _on(t, mesh)) for s, t in zip(outs, sharding_in_types.told(program), strict=True)]
    program = physicalize(sharding_in_types.plain_program(sharding_in_types.bounded(program, ins, outs)))
    position = {v: i for i, v in enumerate(program.inputs)}
    donated = {i + len(constants) for i in unit.call.donated}
    for i, atom in enumerate(program.outputs):  # what is passed through stays as it lies
        at = position.get(atom) if type(atom) is Var else None
        if outs[i] is None and at is not None and at not in donated:
            outs[i], ndim = ins[at], len(settled.out_types[i].shape)
            if ndim != len(settled.in_types[at].shape):  # keys have a dimension less than their words
                outs[i] = ins[at].with_spec([names or None for names in ins[at].spec.padded(ndim)[:ndim]])
        elif outs[i] is None and not atom.type.shape:  # a number: nothing of it can be split
            outs[i] = everywhere
    resolved = Place(tuple(ins), tuple(outs), devices, mesh.size, spmd.boundary, make_runner)
    calls = None if kernels is None else kernels(program, mesh.size)
    if calls is not None:
        text = calls.kernels and lowered(
            replace(settled, program=_between(calls.opaque, resolved), place=resolved), settings)  # fmt: skip
        program = calls.split(mesh, shardy.unknown_calls(text) if text else {})
    if None in outs:
        text = lowered(replace(settled, program=_between(program, resolved), place=resolved), settings)
        decided = _decided(shardy.propagated(text), outs, program, mesh)
        decided = [s if given else _spelt(s, len(t.shape), settled.in_types, ins)
                   for t, s, given in zip(settled.out_types, decided, outs, strict=True)]  # fmt: skip
        resolved = resolved._replace(outs=tuple(decided))
    if inspect_sharding_p in primitives_of(program):
        asked, told = inspect_sharding.numbered(program)
        text = lowered(replace(settled, program=_between(asked, resolved), place=resolved), settings)
        inspect_sharding.call_back(told, mesh, shardy.unknown_calls(text))
        program = inspect_sharding.without_inspections(program)
    types = tuple(map(_out_type, settled.out_types, place.outs, resolved.outs))
    unit = replace(settled, program=_between(program, resolved), place=resolved, out_types=types)
    return unit, None if calls is None else calls.told


def _out_type(type: Type, asked: NamedSharding | None, found: NamedSharding | None) -> Any:
    """The type of a result: as it was traced, unless the caller or the compiler decided how it lies."""
    decides = asked is not None or not (found is None or found.mesh.are_all_axes_explicit)
    return with_sharding(type.plain, found) if decides and isinstance(type, ArrayType) else type


def _decided(found: Sequence[Any], outs: Sequence[Any], program: Program, mesh: AnyMesh) -> tuple[NamedSharding, ...]:
    """The sharding of every result, of those that are open by what Shardy found for the module's results."""
    names, inputs = {str(n): n for n in mesh.axis_names}, set(program.inputs)
    given, decided = iter(found), []
    for out, atom in zip(outs, program.outputs, strict=True):
        dims = None if out is not None and atom in inputs else next(given, None)
        if out is None:
            known = dims[1] if dims is not None and dims[0] == "mesh" else ()
            spec = [tuple(names[a] for a in axes) for axes in known[: len(atom.type.shape)]]
            while spec and not spec[-1]:
                spec.pop()
            out = NamedSharding(mesh, PartitionSpec(*spec))
        decided.append(out)
    return tuple(decided)


def _spelt(sharding: NamedSharding, ndim: int, types: Sequence[Any], ins: Sequence[NamedSharding]) -> NamedSharding:
    """A result's sharding in the spelling of an equal one of an input: `P('x', None)` for `P('x',)`.

    Shardy drops axes of one device, which an input's spec may name. On a mesh whose axes are all Explicit the spec has
    an entry for each dimension.
    """
    if sharding.mesh.are_all_axes_explicit:
        return sharding.with_spec([names or None for names in sharding.spec.padded(ndim)])
    found = _split(sharding, ndim)
    for t, s in zip(types, ins, strict=True):
        if len(t.shape) == ndim and s.kind is None and s.mesh is sharding.mesh and _split(s, ndim) == found:
            return s
    return sharding


def _split(sharding: NamedSharding, ndim: int) -> list[list[Any]]:
    """The axes of more than one device that split each dimension."""
    return [[n for n in names if sharding.mesh.shape[n] > 1] for names in sharding.spec.padded(ndim)]


# ---------------------------------------------------------------------------- the mesh of a program


def meshes_in(program: Program) -> Iterator[Any]:
    """The meshes that equations of a Program name."""
    for eqn in program.eqns:
        if eqn.primitive in (constraint_p, shard_map_p):
            found = eqn.params.get("mesh") or getattr(eqn.params.get("sharding"), "mesh", None)
            if found is not None and not found.manual_axes:  # the `shard_map` around it names the mesh
                yield found
        for _, inner in subprograms(eqn):
            yield from meshes_in(inner)


def _mesh(shardings: Sequence[Any], program: Program, settings: Settings) -> tuple[Any, tuple[Any, ...] | None]:
    """The mesh of a program and its devices, None where none are here."""
    found = dict.fromkeys([*(s.mesh for s in shardings if s is not None), *meshes_in(program)]) or {get_mesh(): None}
    first = next((m for m in found if isinstance(m, Mesh)), None)
    if first is None:
        first = next(iter(found))
        if settings.device is not None:
            raise MeshError(f"a program on {first}, which has no devices", "use a `Mesh`, or arrays sharded over one")
    if not isinstance(first, Mesh):
        return first, None
    for other in found:
        if other.size != first.size or isinstance(other, Mesh) and other.flat != first.flat:
            same = isinstance(other, Mesh) and {*other.flat} == {*first.flat}
            difference = "have the same devices in different orders" if same else "are of different devices"
            one, two = map(_listed if same else str, (first, other))
            raise MeshError(f"{program.name} is given arrays on {one} and on {two}, which {difference}",
                            "move them to one mesh with `device_put`")  # fmt: skip
    return first, first.flat


def _listed(mesh: Mesh) -> str:
    """A mesh with the numbers of its first devices."""
    ids = [d.id for d in mesh.flat]
    return f"{mesh} of devices {', '.join(map(str, ids[:8]))}{', ...' * (len(ids) > 8)}"


def _as(mesh: Mesh, axes: AbstractMesh) -> Mesh:
    """The devices of a mesh in the grid of one without devices."""
    if mesh.has_axes(axes):
        return mesh
    return Mesh(mesh.devices.reshape(axes.axis_sizes), axes.axis_names, axes.axis_types)


def _on(sharding: NamedSharding, mesh: AnyMesh) -> NamedSharding:
    """A sharding over a mesh with devices, where the program has one."""
    if isinstance(sharding.mesh, AbstractMesh) and isinstance(mesh, Mesh):
        sharding = NamedSharding(_as(mesh, sharding.mesh), sharding.spec, sharding.kind)
    dims = sharding.spec.dims
    if UNCONSTRAINED in dims:  # at the boundary nothing is left open
        return sharding.with_spec(PartitionSpec(*[None if d is UNCONSTRAINED else d for d in dims]))
    return sharding


# ---------------------------------------------------------------------------- padding


def _between(program: Program, place: Place) -> Program:
    """The Program between padded arrays. A result that is an input is no longer that one if it is to lie otherwise."""
    ends = zip((*place.ins, *place.outs), (*program.in_types, *program.out_types), strict=True)
    ragged = any(s is not None and s.padded_shape(t.shape) != t.shape for s, t in ends)
    lying = dict(zip(program.inputs, place.ins, strict=True))
    ends = zip(program.outputs, place.outs, strict=True)
    moved = [type(a) is Var and a in lying and s is not None and s is not lying[a] for a, s in ends]
    if not (ragged or any(moved)):
        return program

    def run(*args: Any) -> list[Any]:
        inner = [_cut(x, v.type, s) for x, v, s in zip(args, program.inputs, place.ins, strict=True)]
        outs = jit_p.bind(*inner, program=program, name=program.name, donated=(), inline=True)
        outs = [constraint_p.bind(x, sharding=s) if m else x for x, s, m in zip(outs, place.outs, moved, strict=True)]
        return [_padded(x, a.type, s) for x, a, s in zip(outs, program.outputs, place.outs, strict=True)]

    types = [t.with_shape(s.padded_shape(t.shape)) for t, s in zip(program.in_types, place.ins, strict=True)]
    return trace_program(run, types, program.name)


def _cut(x: Array, type: Type, sharding: NamedSharding | None) -> Any:
    if sharding is None or sharding.padded_shape(type.shape) == type.shape:
        return x
    start = (0,) * type.ndim
    return constraint_p.bind(slice_p.bind(x, start_indices=start, limit_indices=type.shape, strides=None),
                             sharding=sharding)  # fmt: skip


def _padded(x: Array, type: Any, sharding: NamedSharding | None) -> Any:
    if sharding is None or sharding.padded_shape(type.shape) == type.shape:
        return x
    wide = sharding.padded_shape(type.shape)
    config = tuple((0, w - n, 0) for w, n in zip(wide, type.shape, strict=True))
    zero = zeros(type.with_shape(()))
    if typeof(zero).dtype != type.dtype:  # a 64-bit type while these are not enabled
        zero = convert_element_type_p.bind(zero, new_dtype=type.dtype, weak_type=False)
    return constraint_p.bind(pad_p.bind(x, zero, padding_config=config), sharding=sharding)
