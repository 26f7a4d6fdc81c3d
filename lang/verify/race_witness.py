"""Two cells that show a race on scratch: one reads an element that the other, of other parallel ids, wrote last.

What cells do to one element is worked out for all of them at once, as tables that broadcast to the grid; what data
decides is distinguished: an access counts only where it is sure, an earlier store also where it may be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.ir.program import Eqn, Program, Var
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.refs.state_primitives import Index, Span, Take, addupdate_p, get_p, swap_p
from ..analysis.affine import MAX_CELLS, predicate
from ..analysis.loop_carried import followed, surely
from ..kernel.kernel import Kernel
from ..kernel.traverse import inner_programs

Cell = tuple[int, ...]


@dataclass(frozen=True)
class Witness:
    """An element of a Ref, the cell that reads it, the cell that wrote it last before, and their equations."""

    element: Cell
    reader: Cell
    writer: Cell
    read: Eqn
    write: Eqn


def holds(index: Index, element: Sequence[int]) -> bool | None:
    """Whether an access reaches an element; None if that is computed."""
    sure = True
    for entry, at in zip(index, element, strict=True):
        if entry.start is None:
            sure = False
        elif isinstance(entry, Span):
            if at not in range(entry.start, entry.start + entry.size * entry.stride, entry.stride):
                return False
        elif at != entry.start:
            return False
    return True if sure else None


def first_of(index: Index) -> Cell | None:
    """The first element that an access reaches; None if that is computed."""
    starts = [None if isinstance(entry, Take) else entry.start for entry in index]
    return None if None in starts else tuple(starts)  # type: ignore[arg-type]


class _Uses:
    """What the cells of a kernel do to one element of a Ref: `reads`, before they have written it themselves, and
    `writes`, each an equation with the cells that surely do it; `touched`, the cells that may have written it."""

    def __init__(self, kernel: Kernel, ref: Var, element: Cell):
        self.grid, self.element = kernel.grid, element
        everywhere, nowhere = (np.full((1,) * len(kernel.grid), b) for b in (True, False))
        self.nowhere, self.touched = nowhere, nowhere
        self.reads: list[tuple[Eqn, np.ndarray]] = []
        self.writes: list[tuple[Eqn, np.ndarray]] = []
        self.walk(kernel.body, kernel.body.eqns, ref, everywhere, everywhere, True)

    def walk(self, scope: Program, eqns: Sequence[Eqn], ref: Var, sure: np.ndarray, may: np.ndarray,
             ids: bool) -> None:  # fmt: skip
        """Follow equations that some cells run (`sure`) or may run; `ids`: the inputs of `scope` begin with the ids."""
        used = {a for e in scope.eqns for a in e.inputs} | set(scope.outputs)
        for eqn in (e for e in eqns if ref in e.inputs):
            if eqn.primitive is cond_p:
                self.choose(scope, eqn, ref, sure, may, ids)
            elif eqn.primitive is scan_p and eqn.params["length"] and eqn.inputs.count(ref) == 1:
                inner = eqn.params["program"]
                here = inner.inputs[eqn.inputs.index(ref) - len(eqn.inputs) + len(inner.inputs)]
                self.walk(inner, inner.eqns, here, sure, may, False)
            elif eqn.primitive in (get_p, swap_p, addupdate_p):
                self.access(eqn, sure, may, eqn.primitive is not swap_p or eqn.outputs[0] in used)
            else:
                self.touched = self.touched | may

    def access(self, eqn: Eqn, sure: np.ndarray, may: np.ndarray, reads: bool) -> None:
        here = holds(eqn.params["index"], self.element)
        if here is False:
            return
        if here is None or eqn.params.get("masked"):
            sure = self.nowhere
        if reads and (sure & ~self.touched).any():
            self.reads.append((eqn, sure & ~self.touched))
        if eqn.primitive is not get_p:
            self.touched = self.touched | may
            self.writes.append((eqn, sure))

    def choose(self, scope: Program, eqn: Eqn, ref: Var, sure: np.ndarray, may: np.ndarray, ids: bool) -> None:
        programs = eqn.params["branches"]
        table = predicate(scope, eqn.inputs[0], self.grid) if ids else None
        always = surely(scope, eqn.inputs[0], self.grid) if ids and table is None and len(programs) == 2 else None
        before, after = self.touched, self.touched
        for number in range(len(programs)):
            if table is not None:
                taken = possible = np.clip(table, 0, len(programs) - 1) == number
            elif always is not None:
                taken, possible = (always, ~self.nowhere) if number else (self.nowhere, ~always)
            else:
                taken, possible = self.nowhere, ~self.nowhere
            inner, self.touched = followed(scope, eqn, number), before
            self.walk(inner, inner.eqns[len(scope.eqns) :], ref, sure & taken, may & possible, ids)
            after = after | self.touched
        self.touched = after

    def witness(self, kernel: Kernel, parallel: Sequence[int]) -> Witness | None:
        """The first cell that reads what a cell of other parallel ids was the last to write."""
        tables = [t for _, t in (*self.reads, *self.writes)] + [self.touched]
        sizes = [max(min(n, 2), *(t.shape[a] for t in tables)) for a, n in enumerate(kernel.grid)]
        if not self.reads or math.prod(sizes) > MAX_CELLS:
            return None
        read, wrote, touched = (
            np.broadcast_to(np.any(np.broadcast_arrays(self.nowhere, *ts), axis=0), sizes).reshape(-1)
            for ts in ([t for _, t in self.reads], [t for _, t in self.writes], [self.touched])
        )
        numbers = np.arange(read.size)
        last = np.concatenate([[-1], np.maximum.accumulate(np.where(touched, numbers, -1))[:-1]])
        group = np.zeros(read.size, np.int64)
        for axis, at in zip(range(len(sizes)), np.unravel_index(numbers, sizes), strict=True):
            group = group * sizes[axis] + (at if axis in parallel else 0)
        shown = np.flatnonzero(read & (last >= 0) & wrote[last] & (group[last] != group))
        if not shown.size:
            return None
        ends = [np.unravel_index(n, sizes) for n in (shown[0], last[shown[0]])]
        reader, writer = (tuple(map(int, end)) for end in ends)
        read_by = next(e for e, t in self.reads if np.broadcast_to(t, sizes)[reader])
        written_by = next(e for e, t in reversed(self.writes) if np.broadcast_to(t, sizes)[writer])
        return Witness(self.element, reader, _last(writer, reader, sizes, kernel.grid), read_by, written_by)


def _last(writer: Cell, reader: Cell, sizes: Sequence[int], grid: Sequence[int]) -> Cell:
    """The cell of a long axis that two cells represent: past the axis where it leaves the reader, the last."""
    differ = next(a for a, (w, r) in enumerate(zip(writer, reader, strict=True)) if w != r)
    return tuple(grid[a] - 1 if a > differ and n < grid[a] and w else w
                 for a, (w, n) in enumerate(zip(writer, sizes, strict=True)))  # fmt: skip


def _read(program: Program, ref: Var) -> Iterator[Index]:
    """The places of the accesses to a Ref that may read, those of branches and loops included."""
    for eqn in (e for e in program.eqns if ref in e.inputs):
        if eqn.primitive in (get_p, swap_p, addupdate_p):
            yield eqn.params["index"]
        for inner, given in inner_programs(eqn):
            for var in (v for v, a in zip(inner.inputs, given, strict=True) if a is ref):
                yield from _read(inner, var)


def witness(kernel: Kernel, ref: Var, parallel: Sequence[int]) -> Witness | None:
    """Cells that show that a Ref is carried between cells that differ on the `parallel` axes; None: none is known."""
    for element in dict.fromkeys(map(first_of, _read(kernel.body, ref))):
        found = None if element is None else _Uses(kernel, ref, element).witness(kernel, parallel)
        if found is not None:
            return found
    return None
