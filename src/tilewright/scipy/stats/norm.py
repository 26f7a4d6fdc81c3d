"""The normal distribution with mean `loc` and standard deviation `scale`.

>>> from tilewright.scipy import stats
>>> round(float(stats.norm.logpdf(0.0)), 3), float(stats.norm.cdf(0.0)), float(stats.norm.ppf(0.5))
(-0.919, 0.5, 0.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import special
from .family import Family

if TYPE_CHECKING:
    from .signatures import OfQLocated, OfXLocated


_D = Family(__name__, strong="cdf logcdf sf logsf ppf isf")
_LOG = lambda y: -0.5 * (y * y + math.log(2 * math.pi))  # noqa: E731
logpdf: OfXLocated = _D.function("logpdf", _LOG)
pdf: OfXLocated = _D.function("pdf", _LOG)
cdf: OfXLocated = _D.function("cdf", special.ndtr)
logcdf: OfXLocated = _D.function("logcdf", special.log_ndtr)
sf: OfXLocated = _D.function("sf", lambda y: special.ndtr(-y))
logsf: OfXLocated = _D.function("logsf", lambda y: special.log_ndtr(-y))
ppf: OfQLocated = _D.function("ppf", special.ndtri)
isf: OfQLocated = _D.function("isf", lambda q: -special.ndtri(q))

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
