"""The exponential distribution of numbers from `loc` on, with mean `loc + scale`.

>>> from tilewright.scipy import stats
>>> round(float(stats.expon.pdf(1.0)), 3), round(float(stats.expon.cdf(1.0)), 3)
(0.368, 0.632)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import lax
from .family import INF, Family, log1mexp

if TYPE_CHECKING:
    from .signatures import OfQLocated, OfXLocated


_D = Family(__name__, support=(0.0, INF), inside=1.0, weak="logpdf pdf cdf logcdf sf logsf ppf")
logpdf: OfXLocated = _D.function("logpdf", lambda y: -y)
pdf: OfXLocated = _D.function("pdf", lambda y: -y)
cdf: OfXLocated = _D.function("cdf", lambda y: -lax.expm1(-y))
logcdf: OfXLocated = _D.function("logcdf", lambda y: log1mexp(-y))
sf: OfXLocated = _D.function("sf", lambda y: lax.exp(-y))
logsf: OfXLocated = _D.function("logsf", lambda y: -y)
ppf: OfQLocated = _D.function("ppf", lambda q: -lax.log1p(-q))

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
