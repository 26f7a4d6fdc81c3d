"""What orders the accesses of a block to memory: phases of barriers that were waited for.

Every agent that touches memory counts its own steps: a warpgroup; its products; its copies to global memory, as readers
and as writers; its products, loads and stores of tensor memory; and at each barrier the copies that it counts. A
*clock* says of each agent up to which step it is known to be done. An arrival leaves the clock of its warpgroup at the
barrier, a wait takes it up. For every element the last step that wrote it is kept, and each agent's last that read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...core.support.errors import Source

KINDS = ("itself", "products", "reading", "writing", "tensor", "tensor loads", "tensor stores")
PAST = np.iinfo(np.int64).max  # a step that is always over


@dataclass(frozen=True)
class Agents:
    """The numbers of the agents of a block of some warpgroups; those of barriers follow."""

    threads: int
    barriers: int

    @property
    def count(self) -> int:
        return len(KINDS) * self.threads + self.barriers

    def of(self, kind: str, thread: int) -> int:
        return KINDS.index(kind) * self.threads + thread

    def at(self, barrier: int) -> int:
        """The copies that a barrier counts."""
        return len(KINDS) * self.threads + barrier

    def kind(self, agent: int) -> tuple[str, int]:
        """What an agent is, and of which warpgroup or barrier."""
        kind, number = divmod(agent, self.threads)
        if kind >= len(KINDS):
            return "copies", agent - len(KINDS) * self.threads
        return KINDS[kind], number

    @property
    def tensor(self) -> slice:
        """The agents that only barriers of the tensor cores order."""
        return slice(KINDS.index("tensor") * self.threads, len(KINDS) * self.threads)


@dataclass(frozen=True)
class Conflict:
    """An element, and the access before that nothing orders: who, when, and what it did."""

    element: int
    agent: int
    step: int
    kind: str


@dataclass(eq=False)
class Memory:
    """One Ref of a block: its array, and the last accesses to each element."""

    name: str
    array: np.ndarray
    far: bool = False  # in global memory
    writer: np.ndarray = field(init=False)
    written: np.ndarray = field(init=False)
    reads: dict[int, np.ndarray] = field(default_factory=dict)
    lines: dict[tuple[int, int, str], Source | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writer, self.written = np.zeros(self.array.size, np.int32), np.zeros(self.array.size, np.int64)
        self.elements: np.ndarray = np.arange(self.array.size).reshape(self.array.shape)
        self.flat: np.ndarray = self.array.reshape(-1)  # the same memory

    def place(self, element: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(element, self.array.shape))

    def conflict(self, elements: np.ndarray, kind: str, wrote: np.ndarray, read: np.ndarray) -> Conflict | None:
        """An access before that is not known to be over: `wrote` and `read` are what is known of writers, readers."""
        late = self.written[elements] > wrote[self.writer[elements]]
        if late.any():
            e = int(elements[late][0])
            return Conflict(e, int(self.writer[e]), int(self.written[e]), "writes")
        if kind == "writes":
            for agent, times in self.reads.items():
                late = times[elements] > read[agent]
                if late.any():
                    e = int(elements[late][0])
                    return Conflict(e, agent, int(times[e]), "reads")
        return None

    def touch(self, elements: np.ndarray, kind: str, agent: int, step: int, line: Source | None) -> None:
        self.lines[agent, step, kind] = line
        if kind == "writes":
            self.writer[elements], self.written[elements] = agent, step
        else:
            times = self.reads.setdefault(agent, np.zeros(self.array.size, np.int64))
            times[elements] = step


@dataclass(eq=False)
class Everywhere:
    """An array in global memory: the blocks that touched each element (-1: none, -2: several)."""

    name: str
    array: np.ndarray

    def __post_init__(self) -> None:
        kinds = ("reads", "writes", "updates")
        self.seen: dict[str, np.ndarray] = {kind: np.full(self.array.size, -1, np.int64) for kind in kinds}

    def conflict(self, elements: np.ndarray, kind: str, block: int) -> tuple[int, int, str] | None:
        """An element that another block touched, which block (-2: several), and how."""
        for other, seen in self.seen.items():
            if "writes" not in (kind, other) and (kind == other or "reads" not in (kind, other)):
                continue
            who = seen[elements]
            late = (who != -1) & (who != block)
            if late.any():
                return int(elements[late][0]), int(who[late][0]), other
        return None

    def touch(self, elements: np.ndarray, kind: str, block: int) -> None:
        seen = self.seen[kind]
        who = seen[elements]
        seen[elements] = np.where((who == -1) | (who == block), block, -2)


@dataclass(eq=False)
class Phases:
    """One barrier: how many of its phases are over, and what those who wait for the last one learn."""

    name: str
    number: int
    arrivals: int
    tensor: bool
    size: int  # of a clock
    done: int = 0
    pending: int = 0
    # Of each thread: the phases waited for, and by which thread, in which of its steps, the last one.
    waited: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    copies: list[tuple[int, Source | None]] = field(default_factory=list)  # the phase, and the line of each
    axes: tuple[int, ...] = ()  # of the cluster, along which an arrival counts at all blocks
    leader: bool = False  # or at the first of them alone
    missing: int = 0  # copies that are announced and have not come

    def __post_init__(self) -> None:
        self.clock: np.ndarray = np.zeros((3, self.size), np.int64)
        self.last: np.ndarray = self.clock.copy()

    def arrive(self, clock: np.ndarray, copies: int = 0) -> bool:
        """One arrival, with what its warpgroup knows, which announces copies; whether it ends the phase."""
        self.clock = np.maximum(self.clock, clock)
        self.pending += 1
        self.missing += copies
        return self._ends()

    def land(self, clock: np.ndarray) -> bool:
        """One of the copies that are announced has come; whether it ends the phase."""
        self.clock = np.maximum(self.clock, clock)
        self.missing -= 1
        return self._ends()

    def _ends(self) -> bool:
        if self.pending < self.arrivals or self.missing:
            return False
        self.last, self.clock = self.clock, np.zeros_like(self.clock)
        self.pending, self.done = 0, self.done + 1
        return True
