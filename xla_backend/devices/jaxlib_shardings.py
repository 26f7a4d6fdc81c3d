"""Shardings as jaxlib and Shardy have them: its own interned objects, the text of attributes, lists of devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.types import ArrayType, KeyDtype
from ...core.sharding.mesh import UNCONSTRAINED, AnyMesh, Mesh, NamedSharding
from ...core.support.memo import once
from ...core.support.runtime import runtime
from ..jaxlib import shim

_interned: dict[Any, Any] = runtime.part("shardings.interned", {})  # compared by identity
_names: dict[int, NamedSharding] = runtime.part("shardings.names", {})  # by the address of jaxlib's object


def rank(type: ArrayType) -> int:
    """The dimensions of a type as the device holds it."""
    return type.ndim + isinstance(type.dtype, KeyDtype)


def raw(sharding: NamedSharding, ndim: int) -> Any:
    """jaxlib's sharding of arrays with so many dimensions: one object for all that place them alike."""
    found = sharding.raws.get(ndim)
    if found is None:
        mesh = sharding.mesh
        hlo = hlo_sharding(sharding, ndim)
        key = (mesh.flat, hlo.to_string(), sharding.kind or "device")
        found = _interned.get(key)
        if found is None:
            found = _interned.setdefault(key, shim.gspmd_sharding(device_list(mesh.flat), hlo, sharding.kind))
            _names[id(found)] = sharding.with_spec(sharding.spec.trimmed())  # replicated arrays of any rank have one
        sharding.raws[ndim] = found
    return found


def named(raw: Any) -> NamedSharding | None:
    """A sharding that jaxlib's object stands for; None if it is that of one device."""
    return _names.get(id(raw))


@once
def device_list(devices: tuple[Any, ...]) -> Any:
    """jaxlib's list of the devices of a program."""
    return shim.DeviceList(tuple(d.raw for d in devices))


def hlo_sharding(sharding: NamedSharding, ndim: int) -> Any:
    """The sharding of arrays with so many dimensions in HLO's form."""
    sharding.check_decided("an array")
    mesh = sharding.mesh
    names, sizes = list(mesh.axis_names), list(mesh.axis_sizes)
    used = [names.index(a) for d in sharding.spec.padded(ndim) for a in d]
    summed = [i for i, name in enumerate(names) if name in sharding.spec.unreduced]
    rest = [i for i in range(len(names)) if i not in (*used, *summed)]
    tiles = list(sharding.parts(ndim))
    addends, copies = (int(np.prod([sizes[i] for i in axes])) for axes in (summed, rest))
    if all(t == 1 for t in (*tiles, addends)):
        return shim.HloSharding.replicate()
    return shim.tiled_sharding(tiles, copies, sizes, used + rest + summed, addends)


# ---------------------------------------------------------------------------- texts


def axes_text(axes: Sequence[Any]) -> str:
    """One dimension of a Shardy sharding; `{?}`: left to the compiler."""
    if axes is UNCONSTRAINED:
        return "{?}"
    return "{" + ", ".join(json.dumps(str(a)) for a in axes) + "}"


def sharding_text(mesh_name: str, dims: Sequence[Any], unreduced: Sequence[Any] = ()) -> str:
    """`<@mesh, [{"x"}, {}], unreduced={"y"}>`, the body of Shardy's attributes."""
    more = f", unreduced={axes_text(unreduced)}" if unreduced else ""
    return f"<@{mesh_name}, [{', '.join(map(axes_text, dims))}]{more}>"


def places(mesh: AnyMesh, devices: tuple[Any, ...] | None) -> np.ndarray:
    """The numbers in a program of a mesh's devices, in its grid."""
    found = np.arange(mesh.size)
    if devices is not None and isinstance(mesh, Mesh):
        found = np.array([devices.index(d) for d in mesh.flat])
    return found.reshape(mesh.axis_sizes)


def mesh_text(mesh: AnyMesh, devices: tuple[Any, ...] | None, names: Sequence[Any]) -> str:
    """A mesh as it is declared with its axes in some order; and the order of its devices, if not the program's."""
    axes = ", ".join(f"{json.dumps(str(n))}={mesh.shape[n]}" for n in names)
    found = places(mesh, devices).transpose([mesh.axis_names.index(n) for n in names]).ravel().tolist()
    order = "" if found == [*range(mesh.size)] else f", device_ids=[{', '.join(map(str, found))}]"
    return f"<[{axes}]{order}>"
