"""Kernels on whole arrays of a mesh: each is split along the axes of its grid as Shardy's propagation comes out.

First the kernels are calls that XLA does not know, with Shardy's rule of each; Shardy propagates through them. Then
each becomes a program of each device, with the kernel at its part's size: what its cells see of its neighbours' parts
is sent over first, and where sizes do not divide, the arrays are padded around it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.passes import within
from ...core.ir.program import Eqn, Program, Var
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.elementwise.arithmetic import mul_p
from ...core.primitives.movement.shape import broadcast_in_dim_p, concatenate, pad_p, slice_in_dim, slice_p
from ...core.primitives.movement.sort import sort_p
from ...core.primitives.spmd.varying_axes import pvary
from ...core.sharding.mesh import AnyMesh, PartitionSpec, constraint_p
from ...core.sharding.shard_map import part_type, shard_map_p
from ...core.support.errors import MeshError, ShapeError
from ...core.tracing.trace import eval_program, on_each_device, trace_program, typeof
from ...lang.call.custom_partition import partitioned_p
from ...lang.call.primitive import kernel_call_p
from ...lang.kernel.kernel import EDGE, Kernel
from ...lang.partition.per_device import Pieces, local, numbered, pieces
from ...lang.partition.sharding_rule import Splits, rule_text, ruled, splits
from ...lang.transforms.split_reduction import Sums, sums
from ..stablehlo.spmd import kernel_sum_p, unknown_call_p
from .halo_exchange import moved, place
from .partition_operations import operation_splits

if TYPE_CHECKING:
    from ...core.ir.array import Array, ArrayLike
    from ...core.ir.types import Type

KERNELS = (kernel_call_p, partitioned_p)
Chosen = dict[Any, tuple[Any, ...]]  # the axes of the mesh that split what may be split
Found = Mapping[int, tuple[Sequence[Any], Sequence[Any]]]  # by number: the axes of each dimension, operands and results


@dataclass(frozen=True)
class Told:
    """The kernels of a program on a mesh, by their names: how those are split that are, and why others run whole.

    `left` are those that nobody wrote and that cannot be split as XLA splits what they would compute.
    """

    split: tuple[tuple[str, str], ...] = ()
    whole: tuple[tuple[str, str], ...] = ()
    left: tuple[tuple[str, str], ...] = ()


class Calls:
    """The kernels of a program that may be split, by numbers: those with a rule by it, others by their index maps.

    `made` are those of them that nobody wrote, with what they compute. How these come to lie is found with that in
    their place; where one cannot be split so, it is put back.
    """

    program: Program
    made: Mapping[Kernel, Program] | dict[Kernel, Program]
    count: int

    def __init__(self, program: Program, made: Mapping[Kernel, Program] | None = None):
        self.kernels: list[tuple[Splits, tuple[int, ...]]] = []  # with the numbers of the calls that stand for it
        self.count = 0
        self.program, self.made = program, made or {}
        self._split: dict[tuple[str, str], None] = {}
        self._whole: dict[tuple[str, str], None] = {}
        self._left: dict[tuple[str, str], None] = {}
        self._operations: dict[Eqn, Splits | None] = {}
        self.opaque: Program = self._walked(program, self._opaque, {})

    @property
    def told(self) -> Told:
        return Told((*self._split,), (*self._whole,), (*self._left,))

    def _walked(self, program: Program, change: Callable[[Eqn], Eqn], known: dict[Program, Program]) -> Program:
        """A Program with each kernel that is called on whole arrays changed."""
        if program not in known:
            eqns, parts = [], _unreduced(program)
            for eqn in program.eqns:
                if eqn.primitive in KERNELS or self._operation(eqn) is not None:
                    written = eqn.primitive in KERNELS and self._made(eqn) is None
                    if not written and not parts.isdisjoint((*eqn.inputs, *eqn.outputs)):
                        if eqn.primitive is kernel_call_p:
                            self._left[_name(eqn), OPEN] = None
                        eqn = self._plain(eqn)
                    else:
                        eqn = change(eqn)
                elif eqn.primitive is not shard_map_p:
                    eqn = within(eqn, lambda inner: self._walked(inner, change, known))
                eqns.append(eqn)
            same = all(a is b for a, b in zip(eqns, program.eqns, strict=True))
            known[program] = program if same else program.replace(eqns=eqns)
        return known[program]

    def _operation(self, eqn: Eqn) -> Splits | None:
        """How an operation may be split by its relation, worked out once for each equation."""
        if eqn not in self._operations:
            self._operations[eqn] = operation_splits(eqn)
        return self._operations[eqn]

    def _splits(self, eqn: Eqn) -> Splits | str:
        if eqn.primitive not in KERNELS:
            return self._operation(eqn) or UNSPLIT
        if eqn.primitive is partitioned_p:
            return ruled(eqn.params["rule"], *_types(eqn))
        return splits(eqn.params["kernel"])

    def _opaque(self, eqn: Eqn) -> Eqn:
        found = self._splits(eqn)
        if isinstance(found, str):
            return self._plain(eqn)
        ins, outs = _types(eqn)
        plain = self._made(eqn)
        first, self.count = self.count, self.count + (1 if plain is None else len(ins) + len(outs))
        self.kernels.append((found, tuple(range(first, self.count))))
        if plain is None:
            params = {"number": first, "rule": rule_text(found, ins, outs), "types": outs}
            return eqn.replace(primitive=unknown_call_p, params=params)

        def run(*args: Any) -> list[Any]:
            numbers = iter(range(first, self.count))
            given = [_marked(x, next(numbers)) for x in args]
            return [_marked(x, next(numbers)) for x in eval_program(plain, *given)]

        return _inlined(eqn, trace_program(run, ins, plain.name))

    def _made(self, eqn: Eqn) -> Program | None:
        """What a kernel computes that nobody wrote."""
        return self.made.get(eqn.params["kernel"]) if eqn.primitive is kernel_call_p else None

    def _plain(self, eqn: Eqn) -> Eqn:
        """The equation of a kernel that is not split."""
        plain = eqn.params["program"] if eqn.primitive is partitioned_p else self._made(eqn)
        return eqn if plain is None else _inlined(eqn, plain)

    def split(self, mesh: AnyMesh, shardings: Found) -> Program:
        """The Program with its kernels split by how their operands and results came to lie."""
        kernels = iter(self.kernels)

        def change(eqn: Eqn) -> Eqn:
            found, why, made = self._splits(eqn), UNSPLIT, self._made(eqn) is not None
            if isinstance(found, str):
                why = found
            else:
                _, numbers = next(kernels)
                lying = [shardings.get(n, ((), ())) for n in numbers]
                n = len(eqn.inputs)
                ins, outs = ([x for _, (x,) in lying[:n]], [x for _, (x,) in lying[n:]]) if made else lying[0]
                chosen = _chosen(found, mesh, ins, outs)
                if made and _gathers(found, chosen, mesh, ins, outs):
                    why = FINER
                elif chosen and not (eqn.primitive is sort_p and _exchanges(eqn, mesh, ins)):
                    if eqn.primitive in KERNELS:
                        self._split[_name(eqn), _shown(found, mesh, chosen)] = None
                    return _on_devices(eqn, found, mesh, chosen)
            if eqn.primitive in KERNELS:
                (self._left if made else self._whole)[_name(eqn), why] = None
            return self._plain(eqn)

        return self._walked(self.program, change, {})


def _unreduced(program: Program) -> set[Any]:
    """The values of a Program that are yet to be summed over devices, as constraints say."""
    told = (e for e in program.eqns if e.primitive is constraint_p and e.params["sharding"].spec.unreduced)
    return {v for eqn in told for v in (*eqn.inputs, *eqn.outputs) if type(v) is Var}


OPEN = "it would sum what is yet to be summed over devices"
FINER = "it would gather sharded operands"
UNSPLIT = "what it is given is not split along axes of its grid, or into more parts than these have cells"


def _marked(x: Array, number: int) -> Any:
    """A value that goes through a call that XLA does not know, which tells how it lies."""
    type: Any = typeof(x)
    keys = tuple(range(type.ndim))
    found = Splits(dict(enumerate(type.shape)), (keys,), (keys,))
    (x,) = unknown_call_p.bind(x, number=number, rule=rule_text(found, [type], [type]), types=(type,))
    return x


def _gathers(found: Splits, chosen: Chosen, mesh: AnyMesh, ins: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether a kernel, split so, would gather what lies split otherwise."""
    names = {str(n): n for n in mesh.axis_names}
    pairs = [pair for keys, lying in [*zip(found.outs, outs), *zip(found.ins, ins)] if lying
             for pair in zip(keys, lying)]  # fmt: skip
    return any(axes and tuple(names[a] for a in axes) != chosen.get(key, ()) for key, axes in pairs)


