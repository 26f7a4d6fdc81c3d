"""The kernel of a group: its equations on blocks, with sums that carry kept from cell to cell.

    every cell     what sums are made of, and results that no carried sum goes into
    first cell     sums := the identity of their monoid
    last cell      what is computed from the sums

What lies past the end of a loop that is summed over is replaced by the identity: by the fill of the operand's block
where the sum reads the operand itself, else by a mask.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.caches import cached
from ...core.ir import NO_EFFECTS, Atom, Effect, Effects, Eqn, Literal, Program, Var
from ...core.primitive import Primitive
from ...core.primitives.checkpoint import name_p
from ...core.primitives.compare import and_p, eq_p, lt_p, select_n_p
from ...core.primitives.cond import cond_p
from ...core.primitives.contract import dot_general_p
from ...core.primitives.convert import convert_element_type_p, stop_gradient_p
from ...core.primitives.elementwise import add_p, mul_p
from ...core.primitives.ref import addupdate_p, get_p, swap_p, whole
from ...core.primitives.shape import broadcast_in_dim_p, copy_p, iota_p, reshape_p
from ...core.types import INT32, ArrayType, MemorySpace, RefType, Type
from ...lang.kernel import ID, Block, Kernel
from ..reduce import MONOIDS, accumulator
from .axes import Axes
from .nest import Group, after_sums
from .squeeze import Squeezer, unseen
from .tiles import Tiling

NOTHING = frozenset((stop_gradient_p, name_p, copy_p))  # operations whose result is their operand
ZERO = Literal(np.int32(0), ID)


def scalar(value: Any, dtype: Any) -> Literal:
    return Literal(np.asarray(value).astype(dtype)[()], ArrayType((), np.dtype(dtype)))


@cached(4096)
def index_map(count: int, entries: tuple[int | None, ...]) -> Program:
    """An index map each of whose results is the id of a grid axis, or 0."""
    ids = [Var(ID) for _ in range(count)]
    return Program(ids, (), [ZERO if e is None else ids[e] for e in entries], name="index_map")


@cached(4096)
def _typed(primitive: Primitive, types: tuple[Type, ...], params: tuple[tuple[str, Any], ...]
           ) -> tuple[tuple[Type, ...], Effects]:  # fmt: skip
    """The types of an equation's results, and its effects."""
    found = primitive.typing(*types, **dict(params))
    effects = NO_EFFECTS if primitive.effects is None else primitive.effects(*types, **dict(params))
    return tuple(found) if primitive.multiple else (found,), effects


_everything = cached(4096)(whole)


@cached(4096)
def ref_type(shape: tuple[int, ...], dtype: Any) -> RefType:
    return RefType(ArrayType(shape, dtype), MemorySpace.VMEM)


