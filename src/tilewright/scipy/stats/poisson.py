"""The Poisson distribution of counts with mean `mu`.

>>> from tilewright.scipy import stats
>>> round(float(stats.poisson.pmf(1, 2.0)), 3), round(float(stats.poisson.cdf(1, 2.0)), 3)
(0.271, 0.406)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import lax
from ...numpy.create import arange
from ...numpy.elementwise import where3
from ...numpy.reductions import sum as _sum
from ...numpy.util import Array, ArrayLike, dtype_of, inline_jit, promote_inexact, shape_of
from .. import special
from .family import INF, Family
from .safe_powers import with_powers
from .signatures import OfKMuAt

_D = Family(__name__, "mu", lambda mu: mu >= 0, (1.0,), (0.0, INF), 0.0, whole=True, weak="pmf logpmf")
_MANY = 60.0  # from which mean on the entropy's series is exact to double precision but for 1e-12
_TERMS = 160  # of the sum below it: the probability of more is below 1e-22
# The entropy minus log(2 pi e mu) / 2, by powers of 1 / mu (Evans, Boersma, "The entropy of a Poisson distribution",
# SIAM Review 30, 1988).
_SERIES = (-1 / 12, -1 / 24, -19 / 360, -9 / 80, -863 / 2520, -1375 / 1008)


def _log(k: Any, mu: Any) -> Any:
    return special.xlogy(k, mu) - lax.lgamma(k + 1) - mu


logpmf: OfKMuAt = _D.function("logpmf", _log)
pmf: OfKMuAt = _D.function("pmf", lambda k, mu: with_powers(-lax.lgamma(k + 1) - mu, mu, k), powers=True)
cdf: OfKMuAt = _D.function("cdf", lambda k, mu: special.gammaincc(k + 1, mu))


@inline_jit()
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy, in nats: a sum for small means, an asymptotic series for great ones.

    >>> from tilewright.scipy import stats
    >>> round(float(stats.poisson.entropy(2.0)), 3)
    1.705
    """
    mu, loc = promote_inexact(mu, loc)
    mu = mu + loc * 0
    none, few = lax.eq(mu, 0), mu < _MANY
    some = few & (mu > 0)
    k = arange(_TERMS, dtype=dtype_of(mu))
    logs = _log(k, lax.expand_dims(where3(some, mu, 1.0), (len(shape_of(mu)),)))
    direct = -_sum(lax.exp(logs) * _finite(logs), -1)
    big = where3(few, _MANY, mu)
    series: Any = big * 0
    for c in reversed(_SERIES):
        series = (series + c) / big
    direct = where3(none, special.entr(where3(none, mu, 1.0)), direct)  # of which the slope at 0 is right
    out = where3(few, direct, 0.5 * lax.log(2 * math.pi * math.e * big) + series)
    return where3(mu >= 0, out, math.nan)


def _finite(logs: Any) -> Any:
    """Logarithms of probabilities, 0 for those of probability 0."""
    return where3(logs > -math.inf, logs, 0.0)

__all__ = ["cdf", "entropy", "logpmf", "pmf"]
__dir__: Callable[[], list[str]] = __all__.copy