def _exchanges(eqn: Eqn, mesh: AnyMesh, ins: Sequence[Any]) -> bool:
    """Whether XLA sorts a split axis without a gather: it splits the other axes further meanwhile.

    Not with other operands: they are mostly indices, by which the result of a gather is read without communication.
    """
    names, shape = {str(n): n for n in mesh.axis_names}, eqn.inputs[0].type.shape
    parts = [mesh.parts(tuple(names[a] for a in axes)) for axes in ins[0] or ()]
    along = eqn.params["dimension"]
    rest = [n for d, n in enumerate(shape) if d != along]
    return (bool(parts) and len(eqn.inputs) == 1 and parts[along] > 1 and max(rest, default=1) % math.prod(parts) == 0
            and all(n % p == 0 for n, p in zip(shape, parts, strict=True)))  # fmt: skip


def _types(eqn: Eqn) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(a.type for a in eqn.inputs), tuple(v.type for v in eqn.outputs)


def _name(eqn: Eqn) -> str:
    if eqn.primitive not in KERNELS:
        return eqn.primitive.name
    return eqn.params["program" if eqn.primitive is partitioned_p else "kernel"].name


def _shown(found: Splits, mesh: AnyMesh, chosen: Chosen) -> str:
    """How a kernel is split, in words."""
    what = []
    for key, names in chosen.items():
        over = f"{key if found.rule else f'axis {key} of its grid'} over {' '.join(map(str, names))}"
        what.append(f"{over} ({mesh.parts(names)}{', summed' if key in found.summed else ''})")
    return f"{', '.join(what)}, by {'the rule of its author' if found.rule else 'its index maps'}"


