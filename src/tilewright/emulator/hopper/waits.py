"""Waiting: mbarriers, barriers of threads and of clusters, fences between threads and the copy engine."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...core.support.errors import EmulationError
from .barriers import Barrier, Meeting
from .cluster import FAR
from .group import Group, Walk
from .shared import AGENTS, COPIES
from .values import LANES, WARP, number

MOST_REGISTERS = 65536  # of a multiprocessor


def meet(g: Group, threads: int, which: int | str = 0, waits: bool = True) -> Walk:
    """bar.sync and bar.arrive, of a number, and barrier.cluster."""
    where = g.b.meetings if isinstance(which, int) else g.b.cluster.meetings
    meeting = where.setdefault(which, Meeting(np.zeros(g.b.agents, np.int64)))
    turn = meeting.times
    for w in g.warps():
        if g.agent(w) in meeting.came:
            raise EmulationError(f"bar.sync {which}: a warp comes once more before all have come")
        meeting.came[g.agent(w)] = int(g.mask[WARP * w : WARP * w + WARP].sum())
        meeting.clock = np.maximum(meeting.clock, g.clocks[w])
    come = sum(meeting.came.values())
    if come > threads:
        raise EmulationError(f"bar.sync {which}: {come} threads come, {threads} are waited for")
    if come == threads:
        meeting.end()
        g.b.cluster.progress += 1
    if not waits:
        for w in g.warps():
            g.tick(w)
        return
    while meeting.times == turn:
        yield f"bar.sync {which}"
    for w in g.warps():
        g.clocks[w] = np.maximum(g.clocks[w], meeting.ended)
        g.tick(w)
    g.after = False


def everyone(g: Group, given: None) -> Walk:
    yield from meet(g, g.b.cluster.threads)


def wait(g: Group, address: Any, parity: Any) -> Walk:
    at, parity = g.same(address), g.same(parity)
    barrier = g.b.barrier(at)
    for w in g.warps():
        barrier.awaited(parity, int(g.clocks[w, barrier.agent]))
    while barrier.phases & 1 == parity:
        if not g.b.cluster.land(barrier):
            yield f"mbarrier {at}, parity {parity}, {barrier.left} arrivals and {barrier.bytes} bytes short"
    for w in g.warps():
        g.clocks[w] = np.maximum(g.clocks[w], barrier.ended)
    g.after = g.after and not barrier.products


def arrive(g: Group, text: str, address: Any) -> None:
    size = number(r", (\d+);", text) if "expect_tx" in text else 0
    for lane in g.each():
        w = lane // WARP
        block, at = g.b.reached(int(g.lanes(address)[lane]), g.clocks[w], g.agent(w))
        if block is not g.b:
            block.barrier(at).seen("another block")
        block.barrier(at).arrive(g.clocks[w], size)
        g.tick(w)
    g.b.cluster.progress += 1


def make_barrier(g: Group, text: str, address: Any) -> None:
    count = number(r", (\d+);", text)
    at = g.same(address)
    (w,) = g.warps()
    made = g.agent(w), int(g.clocks[w, g.agent(w)])
    if at in g.b.barriers:
        raise EmulationError(f"an mbarrier is made at {at}, where there is one already")
    g.b.barriers[at] = Barrier(count, g.b.base + COPIES + len(g.b.barriers), at, made, g.b.agents)
    if COPIES + len(g.b.barriers) > AGENTS:
        raise EmulationError("more mbarriers than the walker has clocks for")


def synchronise(g: Group, text: str, *args: Any) -> Walk:
    found = re.match(r"bar.(sync|arrive) (\$?\d+), (\d+);", text)
    assert found is not None
    which = g.same(args[0]) if "$" in found[2] else int(found[2])
    yield from meet(g, int(found[3]), which, found[1] == "sync")


def cluster_sync(g: Group, text: str, *args: Any) -> Walk:
    yield from meet(g, g.b.cluster.threads * len(g.b.cluster.blocks), "barrier.cluster")


def mapped(g: Group, text: str, address: Any, rank: Any) -> Any:
    return ((g.lanes(rank).astype(np.int64) + 1 << FAR) + g.lanes(address)).astype(np.int32)


def fence(g: Group, text: str, *args: Any) -> None:
    fence_made(g, text)
    for w in g.warps():
        g.b.shared.fence(g.agent(w))


def fence_made(g: Group, text: str, *args: Any) -> None:
    """The mbarriers that these warps have made are seen by the copy engine, and by other blocks."""
    mine = [g.agent(w) for w in g.warps()]
    for barrier in g.b.barriers.values():
        barrier.fenced = barrier.fenced or barrier.made[0] in mine


def set_registers(g: Group, text: str) -> Walk:
    """Registers are given up at once, and taken once others have given up enough."""
    asked, held = number(r"u32 (\d+);", text), g.b.registers
    first = MOST_REGISTERS // g.b.cluster.threads // 8 * 8
    groups = range(g.b.cluster.threads // LANES)
    while LANES * sum(asked if n == g.number else held.get(n, first) for n in groups) > MOST_REGISTERS:
        yield f"{asked} registers of each thread, which no warpgroup gives up"
    held[g.number] = asked
    g.b.cluster.progress += 1


WAIT = "{ .reg .pred p; L_"  # how a loop begins that tries an mbarrier until its phase has ended

PTX = (
    (WAIT, lambda g, text, *a: wait(g, *a)),
    ("mbarrier.init", make_barrier),
    ("mbarrier.arrive", arrive),
    ("bar.sync", synchronise),
    ("bar.arrive", synchronise),
    ("barrier.cluster", cluster_sync),
    ("mapa", mapped),
    ("fence.proxy.async", fence),
    ("fence.mbarrier", fence_made),
    ("setmaxnreg", set_registers),
)
