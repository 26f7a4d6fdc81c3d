"""Softmax and its relatives, standardisation, one-hot encoding."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import lax
from ..core.ir.binding import with_out_sharding
from ..core.ir.static_ints import integer
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError
from ..numpy import reductions
from ..numpy.create import asarray
from ..numpy.elementwise import as_boolean, equal, isfinite, where3
from ..numpy.util import (
    Array,
    ArrayLike,
    DTypeLike,
    astype,
    axes_of,
    axis_of,
    default_float,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_complex,
    promote_dtypes_inexact,
    shape_of,
    value,
)


def _largest(x: Array, axes: tuple[int, ...], where: Any) -> Array:
    """The largest element, as a constant of differentiation; 0 in place of an infinity."""
    top = reductions.max(x, axes, keepdims=True, where=where, initial=None if where is None else -np.inf)
    return lax.stop_gradient(where3(isfinite(top), top, np.zeros((), dtype_of(top))[()]))


@inline_jit("axis")
def softmax(x: ArrayLike, axis: Any = -1, where: ArrayLike | None = None) -> Array:
    """`exp(x)` divided by its sum over an axis, computed without overflow; masked elements give 0.

    >>> from tilewright import nn, numpy as jnp
    >>> nn.softmax(jnp.array([0., 0.]))
    Array([0.5, 0.5], dtype=float32)
    """
    (x,) = promote_dtypes_inexact(value(x, "softmax"))
    if 0 in shape_of(x):
        return x
    axes = axes_of(axis, len(shape_of(x)))
    power = lax.exp(_masked(x - _shift(x, axes, where), where))
    return power / _not_zero(reductions.sum(power, axes, keepdims=True), where)


def _masked(shifted: Array, where: Any) -> Array:
    """-inf in masked elements, before `exp`: what they hold must not enter a derivative."""
    return shifted if where is None else where3(as_boolean(value(where)), shifted, -np.inf)


def _not_zero(total: Array, where: Any) -> Array:
    """The sum over elements that are not masked; 1 where all are."""
    return total if where is None else where3(lax.eq(total, 0), 1.0, total)


def _shift(x: Array, axes: tuple[int, ...], where: Any) -> Array:
    top = reductions.max(x, axes, keepdims=True, where=where, initial=None if where is None else -np.inf)
    return lax.stop_gradient(top)


@inline_jit("axis")
def log_softmax(x: ArrayLike, axis: Any = -1, where: ArrayLike | None = None) -> Array:
    """The logarithm of `softmax`; masked elements give -inf.

    >>> from tilewright import nn, numpy as jnp
    >>> nn.log_softmax(jnp.array([3.]))
    Array([0.], dtype=float32)
    """
    (x,) = promote_dtypes_inexact(value(x, "log_softmax"))
    if 0 in shape_of(x):
        return x
    axes = axes_of(axis, len(shape_of(x)))
    shifted = _masked(x - _shift(x, axes, where), where)
    total = _not_zero(reductions.sum(lax.exp(shifted), axes, keepdims=True), where)
    return shifted - lax.log(total)


@public
def logsumexp(
    a: ArrayLike, axis: Any = None, b: ArrayLike | None = None, keepdims: bool = False, return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:  # fmt: skip
    """`log(sum(b * exp(a)))` over axes without overflow; with `return_sign`, also the sign of the sum.

    >>> from tilewright import nn, numpy as jnp
    >>> float(nn.logsumexp(jnp.array([1000., -1000.])))
    1000.0
    """
    result, sign = _logsumexp(a, axis, b, keepdims, where)
    if return_sign:
        return result, sign
    return result if b is None and not is_complex(dtype_of(sign)) else _with_sign(result, sign)


@inline_jit()
def _with_sign(result: Array, sign: Array) -> Array:
    """The logarithm of a sum with its sign: that of a negative real one is no number."""
    if is_complex(dtype_of(sign)):
        return lax.complex(result, lax.imag(lax.log(sign)))
    return where3(lax.lt(sign, 0), np.asarray(np.nan, dtype_of(result))[()], result)


@inline_jit("axis", "keepdims")
def _logsumexp(a: Any, axis: Any, b: Any, keepdims: bool, where: Any) -> tuple[Array, Array]:
    if b is None:
        (a,) = promote_dtypes_inexact(value(a, "logsumexp"))
    else:
        a, b = promote_dtypes_inexact(value(a, "logsumexp"), value(b))
        # Terms with weight 0 must not enter the maximum, nor be 0 times infinity.
        counts = lax.ne(b, np.zeros((), dtype_of(b))[()])
        a = where3(counts, a, np.asarray(-np.inf).astype(dtype_of(a))[()])
    if where is not None:
        a = where3(as_boolean(value(where)), a, np.asarray(-np.inf).astype(dtype_of(a))[()])
    axes = axes_of(axis, len(shape_of(a)))
    real = lax.real(a) if is_complex(dtype_of(a)) else a
    top = _largest(real, axes, None) if 0 not in [shape_of(a)[d] for d in axes] else None
    if top is None:
        nothing = reductions.sum(real, axes, keepdims=keepdims)
        return nothing - np.inf, nothing
    power = lax.exp(a - astype(top, dtype_of(a)))
    if b is not None:
        power = where3(counts, b * power, np.zeros((), dtype_of(power))[()])
    total = reductions.sum(power, axes, keepdims=True)
    sign = lax.sign(total)
    result = lax.log(lax.abs(total)) + top
    if not keepdims:
        result, sign = lax.squeeze(result, axes), lax.squeeze(sign, axes)
    return result, sign


def logmeanexp(x: ArrayLike, axis: Any = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """`log(mean(exp(x)))` over axes without overflow.

    >>> from tilewright import nn, numpy as jnp
    >>> float(nn.logmeanexp(jnp.array([1000., 1000.])))
    1000.0
    """
    return _logmeanexp(x, where, axis, keepdims)


@inline_jit("axis", "keepdims")
def _logmeanexp(x: Any, where: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    (x,) = promote_dtypes_inexact(value(x, "logmeanexp"))
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    axes = axes_of(axis, len(shape_of(x)))
    size = reductions.count(shape_of(x), axes, where, dtype_of(x), keepdims)
    return total - lax.log(value(astype(size, dtype_of(x))))


@inline_jit("axis", "epsilon", "algorithm")
def standardize(
    x: ArrayLike, axis: Any = -1, mean: ArrayLike | None = None, variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5, where: ArrayLike | None = None, *, algorithm: str = "fast",
) -> Array:  # fmt: skip
    """Shift and scale to mean 0 and variance 1 over axes: `(x - mean) / sqrt(variance + epsilon)`.

    The variance is `mean(x**2) - mean(x)**2` ('fast', one pass) or the mean squared distance ('stable').

    >>> from tilewright import nn, numpy as jnp
    >>> nn.standardize(jnp.array([-1., 1.]), epsilon=0.)
    Array([-1.,  1.], dtype=float32)
    """
    (x,) = promote_dtypes_inexact(value(x, "standardize"))
    axes = axes_of(axis, len(shape_of(x)))
    if mean is None:
        mean = reductions.mean(x, axes, keepdims=True, where=where)
    if variance is None:
        if algorithm == "stable":
            variance = reductions.mean(lax.square(x - mean), axes, keepdims=True, where=where)
        elif algorithm == "fast":
            squares = reductions.mean(lax.square(x), axes, keepdims=True, where=where)
            variance = lax.max(squares - lax.square(value(mean)), 0.0)  # of which rounding may leave less
        else:
            raise ArgumentError(f"there is no algorithm {algorithm!r}", "one of 'fast', 'stable'")
    return (x - mean) * lax.rsqrt(variance + epsilon)


normalize = standardize


@inline_jit("num_classes", "dtype", "axis")
def _one_hot(x: Any, num_classes: int, dtype: DTypeLike, axis: int) -> Array:
    x = value(x, "one_hot")
    axis = axis_of(axis, len(shape_of(x)) + 1)
    wide = lax.expand_dims(x, (axis,))
    classes = lax.broadcasted_iota(
        dtype_of(x), tuple(num_classes if d == axis else 1 for d in range(len(shape_of(wide)))), axis
    )

    return astype(equal(wide, classes), dtype)


def one_hot(
    x: Any, num_classes: Any, *, dtype: DTypeLike = None, axis: Any = -1, out_sharding: Any = None
) -> Array:
    """Numbers of classes as rows with a single 1; a number out of range gives a row of zeros.

    >>> from tilewright import nn, numpy as jnp
    >>> nn.one_hot(jnp.array([1]), 3)
    Array([[0., 1., 0.]], dtype=float32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, one_hot, x, num_classes, dtype=dtype, axis=axis)
    dtype = dtype_argument(dtype) or default_float()
    count, place = integer(num_classes, "num_classes", "one_hot"), integer(axis, "axis", "one_hot")
    return _one_hot(asarray(x), count, dtype, place)
