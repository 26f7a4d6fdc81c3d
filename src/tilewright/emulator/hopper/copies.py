"""The copy engine: tensor descriptors, copies to shared memory, which land later, and stores from there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...core.support.errors import EmulationError
from .barriers import Barrier
from .cluster import Block
from .group import Group
from .swizzles import swizzled
from .values import COMBINED, WARP, number, rounded

TENSOR = {0: np.uint8, 2: np.uint32, 3: np.int32, 6: np.float16, 7: np.float32, 10: ml_dtypes.bfloat16, 11: np.float32}


class Fields(dict[Any, int]):
    """What a tensor descriptor tells, by name and axis."""

    def __missing__(self, key: Any) -> int:
        raise EmulationError(f"a tensor descriptor that nothing has told its {' '.join(map(str, key))}")


def box(g: Group, descriptor: int, coordinates: Sequence[int]) -> Any:
    if descriptor not in g.b.descriptors:
        raise EmulationError("a tensor descriptor is used before fence.proxy.tensormap")
    f = Fields(g.b.descriptors[descriptor])
    rank = f["rank",] + 1
    dtype = np.dtype(TENSOR[f["elemtype",]])
    mode = f["swizzle_mode",]
    if len(coordinates) != rank or mode not in (0, 3):
        raise EmulationError(f"a copy of rank {len(coordinates)} by a descriptor of rank {rank}, swizzle "
                        f"{f['swizzle_mode',]}")  # fmt: skip
    box = tuple(f["box_dim", d] for d in reversed(range(rank)))
    size = box[-1] * dtype.itemsize
    if mode == 3 and size > 128 or max(box) > 256 or min(box) < 1 or size % 16:
        raise EmulationError(f"a box of {box} elements of {dtype}, swizzle {mode}")
    place, live = np.zeros(box, np.int64), np.ones(box, bool)
    for axis, d in enumerate(reversed(range(rank))):
        x = np.arange(box[axis]).reshape([-1 if a == axis else 1 for a in range(rank)]) + coordinates[d]
        live &= (x >= 0) & (x < f["global_dim", d])
        stride = dtype.itemsize if d == 0 else f["global_stride", d - 1]
        if d and stride % 16:
            raise EmulationError(f"a stride of {stride} bytes in a descriptor")
        place = place + x * stride
    if f["global_address",] % 16 or any(f["element_stride", d] != 1 for d in range(rank)):
        raise EmulationError("a descriptor of an address that is not a multiple of 16, or that leaves elements out")
    linear = np.arange(np.prod(box)).reshape(box) * dtype.itemsize
    where = swizzled if mode == 3 else as_it_is
    return dtype, f["global_address",], place, live, linear, where


def as_it_is(at: Any) -> Any:
    """Places without a swizzle."""
    return at


def tma_load(g: Group, text: str, *args: Any) -> None:
    for lane in g.each():
        to, descriptor, at, *coordinates = [int(g.lanes(a)[lane]) for a in args]
        clock, blocks = g.clocks[lane // WARP], [g.b]
        if "multicast" in text:
            mask = coordinates.pop()
            blocks = [b for b in g.b.cluster.blocks if mask >> b.rank & 1]
            if mask >> len(g.b.cluster.blocks):
                raise EmulationError(f"a copy to the blocks {mask:#b} of a cluster of {len(g.b.cluster.blocks)}")
        found = box(g, descriptor, coordinates)
        tf32 = g.b.descriptors[descriptor]["elemtype",] == 11
        if to % 128:
            raise EmulationError(f"a copy to {to}, which is not a multiple of 128")
        for block in blocks:
            by = clock, g.agent(lane // WARP)
            told, place = g.b.reached(at, *by) if block is g.b else (g.b.other(block, at, *by), at)
            if told is not block and "cta_group::2" not in text:
                raise EmulationError("a copy whose bytes are counted in another block, without .cta_group::2")
            copy(g, block, told.barrier(place), to, clock, tf32, found)


def copy(g: Group, block: Block, barrier: Barrier, to: int, clock: Any, tf32: bool, found: Any) -> None:
    """Begin a copy to a block's shared memory."""
    dtype, base, place, live, linear, laid = found
    where = laid(to + linear)
    grains = block.shared.grains(where, dtype.itemsize)
    barrier.seen("the copy engine")
    block.shared.writing(grains, clock, barrier.agent, barrier.phases + 1, True, "a copy")
    block.shared.plain[grains] = laid is not swizzled

    def land() -> None:
        values = np.zeros(live.shape, dtype)
        values[live] = g.memory.load(base + place[live], dtype)
        block.shared.put(where, rounded(values) if tf32 else values)
        barrier.landed(values.nbytes)

    g.b.cluster.pending.append((barrier, land, "a copy"))
    if g.b.cluster.eager:
        g.b.cluster.land(barrier)


