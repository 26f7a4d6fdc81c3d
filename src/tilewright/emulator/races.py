"""Races in the memory of a GPU: programs run side by side, and so do the threads of each between two barriers.

Two accesses to one element race if one of them writes, not both are atomic, and they are of different programs, or of
different lanes of tensors in one program with no barrier between them. What is atomic within a program alone is not so
for another. A scalar is read by every thread. What the copy engine does for a program no barrier orders.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.support.errors import RaceError

ATOMIC = {"update", "update within a program"}
MANY = -1  # programs, or lanes
SIZE = 1 << 32  # a lane's name is its position plus this many times the size of its tensor


def _a(kind: str) -> str:
    return f"an atomic {kind}" if kind in ATOMIC else f"a {kind}"


class _Accesses:
    """For each element, who accessed it last: the program, the lane, and after which barrier."""

    def __init__(self, size: int):
        self.program = np.zeros(size, np.int64)
        self.lane = np.zeros(size, np.int64)
        self.epoch = np.zeros(size, np.int64)

    def others(self, where: Any, program: int) -> Any:
        """Which elements another program accessed."""
        return (self.program[where] != 0) & (self.program[where] != program)

    def neighbours(self, where: Any, lanes: Any, epoch: int) -> Any:
        """Which elements another lane accessed, with no barrier since."""
        return (self.epoch[where] == epoch) & ((self.lane[where] != lanes) | (lanes == MANY))

    def note(self, where: Any, program: int, lanes: Any, epoch: int) -> None:
        lanes = np.where(self.neighbours(where, lanes, epoch), MANY, lanes)
        self.program[where] = np.where(self.others(where, program), MANY, program)
        self.lane[where], self.epoch[where] = lanes, epoch
        self.lane[where] = np.where(self.lane[where] != lanes, MANY, lanes)  # several lanes at one element


class Races:
    """What has happened to the elements of one buffer."""

    number: int
    itemsize: int

    def __init__(self, number: int, array: np.ndarray):
        self.number, self.itemsize = number, array.itemsize
        self.size: int = array.size
        self.done: dict[str, _Accesses] = {}
        self.last: dict[tuple[str, bool], np.ndarray] = {}

    def access(self, kind: str, first_byte: Any, lanes: Any, program: int, epoch: int, engine: bool = False) -> None:
        """Note an access, and refuse it if it races with an earlier one."""
        where = first_byte // self.itemsize
        if kind not in self.done:
            self.done[kind] = _Accesses(self.size)
            self.last |= {(kind, by): np.zeros(self.size, np.int64) for by in (False, True)}
        self._ordered(kind, where, program, engine)
        for other, accesses in self.done.items():
            if kind == other and kind in ("load", "update"):
                continue
            wrong = accesses.others(where, program)
            if wrong.any():
                raise RaceError(f"race: {_a(kind)} of element {where[wrong][0]} of operand {self.number} by program "
                                f"{program - 1}, after {_a(other)} of it by another program")  # fmt: skip
            if {kind, other} <= ATOMIC:
                continue
            wrong = accesses.neighbours(where, lanes, epoch)
            if wrong.any():
                raise RaceError(f"race: {_a(kind)} of element {where[wrong][0]} of operand {self.number} after "
                                f"{_a(other)} of it by another thread of the program, with no barrier "
                                "between")  # fmt: skip
        self.done[kind].note(where, program, lanes, epoch)

    def _ordered(self, kind: str, where: Any, program: int, engine: bool) -> None:
        """Refuse an access that the copy engine and a program's threads, or the engine twice, may make in any order."""
        for (other, by_engine), programs in self.last.items():
            if not (engine or by_engine) or kind == other == "load":
                continue
            wrong = programs[where] == program
            if wrong.any():
                one, two = ("the copy engine" if e else "threads" for e in (engine, by_engine))
                raise RaceError(f"race: {_a(kind)} of element {where[wrong][0]} of operand {self.number} by {one}, "
                                f"after {_a(other)} of it by {two}, which nothing orders")  # fmt: skip
        self.last[kind, engine][where] = program


def lanes_of(size: int, scalar: bool, kind: str) -> np.ndarray:
    """Names of the lanes of a tensor; tensors of one size are held alike."""
    if scalar and kind == "load":
        return np.full(1, MANY, np.int64)
    return size * SIZE + np.arange(size, dtype=np.int64)
