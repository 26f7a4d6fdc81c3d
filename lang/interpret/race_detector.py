"""Races between cells of parallel axes, found while a kernel is interpreted.

For every location of an operand: who read it, wrote it, updated it atomically (two cells of different groups each,
which is enough to find a conflict with any third). A group is the cells that share their ids on the parallel axes.
Blocks count as read when they are copied in and as written when they are copied out; memory that a body reaches
itself (`ANY`, `HBM`) is watched access by access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.ir.array import Operand
from ...core.ir.program import Eqn
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, numpy_index, split_operands, swap_p
from ...core.support.errors import RaceError
from ..kernel.kernel import Block, Kernel
from ..ops.atomics import across_cells, atomic_cas_p, atomic_rmw_p
from ..ops.dma import dma_start_p, parts_of
from ..ops.interpret_params import address

_CONFLICTS = {"reads": ("writes", "updates"), "writes": ("reads", "writes", "updates"), "updates": ("reads", "writes")}
# How many values follow the Ref, and what the access does.
ACCESSES = {
    get_p: (0, "reads"), swap_p: (1, "writes"), addupdate_p: (1, "writes"), atomic_rmw_p: (1, "updates"),
    atomic_cas_p: (2, "updates"),
}  # fmt: skip


Picks = Callable[[np.ndarray], np.ndarray]


def accesses(eqn: Eqn, values: Sequence[Any], what: str = "") -> Iterator[tuple[Any, str, Picks]]:
    """What an equation does to Refs: each, how it touches it, and what picks the places touched out of those of all.

    `what` is it in messages.
    """
    params = eqn.params
    if eqn.primitive in ACCESSES:
        n, kind = ACCESSES[eqn.primitive]
        masked = params.get("masked", False)
        yield values[0], kind, _picks(what or str(eqn.primitive), values[0], params["index"], values[1 + n :], masked)
    elif eqn.primitive is dma_start_p:
        parts = parts_of(values, params["src"], params["dst"], params["sem"])[:2]
        for (ref, at), name, kind in zip(parts, ("src", "dst"), ("reads", "writes"), strict=True):
            yield ref, kind, _picks("make_async_copy", ref, params[name], at, False)


def _picks(what: str, ref: Operand, index: Any, rest: Sequence[Any], masked: bool) -> Picks:
    def pick(places: np.ndarray) -> np.ndarray:
        dynamic, mask, _ = split_operands(index, rest, masked)
        found = np.asarray(places[numpy_index(index, dynamic, ref.shape, masked, what)])
        return (found if mask is None else found[np.asarray(mask)]).ravel()

    return pick


class Memory:
    """Who touched each location of one array: two cells for each kind of access."""

    def __init__(self, block: Block):
        self.block = block
        self.size: int = block.array.size
        self.seen: dict[str, np.ndarray] = {kind: np.full((2, self.size), -1, np.int64) for kind in _CONFLICTS}


class Races:
    """The accesses of a kernel's run so far."""

    def __init__(self, kernel: Kernel, parallel: Sequence[int]):
        self.kernel = kernel
        ids = np.indices(kernel.grid).reshape(len(kernel.grid), -1) if kernel.grid else np.zeros((0, 1), np.int64)
        self.group = np.zeros(ids.shape[1], np.int64)
        for axis in parallel:
            self.group: Any = self.group * kernel.grid[axis] + ids[axis]
        outputs = [Memory(b) for b in kernel.outputs]
        shared = dict(kernel.aliases)
        inputs = [outputs[shared[i]] if i in shared else Memory(b) for i, b in enumerate(kernel.inputs)]
        self.memories: list[Memory] = [*inputs, *outputs]
        self.cell = 0
        self.reached: dict[int, tuple[Memory, np.ndarray]] = {}

    def number(self, ids: tuple[int, ...]) -> int:
        return int(np.ravel_multi_index(ids, self.kernel.grid)) if ids else 0

    def crosses(self, ids: tuple[int, ...]) -> bool:
        """Whether a cell is of another group than the one at hand."""
        return bool(self.group[self.number(ids)] != self.group[self.cell])

    def enter(self, ids: tuple[int, ...]) -> None:
        self.cell: int = self.number(ids)
        self.reached = {}

    def reach(self, array: np.ndarray, memory: Memory, positions: np.ndarray) -> None:
        """From here on accesses to `array` are accesses to these locations of `memory`."""
        self.reached[address(array)] = (memory, positions)

    def touch(self, memory: Memory, positions: np.ndarray, kind: str, eqn: Eqn | None = None) -> None:
        """Note an access of the cell at hand; an error if it races."""
        at = np.unique(positions[positions >= 0])
        mine = self.group[self.cell]
        for other in _CONFLICTS[kind]:
            for slot in memory.seen[other]:
                who = slot[at]
                bad = (who >= 0) & (self.group[who] != mine)
                if bad.any():
                    first = int(np.flatnonzero(bad)[0])
                    self.refuse(memory, int(at[first]), int(who[first]), other, kind, eqn)
        one, two = memory.seen[kind]
        new = at[one[at] < 0]
        one[new] = self.cell
        different = at[(two[at] < 0) & (self.group[one[at]] != mine)]
        two[different] = self.cell

    def refuse(self, memory: Memory, position: int, cell: int, before: str, now: str, eqn: Eqn | None) -> None:
        block, kernel = memory.block, self.kernel
        place = tuple(int(i) for i in np.unravel_index(position, block.array.shape))
        cells = [tuple(int(i) for i in np.unravel_index(c, kernel.grid)) for c in (cell, self.cell)]
        raise kernel.error(
            RaceError, f"cell {cells[1]} {now} element {place} of {block.name}, which cell {cells[0]} {before}, and "
            "nothing orders the two: they differ on a parallel axis",
            'use an atomic operation (its scope at least "gpu"), give each cell its own part, or declare the axis '
            '"arbitrary"', eqn and eqn.source)  # fmt: skip

    def observe(self, eqn: Eqn, values: list[Any]) -> None:
        """Note what one equation of the body does to memory that it reaches itself."""
        for ref, kind, pick in accesses(eqn, values) if self.reached else ():
            found = self.reached.get(address(ref)) if isinstance(ref, np.ndarray) else None
            if found is not None:
                alone = kind == "updates" and not across_cells(eqn.primitive, eqn.params)
                self.touch(found[0], pick(found[1]), "writes" if alone else kind, eqn)
