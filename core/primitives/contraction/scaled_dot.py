"""Products of operands that carry a scale for each block along the contracted axis."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike, Operand
from ...ir.types import as_dtype, bfloat16, canonical_dtype, is_float
from ...support.errors import ShapeError
from ...tracing.array_conversion import as_array
from ...tracing.trace import dtype_of, shape_of
from ..elementwise.arithmetic import mul_p
from ..elementwise.conversion import convert_element_type
from ..movement.shape import broadcast_in_dim, reshape
from .dot_general import canonical_dimension_numbers, dot_general


def exact_dtype(*operands: tuple[Any, Any]) -> np.dtype[Any]:
    """The dtype in which elements times their scales are multiplied: bfloat16 where it holds each of them exactly."""

    def digits(x: Operand) -> int:
        return int(ml_dtypes.finfo(dtype).nmant) + 1 if is_float(dtype := dtype_of(x)) and dtype.itemsize == 1 else 9

    exact = all(digits(x) + (0 if scale is None else digits(scale)) <= 8 for x, scale in operands)
    return bfloat16 if exact else np.dtype(np.float32)


def unscaled(x: ArrayLike, scale: ArrayLike | None, dtype: DTypeLike) -> Any:
    """The values of an operand times its scales, each of which holds for a block of elements along every axis."""
    x = convert_element_type(x, dtype)
    if scale is None:
        return x
    shape, blocks = shape_of(x), shape_of(scale)
    if len(shape) != len(blocks) or any(m == 0 or n % m for n, m in zip(shape, blocks, strict=True)):
        raise ShapeError(f"scales of shape {blocks} for an operand of shape {shape}", "one scale for each full block")
    split = tuple(size for n, m in zip(shape, blocks, strict=True) for size in (m, n // m))
    spread = broadcast_in_dim(convert_element_type(scale, dtype), split, tuple(range(0, len(split), 2)))
    return mul_p.bind(x, reshape(spread, shape))


def scaled_dot(
    lhs: ArrayLike, rhs: ArrayLike, *, lhs_scale: ArrayLike | None = None, rhs_scale: Any = None,
    dimension_numbers: Any = None, preferred_element_type: DTypeLike = None,
) -> Array:  # fmt: skip
    """`dot_general` of operands times their scales: (lhs * lhs_scale) @ (rhs * rhs_scale).

    A scale has the rank of its operand, and along the contracted axis one element for each block of equal size. By
    default matrices are multiplied, with a batch axis before where there are three. The result, by default bfloat16, is
    summed in float32. Raises `ShapeError` where scales do not fit.

    >>> import numpy as np
    >>> x = np.ones((1, 4), np.float32)
    >>> scaled_dot(x, x.T, lhs_scale=np.array([[1, 2]], np.float32)).tolist()
    [[6.0]]
    """
    lhs, rhs = as_array(lhs), as_array(rhs)
    rank = len(shape_of(lhs))
    if dimension_numbers is None:
        if rank not in (2, 3) or len(shape_of(rhs)) != rank:
            raise ShapeError(f"scaled_dot of shapes {shape_of(lhs)} and {shape_of(rhs)}", "pass dimension_numbers")
        dimension_numbers = (((rank - 1,), (rank - 2,)), ((0,), (0,)) if rank == 3 else ((), ()))
    numbers = canonical_dimension_numbers(dimension_numbers, rank, len(shape_of(rhs)))
    out = bfloat16 if preferred_element_type is None else canonical_dtype(as_dtype(preferred_element_type))
    wide = max(out.itemsize, dtype_of(lhs).itemsize, dtype_of(rhs).itemsize) > 4
    work = out if wide else exact_dtype((lhs, lhs_scale), (rhs, rhs_scale))
    operands = unscaled(lhs, lhs_scale, work), unscaled(rhs, rhs_scale, work)
    product = dot_general(*operands, numbers, preferred_element_type=work if wide else np.dtype(np.float32))
    return convert_element_type(product, out)
