"""Whether what lies past the end of an operand reaches an output: values followed from loads to stores.

A load past the end of an operand without `fill` is unspecified. Element by element it does no harm, for a store past
the end of an output is dropped; summed over, or contracted, it spoils what it is summed into.

    Taint ::= CLEAN | Along(axes) | MAYBE | LEAKED

`Along`: unspecified only past the end along these axes, each with the cut (length, block size, index) that it stands
for; `perhaps`, where a mask that data goes into chose the value. `LEAKED`: unspecified elsewhere too. `MAYBE`: this
analysis does not know. Refuted is only what surely happens in a cell that sees the ragged block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.evaluate import evaluate
from ..core.ir import Eqn, Literal, Program, Var, subprograms
from ..core.primitives.ref import addupdate_p, get_p, swap_p
from ..core.types import RefType
from .affine import MAX_CELLS, Fact, dependencies, slice_of
from .carries import taken
from .kernel import Block, Kernel
from .normalize import inline_calls, rename


@dataclass(frozen=True)
class Taint:
    """What is unspecified of a value: nothing, past the end along `axes`, perhaps something, or anything."""

    level: int = 0  # 0 clean or along axes, 1 maybe, 2 leaked
    axes: frozenset[tuple[int, Any]] = frozenset()
    perhaps: bool = False  # a mask of data may have taken out some of what lies along the axes

    def __or__(self, other: Taint) -> Taint:
        return Taint(max(self.level, other.level), self.axes | other.axes, self.perhaps or other.perhaps)

    @property
    def clean(self) -> bool:
        return not self.level and not self.axes

    def moved(self, where: dict[int, int]) -> Taint:
        """With axes renamed; those that are not named are lost track of."""
        lost = any(a not in where for a, _ in self.axes)
        axes = frozenset((where[a], cut) for a, cut in self.axes if a in where)
        return Taint(max(self.level, int(lost)), axes, self.perhaps)

    @property
    def mixed(self) -> Taint:
        """After elements along one of the axes went into others."""
        return MAYBE if self.perhaps else LEAKED


CLEAN, MAYBE, LEAKED = Taint(), Taint(1), Taint(2)


def cut_of(block: Block, fact: Fact | None, axis: int) -> Any:
    """How one axis of an array is cut: equal for two operands whose blocks end together."""
    if fact is None or fact.affine is None:
        return (block.name, axis)
    terms = tuple(sorted(fact.affine.coefficients[axis].items()))
    return (block.array.shape[axis], block.sizes[axis], block.element[axis], fact.affine.const[axis], terms)


def ragged_axes(block: Block) -> list[int]:
    """The axes of an array along which a block may reach past its end."""
    shape = zip(block.array.shape, block.sizes, strict=True)
    return [d for d, (n, size) in enumerate(shape)
            if (any(block.padding[d]) if block.element[d] else n % size) and not block.squeezed[d]]  # fmt: skip


def ragged_cells(kernel: Kernel, block: Block, fact: Fact | None) -> np.ndarray | None:
    """The cells that see past the end, as an array that broadcasts to the grid; None if they are not known."""
    if fact is None or fact.table is None:
        return None
    found: Any = False
    for d in ragged_axes(block):
        low = block.padding[d][0] if block.element[d] else 0
        start = fact.table[..., d] * block.steps[d] - low
        found = found | (start < 0) | (start + block.sizes[d] > block.array.shape[d])
    return np.asarray(found).reshape([kernel.grid[a] if a in fact.axes else 1 for a in range(len(kernel.grid))])


# ---------------------------------------------------------------------------- rules for values

_REDUCTIONS = frozenset("reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or argmax argmin".split())
_INLINED = frozenset("jit closed_call custom_jvp_call custom_vjp_call checkpoint remat".split())
_FORWARD = frozenset("cumsum cumprod cummax cummin cumlogsumexp".split())
# What moves elements along some axes, or makes them of one another, by the parameter that names those axes.
_MIXED = {"sort": "dimension", "rev": "dimensions", "top_k": "axis", "split": "axis", **dict.fromkeys(_FORWARD, "axis")}


def _along(eqn: Eqn, taint: Taint, gone: Sequence[int]) -> Taint:
    """After a reduction over some axes."""
    if any(a in gone for a, _ in taint.axes):
        return taint.mixed
    rank = len(eqn.inputs[0].type.shape)
    kept = [a for a in range(rank) if a not in gone]
    return taint.moved({a: k for k, a in enumerate(kept)})


def _dot(eqn: Eqn, taints: Sequence[Taint]) -> Taint:
    contracted, batch = eqn.params["dimension_numbers"]
    found, offset = CLEAN, len(batch[0])
    for atom, taint, over, rows in zip(eqn.inputs, taints, contracted, batch, strict=False):
        rank = len(atom.type.shape)
        free = [a for a in range(rank) if a not in over and a not in rows]
        if any(a in over for a, _ in taint.axes):
            return taint.mixed
        where = {a: k for k, a in enumerate(rows)} | {a: offset + k for k, a in enumerate(free)}
        found |= taint.moved(where)
        offset += len(free)
    return found


def _reshape(eqn: Eqn, taint: Taint) -> Taint:
    """Only axes of size 1 coming or going keep the others apart."""
    before, after = eqn.inputs[0].type.shape, eqn.outputs[0].type.shape
    old, new = ([a for a, n in enumerate(shape) if n != 1] for shape in (before, after))
    if [before[a] for a in old] != [after[a] for a in new]:
        return taint.moved({})
    return taint.moved(dict(zip(old, new, strict=True)))


def value_rule(eqn: Eqn, taints: Sequence[Taint]) -> Taint:
    """What is unspecified of an equation's results."""
    name, params = eqn.primitive.name, eqn.params
    every = CLEAN
    for t in taints:
        every |= t
    if every.clean:
        return CLEAN
    if name in _FORWARD and not params.get("reverse"):
        return every
    if name in _MIXED:
        mixed = params[_MIXED[name]]
        mixed = mixed if type(mixed) is tuple else (mixed,)
        return MAYBE if any(a in mixed for a, _ in every.axes) else every
    if name == "reduce":  # what it computes may pass an operand over
        return _along(eqn, Taint(every.level, every.axes, True), params["dimensions"])
    if name in _REDUCTIONS:
        return _along(eqn, every, params["axes"]) if "axes" in params else MAYBE
    if name == "dot_general":
        return _dot(eqn, taints)
    if name == "broadcast_in_dim":
        return every.moved(dict(enumerate(params["broadcast_dimensions"])))
    if name == "slice":
        strides = params["strides"] or (1,) * len(params["start_indices"])
        return every.moved({a: a for a, at in enumerate(zip(params["start_indices"], strides)) if at == (0, 1)})
    if name == "transpose":
        return every.moved({a: k for k, a in enumerate(params["permutation"])})
    if name in ("reshape", "squeeze", "expand_dims"):
        return _reshape(eqn, every)
    shapes = {v.type.shape for v in eqn.outputs}
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is not None and all(a.type.shape in ((), shape) for a in eqn.inputs) and not list(subprograms(eqn)):
        if name in _OPAQUE:
            return MAYBE
        if name == "select_n":  # a mask may take out just what is unspecified
            return MAYBE if every.level else Taint(0, every.axes, True)
        return every
    return Taint(max(every.level, 1)) if every.level < 2 else MAYBE


