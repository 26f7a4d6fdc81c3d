"""Shardings in the types of arrays: how results lie, along axes of a mesh of the type `Explicit`.

    ShardedType(f32[8@x,4@y])  ::= shape and dtype, and for each dimension the axes that split it

An operation's relation says which axes of operands and results go together; so a result lies as its operands do. Where
operands disagree, where a sum is split on both sides, or where an operation needs the whole of a dimension that is
split, nothing follows, and that is an error: the program says what it wants, by `out_sharding`, `reshard` or
`auto_axes`. What runs has plain types again, and a constraint for each result (`plain_program`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.array import Array, ArrayLike
from ..ir.axis_relation import Reduced, Whole, _related
from ..ir.passes import vocabulary, within
from ..ir.primitive import OWN, Linear, Primitive, Zero
from ..ir.program import Eqn, Program, Var
from ..ir.types import ArrayType, ShardedType, with_sharding
from ..jit.inline_jit import inline_jit
from ..jit.jit import flat_shardings
from ..primitives.control_flow.jit_primitive import jit_p
from ..primitives.custom.checkpoint import optimization_barrier_p
from ..primitives.spmd.varying_axes import ordered, psum_invariant_p
from ..support import pytree
from ..support.errors import ArgumentError, MeshError, ShardingTypeError
from ..support.memo import cached
from ..tracing.trace import Value, on_each_device, shape_of, trace_program, typeof
from ..tracing.unreduced_scope import asked_open
from ..transforms.rule_helpers import linear_jvp
from .mesh import UNCONSTRAINED, AxisType, Mesh, NamedSharding, PartitionSpec, constraint_p
from .mesh_in_force import get_abstract_mesh, get_mesh, use_mesh
from .shard_map import part_type, shard_map_p
from .unreduced_axes import is_marked, marks_of_results, spec_of
from .unreduced_scan import carried

if TYPE_CHECKING:
    from ..support.pytree import PyTreeDef

Names = tuple[Any, ...]
REMEDY = "`reshard` an operand, give `out_sharding=`, or leave it to the compiler (`auto_axes`)"

# ---------------------------------------------------------------------------- types of results


def whole(ndim: int) -> NamedSharding:
    """The sharding that a type shows of an array that no axis of the mesh in force splits."""
    return NamedSharding(get_abstract_mesh(), PartitionSpec()).of_type(ndim)


def _plain(type: ArrayType) -> Any:
    return type.plain if isinstance(type, ArrayType) else type


def type_of_result(primitive: Primitive, types: Sequence[Any], params: dict[str, Any]) -> Any:
    """The types of an equation's results, of whose operands some lie on a mesh as their types tell."""
    if OWN in (primitive.varies, primitive.places):
        return primitive.typing(*types, **params)
    plain = tuple(map(_plain, types))
    found = primitive.typing(*plain, **params)
    outs = tuple(found) if primitive.multiple else (found,)
    if not outs:
        return found
    meshes = {(m.shape_tuple, m.axis_types): m for m in (t.placed.mesh for t in types if type(t) is ShardedType)}
    if len(meshes) > 1:
        listed = " and on ".join(map(str, meshes.values()))
        raise MeshError(f"{primitive.name} of {_shown(types)}, which lie on {listed}",
                        "bring them to one mesh with `device_put`")  # fmt: skip
    mesh = next(t.placed.mesh for t in types if type(t) is ShardedType)
    specs: Sequence[Any] = [()] * len(outs)
    if primitive.places is not None:
        specs = primitive.places(types, outs, **params)
    elif any(spec_of(t).axes for t in types):
        specs = _by_relation(primitive, types, _relation(primitive, plain, outs, params), mesh, params.get(OPEN, ()))
    marks: Any = params.get(OPEN, frozenset()), frozenset()
    if any(map(is_marked, types)):
        relation = _relation(primitive, plain, outs, params)
        contracts = relation is not None and bool(relation.of_kind(Reduced))
        unreduced, reduced = marks_of_results(primitive, types, plain, params, contracts)
        marks = marks[0] | unreduced, reduced - marks[0]
    placed = [_checked(primitive, t, s, marks, mesh) for t, s in zip(outs, specs, strict=True)]
    return placed if primitive.multiple else placed[0]


