"""What orders the accesses of several devices to memory: signals, and copies that were waited for.

Every device counts its own steps; its *clock* says for each device up to which step it knows what was done there. A
signal, and a copy, carry the clock of the device that sent them. For every element of a device's memory the last steps
are kept at which the device itself read and wrote it, and for every copy under way what it still reads and writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.support.errors import Source


@dataclass(eq=False)
class Flight:
    """A copy between devices that was started: from which memory to which, and how far it is."""

    sender: int
    receiver: int
    source: tuple[int, np.ndarray]  # the Ref's position, and which of its elements
    target: tuple[int, np.ndarray]
    clock: np.ndarray
    line: Source | None
    move: Any  # reads the source, and gives what then writes the target
    nbytes: int
    write: Any = None  # once the source has been read
    sent_at: int = 0  # the step of the sender at which it had waited for the source to be read
    within: bool = False  # the device itself: nobody waits for the source to be read
    received_at: int = 0  # the step of the receiver at which it had waited for the target to be written

    def read(self) -> None:
        if self.write is None:
            self.write = self.move()


@dataclass(eq=False)
class Memory:
    """One Ref of one device: its array, and the last steps at which the device read and wrote each element."""

    name: str
    array: np.ndarray
    seen: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seen = {kind: np.zeros(self.array.size, np.int64) for kind in ("reads", "writes")}
        self.elements: np.ndarray = np.arange(self.array.size).reshape(self.array.shape)

    def place(self, element: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(element, self.array.shape))
