"""Sorting by Batcher's bitonic network: compare each element with one at a distance, log2(n)^2 / 2 times.

Keys become integers of the same order; indices break ties, so that the order is total and the sort stable.
Source: K. E. Batcher, "Sorting networks and their applications" (1968).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_float, is_unsigned
from ...core.primitives.movement.sort import sort_p, top_k_p
from .. import vector_layout
from ..body import Body, Rule
from ..text import SSA
from ..values import Value
from .elementwise import compared, flipped
from .shape import axis_of


def ordered(b: Body, x: Value, total: bool) -> SSA:
    """Integers in the order of a value; `total`: -0 before 0 and NaN by its sign, else NaN last and zeros equal."""
    v = vector_layout.as_words(b.w, b.vector(x))
    if is_unsigned(x.dtype) and x.dtype.itemsize == 4:
        return flipped(b, v)
    if not is_float(x.dtype):
        return v
    if not total:
        zero = b.w.constant(0.0, "f32", v.shape)
        nan = b.w.constant(float("nan"), "f32", v.shape)
        v = b.select(compared(b, "eq", v, zero, False), zero, v)
        v = b.select(compared(b, "ne", v, v, False), nan, v)
    bits = b.w.op("tpu.bitcast", [v], v.shape, "i32")
    sign = b.w.op("arith.shrsi", [bits, b.w.constant(31, "i32", v.shape)], v.shape, "i32")
    low = b.w.op("arith.andi", [sign, b.w.constant(2**31 - 1, "i32", v.shape)], v.shape, "i32")
    return b.w.op("arith.xori", [bits, low], v.shape, "i32")


def sorted_by(b: Body, keys: Sequence[SSA], others: Sequence[SSA], axis: int) -> tuple[list[SSA], SSA]:
    """Vectors in the order of some keys along an axis, and where each element was."""
    shape = keys[0].shape
    assert shape is not None
    n = shape[axis]
    size = 1 << max(n - 1, 0).bit_length()
    last = 2**31 - 1
    held = [vector_layout.pad_axis(b.w, k, axis, 0, size - n, last) for k in keys]
    held += [vector_layout.pad_axis(b.w, o, axis, 0, size - n, 0) for o in others]
    whole = held[0].shape
    assert whole is not None
    place = vector_layout.iota(b.w, whole, axis)
    held.insert(len(keys), place)
    block = 2
    while block <= size:
        distance = block // 2
        while distance:
            held = _exchange(b, held, len(keys) + 1, place, axis, block, distance, size)
            distance //= 2
        block *= 2
    held = [vector_layout.cut_axis(b.w, h, axis, 0, n) for h in held]
    return held[len(keys) + 1 :], held[len(keys)]


def _exchange(b: Body, held: list[SSA], keys: int, place: SSA, axis: int, block: int, distance: int,
              size: int) -> list[SSA]:  # fmt: skip
    shape = place.shape
    upper = _bit(b, place, distance)
    falling = _bit(b, place, block) if block < size else None
    partners = []
    for h in held:
        up = vector_layout.rotate(b.w, h, b.int_constant(distance), axis)
        down = vector_layout.rotate(b.w, h, b.int_constant(size - distance), axis)
        partners.append(b.select(upper, up, down))
    less = _less(b, partners[:keys], held[:keys])
    # An element at the lower end of a rising pair takes its partner if that is less; each condition turned over
    # turns the choice over.
    turned = upper if falling is None else b.w.op("arith.xori", [upper, falling], shape, "i1")
    taken = b.w.op("arith.xori", [less, turned], shape, "i1")
    return [b.select(taken, p, h) for p, h in zip(partners, held, strict=True)]


def _bit(b: Body, place: SSA, bit: int) -> SSA:
    found = b.w.op("arith.andi", [place, b.w.constant(bit, "i32", place.shape)], place.shape, "i32")
    return vector_layout.as_mask(b.w, found, "i1")


def _less(b: Body, xs: Sequence[SSA], ys: Sequence[SSA]) -> SSA:
    """Lexicographic order."""
    found = compared(b, "lt", xs[-1], ys[-1], False)
    for x, y in zip(xs[-2::-1], ys[-2::-1], strict=True):
        equal = compared(b, "eq", x, y, False)
        found = b.w.op("arith.andi", [equal, found], x.shape, "i1")
        found = b.w.op("arith.ori", [compared(b, "lt", x, y, False), found], x.shape, "i1")
    return found


def _sort(b: Body, xs: list[Value], outs: Sequence[ArrayType], dimension: int, is_stable: bool,
          num_keys: int) -> list[Value]:  # fmt: skip
    axis = axis_of(len(outs[0].shape), dimension)
    keys = [ordered(b, x, False) for x in xs[:num_keys]]
    words = [vector_layout.as_words(b.w, b.vector(x)) for x in xs]
    found, _ = sorted_by(b, keys, words, axis)
    return [_back(b, x, f, out) for x, f, out in zip(xs, found, outs, strict=True)]


def _back(b: Body, x: Value, found: SSA, out: ArrayType) -> Value:
    return b.value(out, vector_layout.as_mask(b.w, found, b.vector(x).element), rounded=False)


def _top_k(b: Body, xs: list[Value], outs: Sequence[ArrayType], k: int, axis: int) -> list[Value]:
    at = axis_of(len(xs[0].shape), axis)
    key = ordered(b, xs[0], True)
    key = b.w.op("arith.xori", [key, b.w.constant(-1, "i32", key.shape)], key.shape, "i32")
    (found,), place = sorted_by(b, [key], [vector_layout.as_words(b.w, b.vector(xs[0]))], at)
    found, place = (vector_layout.cut_axis(b.w, v, at, 0, k) for v in (found, place))
    return [_back(b, xs[0], found, outs[0]), b.value(outs[1], place)]


RULES: dict[Primitive, Rule] = {sort_p: _sort, top_k_p: _top_k}