class Body:
    """Equations being written; `like` is the one whose line they are said to come from."""

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.like: Eqn | None = None

    def add(self, primitive: Primitive, inputs: Sequence[Atom], **params: Any) -> Var:
        found, effects = _typed(primitive, tuple([a.type for a in inputs]), tuple(params.items()))
        outs = [Var(t) for t in found]
        self.eqns.append(Eqn(primitive, inputs, outs, params, effects, self._source))
        return outs[0] if outs else None  # type: ignore[return-value]

    def get(self, ref: Var) -> Var:
        return self.add(get_p, [ref], index=_everything(ref.type.shape), masked=False)

    def put(self, ref: Var, value: Atom) -> None:
        self.add(swap_p, [ref, self.filled(value, ref.type.shape)], index=_everything(ref.type.shape), masked=False)

    def increase(self, ref: Var, value: Atom) -> None:
        self.add(addupdate_p, [ref, value], index=_everything(ref.type.shape), masked=False)

    def filled(self, value: Atom, shape: Sequence[int]) -> Atom:
        if not shape or value.type.shape:
            return value
        return self.add(broadcast_in_dim_p, [value], shape=tuple(shape), broadcast_dimensions=())

    def converted(self, value: Atom, dtype: Any) -> Atom:
        if value.type.dtype == dtype:
            return value
        return self.add(convert_element_type_p, [value], new_dtype=np.dtype(dtype), weak_type=False)

    def when(self, condition: Var, inner: Callable[[Body], None]) -> None:
        """Equations for the cells where a condition holds."""
        taken = Body()
        taken.like = self.like
        inner(taken)
        own = {v for e in taken.eqns for v in e.outputs}
        free = tuple(dict.fromkeys(a for e in taken.eqns for a in e.inputs if type(a) is Var and a not in own))
        rename = {v: Var(v.type) for v in free}
        eqns = [e.replace(inputs=tuple(rename.get(a, a) for a in e.inputs)) for e in taken.eqns]  # type: ignore[arg-type]
        yes = Program(tuple(rename.values()), eqns, (), name="taken")
        no = Program(tuple(Var(v.type) for v in free), (), (), name="skipped")
        index = self.converted(condition, INT32)
        effects = frozenset(Effect(e.kind, e.operand + 1) if isinstance(e.operand, int) else e for e in yes.effects)
        self.eqns.append(Eqn(cond_p, (index, *free), (), {"branches": (no, yes)}, effects, self._source))

    @property
    def _source(self) -> Any:
        return self.like.source if self.like is not None else None


