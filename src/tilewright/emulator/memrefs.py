"""Memory of the Mosaic TPU dialect: memrefs and their views, loads and stores, semaphores, asynchronous copies.

A copy happens when it is waited for, and its destination is poison from its start to then: what is read too early,
or changed too early, shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.support.errors import DeadlockError, EmulationError, InputWriteError, OutOfBoundsError
from .core import Op, Rule, Run
from .values import Type, poison

_SPACE = re.compile(r"memory_space<(\w+)>")


@dataclass(eq=False)
class MemRef:
    """A part of a memory: an array that shares its elements, and the memory's name."""

    array: np.ndarray
    space: str
    readonly: bool = False

    def like(self, array: np.ndarray) -> MemRef:
        return MemRef(array, self.space, self.readonly)


def space_of(type: Type) -> str:
    found = _SPACE.search(type.text)
    return found.group(1) if found else "any"


def part(name: str, memref: MemRef, starts: Sequence[Any], sizes: Sequence[int], strides: Sequence[int] = ()) -> Any:
    """The elements from `starts`, `sizes` of them along each axis, `strides` apart; all must be there."""
    shape = memref.array.shape
    if len(starts) != len(shape) or len(sizes) != len(shape):
        raise EmulationError(f"{name}: {len(starts)} indices and sizes {list(sizes)} in a memref of shape {shape}")
    slices = []
    for axis, (start, size, step, n) in enumerate(zip(starts, sizes, strides or [1] * len(shape), shape)):
        start, last = int(start), int(start) + (size - 1) * step
        if size and (start < 0 or last >= n):
            raise OutOfBoundsError(
                f"{name} out of bounds: elements {start} to {last} of axis {axis}, which has {n} (memref {shape})"
            )
        slices.append(slice(start, last + 1, step) if size else slice(0, 0))
    return memref.array[tuple(slices)]


def allocate(type: Type) -> MemRef:
    """Fresh memory: poison, or semaphores at zero."""
    if type.dtype is not None:
        return MemRef(poison(type.shape, type.dtype), space_of(type))
    semaphores = np.empty(type.shape, object)
    for place in np.ndindex(*type.shape):
        semaphores[place] = Semaphore("dma" in type.text.split(",")[0])
    return MemRef(semaphores, "semaphore_mem")


# ---------------------------------------------------------------------------------------------- loads and stores


def _in(name: str, memref: MemRef, *spaces: str) -> None:
    if memref.space not in spaces:
        raise EmulationError(f"{name} of memory {memref.space}, which only copies reach from {' and '.join(spaces)}")


def _told(op: Op, kind: str) -> Run:
    """Tells the device, where there are several, that a part of a memory is read or written."""
    core = op.machine.core
    if core is None:
        return lambda memref, elements, mask=None: None
    line = core.at(op)
    return lambda memref, elements, mask=None: core.access(memref, elements, kind, line, mask)


def _load_scalar(op: Op) -> Run:
    told = _told(op, "reads")

    def run(memref: MemRef, *index: Any) -> Any:
        _in(op.name, memref, "smem")
        found = part(op.name, memref, index, [1] * len(index))
        told(memref, found)
        return np.array(found).reshape(())

    return run


def _store(name: str, memref: MemRef, elements: Any, value: Any, mask: Any = None) -> None:
    if memref.readonly:
        raise InputWriteError(f"{name} into an operand that is only read")
    elements[...] = value if mask is None else np.where(mask, value, elements)


def _store_scalar(op: Op) -> Run:
    told = _told(op, "writes")

    def run(value: Any, memref: MemRef, *index: Any) -> None:
        _in(op.name, memref, "smem")
        found = part(op.name, memref, index, [1] * len(index))
        told(memref, found)
        _store(op.name, memref, found, value)

    return run


def _strides(op: Op, rank: int) -> list[int]:
    return (op.ints("strides") if "strides" in op else []) or [1] * rank


