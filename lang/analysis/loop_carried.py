"""A kernel in time: where its branches are taken, what its Refs hold from cell to cell, and which grid axes carry.

A state is a scratch, or an output whose block several cells see. Its carry axes are those along which it stays live.
Tables of cells are boolean arrays that broadcast to the grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...core.ir.program import Eqn, Literal, Program, Var
from ...core.ir.types import FAR, RefType
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.elementwise.arithmetic import add_p
from ...core.primitives.elementwise.bitwise import and_p, or_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.refs.state_primitives import Index, Point, Span, addupdate_p, swap_p
from ...core.support.memo import kept
from ..kernel.canonicalize import normalize, rename
from ..kernel.kernel import Kernel
from ..kernel.traverse import inner_programs
from ..ops.atomics import across_cells
from .affine import MAX_CELLS, dependencies, predicate, slice_of
from .disjoint_parts import disjoint_axes
from .index_maps import map_of, separating_axes, shared_block

Axes = tuple[int, ...]


def branch_of(eqn: Eqn, taken: int) -> Program:
    """A branch of a `cond`, its inputs replaced by what it is given."""
    return rename(eqn.params["branches"][taken], eqn.inputs[1:])


def followed(scope: Program, eqn: Eqn, taken: int) -> Program:
    """A Program with a branch of a `cond` after its equations."""
    branch = branch_of(eqn, taken)
    return scope.replace(
        eqns=[*scope.eqns, *branch.eqns], outputs=branch.outputs,
        constants=[*scope.constants, *branch.constants], values=[*scope.values, *branch.values])  # fmt: skip


def overwrites(eqn: Eqn, ref: Var) -> bool:
    """Whether an equation is an unmasked store to the whole of a Ref."""
    return (eqn.primitive is swap_p and eqn.inputs[0] is ref and not eqn.params.get("masked")
            and eqn.params["index"].is_whole(ref.type.shape))  # fmt: skip


def fills(eqn: Eqn, ref: Var) -> bool:
    """Whether an equation is a loop that stores a whole Ref row by row, counted from 0, and reads nothing of it."""
    if eqn.primitive is not scan_p or eqn.inputs.count(ref) != 1 or not ref.type.shape:
        return False
    program, consts = eqn.params["program"], eqn.params["num_consts"]
    here = program.inputs[eqn.inputs.index(ref)]
    used = {a for e in program.eqns for a in e.inputs} | set(program.outputs)
    stores = [e for e in program.eqns if here in e.inputs]
    if any(e.primitive is not swap_p or e.outputs[0] in used for e in stores):
        return False
    counted = set()  # what the loop counts from 0 by 1
    for var, out, start in zip(program.inputs[consts:], program.outputs, eqn.inputs[consts:], strict=False):
        added = [e for e in program.eqns if out in e.outputs and e.primitive is add_p and var in e.inputs]
        if type(start) is Literal and start.value == 0 and any(
                type(a) is Literal and a.value == 1 for e in added for a in e.inputs):  # fmt: skip
            counted.add(var)
    rows, rest = ref.type.shape[0], ref.type.shape[1:]
    return eqn.params["length"] == rows and any(
        not e.params["masked"] and e.params["index"].dynamic == [0] and type(e.params["index"][0]) is Point
        and Index(e.params["index"][1:]).is_whole(rest) and e.inputs[2] in counted for e in stores)  # fmt: skip


def writes(eqn: Eqn, ref: Var) -> bool:
    """Whether an equation may change what a Ref holds."""
    return any(
        e.kind in ("write", "accumulate") and isinstance(e.operand, int) and eqn.inputs[e.operand] is ref
        for e in eqn.effects
    )


def changes(program: Program, ref: Var) -> Iterator[Eqn]:
    """The equations that may change what a Ref holds, those of branches and loops included."""
    for eqn in (e for e in program.eqns if writes(e, ref)):
        inner = list(inner_programs(eqn)) if eqn.primitive in (cond_p, scan_p) else []
        for one, given in inner:
            for v in (v for v, a in zip(one.inputs, given, strict=True) if a is ref):
                yield from changes(one, v)
        if not inner:
            yield eqn


def only_atomic(kernel: Kernel, number: int) -> bool:
    """Whether the body changes an output by atomic operations alone, so that parallel cells may share its blocks."""
    changed = list(changes(kernel.body, kernel.body.inputs[kernel.splits[2] + number]))
    return bool(changed) and all(across_cells(e.primitive, e.params) for e in changed)


def _reaches_all(eqns: Sequence[Eqn], ref: Var) -> bool:
    """Whether unmasked stores at known places reach every element of a Ref."""
    shape = ref.type.shape
    stores = [e.params["index"] for e in eqns
              if e.primitive in (swap_p, addupdate_p) and e.inputs[0] is ref and not e.params["masked"]]  # fmt: skip
    if any(index.is_whole(shape) for index in stores):
        return True
    if not stores or math.prod(shape) > MAX_CELLS:
        return False
    found = np.zeros(shape, bool)
    for index in stores:
        entries = [_entry(e) for e in index]
        if None not in entries:
            found[tuple(entries)] = True
    return bool(found.all())


def _entry(entry: Any) -> Any:
    """An entry of a static index as NumPy's; None for one that is computed."""
    start = entry.start
    if start is None:
        return None
    return slice(start, start + entry.size * entry.stride, entry.stride) if isinstance(entry, Span) else start


