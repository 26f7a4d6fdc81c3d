"""A warpgroup: its registers and clocks, which of its lanes are at hand, and what it has under way."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from ...core.support.errors import EmulationError, SemaphoreError
from .cluster import Block
from .global_memory import GlobalMemory
from .shared import PRODUCTS, STORES
from .values import LANES, WARP, Loaded, plain

Walk = Generator[str, None, Any]  # gives what is waited for, whenever nothing more can be done


class Group:
    """One warpgroup."""

    memory: GlobalMemory
    b: Block
    number: int
    frame: dict[Any, Any]
    committed: int
    fenced: bool
    after: bool
    stores: int
    stored: int
    started: int

    def __init__(self, memory: GlobalMemory, block: Block, number: int, frame: dict[Any, Any]):
        self.memory, self.b, self.number, self.frame = memory, block, number, frame
        self.mask: np.ndarray = np.ones(LANES, bool)
        self.clocks: np.ndarray = np.zeros((4, block.agents), np.int64)
        for w in range(4):
            self.clocks[w, self.agent(w)] = 1
        self.open: list[Callable[[], None]] = []
        self.groups: list[list[Callable[[], None]]] = []
        self.committed, self.fenced, self.after = 0, False, True
        self.stores, self.stored, self.started = 0, 0, 0  # groups of stores, those waited for, stores without a group
        self.queue: list[list[Callable[[], None]]] = []  # of products that tensor memory's sums wait for
        self.loading: list[Loaded] = []

    def lanes(self, x: Any) -> Any:
        found = np.asarray(plain(x))
        return found if found.shape == (LANES,) else np.broadcast_to(found, LANES)

    def same(self, x: Any) -> int:
        """A number that all lanes at hand have in common."""
        found = self.lanes(x)[self.mask]
        if not found.size or (found != found[0]).any():
            raise EmulationError("a value that is to be the same in all threads is not")
        return int(found[0])

    def warps(self) -> list[int]:
        return [w for w in range(4) if self.mask[WARP * w : WARP * w + WARP].any()]

    def each(self) -> Any:
        return np.flatnonzero(self.mask)

    def agent(self, w: int) -> int:
        """Whose entry of the clocks is a warp's."""
        return self.b.base + 4 * self.number + w

    @property
    def products(self) -> int:
        """Whose entry is that of this warpgroup's products."""
        return self.b.base + PRODUCTS + self.number

    @property
    def engine(self) -> int:
        """Whose entry is that of what the copy engine stores for this warpgroup."""
        return self.b.base + STORES + self.number

    def tick(self, w: int) -> None:
        self.clocks[w, self.agent(w)] += 1

    def end(self) -> None:
        """Its warps end: nothing may read their memory any longer."""
        if self.started:
            raise SemaphoreError("a warp ends with stores of the copy engine without cp.async.bulk.commit_group")
        if self.stores > self.stored:
            raise SemaphoreError("a warp ends while stores read its memory: cp.async.bulk.wait_group is missing")
        self.b.end(self.clocks)