OPEN = "open_axes"  # the parameter of a contraction over which axes its sum is not made


def _relation(primitive: Primitive, plain: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Any:
    rule = primitive.relation
    return None if rule is None else _related(rule, plain, outs, tuple(params.items()))


def _checked(primitive: Primitive, type: ArrayType, spec: Sequence[Names], marks: Sequence[Any], mesh: Mesh) -> Any:
    split = [name for names in spec for name in names]
    unreduced, reduced = marks
    used = [*split, *unreduced]
    twice = next((name for name in used if used.count(name) > 1), None)
    if twice is not None:
        how = "and unreduced along it" if twice in unreduced else "along two of its axes"
        raise ShardingTypeError(f"{primitive.name} would give {type.show()} split by {twice!r} {how}", REMEDY)
    reduced = reduced.difference(split)
    return with_sharding(type, NamedSharding(mesh, PartitionSpec(*spec, unreduced=unreduced, reduced=reduced)))


def _by_relation(primitive: Primitive, types: Sequence[Any], relation: Any, mesh: Mesh, opened: Collection[Any] = ()
                 ) -> list[list[Names]]:  # fmt: skip
    """For each result the axes that split its dimensions, as the relation passes them on.

    A sum may be split on both sides along the axes `opened`, over which it is not made.
    """
    if relation is None:
        raise ShardingTypeError(f"{primitive.name} of {_shown(types)}: the output sharding is unknown", REMEDY)
    factors: dict[int, list[Names]] = {}
    for t, axes in zip(types, relation.operands, strict=True):
        if type(t) is ShardedType:
            for names, axis in zip(t.placed.spec.padded(t.ndim), axes, strict=True):
                for f, share in _shares(names, axis, relation.sizes, mesh, primitive, types):
                    factors.setdefault(f, []).append(share)
    for f, shares in factors.items():
        kind = relation.kinds[f]
        if isinstance(kind, Whole):
            raise ShardingTypeError(f"{primitive.name} of {_shown(types)} needs a full axis that is sharded",
                                    REMEDY)  # fmt: skip
        if isinstance(kind, Reduced) and len(shares) > 1 and not set(shares[0]).issubset(opened):
            raise ShardingTypeError(
                f"{primitive.name} of {_shown(types)} contracts axes that are sharded on both sides: the "
                "output sharding is ambiguous", REMEDY)  # fmt: skip
        if len(set(shares)) > 1:
            raise ShardingTypeError(f"{primitive.name} of {_shown(types)}: conflicting operand shardings", REMEDY)
    return [[sum((factors[f][0] for f in axis if f in factors), ()) for axis in axes] for axes in relation.results]


def _shares(names: Names, axis: Sequence[int], sizes: Sequence[int], mesh: Mesh, primitive: Primitive,
            types: Sequence[Any]) -> list[tuple[int, Names]]:  # fmt: skip
    """The part of an axis's names that each of its factors takes, the major ones first."""
    rest, shares = list(names), []
    for f in axis:
        taken, parts = [], 1
        while rest and sizes[f] % (parts * mesh.shape[rest[0]]) == 0:
            parts *= mesh.shape[rest[0]]
            taken.append(rest.pop(0))
        if taken:
            shares.append((f, tuple(taken)))
        if rest and parts != sizes[f]:
            if len(axis) == 1:  # the last part is shorter
                return [(f, names)]
            break
    rest = [name for name in rest if mesh.shape[name] > 1]  # an axis of one device splits nothing
    if rest:
        raise ShardingTypeError(f"{primitive.name} of {_shown(types)} cuts an axis where {rest[0]!r} does not", REMEDY)
    return shares


def _shown(types: Sequence[Any]) -> str:
    return ", ".join(t.show() for t in types)


# ---------------------------------------------------------------------------- out of the types and back

# A value of whose sharding its type no longer tells: from there on the compiler decides.
leave_p: Primitive = Primitive(
    "leave", typing=lambda x: x.plain, jvp=linear_jvp(lambda: leave_p), numpy=lambda x: _leave(x), places=OWN,
    transpose=lambda ct, x: [_as(ct, x.type)], batch=lambda axis, args, dims: (leave_p.bind(*args), dims[0]),
    eager=True,
)  # fmt: skip
PRIMITIVES = (leave_p,)


def _leave(x: Array) -> Any:
    if type(typeof(x)) is not ShardedType:
        return x
    if spec_of(typeof(x)).unreduced:
        placed = typeof(x).placed
        return _leave(constraint_p.bind(x, sharding=placed.with_spec(PartitionSpec(*placed.spec.dims))))
    kind = getattr(x, "_kind", None)
    return leave_p.bind(x) if kind is None else kind.left(x)


def _as(x: Array | None, type: ArrayType) -> Any:
    """A value that lies as a type tells."""
    if x is None or isinstance(x, Zero):
        return x
    now, wanted = typeof(x).placed, getattr(type, "placed", None)
    if now is wanted:
        return x
    if wanted is None and now.spec.unreduced:  # here it is summed
        wanted = now.with_spec(PartitionSpec())
    return _leave(x) if wanted is None else constraint_p.bind(x, sharding=wanted)


def transposed(eqn: Eqn, cts: ArrayLike, args: Sequence[Any]) -> list[Any]:
    """An equation transposed, with cotangents that lie as the operands do, where reduced as unreduced ones.

    The compiler decides how values in between lie, unless a cotangent is yet to be summed and can stay so.
    """
    wanted = [a.type.cotangent() for a in eqn.inputs]
    if any(is_marked(v.type) for v in (*eqn.inputs, *eqn.outputs)) and eqn.primitive not in (leave_p, constraint_p):
        with contextlib.suppress(ShardingTypeError):
            found = eqn.primitive.transpose(cts, *args, **eqn.params)  # type: ignore[misc]
            return [_as(ct, t) for ct, t in zip(found, wanted, strict=True)]

    def left(x: Array | Linear) -> Any:
        return type(x)(_plain(x.type)) if isinstance(x, (Linear, Zero)) else _leave(x)

    if eqn.primitive in (leave_p, constraint_p):
        return [_as(cts if is_marked(typeof(cts)) else left(cts), wanted[0])]
    given = list(map(left, cts)) if eqn.primitive.multiple else left(cts)
    transpose: Any = eqn.primitive.transpose
    found = transpose(given, *map(left, args), **eqn.params)
    return [_as(ct, t) for ct, t in zip(found, wanted, strict=True)]


def auto_axes(
    f: Callable[..., Any] | None = None, *, axes: Any = None, out_sharding: Any = None
) -> Any:
    """A function within which the compiler decides how values lie; its results lie as `out_sharding` says.

    `out_sharding` (a spec, a sharding, or a tree of them that is a prefix of the result's) is given here or by keyword
    when the function is called. `axes` are all of the mesh's.

    >>> import tilewright as tw
    >>> auto_axes(lambda x: x + 1.0, out_sharding=tw.P())(2.0)
    3.0
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    @functools.wraps(f)
    def run(*args: Any, out_sharding: Any = out_sharding, **kwargs: Any) -> Any:
        return placed(out_sharding, f, *args, **kwargs)

    return run


def placed(out_sharding: Any, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function, lying as `out_sharding` says however the operands lie.

    Raises:
      ArgumentError: a bare `PartitionSpec` where neither a mesh is in force nor an operand lies on one.
    """
    leaves, treedef = pytree.flatten((args, kwargs))
    if getattr(getattr(out_sharding, "spec", out_sharding), "unreduced", None):
        moving = tuple(isinstance(x, (Value, np.ndarray)) for x in leaves)
        rest = tuple(None if m else x for x, m in zip(leaves, moving, strict=True))
        return _left_open([x for x, m in zip(leaves, moving, strict=True) if m], (moving, rest), f, treedef,
                          out_sharding)  # fmt: skip
    found = [getattr(x, "aval", None) for x in leaves]
    args, kwargs = treedef.unflatten([_leave(x) if type(t) is ShardedType else x
                                      for x, t in zip(leaves, found, strict=True)])  # fmt: skip
    mesh = next((t.placed.mesh for t in found if type(t) is ShardedType), None)
    return constrained(f(*args, **kwargs), out_sharding, mesh)


@inline_jit("rest", "f", "treedef", "out_sharding")
def _left_open(
    arrays: Sequence[Any], rest: Sequence[Any], f: Callable[..., Any], treedef: PyTreeDef, out_sharding: Any
) -> Any:
    """The result of a function whose sums of what is split on both sides stay open, as `out_sharding` says."""
    given = iter(arrays)
    args, kwargs = treedef.unflatten([next(given) if m else x for m, x in zip(*rest, strict=True)])
    before = asked_open.set(getattr(out_sharding, "spec", out_sharding).unreduced)
    try:
        result = f(*args, **kwargs)
    finally:
        asked_open.reset(before)
    mesh = next((t.placed.mesh for t in map(typeof, pytree.leaves(result)) if t.placed is not None), None)
    return constrained(result, out_sharding, mesh)


def constrained(result: ArrayLike, shardings: Any, mesh: Mesh | None = None) -> Any:
    """A tree whose arrays lie as shardings or specs say, these over the mesh in force or else `mesh`."""
    if get_mesh().empty and mesh is not None:
        with use_mesh(mesh):
            return constrained(result, shardings)
    leaves, treedef = pytree.flatten(result)
    if get_mesh().empty and all(isinstance(s, PartitionSpec) and not s.axes for s in pytree.leaves(shardings)):
        return result  # on one device
    found = flat_shardings(shardings, result, "out_sharding")
    return treedef.unflatten([x if s is None else _fitting(s, x).constrain(x)
                              for x, s in zip(leaves, found, strict=True)])  # fmt: skip


def _fitting(sharding: NamedSharding, x: Array) -> NamedSharding:
    """The sharding without entries of None past the dimensions of a value."""
    spec, ndim = sharding.spec, len(shape_of(x))
    if len(spec) <= ndim or any(spec.dims[ndim:]):
        return sharding
    return sharding.with_spec(spec.with_dims(*spec.dims[:ndim]))


def explicit_axes(
    f: Callable[..., Any] | None = None, *, axes: Any = None, in_sharding: Any = None
) -> Any:
    """A function within which types tell how arrays lie along `axes` of the mesh in force, all by default.

    Its arguments lie as `in_sharding` says (given here, or by keyword when it is called); of its results the types tell
    nothing.

    Raises:
      ArgumentError: no `in_sharding`, or no mesh in force.

    >>> import tilewright as tw
    >>> from tilewright.sharding import P, explicit_axes
    >>> mesh = tw.make_mesh((1,), ('x',))
    >>> with tw.sharding.use_mesh(mesh):
    ...     f = tw.jit(explicit_axes(lambda x: print(tw.typeof(x)), in_sharding=P('x')))
    ...     f(tw.numpy.ones(4))
    float32[4@x]
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @functools.wraps(f)
    def run(*args: Any, in_sharding: Any = in_sharding, **kwargs: Any) -> Any:
        mesh = get_mesh()
        if in_sharding is None or mesh.empty:
            raise ArgumentError("explicit_axes without a mesh in force or without in_sharding",
                                "call it within `use_mesh(mesh)`, and pass `in_sharding=`")  # fmt: skip
        names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else axes
        with use_mesh(mesh.update_axis_types(dict.fromkeys(names, AxisType.Explicit))):
            return pytree.map(_leave, f(*constrained(args, in_sharding), **kwargs))

    return run


# ---------------------------------------------------------------------------- plain types again


def _variables(program: Program) -> Iterator[Var]:
    """The variables of a Program and of those within it."""
    for inner in (program, *vocabulary(program).programs):
        yield from (*inner.constants, *inner.inputs, *itertools.chain.from_iterable(e.outputs for e in inner.eqns))


@cached(256)
def plain_program(program: Program) -> Program:
    """The Program in plain types; constraints say what these told, where all axes of the mesh are `Explicit`.

    (Along an axis of the type `Auto` a constraint would decide as well.)
    """
    if not any(type(v.type) is ShardedType for v in _variables(program)):
        return program
    entering = {v: Var(_plain(v.type)) for v in (*program.constants, *program.inputs)}
    env: dict[Any, Any] = dict(entering)
    eqns: list[Eqn] = []
    for v in (v for v in program.inputs if spec_of(v.type).unreduced):  # XLA forgets it of what a loop does not carry
        env[v] = Var(v.type.plain)
        eqns.append(Eqn(constraint_p, [entering[v]], [env[v]], {"sharding": v.type.placed}))
    for eqn in program.eqns:
        inputs = tuple(env.get(a, a) if type(a) is Var else a for a in eqn.inputs)
        if eqn.primitive is leave_p:
            env[eqn.outputs[0]] = inputs[0]
            continue
        mesh = next((v.type.placed.mesh for v in (*eqn.inputs, *eqn.outputs) if type(v.type) is ShardedType), None)
        if eqn.primitive is constraint_p:
            inputs = _summed_before(eqn, inputs, eqns)
        made = [Var(_plain(v.type)) for v in eqn.outputs]
        eqns.append(within(_as_xla_leaves_open(eqn).replace(inputs=inputs, outputs=tuple(made)), plain_program))
        env.update(zip(eqn.outputs, made, strict=True))
        if mesh is None or not mesh.decided_by_types or eqn.primitive is constraint_p:
            continue
        for old, new in zip(eqn.outputs, made, strict=True):
            if isinstance(old.type, ArrayType):
                sharding = old.type.placed or NamedSharding(mesh, PartitionSpec())
                env[old] = Var(new.type)
                eqns.append(Eqn(constraint_p, [new], [env[old]], {"sharding": sharding}, source=eqn.source))

    outputs = [env.get(a, a) if type(a) is Var else a for a in program.outputs]
    inputs, constants = ([entering[v] for v in given] for given in (program.inputs, program.constants))
    return program.replace(inputs=inputs, constants=constants, eqns=eqns, outputs=outputs)


def _as_xla_leaves_open(eqn: Eqn) -> Eqn:
    """An equation in which XLA leaves open what is unreduced: no call of a function, no loop that cuts or stacks it."""
    if OPEN in eqn.params:
        return _on_each_device(eqn)
    if eqn.primitive is jit_p:
        known: dict[str, Any] = dict(eqn.params)
        return eqn.replace(params=known | {"inline": True}) if _tells_of_parts(known["program"]) else eqn
    program = carried(eqn)
    return eqn if program is None else eqn.replace(
        primitive=jit_p, params={"program": program, "name": program.name, "donated": (), "inline": True})  # fmt: skip


def _on_each_device(eqn: Eqn) -> Eqn:
    """An operation whose sum over devices stays open, as what each device does with its parts."""
    params = {k: v for k, v in eqn.params.items() if k != OPEN}
    types, out = [a.type for a in eqn.inputs], eqn.outputs[0].type
    mesh, specs = out.placed.mesh, tuple(spec_of(t) for t in types)
    if any(n % mesh.parts(names) for t in (*types, out) for n, names in zip(t.shape, spec_of(t).padded(t.ndim))):
        return eqn.replace(params=params)  # XLA splits it, and leaves its sum open as the result's constraint says
    ins = [part_type(_plain(t), s, mesh) for t, s in zip(types, specs, strict=True)]
    split = frozenset(n for s in specs for n in s.axes)
    closed = ordered(split.difference(spec_of(out).axes, eqn.params[OPEN]))

    def on_parts(*parts: Any) -> list[Any]:
        found = eqn.primitive.bind(*parts, **params)
        return [psum_invariant_p.bind(found, axes=closed) if closed else found]

    with on_each_device(list(mesh.shape_tuple)):
        program = trace_program(on_parts, ins, eqn.primitive.name)
    how = {"program": program, "mesh": mesh, "in_specs": specs, "out_specs": (spec_of(out),), "manual": mesh.axis_names}
    return eqn.replace(primitive=shard_map_p, params=how)


@cached(1024)
def _tells_of_parts(program: Program) -> bool:
    """Whether a type in a Program, or in one within it, says that a value is unreduced."""
    return any(spec_of(v.type).unreduced for v in _variables(program))


def _summed_before(eqn: Eqn, inputs: Sequence[Any], eqns: list[Eqn]) -> Sequence[Any]:
    """The operand of a constraint; where the result has parts along more axes, the operand is held to have none there.

    Else XLA would take what makes the operand for what makes the parts. It ends the process where one step opens a sum
    and closes another.
    """
    sharding, lies = eqn.params["sharding"], spec_of(eqn.inputs[0].type)
    wanted = sharding.spec.unreduced
    if wanted <= lies.unreduced:
        return inputs
    closed = sharding.with_spec(PartitionSpec(*lies.dims, unreduced=lies.unreduced & wanted))
    made = [Var(_plain(a.type)) for a in (eqn.outputs[0], eqn.outputs[0])]
    eqns.append(Eqn(constraint_p, inputs, made[:1], {"sharding": closed}, source=eqn.source))
    if lies.unreduced <= wanted:
        return made[:1]
    eqns.append(Eqn(optimization_barrier_p, made[:1], made[1:], {}, source=eqn.source))
    return made[1:]


def bounded(program: Program, ins: Sequence[Any], outs: Sequence[Any]) -> Program:
    """The Program whose inputs and results are parts that are yet to be summed, or are not, as their shardings say."""
    eqns, inputs, outputs = list(program.eqns), list(program.inputs), list[Any](program.outputs)
    for i, (var, sharding) in enumerate(zip(inputs, ins, strict=True)):
        if spec_of(var.type).unreduced != sharding.spec.unreduced:
            inputs[i] = Var(with_sharding(var.type.plain, sharding))
            known = {"sharding": sharding.with_spec(spec_of(var.type))}
            eqns.insert(0, Eqn(constraint_p, [inputs[i]], [var], known))
    for i, (atom, sharding) in enumerate(zip(outputs, outs, strict=True)):
        if sharding is not None and spec_of(atom.type).unreduced != sharding.spec.unreduced:
            outputs[i] = Var(with_sharding(atom.type.plain, sharding))
            eqns.append(Eqn(constraint_p, [atom], [outputs[i]], {"sharding": sharding}))
    return program if len(eqns) == len(program.eqns) else program.replace(inputs=inputs, eqns=eqns, outputs=outputs)


def told(program: Program) -> tuple[Any, ...]:
    """For each result of a Program the sharding that its type tells, or the constraint that made it; None: neither."""
    meshes = [v.type.placed.mesh for v in (*program.inputs, *program.constants, *program.outputs)
              if type(v.type) is ShardedType]  # fmt: skip
    everywhere = NamedSharding(meshes[0], PartitionSpec()) if meshes and meshes[0].are_all_axes_explicit else None
    known = {e.outputs[0]: e.params["sharding"] for e in program.eqns if e.primitive is constraint_p}

    def of(atom: Var) -> Any:
        placed = atom.type.placed if isinstance(atom.type, ArrayType) else None
        if placed is not None and placed.mesh.are_all_axes_explicit:
            return placed.with_spec(atom.type.sharding.spec)
        made = known.get(atom) if type(atom) is Var else None
        settles = made is not None and made.kind is None and UNCONSTRAINED not in made.spec.dims
        if settles and made is not None and made.mesh.are_all_axes_explicit:
            return made.with_spec(made.spec.with_dims(*made.spec.padded(len(atom.type.shape))))
        if settles or everywhere is None:
            return made if settles else None
        return everywhere.with_spec((None,) * len(atom.type.shape))

    return tuple(map(of, program.outputs))
