"""The functions of two operands that are objects, with NumPy's methods: `add.reduce`, `maximum.accumulate`, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import lax
from ...core.ir.array import DTypeLike
from .. import cumulative, elementwise, reductions
from ..util import Array, astype, axes_of, dtype_argument, shape_of
from .ufunc import ufunc


def _array(function: Callable[..., Any], nin: int, name: str, doc: str, **ways: Any) -> ufunc:
    """A ufunc of a function that takes arrays."""
    return ufunc(function, nin, 1, name=name, call=function, doc=doc, **ways)


def _scattered(method: str) -> Callable[..., Array]:
    """`ufunc.at` by a method of `a.at[indices]`."""
    return lambda a, indices, b: getattr(a.at[indices], method)(b)


def _extreme(reduce: Callable[..., Array]) -> Callable[..., Array]:
    """`ufunc.reduce` by a reduction that keeps dtypes."""
    return lambda a, *, dtype, **how: reduce(a if dtype is None else astype(a, dtype_argument(dtype)), **how)


def _truth(reduce: Callable[..., Array], combine: Callable[..., Array]) -> Callable[..., Array]:
    """`ufunc.reduce` by a reduction to booleans."""

    def run(a: Array, *, dtype: DTypeLike, initial: Any, **how: Any) -> Array:
        found = reduce(a, **how) if initial is None else combine(reduce(a, **how), initial)
        return found if dtype is None else astype(found, dtype_argument(dtype))

    return run


def _bits(primitive: Any, combine: Callable[..., Array], neutral: int) -> Callable[..., Array]:
    """`ufunc.reduce` by a reduction of bits."""

    def run(a: Array, *, axis: Any, dtype: DTypeLike, keepdims: bool, initial: Any, where: Any) -> Array:
        a = a if dtype is None else astype(a, dtype_argument(dtype))
        a = reductions.masked(a, where, neutral)
        axes = axes_of(axis, len(shape_of(a)))
        found = reductions.kept(primitive.bind(a, axes=axes), axes, keepdims)
        return found if initial is None else combine(found, astype(initial, a.dtype))

    return run


add: ufunc = _array(
    elementwise.add, 2, "add", "The sum of two arrays; of booleans, their disjunction.", identity=0,
    reduce=reductions.sum, accumulate=cumulative.cumsum, at=_scattered("add"),
)  # fmt: skip
multiply: ufunc = _array(
    elementwise.multiply, 2, "multiply", "The product; of booleans, their conjunction.", identity=1,
    reduce=reductions.prod, accumulate=cumulative.cumprod, at=_scattered("mul"),
)  # fmt: skip
subtract: ufunc
subtract = _array(elementwise.subtract, 2, "subtract", "The difference of two arrays.", at=_scattered("subtract"))
negative: ufunc = _array(elementwise.negative, 1, "negative", "The number with its sign changed.")
maximum: ufunc = _array(
    elementwise.maximum, 2, "maximum", "The larger of two; nan where either is nan.",
    reduce=_extreme(reductions.max), at=_scattered("max"),
)  # fmt: skip
minimum: ufunc = _array(
    elementwise.minimum, 2, "minimum", "The smaller of two; nan where either is nan.",
    reduce=_extreme(reductions.min), at=_scattered("min"),
)  # fmt: skip
bitwise_and: ufunc = _array(
    elementwise.bitwise_and, 2, "bitwise_and", "Conjunction of bits.", identity=-1,
    reduce=_bits(lax.reduce_and_p, elementwise.bitwise_and, -1),
)  # fmt: skip
bitwise_or: ufunc = _array(
    elementwise.bitwise_or, 2, "bitwise_or", "Disjunction of bits.", identity=0,
    reduce=_bits(lax.reduce_or_p, elementwise.bitwise_or, 0),
)  # fmt: skip
bitwise_xor: ufunc = _array(
    elementwise.bitwise_xor, 2, "bitwise_xor", "Exclusive or of bits.", identity=0,
    reduce=_bits(lax.reduce_xor_p, elementwise.bitwise_xor, 0),
)  # fmt: skip
logical_and: ufunc = _array(
    elementwise.logical_and, 2, "logical_and", "Whether both are true.", identity=True,
    reduce=_truth(reductions.all, elementwise.logical_and),
)  # fmt: skip
logical_or: ufunc = _array(
    elementwise.logical_or, 2, "logical_or", "Whether either is true.", identity=False,
    reduce=_truth(reductions.any, elementwise.logical_or),
)  # fmt: skip
logical_xor: ufunc = _array(elementwise.logical_xor, 2, "logical_xor", "Whether exactly one is true.", identity=False)
logaddexp: ufunc
logaddexp = _array(elementwise.logaddexp, 2, "logaddexp", "`log(exp(x) + exp(y))` without overflow.", identity=-np.inf)
logaddexp2: ufunc
logaddexp2 = _array(elementwise.logaddexp2, 2, "logaddexp2", "`log2(2**x + 2**y)` without overflow.", identity=-np.inf)

# doctest does not look for objects.
__test__: dict[str, str | None] = {f.__name__: f.__doc__ for f in list(globals().values()) if isinstance(f, ufunc)}

__all__ = [
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "logical_and", "logical_or",
    "logical_xor", "maximum", "minimum", "multiply", "negative", "subtract",
]  # fmt: skip
