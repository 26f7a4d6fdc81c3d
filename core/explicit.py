"""Shardings in the types of arrays: how results lie, along axes of a mesh of the type `Explicit`.

    ShardedType(f32[8@x,4@y])  ::= shape and dtype, and for each dimension the axes that split it

An operation's relation says which axes of operands and results go together; so a result lies as its operands do. Where
operands disagree, where a sum is split on both sides, or where an operation needs the whole of a dimension that is
split, nothing follows, and that is an error: the program says what it wants, by `out_sharding`, `reshard` or
`auto_axes`. What runs has plain types again, and a constraint for each result (`plain_program`).
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import tree
from .caches import cached
from .errors import ArgumentError, ShardingTypeError
from .ir import Eqn, Program, Var
from .jit import flat_shardings
from .mesh import (
    UNCONSTRAINED,
    AxisType,
    NamedSharding,
    PartitionSpec,
    constraint_p,
    get_abstract_mesh,
    get_mesh,
    lying,
    use_mesh,
)
from .primitive import OWN, Linear, Primitive, Zero
from .relation import Reduced, Whole, _related
from .rewrite import within
from .rules import linear_jvp
from .runtime import runtime
from .trace import typeof
from .types import ArrayType, ShardedType

Names = tuple[Any, ...]
REMEDY = "`reshard` an operand, say how the result lies (`out_sharding=`), or leave it to the compiler (`auto_axes`)"

# ---------------------------------------------------------------------------- types of results


def whole(ndim: int) -> NamedSharding:
    """The sharding that a type shows of an array that no axis of the mesh in force splits."""
    return NamedSharding(get_abstract_mesh(), PartitionSpec()).of_type(ndim)


def _plain(type: Any) -> Any:
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
    mesh = next(t.placed.mesh for t in types if type(t) is ShardedType)
    if primitive.places is not None:
        specs = primitive.places(types, outs, **params)
    else:
        specs = _by_relation(primitive, types, plain, outs, params, mesh)
    placed = [_checked(primitive, t, s, mesh) for t, s in zip(outs, specs, strict=True)]
    return placed if primitive.multiple else placed[0]


def _checked(primitive: Primitive, type: Any, spec: Sequence[Names], mesh: Any) -> Any:
    used = [name for names in spec for name in names]
    twice = next((name for name in used if used.count(name) > 1), None)
    if twice is not None:
        raise ShardingTypeError(f"{primitive.name} would give {type.show()} split by {twice!r} along two of its axes",
                                REMEDY)  # fmt: skip
    return lying(type, NamedSharding(mesh, PartitionSpec(*spec)))


def _by_relation(primitive: Primitive, types: Sequence[Any], plain: Any, outs: Any, params: dict[str, Any], mesh: Any
                 ) -> list[list[Names]]:  # fmt: skip
    """For each result the axes that split its dimensions, as the relation passes them on."""
    rule = primitive.relation
    relation = None if rule is None else _related(rule, plain, outs, tuple(params.items()))
    if relation is None:
        raise ShardingTypeError(f"{primitive.name} of {_shown(types)}: how its result lies is not known", REMEDY)
    factors: dict[int, list[Names]] = {}
    for t, axes in zip(types, relation.operands, strict=True):
        if type(t) is ShardedType:
            for names, axis in zip(t.placed.spec.padded(t.ndim), axes, strict=True):
                for f, share in _shares(names, axis, relation.sizes, mesh, primitive, types):
                    factors.setdefault(f, []).append(share)
    for f, shares in factors.items():
        kind = relation.kinds[f]
        if isinstance(kind, Whole):
            raise ShardingTypeError(f"{primitive.name} of {_shown(types)} takes the whole of an axis that is split",
                                    REMEDY)  # fmt: skip
        if isinstance(kind, Reduced) and len(shares) > 1:
            raise ShardingTypeError(
                f"{primitive.name} of {_shown(types)} contracts axes that are split on both sides, so that how the "
                "result lies is not told", REMEDY)  # fmt: skip
        if len(set(shares)) > 1:
            raise ShardingTypeError(f"{primitive.name} of {_shown(types)}: the operands lie in different ways", REMEDY)
    return [[sum((factors[f][0] for f in axis if f in factors), ()) for axis in axes] for axes in relation.results]


def _shares(names: Names, axis: Sequence[int], sizes: Sequence[int], mesh: Any, primitive: Primitive,
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
leave_p = Primitive(
    "leave", typing=lambda x: x.plain, jvp=linear_jvp(lambda: leave_p), numpy=lambda x: _leave(x), places=OWN,
    transpose=lambda ct, x: [_as(ct, x.type)], batch=lambda axis, args, dims: (leave_p.bind(*args), dims[0]),
    eager=True,
)  # fmt: skip
PRIMITIVES = (leave_p,)


def _leave(x: Any) -> Any:
    if type(typeof(x)) is not ShardedType:
        return x
    kind = getattr(x, "_kind", None)
    return leave_p.bind(x) if kind is None else kind.left(x)


def _as(x: Any, type: Any) -> Any:
    """A value that lies as a type tells."""
    if x is None or isinstance(x, Zero) or getattr(type, "placed", None) is typeof(x).placed:
        return x
    return _leave(x) if type.placed is None else constraint_p.bind(x, sharding=type.placed)


def transposed(eqn: Eqn, cts: Any, args: Sequence[Any]) -> list[Any]:
    """An equation transposed as the compiler likes, with cotangents that lie as the operands do."""
    def left(x: Any) -> Any:
        return type(x)(_plain(x.type)) if isinstance(x, (Linear, Zero)) else _leave(x)

    given = list(map(left, cts)) if eqn.primitive.multiple else left(cts)
    if eqn.primitive in (leave_p, constraint_p):
        return [_as(given, eqn.inputs[0].type)]
    transpose: Any = eqn.primitive.transpose
    found = transpose(given, *map(left, args), **eqn.params)
    return [_as(ct, a.type) for ct, a in zip(found, eqn.inputs, strict=True)]




def auto_axes(f: Callable[..., Any] | None = None, *, axes: Any = None, out_sharding: Any = None) -> Any:
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

    Functions with that argument call this by themselves: a wrapper around each would take 0.4 us of each eager call.

    Raises:
      ArgumentError: a bare `PartitionSpec` where neither a mesh is in force nor an operand lies on one.
    """
    leaves, treedef = tree.flatten((args, kwargs))
    found = [getattr(x, "aval", None) for x in leaves]
    args, kwargs = treedef.unflatten([_leave(x) if type(t) is ShardedType else x
                                      for x, t in zip(leaves, found, strict=True)])  # fmt: skip
    result = f(*args, **kwargs)
    mesh = next((t.placed.mesh for t in found if type(t) is ShardedType), None)
    return constrained(result, out_sharding, mesh)


