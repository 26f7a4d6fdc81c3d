"""Builders of operations that the rules share: integer arithmetic, masks, layout, moving elements within a tensor.

An `Int` is a Python integer where it is known, else an int32 value; shapes broadcast as in NumPy (equal rank, or
scalar).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.ir.types import BOOL, INT32, is_bool, is_float, is_key, is_unsigned
from ..lang.mlir.scalar_operations import comparison
from ..lang.mlir.text import folded
from .text import Printer, Value, element, power, spell

Int = int | Value
Shape = tuple[int, ...]
FLOAT32 = np.dtype(np.float32)
INT8 = np.dtype(np.int8)


# ---------------------------------------------------------------------------- shape


def spread(p: Printer, x: Value, shape: Sequence[int]) -> Value:
    """A value repeated along axes of size 1 (a scalar along all)."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    out = spell(shape, x.dtype, x.pointer)
    if x.name in p.numbers and not x.shape:
        return p.constant(p.numbers[x.name], x.dtype, shape)
    if not x.shape:
        return p.op(f"tt.splat {x.name} : {x.type} -> {out}", shape, x.dtype, x.pointer)
    if x.padded == tuple(map(power, shape)):
        return Value(x.name, shape, x.dtype, x.pointer)
    return p.op(f"tt.broadcast {x.name} : {x.type} -> {out}", shape, x.dtype, x.pointer)


def common(p: Printer, *xs: Value) -> list[Value]:
    """Values of one shape."""
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    return [spread(p, x, shape) for x in xs]


def relabel(x: Value, shape: Sequence[int]) -> Value:
    """The same tensor with another logical shape of equal padding."""
    assert x.padded == tuple(map(power, shape)), (x, shape)
    return Value(x.name, tuple(shape), x.dtype, x.pointer)


def regroup(p: Printer, x: Value, shape: Sequence[int]) -> Value:
    """`tt.reshape`: padded elements in their order; a scalar is a tensor of one element."""
    shape = tuple(shape)
    if x.padded == tuple(map(power, shape)):
        return relabel(x, shape)
    if not x.shape:
        return spread(p, x, shape)
    if not shape:
        one = regroup(p, x, (1,))
        return p.op(f"tt.unsplat {one.name} : {one.type}", (), x.dtype)
    for axis in _inserted(x.padded, tuple(map(power, shape))):
        now = (*x.padded[:axis], 1, *x.padded[axis:])
        text = f"tt.expand_dims {x.name} {{axis = {axis} : i32}} : {x.type} -> {spell(now, x.dtype, x.pointer)}"
        x = p.op(text, now, x.dtype, x.pointer)
    if x.padded == tuple(map(power, shape)):
        return relabel(x, shape)
    return p.op(f"tt.reshape {x.name} : {x.type} -> {spell(shape, x.dtype)}", shape, x.dtype)


