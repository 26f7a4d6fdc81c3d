"""The shared memory of a block of threads on Hopper, and who may touch it when.

Whether two accesses are ordered is told by vector clocks: each warp has one, and so have the copies that a barrier
counts, and the products of each warpgroup. An access to 4 bytes is ordered after an earlier one if the clock of the
warp that makes it has the other's entry; barriers join clocks. So what is missing is found whatever the schedule was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import EmulationError, RaceError

GRAIN = 4
AGENTS = 96  # of a block: 16 warps, 4 warpgroups' products, 4 warpgroups' stores, the rest: barriers
PRODUCTS, STORES, COPIES = 16, 20, 24


class Barrier:
    """An mbarrier."""

    def __init__(self, count: int, agent: int, address: int, made: tuple[int, int], agents: int):
        self.count, self.left, self.bytes, self.phases, self.agent = count, count, 0, 0, agent
        self.address, self.products = address, False  # whether it has told of products in tensor memory
        self.made = made  # by whom and when
        self.clock = np.zeros(agents, np.int64)  # of those that have arrived
        self.ended = np.zeros(agents, np.int64)  # of those that arrived in phases that have ended

    def arrive(self, clock: Any, expected: int = 0) -> None:
        self.clock = np.maximum(self.clock, clock)
        self.bytes += expected
        self.left -= 1
        if self.left < 0:
            raise EmulationError(f"mbarrier {self.address}: more arrivals than its count {self.count}")
        self.step()

    def landed(self, size: int) -> None:
        self.bytes -= size
        self.step()

    def step(self) -> None:
        if self.left == 0 and self.bytes < 0:
            raise EmulationError(f"mbarrier {self.address}: {-self.bytes} bytes more are copied than expect_tx tells")
        if self.left == 0 and self.bytes == 0:
            self.left, self.phases = self.count, self.phases + 1
            self.clock[self.agent] = self.phases
            self.ended = self.clock.copy()


class Shared:
    """Shared memory: its bytes, the last write of each 4 of them and the reads since."""

    def __init__(self, size: int, name: str = "shared memory", agents: int = AGENTS):
        self.name = name
        self.bytes = np.full(size, 0xFF, np.uint8)  # NaN in every float type
        n = size // GRAIN + 1
        self.writer, self.written = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.reads = np.zeros((n, agents), np.int32)
        self.generic = np.zeros(n, np.int64)  # the warp + 1 that wrote, and has not fenced since
        self.updates: Any = None  # the last atomic update of each agent since a write, once there is one

    def grains(self, at: Any, size: int) -> Any:
        if np.any(at < 0) or np.any(at + size > self.bytes.size):
            raise EmulationError(f"shared memory of {self.bytes.size} bytes is accessed at {int(np.max(at))}")
        found = at[..., None] + np.arange(0, size, GRAIN)
        return np.unique(found // GRAIN)

    def reading(self, grains: Any, clock: Any, agent: int, time: int, engine: bool, what: str) -> None:
        wrong = (self.written[grains] > clock[self.writer[grains]]) | self._updated(grains, clock)
        if wrong.any():
            raise RaceError(f"race: {what} reads {self.name} at {GRAIN * int(grains[wrong][0])} before it waits for "
                            "what writes it")  # fmt: skip
        if engine and self.generic[grains].any():
            raise EmulationError(f"{what} reads what threads wrote, without fence.proxy.async")
        self.reads[grains, agent] = np.maximum(self.reads[grains, agent], time)

    def writing(self, grains: Any, clock: Any, agent: int, time: int, engine: bool, what: str,
                more: bool = False) -> None:  # fmt: skip
        """`more`: it is added in the order of the agent to what it wrote itself."""
        late = self.written[grains] > clock[self.writer[grains]]
        wrong = late & ~(more & (self.writer[grains] == agent)) | (self.reads[grains] > clock).any(-1)
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

    def _updated(self, grains: Any, clock: Any) -> Any:
        """Whether there were atomic updates that a clock does not know of."""
        return np.zeros(len(grains), bool) if self.updates is None else (self.updates[grains] > clock).any(-1)

    def updating(self, grains: Any, clock: Any, agent: int, time: int) -> None:
        """An atomic update, in any order with others."""
        if self.updates is None:
            self.updates = np.zeros_like(self.reads)
        wrong = (self.written[grains] > clock[self.writer[grains]]) | (self.reads[grains] > clock).any(-1)
        if wrong.any():
            at = GRAIN * int(grains[wrong][0])
            raise RaceError(f"race: an atomic update of {self.name} at {at}, which others may still use")
        self.updates[grains, agent], self.generic[grains] = time, agent + 1

    def fence(self, warp: int) -> None:
        self.generic[self.generic == warp + 1] = 0

    # ------------------------------------------------------------ values

    def get(self, at: Any, dtype: Any) -> Any:
        size = np.dtype(dtype).itemsize
        return np.ascontiguousarray(self.bytes[at[..., None] + np.arange(size)]).view(dtype)[..., 0]

    def put(self, at: Any, values: Any) -> None:
        values = np.ascontiguousarray(values)
        self.bytes[at[..., None] + np.arange(values.itemsize)] = values[..., None].view(np.uint8)


def swizzled(at: Any) -> Any:
    """Places under the 128-byte swizzle."""
    return at ^ (at >> 7 & 7) << 4


def matrix_places(descriptor: int, rows: int, depth: int, turned: bool, size: int = 2) -> Any:
    """Where a descriptor has elements of `size` bytes of (rows, depth); `turned`: the sum goes down memory."""
    start, leading, stride = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    if descriptor >> 62 & 3 != 1:
        raise EmulationError("a matrix that is not swizzled by 128 bytes")
    r, c = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    if turned:  # 128 bytes of elements and 8 of the sum make 1024 bytes
        row = 128 // size
        at = start + r // row * leading + c // 8 * stride + c % 8 * 128 + r % row * size
    else:  # 8 rows of 128 bytes do
        at = start + r // 8 * stride + r % 8 * 128 + c * size
    return swizzled(at)
