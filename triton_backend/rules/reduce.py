"""Reductions and scans along axes: `tt.reduce` and `tt.scan`, with padding that changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import BOOL, INT32, ArrayType, is_bool, is_float
from ...core.primitives.elementwise.arithmetic import add_p, log_p, max_p, min_p, mul_p
from ...core.primitives.elementwise.bitwise import and_p, or_p, xor_p
from ...core.primitives.reduction.reduce import (
    argmax_p,
    argmin_p,
    highest,
    lowest,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_sum_p,
    reduce_xor_p,
)
from ...core.primitives.special.cumulative import cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p
from ..builders import compare, convert, guarded, lanes, select, spread, valid, wide
from ..text import Value
from .elementwise import RULES as ELEMENTWISE
from .elementwise import Rule

if TYPE_CHECKING:
    from ..lower import Lowering

Combine = Callable[[Any, Value, Value], Value]


def by(primitive: Primitive) -> Combine:
    """Two elements combined as an elementwise primitive does."""
    return lambda e, a, b: ELEMENTWISE[primitive](e, [a, b], ArrayType((), a.dtype))


def _log_add_exp(e: Lowering, a: Value, b: Value) -> Value:
    """max + log(exp(a - max) + exp(b - max)), the maximum left out where it is infinite."""
    p, scalar = e.p, ArrayType((), a.dtype)
    top = p.same("arith.maximumf", a, b)
    size = p.same("math.absf", top)
    finite = compare(p, "lt", size, p.constant(math.inf, a.dtype))
    shift = select(p, finite, top, p.constant(0.0, a.dtype))
    parts = [p.same("math.exp", p.same("arith.subf", x, shift)) for x in (a, b)]
    total = p.same("arith.addf", *parts)
    return p.same("arith.addf", ELEMENTWISE[log_p](e, [total], scalar), shift)


def _all_ones(dtype: np.dtype[Any]) -> Any:
    return np.invert(np.zeros((), dtype))


class Monoid(NamedTuple):
    """What combines two elements, and the number of a dtype that changes nothing."""

    combine: Combine
    neutral: Callable[[Any], Any]


SUM, PROD = Monoid(by(add_p), lambda dtype: 0), Monoid(by(mul_p), lambda dtype: 1)
MAX, MIN = Monoid(by(max_p), lowest), Monoid(by(min_p), highest)
AND, OR, XOR = Monoid(by(and_p), _all_ones), Monoid(by(or_p), lambda dtype: 0), Monoid(by(xor_p), lambda dtype: 0)
LOG_SUM_EXP = Monoid(_log_add_exp, lambda dtype: -math.inf)


def reduced(e: Lowering, x: Value, axis: int, monoid: Monoid) -> Value:
    """One axis combined."""
    combine, neutral = monoid
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    x = guarded(e.p, x, neutral(x.dtype), (axis,))
    if not x.shape[axis]:
        return e.p.constant(neutral(x.dtype), x.dtype, shape)
    return e.p.combine("tt.reduce", [x], shape, f"axis = {axis} : i32", lambda a, b: [combine(e, a, b)])[0]


def _reduce(monoid: Monoid) -> Rule:
    def rule(e: Lowering, operands: Sequence[Value], out: ArrayType, axes: Sequence[int]) -> Value:
        x = wide(e.p, operands[0])
        for axis in sorted(axes, reverse=True):
            x = reduced(e, x, axis, monoid)
        return convert(e.p, x, out.dtype)

    return rule


def _cumulative(monoid: Monoid) -> Rule:
    def rule(e: Lowering, operands: Sequence[Value], out: ArrayType, axis: int, reverse: bool) -> Value:
        combine, neutral = monoid
        x = wide(e.p, operands[0])
        x = guarded(e.p, x, neutral(x.dtype), (axis,))
        if 0 in x.shape:
            return convert(e.p, x, out.dtype)
        attributes = f"axis = {axis} : i32, reverse = {str(reverse).lower()}"
        (found,) = e.p.combine("tt.scan", [x], x.shape, attributes, lambda a, b: [combine(e, a, b)])
        return convert(e.p, found, out.dtype)

    return rule


def _position(better: str) -> Rule:
    """The place of the first extremum, or of the first NaN, along an axis."""

    def rule(e: Lowering, operands: Sequence[Value], out: ArrayType, axes: Sequence[int], index_dtype: Any) -> Value:
        p, (axis,) = e.p, axes
        x = wide(p, operands[0])
        x = convert(p, x, INT32) if is_bool(x.dtype) else x
        places = spread(p, lanes(p, x.shape[axis], axis, len(x.shape)), x.shape)
        count = p.constant(np.iinfo(np.int32).max, INT32)
        places = places if not _padded(x, axis) else select(p, _exists(e, x, axis), places, count)
        x = guarded(p, x, (lowest if better == "gt" else highest)(x.dtype), (axis,))

        def combine(a: Value, i: Value, b: Value, j: Value) -> list[Value]:
            wins, ties = compare(p, better, a, b), compare(p, "eq", a, b)
            if is_float(a.dtype):
                a_nan, b_nan = compare(p, "ne", a, a), compare(p, "ne", b, b)
                not_b = p.same("arith.xori", b_nan, p.constant(True, BOOL))
                wins = p.same("arith.ori", wins, p.same("arith.andi", a_nan, not_b))
                ties = p.same("arith.ori", ties, p.same("arith.andi", a_nan, b_nan))
            first = p.same("arith.ori", wins, p.same("arith.andi", ties, compare(p, "lt", i, j)))
            return [select(p, first, a, b), select(p, first, i, j)]

        shape = out.shape
        found = p.combine("tt.reduce", [x, places], shape, f"axis = {axis} : i32", combine)[1]
        return convert(p, found, index_dtype)

    return rule


def _padded(x: Value, axis: int) -> bool:
    return x.padded[axis] != x.shape[axis]


def _exists(e: Lowering, x: Value, axis: int) -> Value:
    found = valid(e.p, x.shape, (axis,))
    assert found is not None
    return found


RULES: dict[Primitive, Rule] = {
    reduce_sum_p: _reduce(SUM), reduce_prod_p: _reduce(PROD), reduce_max_p: _reduce(MAX), reduce_min_p: _reduce(MIN),
    reduce_and_p: _reduce(AND), reduce_or_p: _reduce(OR), reduce_xor_p: _reduce(XOR), cumsum_p: _cumulative(SUM),
    cumprod_p: _cumulative(PROD), cummax_p: _cumulative(MAX), cummin_p: _cumulative(MIN),
    cumlogsumexp_p: _cumulative(LOG_SUM_EXP), argmax_p: _position("gt"), argmin_p: _position("lt"),
}  # fmt: skip
