"""The shape of a kernel in time: which grid axes carry, and kernels that only add up, split in three.

A state is a scratch, or an output whose block several cells see. Its carry axes are those along which it
stays live. Where every state is only reset in the first cell of a run, added to in any cell, and read (or
overwritten) in the last, the kernel is `Phases`:

    init    the resets, run at the first cell          states := init
    main    what every cell adds and emits             states += main, in any order
    final   what the last cell makes of the sums       outputs := final(states)

Each is a Program with the inputs of the body (ids and Refs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.caches import cached
from ..core.ir import Atom, Effect, Eqn, Program, Var, subprograms
from ..core.primitives.compare import eq_p
from ..core.primitives.ref import Span, addupdate_p, swap_p
from ..core.trace import eval_program, trace_program
from ..core.types import RefType
from .affine import MAX_CELLS, dependencies, predicate, slice_of
from .kernel import Kernel
from .normalize import normalize, rename, touches_refs
from .ops import when
from .verify import map_of, shared_block

Axes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Phases:
    """A kernel of additive carries. `states` and `local` are positions among the inputs of the body."""

    carry: Axes
    states: tuple[int, ...]
    init: Program
    main: Program
    final: Program


def long_axes(kernel: Kernel) -> Axes:
    """The grid axes with more than one cell."""
    return tuple(a for a, n in enumerate(kernel.grid) if n > 1)


@cached(4096)
def shared_axes(kernel: Kernel, number: int) -> Axes:
    """The grid axes that an output's index map depends on, though cells that differ in them may see one block."""
    block = kernel.outputs[number]
    fact = map_of(kernel, block)
    if fact is None or fact.table is None:
        return ()
    return tuple(a for a in fact.axes if shared_block(block, fact, [a == other for other in fact.axes]) is not None)


def ignored_axes(kernel: Kernel, number: int) -> Axes | None:
    """The grid axes along which cells may see one block of an output; None if that is not known."""
    fact = map_of(kernel, kernel.outputs[number])
    if fact is None:
        return None
    shared = shared_axes(kernel, number)
    return tuple(a for a in long_axes(kernel) if a not in fact.axes or a in shared)


def _branch_of(eqn: Eqn, taken: int) -> Program:
    return rename(eqn.params["branches"][taken], eqn.inputs[1:])


@cached(1024)
def _at(kernel: Kernel, carry: Axes, last: bool) -> np.ndarray:
    """Where the first (or last) cells of the carry axes are, as an array that broadcasts to the grid."""
    out = np.ones((1,) * len(kernel.grid), bool)
    for axis in carry:
        n = kernel.grid[axis] if kernel.grid[axis] <= MAX_CELLS else 2  # no table goes over a longer axis
        ids = np.arange(n) == (n - 1 if last else 0)
        out = out & ids.reshape([-1 if a == axis else 1 for a in range(len(kernel.grid))])
    return out


def when_table(kernel: Kernel, eqn: Eqn) -> np.ndarray | None:
    """Where the second branch of a two-way `cond` is taken (broadcasts to the grid); None if it is not known."""
    if eqn.primitive.name != "cond" or len(eqn.params["branches"]) != 2:
        return None
    table = predicate(kernel.body, eqn.inputs[0], kernel.grid)
    return None if table is None else table != 0


def _first_access(eqns: Sequence[Eqn], ref: Var) -> Eqn | None:
    return next((e for e in eqns if ref in e.inputs), None)


def _overwrites(eqn: Eqn, ref: Var) -> bool:
    """Whether an equation is an unmasked store to the whole of a Ref."""
    return (eqn.primitive is swap_p and eqn.inputs[0] is ref and not eqn.params.get("masked")
            and eqn.params["index"].is_whole(ref.type.shape))  # fmt: skip


def _resets(kernel: Kernel, eqn: Eqn, ref: Var) -> np.ndarray | None:
    """The cells in which an equation overwrites a Ref before anything reads it; None: no such cells are known."""
    if _overwrites(eqn, ref):
        return np.ones((1,) * len(kernel.grid), bool)
    table = when_table(kernel, eqn)
    if table is None:
        return None
    found = np.zeros((1,) * len(kernel.grid), bool)
    for taken, cells in ((0, ~table), (1, table)):
        first = _first_access(_branch_of(eqn, taken).eqns, ref)
        if first is not None and _overwrites(first, ref):
            found = found | cells
        elif first is not None:
            return None
    return found