def _load_vector(op: Op) -> Run:
    """Loads of a vector; one of lower rank than the memref is along its last axes."""
    shape, dtype = op.result.shape, op.result.dtype
    assert dtype is not None
    segments = op.segments() if "operandSegmentSizes" in op else None
    told = _told(op, "reads")

    def run(memref: MemRef, *rest: Any) -> Any:
        _in(op.name, memref, "vmem")
        rank = memref.array.ndim
        index, masks = rest[:rank], rest[rank:]
        sizes = [1] * (rank - len(shape)) + list(shape)
        found = part(op.name, memref, index, sizes, _strides(op, rank))
        if found.dtype != dtype:
            raise EmulationError(f"{op.name}: a vector of {dtype} from a memref of {found.dtype}")
        told(memref, found, masks[0].reshape(found.shape) if masks else None)
        value = found.reshape(shape).copy()
        return np.where(masks[0], value, poison((), dtype)) if masks else value

    assert segments is None or len(segments) == 3
    return run


def _store_vector(op: Op) -> Run:
    add, told = op.flag("add"), _told(op, "writes")

    def run(value: Any, memref: MemRef, *rest: Any) -> None:
        _in(op.name, memref, "vmem")
        rank = memref.array.ndim
        index, masks = rest[:rank], rest[rank:]
        sizes = [1] * (rank - value.ndim) + list(value.shape)
        found = part(op.name, memref, index, sizes, _strides(op, rank))
        if found.dtype != value.dtype:
            raise EmulationError(f"{op.name}: a vector of {value.dtype} into a memref of {found.dtype}")
        value = value.reshape(found.shape)
        mask = masks[0].reshape(found.shape) if masks else None
        told(memref, found, mask)
        _store(op.name, memref, found, found + value if add else value, mask)

    return run


# ---------------------------------------------------------------------------------------------- views


def _slice(op: Op) -> Run:
    sizes, segments = op.result.shape, op.segments()

    def run(memref: MemRef, *rest: Any) -> MemRef:
        operands: tuple[Any, ...] = (memref, *rest)
        starts, dynamic = operands[segments[1]], iter(operands[segments[2]])
        whole = [int(next(dynamic)) if n < 0 else n for n in sizes]
        return memref.like(part(op.name, memref, starts, whole))

    return run


def _reshaped(op: Op) -> Run:
    """Another shape of the same memory, which must be one piece along the axes that change."""
    shape = op.result.shape

    def run(memref: MemRef) -> MemRef:
        view = memref.array.reshape(shape)
        if view.size and not np.shares_memory(view, memref.array):
            raise EmulationError(f"{op.name}: a part of a memory in several pieces as {shape}")
        return memref.like(view)

    return run


def _same(op: Op) -> Run:
    def run(memref: MemRef) -> MemRef:
        if memref.array.shape != op.result.shape or memref.array.dtype != op.result.dtype:
            raise EmulationError(f"{op.name}: {memref.array.dtype}{memref.array.shape} as {op.result.text}")
        return memref

    return run


def _bitcast(op: Op) -> Run:
    dtype = op.result.dtype
    assert dtype is not None

    def run(memref: MemRef) -> MemRef:
        if memref.array.dtype.itemsize != dtype.itemsize or memref.array.shape != op.result.shape:
            raise EmulationError(f"{op.name} to a type of another width is no view that the walker has")
        return memref.like(memref.array.view(dtype))

    return run


# ---------------------------------------------------------------------------------------------- semaphores, copies


@dataclass(eq=False)
class Copy:
    source: np.ndarray
    target: MemRef
    nbytes: int


@dataclass(eq=False)
class Semaphore:
    """A count, or for copies (`dma`) those under way and the bytes that have arrived."""

    dma: bool
    count: int = 0
    copies: list[Copy] = field(default_factory=list)

    def settled(self) -> bool:
        return not self.count and not self.copies

    def arrive(self, nbytes: int) -> None:
        while self.count < nbytes:
            if not self.copies:
                raise DeadlockError(f"a wait for a copy of {nbytes} bytes, of which only {self.count} were started")
            copy = self.copies.pop(0)
            copy.target.array[...] = copy.source
            self.count += copy.nbytes
        self.count -= nbytes


def _semaphore(name: str, memref: MemRef, dma: bool) -> Semaphore:
    if memref.array.shape != ():
        raise EmulationError(f"{name} of an array of semaphores {memref.array.shape}")
    found: Any = memref.array[()]
    if found.dma != dma:
        raise EmulationError(f"{name} of a semaphore of the other kind")
    return found


def _only(values: Sequence[Any]) -> Any:
    """The one operand of a group, None where it has none."""
    return values[0] if values else None


