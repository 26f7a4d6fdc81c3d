"""Densities estimated from samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import lax, random
from ...core.api.transformations import vmap
from ...core.support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError, plural
from ...core.tracing.trace import dtype_of
from ...nn.normalisation import logsumexp
from ...numpy.arithmetic import power
from ...numpy.contract import dot
from ...numpy.create import full, zeros
from ...numpy.elementwise import exp, log, sqrt
from ...numpy.linalg.products import diagonal
from ...numpy.linalg.solving import inv
from ...numpy.reductions import prod
from ...numpy.reductions import sum as _sum
from ...numpy.shape import atleast_1d, atleast_2d, reshape, squeeze
from ...numpy.statistics.histograms import cov as _cov
from ...numpy.util import Array, ArrayLike, inline_jit, is_complex, promote_dtypes_inexact, shape_of, value
from ...tree_util import register_pytree_node_class
from .. import linalg, special

_FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")


@register_pytree_node_class
class gaussian_kde:
    """A density as a sum of normal ones around the points of a sample.

    Args:
      dataset: the sample (n,) or, of vectors, (d, n); two numbers or more.
      bw_method: "scott" (the default), "silverman", a number, or a function that makes one of the object: how much
        wider than the sample's covariance each of the normal densities is.
      weights: of the points (n,); by default all count alike.

    Raises:
      ArgumentError: a sample of less than two numbers, or another `bw_method`.
      DtypeError: complex numbers.
      ShapeError: weights that do not fit the sample.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import stats
    >>> stats.gaussian_kde(jnp.array([-1., 0., 1.]))(jnp.array([0.])).round(2)
    Array([0.32], dtype=float32)
    """

    __slots__ = _FIELDS
    neff: Array
    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array

    def __init__(self, dataset: ArrayLike, bw_method: Any = None, weights: ArrayLike | None = None):
        data = atleast_2d(value(dataset, "gaussian_kde"))
        if is_complex(dtype_of(data)):
            raise DtypeError(f"gaussian_kde of a sample of dtype {dtype_of(data)}", "pass real numbers")
        if data.size < 2:
            raise ArgumentError(f"gaussian_kde of a sample of {data.size} numbers", "two numbers or more")
        d, n = shape_of(data)
        if weights is None:
            (data,) = promote_dtypes_inexact(data)
            shares = full(n, 1.0 / n, dtype_of(data))
        else:
            data, shares = promote_dtypes_inexact(data, atleast_1d(value(weights, "gaussian_kde")))
            if shape_of(shares) != (n,):
                raise ShapeError(f"gaussian_kde: weights of {shape_of(shares)} for {plural(n, 'point')}",
                                 f"they are ({n},)")  # fmt: skip
            shares = shares / _sum(shares)
        self.dataset, self.weights, self.neff = data, shares, 1 / _sum(shares**2)
        factor = self._factor(bw_method, d)
        covariance = atleast_2d(_cov(data, rowvar=True, bias=False, aweights=shares))
        self.covariance, self.inv_cov = covariance * factor**2, inv(covariance) / factor**2

    def _factor(self, bw_method: Any, d: int) -> Any:
        if bw_method is None or (isinstance(bw_method, str) and bw_method == "scott"):
            return power(self.neff, -1.0 / (d + 4))
        if isinstance(bw_method, str) and bw_method == "silverman":
            return power(self.neff * (d + 2) / 4.0, -1.0 / (d + 4))
        if isinstance(bw_method, Callable):
            return bw_method(self)
        if isinstance(bw_method, str) or shape_of(bw_method):
            raise ArgumentError(f"gaussian_kde: bw_method={bw_method!r}", 'a number, a function or "scott"')
        return bw_method

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return tuple(getattr(self, name) for name in _FIELDS), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        kde = cls.__new__(cls)
        for name, child in zip(_FIELDS, children, strict=True):
            setattr(kde, name, child)
        return kde

    @property
    def d(self) -> int:
        """How many numbers a point has."""
        return shape_of(self.dataset)[0]

    @property
    def n(self) -> int:
        """How many points the sample has."""
        return shape_of(self.dataset)[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points (m,) or (d, m)."""
        return _evaluated(False, self.dataset, self.weights, self.inv_cov, self._points(points))

    __call__ = evaluate

    def pdf(self, x: ArrayLike) -> Array:
        """The density at points (m,) or (d, m)."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points (m,) or (d, m)."""
        return _evaluated(True, self.dataset, self.weights, self.inv_cov, self._points(x))

    def _points(self, given: ArrayLike) -> Array:
        points = atleast_2d(value(given, "gaussian_kde"))
        if is_complex(dtype_of(points)):
            raise DtypeError(f"gaussian_kde at points of dtype {dtype_of(points)}", "pass real numbers")
        d, m = shape_of(points)
        if d == 1 and m == self.d:
            return reshape(points, (self.d, 1))
        if d != self.d:
            raise ShapeError(f"gaussian_kde of {self.d} dimensions at points of {d}", "points lie along the last axis")
        return points

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the product with a normal density."""
        mean, cov = atleast_1d(squeeze(value(mean))), atleast_2d(value(cov))
        if shape_of(mean) != (self.d,) or shape_of(cov) != (self.d, self.d):
            raise ShapeError(f"a mean of {shape_of(mean)} and a covariance of {shape_of(cov)}",
                             f"of {self.d} dimensions each")  # fmt: skip
        return _overlap(*_factored(self.covariance + cov), self.dataset, self.weights, mean)

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability between two numbers."""
        if self.d != 1:
            raise ArgumentError(f"integrate_box_1d of a density of {self.d} dimensions", "it takes one")
        if shape_of(low) or shape_of(high):
            raise ShapeError("integrate_box_1d between arrays", "the limits are numbers; use `vmap` for several")
        return _between(self.dataset[0], self.weights, self.covariance[0, 0], low, high)

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product with another such density."""
        if other.d != self.d:
            raise ArgumentError(f"integrate_kde of {self.d} and {other.d} dimensions", "they must be equal")
        small, large = (self, other) if self.n < other.n else (other, self)
        factor, norm = _factored(self.covariance + other.covariance)
        each = vmap(lambda mean: _overlap(factor, norm, large.dataset, large.weights, mean), in_axes=1)
        return _sum(each(small.dataset) * small.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Random points `(d, *shape)` of the density."""
        chosen, moved = random.split(key)
        index = random.choice(chosen, self.n, shape=shape, p=self.weights)
        mean = zeros(self.d, self.covariance.dtype)
        noise = random.multivariate_normal(moved, mean, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, index] + noise.T

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Array:
        raise UnsupportedError("gaussian_kde.integrate_box", "use `integrate_box_1d`, of one dimension")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        raise UnsupportedError("gaussian_kde.set_bandwidth", "make another one: arrays are not changed")


