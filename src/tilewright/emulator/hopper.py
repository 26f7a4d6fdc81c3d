"""Walking the programs of Mosaic GPU: blocks one after the other, their warpgroups side by side.

A warpgroup's 128 lanes take each operation together; what its warps may not assume of each other the clocks of
`hopper_memory` tell. Copies land as late as they may, or at once (`eager`); products are made as late as they may: a
missing wait finds registers that are not ready, poison, or a race.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from ..core.errors import DeadlockError, EmulationError, OutOfBoundsError, RaceError, SemaphoreError
from . import arith, hopper_tensor
from .core import Op, reading
from .hopper_memory import AGENTS, COPIES, PRODUCTS, STORES, Barrier, Shared, matrix_places, swizzled
from .hopper_values import (
    EIGHT,
    HALF,
    LANES,
    MULTIPLIED,
    WARP,
    Loaded,
    Register,
    Sum,
    fragment_places,
    number,
    plain,
    product,
    rounded,
)

BASE = 1024  # where shared memory starts
FAR = 24  # bits of an address within a block: above them the number of a block of the cluster plus one
COMBINED = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
            "xor": np.bitwise_xor}  # fmt: skip
WORDS = {"u32": np.uint32, "s32": np.int32, "b32": np.uint32, "f32": np.float32, **HALF}  # of red and atom
ENDED = "a block that has ended is reached by another: barrier.cluster before the end is missing"
SHIFT = 44  # a pointer is a buffer's number plus one, shifted, and a byte
TENSOR = {0: np.uint8, 2: np.uint32, 3: np.int32, 6: np.float16, 7: np.float32, 10: ml_dtypes.bfloat16, 11: np.float32}
SIZES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32, "!llvm.ptr": np.int64,
         **HALF}  # fmt: skip
Walk = Generator[str, None, Any]


class Meeting:
    """A barrier where warps come, and wait or go on."""

    def __init__(self, clock: Any):
        self.came: dict[int, int] = {}  # lanes of each warp
        self.times, self.clock, self.ended = 0, clock, clock  # joined clocks, of those that come and came

    def end(self) -> None:
        self.came, self.times, self.ended = {}, self.times + 1, self.clock
        self.clock = np.zeros_like(self.clock)


class Cluster:
    """Blocks that reach each other's shared memory, and what is under way in them."""

    def __init__(self, count: int, size: int, rng: np.random.Generator, eager: bool):
        self.rng, self.eager = rng, eager
        self.pending: list[tuple[Barrier, Callable[[], None], str]] = []
        self.progress = 0
        self.meetings: dict[Any, Meeting] = {}
        self.blocks = [Block(self, rank, count, size) for rank in range(count)]

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

    def __init__(self, cluster: Cluster, rank: int, count: int, size: int):
        self.cluster, self.rank, self.base, self.agents = cluster, rank, AGENTS * rank, AGENTS * count
        self.shared = Shared(BASE + size, agents=self.agents)
        self.barriers: dict[int, Barrier] = {}
        self.meetings: dict[Any, Meeting] = {}  # of bar.sync
        self.fields: dict[int, dict[Any, int]] = {}
        self.descriptors: dict[int, Any] = {}
        self.published: dict[int, Any] = {}
        self.tensor = hopper_tensor.TensorMemory(self.agents)
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
                    "race: an mbarrier of another block is used before barrier.cluster tells that it is made"
                )
        return other

    def end(self, clocks: Any) -> None:
        """A warp ends; after the last one no other block may reach this one."""
        self.known = np.maximum(self.known, clocks.max(0))
        self.walks -= 1
        if not self.walks and any(time > self.known[agent] for agent, time in self.visits.items()):
            raise EmulationError(ENDED)


