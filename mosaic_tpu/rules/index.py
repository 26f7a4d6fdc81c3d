"""`gather` and `scatter`: positions of elements compared with computed positions, one row after the other.

A TPU's vector unit has no addressing of single elements. A gather along one axis runs over the rows of the operand and
selects each where it is asked for; a scatter runs over the updates and puts each where it goes. Positions along
several axes become positions along one flat axis first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir import Program
from ...core.primitive import Primitive
from ...core.primitives.compare import and_p, ge_p, le_p, select_n_p
from ...core.primitives.convert import convert_element_type
from ...core.primitives.elementwise import add_p, max_p, min_p, mul_p, sub_p
from ...core.primitives.indexed import (
    gather_p,
    scatter_add_p,
    scatter_apply_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from ...core.primitives.positions import GatherScatterMode, default_fill, window_sizes
from ...core.primitives.shape import broadcast_in_dim_p, iota_p, reshape_to, slice_in_dim
from ...core.types import INT32, ArrayType
from .. import moves
from ..body import Body, Rule
from ..text import SSA
from ..values import Value, physical, wide
from .control import UNROLLED, loop
from .elementwise import RULES as ELEMENTWISE
from .elementwise import compared
from .reduce import reduced
from .shape import window


def _spread(x: Any, shape: Sequence[int], dims: Sequence[int] = ()) -> Any:
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=tuple(dims))


def flat_positions(shape: Sequence[int], sizes: Sequence[int], numbers: Any, out_shape: Sequence[int],
                   offsets: Sequence[int], mode: Any, indices: Any) -> tuple[Any, Any]:  # fmt: skip
    """Of every element of a gather's result: its row-major position in the operand, and whether its window fits."""
    batch = [d for d in range(len(out_shape)) if d not in offsets]
    gone = (*numbers[1], *numbers[3])
    kept = [d for d in range(len(shape)) if d not in gone]
    total: Any = _spread(np.int32(0), out_shape)
    fits: Any = _spread(np.bool_(True), out_shape)
    for d, n in enumerate(shape):
        place: Any = None
        if d in numbers[2]:
            column = slice_in_dim(indices, numbers[2].index(d), numbers[2].index(d) + 1, 1, len(indices.shape) - 1)
            start = convert_element_type(reshape_to(column, indices.shape[:-1]), INT32)
            room = n - sizes[d]
            start = _spread(start, out_shape, batch)
            low, high = _spread(np.int32(0), out_shape), _spread(np.int32(room), out_shape)
            fits = and_p.bind(fits, and_p.bind(ge_p.bind(start, low), le_p.bind(start, high)))
            place = min_p.bind(max_p.bind(start, low), high)
        elif d in numbers[3]:
            axis = batch[numbers[4][numbers[3].index(d)]]
            place = iota_p.bind(dtype=INT32, shape=tuple(out_shape), dimension=axis)
        if d in kept and sizes[d] > 1:
            step = iota_p.bind(dtype=INT32, shape=tuple(out_shape), dimension=offsets[kept.index(d)])
            place = step if place is None else add_p.bind(place, step)
        total = mul_p.bind(total, _spread(np.int32(n), out_shape))
        total = total if place is None else add_p.bind(total, place)
    return total, fits


# ---------------------------------------------------------------------------- gather


def _gather(b: Body, xs: list[Value], out: ArrayType, *, dimension_numbers: Any, slice_sizes: Sequence[int],
            mode: Any, fill_value: Any, **_: Any) -> Value:  # fmt: skip
    x, indices = xs
    numbers = tuple(dimension_numbers)
    row = _row_axis(x, numbers, slice_sizes, out)

    def places(indices: Any) -> list[Any]:
        if row is not None:
            start = convert_element_type(reshape_to(indices, indices.shape[:-1]), INT32)
            low, high = (_spread(np.int32(n), start.shape) for n in (0, x.shape[row] - 1))
            fits = and_p.bind(ge_p.bind(start, low), le_p.bind(start, high))
            return [min_p.bind(max_p.bind(start, low), high), fits]
        return list(flat_positions(x.shape, slice_sizes, numbers, out.shape, numbers[0], mode, indices))

    at, fits = b.traced(places, [indices], multiple=True)
    found = take_rows(b, x, row, at, out) if row is not None else take_flat(b, x, at, out)
    if mode is not GatherScatterMode.FILL_OR_DROP:
        return found
    fill = b.known(default_fill(out.dtype) if fill_value is None else fill_value, ArrayType(out.shape, out.dtype))
    batch = [d for d in range(len(out.shape)) if d not in numbers[0]]
    shape = out.shape

    def chosen(fits: Any, found: Any, fill: Any) -> Any:
        fits = fits if fits.shape == shape else _spread(fits, shape, batch)
        return select_n_p.bind(fits, fill, found)

    return b.traced(chosen, [fits, found, fill])[0]


def _row_axis(x: Value, numbers: Any, sizes: Sequence[int], out: ArrayType) -> int | None:
    """The one axis that is indexed, where all others are taken whole and follow in order after one axis of rows."""
    if len(numbers[2]) != 1 or numbers[3] or numbers[1] != numbers[2]:
        return None
    (axis,) = numbers[2]
    whole = all(d == axis or n == x.shape[d] for d, n in enumerate(sizes))
    batch = [d for d in range(len(out.shape)) if d not in numbers[0]]
    return axis if whole and batch == [axis] and len(x.shape) <= 2 else None


def take_rows(b: Body, x: Value, axis: int, at: Value, out: ArrayType) -> Value:
    """`x` along one axis at an array of positions within it."""
    v = moves.as_words(b.w, b.vector(x))
    assert v.shape is not None
    place = axis + len(v.shape) - len(x.shape)
    shape = physical(out.shape)
    column = tuple(n if d == place else 1 for d, n in enumerate(shape))
    wanted = moves.broadcast(b.w, moves.reshape(b.w, b.vector(at), column), shape)
    return _taken(b, x, v, place, wanted, out)


