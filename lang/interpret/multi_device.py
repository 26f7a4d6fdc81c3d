"""The interpreter of communicating kernels: all devices of a mesh at once.

Each device is a thread; one runs at a time, until it has to wait. A copy moves its bytes when its
receiver has waited for them (or at once, in the mode "eager"). What nothing orders is an error by name, however the
threads were scheduled: a read or write of what a copy may still write, a write of what it may still read, a
copy to memory whose last use there the sender cannot know of. So is a wait that no one ends, and what is left over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Operand
from ...core.ir.program import Eqn
from ...core.support.errors import KernelBodyError, SemaphoreError
from ...core.tracing.numpy_interpreter import observing
from ..kernel.kernel import Kernel
from ..ops.dma import address_of
from ..ops.interpret_params import DEFAULT, InterpretParams, address
from ..ops.mesh_axes import device_count, mesh_of, place_of
from .interpreter import Machine
from .race_detector import accesses
from .scheduler import Group, Member
from .vector_clocks import Flight, Memory

if TYPE_CHECKING:
    from ...core.support.errors import Source
    from ..ops.mesh_axes import Axes


Place = tuple[np.ndarray, Any]  # a Ref, and which part of it


class World(Group):
    """The devices, and the one that runs now."""

    what: str = "device"
    remedy: str = "signal, or start the copy, on every way to a wait, and before the wait"

    kernel: Kernel
    params: InterpretParams
    mesh: Axes
    devices: list[Device]
    members: list[Device]

    def __init__(self, kernel: Kernel, params: InterpretParams, arrays: Sequence[Sequence[Any]]):
        super().__init__(kernel.name, params)
        self.kernel, self.params, self.mesh = kernel, params, mesh_of(kernel.body)
        self.members = self.devices = [Device(self, n, given) for n, given in enumerate(arrays)]

    def name(self, number: int) -> str:
        places = ", ".join(f"{a}={i}" for (a, _), i in zip(self.mesh, place_of(number, self.mesh), strict=True))
        return f"device {number} ({places})"

    def run(self) -> list[list[np.ndarray]]:
        self.run_all()
        return [d.results for d in self.devices]

    def check_ends(self) -> None:
        """Nothing is under way, and every semaphore is back at zero."""
        for device in self.devices:
            device.check_end()


class Device(Member):
    """One device's run."""

    together = True

    world: World
    arrays: Sequence[Any]
    machine: Machine
    device: int

    def __init__(self, world: World, number: int, arrays: Sequence[Any]):
        super().__init__(world, world.kernel.name, world.params)
        self.world, self.device, self.arrays = world, number, arrays
        self.entered = False
        self.results: list[np.ndarray] = []
        self.clock = np.zeros(device_count(world.mesh), np.int64)
        self.clock[number] = 1
        self.memory: dict[int, Memory] = {}  # by position among the inputs of the body
        self.arriving: list[Flight] = []  # to this device, not received
        self.leaving: list[Flight] = []  # from this device, not known to be sent
        self.past: list[Flight] = []  # from this device, sent: another sender may not know it yet
        self.arrived: dict[int, list[Flight]] = {}  # by semaphore
        self.sending: dict[int, list[Flight]] = {}
        self.signals: dict[int, np.ndarray] = {}  # by semaphore: the clocks of those who signalled

    @property
    def title(self) -> str:
        return self.world.name(self.device)

    def work(self) -> None:
        self.machine = machine = Machine(self.world.kernel, self.arrays, self, None)
        with observing(lambda eqn, values: self.observe(machine, eqn, values)):
            self.results = machine.run()

    # ------------------------------------------------------------ memory

    def enter(self, refs: Sequence[np.ndarray]) -> None:
        kernel = self.world.kernel
        first = kernel.splits[1]
        for position, array in enumerate(refs, first):
            known = self.memory.get(position)
            if known is None or address(known.array) != address(array):
                self.memory[position] = Memory(self.label(position), array)
                if self.params.detect_races and not self.entered:  # nobody knows that it is here
                    self.memory[position].seen["writes"][:] = 1
        if not self.entered:
            self.entered: bool = True
            self.pause(lambda: all(d.entered for d in self.world.devices), lambda: "enters the kernel")

    def label(self, position: int) -> str:
        kernel = self.world.kernel
        _, first, _, scratch, _ = kernel.splits
        return kernel.scratch_name(position) if position >= scratch else kernel.blocks[position - first].name

    def position(self, ref: np.ndarray, what: str) -> int:
        found = self.find(ref)
        if found is None:
            raise KernelBodyError(f"kernel {self.kernel}: {what} is no Ref of the kernel's", "use operands, outputs or "
                                  "scratch", self.source)  # fmt: skip
        return found

    def find(self, ref: np.ndarray) -> int | None:
        held = ((p, memory.array) for p, memory in self.memory.items())
        return next((p for p, a in held if address(a) == address(ref) and a.size == ref.size), None)

    def observe(self, machine: Machine, eqn: Eqn, values: list[Any]) -> None:
        """Note what an equation does to the device's memory."""
        machine.observe(eqn, values)
        for ref, kind, pick in accesses(eqn, values, "access"):
            position = self.find(ref) if isinstance(ref, np.ndarray) and ref.size else None
            if position is not None:
                memory = self.memory[position]
                self.touch(memory, pick(memory.elements), "reads" if kind == "reads" else "writes")

    def meeting(self, flights: Iterable[Flight], end: str, memory: Memory, elements: np.ndarray
                ) -> Iterator[tuple[Flight, int]]:  # fmt: skip
        """The copies whose `source` or `target` is among some elements of a Ref, each with the first such element."""
        for flight in flights:
            position, places = getattr(flight, end)
            common = np.intersect1d(places, elements) if self.memory[position] is memory else elements[:0]
            if common.size:
                yield flight, int(common[0])

    def touch(self, memory: Memory, elements: np.ndarray, kind: str) -> None:
        for flight, common in self.meeting(self.arriving, "target", memory, elements):
            raise self.race(
                f"{kind} element {memory.place(common)} of {memory.name}, to which a copy from "
                f"{self.world.name(flight.sender)}, started at {flight.line}, may still be under way",
                "wait for the copy (`wait_recv`) first")  # fmt: skip
        for flight, common in self.meeting(self.leaving if kind == "writes" else (), "source", memory, elements):
            raise self.race(
                f"writes element {memory.place(common)} of {memory.name}, which a copy to "
                f"{self.world.name(flight.receiver)}, started at {flight.line}, may still be sending",
                "wait until it is sent (`wait_send`) first")  # fmt: skip
        memory.seen[kind][elements] = self.clock[self.device]

    # ------------------------------------------------------------ what the body asks for

    def peer(self, number: int, what: str) -> Device:
        if not 0 <= number < len(self.world.devices):
            raise self.error(f"{what} to device {number}, of {len(self.world.devices)}", "name a device of the mesh")
        device = self.world.devices[number]
        if device.done:
            raise self.error(f"{what} to {self.world.name(number)}, which has left the kernel",
                             "let every device wait for what is sent to it")  # fmt: skip
        return device

    def send(self, source: Place, target: Place, sent: Place, received: Place, device: int) -> None:
        """Start a copy between devices: a Ref and a place of each, and of both semaphores."""
        what = "a copy"
        peer, line = self.peer(device, what), self.source
        a, b = self.position(source[0], what), self.position(target[0], what)
        here, there = self.memory[a], peer.memory[b]
        reading = np.asarray(here.elements[source[1]]).ravel()
        writing = np.asarray(there.elements[target[1]]).ravel()
        self.touch(here, reading, "reads")
        peer.check_free(self, there, writing)

        def move() -> Callable[[], None]:
            held = np.array(here.array[source[1]])
            return lambda: there.array.__setitem__(target[1], held)

        flight = Flight(self.device, device, (a, reading), (b, writing), self.clock.copy(), line, move,
                        reading.size * here.array.dtype.itemsize)  # fmt: skip
        mark = peer.memory[self.position(received[0], what)].array
        self.leaving.append(flight)
        self.sending.setdefault(address_of(*sent), []).append(flight)
        peer.arriving.append(flight)
        peer.arrived.setdefault(address_of(mark, received[1]), []).append(flight)
        if self.params.dma_execution_mode == "eager":
            flight.read()
            flight.write()
        self.clock[self.device] += 1
        self.mixed()

    def check_free(self, sender: Device, memory: Memory, elements: np.ndarray) -> None:
        """A copy may write here if the sender knows of all that was done with the memory."""
        known = sender.clock[self.device]
        target = f"copies to element {{}} of {memory.name} of {self.world.name(self.device)}, "
        for flight, common in self.meeting(self.arriving, "target", memory, elements):
            raise sender.race(target.format(memory.place(common)) + "to which a copy from "
                              f"{self.world.name(flight.sender)}, started at {flight.line}, may still be under way",
                              "let the receiver signal that it has received the one before")  # fmt: skip
        unknown = [f for f in (*self.leaving, *self.past) if not 0 < f.sent_at <= known]
        for flight, common in self.meeting(unknown, "source", memory, elements):
            raise sender.race(target.format(memory.place(common)) + "which may still be sent from there, by the "
                              f"copy started at {flight.line}",
                              "let that device signal, after `wait_send`, that it may be written")  # fmt: skip
        for kind, seen in memory.seen.items():
            late = elements[seen[elements] > known]
            if late.size:
                entered = seen[late[0]] == 1 and self.params.detect_races
                done = "may not have entered the kernel yet" if entered else f"{kind} it, and nothing orders the two"
                raise sender.race(target.format(memory.place(int(late[0]))) + f"which {done}", "let that device signal "
                                  "that it is ready: by the barrier semaphore, or one of its own")  # fmt: skip

    def settle(self, semaphore: Place, nbytes: int, sent: bool) -> None:
        """Wait for bytes: of copies that were started here and are read (`sent`), or that arrive."""
        address = address_of(*semaphore)
        queue = (self.sending if sent else self.arrived).setdefault(address, [])
        name = self.label(self.position(semaphore[0], "a semaphore"))

        def wanted() -> str:
            there = sum(f.nbytes for f in queue) + self.credit.get(address, 0)
            return f"waits for {nbytes} bytes on semaphore {name}, for which copies of {there} were started"

        def enough() -> bool:
            return sum(f.nbytes for f in queue) + self.credit.get(address, 0) >= nbytes

        if not enough():
            self.pause(enough, wanted)
        done = self.credit.get(address, 0)
        while done < nbytes:
            flight = queue.pop(0)
            done += flight.nbytes
            self.finished(flight, sent)
        self.credit[address] = done - nbytes
        self.mixed()

    def finished(self, flight: Flight, sent: bool) -> None:
        flight.read()
        step = int(self.clock[self.device])
        if sent:
            flight.sent_at = step
            self.leaving.remove(flight)
            self.past.append(flight)
        else:
            if self.params.dma_execution_mode != "eager":
                flight.write()
            flight.received_at = step
            self.arriving.remove(flight)
            self.memory[flight.target[0]].seen["writes"][flight.target[1]] = step
            self.clock = np.maximum(self.clock, flight.clock)

    def signal(self, semaphore: Place, value: int, device: int) -> None:
        """Add to a semaphore of another device."""
        peer = self.peer(device, "a signal")
        held = peer.memory[self.position(semaphore[0], "a semaphore")].array
        held[semaphore[1]] += value
        peer.heard(address_of(held, semaphore[1]), self.clock)
        self.clock[self.device] += 1
        self.mixed()

    def heard(self, address: int, clock: np.ndarray) -> None:
        self.signals[address] = np.maximum(self.signals.get(address, clock), clock)

    def await_count(self, semaphore: Place, value: int) -> None:
        sem, place = semaphore
        name = self.label(self.position(sem, "a semaphore"))

        def wanted() -> str:
            return f"waits until semaphore {name} holds {value}; it holds {int(sem[place])}"

        if sem[place] < value:
            self.pause(lambda: bool(sem[place] >= value), wanted)
        found = self.signals.get(address_of(sem, place))
        if found is not None:
            self.clock: np.ndarray = np.maximum(self.clock, found)

    def finish(self, semaphores: Mapping[str, Any]) -> None:
        """Nothing: other devices may still signal. See `check_end`."""

    def semaphores(self) -> dict[str, np.ndarray]:
        """What each semaphore holds, by name."""
        return self.machine.semaphores()

    def check_end(self) -> None:
        for flight, name in [*((f, "wait_send") for f in self.leaving), *((f, "wait_recv") for f in self.arriving)]:
            self.source: Source | None = flight.line
            what = f"a copy to {self.world.name(flight.receiver)}" if name == "wait_send" else (
                f"a copy from {self.world.name(flight.sender)}")  # fmt: skip
            raise SemaphoreError(
                f"kernel {self.kernel}, {self.world.name(self.device)}: ends while {what} is under way that nothing "
                f"waited for", f"call `.{name}()` on what `make_async_remote_copy` gave", self.source)  # fmt: skip
        try:
            super().finish(self.semaphores())
        except SemaphoreError as error:
            raise SemaphoreError(f"{self.world.name(self.device)}: {error.what}", error.remedy, error.source) from None


