"""What operations on a ring of devices share: who is next, which way to compute, the handshakes of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import lax

from ...core.ir.array import ArrayLike
from ...core.primitives.spmd.varying_axes import mesh_axes, pvary
from ...core.support.errors import ArgumentError, UnboundAxisError
from ...core.tracing.trace import typeof
from ...lang.kernel.block_spec import ANY, BlockSpec
from ...lang.ops.dma import make_async_copy, semaphore_wait
from ...lang.ops.remote_dma import get_barrier_semaphore, make_async_remote_copy, semaphore_signal
from ...lang.targets.target import Target, current_target

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef

WAYS = ("kernel", "ring")
FAR = BlockSpec(memory_space=ANY)


def chosen(name: str, axis_name: Hashable, way: str | None, rows: int, *columns: int) -> str:
    """The way to compute: as asked for, or by the target.

    A TPU's copies move whole tiles, so kernels are chosen where `rows` and `columns` of what they copy are such.
    """
    if axis_name not in mesh_axes():
        raise UnboundAxisError(f"{name} over {axis_name!r}, which is no axis of a mesh here",
                               "call it in the function of a `shard_map` over that axis")  # fmt: skip
    if way is None:
        target = current_target()
        whole = target.kind == "tpu" and rows % 16 == 0 and all(n % target.lanes == 0 for n in columns)
        return "kernel" if whole else "ring"
    if way not in WAYS:
        raise ArgumentError(f"{name}: way is {way!r}", f"give one of {', '.join(map(repr, WAYS))}, or None")
    return way


def alike(axis_name: Hashable, *arrays: Any) -> list[Any]:
    """Arrays that count as differing along the same axes, that of the ring among them."""
    names = frozenset({axis_name}).union(*(typeof(x).vary for x in arrays))
    return [pvary(x, names) for x in arrays]


def size_of(axis_name: Hashable) -> int:
    return mesh_axes()[axis_name]


def passed_on(x: ArrayLike, axis_name: Hashable) -> Any:
    """What the device before this one has."""
    n = size_of(axis_name)
    return lax.ppermute(x, axis_name, [(i, (i + 1) % n) for i in range(n)])


def tile(n: int, most: int, unit: int) -> int:
    """The largest part of n elements, at most so many, that is a multiple of a unit and divides n; else all."""
    fits = [t for t in range(unit, min(n, most) + 1, unit) if n % t == 0]
    return n if n <= most or not fits else fits[-1]


class Ring:
    """In a body: this device and its neighbours along an axis, and the copies to the next one."""

    axis: Any
    size: int
    next: Any
    before: Any

    def __init__(self, axis_name: Hashable):
        self.axis, self.size = axis_name, lax.axis_size(axis_name)
        self.here: Any = lax.axis_index(axis_name)
        n = np.int32(self.size)
        self.next, self.before = lax.rem(self.here + 1, n), lax.rem(self.here + n - 1, n)

    def behind(self, steps: int) -> Any:
        """The place of the device so many before this one."""
        n = np.int32(self.size)
        return lax.rem(self.here + n * (1 + steps // self.size) - np.int32(steps), n)

    def meet(self) -> None:
        """Both neighbours have entered the kernel."""
        barrier = get_barrier_semaphore()
        for other in (self.next, self.before):
            semaphore_signal(barrier, 1, device_id={self.axis: other})
        semaphore_wait(barrier, 2)

    def copy(self, source: AnyRef, target: Target, send: AnyRef, receive: AnyRef) -> Any:
        return make_async_remote_copy(source, target, send, receive, {self.axis: self.next})

    def release(self, semaphore: Any) -> None:
        """Tell the device before this one that it may send more."""
        semaphore_signal(semaphore, 1, device_id={self.axis: self.before})


def copied(source: Any, target: Any, semaphore: Any) -> None:
    """A copy within the device, made and waited for."""
    copy = make_async_copy(source, target, semaphore)
    copy.start()
    copy.wait()


Step = Callable[[int, Any, Any], None]


def all_pass(ring: Ring, buffers: Any, send: Any, receive: Any, free: Any, step: Step) -> None:
    """`step(number, slot, place)` for what each device has put into slot 0 of its buffers, one after the other.

    `buffers` has two slots along its first axis; `place` is of the device whose values are in `slot`. While a step
    computes, its values go on to the next device.
    """
    for number in range(ring.size):
        slot, last = number % 2, number == ring.size - 1
        if not last:
            if number:
                semaphore_wait(free, 1)  # the next device has done with its other slot
            copy = ring.copy(buffers.at[slot], buffers.at[1 - slot], send, receive.at[1 - slot])
            copy.start()
        step(number, slot, ring.behind(number))
        if not last:
            copy.wait()
            if number + 2 < ring.size:
                ring.release(free)
