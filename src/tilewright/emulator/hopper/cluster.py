"""A cluster of blocks, and what the warpgroups of a block share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.support.errors import EmulationError, RaceError
from .barriers import Barrier, Meeting
from .shared import AGENTS, Shared
from .tensor_memory import TensorMemory

BASE = 1024  # where shared memory starts
FAR = 24  # bits of an address within a block: above them the number of a block of the cluster plus one
ENDED = "a block that has ended is reached by another: barrier.cluster before the end is missing"


class Cluster:
    """Blocks that reach each other's shared memory, and what is under way in them."""

    threads: int
    rng: np.random.Generator
    eager: bool
    progress: int

    def __init__(self, count: int, threads: int, size: int, rng: np.random.Generator, eager: bool):
        self.threads, self.rng, self.eager = threads, rng, eager  # threads of a block
        self.pending: list[tuple[Barrier, Callable[[], None], str]] = []
        self.progress = 0
        self.meetings: dict[Any, Meeting] = {}
        self.blocks: list[Block] = [Block(self, rank, count, size) for rank in range(count)]

    def land(self, barrier: Barrier | None = None) -> bool:
        """Let a copy land; of one barrier, or any."""
        mine = [c for c in self.pending if barrier is None or c[0] is barrier]
        if mine:
            one = mine[self.rng.integers(len(mine))]
            self.pending.remove(one)
            one[1]()
            self.progress += 1
        return bool(mine)


class Block:
    """What the warpgroups of a block share."""

    cluster: Cluster
    rank: int
    base: int
    agents: int
    walks: int

    def __init__(self, cluster: Cluster, rank: int, count: int, size: int):
        self.cluster, self.rank, self.base, self.agents = cluster, rank, AGENTS * rank, AGENTS * count
        self.shared: Shared = Shared(BASE + size, agents=self.agents)
        self.barriers: dict[int, Barrier] = {}
        self.meetings: dict[Any, Meeting] = {}  # of bar.sync
        self.fields: dict[int, dict[Any, int]] = {}
        self.descriptors: dict[int, Any] = {}
        self.published: dict[int, Any] = {}
        self.tensor: TensorMemory = TensorMemory(self.agents)
        self.registers: dict[int, int] = {}  # of a thread, by warpgroup, where they were set
        self.walks = 0  # of its warps, that have not ended
        self.known = np.zeros(self.agents, np.int64)  # by those that have
        self.visits: dict[int, int] = {}  # by warps of other blocks: the last one's time

    def barrier(self, at: int) -> Barrier:
        if at not in self.barriers:
            raise EmulationError(f"no mbarrier was made at {at}")
        return self.barriers[at]

    def reached(self, at: int, clock: Any, agent: int) -> tuple[Block, int]:
        """The block of an address and the place in its shared memory, for a warp with some clock."""
        if not at >> FAR:
            return self, at
        other, place = self.cluster.blocks[(at >> FAR) - 1], at & (1 << FAR) - 1
        return self.other(other, place, clock, agent), place

    def other(self, other: Block, barrier: int, clock: Any, agent: int) -> Block:
        """A block of the cluster, whose barrier is made and whose memory is still there."""
        if other is not self:
            other.visits[agent] = int(clock[agent])
            if not other.walks:
                raise EmulationError(ENDED)
            maker, time = other.barrier(barrier).made
            if time > clock[maker]:
                raise RaceError(
                    "race: an mbarrier of another block is used before barrier.cluster orders its initialisation"
                )
        return other

    def end(self, clocks: Any) -> None:
        """A warp ends; after the last one no other block may reach this one."""
        self.known: np.ndarray = np.maximum(self.known, clocks.max(0))
        self.walks -= 1
        if not self.walks and any(time > self.known[agent] for agent, time in self.visits.items()):
            raise EmulationError(ENDED)
