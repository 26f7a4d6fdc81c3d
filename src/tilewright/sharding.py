"""Meshes and shardings: arrays over many devices.

    mesh = tw.make_mesh((4, 2), ("data", "model"))
    x = tw.device_put(x, tw.NamedSharding(mesh, tw.P("data", None)))

Names and meaning are those of `jax.sharding`, and of the functions of `jax` that make arrays of parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .core.ir.array import DTypeLike
from .core.ir.types import ArrayType, canonical_dtype, is_key
from .core.sharding.axis_types import AbstractDevice
from .core.sharding.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    P,
    PartitionSpec,
    checked_sizes,
    with_sharding_constraint,
)
from .core.sharding.mesh_in_force import get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh, use_mesh
from .core.sharding.shard_map import shard_map
from .core.sharding.sharding_in_types import auto_axes, constrained, explicit_axes
from .core.sharding.smap import smap
from .core.support.errors import ArgumentError, DtypeError, MeshError, ShapeError, TracerArrayConversionError, plural
from .core.support.pytree import leaves
from .core.tracing.trace import Tracer, typeof
from .devices import devices
from .xla_backend.arrays.array import Array, as_array
from .xla_backend.devices.client import Device, SingleDeviceSharding, set_num_cpu_devices
from .xla_backend.execution.sharded_execution import Shard, assemble

Sharding = NamedSharding | SingleDeviceSharding

__all__ = [
    "AbstractDevice", "AbstractMesh", "AxisType", "Mesh", "NamedSharding", "P", "PartitionSpec", "Shard", "Sharding",
    "SingleDeviceSharding", "auto_axes", "create_device_mesh", "create_hybrid_device_mesh", "explicit_axes",
    "get_abstract_mesh", "get_mesh", "make_array_from_callback", "make_array_from_process_local_data",
    "make_array_from_single_device_arrays", "make_mesh", "reshard", "set_mesh", "shard_map", "smap",
    "use_abstract_mesh", "use_mesh", "with_sharding_constraint",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy

# ---------------------------------------------------------------------------- meshes


def make_mesh(
    axis_sizes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None, *,
    devices: Sequence[Device] | None = None, num_cpu_devices: int | None = None,
) -> Mesh:  # fmt: skip
    """A mesh of the sizes and names given, over the first devices, or over those given.

    `num_cpu_devices` asks for so many virtual CPU devices, before the first computation (the setting of that name).

    Raises:
      MeshError: more devices than there are. ArgumentError: sizes that are no positive integers.
      ConfigError: `num_cpu_devices` after the first computation.

    >>> make_mesh((1, 1), ("data", "model"))
    Mesh('data': 1, 'model': 1)
    """
    if num_cpu_devices is not None:
        set_num_cpu_devices(num_cpu_devices)
    return Mesh(create_device_mesh(axis_sizes, devices, allow_split_physical_axes=True), axis_names, axis_types)


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Device] | None = None, *, contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:  # fmt: skip
    """An array of devices of a shape: TPUs by their coordinates, so that neighbours are linked, others by number.

    Raises:
      MeshError: more devices than there are.

    >>> create_device_mesh((1,)).shape
    (1,)
    """
    found = list(all_devices() if devices is None else devices)
    shape = checked_sizes(mesh_shape)
    count = math.prod(shape)
    if count > len(found) or (devices is not None and count != len(found)):
        raise MeshError(
            f"a mesh of shape {shape} takes {plural(count, 'device')}, and there are {len(found)}",
            "ask for fewer, or for virtual ones: `config.update('num_cpu_devices', n)` before the first computation",
        )
    found.sort(key=lambda d: (d.process_index, tuple(getattr(d.raw, "coords", ())), d.id) if devices is None else 0)
    grid = np.empty(count, object)
    grid[:] = found[:count]
    return grid.reshape(shape)


all_devices = devices  # the parameters of these functions have the name too


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Device] | None = None, *,
    process_is_granule: bool = False, **options: Any,
) -> np.ndarray:  # fmt: skip
    """An array of devices of several slices (or processes): within each the fast axes, between them the slow ones.

    Its shape is the product of the two, axis by axis.

    >>> create_hybrid_device_mesh((1, 1), (1, 1)).shape
    (1, 1)
    """
    found = list(all_devices() if devices is None else devices)

    def granule(d: Device) -> int:
        return d.process_index if process_is_granule else getattr(d.raw, "slice_index", d.process_index)

    groups: dict[int, list[Device]] = {}
    for d in found:
        groups.setdefault(granule(d), []).append(d)
    if math.prod(dcn_mesh_shape) != len(groups):
        raise MeshError(f"dcn_mesh_shape {tuple(dcn_mesh_shape)} for {len(groups)} slices", "one place for each slice")
    grids = [create_device_mesh(mesh_shape, groups[g]) for g in sorted(groups)]
    outer = np.empty(len(grids), object)
    outer[:] = grids
    blocks = outer.reshape(tuple(dcn_mesh_shape))
    return np.block(blocks.tolist()) if len(grids) > 1 else grids[0]


# ---------------------------------------------------------------------------- arrays of parts


def reshard(xs: Any, out_shardings: Any) -> Any:
    """A pytree whose arrays lie as shardings or specs say, within a program or outside of one.

    Along axes of the type `Explicit` their types tell so from here on.

    >>> mesh = make_mesh((1,), ("x",))
    >>> reshard(np.arange(2.0), NamedSharding(mesh, P("x"))).sharding.spec
    P('x',)
    """
    mesh = next((x.aval.placed.mesh for x in leaves(xs) if getattr(typeof(x), "placed", None)), None)
    return constrained(xs, out_shardings, mesh)


def _dtype_of(parts: Sequence[Any], dtype: DTypeLike) -> Any:
    return canonical_dtype(typeof(parts[0]).dtype if dtype is None else dtype)


def _values(x: Any) -> Any:
    """Data on the host; random keys as they are."""
    return x if isinstance(x, Array) and is_key(x.dtype) else np.asarray(x)


def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[tuple[slice, ...]], Any], dtype: DTypeLike = None
) -> Array:
    """An array whose parts a function gives: `data_callback(index)` is called for each part of this process once.

    >>> mesh = make_mesh((1,), ("x",))
    >>> make_array_from_callback((4,), NamedSharding(mesh, P("x")), lambda i: np.arange(4.0)[i]).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    sharding, shape = _placed(sharding), tuple(shape)
    known: dict[Any, Any] = {}
    parts = []
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        key = tuple((i.start, i.stop) for i in index)
        if key not in known:
            known[key] = _values(data_callback(index))
        parts.append((device, index, known[key]))
    type = ArrayType(shape, _dtype_of([p for _, _, p in parts], dtype))
    for _, index, part in parts:
        wanted = tuple(len(range(*i.indices(n))) for i, n in zip(index, shape, strict=True))
        if part.shape != wanted:
            raise ShapeError(f"data_callback gave a part of shape {part.shape} for {index} of {type.show()}",
                             f"return an array of shape {wanted}")  # fmt: skip
    parts = [(d, p if p.dtype == type.dtype else p.astype(type.dtype)) for d, _, p in parts]
    return assemble(type, sharding, [as_array(p).to_device(d) for d, p in parts])


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Array], *, dtype: DTypeLike = None
) -> Array:
    """An array of its parts, one on each device of this process, in any order.

    Raises:
      ShapeError: a part of another shape than the sharding's.
      MeshError: parts that do not lie one on each device.
      DtypeError: parts of several dtypes, or of another than `dtype`.
      TracerArrayConversionError: parts whose values are not known while tracing.

    >>> import tilewright as tw
    >>> from tilewright.sharding import NamedSharding, P
    >>> rows = NamedSharding(tw.make_mesh((1,), ("i",)), P("i"))
    >>> make_array_from_single_device_arrays((2,), rows, [tw.numpy.ones(2)])
    Array([1., 1.], dtype=float32)
    """
    sharding, shape = _placed(sharding), tuple(shape)
    if any(isinstance(a, Tracer) for a in arrays):
        raise TracerArrayConversionError("make_array_from_single_device_arrays of traced values",
                                         "make the array outside of `jit`; within, use `reshard`")  # fmt: skip
    by_device = {a.device: as_array(a) for a in arrays}
    index = sharding.addressable_devices_indices_map(shape)
    if set(by_device) != set(index) or len(arrays) != len(index):
        found = sorted(map(str, by_device))
        raise MeshError(f"{len(arrays)} parts on {found} for {sharding}", "give one on each of its devices")
    parts = [by_device[d] for d in index]
    dtypes = sorted({str(p.dtype) for p in parts})
    if len(dtypes) > 1:
        raise DtypeError(f"parts of the dtypes {', '.join(dtypes)} for one array", "convert them to one")
    if dtype is not None and canonical_dtype(dtype) != parts[0].dtype:
        raise DtypeError(f"parts of the dtype {dtypes[0]} for an array of dtype {canonical_dtype(dtype)}",
                         "convert the parts, or leave `dtype` out")  # fmt: skip
    for part, where in zip(parts, index.values(), strict=True):
        wanted = tuple(len(range(*i.indices(n))) for i, n in zip(where, shape, strict=True))
        if part.shape not in (wanted, sharding.shard_shape(shape)):
            raise ShapeError(f"a part of shape {part.shape}, where {sharding} of {shape} has {wanted}", "cut it so")
    return assemble(ArrayType(shape, _dtype_of(parts, dtype)), sharding, parts)


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Sequence[int | None] | None = None
) -> Array:
    """An array of which each process gives what its devices hold; without other processes `local_data` is all of it.

    What a process holds along a dimension are its intervals, one after the other. `global_shape` may be left out, or
    hold None, where the processes' parts are of one size. A process may give the whole of a dimension as well.

    Raises:
      ShapeError: data of another size than this process holds.

    >>> mesh = make_mesh((1,), ("x",))
    >>> make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.arange(2.0)).shape
    (2,)
    """
    sharding, local = _placed(sharding), _values(local_data)
    known = (None,) * local.ndim if global_shape is None else tuple(global_shape)
    if len(known) != local.ndim:
        raise ShapeError(f"global_shape={known} for local_data of shape {local.shape}", "the same number of dimensions")
    alone = isinstance(sharding, SingleDeviceSharding)
    inferred = local.shape if alone else _global_shape(sharding, local.shape)
    shape = tuple(i if n is None else n for i, n in zip(inferred, known, strict=True))
    local_spans = _local_intervals(sharding, shape)
    sizes = tuple(sum(b - a for a, b in spans) for spans in local_spans)
    if any(n not in (size, full) for n, size, full in zip(local.shape, sizes, shape, strict=True)):
        raise ShapeError(
            f"local_data of shape {local.shape} for an array of shape {shape}, of which {sizes} is local",
            "give the local part, or the full array",
        )

    def cut(index: tuple[slice, ...]) -> np.ndarray:
        places = []
        for i, spans, n, full in zip(index, local_spans, local.shape, shape, strict=True):
            start, stop, _ = i.indices(full)
            before = start if n == full else sum(b - a for a, b in spans if a < start)
            places.append(slice(before, before + stop - start))
        return local[tuple(places)]

    return make_array_from_callback(shape, sharding, cut, local.dtype)


def _local_intervals(sharding: NamedSharding, shape: tuple[int, ...]) -> list[list[tuple[int, int]]]:
    """The intervals along each dimension that are local to this process, in order."""
    maps = [[i.indices(n)[:2] for i, n in zip(index, shape, strict=True)]
            for index in sharding.addressable_devices_indices_map(shape).values()]  # fmt: skip
    return [sorted(set(spans)) for spans in zip(*maps, strict=True)]


def _global_shape(sharding: NamedSharding, local: tuple[int, ...]) -> tuple[int, ...]:
    """The global shape, where all processes have parts of one shape."""
    parts = sharding.parts(len(local))
    local_spans = _local_intervals(sharding, parts)
    return tuple(n * full // len(spans) for n, full, spans in zip(local, parts, local_spans, strict=True))


def _placed(sharding: Any) -> Any:
    if isinstance(sharding, (Device, SingleDeviceSharding)):
        return sharding if isinstance(sharding, SingleDeviceSharding) else SingleDeviceSharding(sharding)
    if not hasattr(sharding, "placed"):
        raise ArgumentError(f"{sharding!r} is no sharding over a mesh", "use NamedSharding(mesh, spec)")
    return sharding.placed("an array by")
