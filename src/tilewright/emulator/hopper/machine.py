"""Walking the programs of Mosaic GPU: blocks one after the other, their warpgroups side by side.

A warpgroup's 128 lanes take each operation together; what its warps may not assume of each other the clocks of
`shared` tell. Copies land as late as they may, or at once (`eager`); products are made as late as they may: a missing
wait finds registers that are not ready, poison, or a race.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...core.support.errors import DeadlockError, EmulationError, SemaphoreError
from ...lang.warpgroups.specs import MOST_BLOCKS
from ..core import reading
from .cluster import Cluster
from .flow import run
from .global_memory import GlobalMemory
from .group import Group, Walk
from .module_reader import HOST, Reader
from .values import LANES, WARP


class Machine:
    """A module, read once, and the memory that it is launched on."""

    def __init__(self, text: str, buffers: Sequence[np.ndarray]):
        self.memory: GlobalMemory = GlobalMemory(buffers)
        self.apart: bool = "tcgen05" in text
        with reading(lambda context: None) as context, ir.Location.unknown(context):
            self.module, reader = ir.Module.parse(text), Reader(self.memory)
            (function,) = [o for o in self.module.body.operations if o.operation.name == "func.func"]
            entry = function.regions[0].blocks[0]
            self.host: list[Any] = reader.block(entry)
            launch = reader.launch
            block = launch.regions[0].blocks[0]
            self.body: list[Any] = reader.block(block)
            self.arguments: list[int] = [*map(reader.slot, block.arguments)]
            self.sizes: list[int] = [reader.slot(v) for v in launch.operands if str(v.type) == "index"]
            self.dynamic: int = reader.slot(launch.operands[len(launch.operands) - 1])
            self.entry: list[int] = [*map(reader.slot, entry.arguments)]

    def run(self, rng: np.random.Generator, eager: bool) -> list[np.ndarray]:
        given = dict(zip(self.entry, [np.asarray(0), np.asarray(HOST)]))
        host = Group(self.memory, Cluster(1, 0, 0, rng, eager).blocks[0], 0, given)
        with np.errstate(all="ignore"):
            _finished(run(host, self.host))
            sizes = [int(host.frame[s]) for s in self.sizes]
            step = sizes[6] if len(sizes) > 6 else 1
            if step > MOST_BLOCKS or sizes[0] % step:
                raise EmulationError(f"{sizes[0]} blocks in clusters of {step}: {MOST_BLOCKS} at most, and whole ones")
            for z, y, x in np.ndindex(sizes[2], sizes[1], sizes[0] // step):
                self.together((x * step, y, z), sizes, host.frame, rng, eager)
        return self.memory.found

    def together(self, ids: tuple[int, int, int], sizes: list[int], frame: Any, rng: Any, eager: bool) -> None:
        """The blocks of a cluster, the first of which has some ids."""
        cluster = Cluster(sizes[6] if len(sizes) > 6 else 1, sizes[3], int(frame[self.dynamic]), rng, eager)
        live: list[tuple[Group, Walk]] = []
        for block, which in itertools.product(cluster.blocks, range(sizes[3] // LANES)):
            threads = np.arange(LANES) + LANES * which
            x, *others = ids
            values = [np.asarray(v, np.int64) for v in (x + block.rank, *others, threads, 0, 0, *sizes)]
            # Products of tensor memory are a thread's: there each warp goes its own way.
            for mask in np.arange(LANES) // WARP == np.arange(4)[:, None] if self.apart else np.ones((1, LANES), bool):
                group = Group(self.memory, block, which, {**frame, **dict(zip(self.arguments, values))})
                group.mask = mask
                live.append((group, run(group, self.body)))
                block.walks += 1
        stuck: dict[int, str] = {}
        while live:
            before, kept = cluster.progress, []
            for i in rng.permutation(len(live)):
                group, walk = live[i]
                try:
                    stuck[id(walk)] = next(walk)
                    kept.append(live[i])
                except StopIteration:
                    group.end()
                    cluster.progress += 1
            live = kept
            if live and cluster.progress == before and not cluster.land():
                raise DeadlockError(f"block {ids}: all wait: {'; '.join(sorted(stuck[id(walk)] for _, walk in live))}")
        for block in cluster.blocks:
            if any(what == "a copy" for _, _, what in cluster.pending) or block.tensor.columns:
                columns = f"{block.tensor.columns} columns of tensor memory"
                raise SemaphoreError(f"block {ids} ends while copies are in flight, or with {columns}")
            if any(meeting.came for meeting in block.meetings.values()):
                raise SemaphoreError(f"block {ids} ends while warps have come to a barrier where none waits")


def _finished(walk: Walk) -> None:
    for said in walk:
        raise EmulationError(f"the host waits: {said}")


def run_hopper(text: str, buffers: Sequence[np.ndarray], order: np.random.Generator | None = None, eager: bool = False
               ) -> list[np.ndarray]:  # fmt: skip
    """The buffers after a module has run on them."""
    return Machine(text, buffers).run(order or np.random.default_rng(0), eager)
