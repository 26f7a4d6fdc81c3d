"""Several devices that run one Mosaic program: remote copies, semaphores and barriers, in what order they allow.

Each device is a thread of its own, of which one runs at a time, until it has to wait. What orders their accesses is
followed as the interpreter of kernels does (`lang/interpret/multi_device.py`); here the accesses are those of the
emitted program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.support.errors import EmulationError, Source
from ..lang.interpret.multi_device import Device, World
from ..lang.interpret.vector_clocks import Flight, Memory
from ..lang.kernel.kernel import Kernel
from ..lang.ops.dma import address_of
from ..lang.ops.interpret_params import InterpretParams
from .core import Op
from .memrefs import MemRef

Work = Callable[["Core"], list[Any]]  # runs the program of one device
Locate = Callable[[str], Source | None]  # the user's line that a location of MLIR names


class Cores(World):
    """The devices of a kernel's mesh, whose program `work` runs on each."""

    program: Work
    locate: Locate
    devices: list[Core]
    members: list[Core]

    def __init__(self, kernel: Kernel, work: Work, locate: Locate, count: int):
        super().__init__(kernel, InterpretParams(detect_races=True), ())
        self.program, self.locate = work, locate
        self.members = self.devices = [Core(self, n) for n in range(count)]


class Core(Device):
    """One device: its machine tells it of every access to memory, copy and signal."""

    world: Cores

    def __init__(self, world: Cores, number: int):
        self.world = world
        self.counts: dict[int, str] = {}  # the names of semaphores, by position
        super().__init__(world, number, ())

    def work(self) -> None:
        self.results: list[np.ndarray] = self.world.program(self)

    def at(self, op: Op) -> Source | None:
        """The user's line of an operation."""
        return self.world.locate(str(op.operation.location))

    # ------------------------------------------------------------ memory

    def add(self, array: np.ndarray, name: str, semaphores: bool = False) -> None:
        """A memory of the device; the same one of another device has the same position."""
        if semaphores:
            self.counts[len(self.memory)] = name
        memory = self.memory[len(self.memory)] = Memory(name, array)
        if not self.entered:  # nobody knows that it is here
            memory.seen["writes"][:] = 1

    def begin(self) -> None:
        """Wait until all devices have their memories."""
        self.entered = True
        self.pause(lambda: all(d.entered for d in self.world.devices), lambda: "enters the kernel")

    def label(self, position: int) -> str:
        return self.memory[position].name

    def position(self, ref: np.ndarray, what: str) -> int:
        return next(p for p, m in self.memory.items() if m.array is ref)

    def place(self, memref: MemRef) -> tuple[np.ndarray, Any]:
        """The memory that a view is a part of, and the places of its elements there."""
        view = memref.array
        for memory in self.memory.values():
            first = view.ctypes.data - memory.array.ctypes.data
            if 0 <= first < max(memory.array.nbytes, 1) and view.dtype.itemsize == memory.array.itemsize:
                apart = [np.arange(n) * s for n, s in zip(view.shape, view.strides, strict=True)]
                elements = (first + sum(np.ix_(*apart), np.zeros((), np.int64))) // view.dtype.itemsize
                return memory.array, np.unravel_index(elements, memory.array.shape)
        raise EmulationError("a view of a memory in elements of another width, between devices")

    def access(self, memref: MemRef, elements: np.ndarray, kind: str, line: Source | None, mask: Any = None) -> None:
        """Note that the program reads or writes a part of a memory, of it only what the mask says."""
        if not elements.size:
            return
        self.source = line
        root, where = self.place(memref.like(elements))
        memory = self.memory[self.position(root, kind)]
        found = np.asarray(memory.elements[where])
        self.touch(memory, found.ravel() if mask is None else found[mask], kind)

    # ------------------------------------------------------------ copies and signals

    def copy(self, parts: Sequence[MemRef | None], device: Any, line: Source | None) -> None:
        """Start a copy: `parts` are source, its semaphore (None: a copy within the device), target, its semaphore."""
        self.source = line
        source, sent, target, received = (None if p is None else self.place(p) for p in parts)
        assert source is not None and target is not None and received is not None
        if source[0].dtype != target[0].dtype:
            raise EmulationError(f"a copy from {source[0].dtype} to {target[0].dtype}")
        number = self.device if device is None else int(device)
        if sent is not None:
            self.send(source, target, sent, received, number)
            return
        self.send(source, target, received, received, number)
        queue = self.sending[address_of(*received)]
        flight = queue.pop()
        flight.within = True

    def finished(self, flight: Flight, sent: bool) -> None:
        super().finished(flight, sent)
        if flight.within:
            self.leaving.remove(flight)

    def wait(self, semaphore: MemRef, nbytes: int, line: Source | None) -> None:
        """Wait for the bytes of copies: that were read here, or that arrive, as the semaphore was named in them."""
        self.source = line
        place = self.place(semaphore)
        self.settle(place, nbytes, sent=bool(self.sending.get(address_of(*place))))

    def notify(self, semaphore: MemRef, value: Any, device: Any, line: Source | None) -> None:
        self.source = line
        self.signal(self.place(semaphore), int(value), self.device if device is None else int(device))

    def take(self, semaphore: MemRef, value: Any, line: Source | None) -> None:
        """Wait until a semaphore holds a number, which it then loses."""
        self.source = line
        root, where = self.place(semaphore)
        self.await_count((root, where), int(value))
        root[where] -= int(value)

    def semaphores(self) -> dict[str, np.ndarray]:
        return {name: self.memory[position].array for position, name in self.counts.items()}


def run_together(kernel: Kernel, work: Work, locate: Locate, count: int) -> list[list[Any]]:
    """The results of every device. Raises what `lang.interpret.multi_device.interpret_all_devices` raises."""
    return Cores(kernel, work, locate, count).run()
