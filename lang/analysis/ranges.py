"""Range analysis: whether unmasked accesses at computed indices are in bounds, in every cell.

An integer (or boolean) is followed as the range of what it may be, each end a table that broadcasts to the grid; one
whose ends are one table is known. What data goes into is not known. Masked accesses skip out-of-bounds elements.
Where a grid has too many cells for tables, ids are ranges, which prove; the cells at the ends of the axes then refute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.axis_relation import IDENTITY, MOVER, POINTWISE
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, Var, every_eqn
from ...core.ir.types import is_bool, is_integer
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p, mul_p, neg_p, rem_p, sub_p
from ...core.primitives.elementwise.bitwise import and_p, not_p, or_p
from ...core.primitives.elementwise.comparison import clamp_p, eq_p, ge_p, gt_p, le_p, lt_p, ne_p, select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.movement.shape import iota_p
from ...core.primitives.refs.state_primitives import Index, addupdate_p, get_p, swap_p
from ..kernel.kernel import Kernel
from ..kernel.traverse import CALLS
from ..ops.atomics import atomic_cas_p, atomic_rmw_p
from ..ops.dma import dma_start_p, dma_wait_p
from .affine import MAX_CELLS

FAR = 2**40  # beyond any size


class Range(NamedTuple):
    """The least and the greatest that an integer may be, in every cell."""

    low: Any
    high: Any

    @property
    def known(self) -> bool:
        return self.low is self.high


class Ref(NamedTuple):
    """A Ref, by its position among the inputs of the body."""

    position: int


@dataclass(frozen=True)
class Place:
    """The range of indices along an axis of a Ref: `sure` if some are certainly out of bounds, in `cell`."""

    position: int
    axis: int
    eqn: Eqn
    sure: bool = False
    cell: tuple[int, ...] = ()
    first: int = 0


def _exact(value: ArrayLike) -> Range:
    table = np.asarray(value, np.int64)
    return Range(table, table)


def _ends(values: Sequence[Any]) -> Range:
    """The range from the least to the greatest element of some tables."""
    low = high = values[0]
    for value in values[1:]:
        low, high = np.minimum(low, value), np.maximum(high, value)
    return Range(low, high)


def _product(a: Range, b: Range) -> Range:
    return _ends([x * y for x in a for y in b])


def _remainder(a: Range, b: Range) -> Range | None:
    if not b.known or (np.asarray(b.low) < 1).any() or (np.asarray(a.low) < 0).any():
        return None
    return Range(np.zeros((), np.int64), np.minimum(a.high, b.low - 1))


def _less(a: Range, b: Range, equal: int) -> Range:
    """`a < b` (or `<=`), as a range of 0 and 1."""
    return Range((a.high < b.low + equal).astype(np.int64), (a.low < b.high + equal).astype(np.int64))


def _same(a: Range, b: Range) -> Range:
    sure = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return Range(sure.astype(np.int64), ((a.low <= b.high) & (b.low <= a.high)).astype(np.int64))


def _not(a: Range) -> Range:
    return Range(1 - a.high, 1 - a.low)


_RULES: dict[Primitive, Callable[..., Range | None]] = {
    add_p: lambda a, b: Range(a.low + b.low, a.high + b.high),
    sub_p: lambda a, b: Range(a.low - b.high, a.high - b.low),
    mul_p: _product,
    convert_element_type_p: lambda a: a,
    neg_p: lambda a: Range(-a.high, -a.low),
    max_p: lambda a, b: Range(np.maximum(a.low, b.low), np.maximum(a.high, b.high)),
    min_p: lambda a, b: Range(np.minimum(a.low, b.low), np.minimum(a.high, b.high)),
    clamp_p: lambda a, x, b: Range(*(np.minimum(np.maximum(v, u), w) for u, v, w in zip(a, x, b, strict=True))),
    rem_p: _remainder,
    lt_p: lambda a, b: _less(a, b, 0),
    le_p: lambda a, b: _less(a, b, 1),
    gt_p: lambda a, b: _less(b, a, 0),
    ge_p: lambda a, b: _less(b, a, 1),
    eq_p: _same,
    ne_p: lambda a, b: _not(_same(a, b)),
    select_n_p: lambda which, *cases: _ends([end for case in cases for end in case]),
}  # fmt: skip
_LOGICAL: dict[Primitive, Callable[..., Range | None]] = {
    and_p: lambda a, b: Range(np.minimum(a.low, b.low), np.minimum(a.high, b.high)),
    or_p: lambda a, b: Range(np.maximum(a.low, b.low), np.maximum(a.high, b.high)),
    not_p: _not,
}
_ENOUGH = (select_n_p, max_p, min_p, clamp_p)  # of which one operand may say enough
_OPEN = {is_integer: Range(np.asarray(-FAR), np.asarray(FAR)), is_bool: Range(np.asarray(0), np.asarray(1))}
VALUES = {get_p: 0, swap_p: 1, addupdate_p: 1, atomic_rmw_p: 1, atomic_cas_p: 2}  # that follow the Ref


def _tables(grid: Sequence[int]) -> list[np.ndarray | None]:
    """The ids along each axis, short axes first; None for the axes with which there are too many cells for tables."""
    out: list[np.ndarray | None] = [None] * len(grid)
    cells = 1
    for axis in sorted(range(len(grid)), key=lambda a: grid[a]):
        cells *= grid[axis]
        if cells <= MAX_CELLS:
            out[axis] = np.arange(grid[axis])
    return out


def computed_places(program: Program) -> bool:
    """Whether some access without a mask goes where something is computed."""
    for eqn in every_eqn(program):
        if eqn.primitive in VALUES and eqn.params["index"].dynamic and not eqn.params["masked"]:
            return True
        if eqn.primitive in (dma_start_p, dma_wait_p) and any(eqn.params[n].dynamic for n in ("src", "dst", "sem")):
            return True
    return False


class Places:
    """The accesses at computed indices: `seen`, their Refs; `wrong`, those that may be out of bounds.

    Of the body, or of `program`, whose inputs are the first of those of the body: an index map.
    """

    kernel: Kernel
    seen: set[int]
    ranges: int

    def __init__(self, kernel: Kernel, program: Program | None = None):
        self.kernel, self.seen = kernel, set[int]()
        self.wrong: list[Place] = []
        self.ranges = 0  # how many of these are not known by ranges, rather than by data
        program = program or kernel.body
        if not computed_places(program):
            return
        self.ids = _tables(kernel.grid)
        self.follow(program)
        if any(ids is None for ids in self.ids) and self.ranges and not self.wrong[0].sure:
            self.ids: list[np.ndarray] = [np.unique(np.clip([0, 1, n - 2, n - 1], 0, n - 1)) for n in kernel.grid]
            self.follow(program)

    def follow(self, program: Program) -> None:
        """Follow a Program of the ids and Refs, in the cells of `ids`."""
        rank, args = len(self.ids), list[Any]()
        for axis, (ids, n) in enumerate(zip(self.ids, self.kernel.grid, strict=True)):
            if ids is None:
                args.append(Range(np.asarray(0), np.asarray(n - 1)))
            else:
                args.append(_exact(ids.reshape([-1 if a == axis else 1 for a in range(rank)])))
        args += [Ref(p) for p in range(rank, len(program.inputs))]
        self.run(program, args, np.asarray(True), np.asarray(True))

    def run(self, program: Program, args: Sequence[Any], may: np.ndarray, sure: np.ndarray) -> list[Any]:
        """Follow a Program that runs in the cells `sure`, and in no others than `may`."""
        env: dict[Any, Any] = dict(zip(program.inputs, args, strict=True))
        for eqn in program.eqns:
            inputs = [env.get(a) if type(a) is Var else self.literal(a.value) for a in eqn.inputs]
            outs = self.one(eqn, inputs, may, sure)
            env.update(zip(eqn.outputs, outs, strict=True))
        return [env.get(a) if type(a) is Var else self.literal(a.value) for a in program.outputs]

    @staticmethod
    def literal(value: Any) -> Range | None:
        return _exact(value) if is_integer(value.dtype) or is_bool(value.dtype) else None

    def one(self, eqn: Eqn, inputs: list[Any], may: np.ndarray, sure: np.ndarray) -> list[Any]:
        primitive = eqn.primitive
        if primitive in VALUES:
            if not eqn.params["masked"]:
                self.access(eqn, inputs[0].position, eqn.params["index"], inputs[1 + VALUES[primitive] :], may, sure)
        elif primitive in (dma_start_p, dma_wait_p):
            at = 0
            for name in ("src", "dst", "sem"):
                index = eqn.params[name]
                self.access(eqn, inputs[at].position, index, inputs[at + 1 :], may, sure)
                at += 1 + len(index.dynamic)
        elif primitive in CALLS:
            return self.run(eqn.params["program"], inputs, may, sure)
        elif primitive is cond_p:
            return self.cond(eqn, inputs, may, sure)
        elif primitive is scan_p:
            return self.scan(eqn, inputs, may, sure)
        elif primitive is while_p:
            return self.loop(eqn, inputs, may)
        elif not any(type(v) is Ref for v in inputs):
            return self.value(eqn, inputs)
        return [None] * len(eqn.outputs)

    def value(self, eqn: Eqn, inputs: list[Any]) -> list[Any]:
        """The ranges of an equation's results."""
        if len(eqn.outputs) != 1:
            return [None] * len(eqn.outputs)
        primitive, type_ = eqn.primitive, eqn.outputs[0].type
        whole = next((open_ for kind, open_ in _OPEN.items() if kind(type_.dtype)), None)
        if whole is None:
            return [None]
        if primitive is iota_p:
            return [Range(np.asarray(0), np.asarray(type_.shape[eqn.params["dimension"]] - 1))]
        logical = primitive in _LOGICAL and is_bool(type_.dtype)
        if logical or primitive in _ENOUGH:
            inputs = [next((o for kind, o in _OPEN.items() if kind(a.type.dtype)), None) if v is None else v
                      for v, a in zip(inputs, eqn.inputs, strict=True)]  # fmt: skip
        if not inputs or any(v is None for v in inputs):
            return [None]
        if primitive.kind == POINTWISE and all(v.known for v in inputs) and not any(a.type.shape for a in eqn.inputs):
            given = [v.low.astype(a.type.dtype) for v, a in zip(inputs, eqn.inputs, strict=True)]
            if primitive.numpy is not None and np.broadcast(*given).size <= MAX_CELLS:
                with np.errstate(all="ignore"):
                    return [_exact(primitive.numpy(*np.broadcast_arrays(*given), **eqn.params))]
        rule = _LOGICAL[primitive] if logical else _RULES.get(primitive)
        if rule is not None:
            return [rule(*inputs)]
        if primitive.kind in (MOVER, IDENTITY):
            return [_ends([end for v in inputs for end in v])]
        return [None]

    def access(self, eqn: Eqn, position: int, index: Index, operands: Sequence[Any], may: np.ndarray, sure: np.ndarray
               ) -> None:  # fmt: skip
        """Note where an access goes."""
        shape, given = self.kernel.body.inputs[position].type.shape, iter(operands)
        for axis, (entry, n) in enumerate(zip(index, shape, strict=True)):
            if entry.start is not None:
                continue
            self.seen.add(position)
            place = next(given)
            span = max(entry.size - 1, 0) * entry.stride
            if place is None:
                self.wrong.append(Place(position, axis, eqn))
                continue
            if (may & ((place.low < 0) | (place.high + span >= n))).any():
                outside = sure & ((place.high < 0) | (place.low + span >= n))
                if outside.any():
                    self.refuse(position, axis, eqn, outside, place.low)
                else:
                    self.wrong.append(Place(position, axis, eqn))
                    self.ranges += 1

    def refuse(self, position: int, axis: int, eqn: Eqn, outside: np.ndarray, low: np.ndarray) -> None:
        at = tuple(np.argwhere(outside)[0])
        first = np.broadcast_to(low, outside.shape)[at]
        at = (0,) * (len(self.ids) - outside.ndim) + at
        cell = tuple(0 if ids is None else int(ids[i]) for ids, i in zip(self.ids, at, strict=True))
        self.wrong.insert(0, Place(position, axis, eqn, True, cell, int(first)))

    # ------------------------------------------------------------ control flow

    def cond(self, eqn: Eqn, inputs: list[Any], may: np.ndarray, sure: np.ndarray) -> list[Any]:
        which, found = inputs[0] or _OPEN[is_integer], []
        last = len(eqn.params["branches"]) - 1
        for number, branch in enumerate(eqn.params["branches"]):
            here = may & ((which.low <= number) | (number == last)) & ((which.high >= number) | (number == 0))
            surely = sure & (which.low == which.high) & (which.low == number)
            if here.any():
                found.append(self.run(branch, inputs[1:], here, surely))
        outs = []
        for values in zip(*found, strict=True):
            unknown = any(v is None for v in values)
            outs.append(None if unknown else values[0] if len(values) == 1 else _ends([e for v in values for e in v]))
        return outs

    def carried(
        self, program: Program, carry: Sequence[Any], first: int, count: ArrayLike, last: bool = False
    ) -> list[Any]:
        """The ranges of a loop's carry in any iteration (`last`: in the last one): of counters, and of invariants.
        """
        made = {v: e for e in program.eqns for v in e.outputs}
        out = []
        for number, start in enumerate(carry):
            mine, after = program.inputs[first + number], program.outputs[number]
            step = _step(made.get(after), mine)  # type: ignore[arg-type]
            if start is None or (after is not mine and step is None):
                out.append(None)
            elif after is mine:
                out.append(start)
            else:
                way = step * np.maximum(count - 1, 0)
                if last:
                    out.append(_exact(start.low + way) if start.known else None)
                else:
                    out.append(Range(start.low + np.minimum(way, 0), start.high + np.maximum(way, 0)))
        return out

    def scan(self, eqn: Eqn, inputs: list[Any], may: np.ndarray, sure: np.ndarray) -> list[Any]:
        p = eqn.params
        n, m, length = p["num_consts"], p["num_carry"], p["length"]
        if length:
            count, ranges = np.asarray(length), self.ranges
            carry = self.carried(p["program"], inputs[n : n + m], n, count)
            self.run(p["program"], [*inputs[:n], *carry, *inputs[n + m :]], may, sure)
            if self.ranges > ranges and not self.wrong[0].sure:
                for known in (inputs[n : n + m], self.carried(p["program"], inputs[n : n + m], n, count, last=True)):
                    self.run(p["program"], [*inputs[:n], *known, *inputs[n + m :]], may, sure)
        after = self.carried(p["program"], inputs[n : n + m], n, np.asarray(length + 1))
        return [*after, *[None] * (len(eqn.outputs) - m)]

    def loop(self, eqn: Eqn, inputs: list[Any], may: np.ndarray) -> list[Any]:
        p = eqn.params
        n, m = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
        test, body, never = p["cond_program"], p["body_program"], np.asarray(False)
        carry = self.carried(body, inputs[m:], p["body_nconsts"], np.asarray(FAR))
        self.run(test, [*inputs[:n], *carry], may, never)
        within = list(carry)
        if len(test.eqns) == 1 and test.eqns[0].primitive is lt_p and test.eqns[0].outputs[0] is test.outputs[0]:
            places = [test.inputs.index(a) - n if a in test.inputs else -1 for a in test.eqns[0].inputs]
            i, end = places
            if i >= 0 and end >= 0 and carry[i] is not None and carry[end] is not None:
                within[i] = Range(carry[i].low, np.minimum(carry[i].high, carry[end].high - 1))
                may = may & (within[i].low <= within[i].high)
        self.run(body, [*inputs[n:m], *within], may, never)
        return carry


def _step(eqn: Eqn | None, counter: Var) -> int | None:
    """How much an equation adds to a counter."""
    if eqn is None or eqn.primitive is not add_p or counter not in eqn.inputs:
        return None
    other = eqn.inputs[1 - eqn.inputs.index(counter)]
    return None if type(other) is Var else int(other.value)


def wrong_places(kernel: Kernel, program: Program | None = None) -> Iterator[tuple[int, Place | None]]:
    """For each Ref accessed at computed indices, the worst out-of-bounds candidate; None if there is none.

    By the body, or by `program`, an index map.
    """
    found = Places(kernel, program)
    for position in sorted(found.seen):
        yield position, next((place for place in found.wrong if place.position == position), None)