def written_cells(kernel: Kernel, ref: Var) -> np.ndarray | None:
    """The cells in which the body may write to a Ref (broadcasts to the grid); None if they are not known."""
    found = np.zeros((1,) * len(kernel.grid), bool)
    for eqn in kernel.body.eqns:
        if not _writes(eqn, ref):
            continue
        table = when_table(kernel, eqn)
        if table is None:
            return None
        for taken, cells in ((0, ~table), (1, table)):
            if any(_writes(e, ref) for e in _branch_of(eqn, taken).eqns):
                found = found | cells
    return found


def filled_cells(kernel: Kernel, ref: Var) -> np.ndarray:
    """The cells whose stores are known to reach every element of a Ref (broadcasts to the grid)."""
    found = np.full((1,) * len(kernel.grid), _reaches_all(kernel.body.eqns, ref))
    for eqn in kernel.body.eqns:
        table = when_table(kernel, eqn) if ref in eqn.inputs else None
        if table is not None:
            for taken, cells in ((0, ~table), (1, table)):
                if _reaches_all(_branch_of(eqn, taken).eqns, ref):
                    found = found | cells
    return found


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
    start = getattr(entry, "start", None)
    if start is None:
        return None
    return slice(start, start + entry.size * entry.stride, entry.stride) if isinstance(entry, Span) else start


def _writes(eqn: Eqn, ref: Var) -> bool:
    return any(
        e.kind in ("write", "accumulate") and isinstance(e.operand, int) and eqn.inputs[e.operand] is ref
        for e in eqn.effects
    )


def carry_of(kernel: Kernel, ref: Var) -> Axes:
    """The axes along which what a Ref holds outlives a cell: the fewest trailing ones, given where it is reset."""
    axes = long_axes(kernel)
    first = _first_access(kernel.body.eqns, ref)
    if first is None:
        return ()
    cells = _resets(kernel, first, ref)
    if cells is None:
        return axes
    for start in range(len(axes), -1, -1):
        carry = axes[start:]
        if not (_at(kernel, carry, False) & ~cells).any():
            return carry
    return axes


@dataclass(frozen=True, eq=False)
class Guard:
    """A body that is one `when`: what it does there is `inner`; `test` (ids and Refs in, one output) says where."""

    inner: Kernel
    test: Program
    taken: int
    axes: frozenset[int]  # that the test depends on

    def over(self, program: Program) -> Program:
        """A phase of `inner`, run only where the test holds."""

        def fun(*args: Any) -> list[Any]:
            (index,) = eval_program(self.test, *args)
            given = self.test.outputs[0].type.dtype.type(self.taken)
            when(eq_p.bind(index, given))(lambda: eval_program(program, *args))
            return []

        return trace_program(fun, program.in_types, program.name)


@cached(1024)
def guard_of(kernel: Kernel) -> Guard | None:
    """The Guard that a body is, where its test reads ids and prefetched data alone; else None."""
    body = kernel.body
    first, last = kernel.splits[:2]
    prefetched = set(body.inputs[first:last])
    acts = [
        e for e in body.eqns if e.effects and not ({a for a in e.inputs if isinstance(a.type, RefType)} <= prefetched)
    ]
    if len(acts) != 1 or acts[0].primitive.name != "cond" or len(acts[0].params["branches"]) != 2 or acts[0].outputs:
        return None
    (eqn,) = acts
    empty = [not b.eqns for b in eqn.params["branches"]]
    changed = {eqn.inputs[e.operand] for e in eqn.effects if isinstance(e.operand, int) and e.kind != "read"}
    if sum(empty) != 1 or type(eqn.inputs[0]) is not Var or changed & prefetched:
        return None
    taken = empty.index(False)
    rest = [e for e in body.eqns if e is not eqn]
    inner = kernel.replace(body=normalize(body.replace(eqns=[*rest, *_branch_of(eqn, taken).eqns])))
    needs = dependencies(body, first)[eqn.inputs[0]]
    return Guard(inner, slice_of(body, [eqn.inputs[0]]), taken, frozenset(a for a in needs if a != "data"))


@cached(1024)
def carry_axes(kernel: Kernel) -> Axes:
    """The axes that run in order: along which scratch stays live or an output block is seen again."""
    guard = guard_of(kernel)
    if guard is not None:  # what holds for all cells of a run changes nothing within it
        inner = carry_axes(guard.inner)
        if not guard.axes & set(inner):
            return inner
    _, _, inputs, outputs, end = kernel.splits
    found: set[int] = set()
    for number in range(len(kernel.outputs)):
        ignored = ignored_axes(kernel, number)
        found |= set(long_axes(kernel) if ignored is None else ignored)
    for ref in kernel.body.inputs[outputs:end]:
        found |= set(carry_of(kernel, ref))
    return tuple(sorted(found))


