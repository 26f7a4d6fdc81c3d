"""Rewrites for TPUs only: multi-axis indices to flat ones, and bitcasts between widths.

A gather becomes one at flat indices, or at row indices along one axis, which are in bounds; a scatter becomes one of
single elements at flat indices, which drops out-of-bounds ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn
from ...core.ir.types import INT32, UINT32
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p, mul_p
from ...core.primitives.elementwise.bitwise import and_p, or_p, shift_left_p, shift_right_logical_p
from ...core.primitives.elementwise.comparison import ge_p, le_p, select_n_p
from ...core.primitives.elementwise.conversion import bitcast_convert_type, bitcast_convert_type_p, convert_element_type
from ...core.primitives.movement.gather_dimension_numbers import (
    CLIP,
    FILL,
    PROMISE,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    default_fill,
    window_sizes,
)
from ...core.primitives.movement.gather_scatter import gather_p
from ...core.primitives.movement.shape import broadcast_in_dim_p, concatenate, iota_p, reshape_to, slice_in_dim
from ...core.transforms.structural_primitives import spread
from ...lang.legalize import Rewrite
from .elementwise import check_bits
from .index import FLAT, SCATTERS, row_axis


def _spread(x: Any, shape: Sequence[int], dims: Sequence[int] = ()) -> Any:
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=tuple(dims))


def _within(start: Any, last: int) -> tuple[Any, Any]:
    """Positions moved to between 0 and the last, and whether they were there."""
    low, high = (_spread(np.int32(n), start.shape) for n in (0, last))
    fits = and_p.bind(ge_p.bind(start, low), le_p.bind(start, high))
    return min_p.bind(max_p.bind(start, low), high), fits


def _flat_positions(shape: Sequence[int], sizes: Sequence[int], numbers: Any, out_shape: Sequence[int],
                    indices: Any) -> tuple[Any, Any]:  # fmt: skip
    """Of every element of a gather's result: its row-major position in the operand, and whether its window fits."""
    offsets, gone = numbers[0], (*numbers[1], *numbers[3])
    batch = [d for d in range(len(out_shape)) if d not in offsets]
    kept = [d for d in range(len(shape)) if d not in gone]
    total: Any = _spread(np.int32(0), out_shape)
    fits: Any = _spread(np.bool_(True), out_shape)
    for d, n in enumerate(shape):
        place: Any = None
        if d in numbers[2]:
            column = slice_in_dim(indices, numbers[2].index(d), numbers[2].index(d) + 1, 1, len(indices.shape) - 1)
            start = convert_element_type(reshape_to(column, indices.shape[:-1]), INT32)
            place, inside = _within(_spread(start, out_shape, batch), n - sizes[d])
            fits = and_p.bind(fits, inside)
        elif d in numbers[3]:
            axis = batch[numbers[4][numbers[3].index(d)]]
            place = iota_p.bind(dtype=INT32, shape=tuple(out_shape), dimension=axis)
        if d in kept and sizes[d] > 1:
            step = iota_p.bind(dtype=INT32, shape=tuple(out_shape), dimension=offsets[kept.index(d)])
            place = step if place is None else add_p.bind(place, step)
        total = mul_p.bind(total, _spread(np.int32(n), out_shape))
        total = total if place is None else add_p.bind(total, place)
    return total, fits


# ---------------------------------------------------------------------------- gather and scatter


