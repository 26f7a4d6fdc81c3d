"""Contractions as StableHLO."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.primitives.contract import accumulator
from ...core.types import FLOAT32, INT32, ArrayType
from .emit import Emitter, Operand

INT8 = np.dtype(np.int8)


def precision_config(precision: Any) -> str:
    """The `precision_config` attribute of a pair of precisions (None: the default of both)."""
    pair = ("DEFAULT", "DEFAULT") if precision is None else tuple(p.name for p in precision)
    return "precision_config = [" + ", ".join(f"#stablehlo<precision {p}>" for p in pair) + "]"


def _axes(values: Any) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def operand_dtype(e: Emitter, lhs: Any, rhs: Any, wide: Any) -> Any:
    """The dtype to give XLA the operands in: `wide`, in which the sums are kept, or their own.

    GPU and TPU units take narrow operands with a wide result. The CPU's fast products take one dtype
    throughout, but for bytes, which it multiplies into int32 three times faster than it does int32.
    """
    if lhs == rhs and (e.platform != "cpu" or (lhs == INT8 and wide == INT32)):
        return lhs
    return wide


def _transposed(e: Emitter, lhs: Operand, contracted: Any, batch: Any) -> bool:
    """Whether XLA:CPU would give this product to oneDNN, which generates its code at the process's first one (30 ms).

    Its own products take rows as they lie in memory. They are as fast with the transpose, done before them.
    """
    return e.platform == "cpu" and lhs.dtype == FLOAT32 and len(lhs.shape) == 2 and tuple(contracted) == (0,)


def _transpose(e: Emitter, x: Operand) -> Operand:
    """A transpose that XLA keeps out of the product that uses it."""
    out = ArrayType(x.shape[::-1], x.dtype)
    x = e.op("stablehlo.transpose", [x], out, "permutation = array<i64: 1, 0>")
    return e.op("stablehlo.optimization_barrier", [x], out)


def dot_general(
    e: Emitter, operands: list[Operand], out: ArrayType, *, dimension_numbers: Any, precision: Any,
    preferred_element_type: Any,
) -> Operand:  # fmt: skip
    (lc, rc), (lb, rb) = dimension_numbers
    lhs, rhs = operands
    wide = accumulator(out.dtype)
    dtype = operand_dtype(e, lhs.dtype, rhs.dtype, wide)
    lhs, rhs = e.convert(lhs, dtype), e.convert(rhs, dtype)
    if _transposed(e, lhs, lc, lb):
        lhs, lc = _transpose(e, lhs), (1,)
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {_axes(lb)}, rhs_batching_dimensions = {_axes(rb)}, "
        f"lhs_contracting_dimensions = {_axes(lc)}, rhs_contracting_dimensions = {_axes(rc)}>"
    )
    attributes = f"dot_dimension_numbers = {numbers}, {precision_config(precision)}"
    return e.convert(e.op("stablehlo.dot_general", [lhs, rhs], ArrayType(out.shape, wide), attributes), out.dtype)


RULES = {"dot_general": dot_general}