def reads(program: Program, ref: Var) -> bool:
    """Whether anything in a Program gives what a Ref holds."""
    used = {a for e in program.eqns for a in e.inputs} | set(program.outputs)
    for eqn in program.eqns:
        for effect in eqn.effects:
            if isinstance(effect.operand, int) and eqn.inputs[effect.operand] is ref:
                if effect.kind == "read":
                    return True
                if eqn.primitive is swap_p and eqn.outputs[0] in used:
                    return True
                if effect.kind == "write" and any(_exchanges(inner) for _, inner in subprograms(eqn)):
                    return True
    return False


def _exchanges(program: Program) -> bool:
    """Whether a Program uses what some swap gives, which is a read that its effects do not name."""
    used = {a for e in program.eqns for a in e.inputs} | set(program.outputs)
    return any(
        (e.primitive is swap_p and e.outputs[0] in used) or any(_exchanges(inner) for _, inner in subprograms(e))
        for e in program.eqns
    )


def drop_local_writes(program: Program, local: Sequence[Var]) -> Program:
    """Drop stores to Refs that nothing reads."""
    while True:
        dead = {ref for ref in local if any(ref in e.inputs for e in program.eqns) and not reads(program, ref)}
        eqns = [e for e in program.eqns if not (touches_refs(e) and all(
            a in dead for a in e.inputs if isinstance(a.type, RefType)))]  # fmt: skip
        smaller = normalize(program.replace(eqns=eqns))
        if len(smaller.eqns) == len(program.eqns):
            return smaller
        program = smaller


class _NotAdditive(Exception):
    pass