def take_flat(b: Body, x: Value, at: Value, out: ArrayType) -> Value:
    """Elements of `x` at row-major positions of the result's shape."""
    v = moves.as_words(b.w, b.vector(x))
    v = moves.reshape(b.w, v, (1, math.prod(x.shape)))
    return _taken(b, x, v, 1, b.vector(at), out)


def _taken(b: Body, x: Value, v: SSA, axis: int, wanted: SSA, out: ArrayType) -> Value:
    assert v.shape is not None
    n, shape = v.shape[axis], physical(out.shape)

    def step(i: Any, found: SSA) -> SSA:
        sizes = [1 if d == axis else m for d, m in enumerate(v.shape or ())]
        one = window(b, v, [i if d == axis else 0 for d in range(len(sizes))], sizes)
        one = moves.broadcast(b.w, one, shape)
        number = b.w.constant(i, "i32", shape) if isinstance(i, int) else \
            b.w.op("vector.broadcast", [i], shape, "i32")  # fmt: skip
        return b.select(compared(b, "eq", wanted, number, False), one, found)

    found = b.w.constant(0, v.element, shape)
    if n <= UNROLLED:
        for i in range(n):
            found = step(i, found)
    else:
        (found,) = loop(b, n, [found], lambda i, state: [step(i, state[0])])
    return Value(ArrayType(out.shape, out.dtype), vector=moves.as_mask(b.w, found, wide(out.dtype)))


# ---------------------------------------------------------------------------- scatter


def _scatter(primitive: Primitive | None) -> Rule:
    """Updates put one after the other: combined with what is there by a binary primitive (None: replacing it)."""

    def rule(b: Body, xs: list[Value], out: ArrayType, *, dimension_numbers: Any, mode: Any,
             update: Program | None = None, **_: Any) -> Value:  # fmt: skip
        x, indices, updates = xs
        if not updates.type.size:
            return x
        numbers = tuple(dimension_numbers)
        sizes = window_sizes(x.shape, updates.shape, dimension_numbers)

        def places(indices: Any) -> Any:
            at, fits = flat_positions(x.shape, sizes, numbers, updates.shape, numbers[0], mode, indices)
            if mode is GatherScatterMode.CLIP:
                return at
            return select_n_p.bind(fits, _spread(np.int32(-1), updates.shape), at)

        (at,) = b.traced(places, [indices])
        combine = _by_program(update) if update is not None else None if primitive is None else _by_primitive(primitive)
        return put_flat(b, x, at, updates, combine, out)

    return rule


Combine = Callable[[Body, Value, Value, SSA], Value]  # what is held, the update, where


def _by_primitive(primitive: Primitive) -> Combine:
    return lambda b, old, new, here: ELEMENTWISE[primitive](b, [old, new], old.type)


def _by_program(update: Program) -> Combine:
    """A function of scalars, of the one element that is updated."""

    def combine(b: Body, old: Value, new: Value, here: SSA) -> Value:
        held = moves.as_words(b.w, b.vector(old))
        words = held if held.element == "i32" else b.w.op("tpu.bitcast", [held], held.shape, "i32")
        one = reduced(b, "add", b.select(here, words, b.w.constant(0, "i32", words.shape)), 1)
        one = one if held.element == "i32" else b.w.op("tpu.bitcast", [one], one.shape, "f32")
        scalar = Value(ArrayType((), old.dtype), vector=moves.as_mask(b.w, one, wide(old.dtype)))
        return b.spread(b.run(update, [scalar])[0], old.shape)

    return combine


def put_flat(b: Body, x: Value, at: Value, updates: Value, combine: Combine | None, out: ArrayType) -> Value:
    """`x` after updates at row-major positions (those outside are dropped), in row-major order."""
    n, count = math.prod(x.shape), math.prod(updates.shape)
    v = b.vector(x)
    type = ArrayType((1, n), x.dtype)
    flat = moves.reshape(b.w, moves.as_words(b.w, v), (1, n))
    new = moves.reshape(b.w, moves.as_words(b.w, b.vector(updates)), (1, count))
    where = moves.reshape(b.w, b.vector(at), (1, count))
    place = moves.iota(b.w, (1, n), 1)

    def step(i: Any, held: SSA) -> SSA:
        number, value = (moves.broadcast(b.w, window(b, u, [0, i], [1, 1]), (1, n)) for u in (where, new))
        here = compared(b, "eq", place, number, False)
        if combine is not None:
            old = Value(type, vector=moves.as_mask(b.w, held, v.element))
            one = Value(type, vector=moves.as_mask(b.w, value, v.element))
            value = moves.as_words(b.w, b.vector(combine(b, old, one, here)))
        return b.select(here, value, held)

    if count <= UNROLLED:
        for i in range(count):
            flat = step(i, flat)
    else:
        (flat,) = loop(b, count, [flat], lambda i, state: [step(i, state[0])])
    made = moves.as_mask(b.w, moves.reshape(b.w, flat, physical(out.shape)), v.element)
    return b.value(ArrayType(out.shape, out.dtype), made, rounded=False)


RULES: dict[Primitive, Rule] = {
    gather_p: _gather, scatter_p: _scatter(None), scatter_add_p: _scatter(add_p), scatter_sub_p: _scatter(sub_p),
    scatter_mul_p: _scatter(mul_p), scatter_min_p: _scatter(min_p), scatter_max_p: _scatter(max_p),
    scatter_apply_p: _scatter(None),
}  # fmt: skip