def interpret_all_devices(
    kernel: Kernel, arrays: Sequence[Sequence[Any]], params: InterpretParams | None = None
) -> list[list[np.ndarray]]:
    """Run a kernel on all devices of its mesh; gives the outputs of each.

    `arrays` are the operands of each device, in row-major order of the mesh.

    Raises:
      RaceError: accesses of two devices, or of a copy and a device, that nothing orders.
      DeadlockError: devices that wait for what no one does.
      SemaphoreError: a copy that nothing waited for, a semaphore that is not left at zero.
    """
    if params is None:
        params = kernel.interpret if isinstance(kernel.interpret, InterpretParams) else DEFAULT
    return World(kernel, params, arrays).run()


class Meeting:
    """A kernel interpreted by a program that runs on every device, each with the operands of all.

    The first device to arrive runs all of them; the others, which arrive with the same operands, take their results.
    """

    kernel: Kernel
    lock: threading.Lock
    taken: int

    def __init__(self, kernel: Kernel):
        self.kernel, self.lock = kernel, threading.Lock()
        self.given: list[np.ndarray] = []
        self.found: Any = None  # results of every device, or an error
        self.taken = 0

    def __call__(self, number: Operand, *gathered: Any) -> list[np.ndarray]:
        given = [np.asarray(x) for x in gathered]
        with self.lock:
            known = self.found is not None and all(a.tobytes() == b.tobytes() for a, b in zip(given, self.given))
            if not known:
                self.given, self.taken = given, 0
                count = device_count(mesh_of(self.kernel.body))
                try:
                    self.found = interpret_all_devices(self.kernel, [[x[d] for x in given] for d in range(count)])
                except Exception as error:
                    self.found = error
            found: Any = self.found
            self.taken += 1
            if self.taken == device_count(mesh_of(self.kernel.body)):
                self.given, self.found, self.taken = [], None, 0
        if isinstance(found, Exception):
            raise found
        return found[int(number)]
