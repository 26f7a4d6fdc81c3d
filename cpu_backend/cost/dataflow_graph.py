"""A kernel's body as a graph of values, and the passes over memory that XLA and machine code make of it.

    Value ::= stored (an operand, a loop's state, a product) | computed where it is read, from other values
    Root  ::= what is written: an output, a reduction, a product, a stored intermediate value

XLA computes each root in a loop of its own over whole arrays, all cells side by side. Reductions along rows are one
loop with the root that reads them, where only one does. Machine code makes one pass over the operands, block by block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.ir.axis_relation import FREE, IDENTITY, MOVER, POINTWISE, Reduced, relate, runs
from ...core.ir.program import Atom, Eqn, Literal, Program, Var, subprograms
from ...core.ir.types import RefType
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p
from ...lang.analysis.facts import analyse
from ...lang.analysis.index_maps import map_of
from ...lang.kernel.kernel import Block, Kernel
from ...lang.kernel.traverse import CALLS, inner_programs
from .operations import DEAR, Cost, cost_of


@dataclass(eq=False)
class Value:
    """`size` elements of `itemsize` bytes in all cells; `bytes` are those of the array that they are of, if fewer."""

    size: int
    itemsize: int
    width: int = 1  # elements of the innermost axis
    operands: tuple[Value, ...] = ()
    cost: Cost = Cost(0, 0)
    stored: bool = False
    rows: bool = False  # a reduction along rows
    bytes: int = 0
    cells: frozenset[int] = frozenset()  # the axes of the grid that it depends on
    distinct: int = 0  # elements in cells that differ

    def __post_init__(self) -> None:
        self.bytes = self.bytes or self.size * self.itemsize


@dataclass(eq=False)
class Root:
    """A value that is computed and written `bytes` of; `flops` are those of a product, of operands of `itemsize`.

    `dtypes` are those of its operands and of its result.
    """

    value: Value
    bytes: int
    flops: int = 0
    itemsize: int = 4
    dtypes: tuple[str, ...] = ()
    ref: Any = None  # the Ref that it is written to
    reduces: bool = False  # along other axes than rows
    right: int = 0  # bytes of a product's right operand, in all cells


@dataclass(eq=False)
class Region:
    """The roots of one body, that of a loop being a region of its own; each runs `times`."""

    times: int
    roots: list[Root] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    loop: bool = False
    reductions: dict[Any, list[Value]] = field(default_factory=dict)  # the same one of the same values is done once


class Graph:
    """The regions of a kernel's body."""

    kernel: Kernel
    cells: int
    states: set[Var]

    def __init__(self, kernel: Kernel):
        self.kernel, self.cells = kernel, kernel.cells
        self.regions: list[Region] = []
        self.every: frozenset[int] = frozenset(range(len(kernel.grid)))
        outputs = kernel.body.inputs[kernel.splits[2] : kernel.splits[3]]
        self.aliased: set[Var] = {outputs[o] for _, o in kernel.aliases}
        found = analyse(kernel).phases
        first = len(kernel.grid) + len(kernel.prefetch) + len(kernel.blocks)
        # Refs that keep something from cell to cell: scratch, and outputs that several cells add to.
        self.states = {*kernel.body.inputs[first:], *(kernel.body.inputs[i] for i in (found.states if found else ()))}
        pre = len(kernel.grid) + len(kernel.prefetch)
        refs = kernel.body.inputs[pre:]
        # The axes of the grid that a Ref or an id depends on; all where nothing is known of it.
        self.axes: dict[Any, frozenset[int]] = {
            ref: _axes(kernel, b) for ref, b in zip(refs, kernel.blocks, strict=False)
        }  # fmt: skip
        self.axes |= {var: frozenset([a]) for a, var in enumerate(kernel.body.inputs[: len(kernel.grid)])}
        self.arrays: dict[Any, int] = {ref: b.array.nbytes for ref, b in zip(refs, kernel.blocks, strict=False)}
        self._region(kernel.body, 1, {}, False)

    def _region(self, program: Program, times: int, refs: dict[Any, Any], loop: bool) -> None:
        region = Region(times, loop=loop)
        self.regions.append(region)
        env: dict[Any, Value] = {}
        outs = self._run(program, region, env, refs)
        if loop:
            region.roots += [Root(v, v.bytes) for v in outs if v.operands]

    def _type(self, type_: Any) -> tuple[int, int, int]:
        shape, dtype = getattr(type_, "shape", ()), getattr(type_, "dtype", np.dtype(np.int32))
        itemsize = getattr(dtype, "itemsize", 4)
        return math.prod(shape) * self.cells, itemsize, shape[-1] if shape else 1

    def _value(self, var: Any, operands: Sequence[Value] = (), axes: Any = None, **options: Any) -> Value:
        """A value of a variable's type; `axes` of the grid that it depends on: without them, those of its operands."""
        cells = frozenset().union(*(o.cells for o in operands)) if axes is None else axes
        found = Value(*self._type(var.type), tuple(operands), **options, cells=cells)
        found.distinct = found.size // self.cells * math.prod(self.kernel.grid[a] for a in cells)
        return found

    def _run(self, program: Program, region: Region, env: dict[Any, Value], refs: dict[Any, Any]) -> list[Value]:
        """Walk a Program; `refs` are the Refs of the kernel by those of the Program."""
        states: dict[Any, Value] = {}  # what has been written to all of a Ref

        def read(atom: Atom) -> Value:
            if isinstance(atom, Literal):
                return Value(1, 1)
            if atom not in env:
                env[atom] = self._value(atom, axes=self.axes.get(atom, self.every), stored=True)
            return env[atom]

        for eqn in program.eqns:
            found = self._eqn(eqn, region, read, refs, states)
            for var, value in zip(eqn.outputs, found, strict=True):
                env[var] = value
                region.values.append(value)
        return [read(a) for a in program.outputs if not isinstance(a.type, RefType)]

    def _eqn(self, eqn: Eqn, region: Region, read: Any, refs: dict[Any, Any], states: dict[Any, Value]) -> list[Value]:
        primitive = eqn.primitive
        if primitive in (get_p, swap_p, addupdate_p):
            return self._access(eqn, region, read, refs, states)
        inner = list(inner_programs(eqn)) if any(True for _ in subprograms(eqn)) else []
        if inner:
            return self._inner(eqn, inner, region, read, refs)
        operands = [read(a) for a in eqn.inputs if not isinstance(a.type, RefType)]
        relation = relate(eqn)
        if primitive is dot_general_p and relation is not None:
            return [self._product(eqn, operands, region, relation.points)]
        if primitive.kind in (POINTWISE, MOVER, IDENTITY) or primitive.work is FREE and relation is not None:
            return [self._value(v, operands, cost=cost_of(eqn)) for v in eqn.outputs]
        if relation is not None and relation.of_kind(Reduced) and operands:
            key = (primitive, tuple(map(id, operands)), tuple(map(str, eqn.params.values())))
            if key not in region.reductions:
                region.reductions[key] = [self._reduction(v, operands, relation, region) for v in eqn.outputs]
            return region.reductions[key]
        made = [self._value(v, operands, cost=cost_of(eqn)) for v in eqn.outputs]
        region.roots += [Root(m, m.bytes) for m in made]
        for m in made:
            m.stored = True
        return made

    def _access(
        self, eqn: Eqn, region: Region, read: Any, refs: dict[Any, Any], states: dict[Any, Value]
    ) -> list[Value]:
        ref = refs.get(eqn.inputs[0], eqn.inputs[0])
        index = eqn.params["index"]
        whole = index.is_whole(eqn.inputs[0].type.shape) and not eqn.params["masked"]
        if eqn.primitive is get_p and whole and ref in states:
            return [states[ref]]
        out = []
        if eqn.outputs and not (eqn.primitive is swap_p and whole):
            size, itemsize, width = self._type(eqn.outputs[0].type)
            most = self.arrays.get(ref, size * itemsize)
            axes = self.axes.get(ref, self.every)
            out = [Value(size, itemsize, width, stored=True, bytes=min(size * itemsize, most), cells=axes)]
        elif eqn.outputs:
            out = [Value(1, 1)]
        if eqn.primitive is not get_p:
            value = read(eqn.inputs[1])
            spread = Value(*self._type(eqn.inputs[0].type), (value,))
            size = value.size * value.itemsize if whole is False else spread.bytes
            bytes_ = min(size, self.arrays.get(ref, size))
            if eqn.primitive is addupdate_p:  # read, added to, written
                old = Value(value.size, value.itemsize, value.width, stored=True, bytes=bytes_)
                spread = Value(value.size, value.itemsize, value.width, (value, old), Cost(1, 1))
            region.roots.append(Root(spread, bytes_, ref=ref))
            if whole:
                states[ref] = value
            else:
                states.pop(ref, None)
        return out

    def _inner(self, eqn: Eqn, inner: Any, region: Region, read: Any, refs: dict[Any, Any]) -> list[Value]:
        def named(program: Program, operands: Sequence[Any]) -> dict[Any, Any]:
            return refs | {
                v: refs.get(o, o) for v, o in zip(program.inputs, operands, strict=False)
                if isinstance(v.type, RefType) and isinstance(o, Var)
            }  # fmt: skip

        if eqn.primitive in CALLS and len(inner) == 1:
            program, operands = inner[0]
            env = {v: read(o) for v, o in zip(program.inputs, operands, strict=False)
                   if not isinstance(v.type, RefType)}  # fmt: skip
            outs = self._run(program, region, env, named(program, operands))
            if len(outs) == len(eqn.outputs):
                return outs
        else:
            loop = not eqn.primitive.choice
            times = region.times * (runs(eqn) if loop else 1)
            for program, operands in inner:
                self._region(program, times, named(program, operands), loop)
        return [self._value(v, axes=self.every, stored=True) for v in eqn.outputs]

    def _product(self, eqn: Eqn, operands: Sequence[Value], region: Region, points: int) -> Value:
        for operand in operands:
            if not operand.stored:
                region.roots.append(Root(operand, operand.bytes))
                operand.stored = True
        made = self._value(eqn.outputs[0], operands)
        itemsize = min(o.itemsize for o in operands)
        right = operands[1].size * operands[1].itemsize
        dtypes = tuple(str(v.type.dtype) for v in (*eqn.inputs, *eqn.outputs))
        region.roots.append(Root(made, made.bytes, 2 * points * self.cells, itemsize, dtypes, right=right))
        made.stored = True
        return made

    def _reduction(self, var: Any, operands: Sequence[Value], relation: Any, region: Region) -> Value:
        axes = relation.operands[0]
        reduced = relation.of_kind(Reduced)
        last = next((a for a in reversed(axes) if a), ())
        rows = bool(last) and set(last) <= set(reduced)
        made = self._value(var, operands, cost=Cost(0, 0), rows=rows)
        if not rows:
            region.roots.append(Root(made, made.bytes, reduces=True))
            made.stored = True
        return made


def _axes(kernel: Kernel, block: Block) -> frozenset[int]:
    fact = map_of(kernel, block)
    return frozenset(range(len(kernel.grid)) if fact is None else fact.axes)


def reached(root: Value, stops: Collection[int] = ()) -> Iterator[Value]:
    """The values that a root is computed from in its own loop, and the stored ones that this reads, itself first."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        value = waiting.pop()
        yield value
        if value is not root and (value.stored or id(value) in stops):
            continue
        for operand in value.operands:
            if id(operand) not in seen:
                seen.add(id(operand))
                waiting.append(operand)


def with_shared(region: Region) -> list[Root]:
    """The roots with those that XLA adds: what several of them read and is dear, or is a reduction along rows."""
    own = {id(r.value) for r in region.roots}
    count: Counter[int] = Counter()
    values: dict[int, Value] = {}
    for root in region.roots:
        for value in reached(root.value, own):
            count[id(value)] += 1
            values[id(value)] = value
    more = [
        Root(value, value.bytes) for key, value in values.items()
        if count[key] > 1 and key not in own and not value.stored and (value.rows or value.cost.xla >= DEAR)
    ]  # fmt: skip
    return [*region.roots, *more]
