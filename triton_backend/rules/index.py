"""Indexing of values: windows at computed positions, gathers, and scatters one update after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import AxisInfo, Primitive
from ...core.ir.program import Program
from ...core.ir.types import INT32, INT64, ArrayType, is_unsigned
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p, mul_p, sub_p
from ...core.primitives.movement.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from ...core.primitives.movement.gather_dimension_numbers import (
    CLIP,
    FILL,
    ScatterDimensionNumbers,
    default_fill,
    window_sizes,
)
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
from ...core.primitives.movement.shape import broadcast_in_dim, reshape
from ...core.tracing.trace import eval_program, trace_program
from ...core.transforms.batching import batch_program
from ..builders import (
    Int,
    add,
    all_lanes,
    as_value,
    both,
    clip,
    common,
    compare,
    convert,
    join_index,
    select,
    split_index,
    spread,
    sub,
    take,
)
from ..text import Value
from .elementwise import RULES as ELEMENTWISE
from .elementwise import Rule

if TYPE_CHECKING:
    from ..lower import Lowering


def _int32(e: Lowering, x: Value) -> Value:
    """An index as int32; one that 32 bits cannot hold stays beyond any axis."""
    p = e.p
    if x.dtype.itemsize < 4:
        return convert(p, x, INT32)
    if is_unsigned(x.dtype) or x.dtype == INT64:
        x = ELEMENTWISE[min_p](e, [x, p.constant(2**31 - 1, x.dtype)], ArrayType(x.shape, x.dtype))
        if not is_unsigned(x.dtype):
            x = ELEMENTWISE[max_p](e, [x, p.constant(-(2**31), x.dtype)], ArrayType(x.shape, x.dtype))
    return convert(p, x, INT32)


def _dynamic_slice(e: Lowering, operands: Sequence[Value], out: ArrayType, slice_sizes: Sequence[int]) -> Value:
    p, x = e.p, operands[0]
    if 0 in out.shape:
        return p.constant(0, x.dtype, out.shape)
    places: list[Int] = []
    for here, start, n, size in zip(all_lanes(p, out.shape), operands[1:], x.shape, slice_sizes, strict=True):
        places.append(here if n == size else add(p, here, clip(p, _int32(e, start), 0, n - size)))
    return take(p, x, out.shape, places)


def _dynamic_update_slice(e: Lowering, operands: Sequence[Value], out: ArrayType) -> Value:
    p, (x, update, *starts) = e.p, operands
    if 0 in update.shape:
        return x
    places: list[Int] = []
    inside: Value | None = None
    for here, start, n, size in zip(all_lanes(p, x.shape), starts, x.shape, update.shape, strict=True):
        if n == size:
            places.append(here)
            continue
        at = as_value(p, sub(p, here, clip(p, _int32(e, start), 0, n - size)))
        places.append(at)
        low = compare(p, "ge", at, p.constant(0, INT32))
        inside = both(p, inside, low, compare(p, "lt", at, p.constant(size, INT32)))
    new = take(p, update, x.shape, places)
    return new if inside is None else select(p, inside, new, x)


# ---------------------------------------------------------------------------- gather


def _window(e: Lowering, indices: Value, x_shape: Sequence[int], at: Sequence[Int], d: Any, sizes: Sequence[int],
            shape: Sequence[int], clamp: bool) -> tuple[list[Int], Value | None]:  # fmt: skip
    """For positions `at` (of `shape`) in the array of windows: where they lie in the operand, and in a window that
    fits."""
    p = e.p
    batch = [at[i] for i in range(len(at)) if i not in d.offset_dims]
    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    offsets = iter([at[i] for i in d.offset_dims])
    places: list[Int] = []
    inside: Value | None = None
    for axis, (size, limit) in enumerate(zip(sizes, x_shape, strict=True)):
        place: Int = 0
        if axis in d.start_index_map:
            start = take(p, indices, shape, [*batch, d.start_index_map.index(axis)])
            low = compare(p, "ge", start, p.constant(0, INT32))
            high = compare(p, "le", start, p.constant(limit - size, INT32))
            inside = both(p, inside, low, high)
            place = clip(p, start, 0, max(limit - size, 0)) if clamp else start
        elif axis in d.operand_batching_dims:
            place = batch[d.start_indices_batching_dims[d.operand_batching_dims.index(axis)]]
        if axis not in gone:
            place = add(p, place, next(offsets))
        places.append(place)
    return places, inside


def _gather(e: Lowering, operands: Sequence[Value], out: ArrayType, dimension_numbers: Any, slice_sizes: Any, mode: Any,
            fill_value: Any, **_: Any) -> Value:  # fmt: skip
    p, (x, indices) = e.p, operands
    if 0 in out.shape:
        return p.constant(0, x.dtype, out.shape)
    places, inside = _window(
        e, _int32(e, indices), x.shape, all_lanes(p, out.shape), dimension_numbers, slice_sizes, out.shape, True
    )
    if 0 in x.shape:
        found = p.constant(0, x.dtype, out.shape)
    else:
        found = take(p, x, out.shape, places)
    if mode is not FILL or inside is None:
        return found
    return select(p, inside, found, p.constant(default_fill(x.dtype) if fill_value is None else fill_value, x.dtype))


# ---------------------------------------------------------------------------- scatter

Combine = Callable[[Any, Value, Value], Value]


def _scatter(combine: Combine) -> Rule:
    """A loop over the updates: each is combined into the element it goes to."""

    def rule(e: Any, operands: Sequence[Value], out: ArrayType, dimension_numbers: ScatterDimensionNumbers, mode: Any,
             **_: Any) -> Value:  # fmt: skip
        p, (x, indices, updates) = e.p, operands
        count = math.prod(updates.shape)
        if 0 in (count, math.prod(x.shape)):
            return x
        numbers = dimension_numbers.as_gather()
        sizes = window_sizes(x.shape, updates.shape, dimension_numbers)
        indices = _int32(e, indices)
        own = as_value(p, join_index(p, all_lanes(p, x.shape), x.shape))

        def step(i: Value, held: Value) -> list[Value]:
            at = split_index(p, i, updates.shape)
            places, inside = _window(e, indices, x.shape, at, numbers, sizes, (), mode is CLIP)
            here = compare(p, "eq", *common(p, own, as_value(p, join_index(p, places, x.shape))))
            here = here if inside is None or mode is CLIP else both(p, here, spread(p, inside, here.shape))
            value = spread(p, take(p, updates, (), at), x.shape)
            assert here is not None
            return [select(p, here, combine(e, held, value), held)]

        return p.loop(count, [x], step)[0]

    return rule


def _with(primitive: Primitive) -> Combine:
    return lambda e, held, value: ELEMENTWISE[primitive](e, [held, value], ArrayType(held.shape, held.dtype))


def _vectorised(program: Program, shape: Sequence[int]) -> Program:
    """A Program of scalars as one of arrays of a shape."""
    size = math.prod(shape)
    batched, dims = batch_program(program, AxisInfo(size), (0,) * len(program.inputs))

    def fun(*xs: Any) -> list[Any]:
        outs = eval_program(batched, *(reshape(x, (size,)) for x in xs))
        return [
            broadcast_in_dim(o, shape, ()) if d is None else reshape(o, tuple(shape))
            for o, d in zip(outs, dims, strict=True)
        ]

    types: list[Any] = [ArrayType(tuple(shape), t.dtype) for t in program.in_types]
    return trace_program(fun, types, program.name)


def _scatter_apply(e: Lowering, operands: Sequence[Value], out: ArrayType, update: Any, **params: Any) -> Value:
    """Each element that a window names goes through a scalar Program, once for each time it is named."""

    def applied(e: Lowering, held: Value, _: Value) -> Value:
        return e.inline(_vectorised(update, held.shape), [held])[0]

    return _scatter(applied)(e, operands, out, **params)


RULES: dict[Primitive, Rule] = {
    dynamic_slice_p: _dynamic_slice, dynamic_update_slice_p: _dynamic_update_slice, gather_p: _gather,
    scatter_p: _scatter(lambda e, held, value: value), scatter_add_p: _scatter(_with(add_p)),
    scatter_sub_p: _scatter(_with(sub_p)), scatter_mul_p: _scatter(_with(mul_p)), scatter_min_p: _scatter(_with(min_p)),
    scatter_max_p: _scatter(_with(max_p)), scatter_apply_p: _scatter_apply,
}  # fmt: skip
