"""Reductions, indices of extrema, and prefix sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_bool, is_unsigned
from ...core.primitives.reduction.reduce import (
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_sum_p,
    reduce_xor_p,
)
from ...core.primitives.special.cumulative import cummax_p, cummin_p, cumprod_p, cumsum_p
from .. import vector_layout as moves
from ..body import Body, Rule
from ..text import SSA, Shape
from ..values import Value, physical
from .elementwise import flipped
from .shape import axis_of

# Kind -> operation on floats, on integers; the reductions that libtpu has across a vector.
OPERATIONS = {
    "add": ("arith.addf", "arith.addi"), "mul": ("arith.mulf", "arith.muli"), "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"), "and": (None, "arith.andi"), "or": (None, "arith.ori"),
    "xor": (None, "arith.xori"),
}  # fmt: skip
_VECTOR_KIND = {
    ("add", "f32"): "add", ("add", "i32"): "add", ("max", "f32"): "maximumf", ("min", "f32"): "minimumf",
    ("max", "i32"): "maxsi", ("min", "i32"): "minsi",
}  # fmt: skip
_NEUTRAL = {"add": 0, "mul": 1, "and": -1, "or": 0, "xor": 0}


def neutral(kind: str, element: str) -> Any:
    """The number that a reduction starts from."""
    if kind in ("max", "min"):
        least = -np.inf if element == "f32" else -(2**31)
        greatest = np.inf if element == "f32" else 2**31 - 1
        return least if kind == "max" else greatest
    return _NEUTRAL[kind]


def combined(b: Body, kind: str, x: SSA, y: SSA) -> SSA:
    name = OPERATIONS[kind][x.element != "f32"]
    return b.w.op(str(name), [x, y], x.shape, x.element)


def reduced(b: Body, kind: str, x: SSA, axis: int) -> SSA:
    """A 32-bit vector reduced along one axis, which stays with size 1."""
    assert x.shape is not None
    if x.shape[axis] == 1:
        return x
    kept = tuple(1 if d == axis else n for d, n in enumerate(x.shape))
    vector_kind = _VECTOR_KIND.get((kind, x.element))
    if vector_kind is None:
        return _halved(b, kind, x, axis)
    gone = tuple(n for d, n in enumerate(x.shape) if d != axis)
    start = b.w.constant(neutral(kind, x.element), x.element, gone)
    made = b.w.op("vector.multi_reduction", [x, start], gone, x.element,
                  f"kind = #vector.kind<{vector_kind}>, reduction_dims = array<i64: {axis}>")  # fmt: skip
    return moves.cast(b.w, made, kept)


def _halved(b: Body, kind: str, x: SSA, axis: int) -> SSA:
    while x.shape is not None and x.shape[axis] > 1:
        n = x.shape[axis]
        half = n // 2
        pair = combined(b, kind, moves.cut_axis(b.w, x, axis, 0, half), moves.cut_axis(b.w, x, axis, half, half))
        x = moves.concatenate(b.w, [pair, moves.cut_axis(b.w, x, axis, 2 * half, 1)], axis) if n % 2 else pair
    return x


def _reduce(kind: str) -> Rule:
    def rule(b: Body, xs: list[Value], out: ArrayType, axes: Sequence[int], **params: Any) -> Value:
        (x,) = xs
        v = b.vector(x)
        empty = [d for d in axes if not x.shape[d]]
        if empty:
            return b.known({"max": -np.inf, "min": np.inf}.get(kind, neutral(kind, "i32")), out)
        mask = v.element == "i1"
        how = {"and": "min", "or": "max"}.get(kind, kind) if mask else kind
        unsigned = is_unsigned(x.dtype) and how in ("max", "min")
        v = moves.as_words(b.w, v)
        v = flipped(b, v) if unsigned else v
        for d in axes:
            v = reduced(b, how, v, axis_of(len(x.shape), d))
        v = flipped(b, v) if unsigned else v
        v = moves.reshape(b.w, v, physical(out.shape))
        return b.value(out, moves.as_mask(b.w, v, "i1") if mask else v, rounded=not mask)

    return rule


# ---------------------------------------------------------------------------- prefixes


def _cumulative(kind: str) -> Rule:
    def rule(b: Body, xs: list[Value], out: ArrayType, axis: int, reverse: bool) -> Value:
        v = moves.as_words(b.w, b.vector(xs[0]))
        unsigned = is_unsigned(out.dtype) and kind in ("max", "min")
        v = flipped(b, v) if unsigned else v
        v = prefixes(b, v, axis_of(len(out.shape), axis), reverse, lambda x, y: combined(b, kind, x, y),
                     neutral(kind, v.element))  # fmt: skip
        v = flipped(b, v) if unsigned else v
        return b.value(out, moves.as_mask(b.w, v, "i1") if is_bool(out.dtype) else v)

    return rule


def prefixes(b: Body, v: SSA, axis: int, reverse: bool, combine: Callable[[SSA, SSA], SSA], start: Any) -> SSA:
    """All prefixes of a vector combined along an axis, in log2(n) steps of twice the distance each."""
    shape: Shape | None = v.shape
    assert shape is not None
    step = 1
    while step < shape[axis]:
        before, after = (-step, step) if reverse else (step, -step)
        v = combine(v, moves.pad_axis(b.w, v, axis, before, after, start))
        step *= 2
    return v


RULES: dict[Primitive, Rule] = {
    reduce_sum_p: _reduce("add"), reduce_prod_p: _reduce("mul"), reduce_max_p: _reduce("max"),
    reduce_min_p: _reduce("min"), reduce_and_p: _reduce("and"), reduce_or_p: _reduce("or"),
    reduce_xor_p: _reduce("xor"),
    cumsum_p: _cumulative("add"), cumprod_p: _cumulative("mul"), cummax_p: _cumulative("max"),
    cummin_p: _cumulative("min"),
}  # fmt: skip