def _inserted(shape: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The axes of size 1 that make of one shape the other, in order; none where that is not all there is to do.

    Triton follows contiguity through `tt.expand_dims`, not through `tt.reshape`: by it loads are vectorised and
    pipelined.
    """
    axes, i = [], 0
    for axis, n in enumerate(wanted):
        if i < len(shape) and shape[i] == n:
            i += 1
        elif n == 1:
            axes.append(axis)
        else:
            return []
    return axes if i == len(shape) else []


def transpose(p: Printer, x: Value, order: Sequence[int]) -> Value:
    if list(order) == list(range(len(order))):
        return x
    shape = tuple(x.shape[a] for a in order)
    return p.op(
        f"tt.trans {x.name} {{order = array<i32: {', '.join(map(str, order))}>}} : {x.type} -> {spell(shape, x.dtype)}",
        shape, x.dtype)  # fmt: skip


def lanes(p: Printer, n: int, axis: int, rank: int) -> Value:
    """0, 1, ... along one axis of a shape of ones: printed once."""
    shape = tuple(n if d == axis else 1 for d in range(rank))

    def make() -> Value:
        size = power(n)
        text = f"tt.make_range {{end = {size} : i32, start = 0 : i32}} : {spell((size,), INT32)}"
        flat = p.once(("range", size), lambda: p.op(text, (size,), INT32))
        return regroup(p, flat, tuple(map(power, shape)))

    found = p.once(("lanes", power(n), axis, rank), make) if power(n) > 1 else p.constant(0, INT32, shape)
    return Value(found.name, shape, INT32)


def all_lanes(p: Printer, shape: Sequence[int]) -> list[Int]:
    """The position of every element, axis by axis."""
    return [lanes(p, n, axis, len(shape)) for axis, n in enumerate(shape)]


# ---------------------------------------------------------------------------- arithmetic of positions

def as_value(p: Printer, x: Int, dtype: Any = INT32) -> Value:
    return x if isinstance(x, Value) else p.constant(x, dtype)


def arith(p: Printer, name: str, a: Int, b: Int) -> Int:
    """Arithmetic of positions (not negative, where divided); known operands are folded."""
    known = folded(name, a, b)
    if known is not None:
        return known
    dtype = a.dtype if isinstance(a, Value) else b.dtype
    x, y = common(p, as_value(p, a, dtype), as_value(p, b, dtype))
    return p.same(f"arith.{name}", x, y)


def add(p: Printer, *xs: Int) -> Int:
    total: Int = 0
    for x in xs:
        total = arith(p, "addi", total, x)
    return total


def mul(p: Printer, a: Int, b: Int) -> Int:
    return arith(p, "muli", a, b)


def sub(p: Printer, a: Int, b: Int) -> Int:
    return arith(p, "subi", a, b)


def clip(p: Printer, x: Int, low: int, high: int) -> Int:
    return arith(p, "minsi", arith(p, "maxsi", x, low), high)


def split_index(p: Printer, x: Int, sizes: Sequence[int]) -> list[Int]:
    """A row-major position as one position per axis."""
    out: list[Int] = []
    for n in reversed(sizes[1:]):
        out.append(arith(p, "remsi", x, n))
        x = arith(p, "divsi", x, n)
    return [x, *out[::-1]] if sizes else []


def join_index(p: Printer, xs: Sequence[Int], sizes: Sequence[int]) -> Int:
    """Positions per axis as one row-major position."""
    total: Int = 0
    for x, stride in zip(xs, strides_of(sizes), strict=True):
        total = add(p, total, mul(p, x, stride))
    return total


def strides_of(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]


# ---------------------------------------------------------------------------- comparison and selection


def compare(p: Printer, how: str, a: Value, b: Value) -> Value:
    """An elementwise comparison; `how` is one of lt le gt ge eq ne."""
    a, b = common(p, a, b)
    if is_float(a.dtype):
        a, b = wide(p, a), wide(p, b)
    return p.same(comparison(how, a.dtype), a, b, dtype=BOOL)


def less(p: Printer, a: Int, b: Int) -> Value:
    """a < b, of positions."""
    x, y = as_value(p, a), as_value(p, b)
    return compare(p, "lt", x, y)


def both(p: Printer, *masks: Value | None) -> Value | None:
    """The conjunction of masks, None standing for all true."""
    found: Value | None = None
    for m in masks:
        if m is not None:
            found = m if found is None else p.same("arith.andi", *common(p, found, m))
    return found


def select(p: Printer, condition: Value, yes: Value, no: Value) -> Value:
    condition, yes, no = common(p, condition, yes, no)
    return p.op(
        f"arith.select {condition.name}, {yes.name}, {no.name} : {condition.type}, {yes.type}", yes.shape, yes.dtype
    )


def valid(p: Printer, shape: Sequence[int], axes: Sequence[int] | None = None) -> Value | None:
    """Which elements are not padding (of the given axes); None if all."""
    cut = tuple(d for d, n in enumerate(shape) if n != power(n) and (axes is None or d in axes))
    if not cut:
        return None

    def make() -> Value:
        found = both(p, *(less(p, lanes(p, shape[d], d, len(shape)), shape[d]) for d in cut))
        assert found is not None
        return found

    found = p.once(("valid", cut, tuple(shape[d] for d in cut), tuple(map(power, shape))), make)
    return Value(found.name, tuple(n if d in cut else 1 for d, n in enumerate(shape)), found.dtype)


def guarded(p: Printer, x: Value, neutral: Any, axes: Sequence[int] | None = None) -> Value:
    """A value whose padding (along some axes) is a given number."""
    mask = valid(p, x.shape, axes)
    return x if mask is None else select(p, mask, x, p.constant(neutral, x.dtype))


# ---------------------------------------------------------------------------- dtypes


def wide(p: Printer, x: Value) -> Value:
    """A float of less than 32 bits as float32: what most instructions take."""
    return convert(p, x, FLOAT32) if is_float(x.dtype) and x.dtype.itemsize < 4 else x


def bitcast(p: Printer, x: Value, dtype: Any) -> Value:
    """The bits of elements as another dtype of equal width."""
    if element(x.dtype) == element(dtype):
        return Value(x.name, x.shape, dtype)
    out = spell(x.shape, dtype)
    return p.op(f"tt.bitcast {x.name} : {x.type} -> {out}", x.shape, dtype)


def _cast(p: Printer, name: str, x: Value, dtype: np.dtype[Any]) -> Value:
    return p.op(f"{name} {x.name} : {x.type} to {spell(x.shape, dtype)}", x.shape, dtype)


def convert(p: Printer, x: Value, dtype: Any) -> Value:
    """Elements as another dtype: floats beyond an integer's range saturate, NaN becomes 0."""
    old = x.dtype
    if old == dtype or is_key(old):
        return x
    if is_bool(dtype):
        return compare(p, "ne", x, p.constant(0, old))
    if is_float(old):
        return _float_to_float(p, x, dtype) if is_float(dtype) else _float_to_int(p, wide(p, x), dtype)
    if is_float(dtype):
        name = "arith.uitofp" if is_unsigned(old) or is_bool(old) else "arith.sitofp"
        return convert(p, _cast(p, name, x, dtype if dtype.itemsize >= 4 else FLOAT32), dtype)
    if element(old) == element(dtype):
        return Value(x.name, x.shape, dtype)
    if not is_bool(old) and dtype.itemsize < old.itemsize:
        return _cast(p, "arith.trunci", x, dtype)
    found = _cast(p, "arith.extui" if is_unsigned(old) or is_bool(old) else "arith.extsi", x, dtype)
    if is_bool(old):
        p.truths[found.name] = x
    return found


def _float_to_float(p: Printer, x: Value, dtype: np.dtype[Any]) -> Value:
    sizes = x.dtype.itemsize, dtype.itemsize
    if max(sizes) > 4 > min(sizes) or (max(sizes) < 4):  # through float32
        return _float_to_float(p, _float_to_float(p, x, FLOAT32), dtype)
    if 1 in sizes:
        rounding = ", rounding = rtne" if dtype.itemsize == 1 else ""
        return p.op(f"tt.fp_to_fp {x.name}{rounding} : {x.type} -> {spell(x.shape, dtype)}", x.shape, dtype)
    return _cast(p, "arith.extf" if sizes[0] < sizes[1] else "arith.truncf", x, dtype)


def _float_to_int(p: Printer, x: Value, dtype: np.dtype[Any]) -> Value:
    info = np.iinfo(dtype)
    low, high = p.constant(float(info.min), x.dtype), p.constant(float(info.max), x.dtype)
    above, below = compare(p, "ge", x, high), compare(p, "le", x, low)
    inside = compare(p, "lt", *(p.same("math.absf", x), p.constant(2.0**63, x.dtype)))
    safe = select(p, inside, x, p.constant(0.0, x.dtype))
    found = _cast(p, "arith.fptoui" if is_unsigned(dtype) else "arith.fptosi", safe, dtype)
    found = select(p, above, p.constant(info.max, dtype), found)
    return select(p, below, p.constant(info.min, dtype), found)


def plus(p: Printer, a: Value, b: Value) -> Value:
    """a + b, rounded once to the dtype. A product added to something starts from it: one instruction less a turn."""
    for x, y in ((a, b), (b, a)):
        if x.name in p.dots and x.name in p.once_used and x.type == y.type:
            before, after = p.dots[x.name]
            return p.op(f"{before}{y.name}{after}", x.shape, x.dtype)
    if is_float(a.dtype):
        return convert(p, p.same("arith.addf", wide(p, a), wide(p, b)), a.dtype)
    return p.same("arith.ori" if is_bool(a.dtype) else "arith.addi", a, b)


# ---------------------------------------------------------------------------- moving elements


def take(p: Printer, x: Value, shape: Sequence[int], places: Sequence[Int]) -> Value:
    """The elements of `x` at computed positions, one `Int` per axis of `x` that broadcasts to `shape`.

    Positions of padding may be anything; what is taken there is not specified.
    """
    shape = tuple(shape)
    if math.prod(x.padded) == 1:
        return spread(p, regroup(p, x, ()), shape)
    if is_bool(x.dtype):
        return convert(p, take(p, convert(p, x, INT8), shape, places), BOOL)
    if is_float(x.dtype) and x.dtype.itemsize == 1:
        return bitcast(p, take(p, bitcast(p, x, INT8), shape, places), x.dtype)
    if len(shape) == len(x.shape):
        own, single = all_lanes(p, shape), [m == 1 for m in x.padded]  # of one element there is nothing to choose
        x = spread(p, x, tuple(n if one else m for n, m, one in zip(shape, x.shape, single, strict=True)))
        moved = [d for d, at in enumerate(places)
                 if not single[d] and (at != own[d] or power(shape[d]) != x.padded[d])]  # fmt: skip
        if not moved:
            return relabel(x, shape)
        # Triton's compiler fails where an axis of a tensor of several grows.
        if len(moved) == 1 and power(shape[moved[0]]) <= x.padded[moved[0]]:
            return _gather(p, x, shape, places[moved[0]], moved[0])
    flat = regroup(p, x, (math.prod(x.padded),))
    at = as_value(p, join_index(p, places, x.padded))
    if not shape:
        return regroup(p, _gather(p, flat, (1,), at, 0), ())
    count = math.prod(map(power, shape))
    where = regroup(p, spread(p, at, shape), (count,))
    return relabel(regroup(p, _gather(p, flat, (count,), where, 0), tuple(map(power, shape))), shape)


def _gather(p: Printer, x: Value, shape: Shape, places: Int, axis: int) -> Value:
    """`tt.gather` along one axis; positions are wrapped into the tensor, whose size is a power of two."""
    at = spread(p, as_value(p, arith(p, "andi", places, x.padded[axis] - 1)), shape)
    types = f"({x.type}, {at.type}) -> {spell(shape, x.dtype)}"
    return p.op(f"tt.gather {x.name}[{at.name}] {{axis = {axis} : i32}} : {types}", shape, x.dtype)


def reshape(p: Printer, x: Value, shape: Sequence[int]) -> Value:
    """Elements in row-major order of their logical shape."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    if 0 in shape:
        return p.constant(0, x.dtype, shape)
    old, new = (tuple(map(power, s)) for s in (x.shape, shape))
    if math.prod(old) == math.prod(new):
        before, after = (np.arange(math.prod(s)).reshape(s) for s in (old, new))
        kept = [a[tuple(slice(n) for n in s)].reshape(-1) for a, s in ((before, x.shape), (after, shape))]
        if np.array_equal(kept[0], kept[1]):
            return regroup(p, x, shape)
    position = join_index(p, all_lanes(p, shape), shape)
    return take(p, x, shape, split_index(p, position, x.shape))


def halves(p: Printer, x: Value, axis: int) -> tuple[Value, Value]:
    """The two halves of the padded extent of an axis."""
    size = x.padded[axis] // 2
    cut = (*x.padded[:axis], 2, size, *x.padded[axis + 1 :])
    order = [d for d in range(len(cut)) if d != axis] + [axis]
    apart = transpose(p, regroup(p, relabel(x, x.padded), cut), order)
    shape = apart.shape[:-1]
    a, b = p.fresh(), p.fresh()
    p.line(f"{a}, {b} = tt.split {apart.name} : {apart.type} -> {spell(shape, x.dtype)}")
    return Value(a, shape, x.dtype), Value(b, shape, x.dtype)


def cut_axis(p: Printer, x: Value, axis: int, start: int, size: int) -> Value:
    """`size` elements of an axis from `start`: halved as long as they lie in one half."""
    end = start + size
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    if not start and x.padded[axis] == power(size):
        return relabel(x, shape)
    half = x.padded[axis] // 2
    if half >= power(size) and (end <= half or start >= half) and not is_bool(x.dtype) and x.dtype.itemsize > 1:
        part = halves(p, x, axis)[start >= half]
        part = Value(part.name, (*x.shape[:axis], half, *x.shape[axis + 1 :]), x.dtype)
        return cut_axis(p, part, axis, start - half if start >= half else start, size)
    places = all_lanes(p, shape)
    places[axis] = add(p, places[axis], start)
    return take(p, x, shape, places)


def joined(p: Printer, a: Value, b: Value, axis: int) -> Value:
    """Two tensors of equal padding one after the other; the first is full along the axis."""
    size = a.padded[axis]
    both_ = (*a.padded, 2)
    pair = p.op(f"tt.join {a.name}, {b.name} : {a.type} -> {spell(both_, a.dtype)}", both_, a.dtype)
    rank = len(a.padded)
    order = [*range(axis), rank, *range(axis, rank)]
    flat = regroup(p, transpose(p, pair, order), (*a.padded[:axis], 2 * size, *a.padded[axis + 1 :]))
    return relabel(flat, (*a.shape[:axis], a.shape[axis] + b.shape[axis], *a.shape[axis + 1 :]))
