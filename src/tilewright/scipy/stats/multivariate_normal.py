"""The normal distribution of vectors, with a mean and a covariance matrix.

>>> from tilewright import numpy as jnp
>>> from tilewright.scipy import stats
>>> round(float(stats.multivariate_normal.pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))), 3)
0.159
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import lax
from ...core.support.errors import ShapeError, UnsupportedError
from ...numpy.linalg.products import diagonal
from ...numpy.reductions import sum as _sum
from ...numpy.util import Array, ArrayLike, broadcast_to_shape, inline_jit, promote_dtypes_inexact, shape_of

_LOG_2PI = math.log(2 * math.pi)


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density at points `x` (..., n), for a mean (..., n) and a covariance (..., n, n).

    A number as covariance is the variance of each element, and with a scalar mean that of numbers. NaN where a
    covariance is not positive definite.

    Raises:
      ShapeError: a covariance that does not fit the mean.
      UnsupportedError: `allow_singular`.
    """
    if allow_singular is not None:
        raise UnsupportedError(f"multivariate_normal with allow_singular={allow_singular!r}",
                               "covariances must be positive definite")  # fmt: skip
    return _logpdf(x, mean, cov)


@inline_jit()
def _logpdf(x: Any, mean: Any, cov: Any) -> Array:
    x, mean, cov = promote_dtypes_inexact(x, mean, cov)
    size, fits = shape_of(mean), shape_of(cov)
    y = x - mean
    if not size:
        return -0.5 * (y * y / cov + _LOG_2PI + lax.log(cov))
    n = size[-1]
    if not fits:
        return -0.5 * _sum(y * y, -1) / cov - n / 2 * (_LOG_2PI + lax.log(cov))
    if fits[-2:] != (n, n):
        raise ShapeError(f"a covariance of {fits} for a mean of {size}", f"the last axes must be ({n}, {n})")
    factor = lax.linalg.cholesky(cov)
    y = _solved(factor, y, n)
    return -0.5 * _sum(y * y, -1) - n / 2 * _LOG_2PI - _sum(lax.log(diagonal(factor)), -1)


def _solved(factor: Array, y: Array, n: int) -> Array:
    """The rows of `y` times the inverse of the factor's transpose, one factor for all or one for each."""
    batch = lax.broadcast_shapes(shape_of(factor)[:-2], shape_of(y)[:-1])
    if len(shape_of(factor)) == 2:
        rows = lax.reshape(y, (math.prod(batch), n))
    else:
        rows = lax.expand_dims(broadcast_to_shape(y, (*batch, n)), (len(batch),))
        factor = broadcast_to_shape(factor, (*batch, n, n))
    return lax.reshape(lax.linalg.triangular_solve(factor, rows, lower=True, transpose_a=True), (*batch, n))


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density: see `logpdf`."""
    return _pdf(x, mean, cov)


@inline_jit()
def _pdf(x: Any, mean: Any, cov: Any) -> Array:
    return lax.exp(_logpdf(x, mean, cov))

__all__ = ["logpdf", "pdf"]
__dir__: Callable[[], list[str]] = __all__.copy