def taken(kernel: Kernel, eqn: Eqn) -> np.ndarray | None:
    """Where the second branch of a two-way `cond` of a kernel's body is taken; None if it is not known."""
    if eqn.primitive is not cond_p or len(eqn.params["branches"]) != 2:
        return None
    table = predicate(kernel.body, eqn.inputs[0], kernel.grid)
    return None if table is None else table != 0


def branches(kernel: Kernel, eqn: Eqn) -> list[tuple[Program, np.ndarray]] | None:
    """The branches of a `cond` with the cells that take them; None if those are not known."""
    table = taken(kernel, eqn)
    return None if table is None else [(branch_of(eqn, 0), ~table), (branch_of(eqn, 1), table)]


def surely(program: Program, test: Var, grid: Axes) -> np.ndarray:
    """Where a boolean of a Program over ids holds for sure, whatever data says."""
    made = {v: e for e in program.eqns for v in e.outputs}

    def holds(atom: Var) -> Any:
        table = predicate(program, atom, grid)
        eqn = made.get(atom) if type(atom) is Var else None
        if table is not None or eqn is None:
            return False if table is None else table != 0
        if eqn.primitive is convert_element_type_p:
            return holds(eqn.inputs[0])
        if eqn.primitive in (or_p, and_p):
            one, two = map(holds, eqn.inputs)
            return one | two if eqn.primitive is or_p else one & two
        return False

    return np.zeros((1,) * len(grid), bool) | holds(test)


@dataclass(frozen=True, eq=False)
class Guard:
    """A body that is one `when`: what it does there is `inner`; `test` (ids and Refs in, one output) says where."""

    inner: Kernel
    test: Program
    taken: int
    axes: frozenset[int]  # that the test depends on


