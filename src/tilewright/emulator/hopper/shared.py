"""The shared memory of a block of threads on Hopper, and who may touch it when.

Whether two accesses are ordered is told by vector clocks: each warp has one, and so have the copies that a barrier
counts, and the products of each warpgroup. An access to 4 bytes is ordered after an earlier one if the clock of the
warp that makes it has the other's entry; barriers join clocks. So what is missing is found whatever the schedule was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.support.errors import EmulationError, RaceError

GRAIN = 4
AGENTS = 96  # of a block: 16 warps, 4 warpgroups' products, 4 warpgroups' stores, the rest: barriers
PRODUCTS, STORES, COPIES = 16, 20, 24


class Shared:
    """Shared memory: its bytes, the last write of each 4 of them and the reads since."""

    writer: np.ndarray
    written: np.ndarray

    def __init__(self, size: int, name: str = "shared memory", agents: int = AGENTS):
        self.name = name
        self.bytes: np.ndarray = np.full(size, 0xFF, np.uint8)  # NaN in every float type
        n = size // GRAIN + 1
        self.writer, self.written = np.zeros(n, np.int64), np.zeros(n, np.int64)
        # Of each block's agents only warps, products and stores read or update: those before the copies.
        self.readers: np.ndarray = np.flatnonzero(np.arange(agents) % AGENTS < COPIES)
        self.reads: np.ndarray = np.zeros((n, self.readers.size), np.int32)
        self.generic: np.ndarray = np.zeros(n, np.int64)  # the warp + 1 that wrote, and has not fenced since
        self.plain: np.ndarray = np.zeros(n, bool)  # what the copy engine has copied there without a swizzle
        self.updates: Any = None  # the last atomic update of each agent since a write, once there is one

    def grains(self, at: Any, size: int) -> Any:
        low, high = int(at.min()), int(at.max())
        if low < 0 or high + size > self.bytes.size:
            raise EmulationError(f"shared memory of {self.bytes.size} bytes is accessed at {high}")
        first = low // GRAIN
        touched = np.zeros((high + size - 1) // GRAIN - first + 1, bool)
        for step in range(0, size, GRAIN):
            touched[(at + step) // GRAIN - first] = True
        return np.flatnonzero(touched) + first

    def reading(self, grains: Any, clock: Any, agent: int, time: int, engine: bool, what: str) -> None:
        wrong = (self.written[grains] > clock[self.writer[grains]]) | self._updated(grains, clock)
        if wrong.any():
            raise RaceError(f"race: {what} reads {self.name} at {GRAIN * int(grains[wrong][0])} before it waits for "
                            "what writes it")  # fmt: skip
        if engine and self.generic[grains].any():
            raise EmulationError(f"{what} reads what threads wrote, without fence.proxy.async")
        column = _column(agent)
        self.reads[grains, column] = np.maximum(self.reads[grains, column], time)

    def writing(self, grains: Any, clock: Any, agent: int, time: int, engine: bool, what: str,
                more: bool = False) -> None:  # fmt: skip
        """`more`: it is added in the order of the agent to what it wrote itself."""
        late = self.written[grains] > clock[self.writer[grains]]
        wrong = late & ~(more & (self.writer[grains] == agent)) | self._unknown(self.reads, grains, clock)
        wrong |= self._updated(grains, clock)
        if wrong.any():
            raise RaceError(f"race: {what} writes {self.name} at {GRAIN * int(grains[wrong][0])}, which others may "
                            "still use")  # fmt: skip
        if engine and self.generic[grains].any():
            raise EmulationError(f"{what} writes over what threads wrote, without fence.proxy.async")
        self.writer[grains], self.written[grains] = agent, time
        self.reads[grains] = 0
        if self.updates is not None:
            self.updates[grains] = 0
        self.generic[grains] = 0 if engine else agent + 1
        self.plain[grains] = False

    def multiplied(self, grains: Any) -> None:
        """They are read as swizzled rows."""
        if self.plain[grains].any():
            raise EmulationError("a product reads rows as swizzled that were copied without a swizzle")

    def _updated(self, grains: Any, clock: Any) -> Any:
        """Whether there were atomic updates that a clock does not know of."""
        return np.zeros(len(grains), bool) if self.updates is None else self._unknown(self.updates, grains, clock)

    def _unknown(self, times: Any, grains: Any, clock: Any) -> Any:
        """Whether something has happened at a time that a clock does not know of."""
        return (times[grains] > clock[self.readers]).any(-1)

    def updating(self, grains: Any, clock: Any, agent: int, time: int) -> None:
        """An atomic update, in any order with others."""
        if self.updates is None:
            self.updates = np.zeros_like(self.reads)
        wrong = (self.written[grains] > clock[self.writer[grains]]) | self._unknown(self.reads, grains, clock)
        if wrong.any():
            at = GRAIN * int(grains[wrong][0])
            raise RaceError(f"race: an atomic update of {self.name} at {at}, which others may still use")
        self.updates[grains, _column(agent)], self.generic[grains] = time, agent + 1

    def fence(self, warp: int) -> None:
        self.generic[self.generic == warp + 1] = 0

    # ------------------------------------------------------------ values

    def get(self, at: Any, dtype: Any) -> Any:
        size = np.dtype(dtype).itemsize
        return np.ascontiguousarray(self.bytes[at[..., None] + np.arange(size)]).view(dtype)[..., 0]

    def put(self, at: Any, values: Any) -> None:
        values = np.ascontiguousarray(values)
        self.bytes[at[..., None] + np.arange(values.itemsize)] = values[..., None].view(np.uint8)


def _column(agent: int) -> int:
    """Where the times of an agent that reads are kept."""
    return agent // AGENTS * COPIES + agent % AGENTS