def _inlined(eqn: Eqn, program: Program) -> Eqn:
    params = {"program": program, "name": program.name, "donated": (), "inline": True}
    return eqn.replace(primitive=jit_p, params=params)


def _chosen(found: Splits, mesh: AnyMesh, ins: Sequence[Any], outs: Sequence[Any]) -> Chosen:
    """The axes of the mesh that split what may be split: those of the results, then those of the operands."""
    names, chosen = {str(n): n for n in mesh.axis_names}, dict[Any, tuple[Any, ...]]()
    taken: set[Any] = set()
    pairs: list[tuple[Any, Any]] = [*zip(found.outs, outs), *zip(found.ins, ins)]
    before = [([key if key in found.first else None for key in keys], lying) for keys, lying in zip(found.ins, ins)]
    for keys, lying in (*before, *pairs):
        shown: Sequence[Any] = lying or ()
        for key, axes in zip(keys, shown):
            if key is None or key in chosen:
                continue
            kept: list[Any] = []
            for name in (names[x] for x in axes):
                if name in taken or not found.splits_into(key, mesh.parts((*kept, name))):
                    break
                kept.append(name)
            if kept:
                chosen[key] = tuple(kept)
                taken |= {*kept}
    return chosen


def _on_devices(eqn: Eqn, found: Splits, mesh: AnyMesh, chosen: Chosen) -> Eqn:
    """The equation of a kernel as a program of each device; where sizes do not divide, on arrays that are padded."""
    part = _Ruled(eqn, found, mesh, chosen) if found.rule else _Split(eqn.params["kernel"], found, mesh, chosen)
    manual, name, (ins, outs) = tuple(mesh.axis_names), _name(eqn), _types(eqn)

    def wide(type: Type, spec: PartitionSpec) -> tuple[int, ...]:
        return tuple(-(-n // mesh.parts(a)) * mesh.parts(a) for n, a in zip(type.shape, spec.padded(type.ndim)))

    def run(*operands: Any) -> list[Any]:
        given = [_padded(x, wide(typeof(x), s), f) for x, s, f in zip(operands, part.ins, part.fills, strict=True)]
        types = [part_type(typeof(x), s, mesh) for x, s in zip(given, part.ins, strict=True)]
        with on_each_device([(n, mesh.shape[n]) for n in manual]):
            program = trace_program(part.run, types, name)
        part.check(program)
        made = shard_map_p.bind(*given, program=program, mesh=mesh, in_specs=part.ins, out_specs=part.outs,
                                manual=manual)  # fmt: skip
        return [x if typeof(x).shape == t.shape else slice_p.bind(
            x, start_indices=(0,) * t.ndim, limit_indices=t.shape, strides=None)
            for x, t in zip(made, outs, strict=True)]  # fmt: skip

    return _inlined(eqn, trace_program(run, ins, name))


def _padded(x: Array, shape: tuple[int, ...], fill: ArrayLike | None) -> Any:
    """An array that ends with what a kernel's blocks hold past its end."""
    for d, n in enumerate(shape):
        had = typeof(x).shape
        if n > had[d] and fill is EDGE:
            last = slice_in_dim(x, had[d] - 1, had[d], axis=d)
            more = broadcast_in_dim_p.bind(last, shape=(*had[:d], n - had[d], *had[d + 1 :]),
                                           broadcast_dimensions=tuple(range(len(had))))  # fmt: skip
            x = concatenate([x, more], d)
        elif n > had[d]:
            value = np.asarray(0 if fill is None else fill).astype(typeof(x).dtype)[()]
            config = tuple((0, n - m if i == d else 0, 0) for i, m in enumerate(had))
            x = pad_p.bind(x, value, padding_config=config)
    return x


class _Split:
    """A kernel on each device, split by its index maps."""

    def __init__(self, kernel: Kernel, found: Splits, mesh: AnyMesh, chosen: Chosen):
        self.kernel, self.mesh, self.chosen = kernel, mesh, chosen
        self.parts = {a: mesh.parts(names) for a, names in chosen.items()}
        self.over = tuple(name for a in found.sizes if a in found.summed for name in chosen.get(a, ()))
        self.numbers = numbered(kernel, self.parts)
        taken, self.made = pieces(kernel, self.parts)
        self.taken: tuple[Pieces, ...] = (*((None,) * t.ndim for t in kernel.prefetch), *taken)
        self.ins, self.outs = tuple(map(self._spec, self.taken)), tuple(map(self._spec, self.made))
        self.fills = (*[None] * len(kernel.prefetch), *(b.fill for b in kernel.inputs))

    def _spec(self, pieces: Pieces) -> PartitionSpec:
        return PartitionSpec(*[None if p is None else self.chosen[p.axis] for p in pieces])

    def run(self, *operands: Any) -> list[Any]:
        kernel, n = self.kernel, len(self.kernel.prefetch)
        ends = [t.shape for t in kernel.in_types]
        given = [self._moved(x, ps, end, f)
                 for x, ps, end, f in zip(operands, self.taken, ends, self.fills, strict=True)]  # fmt: skip
        starts = [self._starts()] if self.numbers else []
        prefetch, xs = [*given[:n], *starts], given[n:]
        if not self.over:
            return self._results(kernel_call_p.bind(*prefetch, *xs, kernel=local(kernel, self.parts, self.numbers)))
        found = sums(kernel)
        assert isinstance(found, Sums)
        begin = local(found.partial, self.parts, self.numbers, found.body)
        added = [kernel_sum_p.bind(pvary(x, self.over), axes=self.over)
                 for x in kernel_call_p.bind(*prefetch, *xs, kernel=begin)]  # fmt: skip
        if found.final is None:
            return self._results(added)
        after = {a: p for a, p in self.parts.items() if found.final.grid[a] > 1}
        rest = self.numbers & {*after}
        end = local(found.final, after, rest)
        return self._results(kernel_call_p.bind(*prefetch[: n + bool(rest)], *(xs[i] for i in found.inputs), *added,
                                                kernel=end))  # fmt: skip

    def _starts(self) -> Any:
        """The number of the device's first cell along each axis of the grid."""
        cells = [-(-n // self.parts.get(a, 1)) for a, n in enumerate(self.kernel.grid)]
        numbers = [mul_p.bind(place(names, self._sizes(names)), np.int32(cells[a])) if names else np.int32(0)
                   for a, names in ((a, self.chosen.get(a, ())) for a in range(len(cells)))]  # fmt: skip
        return concatenate([broadcast_in_dim_p.bind(i, shape=(1,), broadcast_dimensions=()) for i in numbers], 0)

    def _sizes(self, names: Sequence[Any]) -> list[int]:
        return [self.mesh.shape[n] for n in names]

    def _moved(self, x: Array, pieces: Pieces, end: tuple[int, ...], fill: ArrayLike | None) -> Any:
        for d, piece in enumerate(pieces):
            if piece is not None:
                names = self.chosen[piece.axis]
                x = moved(x, d, piece, end[d], names, self._sizes(names), fill)
        return x

    def _results(self, outs: Sequence[Any]) -> list[Any]:
        """The results in parts of the usual sizes, where those that the devices made are whole blocks."""
        found = []
        for x, made, block in zip(outs, self.made, self.kernel.outputs, strict=True):
            usual = [p and replace(p, step=(n := -(-m // self.parts[p.axis])), before=0, length=n)
                     for p, m in zip(made, block.array.shape, strict=True)]  # fmt: skip
            found.append(self._moved(x, tuple(usual), block.array.shape, None))
        return found

    def check(self, program: Program) -> None:
        """Nothing to hold it against: the sizes are its own."""


class _Ruled:
    """A kernel on each device, by the rule that its author gave, or one made of it."""

    def __init__(self, eqn: Eqn, found: Splits, mesh: AnyMesh, chosen: Chosen):
        assert found.rule is not None
        self.eqn, self.rule, self.mesh = eqn, found.rule, mesh
        self.axes = {name: chosen.get(name, ()) for name in found.sizes}
        self.ins, self.outs = tuple(map(self._spec, found.ins)), tuple(map(self._spec, found.outs))
        self.part = functools.partial(self.rule.parts, self.axes)
        if self.rule.place is not None:
            self.ins, self.outs, self.part = self.rule.place(mesh, self.ins, self.outs)
        self.padded = found.fills is not None
        self.fills = found.fills or (None,) * len(self.ins)

    def _spec(self, names: Sequence[Any]) -> PartitionSpec:
        return PartitionSpec(*[self.axes.get(n) or None for n in names])

    def run(self, *operands: Any) -> Any:
        return self.part(*operands)

    def check(self, program: Program) -> None:
        """Raise a `ShapeError` or a `MeshError` where the rule's function gives what its rule does not say."""
        if self.padded:  # an operation of ours, on padded parts
            return
        where = f"kernel {_name(self.eqn)}: its partition {self.rule.rule!r}"
        wanted = [part_type(t, s, self.mesh) for t, s in zip(_types(self.eqn)[1], self.outs, strict=True)]
        given = program.out_types
        if [(t.shape, t.dtype) for t in given] != [(t.shape, t.dtype) for t in wanted]:
            shown = [", ".join(t.show() for t in types) or "nothing" for types in (given, wanted)]
            raise ShapeError(f"{where} gives {shown[0]} on each device, where the parts of its results are {shown[1]}",
                             "return a device's part of each result, with the result's dtype",
                             self.eqn.source)  # fmt: skip
        for t, w in zip(given, wanted, strict=True):
            if t.vary - w.vary:
                over = ", ".join(map(str, sorted(t.vary - w.vary, key=str)))
                raise MeshError(f"{where} gives {t.show()}, which differs along {over}, for a result that does not",
                                "add it up over the devices: `lax.psum(x, axes[name])`",
                                self.eqn.source)  # fmt: skip
