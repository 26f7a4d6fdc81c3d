"""The normal distribution with mean `loc` and standard deviation `scale`."""

from __future__ import annotations

import math

from ... import lax
from ...numpy.util import Array, ArrayLike, composite, promote_inexact
from .. import special


@composite()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from tilewright.scipy import stats
    >>> round(float(stats.norm.logpdf(0.)), 3)
    -0.919
    """
    x, loc, scale = promote_inexact(x, loc, scale)
    return -0.5 * (lax.square((x - loc) / scale) + math.log(2 * math.pi)) - lax.log(scale)


@composite()
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from tilewright.scipy import stats
    >>> round(float(stats.norm.pdf(0.)), 3)
    0.399
    """
    return lax.exp(logpdf(x, loc, scale))


@composite()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value up to `x`.

    >>> from tilewright.scipy import stats
    >>> float(stats.norm.cdf(0.))
    0.5
    """
    x, loc, scale = promote_inexact(x, loc, scale)
    return special.ndtr((x - loc) / scale)


@composite()
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    >>> from tilewright.scipy import stats
    >>> round(float(stats.norm.logcdf(0.)), 3)
    -0.693
    """
    x, loc, scale = promote_inexact(x, loc, scale)
    return special.log_ndtr((x - loc) / scale)


@composite()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above `x`.

    >>> from tilewright.scipy import stats
    >>> float(stats.norm.sf(0.))
    0.5
    """
    x, loc, scale = promote_inexact(x, loc, scale)
    return special.ndtr((loc - x) / scale)


@composite()
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    >>> from tilewright.scipy import stats
    >>> round(float(stats.norm.logsf(0.)), 3)
    -0.693
    """
    x, loc, scale = promote_inexact(x, loc, scale)
    return special.log_ndtr((loc - x) / scale)


@composite()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which a share `q` lies.

    >>> from tilewright.scipy import stats
    >>> float(stats.norm.ppf(0.5))
    0.0
    """
    q, loc, scale = promote_inexact(q, loc, scale)
    return special.ndtri(q) * scale + loc


@composite()
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which a share `q` lies.

    >>> from tilewright.scipy import stats
    >>> float(stats.norm.isf(0.5))
    0.0
    """
    q, loc, scale = promote_inexact(q, loc, scale)
    return special.ndtri(1 - q) * scale + loc
