"""Sorting networks: keys as integers of the same order, sorted together with their places (Batcher, 1968).

Every comparison is decided, at the latest by the place, so that the sort is stable; padding has the greatest keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import INT32, ArrayType, is_bool, is_float
from ...core.primitives.movement.sort import sort_p, top_k_p
from ..builders import (
    FLOAT32,
    all_lanes,
    bitcast,
    compare,
    convert,
    cut_axis,
    guarded,
    lanes,
    relabel,
    select,
    spread,
    take,
)
from ..text import Value
from .elementwise import Rule

if TYPE_CHECKING:
    from ..lower import Lowering


def _ordered(e: Lowering, x: Value, total: bool) -> Value:
    """Integers in the order of `x`: -0 equals 0 and NaN is last, or (`total`) as IEEE's total order has it."""
    p = e.p
    if is_bool(x.dtype):
        return convert(p, x, INT32)
    if not is_float(x.dtype):
        return x
    x = convert(p, x, FLOAT32) if x.dtype.itemsize < 4 else x
    number = x if total else p.same("arith.addf", x, p.constant(0.0, x.dtype, x.shape))
    bits = np.dtype(f"int{8 * x.dtype.itemsize}")
    n = bitcast(p, number, bits)
    greatest = p.constant(np.iinfo(bits).max, bits, x.shape)
    flipped = p.same("arith.xori", n, greatest)
    key = select(p, compare(p, "lt", n, p.constant(0, bits)), flipped, n)
    return key if total else select(p, compare(p, "ne", x, x), greatest, key)


def _before(e: Lowering, a: Sequence[Value], b: Sequence[Value]) -> Value:
    """Whether one tuple of keys comes before another."""
    p = e.p
    found = compare(p, "lt", a[-1], b[-1])
    for x, y in zip(a[-2::-1], b[-2::-1], strict=True):
        less, equal = compare(p, "lt", x, y), compare(p, "eq", x, y)
        found = p.same("arith.ori", less, p.same("arith.andi", equal, found))
    return found


def order(e: Lowering, keys: Sequence[Value], axis: int) -> Value:
    """The places that sort by keys along an axis, with the padding last."""
    p = e.p
    shape = keys[0].shape
    keys = [guarded(p, k, np.iinfo(k.dtype).max, (axis,)) for k in keys]
    whole = tuple(n if d != axis else keys[0].padded[axis] for d, n in enumerate(shape))
    here = lanes(p, whole[axis], axis, len(whole))
    state = [*(relabel(k, whole) for k in keys), spread(p, here, whole)]
    size = 2
    while size <= whole[axis]:
        reach = size // 2
        while reach:
            places = all_lanes(p, whole)
            places[axis] = p.same("arith.xori", here, p.constant(reach, INT32, here.shape))
            partner = [take(p, x, whole, places) for x in state]
            low, up = (
                compare(p, "eq", p.same("arith.andi", here, p.constant(k, INT32, here.shape)), p.constant(0, INT32))
                for k in (reach, size)
            )
            keeps_less = compare(p, "eq", low, up) if size < whole[axis] else low
            swap = compare(p, "eq", spread(p, keeps_less, whole), _before(e, partner, state))
            state = [select(p, swap, y, x) for x, y in zip(state, partner, strict=True)]
            reach //= 2
        size *= 2
    return relabel(state[-1], shape)


def _sorted(e: Lowering, x: Value, places: Value, axis: int) -> Value:
    at = all_lanes(e.p, places.shape)
    at[axis] = places
    return take(e.p, x, places.shape, at)


def _sort(e: Any, operands: Sequence[Value], outs: Sequence[ArrayType], dimension: int, is_stable: bool, num_keys: int
          ) -> list[Value]:  # fmt: skip
    if 0 in outs[0].shape:
        return list(operands)
    places = order(e, [_ordered(e, x, False) for x in operands[:num_keys]], dimension)
    return [_sorted(e, x, places, dimension) for x in operands]


def _top_k(e: Lowering, operands: Sequence[Value], outs: Sequence[ArrayType], k: int, axis: int) -> list[Value]:
    p, (x,) = e.p, operands
    if 0 in outs[0].shape:
        return [p.constant(0, o.dtype, o.shape) for o in outs]
    key = _ordered(e, x, True)
    ones = p.constant(np.array(-1).astype(key.dtype), key.dtype, key.shape)
    places = order(e, [p.same("arith.xori", key, ones)], axis)
    places = cut_axis(p, places, axis, 0, k)
    return [_sorted(e, x, places, axis), places]


RULES: dict[Primitive, Rule] = {sort_p: _sort, top_k_p: _top_k}
