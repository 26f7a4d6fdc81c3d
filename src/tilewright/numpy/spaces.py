"""Numbers spaced evenly along a line, a logarithmic one too."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import lax
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError
from . import util
from .arithmetic import power
from .create import asarray, full
from .elementwise import exp, log
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    canonical_dtype,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_evaluating,
    make_array,
    put,
    shape_of,
    value,
)


@public
def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """Evenly spaced values over an interval; bounds may be arrays, spaced along `axis`.

    >>> from tilewright import numpy as jnp
    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = operator.index(num)
    if num < 0:
        raise ArgumentError(f"linspace of num={num} values", "num is 0 or more")
    dtype = dtype_argument(dtype)
    if type(start) in (int, float) and type(stop) in (int, float) and is_evaluating():
        kind = canonical_dtype(float) if dtype is None else dtype
        data, gap = np.linspace(start, stop, num, endpoint, retstep=True)
        data = np.floor(data) if np.dtype(kind).kind in "iu" else data
        result = make_array(data.astype(kind))
        return (put(result, device), asarray(gap, dtype=canonical_dtype(float))) if retstep else put(result, device)
    result, gap = _linspace(value(start, "linspace"), value(stop, "linspace"), num, endpoint, dtype, axis)
    return (put(result, device), gap) if retstep else put(result, device)


@inline_jit("num", "endpoint", "dtype", "axis")
def _linspace(start: Any, stop: Any, num: int, endpoint: bool, dtype: DTypeLike, axis: int) -> Any:
    start, stop = util.broadcast(util.promote_dtypes_inexact(start, stop), scalars=False)
    kind = dtype_of(start)
    shape = shape_of(start)
    axis = util.axis_of(axis, len(shape) + 1)
    parts = num - 1 if endpoint else num
    if num == 0:
        return full((*shape[:axis], 0, *shape[axis:]), 0, dtype or kind), full((), np.nan, kind)
    gap = (stop - start) / parts if parts else full((), np.nan, kind)
    low, high = lax.expand_dims(start, (axis,)), lax.expand_dims(stop, (axis,))
    sizes = [1] * (len(shape) + 1)
    sizes[axis] = num
    t = lax.reshape(lax.iota(kind, num), tuple(sizes)) / max(parts, 1)
    result = low * (1 - t) + high * t
    if endpoint and num > 1:  # the last value is the bound itself, not a rounding of it
        last = lax.broadcasted_iota(np.dtype(np.int32), shape_of(result), axis) == num - 1
        result = lax.select(last, util.broadcast_to_shape(high, shape_of(result)), result)
    if dtype is not None and dtype != kind:
        result = util.astype(lax.floor(result) if np.dtype(dtype).kind in "iu" else result, dtype)
    return result, util.strong(gap)


@inline_jit("num", "endpoint", "dtype", "axis")
def logspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
    dtype: DTypeLike = None, axis: int = 0,
) -> Array:  # fmt: skip
    """Values evenly spaced on a logarithmic scale: powers of `base` from `start` to `stop`.

    >>> from tilewright import numpy as jnp
    >>> jnp.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """

    result = power(base, linspace(start, stop, num, endpoint, axis=axis))
    return result if dtype is None else util.astype(result, dtype_argument(dtype))


@inline_jit("num", "endpoint", "dtype", "axis")
def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike = None, axis: int = 0
) -> Array:
    """Values evenly spaced on a logarithmic scale, the bounds given themselves.

    >>> from tilewright import numpy as jnp
    >>> jnp.geomspace(1, 16, 5).round(3)
    Array([ 1.,  2.,  4.,  8., 16.], dtype=float32)
    """

    start, stop = util.broadcast(util.promote_dtypes_inexact(start, stop), scalars=False)
    sign = lax.sign(start)
    result = exp(linspace(log(start / sign), log(stop / sign), num, endpoint, axis=axis))
    result = result * lax.expand_dims(sign, (util.axis_of(axis, len(shape_of(sign)) + 1),))
    return result if dtype is None else util.astype(result, dtype_argument(dtype))


__all__ = [
    "geomspace", "linspace", "logspace",
]  # fmt: skip
