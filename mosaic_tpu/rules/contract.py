"""Matrix products on the matrix unit.

bfloat16, 8-bit floats and int8 are multiplied as they are, with sums in 32 bits; float32 by passes of bfloat16 parts
unless `Precision.DEFAULT` asks for one pass. Integers that the unit does not take are multiplied on the vector unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_float
from ...core.primitives.contraction.dot_general import Precision, dot_general_p
from .. import vector_layout
from ..body import Body, Rule
from ..text import SSA
from ..values import Value, physical
from .control import loop
from .shape import window

_UNROLLED = 16  # products on the vector unit of so few columns are printed column by column
_UNIT = ("bf16", "f8E4M3FN", "f8E5M2")  # element types that the matrix unit multiplies exactly


def _operand(b: Body, x: Value, other: Value) -> SSA:
    """An operand in the form in which the matrix unit takes it."""
    same = x.dtype == other.dtype
    if same and (str(x.dtype) == "int8" or (is_float(x.dtype) and x.dtype.itemsize < 4)):
        form = b.narrow(x)
        if form.element in _UNIT or form.element == "i8":
            return form
    return b.vector(x)


def _product(b: Body, x: SSA, y: SSA, precise: bool) -> SSA:
    """(m, k) times (k, n) in 32 bits."""
    assert x.shape is not None and y.shape is not None
    shape = (x.shape[0], y.shape[1])
    if x.element == "i32":
        return _on_vectors(b, x, y, shape)
    return _matmul(b, x, y, shape, "[1], [0], [0], [1], [0, 0, 1, 1]", precise)


def _matmul(b: Body, x: SSA, y: SSA, shape: tuple[int, int], numbers: str, precise: bool) -> SSA:
    element = "i32" if x.element == "i8" else "f32"
    start = b.w.constant(0, element, shape)
    attributes = f"dimension_numbers = #tpu.dot_dimension_numbers<{numbers}, [], []>, transpose_lhs_hint = false"
    if x.element == "f32" and precise:
        attributes += ", precision = #tpu.contract_precision<fp32>"
    return b.w.op("tpu.matmul", [x, y, start], shape, element, attributes)


def _on_vectors(b: Body, x: SSA, y: SSA, shape: tuple[int, int]) -> SSA:
    """A product of integers: one rank-1 update for each of the k columns."""
    assert x.shape is not None
    depth = x.shape[1]

    def step(k: Any, total: SSA) -> SSA:
        column = vector_layout.broadcast(b.w, window(b, x, [0, k], [shape[0], 1]), shape)
        row = vector_layout.broadcast(b.w, window(b, y, [k, 0], [1, shape[1]]), shape)
        return b.w.op("arith.addi", [total, b.w.op("arith.muli", [column, row], shape, "i32")], shape, "i32")

    total = b.w.constant(0, "i32", shape)
    if depth > _UNROLLED:
        return loop(b, depth, [total], lambda k, state: [step(k, state[0])])[0]
    for k in range(depth):
        total = step(k, total)
    return total


def _arranged(b: Body, x: Value, form: SSA, order: Sequence[int], groups: tuple[int, int, int]) -> SSA:
    """An operand as (batch, rows, columns): its axes in an order, and how many each of the three takes."""
    wide = form if form.element in ("f32", "i32") else b.widen(form, x.dtype)
    rank = len(x.shape)
    sizes = [x.shape[d] for d in order]
    a, c, _ = groups
    shape = (math.prod(sizes[:a]), math.prod(sizes[a : a + c]), math.prod(sizes[a + c :]))
    if shape == wide.shape and list(order) == list(range(rank)):
        return form
    if rank >= 2:
        wide = vector_layout.transpose(b.w, wide, order)
    wide = vector_layout.reshape(b.w, wide, shape)
    return wide if wide.element == form.element else b.narrowed(wide, x.dtype)


def _dot_general(b: Body, xs: list[Value], out: ArrayType, dimension_numbers: Any, precision: Any,
                 preferred_element_type: np.dtype[Any]) -> Value:  # fmt: skip
    x, y = xs
    if not (x.type.size and y.type.size):
        return b.known(0, out)
    (cx, cy), (bx, by) = dimension_numbers
    precise = not (precision and Precision.DEFAULT in precision)
    left, right = _operand(b, x, y), _operand(b, y, x)
    if left.element != right.element:
        left, right = b.vector(x), b.vector(y)
    if left.element == "i1":
        left, right = vector_layout.as_words(b.w, left), vector_layout.as_words(b.w, right)
    if left.element != right.element:
        left, right = (v if v.element == "f32" else b.w.op("arith.sitofp", [v], v.shape, "f32") for v in (left, right))
    if (len(x.shape), len(y.shape), len(bx)) == (2, 2, 0) and left.element != "i32" and len(cx) == 1:
        free = 1 - cx[0], 1 - cy[0]
        numbers = f"[{cx[0]}], [{cy[0]}], [{free[0]}], [{free[1]}], [0, {free[0]}, 1, {free[1]}]"
        return _finished(b, out, _matmul(b, left, right, (x.shape[free[0]], y.shape[free[1]]), numbers, precise))
    fx = [d for d in range(len(x.shape)) if d not in (*cx, *bx)]
    fy = [d for d in range(len(y.shape)) if d not in (*cy, *by)]
    left = _arranged(b, x, left, [*bx, *fx, *cx], (len(bx), len(fx), len(cx)))
    right = _arranged(b, y, right, [*by, *cy, *fy], (len(by), len(cy), len(fy)))
    return _finished(b, out, _batched(b, left, right, precise))


def _batched(b: Body, left: SSA, right: SSA, precise: bool) -> SSA:
    assert left.shape is not None and right.shape is not None
    parts = []
    for i in range(left.shape[0]):
        one = _matrix(b, left, i), _matrix(b, right, i)
        made = _product(b, *one, precise)
        parts.append(vector_layout.cast(b.w, made, (1, *made.shape)) if made.shape else made)
    return vector_layout.concatenate(b.w, parts, 0)


def _matrix(b: Body, x: SSA, i: int) -> SSA:
    assert x.shape is not None
    if len(x.shape) == 2:
        return x
    return vector_layout.cast(b.w, vector_layout.cut_axis(b.w, x, 0, i, 1), x.shape[1:])


def _finished(b: Body, out: ArrayType, made: SSA) -> Value:
    """A product of 32 bits in the dtype and shape of the result."""
    made = vector_layout.reshape(b.w, made, physical(out.shape))
    if made.element == "f32" and not is_float(out.dtype):
        made = b.w.op("arith.fptosi", [made], made.shape, "i32")
    elif made.element == "i32" and is_float(out.dtype):
        made = b.w.op("arith.sitofp", [made], made.shape, "f32")
    if out.dtype == np.dtype(bool):
        made = vector_layout.as_mask(b.w, made, "i1")
    return b.value(out, made)


RULES: dict[Primitive, Rule] = {dot_general_p: _dot_general}