class Carries:
    """Facts about a kernel's order of execution, each computed on first use.

    Refs are named by their position among the inputs of the body, for equal kernels share what is known.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def _cells(self, everywhere: bool) -> np.ndarray:
        return np.full((1,) * len(self.kernel.grid), everywhere)

    # ------------------------------------------------------------ blocks

    @kept
    def shared(self, number: int) -> Axes:
        """The grid axes that an output's index map depends on, though cells that differ in them may see one block."""
        fact = map_of(self.kernel, self.kernel.outputs[number])
        axes = () if fact is None or fact.table is None else fact.axes
        return tuple(a for a in axes if shared_block(fact, [a == b for b in axes]))  # type: ignore[arg-type]

    def ignored(self, number: int) -> Axes | None:
        """The grid axes along which cells may see one block of an output; None if that is not known."""
        fact = map_of(self.kernel, self.kernel.outputs[number])
        if fact is None:
            return None
        shared = self.shared(number)
        return tuple(a for a in self.kernel.long_axes if a not in fact.axes or a in shared)

    def touched(self, number: int) -> Axes:
        """The grid axes along which cells may reach one element of an output."""
        ignored = self.ignored(number)
        if ignored is None:
            apart = separating_axes(self.kernel, self.kernel.outputs[number])
            return tuple(a for a in self.kernel.long_axes if a not in apart)
        return tuple(a for a in ignored if a not in disjoint_axes(self.kernel, number))

    def meeting(self, number: int) -> Axes:
        """The axes along which cells may see one block of an output; if data says, none declared parallel."""
        ignored = self.ignored(number)
        if ignored is not None:
            return ignored
        far = self.kernel.outputs[number].space in FAR
        stated = () if far or only_atomic(self.kernel, number) else self.kernel.semantics or ()
        return tuple(a for a in self.kernel.long_axes if not stated or stated[a] != "parallel")

    # ------------------------------------------------------------ cells

    def ends(self, axes: Axes, last: bool) -> np.ndarray:
        """Where the first (or last) cells along some axes are."""
        out = self._cells(True)
        for axis in axes:
            n = self.kernel.grid[axis] if self.kernel.grid[axis] <= MAX_CELLS else 2  # no table goes over a longer axis
            ids = np.arange(n) == (n - 1 if last else 0)
            out = out & ids.reshape([-1 if a == axis else 1 for a in range(len(self.kernel.grid))])
        return out

    def written(self, position: int) -> np.ndarray | None:
        """The cells in which the body may write to a Ref; None if they are not known."""
        ref = self.kernel.body.inputs[position]
        found = self._cells(False)
        for eqn in self.kernel.body.eqns:
            if not writes(eqn, ref):
                continue
            each = branches(self.kernel, eqn)
            if each is None:
                return None
            for program, cells in each:
                if any(writes(e, ref) for e in program.eqns):
                    found = found | cells
        return found

    def filled(self, position: int) -> np.ndarray:
        """The cells whose stores are known to reach every element of a Ref."""
        ref = self.kernel.body.inputs[position]
        found = self._cells(_reaches_all(self.kernel.body.eqns, ref))
        for eqn in self.kernel.body.eqns:
            for program, cells in (branches(self.kernel, eqn) or ()) if ref in eqn.inputs else ():
                if _reaches_all(program.eqns, ref):
                    found = found | cells
        return found

    # ------------------------------------------------------------ carries

    def _walk(
        self, scope: Program, start: int, ref: Var, inside: np.ndarray, hopeful: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of the cells that run the equations of `scope` from `start` on, those that read a Ref's earlier value and
        those that overwrite it. Where data decides, the worst of both; if `hopeful`, the best."""
        read, left = self._cells(False), inside
        used = {a for e in scope.eqns for a in e.inputs} | set(scope.outputs)
        for eqn in scope.eqns[start:]:
            if ref not in eqn.inputs:
                continue
            if eqn.primitive is swap_p and eqn.outputs[0] not in used:
                here, gone = self._cells(False), self._cells(overwrites(eqn, ref))
            elif eqn.primitive is cond_p and len(eqn.params["branches"]) == 2:
                here, gone = self._either(scope, eqn, ref, left, hopeful)
            elif fills(eqn, ref):
                here, gone = self._cells(False), self._cells(True)
            else:
                here, gone = self._cells(True), self._cells(False)
            read, left = read | (left & here), left & ~gone
        return read, inside & ~left

    def _either(
        self, scope: Program, eqn: Eqn, ref: Var, inside: np.ndarray, hopeful: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """`_walk` of one of two branches."""
        table = predicate(scope, eqn.inputs[0], self.kernel.grid)
        known = table is not None
        sure = surely(scope, eqn.inputs[0], self.kernel.grid) if table is None else table != 0
        found = []
        for number, cells in enumerate((~sure, sure if known else self._cells(True))):
            found.append(self._walk(followed(scope, eqn, number), len(scope.eqns), ref, inside & cells, hopeful))
        (read, gone), (other, over) = found
        if known or not hopeful:
            return read | other, gone | over if known else (over & sure) | (gone & over)
        return (read & other) | (other & sure), gone | over

    @kept
    def carry_of(self, position: int, hopeful: bool = False) -> Axes:
        """The axes along which what a Ref holds outlives a cell: the fewest trailing ones, given where it is reset.

        Where data decides, as many as there may be; if `hopeful`, as few.
        """
        axes, ref = self.kernel.long_axes, self.kernel.body.inputs[position]
        read, gone = self._walk(self.kernel.body, 0, ref, self._cells(True), hopeful)
        if not read.any():
            return ()
        kept = read | ~gone  # not set anew, so that a later cell may read what was there
        return next(axes[k:] for k in range(len(axes), -1, -1)
                    if k == 0 or not (self.ends(axes[k:], False) & kept).any())  # fmt: skip

    def live(self, position: int) -> Axes:
        """The axes along which scratch is carried: those that it may outlive a cell along, less declared parallel ones.

        (That none is carried along these is checked where the kernel is called, as far as it is known.)
        """
        stated = self.kernel.semantics
        return tuple(a for a in (self.guarded or self).carry_of(position) if not stated or stated[a] != "parallel")

    @cached_property
    def guard(self) -> Guard | None:
        """The Guard that the body is, where its test reads ids and prefetched data alone; else None."""
        kernel, body = self.kernel, self.kernel.body
        first, last = kernel.splits[:2]
        prefetched = set(body.inputs[first:last])
        acts = [
            e for e in body.eqns
            if e.effects and not ({a for a in e.inputs if isinstance(a.type, RefType)} <= prefetched)
        ]  # fmt: skip
        if len(acts) != 1 or acts[0].primitive is not cond_p or len(acts[0].params["branches"]) != 2 or acts[0].outputs:
            return None
        (eqn,) = acts
        empty = [not b.eqns for b in eqn.params["branches"]]
        if sum(empty) != 1 or type(eqn.inputs[0]) is not Var or any(writes(eqn, ref) for ref in prefetched):
            return None
        taken = empty.index(False)
        rest = [e for e in body.eqns if e is not eqn]
        inner = kernel.replace(body=normalize(body.replace(eqns=[*rest, *branch_of(eqn, taken).eqns])))
        needs = dependencies(body, first)[eqn.inputs[0]]
        return Guard(inner, slice_of(body, [eqn.inputs[0]]), taken, frozenset(a for a in needs if a != "data"))

    @cached_property
    def guarded(self) -> Carries | None:
        """What is known of the kernel without its guard, where that holds for all cells of a run or for none."""
        inner = None if self.guard is None else Carries(self.guard.inner)
        return None if inner is None or self.guard.axes & set(inner.carry) else inner  # type: ignore[union-attr]

    @cached_property
    def carry(self) -> Axes:
        """The axes that run in order: along which scratch stays live or an output block is seen again."""
        if self.guarded is not None:  # what holds for all cells of a run changes nothing within it
            return self.guarded.carry
        _, _, _, outputs, end = self.kernel.splits
        found: set[int] = set()
        for number in range(len(self.kernel.outputs)):
            found |= set(self.meeting(number))
        for position in range(outputs, end):
            found |= set(self.live(position))
        return tuple(sorted(found))
