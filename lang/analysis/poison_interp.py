"""One cell of a kernel followed through its body: the levels of its values, and of the memory that it writes.

Values that ids, positions and literals alone make are worked out, but only where something asks for them: the test of
a branch that does not act alike, a place, a mask over something unspecified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, Var, subprograms
from ...core.ir.types import MemorySpace, is_bool
from ...core.primitives.elementwise.comparison import and_p, or_p, select_n_p
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
from ..ops.atomics import atomic_cas_p, atomic_rmw_p
from ..ops.run_scoped import undefine_p
from .poison_lattice import (
    CLEAN,
    MAYBE,
    UNWRITTEN,
    Copies,
    Level,
    doubted,
    either,
    flat,
    joined,
    most,
    seen,
    through,
    tidy,
)

Ids = tuple[int, ...]
LARGE = 2**20  # elements: of larger arrays no values are worked out, and no parts told apart
LIMIT = 60_000  # equations followed for one question
LATER = object()
_DECIDED_BY: dict[Primitive, bool] = {and_p: False, or_p: True}


class TooLong(Exception):
    """There are too many cells to follow."""


class Value:
    """A value of a body: its level, and what makes it known."""

    __slots__ = ("level", "eqn", "inputs", "number", "known", "ref", "axis", "part")

    def __init__(self, level: Level = None, known: Any = None, ref: int | None = None, axis: int | None = None):
        self.level, self.known, self.ref, self.axis = level, known, ref, axis
        self.eqn: Eqn | None = None
        self.part: Any = None


def _made(eqn: Eqn, inputs: Sequence[Value], levels: Sequence[Level]) -> list[Value]:
    out = []
    for number, level in enumerate(levels):
        value = Value(level, LATER)
        value.eqn, value.inputs, value.number = eqn, inputs, number
        out.append(value)
    return out


def _used(program: Program) -> Iterator[Any]:
    """What the equations of a Program, and those within, read."""
    yield from program.outputs
    for eqn in program.eqns:
        yield from eqn.inputs
        for _, inner in subprograms(eqn):
            yield from _used(inner)


class Follower:
    """Follows a body in a cell.

    `found(position)`: the level of what an input's block holds. `unwritten_counts`: what nothing has written is not
    taken for clean. `asks`: masks over what is partly unspecified are worked out. `rules`: those for control flow and
    copies. `tables`: tests of which it need not be noted that they were asked for. Of a cell, `asked` has the grid axes
    whose ids were.
    """

    def __init__(self, kernel: Kernel, found: Callable[[int], Level], unwritten_counts: bool, asks: bool,
                 rules: dict[Any, Any]):  # fmt: skip
        self.kernel, self.found, self.counted, self.asks = kernel, found, unwritten_counts, asks
        self.rules = _RULES | rules
        self.used = set(_used(kernel.body))
        self.tables: dict[Eqn, np.ndarray] = {}
        self.culprits: dict[int, tuple[int, Eqn]] = {}
        self.unwritten: tuple[int, Eqn] | None = None  # the first read of what nothing has written
        self.asked: set[int] = set()
        self.steps = 0

    def cell(self, ids: Ids | None, levels: dict[int, Level], copies: Copies) -> tuple[dict[int, Level], Copies]:
        """The memory after a cell (None: one of which nothing is known)."""
        self.ids, self.levels, self.copies, self.loaded = ids, dict(levels), copies, {}
        rank = len(self.kernel.grid)
        operands = [Value(known=LATER, axis=a) for a in range(rank)]
        operands += [Value(ref=p) for p in range(rank, len(self.kernel.body.inputs))]
        self.run(self.kernel.body, operands)
        return self.levels, self.copies

    # ------------------------------------------------------------ values

    def known(self, value: Value) -> Any:
        """The array that a value is, where ids and literals alone make it; else None."""
        if value.known is not LATER:
            return value.known
        value.known = None
        if value.axis is not None:
            if self.ids is not None:
                self.asked.add(value.axis)
                value.known = np.int32(self.ids[value.axis])
        elif value.part is not None:
            whole, number = value.part
            known = self.known(whole)
            value.known = None if known is None else known[number]
        elif value.eqn is not None:
            value.known = self._worked_out(value.eqn, value.inputs, value.number)
        return value.known

    def mask(self, value: Value, over: Level) -> Any:
        """What a mask over something is; None where that is not known, or not asked."""
        return None if not self.asks and over is not None and over.size > 1 else self.known(value)

    def _worked_out(self, eqn: Eqn, inputs: Sequence[Value], number: int) -> Any:
        if eqn.primitive.relation is None or eqn.effects or math.prod(eqn.outputs[number].type.shape) > LARGE:
            return None
        values = []
        for value in inputs:
            values.append(self.known(value))
            if values[-1] is None and eqn.primitive not in _DECIDED_BY:
                return None
        if any(v is None for v in values):  # one operand alone may decide
            alone = next((v for v in values if v is not None), None)
            if alone is None or not is_bool(alone.dtype) or not (alone == _DECIDED_BY[eqn.primitive]).all():
                return None
            return np.broadcast_to(alone, eqn.outputs[0].type.shape)
        out = apply(eqn.primitive, values, eqn.params)
        return out[number] if eqn.primitive.multiple else out

    def run(self, program: Program, args: Sequence[Value]) -> list[Value]:
        """Follow a Program."""
        self.steps += len(program.eqns)
        if self.steps > LIMIT:
            raise TooLong
        env: dict[Any, Value] = dict(zip(program.inputs, args, strict=True))
        env.update((v, Value(known=x)) for v, x in zip(program.constants, program.values, strict=True))
        for eqn in program.eqns:
            inputs = [env[a] if type(a) is Var else Value(known=a.value) for a in eqn.inputs]
            rule = self.rules.get(eqn.primitive)
            if rule is not None:
                outs = rule(self, eqn, inputs)
            elif any(v.ref is not None for v in inputs):
                outs = self.opaque(eqn, inputs)
            else:
                outs = _made(eqn, inputs, through(eqn, [v.level for v in inputs]))
            env.update(zip(eqn.outputs, outs, strict=True))
        return [env[a] if type(a) is Var else Value(known=a.value) for a in program.outputs]

    def select(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        """A choice: where it is known, of what is chosen; where not, of either, or of what it is made of."""
        rank, levels = len(eqn.outputs[0].type.shape), [v.level for v in inputs]
        level: Level = None
        if any(x is not None for x in levels):
            over = most(levels[1:], rank)
            which = None if levels[0] is not None else self.mask(inputs[0], over)
            if which is None:
                level = most([levels[0], doubted(over)], rank)
            elif np.ndim(which) == 0:
                level = levels[1 + int(which)]
            else:
                cases = [np.broadcast_to(np.uint8(0) if x is None else x, which.shape) for x in levels[1:]]
                level = tidy(np.choose(which.astype(np.intp), cases))
        return _made(eqn, inputs, [level])

    def logical(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        """`and` and `or`: where one operand decides, the other does not matter."""
        levels, rank = [v.level for v in inputs], len(eqn.outputs[0].type.shape)
        if is_bool(eqn.outputs[0].type.dtype) and any(x is not None for x in levels):
            for k, other in ((0, 1), (1, 0)):
                known = None
                if levels[k] is not None and levels[other] is None:
                    known = self.mask(inputs[other], levels[k])
                if known is not None:
                    clean = np.asarray(known == _DECIDED_BY[eqn.primitive]).reshape(np.shape(known) or (1,) * rank)
                    worst: Any = most([levels[k]], rank)
                    levels[k] = tidy(np.where(clean, CLEAN, worst).astype(np.uint8))
        return _made(eqn, inputs, [most(levels, rank)])

    # ------------------------------------------------------------ memory

    def type_of(self, ref: Any) -> Any:
        """The type of a Ref."""
        return self.kernel.body.inputs[ref].type

    def held(self, ref: int) -> Level:
        """What a Ref holds."""
        if ref in self.levels:
            return self.levels[ref]
        if ref not in self.loaded:
            self.loaded[ref] = self.found(ref)
        return self.loaded[ref]

    def place(self, ref: int, index: Index, dynamic: Sequence[Value], masked: bool) -> Any:
        """Where an access goes, as an index of NumPy's; None where that is not known, or outside."""
        shape = self.type_of(ref).shape
        at = [self.known(v) for v in dynamic]
        if any(x is None for x in at) or any(v.level is not None for v in dynamic) or math.prod(shape) > LARGE:
            return None
        try:
            return numpy_index(index, at, shape, masked, "")
        except OutOfBoundsError:
            return None

    def load(self, eqn: Eqn, ref: int, index: Index, dynamic: Sequence[Value], mask: Value | None = None,
             other: Value | None = None) -> Level:  # fmt: skip
        """The level of what is read."""
        held, shape = self.held(ref), access_shape(index)
        if held is not None and self.unwritten is None and (held >= UNWRITTEN).any():
            self.unwritten = ref, eqn
        level = seen(held)
        if any(v.level is not None for v in dynamic):
            level = flat(MAYBE, len(shape))
        elif level is not None and level.size == 1:
            level = level.reshape((1,) * len(shape))
        elif level is not None and not (mask is None and index.is_whole(self.type_of(ref).shape)):
            place = self.place(ref, index, dynamic, mask is not None)
            whole = np.broadcast_to(level, self.type_of(ref).shape)
            level = flat(MAYBE, len(shape)) if place is None else tidy(whole[place].reshape(shape))
        return level if mask is None else self.under(mask, level, None if other is None else other.level, shape)

    def under(self, mask: Value, new: Level, old: Level, shape: Sequence[int],
              join: Callable[[Level, Level], Level] = either) -> Level:  # fmt: skip
        """The level of what is new where a mask holds and old elsewhere."""
        new, old = (x if x is None or x.ndim == len(shape) else x.reshape((1,) * len(shape)) for x in (new, old))
        if mask.level is not None:
            return most([flat(MAYBE, len(shape)), join(new, old)], len(shape))
        known = None if new is None and old is None else self.mask(mask, most([new, old], len(shape)))
        if known is None:
            return None if new is None and old is None else join(new, old)
        a, b = (np.uint8(0) if x is None else x for x in (new, old))
        return tidy(np.where(known, a, b).astype(np.uint8))

    def store(self, eqn: Eqn, ref: int, new: Level, index: Index, dynamic: Sequence[Value], mask: Value | None = None
              ) -> None:  # fmt: skip
        """Write to a Ref."""
        type_ = self.type_of(ref)
        if type_.space is MemorySpace.SEMAPHORE:
            return
        if new is not None and int(new.max(initial=0)) > self.culprits.get(ref, (0, eqn))[0]:
            self.culprits[ref] = int(new.max(initial=0)), eqn
        old, shape = self.levels.get(ref), type_.shape
        if mask is None and index.is_whole(shape):
            self.levels[ref] = new
            return
        if all(x is None for x in (new, old, mask and mask.level, *(v.level for v in dynamic))):
            return
        place = self.place(ref, index, dynamic, mask is not None)
        if place is None:
            worst = None if new is None else flat(new.flat[0] if new.size == 1 else MAYBE, len(shape))
            self.levels[ref] = joined(old, worst)
            return
        full = np.array(np.broadcast_to(np.uint8(0) if old is None else old, shape))
        put: Level = new
        if mask is not None:
            put = self.under(mask, new, full[place], access_shape(index), joined)
        full[place] = np.uint8(0) if put is None else put if put.size > 1 else put.flat[0]
        self.levels[ref] = tidy(full)

    def get(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        dynamic, mask, other = split_operands(eqn.params["index"], inputs[1:], eqn.params.get("masked", False))
        return [Value(self.load(eqn, inputs[0].ref, eqn.params["index"], dynamic, mask, other))]  # type: ignore[arg-type]

    def put(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        """Stores, additions and atomic updates."""
        ref: Any = inputs[0].ref
        index, n = eqn.params["index"], 2 if eqn.primitive is atomic_cas_p else 1
        dynamic, mask, _ = split_operands(index, inputs[1 + n :], eqn.params.get("masked", False))
        rank = len(access_shape(index))
        reads = eqn.primitive is not swap_p or any(v in self.used for v in eqn.outputs)
        old = self.load(eqn, ref, index, dynamic) if reads else None
        new = most([v.level for v in inputs[1 : 1 + n]], rank)
        if eqn.primitive is not swap_p:
            new = most([new, old], rank)
        self.store(eqn, ref, doubted(new) if n == 2 else new, index, dynamic, mask)
        return [Value(old) for _ in eqn.outputs]

    def undefine(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        ref: Any = inputs[0].ref
        if ref in self.levels:
            empty = eqn.params["zero"] or not self.counted
            self.levels[ref] = None if empty else flat(UNWRITTEN, len(self.type_of(ref).shape))
        return []

    def opaque(self, eqn: Eqn, inputs: list[Value]) -> list[Value]:
        """What nobody told how it acts on Refs."""
        tainted = any((v.level if v.ref is None else seen(self.held(v.ref))) is not None for v in inputs)
        for effect in eqn.effects:
            ref = inputs[effect.operand].ref if isinstance(effect.operand, int) else None
            if ref in self.levels and effect.kind != "read":
                rank = len(self.type_of(ref).shape)
                self.levels[ref] = joined(self.levels[ref], flat(MAYBE, rank) if tainted else None)
        return [Value(flat(MAYBE, len(v.type.shape)) if tainted else None) for v in eqn.outputs]


Rule = Callable[[Follower, Eqn, list[Value]], list[Value]]
_RULES: dict[Primitive, Rule] = {
    get_p: Follower.get, swap_p: Follower.put, addupdate_p: Follower.put, atomic_rmw_p: Follower.put,
    atomic_cas_p: Follower.put, undefine_p: Follower.undefine, select_n_p: Follower.select, and_p: Follower.logical,
    or_p: Follower.logical,
}  # fmt: skip