def _enqueue(op: Op) -> Run:
    segments, core = op.segments(), op.machine.core
    line = core and core.at(op)

    def run(*operands: Any) -> None:
        source, sent, target, arrival, device, *other = (_only(operands[s]) for s in segments)
        if any(x is not None for x in other):
            raise EmulationError(f"{op.name} to another core: the walker has one of each device")
        if source.array.shape != target.array.shape or source.array.dtype != target.array.dtype:
            raise EmulationError(
                f"{op.name}: from {source.array.dtype}{source.array.shape} to {target.array.dtype}{target.array.shape}"
            )
        if target.readonly:
            raise InputWriteError(f"{op.name} into an operand that is only read")
        if core is not None:
            core.copy((source, sent, target, arrival), device, line)
            return
        if sent is not None or device is not None:
            raise EmulationError(f"{op.name} to another device: the walker has one")
        semaphore = _semaphore(op.name, arrival, True)
        target.array[...] = poison((), target.array.dtype)
        semaphore.copies.append(Copy(source.array, target, source.array.nbytes))

    return run


def _wait(op: Op) -> Run:
    segments, core = op.segments(), op.machine.core
    line = core and core.at(op)

    def run(*operands: Any) -> None:
        semaphore, source, target, *_ = (_only(operands[s]) for s in segments)
        if source.array.shape != target.array.shape:
            raise EmulationError(f"{op.name}: from shape {source.array.shape} to {target.array.shape}")
        if core is not None:
            core.wait(semaphore, target.array.nbytes, line)
        else:
            _semaphore(op.name, semaphore, True).arrive(target.array.nbytes)

    return run


def _signal(op: Op) -> Run:
    segments, core = op.segments(), op.machine.core
    line = core and core.at(op)

    def run(*operands: Any) -> None:
        semaphore, amount, device, *other = (_only(operands[s]) for s in segments)
        if any(x is not None for x in other):
            raise EmulationError(f"{op.name} to another core: the walker has one of each device")
        if core is not None:
            core.notify(semaphore, amount, device, line)
            return
        if device is not None:
            raise EmulationError(f"{op.name} to another device: the walker has one")
        _semaphore(op.name, semaphore, False).count += int(amount)

    return run


def _sem_wait(op: Op) -> Run:
    core = op.machine.core
    if core is not None:
        line = core.at(op)
        return lambda semaphore, amount: core.take(semaphore, amount, line)

    def run(semaphore: MemRef, amount: Any) -> None:
        found = _semaphore(op.name, semaphore, False)
        if found.count < amount:
            raise DeadlockError(
                f"{op.name} for {int(amount)}, and the semaphore is at {found.count}: it would wait forever"
            )
        found.count -= int(amount)

    return run


def _sem_read(op: Op) -> Run:
    if op.machine.core is not None:
        return lambda semaphore: np.asarray(semaphore.array.reshape(())[()], np.int32)
    return lambda semaphore: np.asarray(_semaphore(op.name, semaphore, False).count, np.int32)


def _allocate(op: Op) -> Run:
    machine: Any = op.machine
    return lambda: machine.allocate(op.result, "a buffer of the body's own")


def _barrier(op: Op) -> Run:
    machine: Any = op.machine
    return lambda: machine.barrier()


def _device(op: Op) -> Run:
    number = 0 if op.machine.core is None else op.machine.core.device
    return lambda: np.asarray(number, np.int32)


RULES: dict[str, Rule] = {
    "memref.load": _load_scalar,
    "memref.store": _store_scalar,
    "memref.alloca": _allocate,
    "memref.cast": _same,
    "vector.load": _load_vector,
    "vector.store": _store_vector,
    "tpu.vector_load": _load_vector,
    "tpu.vector_store": _store_vector,
    "tpu.strided_load": _load_vector,
    "tpu.strided_store": _store_vector,
    "tpu.memref_slice": _slice,
    "tpu.memref_squeeze": _reshaped,
    "tpu.memref_reshape": _reshaped,
    "tpu.memref_bitcast": _bitcast,
    "tpu.erase_memref_layout": _same,
    "tpu.enqueue_dma": _enqueue,
    "tpu.wait_dma2": _wait,
    "tpu.sem_alloc": _allocate,
    "tpu.sem_signal": _signal,
    "tpu.sem_wait": _sem_wait,
    "tpu.sem_read": _sem_read,
    "tpu.sem_barrier": _barrier,
    "tpu.device_id": _device,
}
