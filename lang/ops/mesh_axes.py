"""The device that a body runs on, among those of a mesh, and how a body names another one.

Within `shard_map` a body may ask for its place along an axis of the mesh (`lax.axis_index`) and name other devices by
`device_id`. What it asks is `device_index`, a number like any other; a device is named by its number in row-major order
of the mesh, its *logical* id, of which the other forms are made where the body is traced.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.passes import rewritten
from ...core.ir.primitive import OWN, Primitive
from ...core.ir.program import Effect, Effects, Eqn, Program, every_eqn
from ...core.ir.types import INT32, ArrayType, is_integer
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.spmd.collective import axis_index_p
from ...core.support.errors import ArgumentTypeError, KernelBodyError, MeshAxisError
from ...core.tracing.trace import axis_environment, shape_of, typeof
from ...core.transforms.rule_helpers import no_tangent
from .basic import current_cell
from .interpret_params import running

Axes = tuple[tuple[Any, int], ...]  # the names and sizes of a mesh's axes


class DeviceIdType(enum.Enum):
    """How a `device_id` names a device: by its place along each axis of the mesh, or by its number."""

    MESH = "mesh"
    LOGICAL = "logical"


def device_effects(*types: Any, axes: tuple[Any, ...], **_: Any) -> Effects:
    """That what a body does differs along some axes, or is seen by other devices along them."""
    return frozenset(Effect("device", name) for name in axes)


def _numpy(*, axis: str, mesh: Axes, axes: Sequence[str]) -> Any:
    run = running()
    number = 0 if run is None else run.device
    return np.int32(place_of(number, mesh)[[name for name, _ in mesh].index(axis)])


# `axes` is () where the place only says that another device has the same: so does everything that follows from it.
device_index_p: Primitive = Primitive(
    "device_index", lambda *, axis, mesh, axes: ArrayType((), INT32), jvp=no_tangent(lambda: device_index_p),
    effects=device_effects, numpy=_numpy, varies=OWN,
    expand=lambda *, axis, mesh, axes: axis_index_p.bind(axes=(axis,)),
)  # fmt: skip
PRIMITIVES = (device_index_p,)


def place_of(number: int, mesh: Axes) -> tuple[int, ...]:
    """The place of a device along each axis."""
    return tuple(int(i) for i in np.unravel_index(number, [n for _, n in mesh]))


def device_count(mesh: Axes) -> int:
    return math.prod(n for _, n in mesh)


def mesh_of(program: Program) -> Axes:
    """The mesh whose devices a body addresses; () for a body that uses its own device alone."""
    if not any(e.kind == "device" for e in program.effects):
        return ()
    speaks = (eqn for eqn in every_eqn(program) if any(e.kind == "device" for e in eqn.effects))
    return next(eqn.params["mesh"] for eqn in speaks if "mesh" in eqn.params)


def with_device_indices(program: Program, mesh: Axes) -> Program:
    """A body whose places along axes of a mesh are those of its device."""
    names = {name for name, _ in mesh}

    def change(eqn: Eqn) -> Eqn:
        (axis,) = eqn.params["axes"]
        if axis not in names:
            return eqn
        params: dict[str, Any] = {"axis": axis, "mesh": mesh, "axes": (axis,)}
        return eqn.replace(primitive=device_index_p, params=params, effects=device_effects(**params))

    return rewritten(program, lambda p: p is axis_index_p, change, {})


# ---------------------------------------------------------------------------- names of devices


def mesh_here(what: str) -> Axes:
    """The mesh of the `shard_map` that a body is traced in."""
    mesh = current_cell(what).devices
    if not mesh:
        raise KernelBodyError(f"{what} in a kernel that is not called within a `shard_map`",
                              "there are no other devices: call the kernel within a `shard_map`")  # fmt: skip
    return mesh


def logical_id(what: str, device_id: Any, kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """The number of a device, an int32 scalar, from any of the forms that name one; and the axes along which it may
    be another one."""
    mesh = mesh_here(what)
    every = tuple(name for name, _ in mesh)
    if kind is DeviceIdType.LOGICAL and not isinstance(device_id, (tuple, list, Mapping)):
        return _index(what, device_id), every
    if kind not in (None, DeviceIdType.MESH, DeviceIdType.LOGICAL):
        raise ArgumentTypeError(f"{what}: device_id_type is {kind!r}", "give DeviceIdType.MESH or .LOGICAL")
    if kind is DeviceIdType.LOGICAL:
        raise ArgumentTypeError(f"{what}: the logical device_id is {device_id!r}", "give one integer")
    if isinstance(device_id, Mapping):
        found = _named(what, device_id, mesh)
        places = [found[n] if n in found else device_index_p.bind(axis=n, mesh=mesh, axes=()) for n in every]
        every = tuple(n for n in every if n in found) or every
    else:
        places = list(device_id) if isinstance(device_id, (tuple, list)) else [device_id]
        if len(places) != len(mesh):
            raise MeshAxisError(
                f"{what}: device_id has {len(places)} places, and the mesh has the axes {[n for n, _ in mesh]}",
                "give a place along each axis, or a dict from axes to places")  # fmt: skip
    number: Any = None
    for (_, size), place in zip(mesh, places, strict=True):
        here = _index(what, place)
        number = here if number is None else number * np.int32(size) + here
    return number, every


def _named(what: str, given: Mapping[Any, Any], mesh: Axes) -> dict[Any, Any]:
    """The place along each axis that a dict names; an axis of cores with one core has one place."""
    sizes, found = dict(mesh), dict[Any, Any]()
    single = {axis[0] for axis in axis_environment() if axis[0] not in sizes and isinstance(axis[1], int)
              and axis[1] == 1}  # fmt: skip
    for key, place in given.items():
        if key in single:
            continue
        names = key if isinstance(key, tuple) and key not in sizes else (key,)
        for name in reversed(names):
            if name not in sizes or name in found:
                raise MeshAxisError(f"{what}: device_id names the axis {name!r}, of the axes {list(sizes)}",
                                    "name axes of the mesh, each once")  # fmt: skip
            last = name == names[0]
            found[name] = place if last else place % np.int32(sizes[name])
            place = place if last else place // np.int32(sizes[name])
    return found


def _index(what: str, x: ArrayLike) -> Any:
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        return np.int32(x)
    if shape_of(x) or not is_integer(typeof(x).dtype):
        raise ArgumentTypeError(f"{what}: device_id holds {typeof(x).show()}", "give integer scalars")
    return convert_element_type(x, INT32)


def tables(mesh: Axes) -> dict[Any, np.ndarray]:
    """For each axis the place of every device along it."""
    places: Sequence[Any] = np.unravel_index(np.arange(device_count(mesh)), [n for _, n in mesh])
    return {name: np.asarray(p, np.int32) for (name, _), p in zip(mesh, places, strict=True)}
