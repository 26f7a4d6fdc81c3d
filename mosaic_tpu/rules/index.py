"""`gather` and `scatter`: element indices compared with computed indices, row by row.

A TPU's vector unit has no addressing of single elements. A gather along one axis runs over the rows of the operand and
selects each where it is asked for; a scatter runs over the updates and puts each where it goes. Positions along
several axes are positions along one flat axis here (`rewrites.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program
from ...core.ir.types import ArrayType
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p, mul_p, sub_p
from ...core.primitives.movement.gather_scatter import (
    gather_p,
    scatter_add_p,
    scatter_apply_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from .. import vector_layout
from ..body import Body, Rule
from ..text import SSA
from ..values import Value, physical, wide
from .control import UNROLLED, loop
from .elementwise import RULES as ELEMENTWISE
from .elementwise import compared
from .reduce import reduced
from .shape import window

FLAT = ((), (0,), (0,), (), ())  # the numbers of a gather or scatter of single elements along one axis


# ---------------------------------------------------------------------------- gather


def _gather(b: Body, xs: list[Value], out: ArrayType, *, dimension_numbers: Any, slice_sizes: Sequence[int],
            **_: Any) -> Value:  # fmt: skip
    x, at = xs
    row = row_axis(x.shape, dimension_numbers, slice_sizes, out.shape)
    return take_flat(b, x, at, out) if row is None else take_rows(b, x, row, at, out)


def row_axis(shape: Sequence[int], numbers: Any, sizes: Sequence[int], out_shape: Sequence[int]) -> int | None:
    """The one axis that is indexed, where all others are taken whole and follow in order after one axis of rows."""
    if len(numbers[2]) != 1 or numbers[3] or numbers[1] != numbers[2]:
        return None
    (axis,) = numbers[2]
    whole = all(d == axis or n == shape[d] for d, n in enumerate(sizes))
    batch = [d for d in range(len(out_shape)) if d not in numbers[0]]
    return axis if whole and batch == [axis] and len(shape) <= 2 else None


def take_rows(b: Body, x: Value, axis: int, at: Value, out: ArrayType) -> Value:
    """`x` along one axis at an array of in-bounds indices."""
    v = vector_layout.as_words(b.w, b.vector(x))
    assert v.shape is not None
    place = axis + len(v.shape) - len(x.shape)
    shape = physical(out.shape)
    column = tuple(n if d == place else 1 for d, n in enumerate(shape))
    wanted = vector_layout.broadcast(b.w, vector_layout.reshape(b.w, b.vector(at), column), shape)
    return _taken(b, v, place, wanted, out)


def take_flat(b: Body, x: Value, at: Value, out: ArrayType) -> Value:
    """Elements of `x` at row-major indices of the result's shape."""
    v = vector_layout.as_words(b.w, b.vector(x))
    v = vector_layout.reshape(b.w, v, (1, math.prod(x.shape)))
    return _taken(b, v, 1, vector_layout.reshape(b.w, b.vector(at), physical(out.shape)), out)


def _taken(b: Body, v: SSA, axis: int, wanted: SSA, out: ArrayType) -> Value:
    assert v.shape is not None
    n, shape = v.shape[axis], physical(out.shape)

    def step(i: Any, found: SSA) -> SSA:
        sizes = [1 if d == axis else m for d, m in enumerate(v.shape or ())]
        one = window(b, v, [i if d == axis else 0 for d in range(len(sizes))], sizes)
        one = vector_layout.broadcast(b.w, one, shape)
        number = b.w.constant(i, "i32", shape) if isinstance(i, int) else \
            b.w.op("vector.broadcast", [i], shape, "i32")  # fmt: skip
        return b.select(compared(b, "eq", wanted, number, False), one, found)

    found = b.w.constant(0, v.element, shape)
    if n <= UNROLLED:
        for i in range(n):
            found = step(i, found)
    else:
        (found,) = loop(b, n, [found], lambda i, state: [step(i, state[0])])
    return Value(ArrayType(out.shape, out.dtype), vector=vector_layout.as_mask(b.w, found, wide(out.dtype)))