class Group:
    """One warpgroup."""

    def __init__(self, machine: Machine, block: Block, number: int, frame: dict[Any, Any]):
        self.m, self.b, self.number, self.frame = machine, block, number, frame
        self.mask = np.ones(LANES, bool)
        self.clocks = np.zeros((4, block.agents), np.int64)
        for w in range(4):
            self.clocks[w, self.agent(w)] = 1
        self.open: list[Callable[[], None]] = []
        self.groups: list[list[Callable[[], None]]] = []
        self.committed, self.fenced, self.after = 0, False, True
        self.stores, self.stored, self.started = 0, 0, 0  # groups of stores, those waited for, stores without a group
        self.queue: list[list[Callable[[], None]]] = []  # of products that tensor memory's sums wait for
        self.loading: list[Loaded] = []

    # ------------------------------------------------------------ flow

    def run(self, steps: Any) -> Walk:
        frame = self.frame
        for kind, run, inputs, outputs in steps:
            if kind == "pure":
                out = run(*[plain(frame[i]) for i in inputs])
                for slot, value in zip(outputs, (out,) if len(outputs) == 1 else out or ()):
                    frame[slot] = value
            elif kind == "end":
                return [frame[i] for i in inputs]
            else:
                out = yield from getattr(self, kind)(run, *[frame[i] for i in inputs])
                for slot, value in zip(outputs, out or ()):
                    frame[slot] = value
        return []

    def lanes(self, x: Any) -> Any:
        return np.broadcast_to(plain(x), LANES)

    def same(self, x: Any) -> int:
        """A number that all lanes at hand have in common."""
        found = np.unique(self.lanes(x)[self.mask])
        if found.size != 1:
            raise EmulationError("a value that is to be the same in all threads is not")
        return int(found[0])

    def warps(self) -> list[int]:
        return [w for w in range(4) if self.mask[WARP * w : WARP * w + WARP].any()]

    def branch(self, regions: Any, condition: Any) -> Walk:
        condition = np.broadcast_to(plain(condition), LANES)
        outer, found = self.mask, []
        for region, live in zip(regions, (outer & condition, outer & ~condition)):
            self.mask = live
            found.append((yield from self.run(region)) if live.any() and region is not None else None)
        self.mask = outer
        yes, no = (found + [None])[:2]
        if not yes or not no:
            return yes or no or []
        return [np.where(condition, self.lanes(a), self.lanes(b)) for a, b in zip(yes, no)]

    def loop(self, region: Any, low: Any, high: Any, step: Any, *carried: Any) -> Walk:
        steps, arguments = region
        values = list(carried)
        for i in range(self.same(low), self.same(high), self.same(step)):
            self.frame.update(zip(arguments, [np.asarray(i, np.int32), *values]))
            values = yield from self.run(steps)
        return values

    def everyone(self, run: Any) -> Walk:
        yield from self.meet(self.m.threads)

    def put(self, run: Any, value: Any, at: Any) -> Walk:
        live = self.mask
        self.m.store(self.lanes(at)[live], np.ascontiguousarray(self.lanes(value))[live])
        yield from ()

    # ------------------------------------------------------------ waiting

    def meet(self, threads: int, number: int | str = 0, waits: bool = True) -> Walk:
        """bar.sync and bar.arrive, of a number, and barrier.cluster."""
        where = self.b.meetings if isinstance(number, int) else self.b.cluster.meetings
        meeting = where.setdefault(number, Meeting(np.zeros(self.b.agents, np.int64)))
        turn = meeting.times
        for w in self.warps():
            if self.agent(w) in meeting.came:
                raise EmulationError(f"bar.sync {number}: a warp comes once more before all have come")
            meeting.came[self.agent(w)] = int(self.mask[WARP * w : WARP * w + WARP].sum())
            meeting.clock = np.maximum(meeting.clock, self.clocks[w])
        come = sum(meeting.came.values())
        if come > threads:
            raise EmulationError(f"bar.sync {number}: {come} threads come, {threads} are waited for")
        if come == threads:
            meeting.end()
            self.b.cluster.progress += 1
        if not waits:
            for w in self.warps():
                self.tick(w)
            return
        while meeting.times == turn:
            yield f"bar.sync {number}"
        for w in self.warps():
            self.clocks[w] = np.maximum(self.clocks[w], meeting.ended)
            self.tick(w)
        self.after = False

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

    def wait(self, address: Any, parity: Any) -> Walk:
        at, parity = self.same(address), self.same(parity)
        barrier = self.b.barrier(at)
        while barrier.phases & 1 == parity:
            if not self.b.cluster.land(barrier):
                yield f"mbarrier {at}, parity {parity}, {barrier.left} arrivals and {barrier.bytes} bytes short"
        for w in self.warps():
            self.clocks[w] = np.maximum(self.clocks[w], barrier.ended)
        self.after = self.after and not barrier.products

    # ------------------------------------------------------------ PTX

    def asm(self, text: str, *args: Any) -> Walk:
        if text.startswith("{ .reg .b16"):
            text = re.sub(r"\.reg [^;]*; ", "", text)
        kind: str = "wait" if text.startswith("{ .reg .pred p; L_") else text.lstrip("{ ").split(";")[0].split(" ")[0]
        if text.startswith("//"):
            return [[plain(a) for a in args]] if len(args) > 1 else [plain(a) for a in args]
        for start, function in _PTX:
            if kind.startswith(start):
                found = function(self, text, *args)
                if isinstance(found, Generator):
                    found = yield from found
                return [found]
        raise EmulationError(f"the emulator does not know {text}")

    def each(self) -> Any:
        return np.flatnonzero(self.mask)

    def arrive(self, text: str, address: Any) -> None:
        size = number(r", (\d+);", text) if "expect_tx" in text else 0
        for lane in self.each():
            w = lane // WARP
            block, at = self.b.reached(int(self.lanes(address)[lane]), self.clocks[w], self.agent(w))
            block.barrier(at).arrive(self.clocks[w], size)
            self.tick(w)
        self.b.cluster.progress += 1

    def make_barrier(self, text: str, address: Any) -> None:
        count = number(r", (\d+);", text)
        at = self.same(address)
        (w,) = self.warps()
        made = self.agent(w), int(self.clocks[w, self.agent(w)])
        self.b.barriers[at] = Barrier(count, self.b.base + COPIES + len(self.b.barriers), at, made, self.b.agents)
        if COPIES + len(self.b.barriers) > AGENTS:
            raise EmulationError("more mbarriers than the walker has clocks for")

    def synchronise(self, text: str, *args: Any) -> Walk:
        found = re.match(r"bar.(sync|arrive) (\$?\d+), (\d+);", text)
        assert found is not None
        which = self.same(args[0]) if "$" in found[2] else int(found[2])
        yield from self.meet(int(found[3]), which, found[1] == "sync")

    def cluster_sync(self, text: str, *args: Any) -> Walk:
        yield from self.meet(self.m.threads * len(self.b.cluster.blocks), "barrier.cluster")

    def mapped(self, text: str, address: Any, rank: Any) -> Any:
        return ((self.lanes(rank).astype(np.int64) + 1 << FAR) + self.lanes(address)).astype(np.int32)

    def fence(self, text: str, *args: Any) -> None:
        for w in self.warps():
            self.b.shared.fence(self.agent(w))

    # ---- copies

    def box(self, descriptor: int, coordinates: Sequence[int]) -> Any:
        if descriptor not in self.b.descriptors:
            raise EmulationError("a tensor descriptor is used before fence.proxy.tensormap")
        f = self.b.descriptors[descriptor]
        rank = f["rank",] + 1
        dtype = np.dtype(TENSOR[f["elemtype",]])
        mode = f["swizzle_mode",]
        if len(coordinates) != rank or mode not in (0, 3):
            raise EmulationError(f"a copy of rank {len(coordinates)} by a descriptor of rank {rank}, swizzle "
                            f"{f['swizzle_mode',]}")  # fmt: skip
        box = tuple(f["box_dim", d] for d in reversed(range(rank)))
        size = box[-1] * dtype.itemsize
        if mode == 3 and size > 128 or max(box) > 256 or size % 16:
            raise EmulationError(f"a box of {box} elements of {dtype}, swizzle {mode}")
        place, live = np.zeros(box, np.int64), np.ones(box, bool)
        for axis, d in enumerate(reversed(range(rank))):
            x = np.arange(box[axis]).reshape([-1 if a == axis else 1 for a in range(rank)]) + coordinates[d]
            live &= (x >= 0) & (x < f["global_dim", d])
            stride = dtype.itemsize if d == 0 else f["global_stride", d - 1]
            if d and stride % 16:
                raise EmulationError(f"a stride of {stride} bytes in a descriptor")
            place = place + x * stride
        linear = np.arange(np.prod(box)).reshape(box) * dtype.itemsize
        where = swizzled if mode == 3 else lambda at: at
        return dtype, f["global_address",], place, live, linear, where

    def tma_load(self, text: str, *args: Any) -> None:
        for lane in self.each():
            to, descriptor, at, *coordinates = [int(self.lanes(a)[lane]) for a in args]
            clock, blocks = self.clocks[lane // WARP], [self.b]
            if "multicast" in text:
                mask = coordinates.pop()
                blocks = [b for b in self.b.cluster.blocks if mask >> b.rank & 1]
                if mask >> len(self.b.cluster.blocks):
                    raise EmulationError(f"a copy to the blocks {mask:#b} of a cluster of {len(self.b.cluster.blocks)}")
            found = self.box(descriptor, coordinates)
            tf32 = self.b.descriptors[descriptor]["elemtype",] == 11
            if to % 128:
                raise EmulationError(f"a copy to {to}, which is not a multiple of 128")
            for block in blocks:
                by = clock, self.agent(lane // WARP)
                told, place = self.b.reached(at, *by) if block is self.b else (self.b.other(block, at, *by), at)
                if told is not block and "cta_group::2" not in text:
                    raise EmulationError("a copy whose bytes are counted in another block, without .cta_group::2")
                self.copy(block, told.barrier(place), to, clock, tf32, found)

    def copy(self, block: Block, barrier: Barrier, to: int, clock: Any, tf32: bool, found: Any) -> None:
        """Begin a copy to a block's shared memory."""
        dtype, base, place, live, linear, laid = found
        where = laid(to + linear)
        grains = block.shared.grains(where, dtype.itemsize)
        block.shared.writing(grains, clock, barrier.agent, barrier.phases + 1, True, "a copy")

        def land() -> None:
            values = np.zeros(live.shape, dtype)
            values[live] = self.m.load(base + place[live], dtype)
            block.shared.put(where, rounded(values) if tf32 else values)
            barrier.landed(values.nbytes)

        self.b.cluster.pending.append((barrier, land, "a copy"))
        if self.b.cluster.eager:
            self.b.cluster.land(barrier)

    def tma_store(self, text: str, *args: Any) -> None:
        for lane in self.each():
            descriptor, source, *coordinates = [int(self.lanes(a)[lane]) for a in args]
            dtype, base, place, live, linear, laid = self.box(descriptor, coordinates)
            where = laid(source + linear)
            grains = self.b.shared.grains(where, dtype.itemsize)
            self.b.shared.reading(grains, self.clocks[lane // WARP], self.engine, self.stores + 1, True,
                                  "a store of the copy engine")  # fmt: skip
            self.started += 1
            values, at = self.b.shared.get(where, dtype)[live], base + place[live]
            if text.startswith("cp.reduce"):
                combine = COMBINED[text.split("::cta.")[1].split(".")[0]]
                values = combine(self.m.load(at, dtype), values).astype(dtype)
            self.m.store(at, values)

    def bulk(self, text: str, *args: Any) -> None:
        if "commit" in text:
            self.stores, self.started = self.stores + 1, 0
        else:
            done = self.stores - number(r"wait_group(?:\.read)? (\d+);", text)
            self.stored = max(done, self.stored)
            for w in self.warps():
                self.clocks[w, self.engine] = max(done, self.clocks[w, self.engine])

    def describe(self, text: str, at: Any, *given: Any) -> None:
        name = text.split(".")[3]
        numbers = [int(x) for x in re.findall(r", (\d+)(?=[,;])", text)]
        value = self.same(given[0]) if given else numbers.pop()
        self.b.fields.setdefault(self.same(at), {})[(name, *numbers)] = value

    def publish(self, text: str, to: Any, source: Any) -> None:
        self.b.published[self.same(to)] = self.b.fields[self.same(source)]

    def acquire(self, text: str, at: Any) -> None:
        self.b.descriptors[self.same(at)] = self.b.published[self.same(at)]

    def end(self) -> None:
        """Its warps end: nothing may read their memory any longer."""
        if self.started:
            raise SemaphoreError("a warp ends with stores of the copy engine without cp.async.bulk.commit_group")
        if self.stores > self.stored:
            raise SemaphoreError("a warp ends while stores read its memory: cp.async.bulk.wait_group is missing")
        self.b.end(self.clocks)

    # ---- products

    def multiply(self, text: str, *args: Any) -> Any:
        found = re.match(
            r"wgmma.mma_async.sync.aligned.m64n(\d+)k(\d+).([fs]32).(\w+).(\w+) .*\$\d+, ([\d, ]+);$", text
        )
        form = {"f32": "[01], 1, 1", "s32": "[01]"}[found[3]] if found is not None else ""
        if found is None or not re.fullmatch(form + ("(, [01]){1,2}" if found[4] in HALF else ""), found[6]):
            raise EmulationError(f"the emulator does not know {text}")
        if not self.mask.all():
            raise EmulationError("a product in part of a warpgroup")
        if not self.fenced:
            raise EmulationError("a product without wgmma.fence before it")
        numbers = [x == "1" for x in found[6].split(", ")]
        kinds, n, depth = [np.dtype(MULTIPLIED[found[i]]) for i in (4, 5)], int(found[1]), int(found[2])
        started, turned = numbers[0], numbers[3:] if found[4] in HALF else [False, False]
        integers, size = found[3] == "s32", kinds[0].itemsize
        if depth * size != 32 or kinds[1].itemsize != size or integers != (kinds[0].kind in "iu"):
            raise EmulationError(f"there is no product of {found[4]} and {found[5]} in {found[3]} over {depth}")
        regs = n // 2
        start, rest = list(args)[: regs * started], list(args)[regs * started :]
        *left, right = [plain(x) for x in rest]
        if started and isinstance(start[0], Register):
            sum = start[0].sum
            if any(not isinstance(r, Register) or r.sum is not sum or r.i != i for i, r in enumerate(start)):
                raise EmulationError("a product on registers of several sums")
        else:
            sum = Sum([plain(x) for x in start], n, np.int32 if integers else np.float32)
        b_places = matrix_places(self.same(right), n, depth, turned[-1], size)
        if len(left) == 4:
            a_value = np.zeros((64, 16), kinds[0])
            for i, word in enumerate(left):
                pair = np.ascontiguousarray(self.lanes(word)).astype(np.int32).view(kinds[0]).reshape(LANES, 2)
                for j in range(2):
                    a_value[fragment_places(2 * i + j)] = pair[:, j]
            a_places = None
        else:
            a_value, a_places = None, matrix_places(self.same(left[0]), 64, depth, turned[0], size)
        shared, clock = self.b.shared, self.clocks.min(0)
        for places in (a_places, b_places):
            if places is not None:
                shared.reading(shared.grains(places, size), clock, self.products, self.committed + 1, True,
                               "a product")  # fmt: skip
        sum.pending += 1

        def make() -> None:
            a = shared.get(a_places, kinds[0]) if a_value is None else a_value
            sum.value += product(a, shared.get(b_places, kinds[1]))
            sum.pending -= 1

        self.open.append(make)
        return [Register(sum, i) for i in range(regs)]

    def order(self, text: str, *args: Any) -> None:
        if not self.mask.all():
            raise EmulationError(f"{text} in part of a warpgroup")
        if "fence" in text:
            self.fenced = True
        elif "commit" in text:
            self.groups.append(self.open)
            self.open, self.fenced = [], False
            self.committed += 1
        else:
            left = number(r"(\d+);$", text)
            while len(self.groups) > left:
                for make in self.groups.pop(0):
                    make()
            self.clocks[:, self.products] = self.committed - len(self.groups)

    # ---- registers and shared memory

    def shuffle(self, text: str, x: Any) -> Any:
        step = re.search(r"\$1, (\d+), 0x1f", text)
        assert step is not None
        lanes = np.arange(LANES)
        return self.lanes(x)[lanes // 32 * 32 if ".idx" in text else lanes ^ int(step[1])]

    def by_warp(self, at: Any, size: int, write: bool, what: str) -> None:
        for w in self.warps():
            lanes = slice(WARP * w, WARP * w + WARP)
            live = at[lanes][self.mask[lanes]]
            shared, clock = self.b.shared, self.clocks[w]
            agent = self.agent(w)
            check = shared.writing if write else shared.reading
            check(shared.grains(live.reshape(-1), size), clock, agent, int(clock[agent]), False, what)

    def store_shared(self, text: str, address: Any, value: Any, *more: Any) -> None:
        at = self.lanes(address).astype(np.int64)
        size = number(r"\.b(\d+) ", text) // 8
        self.by_warp(at, size * (1 + len(more)), True, "a thread")
        for i, one in enumerate((value, *more)):
            values = np.ascontiguousarray(self.lanes(one))
            values = values.astype(f"i{size}") if size < 4 else values
            self.b.shared.put(at[self.mask] + 4 * i, values[self.mask])

    def combine(self, text: str, address: Any, *values: Any) -> Any:
        """red and atom: lane by lane; of two that are told by a sign (`n`) each lane takes its own."""
        ways = re.findall(r"(@!?n )?(red|atom)\.relaxed\.\w+\.(global|shared::cta)\.(\w+)\.(?:noftz\.)?(\w+) ", text)
        given = [np.ascontiguousarray(self.lanes(v)) for v in values]
        old = np.zeros(LANES, given[0].dtype)
        for lane in self.each():
            at, words = int(self.lanes(address)[lane]), [v[lane : lane + 1] for v in given]
            sign, _, space, kind, type_ = ways[0] if len(ways) == 1 or words[0].view(np.int32)[0] < 0 else ways[1]
            dtype = np.dtype(WORDS[type_])
            operands = [w.astype(np.int16).view(dtype) if dtype.itemsize == 2 else w.view(dtype) for w in words]
            held = self.shared_word(lane, at, dtype) if "shared" in space else self.m.load(np.asarray([at]), dtype)
            new = operands[-1] if kind == "exch" else np.where(held == operands[0], operands[-1], held) if (
                kind == "cas") else COMBINED[kind](held, operands[0])  # fmt: skip
            new = new.astype(dtype)
            if "shared" in space:
                self.b.shared.put(np.asarray([at]), new)
            else:
                self.m.store(np.asarray([at]), new)
            old[lane : lane + 1] = held.view(old.dtype) if held.itemsize == old.itemsize else 0
        return old if "atom" in text else None

    def shared_word(self, lane: int, at: int, dtype: Any) -> Any:
        """What shared memory holds, which a thread is about to update."""
        w = lane // WARP
        grains, agent = self.b.shared.grains(np.asarray([at], np.int64), dtype.itemsize), self.agent(w)
        self.b.shared.updating(grains, self.clocks[w], agent, int(self.clocks[w][agent]))
        return self.b.shared.get(np.asarray([at]), dtype)

    def load_shared(self, text: str, address: Any) -> Any:
        kind = re.search(r"ld.shared.([bsu])(\d+)", text)
        assert kind is not None
        size = int(kind[2]) // 8
        at = np.where(self.mask, self.lanes(address), BASE).astype(np.int64)
        self.by_warp(at, size, False, "a thread")
        if size == 4:
            return self.b.shared.get(at, np.float32 if text.endswith("f32") else np.int32)
        return self.b.shared.get(at, f"{'i' if kind[1] == 's' else 'u'}{size}").astype(np.int32)

    def store_matrices(self, text: str, address: Any, *words: Any) -> None:
        if not self.mask.all():
            raise EmulationError("stmatrix in part of a warpgroup")
        at = self.lanes(address).astype(np.int64)
        if np.any(at % 16):
            raise EmulationError("stmatrix to a place that is not a multiple of 16")
        self.by_warp(at, 16, True, "stmatrix")
        for k, word in enumerate(words):
            rows = np.ascontiguousarray(self.lanes(word)).astype(np.int32).reshape(4, 8, 4).view(np.uint8)
            for w in range(4):
                places = at[32 * w + 8 * k : 32 * w + 8 * k + 8]
                self.b.shared.bytes[places[:, None] + np.arange(16)] = rows[w].reshape(8, 16)

    def packed(self, text: str, high: Any, low: Any) -> Any:
        dtype = np.float16 if ".f16x2" in text else ml_dtypes.bfloat16
        parts = [self.lanes(x).astype(dtype).view(np.uint16).astype(np.uint32) for x in (high, low)]
        return (parts[0] << 16 | parts[1]).view(np.int32)

    def narrowed(self, text: str, x: Any) -> Any:
        dtype = EIGHT[re.findall(r"satfinite\.(e\dm\d)x2", text)[0]]
        most = float(ml_dtypes.finfo(dtype).max)
        return np.clip(plain(x), -most, most).astype(dtype).view(np.uint8).astype(np.int32)

    def widened(self, text: str, x: Any) -> Any:
        dtype = EIGHT[re.findall(r"f16x2\.(e\dm\d)x2", text)[0]]
        return np.asarray(plain(x)).astype(np.uint8).view(dtype).astype(np.float32)

    def whole(self, text: str, x: Any) -> Any:
        kind = re.search(r"cvt.rzi(?:.sat)?.([su])(\d+)", text)
        assert kind is not None
        dtype = np.dtype(f"{'i' if kind[1] == 's' else 'u'}{int(kind[2]) // 8}")
        info = np.iinfo(dtype)
        x = np.nan_to_num(np.trunc(plain(x).astype(np.float64)), nan=0.0, posinf=2.0**40, neginf=-(2.0**40))
        return np.clip(x, info.min, info.max).astype(np.int64).astype(np.int32)


def _nothing(group: Group, text: str, *args: Any) -> None:
    return None


_PTX: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("wait", lambda g, text, *a: g.wait(*a)),
    ("wgmma.mma_async", Group.multiply),
    ("wgmma", Group.order),
    *hopper_tensor.PTX,
    ("mbarrier.init", Group.make_barrier),
    ("mbarrier.arrive", Group.arrive),
    ("bar.sync", Group.synchronise),
    ("bar.arrive", Group.synchronise),
    ("barrier.cluster", Group.cluster_sync),
    ("mapa", Group.mapped),
    ("mov.u32", lambda g, text, *a: np.asarray(g.b.rank, np.int32)),
    ("fence.proxy.async", Group.fence),
    ("fence.proxy.tensormap", Group.acquire),
    ("fence.mbarrier", _nothing),
    ("fence.acq_rel", _nothing),
    ("red", Group.combine),
    ("atom", Group.combine),
    (".reg", Group.combine),
    ("setmaxnreg", _nothing),
    ("bar.warp.sync", _nothing),
    ("tensormap.replace", Group.describe),
    ("tensormap.cp_fenceproxy", Group.publish),
    ("cp.async.bulk.tensor", lambda g, text, *a: g.tma_load(text, *a) if "mbarrier" in text else g.tma_store(text, *a)),
    ("cp.reduce.async.bulk.tensor", Group.tma_store),
    ("cp.async.bulk", Group.bulk),
    ("stmatrix", Group.store_matrices),
    ("st.shared", Group.store_shared),
    ("ld.shared", Group.load_shared),
    ("shfl.sync", Group.shuffle),
    ("cvt.rn.satfinite", Group.narrowed),
    ("cvt.u16.u32", Group.widened),
    ("cvt.rn", Group.packed),
    ("cvt.rzi", Group.whole),
    ("ex2.approx", lambda g, text, x: np.exp2(plain(x))),
    ("rsqrt.approx", lambda g, text, x: (1 / np.sqrt(plain(x))).astype(np.float32)),
)


class Machine:
    """A module, read once: steps are (kind, what runs it, inputs, outputs)."""

    def __init__(self, text: str, buffers: Sequence[np.ndarray]):
        self.shapes = [b.shape for b in buffers]
        self.buffers = [np.array(b, order="C") for b in buffers]  # results may be in place
        self.bytes = [b.reshape(-1).view(np.uint8) for b in self.buffers]
        self.slots: dict[Any, int] = {}
        self.apart = "tcgen05" in text
        with reading(lambda context: None) as context, ir.Location.unknown(context):
            self.module = ir.Module.parse(text)
            (function,) = [o for o in self.module.body.operations if o.operation.name == "func.func"]
            entry = function.regions[0].blocks[0]
            self.launch: ir.Operation | None = None
            self.host = self.prepare(entry)
            launch: Any = self.launch
            self.body = self.prepare(launch.regions[0].blocks[0])
            self.arguments = [self.slot(a) for a in launch.regions[0].blocks[0].arguments]
            self.sizes = [self.slot(v) for v in launch.operands if str(v.type) == "index"]
            self.dynamic = self.slot(launch.operands[len(launch.operands) - 1])
            self.entry = [self.slot(a) for a in entry.arguments]

    def slot(self, value: Any) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def prepare(self, block: Any) -> list[Any]:
        steps = []
        for one in block.operations:
            o = one.operation
            inputs, outputs = [self.slot(v) for v in o.operands], [self.slot(v) for v in o.results]
            if o.name in ("scf.yield", "gpu.terminator", "func.return"):
                steps.append(("end", None, inputs, []))
            elif o.name == "scf.if":
                regions = [self.prepare(r.blocks[0]) if len(r.blocks) else None for r in o.regions]
                steps.append(("branch", regions, inputs, outputs))
            elif o.name == "scf.for":
                inner = o.regions[0].blocks[0]
                steps.append(("loop", (self.prepare(inner), [self.slot(a) for a in inner.arguments]), inputs, outputs))
            elif o.name == "llvm.inline_asm":
                text = str(ir.StringAttr(o.attributes["asm_string"]).value)
                if "ld.shared.b32" in text:
                    text += f" {o.results[0].type}"
                steps.append(("asm", text, inputs, outputs))
            elif o.name == "gpu.barrier":
                steps.append(("everyone", None, inputs, outputs))
            elif o.name == "llvm.store":
                steps.append(("put", None, inputs, outputs))
            elif o.name == "gpu.launch":
                self.launch = o
            else:
                steps.append(("pure", self.pure(o), inputs, outputs))
        return steps

    def pure(self, o: Any) -> Callable[..., Any]:
        rule = arith.RULES.get(o.name)
        if rule is not None:
            return rule(Op(None, o, []))
        if o.name == "llvm.getelementptr":
            size = np.dtype(SIZES[str(ir.TypeAttr(o.attributes["elem_type"]).value)]).itemsize
            raw = list(ir.DenseI32ArrayAttr(o.attributes["rawConstantIndices"]))[0]
            return lambda base, *index: base + np.asarray(index[0] if index else raw).astype(np.int64) * size
        if o.name == "llvm.load":
            kind = str(o.results[0].type)
            if kind == "!llvm.ptr":
                return lambda at: ((at - (1 << 60)) // 8 + 1) << SHIFT
            return lambda at: self.load(at, SIZES[kind])
        if o.name == "llvm.extractvalue":
            position = list(ir.DenseI64ArrayAttr(o.attributes["position"]))[0]
            return lambda x: x[position]
        if o.name == "memref.extract_aligned_pointer_as_index":
            return lambda x: np.asarray(BASE, np.int64)
        if o.name in ("gpu.dynamic_shared_memory", "builtin.unrealized_conversion_cast"):
            return lambda *x: np.asarray(0, np.int64)
        raise EmulationError(f"the emulator does not know {o.name}")

    def located(self, at: Any, size: int) -> tuple[int, Any]:
        at = np.asarray(at, np.int64)
        number = int(at.reshape(-1)[0]) >> SHIFT
        offset = at - (number << SHIFT)
        known = 0 < number <= len(self.bytes)
        if not known or np.any(offset < 0) or np.any(offset + size > self.bytes[number - 1].size):
            raise OutOfBoundsError(f"memory is accessed outside of argument {number - 1}")
        return number - 1, offset

    def load(self, at: Any, dtype: Any) -> Any:
        dtype = np.dtype(dtype)
        if not np.size(at):
            return np.zeros(np.shape(at), dtype)
        number, offset = self.located(at, dtype.itemsize)
        found = self.bytes[number][offset[..., None] + np.arange(dtype.itemsize)]
        return np.ascontiguousarray(found).view(dtype)[..., 0]

    def store(self, at: Any, values: Any) -> None:
        if np.size(at):
            values = np.ascontiguousarray(values)
            number, offset = self.located(at, values.itemsize)
            self.bytes[number][offset[..., None] + np.arange(values.itemsize)] = values[..., None].view(np.uint8)

    def run(self, rng: np.random.Generator, eager: bool) -> list[np.ndarray]:
        host = Group(
            self, Cluster(1, 0, rng, eager).blocks[0], 0, dict(zip(self.entry, [np.asarray(0), np.asarray(1 << 60)]))
        )
        with np.errstate(all="ignore"):
            _finished(host.run(self.host))
            sizes = [int(host.frame[s]) for s in self.sizes]
            step = sizes[6] if len(sizes) > 6 else 1
            for z, y, x in np.ndindex(sizes[2], sizes[1], sizes[0] // step):
                self.together((x * step, y, z), sizes, host.frame, rng, eager)
        return [b.reshape(shape) for b, shape in zip(self.buffers, self.shapes)]

    def together(self, ids: tuple[int, int, int], sizes: list[int], frame: Any, rng: Any, eager: bool) -> None:
        """The blocks of a cluster, the first of which has some ids."""
        count, self.threads = sizes[6] if len(sizes) > 6 else 1, sizes[3]
        cluster = Cluster(count, int(frame[self.dynamic]), rng, eager)
        live: list[tuple[Group, Walk]] = []
        for block, which in itertools.product(cluster.blocks, range(sizes[3] // LANES)):
            threads = np.arange(LANES) + LANES * which
            x, *others = ids
            values = [np.asarray(v, np.int64) for v in (x + block.rank, *others, threads, 0, 0, *sizes)]
            # Products of tensor memory are a thread's: there each warp goes its own way.
            for mask in np.arange(LANES) // WARP == np.arange(4)[:, None] if self.apart else np.ones((1, LANES), bool):
                group = Group(self, block, which, {**frame, **dict(zip(self.arguments, values))})
                group.mask = mask
                live.append((group, group.run(self.body)))
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
                raise SemaphoreError(f"block {ids} ends while copies are under way, or with {columns}")
            if any(meeting.came for meeting in block.meetings.values()):
                raise SemaphoreError(f"block {ids} ends while warps have come to a barrier where none waits")


def _finished(walk: Walk) -> None:
    for said in walk:
        raise EmulationError(f"the host waits: {said}")


def run_hopper(text: str, buffers: Sequence[np.ndarray], order: np.random.Generator | None = None, eager: bool = False
               ) -> list[np.ndarray]:  # fmt: skip
    """The buffers after a module has run on them."""
    return Machine(text, buffers).run(order or np.random.default_rng(0), eager)
