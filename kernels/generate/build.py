"""The kernel of a group: its equations on blocks, with sums that carry kept from cell to cell.

    every cell     the terms of sums, and results that depend on no carried sum
    first cell     sums := the neutral element of their monoid
    last cell      what is computed from the sums

Out-of-bounds elements of a reduced loop are replaced by the neutral element: by the fill of the operand's
block where the sum reads the operand itself, else by a mask. Where the steps of a sum are shared out over runs, each
run's sum is a row of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.ir.axis_relation import IDENTITY, MOVER
from ...core.ir.program import Atom, Eqn, Program, Var
from ...core.ir.types import INT32, ArrayType, Dtype, RefType
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.elementwise.arithmetic import add_p, mul_p
from ...core.primitives.elementwise.comparison import eq_p, lt_p, select_n_p
from ...core.primitives.movement.shape import iota_p
from ...core.primitives.reduction.reduce import SUM
from ...lang.kernel.block_spec import BlockAxis
from ...lang.kernel.kernel import ID, Block, Kernel
from .accumulators import accumulator_of
from .block import Seen, unseen
from .body import Body, index_map, ref_type, scalar, written
from .group import Axes, Group, monoid_of
from .nest import after_sums
from .tiles import RUN, Tiling

Env = dict[Var, Atom]


class Builder:
    """Writes the kernel of one group."""

    group: Group
    tiling: Tiling
    all: Sequence[Eqn]
    name: str

    def __init__(self, group: Group, tiling: Tiling, eqns: Sequence[Eqn], name: str):
        self.group, self.tiling, self.all, self.name = group, tiling, eqns, name
        self.gone: frozenset[int | None] = unseen(group, tiling, eqns)
        self.seen: Seen = Seen(group, self.gone)
        self.grid: tuple[int, ...] = tuple(tiling.cells(x) for x in tiling.grid)
        self.ids: list[Var] = [Var(ID) for _ in self.grid]
        self.sums: list[int] = [i for i, loops in group.sums.items() if loops & tiling.carry]
        self.monoids = {i: monoid_of(eqns[i]) for i in group.sums}
        self.after: dict[Var, int] = after_sums(group, eqns, self.sums)
        self.maker: dict[Var, int] = {v: i for i in group.eqns for v in eqns[i].outputs}
        self.used: list[Var] = self._read_inputs()
        self.fills: dict[Var, Any] = self._fills()
        self.in_refs: dict[Var, Var] = {v: Var(self._ref(v)) for v in self.used}
        self.out_refs: dict[Var, Var] = {v: Var(self._ref(v)) for v in tiling.nest.outputs}
        self.scratch: list[Var] = []
        self.totals: dict[int, Var] = {i: self._total(i) for i in self.sums}

    # ------------------------------------------------------------------------ blocks

    def shape(self, axes: Axes) -> tuple[int, ...]:
        return tuple(1 if x is None else self.tiling.tile[x] for x in axes if x not in self.gone)

    def _ref(self, v: Var) -> RefType:
        return ref_type(self.shape(self.group.axes[v]), self._dtype(v))

    def _dtype(self, v: Var) -> Any:
        """The dtype of a value in memory: partial sums are kept as wide as they are made."""
        partial = self.tiling.runs > 1 and v in self.tiling.nest.outputs
        return self._wide(self.maker[v]) if partial else v.type.dtype

    def _read_inputs(self) -> list[Var]:
        read = {a for i in self.group.eqns for a in self.all[i].inputs if type(a) is Var}
        return [v for v in self.group.inputs if v in read]

    def block(self, v: Var, name: str, fill: Any = None) -> Block:
        axes, array = self.group.axes[v], ArrayType(v.type.shape, self._dtype(v))
        tiling, place = self.tiling, {x: i for i, x in enumerate(self.tiling.grid)}
        entries: tuple[Any, ...] = tuple(None if x is None else place.get(x) for x in axes)
        shared = tiling.shared if tiling.shared in axes else None
        if shared is not None:
            most = tiling.count(shared) - 1 if tiling.uneven else None
            own = (place[RUN], place[shared], tiling.cells(shared), most)
            entries = tuple(own if x == shared else e for x, e in zip(axes, entries, strict=True))
        cut = tuple(map(BlockAxis, tiling.block(axes), [x in self.gone for x in axes]))
        block, count = Block(name, array, cut, None, fill=fill), len(self.grid)
        if shared is None and tiling.runs > 1 and v in self.out_refs:
            return block.stacked([tiling.runs], index_map(count, (place[RUN], *entries)))
        whole = block.sizes == array.shape and not any(block.squeezed)
        return block if whole else replace(block, index_map=index_map(count, entries))

    def ragged(self, number: int) -> list[int]:
        """The ragged loops that an equation sums over."""
        return [x for x in sorted(self.group.sums.get(number, ())) if self.tiling.ragged(x)]

    def _fills(self) -> dict[Var, Any]:
        """What to load past the end of operands that ragged sums read themselves, all of them with one element."""
        wanted: dict[Var, set[Any]] = {}
        for i in self.group.eqns:
            for a in self.all[i].inputs:
                if type(a) is Var and a in self.used:
                    fill = self.monoids[i].neutral(a.type.dtype) if self.ragged(i) else None
                    wanted.setdefault(a, set()).add(fill)
        return {v: next(iter(f)) for v, f in wanted.items() if len(f) == 1 and None not in f}

    def _total(self, number: int) -> Var:
        """Where a sum is kept from cell to cell: its own output where that is as wide, else scratch."""
        (v,) = self.all[number].outputs
        ref = self.out_refs.get(v)
        if ref is not None and ref.type.dtype == self._wide(number):
            return ref
        self.scratch.append(Var(ref_type(self.shape(self.group.axes[v]), self._wide(number))))
        return self.scratch[-1]

    def _wide(self, number: int) -> Any:
        return accumulator_of(self.monoids[number], self.all[number].outputs[0].type.dtype)

    # ------------------------------------------------------------------------ body

    def build(self) -> Kernel:
        body = Body()
        body.like = self.all[self.group.last]
        env: Env = {}
        if self.sums:
            body.when(self._at(body, last=False), self._reset)
        before = [v for v in self.tiling.nest.outputs if v not in self.after]
        if self.tiling.uneven:
            body.when(self._busy(body), lambda inner: self._accumulate(inner, {}))
        else:
            for i in self._needed(before, self.sums):
                self._one(body, i, env)
            self._accumulate(body, env)
        for v in before:
            body.put(self.out_refs[v], self._value(body, v, env))
        late = [v for v in self.tiling.nest.outputs if v in self.after and not self._kept(v)]
        if late:
            body.when(self._at(body, last=True), functools.partial(self._finish, late))
        variables = (*self.ids, *self.in_refs.values(), *self.out_refs.values(), *self.scratch)
        program = Program(variables, body.eqns, (), name=self.name)
        inputs = tuple(self.block(v, f"in{k}", self.fills.get(v)) for k, v in enumerate(self.in_refs))
        outputs = tuple(self.block(v, f"out{k}") for k, v in enumerate(self.out_refs))
        scratch: Any = tuple(v.type for v in self.scratch)
        return Kernel(self.name, self.grid, (), inputs, outputs, scratch, program, source=body.source)

    def _kept(self, v: Var) -> bool:
        return v in self.out_refs and self.totals.get(self.maker[v]) is self.out_refs[v]

    def _at(self, body: Body, last: bool) -> Var:
        """Whether a cell is the first, or the last, of its run along the loops that carry."""
        tiling = self.tiling
        carried = [(var, x) for var, x in zip(self.ids, tiling.grid, strict=True) if x in tiling.carry]
        ends = ((var, scalar(tiling.cells(x) - 1 if last else 0, INT32)) for var, x in carried)
        return body.all_of(body.add(eq_p, pair) for pair in ends)

    def _busy(self, body: Body) -> Var:
        """Whether a cell of a run has a step to do."""
        tiling, shared = self.tiling, self.tiling.shared
        assert shared is not None
        run, step = (self.ids[tiling.grid.index(x)] for x in (RUN, shared))
        first = body.add(mul_p, [run, scalar(tiling.cells(shared), INT32)])
        return body.add(lt_p, [body.add(add_p, [first, step]), scalar(tiling.count(shared), INT32)])

    def _reset(self, body: Body) -> None:
        for i, ref in self.totals.items():
            body.put(ref, scalar(self.monoids[i].neutral(ref.type.dtype), ref.type.dtype))

    def _needed(self, values: Sequence[Var], sums: Sequence[int], stop: Sequence[int] = ()) -> list[int]:
        """The equations that values, and the operands of sums, are computed by; those of `stop` left out."""
        found: set[int] = set()
        queue = [*values, *(a for i in sums for a in self.all[i].inputs if type(a) is Var)]
        while queue:
            i = self.maker.get(queue.pop())
            if i is not None and i not in found and i not in stop:
                found.add(i)
                queue += [a for a in self.all[i].inputs if type(a) is Var]
        return sorted(found)

    def _value(self, body: Body, atom: Atom, env: Env) -> Atom:
        if type(atom) is not Var:
            return atom
        if atom not in env:
            env[atom] = body.get(self.in_refs[atom])
        return env[atom]

    def _one(self, body: Body, number: int, env: Env) -> None:
        """An equation on blocks."""
        eqn = body.like = self.all[number]
        operands = [self._masked(body, number, a, env) for a in eqn.inputs]
        out, params = self.group.axes[eqn.outputs[0]], eqn.params
        if eqn.primitive is iota_p:
            values: Sequence[Atom] = [self._positions(body, out, params["dimension"], params["dtype"])]
        elif eqn.primitive.kind is IDENTITY and len(self.group.eqns) == 1:  # to be seen by itself
            values = body.emit(eqn.primitive, operands, params)
        else:
            params = params if eqn.primitive.kind is MOVER else self.seen.params(eqn, params)
            old, new = self.seen.axes(eqn.inputs[0]), self.seen.axes(eqn.outputs[0])
            values = written(body, eqn, operands, old, new, self.shape(out), params)
        env.update(zip(eqn.outputs, values, strict=True))

    def _positions(self, body: Body, axes: Axes, dimension: int, dtype: Dtype) -> Atom:
        """Positions in the array: those within the block, and where it starts."""
        loop, shape, places = axes[dimension], self.shape(axes), self.seen.places(axes)
        start = body.converted(self._start(body, loop), dtype) if loop in self.tiling.grid else None
        if dimension not in places:
            return body.filled(scalar(0, dtype) if start is None else start, shape)
        out = body.add(iota_p, [], dtype=dtype, shape=shape, dimension=places[dimension])
        return out if start is None else body.add(add_p, [out, body.filled(start, shape)])

    def _start(self, body: Body, loop: int) -> Var:
        return body.add(mul_p, [self.ids[self.tiling.grid.index(loop)], scalar(self.tiling.tile[loop], INT32)])

    def _masked(self, body: Body, number: int, atom: Atom, env: Env) -> Atom:
        """An operand of an equation, what is past the end of the loops that it sums over made neutral."""
        value = self._value(body, atom, env)
        if type(atom) is not Var or atom in self.fills:
            return value
        axes, shape = self.group.axes[atom], value.type.shape

        def inside(x: int) -> Var:
            place = self._positions(body, axes, axes.index(x), INT32)
            return body.add(lt_p, [place, body.filled(scalar(self.tiling.sizes[x], INT32), shape)])

        ragged = [x for x in self.ragged(number) if x in axes]
        if not ragged:
            return value
        mask = body.all_of(map(inside, ragged))
        neutral = scalar(self.monoids[number].neutral(value.type.dtype), value.type.dtype)
        return body.add(select_n_p, [mask, body.filled(neutral, shape), value])

    def _accumulate(self, body: Body, env: Env) -> None:
        """One cell's part of each sum, added to what came before."""
        for i in self.sums:
            eqn = body.like = self.all[i]
            total, wide = self.totals[i], self._wide(i)
            operands, params = [self._masked(body, i, a, env) for a in eqn.inputs], eqn.params
            if eqn.primitive is dot_general_p:
                params = params | {"preferred_element_type": wide}
            else:
                operands = [body.converted(a, wide) for a in operands]
            found = self.seen.params(eqn, params)
            part = operands[0] if found is None else body.emit(eqn.primitive, operands, found)[0]
            if self.monoids[i] is SUM:
                body.increase(total, part)
            else:
                body.put(total, body.joined(self.monoids[i], body.get(total), part))

    def _finish(self, late: Sequence[Var], body: Body) -> None:
        """What is computed from the sums, in the last cell."""
        env: Env = {}
        for k, i in enumerate(self.sums):
            (v,) = self.all[i].outputs
            if any(self.after[x] >> k & 1 for x in late):
                body.like = self.all[i]
                env[v] = body.converted(body.get(self.totals[i]), v.type.dtype)
        for i in self._needed(late, (), self.sums):
            self._one(body, i, env)
        for v in late:
            body.put(self.out_refs[v], env[v])
