"""Host-local arrays, of which each process has the part of its own devices, as arrays on a mesh of all, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.ir.types import ArrayType, KeyDtype
from ..core.jit.jit import jit
from ..core.sharding.mesh import Mesh, NamedSharding
from ..core.support import pytree as tree
from ..core.support.errors import ShapeError
from ..random.key import key_data, wrap_key_data
from ..sharding import make_array_from_process_local_data
from ..xla_backend.arrays.array import Array, as_array
from ..xla_backend.execution.sharded_execution import assemble


def is_global(x: Any) -> bool:
    """Whether a value is an array on devices of several processes."""
    return type(x) is Array and not x.is_fully_addressable


def identity(x: Any) -> Any:
    return x


def _specs(pspecs: Any, inputs: Any) -> list[Any]:
    return tree.broadcast_prefix(pspecs, inputs)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays of which each process gives the part of its own devices, as arrays on a mesh of all.

    `pspecs` is a `PartitionSpec`, or a prefix tree of them. Along dimensions that the processes share each gives all.

    Raises:
      ShapeError: a part whose size the local devices do not divide.

    >>> from tilewright.sharding import PartitionSpec as P, make_mesh
    >>> host_local_array_to_global_array(np.ones((2, 3)), make_mesh((1,), ("x",)), P("x")).shape
    (2, 3)
    """
    leaves, structure = tree.flatten(local_inputs)
    return structure.unflatten(
        x if is_global(x) else _global(x, NamedSharding(global_mesh, spec))
        for x, spec in zip(leaves, _specs(pspecs, local_inputs), strict=True)
    )


def _global(x: Any, sharding: NamedSharding) -> Any:
    if isinstance(dtype := getattr(x, "dtype", None), KeyDtype):
        return wrap_key_data(_global(key_data(x), sharding), dtype=dtype)
    return make_array_from_process_local_data(sharding, np.asarray(x))


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays on a mesh of all processes as arrays on the mesh of this one's devices: what these hold of them.

    Raises:
      ShapeError: an array whose size the mesh does not divide.
      MeshError: the devices of this process are no rectangle of the mesh.

    >>> from tilewright.sharding import PartitionSpec as P, make_mesh
    >>> mesh = make_mesh((1,), ("x",))
    >>> global_array_to_host_local_array(host_local_array_to_global_array(np.ones(2), mesh, P("x")), mesh, P("x")).shape
    (2,)
    """
    leaves, structure = tree.flatten(global_inputs)
    return structure.unflatten(
        _local(x, NamedSharding(global_mesh, spec))
        for x, spec in zip(leaves, _specs(pspecs, global_inputs), strict=True)
    )


def _local(x: Any, sharding: NamedSharding) -> Array:
    array = x if getattr(x, "_placed", None) else as_array(x).to_device(sharding)
    if array.sharding is not sharding:
        array = jit(identity, out_shardings=sharding)(array)
    if sharding.padded_shape(array.shape) != array.shape:
        raise ShapeError(f"an array of shape {array.shape}, which {sharding} does not divide",
                         "use `addressable_shards`, which are without padding")  # fmt: skip
    mesh = sharding.mesh.local_mesh
    here = NamedSharding(mesh, sharding.spec, sharding.memory_kind)
    shape = tuple(n * p for n, p in zip(sharding.shard_shape(array.shape), here.parts(array.ndim), strict=True))
    parts = {s.device: s.data for s in array.addressable_shards}
    return assemble(ArrayType(shape, array.dtype, array.weak_type), here, [parts[d] for d in mesh.flat])