@inline_jit("logarithm")
def _evaluated(logarithm: bool, dataset: Any, weights: Any, inv_cov: Any, points: Any) -> Array:
    dataset, weights, inv_cov, points = promote_dtypes_inexact(dataset, weights, inv_cov, points)
    d = shape_of(dataset)[0]
    whitening = linalg.cholesky(inv_cov, lower=True)
    theirs, mine = dot(points.T, whitening), dot(dataset.T, whitening)
    log_norm = _sum(log(diagonal(whitening))) - 0.5 * d * math.log(2 * math.pi)

    def at(point: Any) -> Array:
        logs = log_norm - 0.5 * _sum(lax.square(mine - point), -1)
        return logsumexp(log(weights) + logs) if logarithm else _sum(weights * exp(logs))

    return vmap(at)(theirs)


@inline_jit()
def _between(dataset: Any, weights: Any, variance: Any, low: Any, high: Any) -> Array:
    sigma = sqrt(variance)
    return _sum(weights * (special.ndtr((high - dataset) / sigma) - special.ndtr((low - dataset) / sigma)))


def _factored(cov: Array) -> tuple[Any, Array]:
    """The Cholesky factor of a covariance and what a normal density with it is divided by."""
    factor = linalg.cho_factor(cov)
    return factor, (2 * math.pi) ** (shape_of(cov)[0] / 2) * prod(diagonal(factor[0]))


def _overlap(factor: Any, norm: Any, dataset: Any, weights: Any, mean: Any) -> Array:
    gap = dataset - mean[:, None]
    return _sum(exp(-0.5 * _sum(gap * linalg.cho_solve(factor, gap), 0)) * weights) / norm