# ---------------------------------------------------------------------------- scatter


def _scatter(primitive: Primitive | None) -> Rule:
    """Updates put one after the other: combined with what is there by a binary primitive (None: replacing it)."""

    def rule(b: Body, xs: list[Value], out: ArrayType, *, update: Program | None = None, **_: Any) -> Value:
        x, at, updates = xs
        if not updates.type.size:
            return x
        combine = _by_program(update) if update is not None else None if primitive is None else _by_primitive(primitive)
        return put_flat(b, x, at, updates, combine, out)

    return rule


Combine = Callable[[Body, Value, Value, SSA], Value]  # the current value, the update, its index


def _by_primitive(primitive: Primitive) -> Combine:
    return lambda b, old, new, here: ELEMENTWISE[primitive](b, [old, new], old.type)


def _by_program(update: Program) -> Combine:
    """A function of scalars, of the one element that is updated."""

    def combine(b: Body, old: Value, new: Value, here: SSA) -> Value:
        held = vector_layout.as_words(b.w, b.vector(old))
        words = held if held.element == "i32" else b.w.op("tpu.bitcast", [held], held.shape, "i32")
        one = reduced(b, "add", b.select(here, words, b.w.constant(0, "i32", words.shape)), 1)
        one = one if held.element == "i32" else b.w.op("tpu.bitcast", [one], one.shape, "f32")
        scalar = Value(ArrayType((), old.dtype), vector=vector_layout.as_mask(b.w, one, wide(old.dtype)))
        return b.spread(b.inline(update, [scalar])[0], old.shape)

    return combine


def put_flat(b: Body, x: Value, at: Value, updates: Value, combine: Combine | None, out: ArrayType) -> Value:
    """`x` after updates at row-major indices (out-of-bounds ones are dropped), in row-major order."""
    n, count = math.prod(x.shape), math.prod(updates.shape)
    v = b.vector(x)
    type = ArrayType((1, n), x.dtype)
    flat = vector_layout.reshape(b.w, vector_layout.as_words(b.w, v), (1, n))
    new = vector_layout.reshape(b.w, vector_layout.as_words(b.w, b.vector(updates)), (1, count))
    where = vector_layout.reshape(b.w, b.vector(at), (1, count))
    place = vector_layout.iota(b.w, (1, n), 1)

    def step(i: Any, held: SSA) -> SSA:
        number, value = (vector_layout.broadcast(b.w, window(b, u, [0, i], [1, 1]), (1, n)) for u in (where, new))
        here = compared(b, "eq", place, number, False)
        if combine is not None:
            old = Value(type, vector=vector_layout.as_mask(b.w, held, v.element))
            one = Value(type, vector=vector_layout.as_mask(b.w, value, v.element))
            value = vector_layout.as_words(b.w, b.vector(combine(b, old, one, here)))
        return b.select(here, value, held)

    if count <= UNROLLED:
        for i in range(count):
            flat = step(i, flat)
    else:
        (flat,) = loop(b, count, [flat], lambda i, state: [step(i, state[0])])
    made = vector_layout.as_mask(b.w, vector_layout.reshape(b.w, flat, physical(out.shape)), v.element)
    return b.value(ArrayType(out.shape, out.dtype), made, rounded=False)


SCATTERS: dict[Primitive, Rule] = {
    scatter_p: _scatter(None), scatter_add_p: _scatter(add_p), scatter_sub_p: _scatter(sub_p),
    scatter_mul_p: _scatter(mul_p), scatter_min_p: _scatter(min_p), scatter_max_p: _scatter(max_p),
    scatter_apply_p: _scatter(None),
}  # fmt: skip
RULES: dict[Primitive, Rule] = {gather_p: _gather, **SCATTERS}
