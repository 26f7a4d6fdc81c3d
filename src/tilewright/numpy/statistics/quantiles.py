"""Order statistics: median, quantile, percentile, with and without nan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import lax
from ...core.ir.array import DTypeLike
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError
from ..arithmetic import clip
from ..elementwise import isnan, where3
from ..index import take_along_axis
from ..reductions import any as any_of
from ..shape import moveaxis
from ..sorting import argsort, sort
from ..util import (
    Array,
    ArrayLike,
    Axis,
    astype,
    axes_of,
    broadcast,
    dtype_of,
    inline_jit,
    is_complex,
    no_out,
    promote_dtypes_inexact,
    shape_of,
    value,
)

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _laid_out(a: Array, axis: Any) -> tuple[Array, tuple[int, ...]]:
    """The array with the axes to reduce laid flat at its end."""
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    a = moveaxis(a, axes, range(len(shape) - len(axes), len(shape)))
    rest = tuple(n for d, n in enumerate(shape) if d not in axes)
    return lax.reshape(a, (*rest, math.prod(shape[d] for d in axes))), axes


@inline_jit("axis", "method", "keepdims", "skip_nan")
def _quantile(a: Any, q: Any, axis: Any, method: str, keepdims: bool, skip_nan: bool, weights: Any = None) -> Array:
    a, *weighing = promote_dtypes_inexact(value(a, "quantile"), *(() if weights is None else (value(weights),)))
    q, weights = value(q, "q of quantile"), weighing[0] if weighing else None
    dtype = dtype_of(a)
    if is_complex(dtype) or is_complex(dtype_of(q)):
        raise ArgumentError("quantiles of complex numbers", "take the real or imaginary part")
    if len(shape_of(q)) > 1:
        raise ArgumentError(f"q of shape {shape_of(q)}", "pass a number or a vector")
    work = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    a, q = astype(a, work), astype(q, work)
    rank = len(shape_of(a))
    flat, axes = _laid_out(a, axis)
    if weights is not None:
        if method != "inverted_cdf":
            raise ArgumentError(f"weights with method {method!r}", "weights belong to method='inverted_cdf'")
        weights = _laid_out_weights(weights, a, axes, work)
    if not shape_of(flat)[-1]:
        flat, weights = lax.full((*shape_of(flat)[:-1], 1), np.nan, work), None  # of no elements: NaN
    result = (
        _weighted(flat, q, weights, skip_nan) if method == "inverted_cdf" else _interpolated(flat, q, method, skip_nan)
    )
    if keepdims:
        lead = len(shape_of(q))
        result = lax.expand_dims(result, tuple(lead + d for d in sorted(axes)))
        assert len(shape_of(result)) == rank + lead
    return astype(result, dtype)


def _laid_out_weights(weights: Any, a: Array, axes: tuple[int, ...], dtype: DTypeLike) -> Array:
    weights = astype(value(weights), dtype)
    if shape_of(weights) != shape_of(a):
        if shape_of(weights) != tuple(shape_of(a)[d] for d in axes):
            raise ArgumentError(f"weights of shape {shape_of(weights)} for shape {shape_of(a)}", "they must agree")
        weights = lax.broadcast_in_dim(weights, shape_of(a), axes)
    return _laid_out(weights, axes)[0]


def _bounds(flat: Array, skip_nan: bool) -> tuple[Array, Array]:
    """The sorted elements, nan everywhere in a row that has one unless they are skipped; and how many count."""
    n, rank = shape_of(flat)[-1], len(shape_of(flat))
    if skip_nan:
        count = lax.reduce_sum(astype(lax.bitwise_not(isnan(flat)), dtype_of(flat)), (rank - 1,))
    else:
        flat = where3(any_of(isnan(flat), -1, keepdims=True), np.asarray(np.nan, dtype_of(flat))[()], flat)
        count = lax.full(shape_of(flat)[:-1], n, dtype_of(flat))
    return sort(flat, -1), count


def _interpolated(flat: Array, q: Array, method: str, skip_nan: bool) -> Array:
    ordered, count = _bounds(flat, skip_nan)
    lead = len(shape_of(q))
    rest = shape_of(count)
    # Position of each quantile in each row, with the axis of q last.
    at = lax.reshape(q, (1,) * len(rest) + (shape_of(q) or (1,)))
    place = at * (lax.expand_dims(count, (len(rest),)) - 1)
    low, high = lax.floor(place), lax.ceil(place)
    weight = place - low
    last = shape_of(ordered)[-1] - 1
    below, above = (
        take_along_axis(ordered, astype(clip(p, 0, last), np.dtype(np.int32)), -1, "clip") for p in (low, high)
    )
    result = {
        "linear": lambda: below * (1 - weight) + above * weight,
        "lower": lambda: below,
        "higher": lambda: above,
        "midpoint": lambda: (below + above) * 0.5,
        "nearest": lambda: where3(_nearer_above(weight, low), above, below),
    }
    if method not in result:
        raise ArgumentError(f"there is no method {method!r} of quantile", f"one of {METHODS}")
    value_at = result[method]()
    if skip_nan:
        value_at = where3(
            lax.expand_dims(lax.eq(count, 0), (len(rest),)), np.asarray(np.nan, dtype_of(flat))[()], value_at
        )
    return moveaxis(value_at, -1, 0) if lead else lax.squeeze(value_at, (len(rest),))


def _nearer_above(weight: Array, low: Array) -> Array:
    """Whether the upper neighbour is nearer; half way, whether it is the even one."""
    odd = lax.ne(lax.rem(low, 2), 0)
    return lax.bitwise_or(lax.gt(weight, 0.5), lax.bitwise_and(lax.eq(weight, 0.5), odd))


def _weighted(flat: Array, q: Array, weights: Array | None, skip_nan: bool) -> Array:
    """The first element at which the weight of all up to it reaches a share q of the total."""
    lead, rank = len(shape_of(q)), len(shape_of(flat))
    if not skip_nan:
        flat = where3(any_of(isnan(flat), -1, keepdims=True), np.asarray(np.nan, dtype_of(flat))[()], flat)
    order = argsort(flat, -1)
    ordered = take_along_axis(flat, order, -1, "clip")
    shares = (
        lax.full(shape_of(flat), 1, dtype_of(flat)) if weights is None else take_along_axis(weights, order, -1, "clip")
    )
    if skip_nan:
        shares = where3(isnan(ordered), 0.0, shares)
    running = lax.cumsum(shares, rank - 1)
    total = lax.slice_in_dim(running, shape_of(running)[-1] - 1, None, axis=rank - 1)
    wanted = lax.reshape(q, (1,) * (rank - 1) + (shape_of(q) or (1,))) * total
    before = lax.lt(*_against(running, wanted))
    places = lax.reduce_sum(astype(before, np.dtype(np.int32)), (rank - 1,))
    result = take_along_axis(ordered, clip(places, 0, shape_of(flat)[-1] - 1), -1, "clip")
    return moveaxis(result, -1, 0) if lead else lax.squeeze(result, (rank - 1,))


def _against(running: Array, wanted: Array) -> list[Array]:
    rank = len(shape_of(running))
    return broadcast([lax.expand_dims(running, (rank,)), lax.expand_dims(wanted, (rank - 1,))], scalars=False)


@public
def quantile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The values below which shares `q` of the elements over axes lie.

    Between two elements `method` decides: `linear`, `lower`, `higher`, `midpoint`, `nearest`, or
    `inverted_cdf`, which takes `weights`.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.quantile(jnp.arange(5.), 0.5))
    2.0
    """
    _plain("quantile", out, overwrite_input)
    return _quantile(a, q, axis, method, keepdims, False, weights)


