"""Shapes: broadcasts, reshapes, slices, pads, concatenations, and dynamic slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType
from ...core.primitives.movement.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from ...core.primitives.movement.shape import (
    broadcast_in_dim_p,
    concatenate_p,
    iota_p,
    pad_p,
    reshape_p,
    rev_p,
    slice_p,
    split_p,
    squeeze_p,
    transpose_p,
)
from .. import vector_layout
from ..body import Body, Rule
from ..text import SSA
from ..values import Value, physical
from .elementwise import convert


def axis_of(rank: int, axis: int) -> int:
    """An axis of a value as an axis of its physical shape."""
    return axis + max(2 - rank, 0)


def _moved(b: Body, out: ArrayType, vector: SSA) -> Value:
    """A value whose elements only moved."""
    return b.value(out, vector, rounded=False)


def _broadcast(b: Body, xs: list[Value], out: ArrayType, shape: Any, broadcast_dimensions: Sequence[int]) -> Value:
    (x,) = xs
    if x.shape == out.shape:
        return x
    if not x.shape or x.known is not None:
        return b.spread(Value(ArrayType((), x.dtype), x.vector, x.narrow, x.scalar, 1, x.known), out.shape)
    ones = [1] * len(shape)
    for d, n in zip(broadcast_dimensions, x.shape, strict=True):
        ones[d] = n
    placed = vector_layout.reshape(b.w, b.vector(x), physical(tuple(ones)))
    return _moved(b, out, vector_layout.broadcast(b.w, placed, physical(out.shape)))


def _reshape(b: Body, xs: list[Value], out: ArrayType, **params: Any) -> Value:
    (x,) = xs
    if x.shape == out.shape:
        return x
    if x.known is not None:
        return Value(ArrayType(out.shape, out.dtype), known=x.known)
    if not out.shape and x.scalar is not None:
        return Value(out, scalar=x.scalar)
    if physical(x.shape) == physical(out.shape):
        return Value(ArrayType(out.shape, out.dtype), b.vector(x), x.narrow, x.scalar)
    return _moved(b, out, vector_layout.reshape(b.w, b.vector(x), physical(out.shape)))


def _transpose(b: Body, xs: list[Value], out: ArrayType, permutation: Sequence[int]) -> Value:
    (x,) = xs
    if len(x.shape) < 2:
        return x
    return _moved(b, out, vector_layout.transpose(b.w, b.vector(x), permutation))


def _rev(b: Body, xs: list[Value], out: ArrayType, dimensions: Sequence[int]) -> Value:
    v = b.vector(xs[0])
    for d in dimensions:
        v = vector_layout.reverse(b.w, v, axis_of(len(out.shape), d))
    return _moved(b, out, v)


def _slice(b: Body, xs: list[Value], out: ArrayType, start_indices: Sequence[int], limit_indices: Sequence[int],
           strides: Sequence[int] | None) -> Value:  # fmt: skip
    (x,) = xs
    if x.known is not None:
        return Value(ArrayType(out.shape, out.dtype), known=x.known)
    rank = len(x.shape)
    lead = (0,) * max(2 - rank, 0)
    steps = strides or (1,) * rank
    sizes = [(n - 1) * s + 1 if n else 0 for n, s in zip(out.shape, steps, strict=True)]
    v = vector_layout.cut(b.w, b.vector(x), (*lead, *start_indices), (*(1 for _ in lead), *sizes))
    for d, step in enumerate(steps):
        v = vector_layout.strided(b.w, v, axis_of(rank, d), step)
    return _moved(b, out, v)


def _iota(b: Body, xs: list[Value], out: ArrayType, *, dtype: np.dtype[Any], shape: Any, dimension: int) -> Value:
    places = vector_layout.iota(b.w, physical(out.shape), axis_of(len(out.shape), dimension))
    return convert(b, Value(ArrayType(out.shape, np.dtype(np.int32)), vector=places), ArrayType(out.shape, out.dtype))


def _pad(b: Body, xs: list[Value], out: ArrayType, padding_config: Any) -> Value:
    x, value = xs
    if not x.type.size:
        return b.spread(value, out.shape)
    rank = len(x.shape)
    number = value.known if value.known is not None else 0
    v = b.vector(x)
    inside = None if value.known is not None else b.w.constant(1, "i32", physical(x.shape))
    for d, (low, high, between) in enumerate(padding_config):
        axis = axis_of(rank, d)
        v = _padded(b, v, axis, low, high, between, number)
        inside = None if inside is None else _padded(b, inside, axis, low, high, between, 0)
    if inside is not None:
        rest = b.vector(b.spread(value, out.shape))
        v = b.select(vector_layout.as_mask(b.w, inside, "i1"), v, rest)
    return _moved(b, out, v)


def _padded(b: Body, v: SSA, axis: int, low: int, high: int, between: int, number: Any) -> SSA:
    assert v.shape is not None
    if between and v.shape[axis] > 1:
        n = v.shape[axis]
        v = vector_layout.spread_out(b.w, v, axis, between + 1, number)
        v = vector_layout.cut_axis(b.w, v, axis, 0, (n - 1) * (between + 1) + 1)
    return vector_layout.pad_axis(b.w, v, axis, low, high, number) if low or high else v


def _concatenate(b: Body, xs: list[Value], out: ArrayType, dimension: int) -> Value:
    axis = axis_of(len(out.shape), dimension)
    return _moved(b, out, vector_layout.concatenate(b.w, [b.vector(x) for x in xs if x.type.size], axis))


def _split(b: Body, xs: list[Value], outs: Sequence[ArrayType], sizes: Sequence[int], axis: int) -> list[Value]:
    v, start, found = b.vector(xs[0]), 0, []
    for out, size in zip(outs, sizes, strict=True):
        if not out.size:
            found.append(b.known(0, out))
            continue
        found.append(_moved(b, out, vector_layout.cut_axis(b.w, v, axis_of(len(out.shape), axis), start, size)))
        start += size
    return found


# ---------------------------------------------------------------------------- dynamic slices


def _start(b: Body, x: Value, room: int) -> SSA:
    """A start brought to 0 .. room."""
    low = b.scalar_op("arith.maxsi", b.scalar(x), b.int_constant(0))
    return b.scalar_op("arith.minsi", low, b.int_constant(room))


def window(b: Body, v: SSA, starts: Sequence[SSA | int], sizes: Sequence[int]) -> SSA:
    """The part of a vector from computed start indices, in bounds."""
    assert v.shape is not None
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        n = v.shape[axis]
        if isinstance(start, int):
            v = vector_layout.cut_axis(b.w, v, axis, start, size)
        elif size != n:
            back = b.scalar_op("arith.subi", b.int_constant(n), start)
            v = vector_layout.rotate(b.w, v, b.scalar_op("arith.remsi", back, b.int_constant(n)), axis)
            v = vector_layout.cut_axis(b.w, v, axis, 0, size)
        assert v.shape is not None
    return v


def replaced(b: Body, v: SSA, part: SSA, starts: Sequence[SSA | int]) -> SSA:
    """A vector with a part overwritten at computed start indices, in bounds."""
    assert v.shape is not None and part.shape is not None
    mask = None
    for axis, start in enumerate(starts):
        n, size = v.shape[axis], part.shape[axis]
        if size == n:
            continue
        place = vector_layout.iota(b.w, tuple(v.shape), axis)
        if isinstance(start, int):
            part = vector_layout.pad_axis(b.w, part, axis, start, n - size - start)
            start = b.int_constant(start)
        else:
            part = vector_layout.rotate(b.w, vector_layout.pad_axis(b.w, part, axis, 0, n - size), start, axis)
        whole = b.w.op("vector.broadcast", [start], v.shape, "i32")
        offset = b.w.op("arith.subi", [place, whole], v.shape, "i32")
        mask = both(b, mask, within(b, offset, size))
        assert part.shape is not None
    return part if mask is None else b.select(mask, part, v)


def within(b: Body, x: SSA, size: int) -> SSA:
    """0 <= x < size."""
    low = b.w.op("arith.cmpi", [x, b.w.constant(0, "i32", x.shape)], x.shape, "i1", "predicate = 5 : i64")
    high = b.w.op("arith.cmpi", [x, b.w.constant(size, "i32", x.shape)], x.shape, "i1", "predicate = 2 : i64")
    return b.w.op("arith.andi", [low, high], x.shape, "i1")


def both(b: Body, x: SSA | None, y: SSA) -> SSA:
    return y if x is None else b.w.op("arith.andi", [x, y], y.shape, "i1")


def _dynamic_slice(b: Body, xs: list[Value], out: ArrayType, slice_sizes: Sequence[int]) -> Value:
    x, *starts = xs
    lead = [0] * max(2 - len(x.shape), 0)
    at = [_place(b, s, n - size) for s, n, size in zip(starts, x.shape, slice_sizes, strict=True)]
    return _moved(b, out, window(b, b.vector(x), [*lead, *at], [*(1 for _ in lead), *slice_sizes]))


def _place(b: Body, start: Value, room: int) -> SSA | int:
    if start.known is not None or not room:
        return min(max(int(start.known or 0), 0), room)
    return _start(b, start, room)


def _dynamic_update_slice(b: Body, xs: list[Value], out: ArrayType) -> Value:
    x, part, *starts = xs
    lead = [0] * max(2 - len(x.shape), 0)
    at = [_place(b, s, n - size) for s, n, size in zip(starts, x.shape, part.shape, strict=True)]
    return _moved(b, out, replaced(b, b.vector(x), b.vector(part), [*lead, *at]))


RULES: dict[Primitive, Rule] = {
    broadcast_in_dim_p: _broadcast, reshape_p: _reshape, squeeze_p: _reshape, 
    transpose_p: _transpose, rev_p: _rev, slice_p: _slice, iota_p: _iota, pad_p: _pad, concatenate_p: _concatenate,
    split_p: _split, dynamic_slice_p: _dynamic_slice, dynamic_update_slice_p: _dynamic_update_slice,
}  # fmt: skip
