"""The abstract interpreter of a body in one cell: levels (`poison_lattice.py`) of values and of memory.

Branches join, short loops are unrolled, long ones iterate to a fixpoint with widening, and asynchronous copies take
effect at their wait. Concrete values (of ids, literals and what they alone determine) are computed on demand: for the
test of a branch, an index, a mask over poison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, Var, subprograms
from ...core.ir.types import MemorySpace, is_bool
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.elementwise.bitwise import and_p, or_p
from ...core.primitives.elementwise.comparison import select_n_p
from ...core.primitives.refs.state_primitives import (
    Index,
    access_shape,
    addupdate_p,
    get_p,
    numpy_index,
    split_operands,
    swap_p,
)
from ...core.support.errors import OutOfBoundsError
from ...core.tracing.numpy_interpreter import apply
from ..kernel.kernel import Kernel
from ..kernel.traverse import CALLS
from ..ops.atomics import atomic_cas_p, atomic_rmw_p
from ..ops.dma import dma_start_p, dma_wait_p, parts_of, semaphore_read_p, semaphore_signal_p, semaphore_wait_p
from ..ops.run_scoped import undefine_p
from .poison_lattice import (
    CLEAN,
    MAYBE,
    POISON,
    UNWRITTEN,
    Copies,
    Copy,
    Level,
    canonical,
    join,
    join_memory,
    loaded,
    transfer,
    uniform,
    weakened,
    worst_of,
)

Ids = tuple[int, ...]
Snapshot = tuple[dict[int, Level], Copies]
LARGE = 2**20  # elements: larger arrays have no concrete values, and one level
LIMIT = 60_000  # equations interpreted for one kernel
LAZY = object()
UNROLL_LIMIT = 1024  # equations: longer loops are not unrolled
WIDEN_AFTER = 8  # iterations before widening

_ABSORBING: dict[Primitive, bool] = {and_p: False, or_p: True}


class OverBudget(Exception):
    """The analysis takes more steps than it may."""


class Value:
    """An abstract value: its level, its concrete value or how to compute it, the Ref that it is."""

    __slots__ = ("level", "eqn", "inputs", "number", "known", "ref", "axis", "part")
    level: Level
    known: Any
    ref: int | None
    axis: int | None

    def __init__(self, level: Level = None, known: Any = None, ref: int | None = None, axis: int | None = None):
        self.level, self.known, self.ref, self.axis = level, known, ref, axis
        self.eqn: Eqn | None = None
        self.part: Any = None


def _made(eqn: Eqn, inputs: Sequence[Value], levels: Sequence[Level]) -> list[Value]:
    out = []
    for number, level in enumerate(levels):
        value = Value(level, LAZY)
        value.eqn, value.inputs, value.number = eqn, inputs, number
        out.append(value)
    return out


def _reads(program: Program) -> Iterator[Any]:
    """All atoms that the equations of a Program, and of those within, read."""
    yield from program.outputs
    for eqn in program.eqns:
        yield from eqn.inputs
        for _, inner in subprograms(eqn):
            yield from _reads(inner)


class Interpreter:
    """Interprets a body in a cell.

    `input_level(position)`: the level of an input's block. `tracks_unwritten`: unwritten memory counts as poison.
    `precise`: masks over partly poisoned values are computed. `tables`: tests known for all cells, whose ids
    need not be recorded. After a cell, `ids_read` has the grid axes whose ids its result depends on.
    """

    kernel: Kernel
    input_level: Callable[..., Level]
    tracks_unwritten: bool
    precise: bool
    ids: Ids | None
    levels: dict[int, Level]
    copies: Copies
    loaded: dict[Any, Any]
    steps: int

    def __init__(self, kernel: Kernel, input_level: Callable[[int], Level], tracks_unwritten: bool, precise: bool):
        self.kernel, self.input_level = kernel, input_level
        self.tracks_unwritten, self.precise = tracks_unwritten, precise
        self.used: set[Any] = set(_reads(kernel.body))
        self.tables: dict[Eqn, np.ndarray] = {}
        self.worst_stores: dict[int, tuple[int, Eqn]] = {}
        self.unwritten_read: tuple[int, Eqn] | None = None  # the first read of unwritten memory
        self.ids_read: set[int] = set()
        self.steps = 0

    def cell(self, ids: Ids | None, levels: dict[int, Level], copies: Copies) -> tuple[dict[int, Level], Copies]:
        """The memory after a cell (None: any cell)."""
        self.ids, self.levels, self.copies, self.loaded = ids, dict(levels), copies, {}
        rank = len(self.kernel.grid)
        operands = [Value(known=LAZY, axis=a) for a in range(rank)]
        operands += [Value(ref=p) for p in range(rank, len(self.kernel.body.inputs))]
        self.run(self.kernel.body, operands)
        return self.levels, self.copies

    # ------------------------------------------------------------ values

    def concrete(self, value: Value) -> Any:
        """The concrete array of a value that ids and literals alone determine; else None."""
        if value.known is not LAZY:
            return value.known
        value.known = None
        if value.axis is not None:
            if self.ids is not None:
                self.ids_read.add(value.axis)
                value.known = np.int32(self.ids[value.axis])
        elif value.part is not None:
            whole, number = value.part
            known = self.concrete(whole)
            value.known = None if known is None else known[number]
        elif value.eqn is not None:
            value.known = self._evaluated(value.eqn, value.inputs, value.number)
        return value.known

    def concrete_mask(self, value: Value, over: Level) -> Any:
        """The concrete mask over a level; None where it is not known, or not wanted."""
        return None if not self.precise and over is not None and over.size > 1 else self.concrete(value)

    def _evaluated(self, eqn: Eqn, inputs: Sequence[Value], number: int) -> Any:
        if eqn.primitive.relation is None or eqn.effects or math.prod(eqn.outputs[number].type.shape) > LARGE:
            return None
        values = []
        for value in inputs:
            values.append(self.concrete(value))
            if values[-1] is None and eqn.primitive not in _ABSORBING:
                return None
        if any(v is None for v in values):  # one operand alone may decide
            alone = next((v for v in values if v is not None), None)
            if alone is None or not is_bool(alone.dtype) or not (alone == _ABSORBING[eqn.primitive]).all():
                return None
            return np.broadcast_to(alone, eqn.outputs[0].type.shape)
        out = apply(eqn.primitive, values, eqn.params)
        return out[number] if eqn.primitive.multiple else out

    def run(self, program: Program, args: Sequence[Value]) -> list[Value]:
        """Interpret a Program."""
        self.steps += len(program.eqns)
        if self.steps > LIMIT:
            raise OverBudget
        env: dict[Any, Value] = dict(zip(program.inputs, args, strict=True))
        env.update((v, Value(known=x)) for v, x in zip(program.constants, program.values, strict=True))
        for eqn in program.eqns:
            inputs = [env[a] if type(a) is Var else Value(known=a.value) for a in eqn.inputs]
            rule = RULES.get(eqn.primitive)
            if rule is not None:
                outs = rule(self, eqn, inputs)
            elif any(v.ref is not None for v in inputs):
                outs = self.opaque(eqn, inputs)
            else:
                outs = _made(eqn, inputs, transfer(eqn, [v.level for v in inputs]))
            env.update(zip(eqn.outputs, outs, strict=True))
        return [env[a] if type(a) is Var else Value(known=a.value) for a in program.outputs]

    def select(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        """`select_n`: the level of the chosen case; where the predicate is not known, the worst case, weakened."""
        rank, levels = len(eqn.outputs[0].type.shape), [v.level for v in inputs]
        level: Level = None
        if any(x is not None for x in levels):
            over = worst_of(levels[1:], rank)
            which = None if levels[0] is not None else self.concrete_mask(inputs[0], over)
            if which is None:
                level = worst_of([levels[0], weakened(over)], rank)
            elif np.ndim(which) == 0:
                level = levels[1 + int(which)]
            else:
                cases = [np.broadcast_to(np.uint8(0) if x is None else x, which.shape) for x in levels[1:]]
                level = canonical(np.choose(which.astype(np.intp), cases))
        return _made(eqn, inputs, [level])

    def logical(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        """`and` and `or`: an absorbing operand hides the other."""
        levels, rank = [v.level for v in inputs], len(eqn.outputs[0].type.shape)
        if is_bool(eqn.outputs[0].type.dtype) and any(x is not None for x in levels):
            for k, other in ((0, 1), (1, 0)):
                known = None
                if levels[k] is not None and levels[other] is None:
                    known = self.concrete_mask(inputs[other], levels[k])
                if known is not None:
                    clean = np.asarray(known == _ABSORBING[eqn.primitive]).reshape(np.shape(known) or (1,) * rank)
                    worst: Any = worst_of([levels[k]], rank)
                    levels[k] = canonical(np.where(clean, CLEAN, worst).astype(np.uint8))
        return _made(eqn, inputs, [worst_of(levels, rank)])

    # ------------------------------------------------------------ memory

    def type_of(self, ref: int) -> Any:
        """The type of a Ref."""
        return self.kernel.body.inputs[ref].type

    def unknown(self, ref: int) -> np.ndarray:
        """The level of a Ref of which nothing is known."""
        return uniform(MAYBE, len(self.type_of(ref).shape))

    def contents(self, ref: int) -> Level:
        """The level of what a Ref holds."""
        if ref in self.levels:
            return self.levels[ref]
        if ref not in self.loaded:
            self.loaded[ref] = self.input_level(ref)
        return self.loaded[ref]

    def numpy_index(self, ref: int, index: Index, dynamic: Sequence[Value], masked: bool) -> Any:
        """The NumPy index of an access; None if it is not known, or out of bounds."""
        shape = self.type_of(ref).shape
        at = [self.concrete(v) for v in dynamic]
        if any(x is None for x in at) or any(v.level is not None for v in dynamic) or math.prod(shape) > LARGE:
            return None
        try:
            return numpy_index(index, at, shape, masked, "")
        except OutOfBoundsError:
            return None

    def load(self, eqn: Eqn, ref: int, index: Index, dynamic: Sequence[Value], mask: Value | None = None,
             other: Value | None = None) -> Level:  # fmt: skip
        """The level of a read."""
        content, shape = self.contents(ref), access_shape(index)
        if content is not None and self.unwritten_read is None and (content >= UNWRITTEN).any():
            self.unwritten_read = ref, eqn
        level = loaded(content)
        if any(v.level is not None for v in dynamic):
            level = uniform(MAYBE, len(shape))
        elif level is not None and level.size == 1:
            level = level.reshape((1,) * len(shape))
        elif level is not None and not (mask is None and index.is_whole(self.type_of(ref).shape)):
            place = self.numpy_index(ref, index, dynamic, mask is not None)
            whole = np.broadcast_to(level, self.type_of(ref).shape)
            level = uniform(MAYBE, len(shape)) if place is None else canonical(whole[place].reshape(shape))
        return level if mask is None else self.masked(mask, level, None if other is None else other.level, shape)

    def masked(self, mask: Value, new: Level, old: Level, shape: Sequence[int],
              join: Callable[[Level, Level], Level] = join) -> Level:  # fmt: skip
        """The level of a value that is `new` where a mask is true, `old` elsewhere."""
        new, old = (x if x is None or x.ndim == len(shape) else x.reshape((1,) * len(shape)) for x in (new, old))
        if mask.level is not None:
            return worst_of([uniform(MAYBE, len(shape)), join(new, old)], len(shape))
        known = None if new is None and old is None else self.concrete_mask(mask, worst_of([new, old], len(shape)))
        if known is None:
            return None if new is None and old is None else join(new, old)
        a, b = (np.uint8(0) if x is None else x for x in (new, old))
        return canonical(np.where(known, a, b).astype(np.uint8))

    def store(self, eqn: Eqn, ref: int, new: Level, index: Index, dynamic: Sequence[Value], mask: Value | None = None
              ) -> None:  # fmt: skip
        """Write to a Ref."""
        type_ = self.type_of(ref)
        if type_.space is MemorySpace.SEMAPHORE:
            return
        if new is not None and int(new.max(initial=0)) > self.worst_stores.get(ref, (0, eqn))[0]:
            self.worst_stores[ref] = int(new.max(initial=0)), eqn
        old, shape = self.levels.get(ref), type_.shape
        if mask is None and index.is_whole(shape):
            self.levels[ref] = new
            return
        if all(x is None for x in (new, old, mask and mask.level, *(v.level for v in dynamic))):
            return
        place = self.numpy_index(ref, index, dynamic, mask is not None)
        if place is None:
            worst = None if new is None else uniform(new.flat[0] if new.size == 1 else MAYBE, len(shape))
            self.levels[ref] = join_memory(old, worst)
            return
        full = np.array(np.broadcast_to(np.uint8(0) if old is None else old, shape))
        put: Level = new
        if mask is not None:
            put = self.masked(mask, new, full[place], access_shape(index), join_memory)
        full[place] = np.uint8(0) if put is None else put if put.size > 1 else put.flat[0]
        self.levels[ref] = canonical(full)

    def get(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        dynamic, mask, other = split_operands(eqn.params["index"], inputs[1:], eqn.params.get("masked", False))
        return [Value(self.load(eqn, inputs[0].ref, eqn.params["index"], dynamic, mask, other))]  # type: ignore[arg-type]

    def update(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        """Stores, additions and atomic updates."""
        ref: Any = inputs[0].ref
        index, n = eqn.params["index"], 2 if eqn.primitive is atomic_cas_p else 1
        dynamic, mask, _ = split_operands(index, inputs[1 + n :], eqn.params.get("masked", False))
        rank = len(access_shape(index))
        reads = eqn.primitive is not swap_p or any(v in self.used for v in eqn.outputs)
        old = self.load(eqn, ref, index, dynamic) if reads else None
        new = worst_of([v.level for v in inputs[1 : 1 + n]], rank)
        if eqn.primitive is not swap_p:
            new = worst_of([new, old], rank)
        self.store(eqn, ref, weakened(new) if n == 2 else new, index, dynamic, mask)
        return [Value(old) for _ in eqn.outputs]

    def undefine(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        ref: Any = inputs[0].ref
        if ref in self.levels:
            empty = eqn.params["zero"] or not self.tracks_unwritten
            self.levels[ref] = None if empty else uniform(UNWRITTEN, len(self.type_of(ref).shape))
        return []

    def opaque(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        """An operation on Refs without a rule: everything it writes may be poison if an operand is."""
        tainted = any((v.level if v.ref is None else loaded(self.contents(v.ref))) is not None for v in inputs)
        for effect in eqn.effects:
            ref = inputs[effect.operand].ref if isinstance(effect.operand, int) else None
            if ref in self.levels and effect.kind != "read":
                self.levels[ref] = join_memory(self.levels[ref], self.unknown(ref) if tainted else None)
        return [Value(uniform(MAYBE, len(v.type.shape)) if tainted else None) for v in eqn.outputs]


# ---------------------------------------------------------------------------- control flow and copies


def _all_clean(values: Sequence[Value]) -> bool:
    """Whether no operand has poison, and none is a Ref."""
    return all(v.level is None and v.ref is None for v in values)


def _snapshot(interp: Interpreter) -> Snapshot:
    return dict(interp.levels), dict(interp.copies)


def _join_snapshots(interp: Interpreter, one: Snapshot, two: Snapshot) -> Snapshot:
    """The join of two memories; copies in flight in only one of them leave their destinations unknown."""
    levels = {p: join_memory(one[0][p], two[0][p]) for p in one[0]}
    if one[1] == two[1]:
        return levels, one[1]
    for copies in (one[1], two[1]):
        for started, _ in copies.values():
            for ref in (copy.ref for copy in started if copy.ref in levels):
                levels[ref] = join_memory(levels[ref], interp.unknown(ref))
    return levels, {}


def _weaken_stores(interp: Interpreter, before: Snapshot) -> None:
    """Weaken what was stored since `before`: whether it should have been depends on poison."""
    for ref, level in interp.levels.items():
        if level is not before[0][ref]:
            interp.levels[ref] = join_memory(join_memory(level, before[0][ref]), interp.unknown(ref))


def _call(interp: Interpreter, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    return interp.run(eqn.params["program"], inputs)


def _cond(interp: Interpreter, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    test, args, branches = inputs[0], inputs[1:], eqn.params["branches"]
    if _all_clean(inputs):
        return [Value() for _ in eqn.outputs]
    table = interp.tables.get(eqn)
    if table is not None and interp.ids is not None:
        which: Any = table[tuple(i if n > 1 else 0 for i, n in zip(interp.ids, table.shape, strict=True))]
    else:
        which = None if test.level is not None else interp.concrete(test)
    if which is not None:
        return interp.run(branches[min(max(int(which), 0), len(branches) - 1)], args)
    before = _snapshot(interp)
    after: Snapshot | None = None
    found: list[list[Value]] = []
    for branch in branches:
        interp.levels, interp.copies = dict(before[0]), dict(before[1])
        found.append(interp.run(branch, args))
        after = _snapshot(interp) if after is None else _join_snapshots(interp, after, _snapshot(interp))
    assert after is not None
    interp.levels, interp.copies = after
    outs = []
    for values, var in zip(zip(*found, strict=True), eqn.outputs, strict=True):
        level = values[0].level
        for value in values[1:]:
            level = join(level, value.level)
        rank = len(var.type.shape)
        outs.append(Value(level if test.level is None else worst_of([level, uniform(MAYBE, rank)], rank)))
    if test.level is not None:
        _weaken_stores(interp, before)
    return outs


# ---------------------------------------------------------------------------- loops


def _forced(interp: Interpreter, values: Sequence[Value]) -> list[Value]:
    """The carry of a loop, with scalars computed at once, so that no chain of them builds up."""
    for value in values:
        if value.ref is None and value.eqn is not None and not value.eqn.outputs[value.number].type.shape:
            interp.concrete(value)
    return [Value(v.level, None if v.known is LAZY else v.known) for v in values]


def _row(x: Value, number: int | None) -> Value:
    """The row of a scanned operand in one iteration (None: in any)."""
    level = x.level
    if level is not None:
        if level.shape[0] == 1:
            level = level[0]
        else:
            level = level[number] if number is not None else weakened(level.max(axis=0))
    out = Value(canonical(level), LAZY if number is not None else None)
    out.part = None if number is None else (x, number)
    return out


def _stacked(levels: Sequence[Level], rank: int) -> Level:
    if all(x is None for x in levels):
        return None
    rows = np.broadcast_arrays(*(np.zeros((1,) * (rank - 1), np.uint8) if x is None else x for x in levels))
    return canonical(np.stack(rows))


def _fixpoint(interp: Interpreter, program: Program, consts: list[Value], carry: list[Value], xs: list[Value]
               ) -> tuple[list[Value], list[Value]]:  # fmt: skip
    """The fixpoint over any number of iterations: the carry before an iteration, and its results.

    The memory is then as after an iteration, and `interp.before` as before one. Levels that still change after
    `WIDEN_AFTER` iterations are widened to MAYBE.
    """
    levels = [v.level for v in carry]
    for iteration in range(2 * WIDEN_AFTER):
        before = _snapshot(interp)
        outs = interp.run(program, [*consts, *map(Value, levels), *xs])
        after = _snapshot(interp)
        new = [join(a, v.level) for a, v in zip(levels, outs, strict=False)]
        level_memory, copies = _join_snapshots(interp, before, after)
        same = all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in zip(
            [*levels, *before[0].values()], [*new, *level_memory.values()], strict=True))  # fmt: skip
        if same and copies == before[1]:
            interp.before = before
            return [Value(x) for x in levels], outs
        if iteration >= WIDEN_AFTER:
            new = [None if x is None else uniform(MAYBE, x.ndim) for x in new]
            level_memory = {
                p: x if x is None or x.size == 1 else uniform(MAYBE, x.ndim) for p, x in level_memory.items()}
        levels, interp.levels, interp.copies = new, level_memory, copies
    raise AssertionError("widened levels do not change")


def _scan(interp: Interpreter, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    params = eqn.params
    program, n, m, length = params["program"], params["num_consts"], params["num_carry"], params["length"]
    if _all_clean(inputs):
        return [Value() for _ in eqn.outputs]
    consts, carry, xs = inputs[:n], inputs[n : n + m], inputs[n + m :]
    ranks = [len(v.type.shape) for v in eqn.outputs[m:]]
    if length * len(program.eqns) > UNROLL_LIMIT:
        _, outs = _fixpoint(interp, program, consts, carry, [_row(x, None) for x in xs])
        rows = [[v.level] for v in outs[m:]]
        carry = [Value(v.level) for v in outs[:m]]
    else:
        iterations = range(length - 1, -1, -1) if params["reverse"] else range(length)
        rows = [[] for _ in ranks]
        for number in iterations:
            outs = interp.run(program, [*consts, *carry, *(_row(x, number) for x in xs)])
            carry = _forced(interp, outs[:m])
            for row, value in zip(rows, outs[m:], strict=True):
                row.append(value.level)
        rows = [row[::-1] if params["reverse"] else row for row in rows]
    return [*carry, *(Value(_stacked(row, rank) if row else None) for row, rank in zip(rows, ranks, strict=True))]


def _while(interp: Interpreter, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    params = eqn.params
    n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    if _all_clean(inputs):
        return [Value() for _ in eqn.outputs]
    test, body = params["cond_program"], params["body_program"]
    carry, iterations = inputs[m:], 0
    while iterations * (len(body.eqns) + 1) <= UNROLL_LIMIT:
        (going,) = interp.run(test, [*inputs[:n], *carry])
        known = None if going.level is not None else interp.concrete(going)
        if known is None:
            break
        if not known:
            return list(carry)
        carry = _forced(interp, interp.run(body, [*inputs[n:m], *carry]))
        iterations += 1
    start = _snapshot(interp)
    carry, _ = _fixpoint(interp, body, inputs[n:m], list(carry), [])
    interp.levels, interp.copies = interp.before
    (going,) = interp.run(test, [*inputs[:n], *carry])
    if going.level is not None:
        _weaken_stores(interp, start)
        carry = [Value(worst_of([v.level, uniform(MAYBE, r)], r)) for v, r in
                 ((v, len(o.type.shape)) for v, o in zip(carry, eqn.outputs, strict=True))]  # fmt: skip
    return list(carry)


# ---------------------------------------------------------------------------- copies


def _semaphore(interp: Interpreter, ref: Value, index: Any, dynamic: Sequence[Value]) -> Any:
    """The name of a semaphore; None if it is not known."""
    at = [interp.concrete(v) for v in dynamic]
    given = iter(at)
    return None if any(x is None for x in at) else (
        ref.ref, tuple(int(next(given)) if e.start is None else e.start for e in index))  # fmt: skip


def _start(interp: Interpreter, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    params = eqn.params
    (src, src_at), (dst, dst_at), (sem, sem_at) = parts_of(inputs, **params)
    name = _semaphore(interp, sem, params["sem"], sem_at)
    at = [interp.concrete(v) for v in dst_at]
    rank = len(access_shape(params["dst"]))
    level = interp.load(eqn, src.ref, params["src"], src_at)
    if params["add"]:
        level = worst_of([level, interp.load(eqn, dst.ref, params["dst"], dst_at)], rank)
    if name is None or any(x is None for x in at):  # it arrives some time
        interp.store(eqn, dst.ref, uniform(MAYBE, rank), params["dst"], dst_at)
        return []
    nbytes = int(np.prod(access_shape(params["dst"]))) * interp.type_of(dst.ref).dtype.itemsize
    packed = None if level is None else (level.tobytes(), level.shape)
    started, credit = interp.copies.get(name, ((), 0))
    copy = Copy(nbytes, packed, dst.ref, params["dst"], tuple(map(int, at)), params["add"])
    interp.copies[name] = ((*started, copy), credit)
    if interp.tracks_unwritten:
        interp.store(eqn, dst.ref, uniform(POISON, rank), params["dst"], dst_at)
    return []


def _wait(interp: Interpreter, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    _, (dst, _), (sem, sem_at) = parts_of(inputs, **eqn.params)
    name = _semaphore(interp, sem, eqn.params["sem"], sem_at)
    nbytes = int(np.prod(access_shape(eqn.params["dst"]))) * interp.type_of(dst.ref).dtype.itemsize
    if name is None:  # any of them may be what it waits for
        interp.levels, interp.copies = _join_snapshots(interp, _snapshot(interp), (interp.levels, {}))
        return []
    started, credit = interp.copies.get(name, ((), 0))
    while credit < nbytes and started:
        copy, started = started[0], started[1:]
        level = None if copy.level is None else np.frombuffer(copy.level[0], np.uint8).reshape(copy.level[1])
        interp.store(eqn, copy.ref, level, copy.index, [Value(known=np.int32(i)) for i in copy.dynamic])
        credit += copy.nbytes
    left = max(credit - nbytes, 0)
    if started or left:
        interp.copies[name] = (started, left)
    else:
        interp.copies.pop(name, None)
    return []


def _clean(interp: Interpreter, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    return [Value() for _ in eqn.outputs]


Rule = Callable[[Interpreter, Eqn, list[Value]], list[Value]]
RULES: dict[Primitive, Rule] = {
    get_p: Interpreter.get, **dict.fromkeys((swap_p, addupdate_p, atomic_rmw_p, atomic_cas_p), Interpreter.update),
    undefine_p: Interpreter.undefine, select_n_p: Interpreter.select, and_p: Interpreter.logical,
    or_p: Interpreter.logical, **dict.fromkeys(CALLS, _call), cond_p: _cond, scan_p: _scan, while_p: _while,
    dma_start_p: _start, dma_wait_p: _wait,
    **dict.fromkeys((semaphore_signal_p, semaphore_wait_p, semaphore_read_p), _clean),
}  # fmt: skip
