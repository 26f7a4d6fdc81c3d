"""StableHLO of the reductions; the cumulative operations are printed by their expansions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, Dtype, is_bool, is_complex, is_float
from ...core.primitives.reduction.reduce import (
    argmax_p,
    argmin_p,
    highest,
    lowest,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_p,
    reduce_prod_p,
    reduce_sum_p,
    reduce_xor_p,
)
from .elementwise import compare
from .emit import Emitter, Operand, Rule, integers

if TYPE_CHECKING:
    from ...core.ir.program import Program

Combine = Callable[[Emitter, list[Operand]], Sequence[Operand]]


def reduce(
    e: Emitter, arrays: Sequence[Operand], starts: Sequence[Operand], axes: Sequence[int], combine: Combine
) -> list[Operand]:
    """A variadic `stablehlo.reduce`; `combine` prints the body on scalars."""
    outs = [ArrayType(tuple(d for i, d in enumerate(a.shape) if i not in axes), a.dtype) for a in arrays]
    scalars = [ArrayType((), a.dtype) for a in arrays]
    region = e.region([*scalars, *scalars], lambda values: combine(e, values))
    return e.ops("stablehlo.reduce", [*arrays, *starts], outs, f"dimensions = {integers(tuple(axes))}", region)


def binary(name: str) -> Combine:
    """A body that is one operation."""
    return lambda e, values: [e.op(name, values, values[0].type)]


def _monoid(operation: str, start: Callable[[Any], Any], narrow: bool = False) -> Rule:
    """A reduction by one operation; with `narrow`, floats below 32 bits accumulate in 32."""

    def rule(e: Emitter, operands: list[Operand], out: ArrayType, axes: Sequence[int]) -> Operand:
        (x,) = operands
        if not axes:
            return x
        if narrow and is_float(x.dtype) and x.dtype.itemsize < 4:
            x = e.convert(x, np.dtype(np.float32))
        first = e.constant(start(x.dtype), ArrayType((), x.dtype))
        direction = _DIRECTIONS.get(operation)
        combine = _complex_order(direction) if direction and is_complex(x.dtype) else binary(operation)
        return e.convert(reduce(e, [x], [first], axes, combine)[0], out.dtype)

    return rule


_DIRECTIONS = {"stablehlo.maximum": "GT", "stablehlo.minimum": "LT"}


def _complex_order(direction: str) -> Combine:
    return lambda e, v: [e.op("stablehlo.select", [compare(e, direction, v[0], v[1]), v[0], v[1]], v[0].type)]


def _zero(dtype: np.dtype[Any]) -> Any:
    return np.zeros((), dtype)


def _one(dtype: np.dtype[Any]) -> Any:
    return np.ones((), dtype)


def _ones(dtype: np.dtype[Any]) -> Any:
    """All bits set."""
    return np.array(True) if is_bool(dtype) else np.array(-1).astype(dtype)


def _position(direction: str) -> Rule:
    """argmax or argmin: reduce pairs of value and index; NaN wins, then the first index."""

    def combine(e: Emitter, values: list[Operand]) -> Sequence[Operand]:
        x, i, y, j = values
        wins = compare(e, direction, x, y)
        if is_float(x.dtype):
            wins = e.op("stablehlo.or", [wins, compare(e, "NE", x, x)], wins.type)
        first = e.op("stablehlo.and", [compare(e, "EQ", x, y), compare(e, "LT", i, j)], wins.type)
        return [
            e.op("stablehlo.select", [wins, x, y], x.type),
            e.op("stablehlo.select", [e.op("stablehlo.or", [wins, first], wins.type), i, j], i.type),
        ]

    def rule(e: Emitter, operands: list[Operand], out: ArrayType, axes: Sequence[int], index_dtype: Dtype) -> Operand:
        (x,) = operands
        index = ArrayType(x.shape, out.dtype)
        counted = e.op("stablehlo.iota", [], index, f"iota_dimension = {axes[0]} : i64")
        extreme = (lowest if direction == "GT" else highest)(x.dtype)
        starts = [e.constant(extreme, ArrayType((), x.dtype)), e.constant(0, ArrayType((), out.dtype))]
        return reduce(e, [x, counted], starts, axes, combine)[1]

    return rule


def _reduce(
    e: Emitter, operands: list[Operand], outs: Sequence[ArrayType], computation: Program, dimensions: Sequence[int]
) -> list[Operand]:
    count = len(operands) // 2
    arrays, starts = operands[:count], operands[count:]
    return reduce(e, arrays, starts, dimensions, lambda e, values: e.inline(computation, values))


RULES: dict[Primitive, Rule] = {
    reduce_sum_p: _monoid("stablehlo.add", _zero, narrow=True),
    reduce_prod_p: _monoid("stablehlo.multiply", _one, narrow=True),
    reduce_max_p: _monoid("stablehlo.maximum", lowest),
    reduce_min_p: _monoid("stablehlo.minimum", highest),
    reduce_and_p: _monoid("stablehlo.and", _ones),
    reduce_or_p: _monoid("stablehlo.or", _zero),
    reduce_xor_p: _monoid("stablehlo.xor", _zero),
    argmax_p: _position("GT"),
    argmin_p: _position("LT"),
    reduce_p: _reduce,
}