def _plain(name: str, out: Any, overwrite_input: bool) -> None:
    no_out(out, name)
    if overwrite_input:
        raise ArgumentError(f"{name} cannot overwrite its input", "leave `overwrite_input` out")


@public
def nanquantile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """`quantile` with nan left out.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanquantile(jnp.array([1., jnp.nan, 3.]), 0.5))
    2.0
    """
    _plain("nanquantile", out, overwrite_input)
    return _quantile(a, q, axis, method, keepdims, True, weights)


@public
def percentile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """`quantile` with shares in percent.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.percentile(jnp.arange(5.), 50))
    2.0
    """
    _plain("percentile", out, overwrite_input)
    return _quantile(a, promote_dtypes_inexact(value(q))[0] / 100, axis, method, keepdims, False, weights)


@public
def nanpercentile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """`percentile` with nan left out.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanpercentile(jnp.array([1., jnp.nan, 3.]), 50))
    2.0
    """
    _plain("nanpercentile", out, overwrite_input)
    return _quantile(a, promote_dtypes_inexact(value(q))[0] / 100, axis, method, keepdims, True, weights)


@public
def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The middle element over axes, or the mean of the two in the middle.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.median(jnp.array([3., 1., 2.])))
    2.0
    """
    _plain("median", out, overwrite_input)
    return _quantile(a, 0.5, axis, "midpoint", keepdims, False)


@public
def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """`median` with nan left out.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.nanmedian(jnp.array([3., jnp.nan])))
    3.0
    """
    _plain("nanmedian", out, overwrite_input)
    return _quantile(a, 0.5, axis, "midpoint", keepdims, True)


__all__ = [
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip
