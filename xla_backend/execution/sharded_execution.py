"""Arrays on a mesh: placement, resharding, and programs on sharded arguments.

Each program compares the shardings it was compiled for with those of its arguments, by identity: XLA's executable would
read an argument of another sharding as if it had the expected one.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from ...core.ir.program import Program, Var
from ...core.ir.types import FLOAT0, ArrayType, KeyDtype, with_sharding
from ...core.sharding.mesh import Mesh, NamedSharding, PartitionSpec, indices
from ...core.sharding.mesh_in_force import everywhere
from ...core.support import forks
from ...core.support.errors import AddressableError, MeshError, UnsupportedError
from ...core.support.memo import cached
from ...core.support.runtime import runtime
from ...core.tracing.trace import typeof
from ..arrays import fast_path_codegen as code
from ..arrays.array import Array, Shard, as_array, deleted, execution_error
from ..arrays.host_reshard import aligned, recut, suits
from ..arrays.transfer import as_numpy, buffers, physical, put
from ..devices.client import Device, SingleDeviceSharding, as_device, device_of
from ..devices.coordination import group, members_of
from ..devices.jaxlib_shardings import device_list, named, rank, raw
from ..host.digest import digest
from ..jaxlib import shim
from .executable import compile_module


class OnMesh:
    """The class of arrays of one type and sharding: what differs from arrays on one device.

    Interned: calls are dispatched by it (`core/jit/dispatch_cache.py`).
    """

    __slots__ = ("type", "lies")
    type: ArrayType
    lies: NamedSharding

    def __new__(cls, type: ArrayType, lies: NamedSharding) -> OnMesh:
        found = _kinds.get((type, lies))
        if found is None:
            found = object.__new__(cls)
            found.type, found.lies = type, lies
            found = _kinds.setdefault((type, lies), found)
        return found

    def array(self, buffer: Any) -> Array:
        """An array of this kind."""
        array = object.__new__(Array)
        array.aval, array._kind, array._buffer = self.type, self, buffer
        return array

    def left(self, x: Array) -> Array:
        """The array with a type without a sharding."""
        return OnMesh(self.type.plain, self.lies).array(x._buffer)

    def beside(self, numbers: Sequence[Any]) -> list[Any]:
        """Buffers of Python numbers on the same devices."""
        whole = NamedSharding(self.lies.mesh, PartitionSpec())
        return [place(x, whole)._buffer for x in numbers]

    def values(self, x: Array, type: ArrayType) -> np.ndarray:
        """The values as one NumPy array of a type, padding cut off."""
        if x._buffer.is_deleted():
            raise deleted(self.type)
        if self.lies.spec.unreduced:
            raise UnsupportedError(f"the values of an array of type {self.type.show()}, of which devices hold parts "
                                   "that are yet to be summed", "sum them first: `reshard(x, P(...))`")  # fmt: skip
        if isinstance(type.dtype, KeyDtype) or type.dtype == FLOAT0:
            return as_numpy(x._buffer, type)  # which has no values to gather, or none to show
        if not (self.lies.is_fully_addressable or self.lies.is_fully_replicated):
            raise AddressableError(
                f"the values of an array of type {self.type.show()}, of which this process has only a part",
                "gather it by `multihost_utils.process_allgather`, or use `addressable_shards`",
            )
        try:
            shim.wait(x._buffer)
            return _gathered(x._buffer, self.lies, type)
        except shim.RuntimeFault as error:
            raise execution_error(error) from None

    def moved(self, x: Array, where: NamedSharding | Device) -> Array:
        """The array on a device, or as a sharding says."""
        return place(x, where if isinstance(where, NamedSharding) else as_device(where))

    def on_one(self, x: Array) -> Array:
        """The array on its first device here."""
        return self.moved(x, self.lies.mesh.local_devices[0])

    def copy(self, x: Array) -> Array:
        """A copy in new buffers."""
        return self.array(shim.copy(x._buffer))

    def shards(self, x: Array) -> list[Shard]:
        """The parts, in the order of the devices."""
        found, seen = [], dict[Any, int]()
        pairs = zip(self.lies.mesh.flat, indices(self.lies, self.type.shape), strict=True)
        for n, (device, index) in enumerate(pairs):
            key = tuple((i.start, i.stop) for i in index)
            seen[key] = seen.get(key, -1) + 1
            found.append(Shard(device, index, seen[key], x, n))
        return found

    def part(self, x: Array, shard: Shard) -> Array | None:
        """A part as an array on its device; None if another process holds it."""
        if shard.device.process_index != runtime.process_index:
            return None
        t = self.type
        shape = tuple(i.indices(n)[1] - i.indices(n)[0] for i, n in zip(shard.index, t.shape, strict=True))
        type = ArrayType(shape, t.dtype, t.weak_type)
        part = local_part(x, shard.number, shard.index)
        return Array(type, put(part[tuple(slice(n) for n in shape)], type, owned=True, device=shard.device))


_kinds: dict[Any, OnMesh] = runtime.part("sharded.kinds", {})


def local_part(array: Array, number: int, index: tuple[slice, ...]) -> np.ndarray:
    """What the device of this process at a position of the mesh holds of an array, padding included."""
    array.block_until_ready()
    buffer, place = array._buffer, array._placed
    if shim.readable(buffer) and not place.kind:
        return shim.part_of(buffer, _leading(place.mesh, number))
    if place.is_fully_addressable or place.is_fully_replicated:
        return array._bits()[index]
    return shim.odd_part_of(buffer, _leading(place.mesh, number), place.mesh.flat[number].raw)


@cached()
def _leading(mesh: Mesh, number: int) -> Any:
    return shim.leading([d.raw for d in mesh.flat], number)


def _gathered(buffer: Any, sharding: NamedSharding, type: ArrayType) -> np.ndarray:
    """A buffer that is computed as one NumPy array, padding cut off."""
    if not (shim.readable(buffer) and sharding.is_fully_addressable) or sharding.kind:
        values = shim.assembled(buffer)
        return values if values.shape == type.shape else values[tuple(slice(n) for n in type.shape)]
    mesh = sharding.mesh
    if sharding.is_fully_replicated:
        return shim.part_of(buffer, _leading(mesh, 0))
    values = np.empty(type.shape, type.dtype)
    for number, index in distinct(sharding, type.shape):
        part = shim.part_of(buffer, _leading(mesh, number))
        place = values[index]
        place[...] = part[tuple(slice(n) for n in place.shape)] if part.shape != place.shape else part
    values.flags.writeable = False
    return values


@cached(4096)
def distinct(sharding: NamedSharding, shape: tuple[int, ...]) -> tuple[tuple[int, tuple[slice, ...]], ...]:
    """The parts of an array, each once: the number of a device that holds it, and its slices."""
    found: dict[Any, Any] = {}
    for number, index in enumerate(indices(sharding, shape)):
        found.setdefault(tuple((i.start, i.stop) for i in index), (number, index))
    return tuple(found.values())


def made(type: ArrayType, buffer: Any, sharding: NamedSharding) -> Array:
    """An array of a sharded buffer; its type has the sharding along axes of type `Explicit`."""
    return OnMesh(with_sharding(type.plain, sharding), sharding).array(buffer)


def put_everywhere(array: np.ndarray, type: ArrayType) -> Array | None:
    """A NumPy array on every device of the mesh in force; None where that has no devices."""
    where = everywhere()
    if where is None:
        return None
    if where.mesh.are_all_axes_explicit:  # whose arrays have an entry for each dimension
        where = where.with_spec((None,) * type.ndim)
    return made(type, _put(array, type, where), where)


# ---------------------------------------------------------------------------- to a mesh

def _part(bits: np.ndarray, index: tuple[slice, ...], shape: tuple[int, ...]) -> np.ndarray:
    """A copy of a part, padded with zeros, at an address that XLA takes as it is."""
    part = bits[index]
    shape = (*shape, *part.shape[len(shape) :])
    wide = aligned(shape, part.dtype)
    if part.shape != shape:
        wide[...] = 0
    wide[tuple(slice(n) for n in part.shape)] = part
    return wide


def padded(type: ArrayType, sharding: NamedSharding) -> ArrayType:
    """The type of the buffer of an array under a sharding."""
    return physical(ArrayType(sharding.padded_shape(type.shape), type.dtype))


def _put(bits: np.ndarray, type: ArrayType, sharding: NamedSharding) -> Any:
    """A NumPy array as a buffer sharded over a mesh; each process fills the shards of its own devices."""
    if sharding.spec.unreduced:
        whole = sharding.with_spec(PartitionSpec(*sharding.spec.dims))
        return bring(_put(bits, type, whole), type, sharding)
    wide, shape = padded(type, sharding), sharding.shard_shape(type.shape)
    bits = np.asarray(bits, wide.dtype)
    local, alone = _local_parts(sharding, type.shape)
    target = raw(sharding, wide.ndim)
    devices = [d for _, d in local]
    if alone and wide.shape == (*type.shape, *wide.shape[type.ndim :]):  # XLA copies each part, out of rows too
        if not bits.flags.c_contiguous or bits.dtype.isbuiltin != 1:
            return shim.put_parts(wide, target, [np.ascontiguousarray(bits[i]) for i, _ in local], devices, owned=False)
        return shim.put_parts(wide, target, [bits[i] for i, _ in local], devices, owned=False)
    cut: dict[Any, np.ndarray] = {}
    parts = []
    for index, _ in local:
        key = tuple((i.start, i.stop) for i in index)
        if key not in cut:
            cut[key] = _part(bits, index, shape)
        parts.append(cut[key])
    return shim.put_parts(wide, target, parts, devices)


@cached(4096)
def _local_parts(sharding: NamedSharding, shape: tuple[int, ...]) -> tuple[list[tuple[Any, Any]], bool]:
    """For each device of this process the slices that it holds, and whether no two of them are the same."""
    local = [(i, d.raw) for i, d in zip(indices(sharding, shape), sharding.mesh.flat, strict=True)
             if d.process_index == runtime.process_index]  # fmt: skip
    return local, len({tuple((s.start, s.stop) for s in i) for i, _ in local}) == len(local)


def assemble(type: ArrayType, sharding: NamedSharding | SingleDeviceSharding, parts: Sequence[Array]) -> Array:
    """An array of its parts, one on each device of this process, in the order of the mesh; padding is added."""
    if isinstance(sharding, SingleDeviceSharding):
        return parts[0]
    wide, shape = padded(type, sharding), sharding.shard_shape(type.shape)
    bits = [p._buffer if p.aval.shape == shape else _part(p._bits(), (slice(None),) * len(shape), shape) for p in parts]
    raws = [d.raw for d in sharding.mesh.local_devices]
    return made(type, shim.put_parts(wide, raw(sharding, wide.ndim), bits, raws), sharding)


def place(x: Array | np.ndarray, where: NamedSharding | Device) -> Any:
    """An array, or a value of NumPy's for a sharding, as the sharding or a device says."""
    if isinstance(where, NamedSharding):
        if type(x) is Array and x._placed is not None:
            return x if x._placed is where else made(x.aval, bring(x._buffer, x.aval, where), where)
        t: Any = typeof(x)
        where.check_rank(t.shape)
        return made(t, _put(x if type(x) is np.ndarray else as_array(x)._bits(), t, where), where)
    device = where.device if isinstance(where, SingleDeviceSharding) else where
    return Array(x.aval.plain, put(x._bits(), x.aval, device=device))


# ---------------------------------------------------------------------------- from one sharding to another


def bring(buffer: Any, type: ArrayType, to: NamedSharding) -> Any:
    """The buffer of an array of any sharding, resharded to `to`."""
    ndim = rank(type)
    target = raw(to, ndim)
    if buffer._sharding is target:
        return buffer
    if buffer.is_deleted():
        raise deleted(type)
    source = named(buffer._sharding)
    if source is None:
        return _put(shim.to_numpy(buffer), type, to)
    if source.mesh.flat == to.mesh.flat and source.kind == to.kind:
        wide, parts, wanted = padded(type, to), source.spec.unreduced, to.spec.unreduced
        if not (parts <= wanted or wanted <= parts):  # XLA ends the process where one step does both
            buffer = bring(buffer, type, to.with_spec(PartitionSpec(*to.spec.dims)))
        if not (parts or wanted) and suits(buffer, wide, source, to):
            return recut(buffer, type.shape, wide, source, to, _leading)
        return _mover(type, named(buffer._sharding), to)(buffer)._buffer
    if not (source.is_fully_addressable or source.is_fully_replicated):
        raise MeshError(
            f"an array on {source}, in {len(members_of(source.mesh.flat))} processes, was to be brought to {to}, which "
            "has other devices or another order of them, or another kind of memory",
            "use meshes of the same devices in one order, or gather it first: `multihost_utils.process_allgather`",
        )
    if source.mesh.size != to.mesh.size or to.mesh.is_multi_process or source.mesh.is_multi_process:
        return _put(made(type, buffer, source)._bits(), type, to)
    # The same parts in the same order of devices first, then each to where it belongs.
    grid = np.array(source.mesh.flat, object).reshape(to.mesh.axis_sizes)
    between = NamedSharding(Mesh(grid, to.mesh.axis_names), to.spec, source.kind)
    same = bring(buffer, type, between)
    moved = shim.copied_to(same, device_list(to.mesh.flat), target)
    if same is buffer:  # parts on the same device share memory
        buffer.is_shared = moved.is_shared = True
    return moved


def _argument(program: str, buffer: Any, type: ArrayType, to: NamedSharding) -> Any:
    """The buffer of an argument of a program, resharded to `to`; one committed to a device is left where it is."""
    if named(buffer._sharding) is None and buffer._committed and (device_of(buffer),) != tuple(to.mesh.flat):
        raise MeshError(
            f"{program} is given an array that is committed to {device_of(buffer)}, and computes on {to.mesh}",
            "`device_put` it to the mesh, or make it without naming a device",
        )
    return bring(buffer, type, to)


@cached(4096)
def _mover(type: ArrayType, source: NamedSharding, to: NamedSharding) -> Callable[..., Any]:
    """What brings a buffer from one sharding to another over the same devices: a program that does nothing else."""
    var = Var(type.plain)
    program = Program([var], [], [var], name="reshard")
    module = runtime.backend.lower(program, program.name, place=((source,), (to,)), tiled=False)
    executable = compile_module(module)
    return make_runner(executable, "one", None, executable.loaded.execute_sharded, _moving_failed)


def _moving_failed(error: Exception, given: Sequence[Any]) -> Exception:
    return execution_error(error)


# ---------------------------------------------------------------------------- running

_RUN = """
def run({parameters}):
{checks}    try:
        {unpack}execute(({operands})).consume_with_handlers(handlers)
    except Fault as error:
        raise failed(error, ({given})) from None
{wrap}    return {result}
"""


@cached(4096)
def _code(arity: int, constants: int, kept: tuple[int, ...], forwarded: tuple[tuple[int, int], ...], outs: int,
          result: str, donated: tuple[int, ...], effects: bool) -> CodeType:  # fmt: skip
    """The source of a runner: each argument's sharding is compared by identity with the one compiled for."""
    given, passed = [f"b{i}" for i in range(arity)], dict(forwarded)
    every = [f"c{i}" for i in range(constants)] + given
    needed = sorted({*kept, *passed.values()})
    moving = [i for i in needed if i >= constants]
    wrong = [f"{every[i]}.is_deleted()" for i in moving]  # XLA would log these itself
    wrong += [f"twice(({', '.join(given)}), {tuple(i - constants for i in donated)})"] if donated and arity > 1 else []
    checks = code.owned(every, donated)
    checks += f"    if {' or '.join(wrong)}: raise failed(None, ({', '.join(given)},))\n" if wrong else ""
    results_too = {*passed.values()}  # a buffer that is brought is nobody else's
    checks += "".join(f"    if {every[i]}._sharding is not s{i}: {every[i]} = bring({every[i]}, t{i}, p{i})\n"
                      + f"    else: {every[i]}.is_shared = True\n" * (i in results_too) for i in moving)  # fmt: skip
    computed = [i for i in range(outs) if i not in passed]
    wrap = code.with_forwarded(every, {k: i for k, i in passed.items() if i < constants}) + "".join(
        f"    r{i} = new(Array); r{i}.aval = u{i}; r{i}._kind = k{i}; "
        f"r{i}._buffer = {every[passed[i]] if i in passed else f'o{i}'}\n"
        for i in range(outs)
    )
    results = "".join(f"r{i}, " for i in range(outs))
    source = _RUN.format(
        parameters=", ".join(given), checks=checks, given="".join(p + ", " for p in given),
        unpack="".join(f"o{i}, " for i in computed) + ("= " if computed else ""),
        operands="".join(every[i] + ", " for i in kept), wrap=wrap,
        result={"one": "r0", "tuple": f"({results})", "list": f"[{results}]"}.get(result, f"unflatten(({results}))"),
    )  # fmt: skip
    if not (computed or kept or effects):
        head = f"def run({', '.join(given)}):\n{checks}{wrap}"
        source = f"{head}    return {source.rsplit('return ', 1)[1]}"
    return compile(source, "<tilewright runner>", "exec")


def _given_twice(given: Sequence[Any], donated: Sequence[int]) -> bool:
    """Whether a buffer that is donated is another argument too."""
    ids = Counter(map(id, given))
    return any(ids[id(given[i])] > 1 for i in donated)


SMALL = 1 << 20  # bytes of an argument that is described by its values


def own_arguments(given: Sequence[Any]) -> dict[str, str]:
    """Short digests, by number, of a multi-process program's small arguments that are on no mesh."""
    found = {}
    for number, buffer in enumerate(given):
        if named(buffer._sharding) is None and buffer.on_device_size_in_bytes() <= SMALL:
            bits = np.ascontiguousarray(shim.to_numpy(buffer))
            shown = f" {bits[()]}" if bits.ndim == 0 else ""
            mark = digest(bits.reshape(-1).view(np.uint8).data)[:12]
            found[f"argument {number}"] = f"{bits.dtype}{list(bits.shape)}{shown} {mark}"
    return found


def make_runner(
    executable: Any, result: str, unflatten: Callable[..., Any] | None, execute: Any, failed: Any
) -> Callable[..., Any]:
    """A function from buffers of any sharding to arrays on the executable's mesh."""
    module, place = executable.module, executable.module.place
    held = module.in_types[: len(module.constants)]
    constants = [bring(b, t, s) for b, t, s in zip(buffers(module.constants, held), held, place.ins)]
    arity = len(module.in_types) - len(constants)
    handlers = [_handler(module.out_types[i], place.outs[i]) for i in module.computed]
    names: dict[str, Any] = {
        "execute": execute, "handlers": handlers, "Array": Array, "new": object.__new__,
        "bring": functools.partial(_argument, module.name),
        "Fault": shim.RuntimeFault, "failed": failed, "unflatten": unflatten, "twice": _given_twice, "copy": shim.copy,
    }  # fmt: skip
    names |= {f"c{i}": buffer for i, buffer in enumerate(constants)}
    for i, (t, s) in enumerate(zip(module.in_types, place.ins, strict=True)):
        names |= {f"t{i}": t, f"p{i}": s, f"s{i}": raw(s, rank(t))}
    for i, (t, s) in enumerate(zip(module.out_types, place.outs, strict=True)):
        names |= {f"u{i}": t, f"k{i}": OnMesh(t, s)}
    forwarded = tuple(module.forwarded.items())
    source = _code(arity, len(constants), module.kept, forwarded, len(module.out_types), result, (*module.donated,),
                   module.has_effects)  # fmt: skip
    exec(source, names)
    forks.guard(names["run"])
    if not executable.members:
        return names["run"]
    return group.counted(names["run"], module.name, executable.mark, executable.members, own_arguments)


@cached(4096)
def _handler(type: ArrayType, sharding: NamedSharding) -> Any:
    wide = padded(type, sharding)
    return shim.result_handler(wide, raw(sharding, wide.ndim), True)
