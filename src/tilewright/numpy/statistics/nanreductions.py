"""Reductions that leave nan out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax
from ...core.support.call_errors import public
from .. import reductions as r
from ..elementwise import isnan, where3
from ..util import (
    Array,
    ArrayLike,
    Axis,
    DTypeLike,
    astype,
    axes_of,
    broadcast,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_inexact,
    no_out,
    shape_of,
    value,
)

_OVER = ("axis", "dtype", "keepdims")


def _numbers(a: Array, where: Any) -> Array:
    """The mask of elements that are numbers and within the given mask."""
    valid = lax.bitwise_not(isnan(a))
    return valid if where is None else lax.bitwise_and(*broadcast([valid, r.mask_of(where)]))


@inline_jit(*_OVER)
def _nansum(a: Any, axis: Any, dtype: DTypeLike, keepdims: bool, initial: Any = None, where: Any = None) -> Array:
    a = value(a, "nansum")
    return r.sum(where3(isnan(a), np.zeros((), dtype_of(a))[()], a), axis, dtype, None, keepdims, initial, where)


@inline_jit(*_OVER)
def _nanprod(a: Any, axis: Any, dtype: DTypeLike, keepdims: bool, initial: Any = None, where: Any = None) -> Array:
    a = value(a, "nanprod")
    return r.prod(where3(isnan(a), np.ones((), dtype_of(a))[()], a), axis, dtype, None, keepdims, initial, where)


@public
def nansum(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The sum over axes, nan counting as 0.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nansum(jnp.array([1., jnp.nan])))
    1.0
    """
    no_out(out, "nansum")
    return _nansum(a, axis, dtype_argument(dtype), keepdims, initial, where)


def nanprod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The product over axes, nan counting as 1.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanprod(jnp.array([2., jnp.nan])))
    2.0
    """
    no_out(out, "nanprod")
    return _nanprod(a, axis, dtype_argument(dtype), keepdims, initial, where)


def _nan_extreme(name: str, reduce: Any, neutral: Any, combine: Any) -> Any:
    def function(a: Any, axis: Any, keepdims: bool, initial: Any = None, where: Any = None) -> Array:
        a = value(a, name)
        if not is_inexact(dtype_of(a)):
            return reduce(a, axis, None, keepdims, initial, where)
        outside = neutral(dtype_of(a))
        filled = where3(isnan(a), outside, a)
        if where is not None:
            filled = r.masked(filled, where, outside)
        result = reduce(filled, axis, None, keepdims)
        # Where every element was nan, nan is the answer.
        nothing = r.all(isnan(a), axis, keepdims=keepdims, where=where)
        result = where3(nothing, np.asarray(np.nan).astype(dtype_of(a))[()], result)
        if initial is None:
            return result
        return combine(where3(nothing, outside, result), astype(initial, dtype_of(a)))

    function.__name__ = name
    return inline_jit("axis", "keepdims")(function)


_nanmax = _nan_extreme("nanmax", r.max, r.lowest, lax.max)
_nanmin = _nan_extreme("nanmin", r.min, r.highest, lax.min)


@public
def nanmax(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The largest number over axes, nan left out.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanmax(jnp.array([1., jnp.nan])))
    1.0
    """
    no_out(out, "nanmax")
    return _nanmax(a, axis, keepdims, initial, where)


@public
def nanmin(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The smallest number over axes, nan left out.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanmin(jnp.array([1., jnp.nan])))
    1.0
    """
    no_out(out, "nanmin")
    return _nanmin(a, axis, keepdims, initial, where)


@inline_jit(*_OVER)
def _nanmean(a: Any, axis: Any, dtype: DTypeLike, keepdims: bool, where: Any = None) -> Array:
    a = value(a, "nanmean")
    if not is_inexact(dtype_of(a)):
        return r.mean(a, axis, dtype, None, keepdims, where=where)
    return r.mean(a, axis, dtype, None, keepdims, where=_numbers(a, where))


@public
def nanmean(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The mean over axes, nan left out.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanmean(jnp.array([1., jnp.nan])))
    1.0
    """
    no_out(out, "nanmean")
    return _nanmean(a, axis, dtype_argument(dtype), keepdims, where)


@inline_jit("axis", "dtype", "ddof", "keepdims")
def _nanvar(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any = None, mean: Any = None) -> Array:
    a = value(a, "nanvar")
    if not is_inexact(dtype_of(a)):
        return r.var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean)
    return r.var(a, axis, dtype, None, ddof, keepdims, where=_numbers(a, where), mean=mean)


@public
def nanvar(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    where: ArrayLike | None = None, mean: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The variance over axes, nan left out.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanvar(jnp.array([1., 3., jnp.nan])))
    1.0
    """
    no_out(out, "nanvar")
    return _nanvar(a, axis, dtype_argument(dtype), ddof, keepdims, where, mean)


@public
def nanstd(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    where: ArrayLike | None = None, mean: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The standard deviation over axes, nan left out.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanstd(jnp.array([1., 3., jnp.nan])))
    1.0
    """
    no_out(out, "nanstd")
    return lax.sqrt(_nanvar(a, axis, dtype_argument(dtype), ddof, keepdims, where, mean))


def _nan_position(name: str, reduce: Any, neutral: Any) -> Any:
    def function(a: Any, axis: Any, keepdims: bool) -> Array:
        a = value(a, name)
        if not is_inexact(dtype_of(a)):
            return reduce(a, axis, None, keepdims)
        where = reduce(where3(isnan(a), neutral(dtype_of(a)), a), axis, None, keepdims)
        nothing = r.all(isnan(a), None if axis is None else axes_of(axis, len(shape_of(a))), keepdims=keepdims)
        return where3(nothing, np.asarray(-1, dtype_of(where))[()], where)

    function.__name__ = name
    return inline_jit("axis", "keepdims")(function)


_nanargmax = _nan_position("nanargmax", r.argmax, r.lowest)
_nanargmin = _nan_position("nanargmin", r.argmin, r.highest)


@public
def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the largest number along an axis, nan left out; -1 where there is none.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.nanargmax(jnp.array([jnp.nan, 1.])))
    1
    """
    no_out(out, "nanargmax")
    return _nanargmax(a, axis, bool(keepdims))


@public
def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the smallest number along an axis, nan left out; -1 where there is none.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.nanargmin(jnp.array([jnp.nan, 1.])))
    1
    """
    no_out(out, "nanargmin")
    return _nanargmin(a, axis, bool(keepdims))


__all__ = [
    "nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar",
]  # fmt: skip
