"""Running sums and products along an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import lax
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError
from .elementwise import isnan, where3
from .reductions import sum_dtype, summands
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    astype,
    axis_of,
    dtype_argument,
    dtype_of,
    inline_jit,
    no_out,
    shape_of,
    strong,
    value,
)


def _running_dtype(dtype: DTypeLike) -> Any:
    """The dtype of a running sum: that of the array, the default integer for booleans."""
    return sum_dtype(dtype, False)


def _running(primitive: Any, neutral: int, skip_nan: bool) -> Any:
    def scan(a: Any, axis: Any = None, dtype: DTypeLike = None, include_initial: bool = False) -> Array:
        a = value(a)
        if axis is None or not shape_of(a):
            axis_of(axis or 0, 1)
            a = lax.reshape(a, (math.prod(shape_of(a)),))
            axis = 0
        number = axis_of(axis, len(shape_of(a)))
        result = _running_dtype(dtype_of(a)) if dtype is None else dtype
        if skip_nan:
            a = where3(isnan(a), np.asarray(neutral).astype(dtype_of(a))[()], a)
        a = primitive.bind(summands(a, result), axis=number, reverse=False)
        if include_initial:
            config = [(0, 0, 0)] * len(shape_of(a))
            config[number] = (1, 0, 0)
            a = lax.pad(a, np.asarray(neutral).astype(dtype_of(a))[()], config)
        return strong(astype(a, result))

    scan.__name__ = primitive.name
    return inline_jit("axis", "dtype", "include_initial")(scan)


_cumsum, _cumprod = _running(lax.cumsum_p, 0, False), _running(lax.cumprod_p, 1, False)
_nancumsum, _nancumprod = _running(lax.cumsum_p, 0, True), _running(lax.cumprod_p, 1, True)


@public
def cumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The running sum along an axis, or of the array laid flat.

    >>> from tilewright import numpy as jnp
    >>> jnp.cumsum(jnp.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    no_out(out, "cumsum")
    return _cumsum(a, axis, dtype_argument(dtype))


@public
def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The running product along an axis, or of the array laid flat.

    >>> from tilewright import numpy as jnp
    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    no_out(out, "cumprod")
    return _cumprod(a, axis, dtype_argument(dtype))


def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The running sum along an axis, nan counting as 0.

    >>> from tilewright import numpy as jnp
    >>> jnp.nancumsum(jnp.array([1., jnp.nan, 2.]))
    Array([1., 1., 3.], dtype=float32)
    """
    no_out(out, "nancumsum")
    return _nancumsum(a, axis, dtype_argument(dtype))


def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The running product along an axis, nan counting as 1.

    >>> from tilewright import numpy as jnp
    >>> jnp.nancumprod(jnp.array([2., jnp.nan, 2.]))
    Array([2., 2., 4.], dtype=float32)
    """
    no_out(out, "nancumprod")
    return _nancumprod(a, axis, dtype_argument(dtype))


def _only_axis(x: Any, axis: int | None, name: str) -> int:
    if axis is None:
        if len(shape_of(x)) != 1:
            raise ArgumentError(f"{name} of an array of shape {shape_of(x)} without an axis", "name the axis")
        return 0
    return axis


@public
def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """The running sum, which may start with 0; that of small integers is of the default integer type.

    >>> from tilewright import numpy as jnp
    >>> jnp.cumulative_sum(jnp.array([1, 2]), include_initial=True)
    Array([0, 1, 3], dtype=int32)
    """
    dtype = sum_dtype(dtype_of(x)) if dtype is None else dtype_argument(dtype)
    return _cumsum(x, _only_axis(x, axis, "cumulative_sum"), dtype, include_initial)


@public
def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """The running product, which may start with 1; that of small integers is of the default integer type.

    >>> from tilewright import numpy as jnp
    >>> jnp.cumulative_prod(jnp.array([2, 3]), include_initial=True)
    Array([1, 2, 6], dtype=int32)
    """
    dtype = sum_dtype(dtype_of(x)) if dtype is None else dtype_argument(dtype)
    return _cumprod(x, _only_axis(x, axis, "cumulative_prod"), dtype, include_initial)


__all__ = [
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum",
]  # fmt: skip
