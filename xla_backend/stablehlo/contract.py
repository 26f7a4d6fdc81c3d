"""Contractions as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.types import INT32, ArrayType, Dtype
from ...core.primitives.contraction.dot_general import Precision, accumulator, dot_general_p
from .emit import Emitter, Operand

INT8 = np.dtype(np.int8)


def precision_config(precision: tuple[Precision, Precision] | None) -> str:
    """The `precision_config` attribute of a pair of precisions (None: the default of both)."""
    pair = ("DEFAULT", "DEFAULT") if precision is None else tuple(p.name for p in precision)
    return "precision_config = [" + ", ".join(f"#stablehlo<precision {p}>" for p in pair) + "]"


def _axes(values: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def operand_dtype(e: Emitter, lhs: Dtype, rhs: Dtype, wide: Dtype) -> Any:
    """The dtype to give XLA the operands in: `wide`, in which the sums are kept, or their own.

    GPU and TPU units take narrow operands with a wide result. The CPU's fast products take one dtype
    throughout, but for bytes, which it multiplies into int32 three times faster than it does int32.
    """
    if lhs == rhs and (e.platform != "cpu" or (lhs == INT8 and wide == INT32)):
        return lhs
    return wide


def free_axes(x: Operand, contracted: Sequence[int], batch: Sequence[int]) -> list[int]:
    """The axes that a product neither contracts nor batches."""
    return [a for a in range(len(x.shape)) if a not in (*contracted, *batch)]


def product(
    e: Emitter, lhs: Operand, rhs: Operand, numbers: Any, precision: tuple[Precision, Precision] | None, wide: Dtype
) -> Operand:
    """One `stablehlo.dot_general`; `numbers` are the contracted and the batch axes of both."""
    (lc, rc), (lb, rb) = numbers
    left, right = free_axes(lhs, lc, lb), free_axes(rhs, rc, rb)
    shape = (*(lhs.shape[a] for a in (*lb, *left)), *(rhs.shape[a] for a in right))
    text = (
        f"#stablehlo.dot<lhs_batching_dimensions = {_axes(lb)}, rhs_batching_dimensions = {_axes(rb)}, "
        f"lhs_contracting_dimensions = {_axes(lc)}, rhs_contracting_dimensions = {_axes(rc)}>"
    )
    attributes = f"dot_dimension_numbers = {text}, {precision_config(precision)}"
    return e.op("stablehlo.dot_general", [lhs, rhs], ArrayType(shape, wide), attributes)


def dot_general(
    e: Emitter, operands: list[Operand], out: ArrayType, *, dimension_numbers: Any,
    precision: tuple[Precision, Precision] | None, preferred_element_type: Dtype,
) -> Operand:  # fmt: skip
    lhs, rhs = operands
    wide = accumulator(out.dtype)
    dtype = operand_dtype(e, lhs.dtype, rhs.dtype, wide)
    lhs, rhs = e.convert(lhs, dtype), e.convert(rhs, dtype)
    return e.convert(product(e, lhs, rhs, dimension_numbers, precision, wide), out.dtype)


RULES = {dot_general_p: dot_general}
