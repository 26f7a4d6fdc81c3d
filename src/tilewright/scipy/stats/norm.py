"""The normal distribution with mean `loc` and standard deviation `scale`.

>>> from tilewright.scipy import stats
>>> round(float(stats.norm.logpdf(0.0)), 3), float(stats.norm.cdf(0.0)), float(stats.norm.ppf(0.5))
(-0.919, 0.5, 0.0)
"""

from __future__ import annotations

import math

from .. import special
from .family import Family

_D = Family(__name__, strong="cdf logcdf sf logsf ppf isf")
_LOG = lambda y: -0.5 * (y * y + math.log(2 * math.pi))  # noqa: E731
logpdf = _D.function("logpdf", _LOG)
pdf = _D.function("pdf", _LOG)
cdf = _D.function("cdf", special.ndtr)
logcdf = _D.function("logcdf", special.log_ndtr)
sf = _D.function("sf", lambda y: special.ndtr(-y))
logsf = _D.function("logsf", lambda y: special.log_ndtr(-y))
ppf = _D.function("ppf", special.ndtri)
isf = _D.function("isf", lambda q: -special.ndtri(q))

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = __all__.copy