class Builder:
    """Writes the kernel of one group."""

    def __init__(self, group: Group, tiling: Tiling, eqns: Sequence[Eqn], name: str):
        self.group, self.tiling, self.all, self.name = group, tiling, eqns, name
        self.gone = unseen(group, tiling, eqns)
        self.squeezer = Squeezer(group, self.gone)
        self.grid = tuple(tiling.count(x) for x in tiling.grid)
        self.ids = [Var(ID) for _ in self.grid]
        self.sums = [i for i, loops in group.sums.items() if loops & tiling.carry]
        self.after = after_sums(group, eqns, self.sums)
        self.maker = {v: i for i in group.eqns for v in eqns[i].outputs}
        self.used = self._read_inputs()
        self.fills = self._fills()
        self.in_refs = {v: Var(self._ref(v)) for v in self.used}
        self.out_refs = {v: Var(self._ref(v)) for v in tiling.nest.outputs}
        self.scratch: list[Var] = []
        self.totals = {i: self._total(i) for i in self.sums}

    # ------------------------------------------------------------------------ blocks

    def shape(self, axes: Axes) -> tuple[int, ...]:
        return tuple(1 if x is None else self.tiling.tile[x] for x in axes if x not in self.gone)

    def _ref(self, v: Var) -> RefType:
        return ref_type(self.shape(self.group.axes[v]), v.type.dtype)

    def _read_inputs(self) -> list[Var]:
        read = {a for i in self.group.eqns for a in self.all[i].inputs if type(a) is Var}
        return [v for v in self.group.inputs if v in read]

    def block(self, v: Var, name: str, fill: Any = None) -> Block:
        axes, array = self.group.axes[v], ArrayType(v.type.shape, v.type.dtype)
        sizes = self.tiling.block(axes)
        squeezed = tuple(x in self.gone for x in axes)
        place = {x: i for i, x in enumerate(self.tiling.grid)}
        entries = tuple(None if x is None else place.get(x) for x in axes)
        constant = sizes == array.shape
        made = None if constant else index_map(len(self.grid), entries)
        n = len(axes)
        return Block(name, array, sizes, squeezed, (False,) * n, made, MemorySpace.VMEM, fill, ((0, 0),) * n)

    def ragged(self, number: int) -> list[int]:
        """The ragged loops that an equation sums over."""
        return [x for x in sorted(self.group.sums.get(number, ())) if self.tiling.ragged(x)]

    def _fills(self) -> dict[Var, Any]:
        """What to load past the end of operands that ragged sums read themselves, all of them with one identity."""
        wanted: dict[Var, set[Any]] = {}
        for i in self.group.eqns:
            for a in self.all[i].inputs:
                if type(a) is Var and a in self.used:
                    wanted.setdefault(a, set()).add(self._identity(i, a.type.dtype) if self.ragged(i) else None)
        return {v: next(iter(f)) for v, f in wanted.items() if len(f) == 1 and None not in f}

    def _identity(self, number: int, dtype: Any) -> Any:
        primitive = self.all[number].primitive
        return np.zeros((), dtype)[()] if primitive is dot_general_p else MONOIDS[primitive][0](dtype)

    def _total(self, number: int) -> Var:
        """Where a sum is kept from cell to cell: its own output where that is as wide, else scratch."""
        (v,) = self.all[number].outputs
        shape, wide = self.shape(self.group.axes[v]), self._wide(number)
        if v in self.out_refs and wide == v.type.dtype:
            return self.out_refs[v]
        self.scratch.append(Var(ref_type(shape, wide)))
        return self.scratch[-1]

    def _combine(self, number: int) -> Primitive:
        primitive = self.all[number].primitive
        return add_p if primitive is dot_general_p else MONOIDS[primitive][1]

    def _wide(self, number: int) -> Any:
        dtype = self.all[number].outputs[0].type.dtype
        return accumulator(dtype) if self._combine(number) in (add_p, mul_p) else dtype

    # ------------------------------------------------------------------------ body

    def build(self) -> Kernel:
        body = Body()
        body.like = self.all[self.group.last]
        env: dict[Var, Atom] = {}
        if self.sums:
            body.when(self._at(body, last=False), self._reset)
        before = [v for v in self.tiling.nest.outputs if v not in self.after]
        for i in self._needed(before, self.sums):
            self._one(body, i, env)
        for i in self.sums:
            self._accumulate(body, i, env)
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
        return Kernel(self.name, self.grid, (), inputs, outputs, scratch, program, source=body._source)

    def _kept(self, v: Var) -> bool:
        return v in self.out_refs and self.totals.get(self.maker[v]) is self.out_refs[v]

    def _at(self, body: Body, last: bool) -> Var:
        """Whether a cell is the first, or the last, of its run along the loops that carry."""
        found: Var | None = None
        for var, x in zip(self.ids, self.tiling.grid, strict=True):
            if x in self.tiling.carry:
                end = scalar(self.tiling.count(x) - 1 if last else 0, INT32)
                here = body.add(eq_p, [var, end])
                found = here if found is None else body.add(and_p, [found, here])
        assert found is not None
        return found

    def _reset(self, body: Body) -> None:
        for i, ref in self.totals.items():
            body.put(ref, scalar(self._identity(i, ref.type.dtype), ref.type.dtype))

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

    def _value(self, body: Body, atom: Atom, env: dict[Var, Atom]) -> Atom:
        if type(atom) is not Var:
            return atom
        if atom not in env:
            env[atom] = body.get(self.in_refs[atom])
        return env[atom]

    def _one(self, body: Body, number: int, env: dict[Var, Atom]) -> None:
        eqn = body.like = self.all[number]
        shape = self.shape(self.group.axes[eqn.outputs[0]])
        operands = [self._masked(body, number, a, env) for a in eqn.inputs]
        if eqn.primitive in NOTHING:
            env[eqn.outputs[0]] = operands[0]
        elif eqn.primitive is iota_p:
            env[eqn.outputs[0]] = self._iota(body, eqn, shape)
        else:
            env[eqn.outputs[0]] = self._write(body, eqn, operands, shape, eqn.params)

    def _write(
        self, body: Body, eqn: Eqn, operands: list[Atom], shape: tuple[int, ...], params: dict[str, Any]
    ) -> Atom:
        """An equation on blocks, without the axes that a cell does not see."""
        kept = self.squeezer.lost(eqn, eqn.inputs[0]) if eqn.inputs else None
        if kept is not None:
            (old,) = operands
            places = self.squeezer.places(self.group.axes[eqn.inputs[0]])  # type: ignore[index]
            sizes = tuple(old.type.shape[places[i]] for i in kept)
            operands = [body.add(reshape_p, [old], new_sizes=sizes, dimensions=None)]
        found = self.squeezer.write(eqn if params is eqn.params else eqn.replace(params=params), shape)
        if found is None or (found[0] is reshape_p and operands[0].type.shape == tuple(shape)):
            return operands[0]
        return body.add(found[0], operands, **found[1])

    def _iota(self, body: Body, eqn: Eqn, shape: tuple[int, ...]) -> Atom:
        """Positions in the array: those within the block, and where it starts."""
        axes, dimension, dtype = self.group.axes[eqn.outputs[0]], eqn.params["dimension"], eqn.params["dtype"]
        loop = axes[dimension]
        places = self.squeezer.places(axes)
        start = body.converted(self._start(body, loop), dtype) if loop in self.tiling.grid else None
        if dimension not in places:
            assert start is not None
            return body.filled(start, shape)
        out = body.add(iota_p, [], dtype=dtype, shape=shape, dimension=places[dimension])
        return out if start is None else body.add(add_p, [out, body.filled(start, shape)])

    def _start(self, body: Body, loop: int) -> Var:
        return body.add(mul_p, [self.ids[self.tiling.grid.index(loop)], scalar(self.tiling.tile[loop], INT32)])

    def _masked(self, body: Body, number: int, atom: Atom, env: dict[Var, Atom]) -> Atom:
        """An operand of an equation, what is past the end of the loops that it sums over replaced by the identity."""
        value = self._value(body, atom, env)
        if type(atom) is not Var or atom in self.fills:
            return value
        axes = self.group.axes[atom]
        mask: Var | None = None
        for x in self.ragged(number):
            if x in axes:
                shape = value.type.shape
                dimension = self.squeezer.places(axes)[axes.index(x)]
                place: Var = body.add(iota_p, [], dtype=INT32, shape=shape, dimension=dimension)
                if x in self.tiling.grid:
                    place = body.add(add_p, [place, body.filled(self._start(body, x), shape)])
                here = body.add(lt_p, [place, body.filled(scalar(self.tiling.sizes[x], INT32), shape)])
                mask = here if mask is None else body.add(and_p, [mask, here])
        if mask is None:
            return value
        identity = scalar(self._identity(number, value.type.dtype), value.type.dtype)
        return body.add(select_n_p, [mask, body.filled(identity, value.type.shape), value])

    def _accumulate(self, body: Body, number: int, env: dict[Var, Atom]) -> None:
        """One cell's part of a sum, added to what came before."""
        eqn = body.like = self.all[number]
        total, combine, wide = self.totals[number], self._combine(number), self._wide(number)
        operands = [self._masked(body, number, a, env) for a in eqn.inputs]
        shape = self.shape(self.group.axes[eqn.outputs[0]])
        if eqn.primitive is dot_general_p:
            part = self._write(body, eqn, operands, shape, eqn.params | {"preferred_element_type": wide})
        else:
            part = self._write(body, eqn, [body.converted(operands[0], wide)], shape, eqn.params)
        if combine is add_p:
            body.increase(total, part)
        else:
            body.put(total, body.add(combine, [body.get(total), part]))

    def _finish(self, late: Sequence[Var], body: Body) -> None:
        """What is computed from the sums, in the last cell."""
        env: dict[Var, Atom] = {}
        for k, i in enumerate(self.sums):
            (v,) = self.all[i].outputs
            if any(self.after[x] >> k & 1 for x in late):
                body.like = self.all[i]
                env[v] = body.converted(body.get(self.totals[i]), v.type.dtype)
        for i in self._needed(late, (), self.sums):
            self._one(body, i, env)
        for v in late:
            body.put(self.out_refs[v], env[v])
