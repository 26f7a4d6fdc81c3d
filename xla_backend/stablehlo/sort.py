"""StableHLO of sorts and top_k."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import BOOL, FLOAT32, FLOAT64, INT32, ArrayType, is_complex, is_float
from ...core.primitives.movement.sort import sort_p, top_k_p
from .emit import Emitter, Operand, integers

_BOOL = ArrayType((), BOOL)


def _compare(e: Emitter, direction: str, x: Operand, y: Operand) -> Operand:
    attributes = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
    if is_float(x.dtype):
        attributes += ", compare_type = #stablehlo<comparison_type TOTALORDER>"
    return e.op("stablehlo.compare", [x, y], _BOOL, attributes)


def _canonical(e: Emitter, x: Operand) -> Operand:
    """A float whose total order has one zero, and all NaNs last."""
    equal = "comparison_direction = #stablehlo<comparison_direction {}>"
    zero, nan = e.constant(0, x.type), e.constant(np.nan, x.type)
    is_zero = e.op("stablehlo.compare", [x, zero], _BOOL, equal.format("EQ"))
    x = e.op("stablehlo.select", [is_zero, zero, x], x.type)
    is_nan = e.op("stablehlo.compare", [x, x], _BOOL, equal.format("NE"))
    return e.op("stablehlo.select", [is_nan, nan, x], x.type)


def _parts(e: Emitter, x: Operand) -> list[Operand]:
    """The scalars that decide the order of `x`, the most important first."""
    if is_complex(x.dtype):
        real = ArrayType((), FLOAT32 if str(x.dtype) == "complex64" else FLOAT64)
        return [_canonical(e, e.op(f"stablehlo.{part}", [x], real)) for part in ("real", "imag")]
    return [_canonical(e, x)] if is_float(x.dtype) else [x]


def _less(e: Emitter, arguments: list[Operand], num_keys: int) -> list[Operand]:
    pairs = [
        pair for i in range(num_keys)
        for pair in zip(_parts(e, arguments[2 * i]), _parts(e, arguments[2 * i + 1]), strict=True)
    ]  # fmt: skip
    *rest, (x, y) = pairs
    result = _compare(e, "LT", x, y)
    for x, y in reversed(rest):
        tie = e.op("stablehlo.and", [_compare(e, "EQ", x, y), result], _BOOL)
        result = e.op("stablehlo.or", [_compare(e, "LT", x, y), tie], _BOOL)
    return [result]


def _sort(
    e: Emitter, operands: list[Operand], outs: list[Any], *, dimension: int, is_stable: bool, num_keys: int
) -> list[Operand]:
    scalars = [ArrayType((), o.dtype) for o in operands for _ in range(2)]
    region = e.region(scalars, lambda arguments: _less(e, arguments, num_keys))
    attributes = f"dimension = {dimension} : i64, is_stable = {str(is_stable).lower()}"
    return e.ops("stablehlo.sort", operands, outs, attributes, region)


def _top_k(e: Emitter, operands: list[Operand], outs: list[Any], *, k: int, axis: int) -> list[Operand]:
    (x,) = operands
    order = [i for i in range(len(x.shape)) if i != axis] + [axis]
    last = len(order) - 1
    if 0 in outs[0].shape:
        return [e.constant(np.zeros(o.shape), o) for o in outs]
    if axis != last:
        moved = ArrayType(tuple(x.shape[i] for i in order), x.dtype)
        x = e.op("stablehlo.transpose", [x], moved, f"permutation = {integers(order)}")
    shape = (*x.shape[:-1], k)
    results = e.ops("chlo.top_k", [x], [ArrayType(shape, x.dtype), ArrayType(shape, INT32)], f"k = {k} : i64")
    if axis == last:
        return results
    back = sorted(range(len(order)), key=order.__getitem__)
    return [
        e.op("stablehlo.transpose", [r], out, f"permutation = {integers(back)}")
        for r, out in zip(results, outs, strict=True)
    ]


RULES: dict[Primitive, Any] = {sort_p: _sort, top_k_p: _top_k}
