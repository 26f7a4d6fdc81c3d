"""Products on the CPU with a column-major left matrix, in the form that XLA:CPU multiplies fastest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.ir.types import FLOAT32, ArrayType, Dtype
from ...core.primitives.contraction.dot_general import Precision, accumulator, dot_general_p
from ..cpu_passes.options import LONG_COLUMNS, WIDER
from .contract import dot_general as as_written
from .contract import free_axes, operand_dtype, product
from .emit import Emitter, Operand, integers


def dot_general(
    e: Emitter, operands: list[Operand], out: ArrayType, *, dimension_numbers: Any,
    precision: tuple[Precision, Precision] | None, preferred_element_type: Dtype,
) -> Operand:  # fmt: skip
    if e.meshes is not None and not e.within_mesh:  # devices would be sent the transpose too, of what they have
        return as_written(e, operands, out, dimension_numbers=dimension_numbers, precision=precision,
                          preferred_element_type=preferred_element_type)  # fmt: skip
    lhs, rhs = operands
    lhs, dimension_numbers = _before_transpose(e, lhs, dimension_numbers)
    wide = accumulator(out.dtype)
    dtype = operand_dtype(e, lhs.dtype, rhs.dtype, wide)
    lhs, rhs = e.convert(lhs, dtype), e.convert(rhs, dtype)
    made = _by_rows if _columns_first(lhs, dimension_numbers) else product
    return e.convert(made(e, lhs, rhs, dimension_numbers, precision, wide), out.dtype)


def _columns_first(lhs: Operand, numbers: Any) -> bool:
    """Whether the left one of the matrices of a product would be read by columns on the CPU.

    XLA:CPU's own products take the left one by rows; it gives this form to Eigen and oneDNN, which take up to three
    times as long, and 30 ms more in the process's first one, for which oneDNN generates its code. A matrix of few and
    very long columns stays theirs: it takes as long to transpose as to multiply.
    """
    (lc, _), (lb, _) = numbers
    first, kept = tuple(range(len(lb) + len(lc))), lhs.shape[len(lb) + len(lc) :]
    if lhs.dtype != FLOAT32 or (*lb, *lc) != first or not lc or not kept:
        return False
    return math.prod(lhs.shape[a] for a in lc) <= LONG_COLUMNS * math.prod(kept)


def _before_transpose(e: Emitter, lhs: Operand, numbers: Any) -> tuple[Operand, Any]:
    """The operand of which `lhs` is the transpose, if that is then read by columns, with the numbers of its axes."""
    (lc, rc), (lb, rb) = numbers
    if lhs.name in e.transposes:
        source, order = e.transposes[lhs.name]
        free = [order[a] for a in free_axes(lhs, lc, lb)]
        moved = (tuple(order[a] for a in lc), rc), (tuple(order[a] for a in lb), rb)
        if free == sorted(free) and _columns_first(source, moved):
            return source, moved
    return lhs, numbers


def _by_rows(
    e: Emitter, lhs: Operand, rhs: Operand, numbers: Any, precision: tuple[Precision, Precision] | None, wide: Dtype
) -> Operand:
    """Such a product with the left matrix transposed before it; or, where it is the larger, taken as the right one."""
    (lc, rc), (lb, rb) = numbers
    batch, contracted, free = range(len(lb)), len(lc), free_axes(rhs, rc, rb)
    kept = range(len(lb) + contracted, len(lhs.shape))
    if math.prod(lhs.shape[a] for a in kept) < WIDER * math.prod(rhs.shape[a] for a in free):
        shape = (*(lhs.shape[a] for a in (*batch, *kept)), *(rhs.shape[a] for a in free))
        if tuple(rc) == tuple(range(rc[0], rc[0] + contracted)):  # one axis each, so that one pass transposes
            sizes = [math.prod(lhs.shape[a] for a in axes) for axes in (lc, kept)]
            lhs = e.reshape(lhs, (*lhs.shape[: len(lb)], *sizes))
            rhs = e.reshape(rhs, (*rhs.shape[: rc[0]], sizes[0], *rhs.shape[rc[0] + contracted :]))
            rb = tuple(a - (contracted - 1) * (a > rc[0]) for a in rb)
            lc, rc, kept = (len(lb),), rc[:1], range(len(lb) + 1, len(lb) + 2)
        rows = _kept(e, _transposed(e, lhs, (*batch, *kept, *lc)))
        moved = tuple(range(len(lb) + len(kept), len(lhs.shape)))
        return e.reshape(product(e, rows, rhs, ((moved, rc), (lb, rb)), precision, wide), shape)
    rows = _kept(e, _transposed(e, rhs, (*rb, *free, *rc)))
    moved = tuple(range(len(lb) + len(free), len(rhs.shape)))
    swapped = precision and (precision[1], precision[0])
    out = _kept(e, product(e, rows, lhs, ((moved, lc), (lb, lb)), swapped, wide))
    at = len(lb) + len(free)
    return _transposed(e, out, (*batch, *range(at, len(out.shape)), *range(len(lb), at)))


def _kept(e: Emitter, x: Operand) -> Operand:
    """A value that XLA keeps, by rows, and does not fold into the product that it comes from or goes to."""
    layout = f"[dense<{[*reversed(range(len(x.shape)))]}> : tensor<{len(x.shape)}xindex>]"
    attributes = f'call_target_name = "LayoutConstraint", operand_layouts = {layout}, result_layouts = {layout}'
    return e.op("stablehlo.custom_call", [x], x.type, attributes)


def _transposed(e: Emitter, x: Operand, axes: Sequence[int]) -> Operand:
    out = ArrayType([x.shape[a] for a in axes], x.dtype)
    return e.op("stablehlo.transpose", [x], out, f"permutation = {integers(axes)}")


RULES = {dot_general_p: dot_general}
