"""`Body`: the equations of a kernel's body, as they are written."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...core.ir.array import DTypeLike
from ...core.ir.axis_relation import IDENTITY, MOVER, Monoid
from ...core.ir.primitive import Primitive
from ...core.ir.program import NO_EFFECTS, Atom, Effects, Eqn, Literal, Program, Var
from ...core.ir.types import INT32, ArrayType, MemorySpace, RefType, Type
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.subprograms import shifted
from ...core.primitives.elementwise.arithmetic import add_p, min_p, mul_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.movement.shape import broadcast_in_dim_p, reshape_p, transpose_p
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p, whole
from ...core.support.memo import cached
from ...core.tracing.trace import trace_program
from ...lang.kernel.kernel import ID
from .group import Axes

ZERO = Literal(np.int32(0), ID)


def scalar(value: Any, dtype: DTypeLike) -> Literal:
    return Literal(np.asarray(value).astype(dtype)[()], ArrayType((), np.dtype(dtype)))


Entry = int | tuple[int, int, int, int | None] | None


@cached(4096)
def index_map(count: int, entries: tuple[Entry, ...]) -> Program:
    """An index map each of whose results is the id of a grid axis, or 0, or the step of a run.

    The latter is (axis of the runs, axis of the steps, steps of a run, the last step where runs are uneven).
    """
    ids = [Var(ID) for _ in range(count)]
    body = Body()

    def made(entry: Entry) -> Atom:
        if not isinstance(entry, tuple):
            return ZERO if entry is None else ids[entry]
        run, step, steps, most = entry
        found = body.add(add_p, [body.add(mul_p, [ids[run], scalar(steps, INT32)]), ids[step]])
        return found if most is None else body.add(min_p, [found, scalar(most, INT32)])

    outputs = [made(e) for e in entries]
    return Program(ids, body.eqns, outputs, name="index_map")


@cached(4096)
def _typed(primitive: Primitive, types: tuple[Type, ...], params: tuple[tuple[str, Any], ...]
           ) -> tuple[tuple[Type, ...], Effects]:  # fmt: skip
    """The types of an equation's results, and its effects."""
    found = primitive.typing(*types, **dict(params))
    effects = NO_EFFECTS if primitive.effects is None else primitive.effects(*types, **dict(params))
    return tuple(found) if primitive.multiple else (found,), effects


@cached(256)
def _joining(monoid: Monoid, t: ArrayType) -> Program:
    return trace_program(lambda a, b: [monoid.combine(a, b)], [t, t], monoid.name)


_everything = cached(4096)(whole)


@cached(4096)
def ref_type(shape: tuple[int, ...], dtype: DTypeLike) -> RefType:
    return RefType(ArrayType(shape, dtype), MemorySpace.VMEM)


class Body:
    """Equations being written; `like` is the one whose line they are said to come from."""

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.like: Eqn | None = None

    def emit(self, primitive: Primitive, inputs: Sequence[Atom], params: dict[str, Any]) -> list[Var]:
        """An equation; its results."""
        found, effects = _typed(primitive, tuple([a.type for a in inputs]), tuple(params.items()))
        outs = [Var(t) for t in found]
        self.eqns.append(Eqn(primitive, inputs, outs, params, effects, self.source))
        return outs

    def add(self, primitive: Primitive, inputs: Sequence[Atom], **params: Any) -> Var:
        """An equation of one result (or of none)."""
        outs = self.emit(primitive, inputs, params)
        return outs[0] if outs else None  # type: ignore[return-value]

    def joined(self, monoid: Monoid, a: Atom, b: Atom) -> Atom:
        """Two values of one type joined by a monoid."""
        program = _joining(monoid, a.type)
        env: dict[Any, Atom] = dict(zip(program.inputs, (a, b), strict=True))
        for eqn in program.eqns:
            inputs = [env[x] if type(x) is Var else x for x in eqn.inputs]
            env.update(zip(eqn.outputs, self.emit(eqn.primitive, inputs, eqn.params), strict=True))
        return env[program.outputs[0]]

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

    def converted(self, value: Atom, dtype: np.dtype[Any]) -> Atom:
        if value.type.dtype == dtype:
            return value
        return self.add(convert_element_type_p, [value], new_dtype=np.dtype(dtype), weak_type=False)

    def all_of(self, conditions: Iterable[Var]) -> Var:
        """Whether all of some conditions hold."""
        return functools.reduce(lambda a, b: self.add(and_p, [a, b]), conditions)

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
        effects = shifted(yes.effects, 1)
        self.eqns.append(Eqn(cond_p, (index, *free), (), {"branches": (no, yes)}, effects, self.source))

    @property
    def source(self) -> Any:
        return self.like.source if self.like is not None else None


def moved(body: Body, value: Atom, old: Axes, new: Axes, shape: tuple[int, ...], spread: bool) -> Atom:
    """A block whose axes follow some loops as one of a shape whose axes follow others: moved, resized, repeated.

    `spread`: axes of one element come by a broadcast, else by a reshape.
    """
    place: dict[int | None, int] = {x: i for i, x in enumerate(new) if x is not None}
    order = [place[x] for x in old if x is not None]
    if order != sorted(order):
        turned: Sequence[int | None] = new
        if Counter(old) != Counter(new):
            value, old = without(body, value, [i for i, x in enumerate(old) if x is None], old)
            turned = sorted(old, key=place.__getitem__)
        ones = iter([i for i, x in enumerate(old) if x is None])
        permutation = tuple(next(ones) if x is None else old.index(x) for x in turned)
        value, old = body.add(transpose_p, [value], permutation=permutation), tuple(turned)
    if value.type.shape == shape and len(order) == len(place):
        return value
    if len(order) == len(place) and not spread:
        return body.add(reshape_p, [value], new_sizes=shape, dimensions=None)
    dims, lost = _dims(old, place, len(new))
    value, _ = without(body, value, lost, old)
    return body.add(broadcast_in_dim_p, [value], shape=shape, broadcast_dimensions=dims)


def _dims(old: Axes, place: dict[int | None, int], rank: int) -> tuple[tuple[int, ...], list[int]]:
    """The axes of a broadcast's result that the operand's axes become; and those of one element that have no room."""
    dims: list[int] = []
    lost: list[int] = []
    for i, x in enumerate(old):
        least = dims[-1] + 1 if dims else 0
        end = next((place[y] for y in old[i:] if y is not None), rank)
        if x is None and least >= end:
            lost.append(i)
        else:
            dims.append(least if x is None else end)
    return tuple(dims), lost


def without(body: Body, value: Atom, lost: Sequence[int], axes: Axes) -> tuple[Atom, Axes]:
    """A block without some of its axes of one element, and the loops that the rest follow."""
    if not lost:
        return value, axes
    kept = [i for i in range(len(axes)) if i not in lost]
    sizes = tuple(value.type.shape[i] for i in kept)
    return body.add(reshape_p, [value], new_sizes=sizes, dimensions=None), tuple(axes[i] for i in kept)


def written(body: Body, eqn: Eqn, operands: list[Atom], old: Axes, new: Axes, shape: tuple[int, ...],
            params: dict[str, Any] | None) -> Sequence[Atom]:  # fmt: skip
    """An equation on blocks: `old` and `new` are the loops that its first operand and its result follow there.

    `params` are its parameters for blocks; None where nothing is left to do.
    """
    if eqn.primitive.kind is IDENTITY or params is None:
        return operands
    if eqn.primitive.kind is MOVER:
        return [moved(body, operands[0], old, new, shape, eqn.primitive is broadcast_in_dim_p)]
    return body.emit(eqn.primitive, operands, params)
