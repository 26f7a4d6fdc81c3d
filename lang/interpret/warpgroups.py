"""The interpreter of warpgroup kernels: all warpgroups of a cluster at once, one cluster after another.

Each warpgroup is a thread; one runs at a time, until it has to wait. Copies and products do their work immediately;
unordered accesses raise an error, however the warpgroups were scheduled. So is a wait that
no one ends, a barrier that may be a phase further than a wait for it, and what is under way when a block ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.program import Eqn, Program
from ...core.ir.types import MemorySpace
from ...core.primitives.refs.state_primitives import Index, get_p
from ...core.support.errors import KernelBodyError, OutOfBoundsError, SemaphoreError, Source, UncoveredOutputError
from ...core.tracing.numpy_interpreter import evaluate, observing
from ..kernel.kernel import Kernel
from ..ops.interpret_params import InterpretParams, Run, address, poison, run_as
from ..ops.run_scoped import undefine_p
from ..warpgroups.common import located
from ..warpgroups.specs import Mesh, mesh_of
from ..warpgroups.transfers import Shared
from ..warpgroups.warps import WARPS
from .race_detector import accesses
from .scheduler import Group, Member
from .warpgroup_clocks import PAST, Agents, Conflict, Everywhere, Memory, Phases

Part = tuple[np.ndarray, Sequence[Any], Index]  # a Ref, the operands of an index, the index
_COMBINE = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
            "xor": np.bitwise_xor}  # fmt: skip
# What a thread waits for by itself, and how messages call it.
_AGENTS = {
    "itself": "", "products": "a product of ", "reading": "a copy to global memory of ",
    "writing": "a copy to global memory of ", "tensor": "a product of ", "tensor loads": "a load from TMEM of ",
    "tensor stores": "a store to TMEM of ",
}  # fmt: skip
_REMEDIES = {
    "products": "wait for the product (`wgmma_wait`)", "reading": "wait for the copy (`wait_smem_to_gmem`)",
    "writing": "wait for the copy (`wait_smem_to_gmem`)", "tensor loads": "call `wait_load_tmem()` before",
    "tensor stores": "call `commit_tmem()` after the store",
    "tensor": "wait at a barrier at which `tcgen05_commit_arrive` tells of the product",
}  # fmt: skip
_COMMITS = {1: "commit_smem", 2: "commit_tmem"}


class Cluster(Group):
    """The blocks of threads that reach each other's shared memory: one, or as many as the mesh says.

    `ids` is their place in the grid. Blocks have numbers in their cluster, warpgroups and warps numbers in all of it.
    """

    what: str = "warpgroup"
    remedy: str = "arrive, or start the copy, on every way to a wait, and before the wait"

    kernel: Kernel
    mesh: Mesh
    ids: tuple[int, ...]
    arrays: Sequence[Everywhere]
    places: dict[int, int]

    def __init__(self, kernel: Kernel, mesh: Mesh, ids: tuple[int, ...], arrays: Sequence[Everywhere],
                 params: InterpretParams):  # fmt: skip
        super().__init__(kernel.name, params)
        self.kernel, self.mesh, self.ids, self.arrays = kernel, mesh, ids, arrays
        self.number: int = int(np.ravel_multi_index(ids, mesh.grid)) if ids else 0
        self.threads: int = mesh.blocks * mesh.threads
        barriers = sum(t.size for t in kernel.scratch if t.space is MemorySpace.SEMAPHORE)
        # The warps of each follow the warpgroups.
        self.agents: Agents = Agents(self.threads * (1 + WARPS), barriers * mesh.blocks)
        self.steps: dict[int, dict[str, int]] = {}  # of the agents of each
        self.phases: dict[int, Phases] = {}  # by address
        self.memory: dict[int, Memory] = {address(a.array): Memory(a.name, a.array, True) for a in arrays}
        self.known: dict[int, Everywhere] = {address(a.array): a for a in arrays}
        self.shared: list[list[np.ndarray | None]] = [self._scratch(block) for block in range(mesh.blocks)]
        self.places = {address(held): n for block in self.shared for n, held in enumerate(block) if held is not None}
        self.warpgroups: list[Warpgroup] = [Warpgroup(self, n, params) for n in range(self.threads)]
        self.members: list[Member] = list(self.warpgroups)

    def _scratch(self, block: int) -> list[np.ndarray | None]:
        """What the warpgroups of a block share."""
        found: list[np.ndarray | None] = []
        for n, type_ in enumerate(self.kernel.scratch):
            if type_.space is MemorySpace.REGS:
                found.append(None)
                continue
            zero = type_.space is MemorySpace.SEMAPHORE
            held = np.zeros(type_.shape, type_.dtype) if zero else poison(type_.shape, type_.dtype)
            name = self.kernel.scratch_name(self.kernel.splits[3] + n) + self.of(block)
            self.memory[address(held)] = Memory(name, held)
            found.append(held)
        return found

    def twin(self, ref: np.ndarray, block: int) -> np.ndarray:
        """What a Ref that a block has is in another one."""
        found = self.shared[block][self.places[address(ref)]]
        assert found is not None
        return found

    def place(self, block: int) -> tuple[int, ...]:
        """Where a block is along the axes of the cluster."""
        return tuple(int(i) for i in np.unravel_index(block, self.mesh.cluster)) if self.mesh.cluster else ()

    def of(self, block: int) -> str:
        return f" of block {self.place(block)}" if self.mesh.blocks > 1 else ""

    def name(self, number: int) -> str:
        if number >= self.threads:
            group, warp = divmod(number - self.threads, WARPS)
            return f"warp {warp} of {self.name(group)}"
        block, number = divmod(number, self.mesh.threads)
        named = f" ({self.mesh.thread_name}={number})" if self.mesh.thread_name is not None else ""
        return f"warpgroup {number}{named}{self.of(block)}"

    def said(self, agent: int) -> str:
        """What messages call an agent."""
        kind, number = self.agents.kind(agent)
        if kind == "copies":
            return f"a copy counted at {next(p.name for p in self.phases.values() if p.number == number)}"
        return _AGENTS[kind] + self.name(number)

    def check_ends(self) -> None:
        """Nothing is under way."""
        for warpgroup in self.warpgroups:
            warpgroup.check_end()
        for phases in self.phases.values():
            agent = self.agents.at(phases.number)
            known = max(int(w.clock[0, agent]) for w in self.warpgroups)
            for step, line in phases.copies:
                if step > known:
                    raise SemaphoreError(
                        f"kernel {self.label}, block {self.ids}: ends while a copy counted at {phases.name} is under "
                        "way that nothing waited for", "call `barrier_wait` for it", line)  # fmt: skip


class Warpgroup(Member):
    """One warpgroup's run."""

    block: Cluster
    number: int
    agents: Agents

    def __init__(self, block: Cluster, number: int, params: InterpretParams):
        super().__init__(block, block.kernel.name, params)
        self.block, self.number, self.agents = block, number, block.agents
        group = number if number < block.threads else (number - block.threads) // WARPS
        self.rank: int = group // block.mesh.threads  # of its block in the cluster
        self.cell: tuple[int, ...] = (*block.ids, *block.place(self.rank), group % block.mesh.threads)
        # Known of each agent: what is done; what of it copies and products see of shared memory; of tensor memory.
        self.clock = np.zeros((3, self.agents.count), np.int64)
        self.clock[0, number] = 1
        kinds = ("products", "reading", "tensor", "tensor loads", "tensor stores")
        self.steps: dict[str, int] = block.steps.setdefault(number, dict.fromkeys(kinds, 0))
        self.lines: dict[str, Source | None] = {}
        self.open = False  # a copy to global memory belongs to no group that was ended
        self.own: dict[int, Memory] = {}  # accumulators

    @property
    def title(self) -> str:
        return self.block.name(self.number)

    def work(self) -> None:
        kernel, scratch = self.block.kernel, []
        for n, (type_, held) in enumerate(zip(kernel.scratch, self.block.shared[self.rank], strict=True)):
            if held is None:
                held = np.zeros(type_.shape, type_.dtype)
                self.own[address(held)] = Memory(kernel.scratch_name(kernel.splits[3] + n), held)
            scratch.append(held)
        with observing(self.observe):
            evaluate(kernel.body, *map(np.int32, self.cell), *(a.array for a in self.block.arrays), *scratch)

    def run_warps(self, *operands: Any, program: Program) -> None:
        """Each warp by itself; what they know at their ends is known to the warpgroup."""
        first = self.block.threads + WARPS * self.number
        warps = [Warp(self, first + n, program, (*operands, np.int32(n))) for n in range(WARPS)]
        self.block.members = [*self.block.members, *warps]
        self.block.begin(warps)
        self.pause(lambda: all(w.done for w in warps), lambda: "waits for its warps")
        self.clock = np.maximum.reduce([self.clock, *(w.clock for w in warps)])
        self.clock[0, self.number] += 1
        for phases in self.block.phases.values():
            seen = [phases.waited[w.number] for w in warps if w.number in phases.waited]
            if seen:
                phases.waited[self.number] = max(seen)

    # ------------------------------------------------------------ memory

    def find(self, ref: np.ndarray) -> Memory | None:
        return self.own.get(address(ref)) or self.block.memory.get(address(ref))

    def observe(self, eqn: Eqn, values: list[Any]) -> None:
        """Note what an equation does to memory."""
        self.source: Source | None = eqn.source
        memory = self.find(values[0]) if values and isinstance(values[0], np.ndarray) else None
        if memory is None:
            return
        if eqn.primitive is undefine_p:
            self.touch(memory, memory.elements.ravel(), "writes")
        if eqn.primitive is get_p and address(values[0]) in self.own:
            self.wait_products(0)
        for _, kind, pick in accesses(eqn, values, "access"):
            self.touch(memory, pick(memory.elements), kind)

    def touch(self, memory: Memory, elements: np.ndarray, kind: str, agent: int | None = None, step: int = 0,
              sees: int = 0) -> None:  # fmt: skip
        """An access by this warpgroup, or by one of its agents; `sees`: the row of the clock by
        which stores of warpgroups are known to it."""
        read = self.clock[0].copy()
        if agent is None:
            agent, step = self.number, int(read[self.number])
        elif self.agents.kind(agent)[0] in ("products", "tensor"):  # these are made in their order
            read[agent] = PAST
        wrote = read.copy()
        if sees:
            wrote[: self.agents.threads] = self.clock[sees, : self.agents.threads]
        if memory.far:
            everywhere = self.block.known[address(memory.array)]
            other = everywhere.conflict(elements, kind, self.block.number)
            if other is not None:
                self.refuse_block(memory, kind, *other)
            everywhere.touch(elements, kind, self.block.number)
            if kind == "updates":
                return
        found = memory.conflict(elements, kind, wrote, read)
        if found is not None:
            self.refuse(memory, kind, agent, found, sees)
        memory.touch(elements, kind, agent, step, self.source)

    def refuse(self, memory: Memory, kind: str, agent: int, found: Conflict, sees: int) -> None:
        what, whose = self.agents.kind(found.agent)
        line = memory.lines.get((found.agent, found.step, found.kind))
        who = "" if agent == self.number else f"{self.block.said(agent)} "
        place = f"{who}{kind} element {memory.place(found.element)} of {memory.name}"
        before = "writes" if found.kind == "writes" else "reads"
        own = what == "itself" and (whose == self.number or found.step <= self.clock[0, found.agent])
        if own and sees:
            commit = _COMMITS[sees]
            raise self.race(
                f"{place}, which {self.block.said(found.agent)} stored at {line}, and which is not made known to "
                "copies and products", f"call `{commit}()` after the store")  # fmt: skip
        if what == "itself":
            remedy = "let one arrive at a barrier that the other waits for in between"
        elif what == "copies":
            name = next(p.name for p in self.block.phases.values() if p.number == whose)
            remedy = f"wait for the copy (`barrier_wait` at {name}) first"
        else:
            remedy = _REMEDIES[what] + ("" if whose == self.number else ", and tell of it by a barrier")
        what = f"{place}, which {self.block.said(found.agent)} {before}, at {line}, and nothing orders the two"
        raise self.race(what, remedy)

    def refuse_block(self, memory: Memory, kind: str, element: int, block: int, before: str) -> None:
        ids = tuple(int(i) for i in np.unravel_index(block, self.block.mesh.grid)) if block >= 0 else None
        what = "block" if self.block.mesh.blocks == 1 else "cluster"
        who = f"several other {what}s" if ids is None else f"{what} {ids}"
        raise self.race(f"{kind} element {memory.place(element)} of {memory.name}, which {who} {before}, and nothing "
                        f"orders {what}s", f"give each {what} its own part, or use an atomic operation")  # fmt: skip

    def part(self, part: Part, what: str) -> tuple[Memory, np.ndarray, np.ndarray]:
        """The memory of a part, its elements, and which of them exist; past the ends of global memory none do."""
        ref, dynamic, index = part
        memory = self.find(ref)
        if memory is None:
            raise KernelBodyError(f"kernel {self.kernel}: {what} is no Ref of the kernel's", "use operands, outputs or "
                                  "scratch", self.source)  # fmt: skip
        places, inside = located(index, dynamic, ref.shape)
        if not memory.far and not inside.all():
            raise OutOfBoundsError(
                f"kernel {self.kernel}, {self.title}, cell {self.cell}: {what} {index} of {memory.name}, of shape "
                f"{ref.shape}, at {[int(i) for i in dynamic]} is past its end", "keep within it",
                self.source)  # fmt: skip
        return memory, places, inside

    # ------------------------------------------------------------ barriers

    def define(self, ref: np.ndarray, arrivals: int, tensor: bool, axes: tuple[int, ...], leader: bool) -> None:
        """A barrier of every block of the cluster, which others may reach before the block comes here."""
        kernel, known = self.block.kernel, self.block.phases
        whole = kernel.scratch_name(kernel.splits[3] + self.block.places[address(ref)])
        for block in range(self.block.mesh.blocks):
            first = address(self.block.twin(ref, block))
            for n, place in enumerate(np.ndindex(ref.shape)):
                name = whole + (f"[{', '.join(map(str, place))}]" if place else "") + self.block.of(block)
                made = Phases(name, len(known), arrivals, tensor, self.agents.count, axes=axes, leader=leader)
                known.setdefault(first + n * ref.itemsize, made)

    def barrier(self, part: Part, block: int | None = None) -> Phases:
        """A barrier of this block, or the one at its place in another block."""
        _, places, _ = self.part(part, "a barrier")
        held = part[0] if block is None else self.block.twin(part[0], block)
        return self.block.phases[address(held) + np.asarray(places).item() * held.itemsize]

    def peers(self, axes: tuple[int, ...]) -> list[int]:
        """The blocks of the cluster along some axes, this one among them."""
        mesh = self.block.mesh
        first = self.rank - sum(self.rank // step % n * step for n, step, _ in mesh.strides(axes))
        return [first + offset for offset in mesh.offsets(axes)]

    def arrive(self, part: Part) -> None:
        own = self.barrier(part)
        for block in self.peers(own.axes)[: 1 if own.leader else None]:
            self.arrive_at(self.barrier(part, block), self.clock.copy())

    def arrive_at(self, phases: Phases, clock: np.ndarray) -> None:
        self.told(phases, phases.arrive(self.seen(phases, clock)))

    def seen(self, phases: Phases, clock: np.ndarray) -> np.ndarray:
        """The vector clock that a barrier publishes."""
        if not phases.tensor:
            clock[:, self.agents.tensor] = 0
        return clock

    def told(self, phases: Phases, ends: bool) -> None:
        self.clock[0, self.number] += 1
        if ends:
            self.check_waited(phases)
        self.mixed()

    def check_waited(self, phases: Phases) -> None:
        """Who waited for the phase before this one, and may not have seen its end, is overtaken."""
        for count, thread, step in phases.waited.values():
            if count == phases.done - 1 and phases.last[0, thread] < step:
                raise self.race(
                    f"ends phase {phases.done - 1} of {phases.name}, while {self.block.name(thread)} may still wait "
                    f"for phase {phases.done - 2}: nothing orders the two",
                    "let that warpgroup arrive at a barrier, after its wait, that is waited for before")  # fmt: skip

    def await_phase(self, part: Part) -> None:
        phases = self.barrier(part)
        count = phases.waited.get(self.number, (0, 0, 0))[0]

        def wanted() -> str:
            return (f"waits for phase {count} of {phases.name}; {phases.done} are over, and of the next "
                    f"{phases.pending} of {phases.arrivals} arrivals have come")  # fmt: skip

        if phases.done <= count:
            self.pause(lambda: phases.done > count, wanted)
        if phases.done > count + 1:
            raise self.race(
                f"waits for phase {count} of {phases.name}, which is at phase {phases.done}: a wait sees whether a "
                "phase is odd, not which one it is", "wait for each phase, before the next one ends")  # fmt: skip
        self.clock: np.ndarray = np.maximum(self.clock, phases.last)
        self.clock[0, self.number] += 1
        phases.waited[self.number] = count + 1, self.number, int(self.clock[0, self.number])
        self.mixed()

    # ------------------------------------------------------------ copies

    def load(self, src: Part, dst: Part, bar: Part, shared: Shared | None) -> None:
        """A copy to this block or, as part of a collective copy, to each block of the cluster."""
        source, come, inside = self.part(src, "the source of a copy")
        _, go, _ = self.part(dst, "the destination of a copy")
        blocks = [self.rank] if shared is None else self.peers(shared.axes)
        mine, far = blocks.index(self.rank), shared is not None and not shared.leader
        if shared is not None and shared.axis is not None:  # its part of the source
            come, inside = (np.split(x, len(blocks), shared.axis)[mine] for x in (come, inside))
        if far:
            go = np.split(go, len(blocks))[mine]
        own, ends = self.barrier(bar), []
        phase = own.done
        if shared is None or far or not mine:
            own.arrive(self.seen(own, self.clock.copy()), len(blocks))
        for block in blocks if far else [self.rank]:
            phases = self.barrier(bar, block if far else blocks[0])
            if far and phases.done != phase:
                raise self.race(
                    f"copies for phase {phase} of {own.name}, and {phases.name} is at phase {phases.done}",
                    "let the blocks of the cluster wait for each other, at a ClusterBarrier")  # fmt: skip
            agent, step = self.agents.at(phases.number), phases.done + 1
            self.touch(source, come[inside], "reads", agent, step, 1)
            target = self.block.memory[address(self.block.twin(dst[0], block))]
            self.touch(target, go.ravel(), "writes", agent, step, 1)
            target.flat[go] = np.where(inside, source.flat[come], np.zeros((), target.array.dtype))
            phases.copies.append((step, self.source))
            clock = self.seen(phases, self.clock.copy())
            clock[0, agent] = step
            ends.append((phases, phases.land(clock)))
        for phases, over in ends:
            self.told(phases, over)

    def store(self, src: Part, dst: Part, reduction: str | None) -> None:
        step = self.steps["reading"] + 1
        source, come, _ = self.part(src, "the source of a copy")
        target, go, inside = self.part(dst, "the destination of a copy")
        self.touch(source, come.ravel(), "reads", self.agents.of("reading", self.number), step, 1)
        kind = "writes" if reduction is None else "updates"
        self.touch(target, go[inside], kind, self.agents.of("writing", self.number), step, 1)
        value, at = source.flat[come][inside], go[inside]
        target.flat[at] = value if reduction is None else _COMBINE[reduction](target.flat[at], value)
        self.open, self.lines["reading"] = True, self.source

    def commit_group(self) -> None:
        self.steps["reading"] += 1
        self.open: bool = False

    def wait_group(self, n: int, read_only: bool) -> None:
        for kind in ("reading",) if read_only else ("reading", "writing"):
            self.over(kind, self.steps["reading"] - n)

    def over(self, kind: str, step: int) -> None:
        """Steps of an agent of this warpgroup are known to be done."""
        agent = self.agents.of(kind, self.number)
        self.clock[0, agent] = max(self.clock[0, agent], step)

    def commit_smem(self) -> None:
        self.commit(1)

    def commit(self, row: int) -> None:
        self.clock[row] = np.maximum(self.clock[row], self.clock[0])
        self.clock[0, self.number] += 1

    # ------------------------------------------------------------ products

    def operand(self, part: Any, turned: bool, agent: int, step: int, what: str) -> np.ndarray:
        if isinstance(part, np.ndarray):
            return part.astype(np.float32)
        memory, places, _ = self.part(part, what)
        space = self.block.kernel.scratch[self.block.places[address(part[0])]].space
        self.touch(memory, places.ravel(), "reads", agent, step, 2 if space is MemorySpace.TMEM else 1)
        found = memory.flat[places].astype(np.float32)
        return found.T if turned else found

    def multiply(self, acc: np.ndarray, a: Any, b: Part, turned: tuple[bool, bool]) -> None:
        agent, step = self.agents.of("products", self.number), self.steps["products"] + 1
        left, right = (self.operand(x, t, agent, step, f"operand {n} of wgmma")
                       for x, t, n in ((a, turned[0], "a"), (b, turned[1], "b")))  # fmt: skip
        memory = self.find(acc)
        assert memory is not None
        self.touch(memory, memory.elements.ravel(), "writes", agent, step)
        memory.array[...] = (memory.array.astype(np.float32) + left @ right).astype(memory.array.dtype)
        self.steps["products"], self.lines["products"] = step, self.source

    def wait_products(self, n: int) -> None:
        self.over("products", self.steps["products"] - n)

    def pair(self, joint: bool) -> list[int]:
        """The blocks that a product is of, which the first of them starts."""
        if joint and self.rank % 2:
            raise KernelBodyError(
                f"kernel {self.kernel}, {self.title}: the second block of a pair starts a product of both", "start it "
                "where `lax.axis_index` of the axis is 0", self.source)  # fmt: skip
        return [self.rank, self.rank + 1] if joint else [self.rank]

    def multiply_there(self, acc: Part, a: Part, b: Part, accumulate: ArrayLike, turned: tuple[bool, bool], joint: bool
                       ) -> None:  # fmt: skip
        agent, step = self.agents.of("tensor", self.number), self.steps["tensor"] + 1
        blocks = self.pair(joint)

        def of(part: Part, block: int) -> Part:
            return (self.block.twin(part[0], block), *part[1:])

        left, right = ([self.operand(of(x, block), t, agent, step, f"operand {n} of tcgen05_mma") for block in blocks]
                       for x, t, n in ((a, turned[0], "a"), (b, turned[1], "b")))  # fmt: skip
        columns = np.concatenate(right, axis=1)
        for block, rows in zip(blocks, left, strict=True):
            memory, places, _ = self.part(of(acc, block), "the accumulator")
            self.touch(memory, places.ravel(), "writes", agent, step, 2)
            start = memory.flat[places].astype(np.float32) if accumulate else np.float32(0)
            memory.flat[places] = (start + rows @ columns).astype(memory.array.dtype)
        self.lines["tensor"] = self.source

    def arrive_after_products(self, part: Part, joint: bool) -> None:
        self.steps["tensor"] += 1
        self.lines.pop("tensor", None)
        for block in self.pair(joint):
            clock = self.clock.copy()
            clock[0, self.agents.of("tensor", self.number)] = self.steps["tensor"]
            self.arrive_at(self.barrier(part, block), clock)

    def load_there(self, part: Part) -> np.ndarray:
        memory, places, _ = self.part(part, "the source of async_load_tmem")
        self.steps["tensor loads"] += 1
        self.touch(memory, places.ravel(), "reads", self.agents.of("tensor loads", self.number),
                   self.steps["tensor loads"])  # fmt: skip
        return memory.flat[places]

    def store_there(self, part: Part, value: np.ndarray) -> None:
        memory, places, _ = self.part(part, "the destination of async_store_tmem")
        self.steps["tensor stores"] += 1
        self.touch(memory, places.ravel(), "writes", self.agents.of("tensor stores", self.number),
                   self.steps["tensor stores"])  # fmt: skip
        memory.flat[places] = value

    def wait_loads(self) -> None:
        self.over("tensor loads", self.steps["tensor loads"])

    def commit_tmem(self) -> None:
        self.over("tensor stores", self.steps["tensor stores"])
        self.commit(2)

    # ------------------------------------------------------------ the end

    def check_end(self) -> None:
        """What this warpgroup started is waited for."""
        ends = f"kernel {self.kernel}, {self.title}, cell {self.cell}: ends while"
        reading = int(self.clock[0, self.agents.of("reading", self.number)])
        if self.open or self.steps["reading"] > reading and "reading" in self.lines:
            raise SemaphoreError(f"{ends} a copy to global memory may still read shared memory",
                                 "call `wait_smem_to_gmem(0)`", self.lines["reading"])  # fmt: skip
        if self.steps["products"] > self.clock[0, self.agents.of("products", self.number)]:
            raise SemaphoreError(f"{ends} a product is under way that nothing waited for",
                                 "read the accumulator, or call `wgmma_wait(0)`", self.lines["products"])  # fmt: skip


class Warp(Warpgroup):
    """One warp's run of a part of a body."""

    program: Program
    operands: Sequence[Any]
    own: dict[int, Memory]

    def __init__(self, whole: Warpgroup, number: int, program: Program, operands: Sequence[Any]):
        super().__init__(whole.block, number, whole.params)
        self.own, self.program, self.operands = whole.own, program, operands
        self.clock: np.ndarray = whole.clock.copy()
        self.clock[0, number] += 1
        for phases in whole.block.phases.values():
            if whole.number in phases.waited:
                phases.waited[number] = phases.waited[whole.number]

    def work(self) -> None:
        with observing(self.observe):
            evaluate(self.program, *self.operands)
        self.check_end()


def interpret_mesh(kernel: Kernel, arrays: Sequence[Any], params: InterpretParams) -> list[np.ndarray]:
    """Run a kernel for warpgroups, one cluster of blocks after another; gives its outputs.

    Raises:
      RaceError: accesses that nothing orders, and barriers that may be a phase further than a wait.
      DeadlockError: warpgroups that wait for what no one does. SemaphoreError: what is under way when a block ends.
      UncoveredOutputError: elements of outputs that no block writes.
    """
    mesh = mesh_of(kernel)
    assert mesh is not None
    inputs = [Everywhere(b.name, np.array(a)) for b, a in zip(kernel.inputs, arrays, strict=True)]
    with run_as(Run(kernel.name, params)):
        outputs = [Everywhere(b.name, poison(b.array.shape, b.array.dtype)) for b in kernel.outputs]
        clusters, record = list(np.ndindex(*mesh.grid)), params.grid_point_recorder
        if params.random_seed is not None:
            clusters = [clusters[i] for i in np.random.default_rng(params.random_seed).permutation(len(clusters))]
        for ids in clusters:
            if record is not None:
                for place in np.ndindex(*mesh.cluster):
                    record((*ids, *place))
            Cluster(kernel, mesh, ids, [*inputs, *outputs], params).run_all()
    for output in outputs:
        bare = np.flatnonzero((output.seen["writes"] == -1) & (output.seen["updates"] == -1))
        if bare.size:
            place = tuple(int(i) for i in np.unravel_index(bare[0], output.array.shape))
            raise kernel.error(UncoveredOutputError, f"no block writes element {place} of output {output.name} "
                               f"({bare.size} of {output.array.size} are not written)", "write all of it")  # fmt: skip
    return [output.array for output in outputs]
