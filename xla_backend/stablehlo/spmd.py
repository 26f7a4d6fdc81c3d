"""StableHLO of programs that run on a mesh: shardings of inputs, results and values, in Shardy's attributes."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.ir.passes import primitives_of
from ...core.ir.primitive import Primitive
from ...core.ir.program import ORDERED, Program, subprograms
from ...core.ir.types import BOOL, INT32, UINT32, ArrayType, Dtype, Type
from ...core.primitives.contraction.conv import conv_general_dilated_p
from ...core.primitives.external.host_callback import debug_callback_p, io_callback_p
from ...core.primitives.movement.gather_scatter import (
    gather_p,
    scatter_add_p,
    scatter_apply_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from ...core.primitives.movement.shape import pad_p
from ...core.primitives.reduction.reduce import reduce_and_p, reduce_or_p, reduce_p, reduce_xor_p
from ...core.primitives.reduction.reduce_window import reduce_window_p, select_and_scatter_add_p
from ...core.primitives.spmd.collective import (
    all_gather_invariant_p,
    all_gather_p,
    all_to_all_p,
    axis_index_p,
    pmax_groups_p,
    pmin_groups_p,
    ppermute_p,
    psum_groups_p,
    psum_scatter_p,
)
from ...core.primitives.spmd.varying_axes import (
    assume_equal_p,
    axis_effects,
    pmax_invariant_p,
    pmin_invariant_p,
    psum_invariant_p,
    pvary_p,
)
from ...core.sharding.mesh import UNCONSTRAINED, AnyMesh, NamedSharding, PartitionSpec, constraint_p
from ...core.sharding.shard_map import shard_map_p
from ...core.sharding.visualize import inspect_sharding_p
from ...core.support.errors import UnsupportedError
from ..devices.jaxlib_shardings import mesh_text, places, sharding_text
from ..options.compile_options import Place
from . import conv, index, reduce, shape, window
from .emit import Emitter, Operand, tensor


class Inner(NamedTuple):
    """The mesh of a program of each device, the axes that it sees, its own number along them, and all axes as declared.

    XLA ends the process unless the axes that maps within each other see come in the order of the declared mesh.
    """

    mesh: Any
    axes: set[Any]
    indices: dict[Any, Operand]
    order: tuple[Any, ...]


class Meshes:
    """The meshes that a module names. Devices are numbered by their places in `devices`."""

    devices: tuple[Any, ...] | None
    count: int

    def __init__(self, devices: tuple[Any, ...] | None, count: int):
        self.devices, self.count = devices, count
        self.names: dict[str, str] = {}
        self.inner: Inner | None = None  # where the program of each device is being printed
        self.channels = 0

    def name(self, mesh: AnyMesh, order: Sequence[Any] | None = None) -> str:
        """A mesh's name in the module, where it is declared once; `order`: of its axes, if not its own."""
        return self.declared(mesh_text(mesh, self.devices, mesh.axis_names if order is None else order))

    def declared(self, body: str) -> str:
        """The name of a mesh that is declared so."""
        if body not in self.names:
            self.names[body] = f"mesh_{len(self.names)}" if self.names else "mesh"
        return self.names[body]

    def first_device(self, results: int) -> str:
        """The attribute of an operation that the first device alone does."""
        value = f"<@{self.declared('<[], device_ids=[0]>')}, []>"
        return f"sdy.sharding = #sdy.sharding_per_value<[{', '.join([value] * max(results, 1))}]>"

    def sharding(self, sharding: NamedSharding, ndim: int) -> str:
        """A `NamedSharding` as the body of an attribute, for a value with `ndim` dimensions."""
        mesh, spec = sharding.mesh, sharding.spec
        unreduced = [name for name in mesh.axis_names if name in spec.unreduced]
        order = self.inner.order if self.inner and {*self.inner.order} == {*mesh.axis_names} else None
        return sharding_text(self.name(mesh, order), spec.padded(ndim), unreduced)

    def free_axes(self) -> list[Any]:
        """The axes that no map around sees, within maps over other axes of their mesh."""
        inner = self.inner
        return [a for a in inner.mesh.axis_names if a not in inner.axes] if inner and inner.mesh.size > 1 else []

    def on_first(self, e: Emitter, operands: list[Operand], outs: list[Any],
                 body: Callable[[list[Operand]], Sequence[Operand]]) -> list[Operand]:  # fmt: skip
        """What one device of those along the free axes does with replicated operands; the others keep the first ones.

        XLA replicates nothing that has effects, so that a map over the free axes is around it.
        """
        inner, free = self.inner, self.free_axes()
        assert inner is not None
        name = self.name(inner.mesh, inner.order)
        numbers = places(inner.mesh, self.devices)
        at = tuple(0 if a in free else slice(None) for a in inner.mesh.axis_names)
        chosen = np.isin(np.arange(self.count), numbers[at])

        def on_each(args: list[Operand]) -> list[Operand]:
            table = e.constant(chosen.astype(np.int32), ArrayType((self.count,), INT32))
            number = e.convert(e.op("stablehlo.partition_id", [], ArrayType((), UINT32)), INT32)
            entry = e.op("stablehlo.dynamic_slice", [table, number], ArrayType((1,), INT32),
                         "slice_sizes = array<i64: 1>")  # fmt: skip
            branches = [e.region([], lambda _: args[: len(outs)]), e.region([], lambda _: body(args))]
            return e.ops("stablehlo.case", [e.reshape(entry, ())], outs, regions=", ".join(branches))

        def replicated(types: Sequence[Any]) -> list[str]:
            return [sharding_text(name, [()] * len(t.shape)) for t in types]

        types = [o.type for o in operands]
        return manual_computation(e, operands, outs, name, [a for a in inner.order if a in free],
                                  (replicated(types), replicated(outs)), types, on_each)  # fmt: skip

    def texts(self) -> tuple[str, str]:
        """The module's attributes and the declarations of its meshes."""
        head = f"attributes {{mhlo.num_partitions = {self.count} : i32, mhlo.num_replicas = 1 : i32}} "
        declared = "".join(f"sdy.mesh @{name} = {body}\n" for body, name in self.names.items())
        return head, declared


