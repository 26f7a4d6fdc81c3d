"""The Dirichlet distribution of shares that sum to 1, with exponents `alpha - 1`.

>>> from tilewright import numpy as jnp
>>> from tilewright.scipy import stats
>>> round(float(stats.dirichlet.pdf(jnp.array([0.2, 0.8]), jnp.array([1.0, 2.0]))), 3)
1.6
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import lax
from ...core.support.errors import ShapeError
from ...numpy.dtypes import finfo
from ...numpy.elementwise import where3
from ...numpy.join import concatenate
from ...numpy.reductions import all as _all
from ...numpy.reductions import prod as _prod
from ...numpy.reductions import sum as _sum
from ...numpy.util import Array, ArrayLike, dtype_of, inline_jit, promote_dtypes_inexact, shape_of
from .. import special
from .safe_powers import split_power


@inline_jit()
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density at points `x` (k, ...), or (k - 1, ...) without the last share, for `alpha` (k,).

    -inf where the shares are not positive or do not sum to 1, NaN for `alpha` that is not positive.

    Raises:
      ShapeError: `alpha` is no vector, or `x` has another number of shares.
    """
    legal, simplex, x, power, constant = _parts(x, alpha)
    out = _sum(special.xlogy(power, x), 0) + constant
    return where3(legal, where3(simplex, out, -math.inf), math.nan)


def _parts(x: Any, alpha: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Whether `alpha` and shares are legal, the shares (harmless if not), their powers, the constant's logarithm."""
    x, alpha = promote_dtypes_inexact(x, alpha)
    if len(shape_of(alpha)) != 1 or not shape_of(x) or shape_of(alpha)[0] - shape_of(x)[0] not in (0, 1):
        raise ShapeError(f"a Dirichlet density at {shape_of(x)} with alpha of {shape_of(alpha)}",
                         "alpha is a vector (k,), the shares lie along the first axis: k, or k - 1")  # fmt: skip
    (k,) = shape_of(alpha)
    if shape_of(x)[0] != k:
        x = concatenate([x, 1 - _sum(x, 0, keepdims=True)], 0)
    legal = _all(alpha > 0)
    alpha = where3(legal, alpha, 1.0)  # no derivative is NaN
    constant = lax.lgamma(_sum(alpha)) - _sum(lax.lgamma(alpha))
    alpha = lax.expand_dims(alpha, tuple(range(1, len(shape_of(x)))))
    positive = _all((x > 0) | ((x == 0) & (alpha >= 1)), 0)
    simplex = positive & (abs(_sum(x, 0) - 1) < 1e-6 + k * float(finfo(dtype_of(x)).eps))
    return legal, simplex, where3(simplex, x, 0.5), alpha - 1, constant


@inline_jit()
def pdf(x: ArrayLike, alpha: Any) -> Array:
    """The density: see `logpdf`."""
    legal, simplex, x, power, constant = _parts(x, alpha)
    log, factor = split_power(x, power)
    out = lax.exp(_sum(log, 0) + constant) * _prod(factor, 0)
    return where3(legal, where3(simplex, out, 0.0), math.nan)

__all__ = ["logpdf", "pdf"]
__dir__: Callable[[], list[str]] = __all__.copy