runtime.explicit, runtime.asked = sys.modules[__name__], placed


def constrained(result: Any, shardings: Any, mesh: Any = None) -> Any:
    """A tree whose arrays lie as shardings or specs say, these over the mesh in force or else `mesh`."""
    if get_mesh().empty and mesh is not None:
        with use_mesh(mesh):
            return constrained(result, shardings)
    leaves, treedef = tree.flatten(result)
    if get_mesh().empty and all(isinstance(s, PartitionSpec) and not s.axes for s in tree.leaves(shardings)):
        return result  # on one device
    found = flat_shardings(shardings, result, "out_sharding")
    return treedef.unflatten([x if s is None else s.constrain(x) for x, s in zip(leaves, found, strict=True)])


def explicit_axes(f: Callable[..., Any] | None = None, *, axes: Any = None, in_sharding: Any = None) -> Any:
    """A function within which types tell how arrays lie along `axes` of the mesh in force, all by default.

    Its arguments lie as `in_sharding` says (given here, or by keyword when it is called); of its results the types tell
    nothing.

    Raises:
      ArgumentError: no `in_sharding`, or no mesh in force.
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
            return tree.map(_leave, f(*constrained(args, in_sharding), **kwargs))

    return run


# ---------------------------------------------------------------------------- plain types again


@cached(256)
def plain_program(program: Program) -> Program:
    """The Program in plain types; constraints say what these told, where all axes of the mesh are `Explicit`.

    (Along an axis of the type `Auto` a constraint would decide as well.)
    """
    every = (*program.constants, *program.inputs, *itertools.chain.from_iterable(e.outputs for e in program.eqns))
    if not any(type(v.type) is ShardedType for v in every):
        return program
    env: dict[Any, Any] = {v: Var(_plain(v.type)) for v in (*program.constants, *program.inputs)}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        inputs = tuple(env.get(a, a) if type(a) is Var else a for a in eqn.inputs)
        if eqn.primitive is leave_p:
            env[eqn.outputs[0]] = inputs[0]
            continue
        mesh = next((v.type.placed.mesh for v in (*eqn.inputs, *eqn.outputs) if type(v.type) is ShardedType), None)
        made = [Var(_plain(v.type)) for v in eqn.outputs]
        eqns.append(within(eqn.replace(inputs=inputs, outputs=tuple(made)), plain_program))
        env.update(zip(eqn.outputs, made, strict=True))
        if mesh is None or not mesh.are_all_axes_explicit or eqn.primitive is constraint_p:
            continue
        for old, new in zip(eqn.outputs, made, strict=True):
            if isinstance(old.type, ArrayType):
                sharding = old.type.placed or NamedSharding(mesh, PartitionSpec())
                env[old] = Var(new.type)
                eqns.append(Eqn(constraint_p, [new], [env[old]], {"sharding": sharding}, source=eqn.source))

    def renamed(atoms: Any) -> list[Any]:
        return [env.get(a, a) if type(a) is Var else a for a in atoms]

    return program.replace(inputs=renamed(program.inputs), constants=renamed(program.constants), eqns=eqns,
                           outputs=renamed(program.outputs))  # fmt: skip


def told(program: Program) -> tuple[Any, ...]:
    """For each result of a Program the sharding that its type tells, or the constraint that made it; None: neither."""
    meshes = [v.type.placed.mesh for v in (*program.inputs, *program.constants, *program.outputs)
              if type(v.type) is ShardedType]  # fmt: skip
    everywhere = NamedSharding(meshes[0], PartitionSpec()) if meshes and meshes[0].are_all_axes_explicit else None
    known = {e.outputs[0]: e.params["sharding"] for e in program.eqns if e.primitive is constraint_p}

    def of(atom: Any) -> Any:
        placed = atom.type.placed if isinstance(atom.type, ArrayType) else None
        if placed is not None and placed.mesh.are_all_axes_explicit:
            return placed.with_spec(atom.type.sharding.spec)
        made = known.get(atom) if type(atom) is Var else None
        settles = made is not None and made.memory_kind is None and UNCONSTRAINED not in made.spec.dims
        return made if settles else everywhere

    return tuple(map(of, program.outputs))
