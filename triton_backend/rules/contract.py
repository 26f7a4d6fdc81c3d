"""`dot_general` on the matrix units: `tt.dot` of operands as (batch, free, contracted), padded to its least size.

Products that have no matrix unit (a vector on one side, 64-bit integers) are multiplications and a sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import INT32, ArrayType, is_bool, is_float, is_integer
from ...core.primitives.contraction.dot_general import Precision, dot_general_p, free_axes
from ..builders import (
    FLOAT32,
    compare,
    convert,
    halves,
    lanes,
    less,
    regroup,
    relabel,
    reshape,
    select,
    spread,
    transpose,
    wide,
)
from ..text import Value, power, spell
from .elementwise import Rule
from .reduce import SUM, reduced

if TYPE_CHECKING:
    from ..lower import Lowering

LEAST = 16  # of each axis of `tt.dot`
FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)


def _matrix(e: Lowering, x: Value, *groups: Sequence[int]) -> Value:
    """An operand with one axis for each group of its axes."""
    x = transpose(e.p, x, [a for group in groups for a in group])
    sizes = iter(x.shape)
    return reshape(e.p, x, [math.prod(next(sizes) for _ in group) for group in groups])


def _common(x: Value, y: Value, out: Any, precision: Any) -> Any:
    """The dtype that operands are multiplied in.

    By default it is bfloat16 where one operand and the result are: the result has no more digits, and the matrix units
    take operands of 16 bits from shared memory in any order, which they do not of 32.
    """
    if is_float(x.dtype) or is_float(y.dtype):
        if out == BFLOAT16 and {x.dtype, y.dtype} == {BFLOAT16, FLOAT32} and not _asked(precision):
            return BFLOAT16
        floats = [v.dtype for v in (x, y) if is_float(v.dtype)]
        own = max(floats, key=lambda d: d.itemsize)
        if len(set(floats)) > 1 and own.itemsize < 4:
            return FLOAT16 if own.itemsize == 1 else FLOAT32 if floats[0].itemsize == floats[1].itemsize else own
        return own
    if x.dtype == y.dtype == np.int8 and out == INT32:
        return x.dtype
    return max((x.dtype, y.dtype, out, INT32), key=lambda d: d.itemsize)


def _dot_general(e: Lowering, operands: Sequence[Value], out: ArrayType, dimension_numbers: Any, precision: Any,
                 preferred_element_type: np.dtype[Any]) -> Value:  # fmt: skip
    p, (x, y) = e.p, operands
    (lc, rc), (lb, rb) = dimension_numbers
    lf, rf = free_axes(len(x.shape), lc, lb), free_axes(len(y.shape), rc, rb)
    if 0 in (*x.shape, *y.shape):
        return p.constant(0, out.dtype, out.shape)
    dtype = _common(x, y, out.dtype, precision)
    if math.prod(x.shape[a] for a in lb) == 1:  # a product of matrices, which the units of Hopper take, not batches
        lf, rf, lb, rb = (*lb, *lf), (*rb, *rf), (), ()
    batch = ((lb,), (rb,)) if lb else ((), ())
    a, b = _matrix(e, convert(p, x, dtype), *batch[0], lf, lc), _matrix(e, convert(p, y, dtype), *batch[1], rc, rf)
    vector = 1 in (a.shape[-2], b.shape[-1])
    if vector or (is_integer(dtype) and dtype.itemsize > 4):
        found = _products(e, a, b)
    else:
        found = _dot(e, a, b, precision)
    if is_bool(out.dtype):
        return reshape(p, compare(p, "ne", found, p.constant(0, found.dtype)), out.shape)
    return reshape(p, convert(p, found, out.dtype), out.shape)


def _swapped(e: Lowering, x: Value) -> Value:
    rank = len(x.shape)
    return transpose(e.p, x, (*range(rank - 2), rank - 1, rank - 2))


def _products(e: Lowering, a: Value, b: Value) -> Value:
    """The sum over k of a[..., m, k] b[..., k, n], all products at once."""
    p = e.p
    if a.dtype == np.int8:
        a, b = convert(p, a, INT32), convert(p, b, INT32)
    (*batch, m, k), n, rank = a.shape, b.shape[-1], len(a.shape)
    if n == 1:
        left, right, shape, axis = a, _swapped(e, b), (*batch, m, k), rank - 1
    elif m == 1:
        left, right, shape, axis = _swapped(e, a), b, (*batch, k, n), rank - 2
    else:
        left, right = regroup(p, a, (*batch, m, k, 1)), regroup(p, b, (*batch, 1, k, n))
        shape, axis = (*batch, m, k, n), rank - 1
    left, right = (spread(p, wide(p, v), shape) for v in (left, right))
    total = p.same("arith.mulf" if is_float(left.dtype) else "arith.muli", left, right)
    return regroup(p, reduced(e, total, axis, SUM), (*batch, m, n))


def _grown(e: Lowering, x: Value, axis: int, least: int) -> Value:
    """An axis repeated until it has the least padded size."""
    size = x.padded[axis]
    if size >= least:
        return x
    p, times = e.p, least // size
    before, after = x.padded[:axis], x.padded[axis + 1 :]
    x = regroup(p, relabel(x, x.padded), (*before, 1, size, *after))
    return regroup(p, spread(p, x, (*before, times, size, *after)), (*before, least, *after))


def _dot(e: Lowering, a: Value, b: Value, precision: Any) -> Value:
    p, last = e.p, len(a.shape) - 1
    (*batch, m, k), n = a.shape, b.shape[-1]
    size = max(power(k), 32 if a.dtype.itemsize == 1 else LEAST)
    # What is past the end of the contracted axis is zero on both sides, for it may be infinite on one.
    a, b = _cut_off(e, a, last, k, size), _cut_off(e, b, last - 1, k, size)
    a, b = _grown(e, a, last - 1, LEAST), _grown(e, b, last, LEAST)
    kind = INT32 if is_integer(a.dtype) else a.dtype if a.dtype.itemsize == 8 else FLOAT32
    shape = (*a.padded[:-1], b.padded[-1])
    zero = p.constant(0, kind, shape)
    precise = f", inputPrecision = {name}" if (name := _input_precision(e, a.dtype, precision)) else ""
    ends = f"tt.dot {a.name}, {b.name}, ", f"{precise} : {a.type} * {b.type} -> {spell(shape, kind)}"
    found = p.op(ends[0] + zero.name + ends[1], shape, kind)
    p.dots[found.name] = ends
    for axis, count in ((last - 1, m), (last, n)):  # the first rows and columns, where an axis was repeated
        while found.padded[axis] > power(count):
            found = halves(p, found, axis)[0]
    return relabel(found, (*batch, m, n))


def _cut_off(e: Lowering, x: Value, axis: int, k: int, size: int) -> Value:
    """An axis grown to a size, zero from `k` on."""
    x = _grown(e, x, axis, size)
    if k == size:
        return x
    live = less(e.p, lanes(e.p, size, axis, len(x.shape)), k)
    return select(e.p, live, relabel(x, x.padded), e.p.constant(0, x.dtype))


def _input_precision(e: Lowering, dtype: np.dtype[Any], precision: Any) -> str:
    """How float32 operands are multiplied: by default in TF32, where the hardware has it."""
    if dtype != FLOAT32 or e.target.kind != "cuda":
        return ""
    return {Precision.DEFAULT.value: "tf32", Precision.HIGH.value: "tf32x3"}.get(_asked(precision), "")


def _asked(precision: Any) -> int:
    """The higher of the precisions asked for the two operands."""
    return max((one.value for one in precision), default=0) if precision else 0


RULES: dict[Primitive, Rule] = {dot_general_p: _dot_general}
