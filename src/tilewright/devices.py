"""Devices, transfers and waiting: the functions of the front door that concern the runtime."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from .compiler import lazy_layers
from .core.ir.types import FLOAT0, KeyDtype
from .core.support import pytree
from .core.support.config import current
from .core.support.errors import ArgumentError, warn
from .core.support.runtime import runtime
from .core.support.transfer_guard import HOST_TO_DEVICE, guard
from .core.tracing.trace import Tracer
from .xla_backend.arrays.array import Array, as_array, wait_for
from .xla_backend.devices import client
from .xla_backend.devices.client import Device, as_device
from .xla_backend.execution import dispatch


def devices(backend: str | None = None) -> list[Device]:
    """The devices of the default platform (GPUs where there are any) of all processes, or those of one platform.

    Raises:
      DriverError, VersionError: GPUs were asked for, and there are none that can be used.
      ArgumentError: there is no such platform here.

    >>> devices()[0].platform
    'cpu'
    """
    return client.of_platform(client.present()[0] if backend is None else backend)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of this process, or of another by its number (`host_id` is an old name of `process_index`).

    Raises:
      ArgumentError: there is no process of that number.

    >>> local_devices() == devices()
    True
    """
    asked = host_id if process_index is None else process_index
    number = runtime.process_index if asked is None else asked
    if not 0 <= number < runtime.process_count:
        raise ArgumentError(f"process_index={number} among {runtime.process_count} processes", "number them from 0")
    return [d for d in devices(backend) if d.process_index == number]


def device_count(backend: str | None = None) -> int:
    """The number of devices of all processes.

    >>> device_count() == len(devices())
    True
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """The number of devices of this process.

    >>> local_device_count() == device_count()
    True
    """
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process among the processes of the program.

    >>> process_index()
    0
    """
    return runtime.process_index


def process_count(backend: str | None = None) -> int:
    """The number of processes of the program.

    >>> process_count()
    1
    """
    return runtime.process_count


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes of the program.

    >>> process_indices()
    [0]
    """
    return list(range(process_count(backend)))


def default_backend() -> str:
    """The platform of the default device.

    >>> default_backend()
    'cpu'
    """
    return client.default_device().platform


def _put(x: Any, where: Any, donate: bool, may_alias: bool | None) -> Any:
    single = isinstance(where, client.SingleDeviceSharding) and not isinstance(x, Tracer)
    sharding = where.placed("device_put to") if hasattr(where, "placed") and not single else None
    if isinstance(x, Tracer):
        if sharding is None and where is not None and as_device(where) is not client.default_device():
            warn(f"device_put to {as_device(where)!r} of a traced value does nothing: a program runs on its arguments' "
                 "devices")  # fmt: skip
        return x if sharding is None else sharding.constrain(x)
    if current().guards and not isinstance(x, Array):
        guard(HOST_TO_DEVICE, f"{type(x).__name__} is put on a device", "put it there before", explicit=True)
    if sharding is not None and isinstance(x, np.ndarray) and x.dtype != FLOAT0:
        return lazy_layers.sharded_execution.place(x, sharding)
    array = as_array(x)
    if sharding is not None:
        moved = lazy_layers.sharded_execution.place(array, sharding)
    elif where is None or isinstance(x, Array):
        moved = array if where is None else array.to_device(as_device(where))
    else:
        moved = array.committed_to(as_device(where))
    if may_alias is False and isinstance(x, Array) and moved.device == x.device:
        return array.copy()
    if donate and isinstance(x, Array) and moved._buffer is not x._buffer:
        moved.block_until_ready()
        if not _share(x, moved):
            x.delete()
    return moved


def _share(a: Array, b: Array) -> bool:
    """Whether a part of one array, in place on its device, is a part of the other."""
    first, second = ({part.data.unsafe_buffer_pointer() for part in x.addressable_shards} for x in (a, b))
    return not first.isdisjoint(second)


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: bool | None = None
) -> Any:
    """A pytree of arrays and numbers on a device (the default one if none is named), or on a mesh.

    `device` may be a pytree of devices that is a prefix of `x`; of a `Format` its sharding counts. With `donate` (which
    may be such a prefix too) arrays that move are deleted where they were; `may_alias=False` gives arrays with memory
    of their own. `src`, where the values are, is not needed. Raises `ArgumentTypeError` for what names no device,
    `ArgumentError` for both `donate` and `may_alias=True`.

    >>> device_put({"a": 1.5})
    {'a': Array(1.5, dtype=float32, weak_type=True)}
    """
    leaves, structure = pytree.flatten(x)
    if may_alias and any(pytree.leaves(donate)):
        raise ArgumentError("device_put with donate and with may_alias=True", "pass one of the two")
    places = [d.sharding if hasattr(d, "layout") else d for d in pytree.broadcast_prefix(device, x)]
    if runtime.process_count > 1:
        lazy_layers.process_consistency.check_equal(leaves, places)
    donated = pytree.broadcast_prefix(donate, x)
    return structure.unflatten(_put(leaf, d, give, may_alias) for leaf, d, give in zip(leaves, places, donated))


def device_get(x: Any) -> Any:
    """A pytree of arrays as NumPy arrays; random keys, which have no NumPy form, and traced values stay as they are.

    >>> device_get(device_put(1.5))
    array(1.5, dtype=float32)
    """
    return pytree.map(_get, x)


def _get(leaf: Any) -> Any:
    if isinstance(leaf, Tracer):
        return leaf
    if isinstance(leaf, Array):
        return leaf if isinstance(leaf.dtype, KeyDtype) else leaf._numpy(True)
    return leaf.__array__() if hasattr(leaf, "__array__") else leaf


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a pytree are computed; gives the pytree.

    >>> block_until_ready(device_put(2.0))
    Array(2., dtype=float32, weak_type=True)
    """
    leaves = pytree.leaves(x)
    wait_for([leaf for leaf in leaves if type(leaf) is Array])
    for leaf in leaves:
        if type(leaf) is not Array and hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x


def copy_to_host_async(x: Any) -> Any:
    """Start to copy the arrays of a pytree to the host; gives the pytree.

    >>> copy_to_host_async(device_put(2.0))
    Array(2., dtype=float32, weak_type=True)
    """
    for leaf in pytree.leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def effects_barrier() -> None:
    """Wait until the effects (prints, callbacks) of everything started so far have happened.

    >>> import tilewright as tw
    >>> f = tw.jit(lambda x: tw.debug.callback(lambda v: print('got', v), x))
    >>> f(1.0)
    got 1.0
    >>> tw.effects_barrier()
    """
    dispatch.effects_barrier()


def live_arrays(platform: str | None = None) -> list[Array]:
    """The arrays that exist and are not deleted, on any platform unless one is named.

    >>> import tilewright as tw
    >>> x = tw.numpy.ones(3)
    >>> any(y is x for y in tw.live_arrays())
    True
    """
    found = [x for x in gc.get_objects() if issubclass(type(x), Array) and not x.is_deleted()]
    return [x for x in found if platform is None or next(iter(x.devices())).platform == platform]


def clear_caches() -> None:
    """Forget everything traced and compiled; executables on disk stay.

    >>> import tilewright as tw
    >>> tw.clear_caches()
    """
    runtime.clear_caches()