_OPAQUE = frozenset("dynamic_update_slice gather scatter".split())


# ---------------------------------------------------------------------------- the body


def _plain_call(eqn: Eqn) -> bool:
    """Whether an equation calls a plain function, whose equations may stand in its place."""
    return eqn.primitive.name in _INLINED and "program" in eqn.params and not eqn.params["program"].constants


class _Walk:
    """One ragged operand followed through a body."""

    def __init__(self, kernel: Kernel, number: int, facts: dict[str, Fact | None]):
        self.kernel, self.facts = kernel, facts
        self.block = kernel.inputs[number]
        _, first_in, self.first_out, first_scratch, _ = kernel.splits
        self.source = kernel.body.inputs[first_in + number]
        self.outputs = dict(zip(kernel.body.inputs[self.first_out : first_scratch], kernel.outputs, strict=True))
        self.cells = ragged_cells(kernel, self.block, facts[self.block.name])
        self.state: dict[Var, Taint] = {}
        self.own: set[Any] = set()  # what is made of this operand alone
        self.known = {v for e in kernel.body.eqns for v in e.outputs}
        self.worst: tuple[int, str, Eqn | None] = (0, "", None)
        self.dims = {cut_of(self.block, facts[self.block.name], d): d for d in ragged_axes(self.block)}
        self.state[self.source] = Taint(0, frozenset(self.loaded()))

    def loaded(self) -> list[tuple[int, Any]]:
        fact, seen, found = self.facts[self.block.name], 0, []
        for d in range(self.block.array.ndim):
            if d in ragged_axes(self.block):
                found.append((seen, cut_of(self.block, fact, d)))
            seen += not self.block.squeezed[d]
        return found

    def taint(self, atom: Any) -> Taint:
        return CLEAN if type(atom) is Literal else self.state.get(atom, CLEAN)

    def run(self, program: Program, cells: np.ndarray | None, always: bool) -> None:
        """Follow a Program that runs in some of the ragged cells (None: it is not known in which), or `always`."""
        for eqn in program.eqns:
            self.one(eqn, cells, always)

    def one(self, eqn: Eqn, cells: np.ndarray | None, always: bool) -> None:
        if eqn.primitive is get_p:
            source = eqn.inputs[0] is self.source
            elsewhere = source and cells is not None and not cells.any()  # where the block is whole
            self.state[eqn.outputs[0]] = CLEAN if elsewhere else self.read(eqn)
            if source:
                self.own.add(eqn.outputs[0])
        elif eqn.primitive in (swap_p, addupdate_p):
            self.write(eqn, cells, always)
        elif any(isinstance(a.type, RefType) for a in eqn.inputs):
            self.control(eqn, cells, always)
        else:
            self.value(eqn, cells is not None and bool(cells.any()))

    def value(self, eqn: Eqn, sure: bool) -> None:
        taints = [self.taint(a) for a in eqn.inputs]
        if eqn.inputs and all(type(a) is Literal or a in self.own for a in eqn.inputs):
            self.own.update(eqn.outputs)
        found = CLEAN
        if eqn.primitive.name == "select_n" and eqn.inputs[0] in self.own:
            for t in taints:
                found |= t
        else:
            masked = self.masked(eqn, taints) if eqn.primitive.name == "select_n" else None
            found = value_rule(eqn, taints) if masked is None else masked
        if not sure and found.level == 2 and all(t.level < 2 for t in taints):
            found = MAYBE
        for var in eqn.outputs:
            self.state[var] = found

    def masked(self, eqn: Eqn, taints: Sequence[Taint]) -> Taint | None:
        """What a choice by positions and ids alone leaves unspecified; None where that is not known."""
        test, size = eqn.inputs[0], eqn.outputs[0].type.shape
        axes: set[tuple[int, Any]] = set().union(*(t.axes for t in taints))
        if type(test) is not Var or test not in self.known or test.type.shape != size or self.cells is None:
            return None
        if not taints[0].clean or any(t.level for t in taints) or any(cut not in self.dims for _, cut in axes):
            return None
        program = slice_of(self.kernel.body, [test])
        n = self.kernel.splits[0]
        places = np.argwhere(np.broadcast_to(self.cells, self.kernel.grid))
        if "data" in dependencies(program, n)[test] or len(places) * np.prod(size, dtype=np.int64) > MAX_CELLS:
            return None
        spoiled = np.asarray([not t.clean for t in taints[1:]])
        left: set[tuple[int, Any]] = set()
        for ids in places:
            (chosen,) = evaluate(program, *map(np.int32, ids), *[None] * (len(program.inputs) - n))
            wrong = spoiled[np.asarray(chosen, np.int64)]
            left |= {(a, cut) for a, cut in axes if (wrong & self.outside(self.dims[cut], ids, size, a)).any()}
        return Taint(0, frozenset(left), any(t.perhaps for t in taints))

    def outside(self, d: int, ids: np.ndarray, size: Sequence[int], axis: int) -> np.ndarray:
        """Which positions of a value lie past the end of the operand's axis `d` in a cell."""
        fact, block = self.facts[self.block.name], self.block
        assert fact is not None and fact.table is not None
        low = block.padding[d][0] if block.element[d] else 0
        at = fact.table[tuple(ids[a] for a in fact.axes)][d] * block.steps[d] - low + np.arange(size[axis])
        wrong = (at < 0) | (at >= block.array.shape[d])
        return wrong.reshape([-1 if k == axis else 1 for k in range(len(size))])

    def read(self, eqn: Eqn) -> Taint:
        ref: Any = eqn.inputs[0]
        taint = self.taint(ref)
        if taint.clean or eqn.params["index"].is_whole(ref.type.shape) and not eqn.params.get("masked"):
            return taint
        return MAYBE

    def write(self, eqn: Eqn, cells: np.ndarray | None, always: bool) -> None:
        ref: Any = eqn.inputs[0]
        new = self.taint(eqn.inputs[1])
        for var in eqn.outputs:
            self.state[var] = self.read(eqn)
        whole = eqn.params["index"].is_whole(ref.type.shape) and not eqn.params.get("masked")
        if not whole and not new.clean:
            new = MAYBE
        if ref in self.outputs:
            self.stored(ref, new, eqn, cells is not None and bool(cells.any()))
        old = self.taint(ref)
        if eqn.primitive is swap_p and whole and always:
            self.state[ref] = new
        elif eqn.primitive is swap_p and new.clean and not old.clean:
            self.state[ref] = MAYBE  # reset in some cells: whether before or after is not followed
        else:
            self.state[ref] = old | new

    def stored(self, ref: Var, new: Taint, eqn: Eqn, sure: bool) -> None:
        """Note what a store to an output leaves there; what lies past the output's end too is dropped."""
        block = self.outputs[ref]
        seen = [d for d in range(block.array.ndim) if not block.squeezed[d]]
        dropped = {(k, cut_of(block, self.facts[block.name], d)) for k, d in enumerate(seen)}
        level = new.level if sure else min(new.level, 1)
        kept = level if not new.axes - dropped else max(level, 1)
        if kept > self.worst[0]:
            self.worst = kept, block.name, eqn

    def control(self, eqn: Eqn, cells: np.ndarray | None, always: bool) -> None:
        """A `when` whose test is known is followed into both branches; of others the written Refs are not known."""
        test = eqn.inputs[0] if eqn.inputs else None
        table = taken(self.kernel, eqn) if type(test) is Literal or test in self.known else None
        if table is not None:
            for number, where in ((0, ~table), (1, table)):
                branch = inline_calls(rename(eqn.params["branches"][number], eqn.inputs[1:]), _plain_call)
                if where.all():
                    self.run(branch, cells, always)
                elif where.any():
                    self.run(branch, None if cells is None else cells & where, False)
                for var, atom in zip(eqn.outputs, branch.outputs, strict=True):
                    self.state[var] = self.state.get(var, CLEAN) | self.taint(atom)
            return
        if all(self.taint(a).clean for a in eqn.inputs):
            return
        for effect in eqn.effects:
            if isinstance(effect.operand, int) and effect.kind != "read":
                ref: Any = eqn.inputs[effect.operand]
                self.state[ref] = MAYBE
                if ref in self.outputs and not self.worst[0]:
                    self.worst = 1, self.outputs[ref].name, eqn
        for var in eqn.outputs:
            self.state[var] = MAYBE


def follow(kernel: Kernel, number: int, facts: dict[str, Fact | None]) -> tuple[int, str, Eqn | None]:
    """What becomes of what input `number` holds past its end: 0 nothing, 1 not known, 2 it reaches an output.

    With the output's name and the equation that stores it there.
    """
    walk = _Walk(kernel.replace(body=inline_calls(kernel.body, _plain_call)), number, facts)
    if walk.cells is not None and not walk.cells.any():
        return 0, "", None
    walk.run(walk.kernel.body, walk.cells, True)
    return walk.worst