def _gather(eqn: Eqn) -> Rewrite | None:
    (x, at), out = (a.type for a in eqn.inputs), eqn.outputs[0].type
    numbers, sizes, mode = (eqn.params[k] for k in ("dimension_numbers", "slice_sizes", "mode"))
    row = row_axis(x.shape, numbers, sizes, out.shape)
    if mode is PROMISE and at.dtype == INT32 and (row is not None or (tuple(numbers), len(x.shape)) == (FLAT, 1)):
        return None

    def rewritten(x: Any, indices: Any, *, fill_value: Any, **params: Any) -> Any:
        params |= {"mode": PROMISE, "fill_value": None}
        if row is not None:
            start = convert_element_type(reshape_to(indices, indices.shape[:-1]), INT32)
            at, fits = _within(start, x.shape[row] - 1)
            found = gather_p.bind(x, reshape_to(at, (*at.shape, 1)), **params)
        else:
            at, fits = _flat_positions(x.shape, sizes, numbers, out.shape, indices)
            params |= {"dimension_numbers": GatherDimensionNumbers(*FLAT), "slice_sizes": (1,)}
            flat = reshape_to(x, (math.prod(x.shape),))
            found = gather_p.bind(flat, reshape_to(at, (*at.shape, 1)), **params)
        if mode is not FILL:
            return found
        fill = np.asarray(default_fill(out.dtype) if fill_value is None else fill_value).astype(out.dtype)[()]
        batch = [d for d in range(len(out.shape)) if d not in numbers[0]]
        fits = fits if fits.shape == out.shape else _spread(fits, out.shape, batch)
        return select_n_p.bind(fits, _spread(fill, out.shape), found)

    return rewritten


def _scatter(eqn: Eqn) -> Rewrite | None:
    x, at, updates = (a.type for a in eqn.inputs)
    numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    if mode is not CLIP and at.dtype == INT32 and (tuple(numbers), len(x.shape), len(updates.shape)) == (FLAT, 1, 1):
        return None

    def rewritten(x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        if not updates.size:
            return x
        count, sizes = updates.size, window_sizes(x.shape, updates.shape, numbers)
        at, fits = _flat_positions(x.shape, sizes, numbers, updates.shape, indices)
        if mode is not CLIP:
            at = select_n_p.bind(fits, _spread(np.int32(-1), updates.shape), at)
        params |= {"dimension_numbers": ScatterDimensionNumbers(*FLAT), "mode": FILL}
        flat = eqn.primitive.bind(
            reshape_to(x, (x.size,)), reshape_to(at, (count, 1)), reshape_to(updates, (count,)), **params
        )
        return reshape_to(flat, x.shape)

    return rewritten


# ---------------------------------------------------------------------------- bits


def _bits(eqn: Eqn) -> Rewrite | None:
    given: Any = eqn.inputs[0].type
    dtype = eqn.outputs[0].type.dtype
    have, want = given.dtype.itemsize, dtype.itemsize
    if have == want:
        return None

    def rewritten(x: Any, **_: Any) -> Any:
        check_bits(given, dtype)
        words = convert_element_type(bitcast_convert_type(x, f"uint{8 * have}"), UINT32)
        words = _joined(words, 8 * have) if have < want else _parted(words, 8 * want, have // want)
        return bitcast_convert_type(convert_element_type(words, np.dtype(f"uint{8 * want}")), dtype)

    return rewritten


def _joined(x: Any, bits: int) -> Any:
    """The last axis, least significant first, as one word."""
    total: Any = None
    for k in range(x.shape[-1]):
        part = slice_in_dim(x, k, k + 1, 1, len(x.shape) - 1)
        part = reshape_to(part, x.shape[:-1])
        part = shift_left_p.bind(part, spread(np.uint32(k * bits), part.shape))
        total = part if total is None else or_p.bind(total, part)
    return total


def _parted(x: Any, bits: int, count: int) -> Any:
    """A word as a last axis of parts, least significant first."""
    parts = []
    for k in range(count):
        part = shift_right_logical_p.bind(x, spread(np.uint32(k * bits), x.shape))
        part = and_p.bind(part, spread(np.uint32(2**bits - 1), x.shape))
        parts.append(reshape_to(part, (*x.shape, 1)))
    return concatenate(parts, len(x.shape))


REWRITES: Mapping[Primitive, Callable[[Eqn], Rewrite | None]] = {
    gather_p: _gather, bitcast_convert_type_p: _bits, **dict.fromkeys(SCATTERS, _scatter),
}  # fmt: skip