def bulk_load(g: Group, text: str, *args: Any) -> None:
    count = number(r"\[\$1\], (\d+)", text)
    for lane in g.each():
        to, source, at = [int(g.lanes(a)[lane]) for a in args]
        if to % 16 or source % 16 or count % 16:
            raise EmulationError(f"a copy of {count} bytes from {source} to {to}, which are not multiples of 16")
        clock = g.clocks[lane // WARP]
        block, place = g.b.reached(at, clock, g.agent(lane // WARP))
        if block is not g.b:
            raise EmulationError("a copy whose bytes are counted in another block")
        words = np.arange(count // 4)
        found = np.dtype(np.uint32), source, 4 * words, np.ones(len(words), bool), 4 * words, as_it_is
        copy(g, block, block.barrier(place), to, clock, False, found)


def tma_store(g: Group, text: str, *args: Any) -> None:
    for lane in g.each():
        descriptor, source, *coordinates = [int(g.lanes(a)[lane]) for a in args]
        dtype, base, place, live, linear, laid = box(g, descriptor, coordinates)
        if source % 128:
            raise EmulationError(f"a copy from {source}, which is not a multiple of 128")
        where = laid(source + linear)
        grains = g.b.shared.grains(where, dtype.itemsize)
        g.b.shared.reading(grains, g.clocks[lane // WARP], g.engine, g.stores + 1, True,
                              "a store of the copy engine")  # fmt: skip
        g.started += 1
        values, at = g.b.shared.get(where, dtype)[live], base + place[live]
        if text.startswith("cp.reduce"):
            combine = COMBINED[text.split("::cta.")[1].split(".")[0]]
            values = combine(g.memory.load(at, dtype), values).astype(dtype)
        g.memory.store(at, values)


def bulk(g: Group, text: str, *args: Any) -> None:
    if "commit" in text:
        g.stores, g.started = g.stores + 1, 0
    else:
        done = g.stores - number(r"wait_group(?:\.read)? (\d+);", text)
        g.stored = max(done, g.stored)
        for w in g.warps():
            g.clocks[w, g.engine] = max(done, g.clocks[w, g.engine])


def describe(g: Group, text: str, at: Any, *given: Any) -> None:
    name = text.split(".")[3]
    numbers = [int(x) for x in re.findall(r", (\d+)(?=[,;])", text)]
    value = g.same(given[0]) if given else numbers.pop()
    g.b.fields.setdefault(g.same(at), {})[(name, *numbers)] = value


def publish(g: Group, text: str, to: Any, source: Any) -> None:
    g.b.published[g.same(to)] = g.b.fields[g.same(source)]


def acquire(g: Group, text: str, at: Any) -> None:
    g.b.descriptors[g.same(at)] = g.b.published[g.same(at)]


PTX = (
    ("fence.proxy.tensormap", acquire),
    ("tensormap.replace", describe),
    ("tensormap.cp_fenceproxy", publish),
    ("cp.async.bulk.tensor", lambda g, text, *a: (tma_load if "mbarrier" in text else tma_store)(g, text, *a)),
    ("cp.reduce.async.bulk.tensor", tma_store),
    ("cp.async.bulk.shared", bulk_load),
    ("cp.async.bulk", bulk),
)