def manual_computation(
    e: Emitter, operands: list[Operand], outs: list[Any], mesh: str, axes: Sequence[Any],
    shardings: tuple[list[str], list[str]], types: Sequence[Any], body: Callable[[list[Operand]], Sequence[Operand]],
) -> list[Operand]:  # fmt: skip
    """What each device along some axes does with its parts, of these types.

    Where there are neither operands nor results, but effects, a constant goes in and comes out: Shardy takes the body
    for that of all devices otherwise.
    """
    ins, results = shardings
    if not operands and not outs:
        number, whole = e.constant(0, ArrayType((), INT32)), [f"<@{mesh}, []>"]
        manual_computation(e, [number], [number.type], mesh, axes, (whole, whole), [number.type],
                           lambda args: [*body([]), *args])  # fmt: skip
        return []
    region = e.region(types, body, "sdy.return")
    names = ", ".join(json.dumps(str(a)) for a in axes)
    attributes = (f"in_shardings = #sdy.sharding_per_value<[{', '.join(ins)}]>, "
                  f"manual_axes = #sdy<manual_axes{{{names}}}>, "
                  f"out_shardings = #sdy.sharding_per_value<[{', '.join(results)}]>")  # fmt: skip
    return e.ops("sdy.manual_computation", operands, outs, attributes, region)


