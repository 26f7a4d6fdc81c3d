"""The normal distribution between `a` and `b` standard deviations from `loc`.

>>> from tilewright.scipy import stats
>>> round(float(stats.truncnorm.pdf(0.0, -1.0, 1.0)), 3), round(float(stats.truncnorm.cdf(0.0, -1.0, 1.0)), 3)
(0.584, 0.5)
"""

from __future__ import annotations

import math
from typing import Any

from ... import lax
from ...numpy.elementwise import where3
from .. import special
from .family import Family, log1mexp

_D = Family(__name__, "a b", lambda a, b: a < b, lambda a, b: (a, b), None, strong="logpdf pdf cdf logcdf sf logsf")


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal distribution's probability between `a` and `b`, from the side of the nearer tail."""
    right = lax.gt(a + b, 0)
    low, high = where3(right, -b, a), where3(right, -a, b)
    far, near = special.log_ndtr(low), special.log_ndtr(high)
    none = lax.eq(low, high)
    gap = where3(none, -1.0, far - near)
    return where3(none, -math.inf, near + log1mexp(gap))


def _log(y: Any, a: Any, b: Any) -> Any:
    return -0.5 * (y * y + math.log(2 * math.pi)) - _log_mass(a, b)


def _logcdf(y: Any, a: Any, b: Any) -> Any:
    return _log_mass(a, y) - _log_mass(a, b)


def _logsf(y: Any, a: Any, b: Any) -> Any:
    return _log_mass(y, b) - _log_mass(a, b)


logpdf = _D.function("logpdf", _log)
pdf = _D.function("pdf", _log)
cdf = _D.function("cdf", lambda y, a, b: lax.exp(_logcdf(y, a, b)))
logcdf = _D.function("logcdf", _logcdf)
sf = _D.function("sf", lambda y, a, b: lax.exp(_logsf(y, a, b)))
logsf = _D.function("logsf", _logsf)