class _Splitter:
    """Sorts the equations of a body into init, main and final."""

    def __init__(self, kernel: Kernel, carry: Axes):
        self.kernel, self.carry = kernel, carry
        _, self.first_in, self.first_out, self.first_scratch, end = kernel.splits
        refs = kernel.body.inputs
        self.states: set[Var] = set()
        self.emitted: set[Var] = set()
        self.local: set[Var] = set()
        for number, ref in enumerate(refs[self.first_out : self.first_scratch]):
            ignored = ignored_axes(kernel, number)
            if ignored is None or (ignored and ignored != carry) or shared_axes(kernel, number):
                raise _NotAdditive
            (self.states if ignored else self.emitted).add(ref)
        for ref in refs[self.first_scratch : end]:
            own = carry_of(kernel, ref)
            if own and own != carry:
                raise _NotAdditive
            (self.states if own else self.local).add(ref)
        self.parts: dict[str, list[Eqn]] = {"init": [], "main": [], "final": []}
        self.phase: dict[Var, str] = {}  # how far each state has come
        self.home: dict[Var, str] = {}  # the only phase in which a variable is bound

    def put(self, eqn: Eqn, *phases: str) -> None:
        for phase in phases:
            self.parts[phase].append(eqn)
        if len(phases) == 1:
            self.home.update((v, phases[0]) for v in eqn.outputs)

    def homes(self, eqn: Eqn) -> set[str]:
        return {self.home[a] for a in eqn.inputs if type(a) is Var and a in self.home}

    def advance(self, ref: Var, phase: str) -> None:
        order = ("init", "main", "final")
        now = self.phase.get(ref, "init")
        if order.index(phase) < order.index(now):
            raise _NotAdditive
        self.phase[ref] = phase

    def run(self) -> Phases:
        for eqn in self.kernel.body.eqns:
            self.one(eqn)
        body = self.kernel.body
        programs = {
            name: drop_local_writes(body.replace(eqns=eqns, outputs=(), name=f"{body.name}_{name}"), list(self.local))
            for name, eqns in self.parts.items()
        }
        states = tuple(i for i, v in enumerate(body.inputs) if v in self.states)
        return Phases(self.carry, states, **programs)

    def one(self, eqn: Eqn) -> None:
        ref0: Any = eqn.inputs[0] if eqn.inputs else None
        touched: set[Any] = {a for a in eqn.inputs if isinstance(a.type, RefType)}
        states: set[Any] = touched & self.states
        emitted = touched & self.emitted
        homes = self.homes(eqn)
        if len(homes) > 1:
            raise _NotAdditive
        if not states and not emitted:
            # What speaks to the world does so once in every cell; the rest is there for whoever needs it.
            speaks = any(e.kind in ("callback", "ordered") for e in eqn.effects)
            self.put(eqn, *(homes or (("main",) if speaks else ("init", "main", "final"))))
            return
        table = when_table(self.kernel, eqn) if not homes else None
        if table is not None and not eqn.outputs:
            for taken, cells in ((0, ~table), (1, table)):
                if cells.any() and _branch_of(eqn, taken).eqns:
                    self.branch(eqn, taken, cells)
            return
        if emitted and not states:
            self.emit(eqn, homes)
        elif eqn.primitive is addupdate_p and len(states) == 1 and homes <= {"main"}:
            (ref,) = states
            self.advance(ref, "main")
            self.put(eqn, "main")
        elif eqn.primitive is swap_p and homes <= {"final"} and self.last_wins(eqn, ref0):
            self.advance(ref0, "final")
            self.put(eqn, "final")
        else:
            raise _NotAdditive

    def last_wins(self, eqn: Eqn, ref: Any) -> bool:
        """Whether every cell overwrites a state that none reads, so that the last cell's store is what stays."""
        return not self.used(eqn.outputs) and _overwrites(eqn, ref) and not reads(self.kernel.body, ref)

    def used(self, outputs: Sequence[Var]) -> bool:
        wanted = set(outputs)
        return any(a in wanted for e in self.kernel.body.eqns for a in e.inputs)

    def emit(self, eqn: Eqn, homes: set[str]) -> None:
        """An access to an output block that this cell alone sees."""
        if not self.carry:
            self.put(eqn, "main")
        elif homes <= {"main"}:
            self.put(eqn, "main")
        else:
            raise _NotAdditive

    def branch(self, eqn: Eqn, taken: int, cells: np.ndarray) -> None:
        """The branch of a `when` taken in the given cells."""
        program = _branch_of(eqn, taken)
        refs: set[Any] = {a for e in program.eqns for a in e.inputs if isinstance(a.type, RefType)}
        states, emitted = refs & self.states, refs & self.emitted
        if cells.all() or not self.carry:
            if not cells.all():
                self.keep_when(eqn, taken)
                return
            for inner in program.eqns:
                self.one(inner)
        elif not emitted and (cells == _at(self.kernel, self.carry, False)).all() and self.only_resets(program, states):
            for ref in states:
                self.advance(ref, "init")
            self.parts["init"] += program.eqns
        elif not emitted and (cells == _at(self.kernel, self.carry, True)).all():
            for ref in states:
                self.advance(ref, "final")
            self.parts["final"] += program.eqns
        else:
            self.keep_when(eqn, taken)

    def only_resets(self, program: Program, states: set[Var]) -> bool:
        return all(
            _overwrites(e, a) and not _uses(program, e.outputs) for e in program.eqns for a in e.inputs if a in states
        )

    def keep_when(self, eqn: Eqn, taken: int) -> None:
        """A `when` that stays one in main: it may add to states and write what is emitted."""
        program = eqn.params["branches"][taken]
        for effect in program.effects:
            if not isinstance(effect.operand, int):
                continue
            ref = eqn.inputs[1 + effect.operand]
            if ref in self.states:
                if effect.kind != "accumulate":
                    raise _NotAdditive
                self.advance(ref, "main")
        branches = list(eqn.params["branches"])
        other = branches[1 - taken]
        branches[1 - taken] = other.replace(eqns=())
        effects = frozenset(Effect(e.kind, e.operand + 1) if isinstance(e.operand, int) else e for e in program.effects)
        self.put(eqn.replace(params={"branches": tuple(branches)}, effects=effects), "main")


def _uses(program: Program, outputs: Sequence[Atom]) -> bool:
    wanted = set(outputs)
    return any(a in wanted for e in program.eqns for a in e.inputs)


@cached(1024)
def phases(kernel: Kernel) -> Phases | None:
    """The three parts of a kernel whose carries are additive; None for any other, or where sizes are computed."""
    if kernel.extents:
        return None
    guard = guard_of(kernel)
    if guard is not None:
        inner = phases(guard.inner)
        if inner is not None and inner.carry and not guard.axes & set(inner.carry):
            return replace(inner, **{n: guard.over(getattr(inner, n)) for n in ("init", "main", "final")})
    carry = carry_axes(kernel)
    try:
        return _Splitter(kernel, carry).run()
    except _NotAdditive:
        return None