def boundary(
    e: Emitter, place: Place, body: Program, kept: Sequence[int], computed: Sequence[int], attributes: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The attributes of a module's inputs and of its results: their shardings; donated inputs are left to XLA."""
    e.meshes = Meshes(place.devices, place.count)
    ins = [
        f"{{{_attribute(e, place.ins[i], v.type)}{', jax.buffer_donor = true' if a else ''}}}"
        for i, v, a in zip(kept, body.inputs, attributes, strict=True)
    ]
    outs = [
        "" if place.outs[i] is None else f"{{{_attribute(e, place.outs[i], a.type)}}}"
        for i, a in zip(computed, body.outputs, strict=True)
    ]
    return ins, outs


def _attribute(e: Emitter, sharding: NamedSharding, type: Type) -> str:
    return f"sdy.sharding = #sdy.sharding{e.meshes.sharding(sharding, len(type.shape))}"


def _constraint(e: Emitter, operands: list[Operand], out: ArrayType, *, sharding: NamedSharding) -> Operand:
    text = f"sharding = #sdy.sharding{e.meshes.sharding(sharding, len(out.shape))}"
    return e.op("sdy.sharding_constraint", operands, out, text)


# ---------------------------------------------------------------------------- programs of each device


def _shard_map(
    e: Emitter, operands: list[Operand], outs: list[Any], *, program: Program, mesh: AnyMesh,
    in_specs: Sequence[Any], out_specs: Sequence[Any], manual: tuple[Any, ...],
) -> list[Operand]:  # fmt: skip
    outer = e.meshes.inner
    order = _nested(manual, program, mesh.axis_names) if outer is None else outer.order
    name = e.meshes.name(mesh, order)
    free = set(mesh.axis_names) - {*manual, *(outer.axes if outer else ())}
    # The number of a device along an axis is its part of an iota: XLA has no other way where axes are left to it.
    counted = manual if axis_index_p in primitives_of(program) else ()
    seen = {*manual, *(outer.axes if outer else ())}
    if mesh.size == 1:  # a part is the whole, and XLA compiles no effects in the programs of one device's parts
        zero = {a: e.constant(0, ArrayType((), INT32)) for a in counted}
        return _within(e, Inner(mesh, seen, zero | (outer.indices if outer else {}), order), program, operands)
    wide = [ArrayType((mesh.shape[a],), INT32) for a in counted]
    iotas = [e.op("stablehlo.iota", [], t, "iota_dimension = 0 : i64") for t in wide]
    known = dict(outer.indices) if outer and counted else {}  # nothing of what is around it is seen in the region
    indices = {a: ArrayType((1,), INT32) for a in counted} | {a: o.type for a, o in known.items()}
    tokens = [e.token] if ORDERED in program.effects else []  # each device orders its own effects

    def body(args: list[Operand]) -> list[Operand]:
        if tokens:
            e.token = args[-1]
        given = args[len(program.inputs) : len(args) - len(tokens)]
        numbers = {a: e.reshape(x, ()) for a, x in zip(indices, given, strict=True)}
        results = _within(e, Inner(mesh, seen, numbers, order), program, args[: len(program.inputs)])
        return [*results, *([e.token] if tokens else [])]

    ins = [_specs_text(name, s, len(o.shape), free) for s, o in zip(in_specs, operands, strict=True)]
    ins += [_specs_text(name, PartitionSpec(a), 1, free) for a in counted] + [f"<@{name}, []>"] * len([*known, *tokens])
    results = [_specs_text(name, s, len(t.shape), free) for s, t in zip(out_specs, outs, strict=True)]
    results += [f"<@{name}, []>"] * len(tokens)
    types = [*program.in_types, *indices.values(), *(t.type for t in tokens)]
    given = [*operands, *iotas, *known.values(), *tokens]
    found = manual_computation(e, given, [*outs, *(t.type for t in tokens)], name, manual, (ins, results), types, body)
    if tokens:
        e.token = found.pop()
    return found


def _within(e: Emitter, inner: Inner, program: Program, operands: list[Operand]) -> list[Operand]:
    """The results of the program of each device."""
    outer, e.meshes.inner = e.meshes.inner, inner
    e.within_mesh += 1
    results = e.inline(program, operands)
    e.within_mesh -= 1
    e.meshes.inner = outer
    return results


def _nested(outer: tuple[Any, ...], program: Program, names: tuple[Any, ...]) -> tuple[Any, ...]:
    """The axes of a mesh in the order in which maps within each other see them: their own, where that is one.

    Raises:
      UnsupportedError: maps beside each other see them in different orders.
    """
    chains = list(_chains(program, outer, names))
    for order in (names, tuple(dict.fromkeys((*itertools.chain.from_iterable(chains), *names)))):
        if all([*chain] == sorted(chain, key=order.index) for chain in chains):
            return order
    raise UnsupportedError(f"maps within each other over {' and '.join(map(str, chains))}, in different orders",
                           "nest them in one order, or use one map over all of the axes")  # fmt: skip


def _chains(program: Program, around: tuple[Any, ...], names: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """For each map in a Program the axes that it and those around it see, from the outermost."""
    yield around
    for eqn in program.eqns:
        if eqn.primitive in (io_callback_p, debug_callback_p):  # within a map over the rest (`Meshes.on_first`)
            yield (*around, *(a for a in names if a not in around))
        within = (*around, *eqn.params["manual"]) if eqn.primitive is shard_map_p else around
        for _, inner in subprograms(eqn):
            yield from _chains(inner, within, names)


def _specs_text(mesh_name: str, spec: PartitionSpec, ndim: int, free: set[Any]) -> str:
    """A sharding that leaves open what axes that the body does not see split."""
    text = sharding_text(mesh_name, spec.padded(ndim), sorted(spec.unreduced, key=str))
    if not free:
        return text
    dims = ["{" + ", ".join([*(json.dumps(str(a)) for a in d), "?"]) + "}" for d in spec.padded(ndim)]
    return f"<@{mesh_name}, [{', '.join(dims)}]{text.rpartition(']')[2]}"


def _groups(e: Emitter, axes: Sequence[Any], groups: Any = None) -> list[list[int]]:
    """The devices, by their places in the program's, that communicate along some axes, in their order."""
    mesh = e.meshes.inner.mesh
    names = list(mesh.axis_names)
    at = [names.index(a) for a in axes]
    rest = [i for i in range(len(names)) if i not in at]
    rows = places(mesh, e.meshes.devices).transpose(rest + at).reshape(-1, mesh.parts(axes))
    return rows.tolist() if groups is None else [row[list(group)].tolist() for row in rows for group in groups]


def _attributes(e: Emitter, groups: list[list[int]], shared: bool = True) -> str:
    e.meshes.channels += 1
    return (f"replica_groups = dense<{groups}> : tensor<{len(groups)}x{len(groups[0])}xi64>, channel_handle = "
            f"#stablehlo.channel_handle<handle = {e.meshes.channels}, type = 1>"
            + (", use_global_device_ids" if shared else ""))  # fmt: skip


def _folding(e: Emitter, operation: str, dtype: Dtype) -> str:
    scalar = ArrayType((), dtype)
    return e.region([scalar, scalar], lambda args: [e.op(operation, args, scalar)])


def _reduce(operation: str, more: str = "") -> Any:
    def rule(
        e: Emitter, operands: list[Operand], out: ArrayType, *, axes: Sequence[Any], groups: Any = None
    ) -> Operand:
        attributes = _attributes(e, _groups(e, axes, groups))
        folding = _folding(e, operation, out.dtype)
        return e.ops("stablehlo.all_reduce", operands, [out], attributes, folding, more=more)[0]

    return rule


def _all_gather(
    e: Emitter, operands: list[Operand], out: ArrayType, *, axes: Sequence[Any], dimension: int, size: int, tiled: bool,
    groups: Any = None,
) -> Operand:  # fmt: skip
    (x,) = operands
    if not tiled:
        x = e.reshape(x, (*x.shape[:dimension], 1, *x.shape[dimension:]))
    attributes = f"all_gather_dim = {dimension} : i64, {_attributes(e, _groups(e, axes, groups))}"
    return e.ops("stablehlo.all_gather", [x], [out], attributes)[0]


def _reduce_scatter(
    e: Emitter, operands: list[Operand], out: ArrayType, *, axes: Sequence[Any], dimension: int, size: int, tiled: bool,
    groups: Any = None,
) -> Operand:  # fmt: skip
    wide = out if tiled else out.with_shape((*out.shape[:dimension], 1, *out.shape[dimension:]))
    attributes = f"scatter_dimension = {dimension} : i64, {_attributes(e, _groups(e, axes, groups))}"
    found = e.ops("stablehlo.reduce_scatter", operands, [wide], attributes, _folding(e, "stablehlo.add", out.dtype))[0]
    return e.reshape(found, out.shape)


def _all_to_all(
    e: Emitter, operands: list[Operand], out: ArrayType, *, axes: Sequence[Any], split: int, concat: int, size: int,
    groups: Any = None,
) -> Operand:  # fmt: skip
    attributes = (f"split_dimension = {split} : i64, concat_dimension = {concat} : i64, split_count = {size} : i64, "
                  + _attributes(e, _groups(e, axes, groups), shared=False))  # fmt: skip
    return e.ops("stablehlo.all_to_all", operands, [out], attributes)[0]


def _permute(
    e: Emitter, operands: list[Operand], out: ArrayType, *, axes: Sequence[Any], perm: Sequence[tuple[int, int]],
    more: str = "",
) -> Operand:  # fmt: skip
    pairs = [[row[a], row[b]] for row in _groups(e, axes) for a, b in perm]
    e.meshes.channels += 1
    attributes = (f"source_target_pairs = dense<{pairs or ''}> : tensor<{len(pairs)}x2xi64>, channel_handle = "
                  f"#stablehlo.channel_handle<handle = {e.meshes.channels}, type = 1>")  # fmt: skip
    return e.ops("stablehlo.collective_permute", operands, [out], attributes, more=more)[0]


def _axis_index(e: Emitter, operands: list[Operand], out: ArrayType, *, axes: Sequence[Any]) -> Operand:
    return e.meshes.inner.indices[axes[0]]


def _same(e: Emitter, operands: list[Operand], out: ArrayType, **_: Any) -> Operand:
    return operands[0]


# What XLA's partitioner computes wrongly, or not at all, if it splits some dimensions: a function gives those that may
# be split, of an operand by its number, or of a result (-1).
Free = Callable[[int, Any, dict[str, Any]], Any]


def _unknown_typing(*given: Any, number: int, rule: str, types: Sequence[Any]) -> list[Any]:
    return list(types)


# A placeholder call with a Shardy rule, through which propagation is queried.
unknown_call_p: Primitive = Primitive("unknown_call", _unknown_typing, multiple=True)


def _unknown_call(
    e: Emitter, operands: list[Operand], outs: list[Any], *, number: int, rule: str, **_: Any
) -> list[Operand]:
    name, many = e.fresh(), len(outs)
    ins = ", ".join(tensor(o.type) for o in operands)
    e.lines.append(
        f'{name}:{many} = "stablehlo.custom_call"({", ".join(o.name for o in operands)}) <{{call_target_name = '
        f'"tilewright.unknown.{number}"}}> {{sdy.sharding_rule = {rule}}} : ({ins}) -> '
        f"({', '.join(tensor(t) for t in outs)})"
    )
    return [Operand(f"{name}#{i}", t) for i, t in enumerate(outs)]


def _inspected(e: Emitter, operands: list[Operand], outs: list[Any], *, number: int, **_: Any) -> list[Operand]:
    """A placeholder call through which Shardy's propagation is queried."""
    e.lines.append(
        f'"stablehlo.custom_call"({operands[0].name}) <{{call_target_name = "tilewright.unknown.{number}", '
        f"has_side_effect = true}}> : ({tensor(operands[0].type)}) -> ()"
    )
    return []


def _limited(rule: Callable[..., Any], free: Free) -> Any:
    """A rule whose operands and results are kept whole along dimensions that are not free."""

    def wrapped(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Any:
        if e.meshes is None or e.within_mesh:
            return rule(e, operands, out, **params)
        found = rule(e, [_unsplit(e, o, free(i, o, params)) for i, o in enumerate(operands)], out, **params)
        if isinstance(found, Operand):
            return _unsplit(e, found, free(-1, found, params))
        return [_unsplit(e, o, free(-1, o, params)) for o in found]

    return wrapped


def _not_reduced(i: int, x: Operand, params: dict[str, Any]) -> Any:
    """The first value of a user's reduction would be counted once for each part."""
    return range(len(x.shape)) if i < 0 else set(range(len(x.shape))) - {*params["dimensions"]}


def _not_bits(i: int, x: Operand, params: dict[str, Any]) -> Any:
    """There are no all-reduces over CPU devices of the bits of integers."""
    return range(len(x.shape)) if i < 0 or x.dtype == BOOL else _not_parity(i, x, params)


def _not_parity(i: int, x: Operand, params: dict[str, Any]) -> Any:
    """Nor any of exclusive disjunctions."""
    return range(len(x.shape)) if i < 0 else set(range(len(x.shape))) - {*params["axes"]}


def _not_cropped(i: int, x: Operand, params: dict[str, Any]) -> Any:
    """Where padding takes elements away or goes between them, the process ends."""
    return [d for d, c in enumerate(params["padding_config"]) if min(c[:2]) >= 0 and c[2] == 0]


def _whole(i: int, x: Operand, params: dict[str, Any]) -> Any:
    return ()


def _scattered(rule: Callable[..., Any], adds: bool) -> Any:
    """A scatter. XLA ends the process where windows and updates are split along different axes, and gives wrong values
    where what is not a sum is split along updates: of a sum those are split, of any other whole windows are."""

    def wrapped(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
        if e.meshes is None or e.within_mesh:
            return rule(e, operands, out, **params)
        x, indices, updates = operands
        d = params["dimension_numbers"]
        of_updates = {*range(len(updates.shape))} - {*d.update_window_dims}
        one_by_one = {*range(len(indices.shape) - 1)} - {*d.scatter_indices_batching_dims}
        left = [i for i in range(len(x.shape)) if i not in (*d.inserted_window_dims, *d.operand_batching_dims)]
        whole = {i: u for u, i in zip(d.update_window_dims, left, strict=True)
                 if updates.shape[u] == x.shape[i] and i not in d.scatter_dims_to_operand_dims}  # fmt: skip
        if adds and not d.operand_batching_dims:
            free: tuple[Any, Any, Any] = (), one_by_one, of_updates
        else:
            free = () if adds else {*whole}, (), () if adds else {*whole.values()}
        found = rule(e, [_unsplit(e, o, f) for o, f in zip(operands, free, strict=True)], out, **params)
        return _unsplit(e, found, free[0])

    return wrapped


def _unsplit(e: Emitter, x: Operand, free: set[Any]) -> Operand:
    """A value that is split along free dimensions at most."""
    dims = [UNCONSTRAINED if i in free else () for i in range(len(x.shape))]
    if () not in dims:
        return x
    return e.op("sdy.sharding_constraint", [x], x.type, f"sharding = #sdy.sharding{sharding_text('mesh', dims)}")


# The sum over devices of what a kernel adds up: no user wrote it, and `explain` says so.
kernel_sum_p: Primitive = Primitive(
    "kernel_sum", lambda x, *, axes: x, effects=axis_effects, varies=lambda vary, params: vary - {*params["axes"]},
)  # fmt: skip
# A permute that no user wrote: what a kernel's windows see of other devices' parts.
kernel_permute_p: Primitive = Primitive("kernel_permute", lambda x, *, axes, perm: x.strong(), effects=axis_effects)
MADE = 'mhlo.frontend_attributes = {tilewright = "made"}'
SUM, MAX, MIN = (_reduce(f"stablehlo.{name}") for name in ("add", "maximum", "minimum"))
def _gathered(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
    """A gather. XLA makes slices of wrong sizes where batches and windows are split at once: of these only batches."""
    d = params["dimension_numbers"]
    if e.meshes is None or e.within_mesh or not (d.operand_batching_dims and d.offset_dims):
        return index.RULES[gather_p](e, operands, out, **params)
    x, indices = operands
    found = index.RULES[gather_p](e, [_unsplit(e, x, {*d.operand_batching_dims}), indices], out, **params)
    return _unsplit(e, found, {*range(len(out.shape))} - {*d.offset_dims})


RULES: dict[Any, Any] = {
    gather_p: _gathered, unknown_call_p: _unknown_call, inspect_sharding_p: _inspected,
    constraint_p: _constraint,
    shard_map_p: _shard_map,
    pvary_p: _same, assume_equal_p: _same,
    kernel_sum_p: _reduce("stablehlo.add", MADE), psum_invariant_p: SUM, pmax_invariant_p: MAX, pmin_invariant_p: MIN,
    psum_groups_p: SUM, pmax_groups_p: MAX, pmin_groups_p: MIN,
    all_gather_p: _all_gather, all_gather_invariant_p: _all_gather,
    psum_scatter_p: _reduce_scatter, all_to_all_p: _all_to_all, ppermute_p: _permute,
    kernel_permute_p: functools.partial(_permute, more=MADE),
    axis_index_p: _axis_index,
    reduce_p: _limited(reduce.RULES[reduce_p], _not_reduced),
    **{p: _limited(reduce.RULES[p], _not_bits) for p in (reduce_and_p, reduce_or_p)},
    **{p: _scattered(index.RULES[p], True) for p in (scatter_add_p, scatter_sub_p)},
    **{p: _scattered(index.RULES[p], False)
       for p in (scatter_p, scatter_mul_p, scatter_min_p, scatter_max_p, scatter_apply_p)},
    reduce_xor_p: _limited(reduce.RULES[reduce_xor_p], _not_parity),
    pad_p: _limited(shape.RULES[pad_p], _not_cropped),
    conv_general_dilated_p: _limited(conv.RULES[conv_general_dilated_p], _whole),
    **{p: _limited(window.RULES[p], _whole) for p in (reduce_window_p, select_and_scatter_add_p)},
}  # fmt: skip
