"""Barriers: those that count arrivals and bytes (mbarrier), and those where warps meet (bar.sync, barrier.cluster)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.support.errors import EmulationError

MOST = (1 << 20) - 1  # of arrivals and of bytes that one phase counts


class Barrier:
    """An mbarrier."""

    count: int
    agent: int
    address: int
    products: bool
    made: tuple[int, int]
    fenced: bool
    bytes: int
    left: int
    phases: int

    def __init__(self, count: int, agent: int, address: int, made: tuple[int, int], agents: int):
        if address % 8 or not 1 <= count <= MOST:
            raise EmulationError(f"an mbarrier of {count} arrivals at {address}: 1 to {MOST}, at a multiple of 8")
        self.count, self.left, self.bytes, self.phases, self.agent = count, count, 0, 0, agent
        self.address, self.products = address, False  # whether it has told of products in tensor memory
        self.made, self.fenced = made, False  # by whom and when; whether others than threads may see that it is made
        self.clock = np.zeros(agents, np.int64)  # of those that have arrived
        self.ended = np.zeros(agents, np.int64)  # of those that arrived in phases that have ended

    def arrive(self, clock: Any, expected: int = 0) -> None:
        self.clock: np.ndarray = np.maximum(self.clock, clock)
        self.bytes += expected
        self.left -= 1
        if self.bytes > MOST:
            raise EmulationError(f"mbarrier {self.address}: {self.bytes} bytes are expected in a phase, of {MOST}")
        if self.left < 0:
            raise EmulationError(f"mbarrier {self.address}: more arrivals than its count {self.count}")
        self.step()

    def awaited(self, parity: int, known: int) -> None:
        """A warp that knows of the end of some phases waits for the next one, or again for the last one."""
        phase = known if known & 1 == parity else known - 1
        if parity not in (0, 1) or self.phases > phase + 1:
            raise EmulationError(
                f"mbarrier {self.address}: a wait for parity {parity} means phase {phase}, and {self.phases} phases "
                "have ended: a parity tells the phase under way from the one before it alone"
            )

    def seen(self, by: str) -> None:
        """It is used by others than the threads of its block."""
        if not self.fenced:
            raise EmulationError(f"mbarrier {self.address} is used by {by}, and was made without fence.mbarrier_init")

    def landed(self, size: int) -> None:
        self.bytes -= size
        self.step()

    def step(self) -> None:
        if self.left == 0 and self.bytes < 0:
            raise EmulationError(f"mbarrier {self.address}: {-self.bytes} bytes more are copied than expected")
        if self.left == 0 and self.bytes == 0:
            self.left, self.phases = self.count, self.phases + 1
            self.clock[self.agent] = self.phases
            self.ended: np.ndarray = self.clock.copy()


class Meeting:
    """A barrier where warps come, and wait or go on."""

    times: int
    ended: Any

    def __init__(self, clock: Any):
        self.came: dict[int, int] = {}  # lanes of each warp
        self.times, self.clock, self.ended = 0, clock, clock  # joined clocks, of those that come and came

    def end(self) -> None:
        self.came, self.times, self.ended = {}, self.times + 1, self.clock
        self.clock: Any = np.zeros_like(self.clock)
