"""Copies to other devices of a mesh, and signals to their semaphores.

    remote_start(src, *at, dst, *at, send, *at, recv, *at, device; src, dst, send, recv, mesh, axes)
    remote_wait(src, *at, dst, *at, sem, *at, device; src, dst, sem, sent, mesh, axes)
    remote_signal(sem, value, *at, device; index, mesh, axes)
    barrier(sem; mesh, axes)                           says that a semaphore is the one that kernels share

A copy reads `src` here and writes `dst` on another device, where the same kernel runs: the Ref of that name there.
The semaphore `send` counts here that `src` is read, `recv` counts there that `dst` is written. The names and their
meaning are those of Pallas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.ir.array import ArrayLike, Operand
from ...core.ir.primitive import OWN
from ...core.ir.program import Effects
from ...core.ir.types import ArrayType, Type
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.state_primitives import Index, numpy_index
from ...core.support.call_errors import public
from ...core.support.errors import KernelBodyError
from ..kernel.block_spec import as_scratch
from .basic import current_cell
from .dma import (
    BOTH,
    SemaphoreType,
    check_copy,
    check_semaphore,
    effects_on,
    operands_of,
    operation,
    semaphore_signal_p,
    split_parts,
)
from .dynamic_slices import int32_of
from .interpret_params import running
from .mesh_axes import Axes, DeviceIdType, device_effects, logical_id, mesh_here

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive
    from ...core.primitives.refs.ref_views import AnyRef


def _start_typing(
    *types: Any, src: Index, dst: Index, send: Index, recv: Index, mesh: Axes, axes: Sequence[str]
) -> list[Any]:
    source, target, sent, received = (ref for ref, _ in split_parts(types, src, dst, send, recv))
    check_copy("a copy to another device", source, target, src, dst)
    for semaphore, index in ((sent, send), (received, recv)):
        check_semaphore("a copy to another device", semaphore, index)
    return []


def _wait_typing(
    *types: Any, src: Index, dst: Index, sem: Index, sent: bool, mesh: Axes, axes: Sequence[str]
) -> list[Any]:
    check_semaphore("a copy to another device", split_parts(types, src, dst, sem)[2][0], sem)
    return []


def _effects(**kinds: Sequence[str]) -> Callable[..., Effects]:
    """The effects on parts of Refs, and on the devices along some axes."""
    return lambda *types, axes, **params: effects_on(*device_effects(axes=axes), **kinds)(**params)


def _wait_effects(*types: Any, sent: bool, **params: Any) -> Effects:
    touched = {"src": ("read",), "dst": ()} if sent else {"src": (), "dst": ("write",)}
    return _effects(**touched, sem=BOTH)(**params)


def _running_device(what: str) -> Any:
    """The run of one device of the multi-device interpreter: a `Device` of `lang/interpret/multi_device.py`."""
    run = running()
    if run is None or not run.together:
        raise KernelBodyError(f"{what} in a kernel that is interpreted on one device alone",
                              "call the kernel within a `shard_map`, which interprets them together")  # fmt: skip
    return run


def _start_numpy(
    *operands: Any, src: Index, dst: Index, send: Index, recv: Index, mesh: Axes, axes: Sequence[str]
) -> list[Any]:
    parts = split_parts(operands, src, dst, send, recv)
    names = ("source", "destination", "send semaphore", "receive semaphore")
    source, target, sent, received = (
        (ref, numpy_index(index, given, ref.shape, False, f"make_async_remote_copy ({name})"))
        for (ref, given), index, name in zip(parts, (src, dst, send, recv), names, strict=True)
    )
    _running_device("make_async_remote_copy").send(source, target, sent, received, int(operands[-1]))
    return []


def _wait_numpy(
    *operands: Any, src: Index, dst: Index, sem: Index, sent: bool, mesh: Axes, axes: Sequence[str]
) -> list[Any]:
    _, (target, at), (semaphore, given) = split_parts(operands, src, dst, sem)
    place = numpy_index(sem, given, semaphore.shape, False, "make_async_remote_copy (semaphore)")
    nbytes = target[numpy_index(dst, at, target.shape, False, "make_async_remote_copy (destination)")].nbytes
    _running_device("make_async_remote_copy").settle((semaphore, place), nbytes, sent)
    return []


def _signal_typing(sem: Type, value: ArrayType, *rest: Any, index: Index, mesh: Axes, axes: Sequence[str]) -> list[Any]:
    check_semaphore("semaphore_signal", sem, index)
    return []


def _signal_numpy(sem: Operand, value: Operand, *rest: Any, index: Index, mesh: Axes, axes: Sequence[str]) -> list[Any]:
    place = numpy_index(index, rest[:-1], sem.shape, False, "semaphore_signal")
    _running_device("semaphore_signal to another device").signal((sem, place), int(value), int(rest[-1]))
    return []


_STARTS, _SIGNALS = _effects(src=("read",), dst=("write",), send=BOTH, recv=BOTH), _effects(index=BOTH)
remote_start_p: Primitive = operation("remote_start", _start_typing, _STARTS, _start_numpy, varies=OWN)
remote_wait_p: Primitive = operation("remote_wait", _wait_typing, _wait_effects, _wait_numpy, varies=OWN)
remote_signal_p: Primitive = operation("remote_signal", _signal_typing, _SIGNALS, _signal_numpy, varies=OWN)
barrier_p: Primitive = operation(
    "barrier", lambda sem, *, mesh, axes: [], _SIGNALS, lambda sem, *, mesh, axes: [], varies=OWN
)
PRIMITIVES = (remote_start_p, remote_wait_p, remote_signal_p, barrier_p)


@public
def semaphore_signal(
    sem: AnyRef, inc: ArrayLike = 1, *, device_id: Any = None, device_id_type: DeviceIdType = DeviceIdType.MESH,
    core_index: Any = None,
) -> None:  # fmt: skip
    """Add `inc` to a semaphore: of this device, or to that of its name on the device `device_id`.

    A device is named as in `make_async_remote_copy`. Raises a `KernelBodyError` for another core, and where a
    `device_id` is given outside of a kernel within a `shard_map`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(o, ready):
    ...     tl.semaphore_signal(ready, 3)
    ...     o[0] = tl.semaphore_read(ready)
    ...     tl.semaphore_wait(ready, 3)
    >>> out = tw.ShapeDtypeStruct((1,), 'int32')
    >>> tl.kernel_call(body, out, scratch_shapes=[tl.SemaphoreType.REGULAR])().tolist()
    [3]
    """
    if core_index is not None:
        raise KernelBodyError("semaphore_signal to another core", "a kernel here has one core")
    target = refs.view(sem)
    index, operands = target.index()
    if device_id is None:
        semaphore_signal_p.bind(target.ref, int32_of(inc), *operands, index=index)
        return
    device, axes = logical_id("semaphore_signal", device_id, device_id_type)
    mesh = mesh_here("semaphore_signal")
    remote_signal_p.bind(target.ref, int32_of(inc), *operands, device, index=index, mesh=mesh, axes=axes)


@public
def get_barrier_semaphore() -> Any:
    """The semaphore that kernels of one `collective_id` share: with it devices tell that they have entered a kernel.

    Every device must bring it back to zero. On TPUs the kernel needs `CompilerParams(collective_id=...)`. Raises a
    `KernelBodyError` outside of a kernel within a `shard_map`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax, numpy as tnp
    >>> def to_the_next(x, o, sent, received):
    ...     count = lax.axis_size("x")
    ...     following = (lax.axis_index("x") + 1) % count
    ...     entered = tl.get_barrier_semaphore()
    ...     tl.semaphore_signal(entered, device_id=(following + count - 2) % count)  # the one before may send
    ...     tl.semaphore_wait(entered)
    ...     tl.async_remote_copy(x, o, sent, received, following).wait()
    >>> def exchange(x):
    ...     return tl.kernel_call(to_the_next, tw.ShapeDtypeStruct(x.shape, x.dtype),
    ...                           scratch_shapes=[tl.SemaphoreType.DMA] * 2)(x)
    >>> mesh = tw.make_mesh((len(tw.devices()),), ("x",))
    >>> shifted = tw.shard_map(exchange, mesh=mesh, in_specs=tw.P("x"), out_specs=tw.P("x"))
    >>> values = tnp.arange(4.0 * len(tw.devices())).reshape(-1, 4)
    >>> bool(np.all(shifted(values) == np.roll(values, 1, 0)))
    True
    """
    what = "get_barrier_semaphore"
    cell, mesh = current_cell(what), mesh_here(what)
    if what not in cell.made:
        cell.made[what] = cell.allocate(as_scratch(SemaphoreType.BARRIER))
    barrier_p.bind(refs.view(cell.made[what]).ref, mesh=mesh, axes=())
    return cell.made[what]


@dataclass(frozen=True)
class AsyncRemoteCopyDescriptor:
    """A copy from a part of a Ref here to a part of a Ref on another device, to be started and waited for."""

    src: Any
    dst: Any
    send_sem: Any
    recv_sem: Any
    device: Any  # its number
    axes: tuple[Any, ...]  # along which it may be another one

    def start(self, priority: int = 0) -> None:
        """Start the copy. The source must stay as it is until `wait_send`, here and on every device."""
        operands, indices = operands_of(src=self.src, dst=self.dst, send=self.send_sem, recv=self.recv_sem)
        remote_start_p.bind(*operands, self.device, **indices, mesh=mesh_here("make_async_remote_copy"), axes=self.axes)

    def _wait(self, sem: AnyRef, sent: bool) -> None:
        operands, indices = operands_of(src=self.src, dst=self.dst, sem=sem)
        mesh = mesh_here("make_async_remote_copy")
        remote_wait_p.bind(*operands, self.device, **indices, sent=sent, mesh=mesh, axes=self.axes)

    def wait_send(self) -> None:
        """Wait until the source has been read: it may be written again."""
        self._wait(self.send_sem, True)

    def wait_recv(self) -> None:
        """Wait until as much has arrived at the receive semaphore of this device: the destination may be read."""
        self._wait(self.recv_sem, False)

    def wait(self) -> None:
        """`wait_send`, and then `wait_recv`."""
        self.wait_send()
        self.wait_recv()


@public
def make_async_remote_copy(
    src_ref: AnyRef, dst_ref: AnyRef, send_sem: AnyRef, recv_sem: AnyRef,
    device_id: Any, device_id_type: DeviceIdType = DeviceIdType.MESH,
) -> AsyncRemoteCopyDescriptor:  # fmt: skip
    """A copy from `src_ref` here to `dst_ref` on another device of the mesh, not started yet.

    `device_id` is a tuple of the device's places along the axes of the mesh (or the place, of one axis), a dict from
    axes to places (along the others: those of this device), or with `DeviceIdType.LOGICAL` its number. The Refs, or
    parts of them (`ref.at[...]`), have one shape and dtype; `dst_ref` is scratch, or an output that is one block.
    Raises a `KernelBodyError` outside of a kernel within a `shard_map`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax, numpy as tnp
    >>> def to_the_next(x, o, sent, received):
    ...     count = lax.axis_size("x")
    ...     copy = tl.make_async_remote_copy(x, o, sent, received, (lax.axis_index("x") + 1) % count)
    ...     copy.start()
    ...     copy.wait()
    >>> def exchange(x):
    ...     return tl.kernel_call(to_the_next, tw.ShapeDtypeStruct(x.shape, x.dtype),
    ...                           scratch_shapes=[tl.SemaphoreType.DMA] * 2)(x)
    >>> mesh = tw.make_mesh((len(tw.devices()),), ("x",))
    >>> shifted = tw.shard_map(exchange, mesh=mesh, in_specs=tw.P("x"), out_specs=tw.P("x"))
    >>> values = tnp.arange(4.0 * len(tw.devices())).reshape(-1, 4)
    >>> bool(np.all(shifted(values) == np.roll(values, 1, 0)))
    True
    """
    device, axes = logical_id("make_async_remote_copy", device_id, device_id_type)
    return AsyncRemoteCopyDescriptor(src_ref, dst_ref, send_sem, recv_sem, device, axes)


@public
def async_remote_copy(
    src_ref: AnyRef, dst_ref: AnyRef, send_sem: AnyRef, recv_sem: AnyRef, device_id: ArrayLike,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
) -> AsyncRemoteCopyDescriptor:  # fmt: skip
    """Start a copy to another device, as `make_async_remote_copy` makes it; wait for it with `.wait()`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax, numpy as tnp
    >>> def to_the_next(x, o, sent, received):
    ...     count = lax.axis_size("x")
    ...     tl.async_remote_copy(x, o, sent, received, (lax.axis_index("x") + 1) % count).wait()
    >>> def exchange(x):
    ...     return tl.kernel_call(to_the_next, tw.ShapeDtypeStruct(x.shape, x.dtype),
    ...                           scratch_shapes=[tl.SemaphoreType.DMA] * 2)(x)
    >>> mesh = tw.make_mesh((len(tw.devices()),), ("x",))
    >>> shifted = tw.shard_map(exchange, mesh=mesh, in_specs=tw.P("x"), out_specs=tw.P("x"))
    >>> values = tnp.arange(4.0 * len(tw.devices())).reshape(-1, 4)
    >>> bool(np.all(shifted(values) == np.roll(values, 1, 0)))
    True
    """
    copy = make_async_remote_copy(src_ref, dst_ref, send_sem, recv_sem, device_id, device_id_type)
    copy.start()
    return copy
