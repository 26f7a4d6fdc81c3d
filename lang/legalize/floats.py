"""What the rewrites of functions of floats share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike, DTypeLike
from ...core.ir.types import is_float
from ...core.primitives.elementwise.comparison import select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.tracing.trace import shape_of, typeof
from ...core.transforms.structural_primitives import spread

FLOAT32 = np.dtype(np.float32)


def dtype_of(x: Any) -> Any:
    return typeof(x).dtype


def wide_dtype(dtype: DTypeLike) -> Any:
    """The dtype in which numbers of a dtype are computed with: float32 at least."""
    return FLOAT32 if is_float(dtype) and dtype.itemsize < 4 else dtype


def wide(x: ArrayLike) -> Any:
    """A float that is computed with in float32 at least."""
    return convert_element_type(x, wide_dtype(dtype_of(x)))


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats of one shape and 32 bits at least, for any shapes that broadcast and any float dtype."""

    def rewrite(*xs: Any) -> Any:
        shape = np.broadcast_shapes(*map(shape_of, xs))
        return convert_element_type(function(*(spread(wide(x), shape) for x in xs)), dtype_of(xs[0]))

    return rewrite


def where(condition: ArrayLike, yes: ArrayLike, no: ArrayLike) -> Any:
    """`yes` where the condition holds, else `no`; one of them may be a Python float."""
    shape = shape_of(condition)
    dtype = next((dtype_of(x) for x in (yes, no) if not isinstance(x, float)), FLOAT32)
    yes, no = (spread(np.asarray(x, dtype)[()] if isinstance(x, float) else x, shape) for x in (yes, no))
    return select_n_p.bind(condition, no, yes)


def polynomial(x: ArrayLike, coefficients: Sequence[float]) -> Any:
    """Horner's rule; the coefficient of the highest power first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total
