"""The chi-squared distribution with `df` degrees of freedom: the gamma distribution at half of each.

>>> from tilewright.scipy import stats
>>> round(float(stats.chi2.pdf(2.0, 2.0)), 3), round(float(stats.chi2.sf(2.0, 2.0)), 3)
(0.184, 0.368)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import special
from . import gamma
from .family import INF, Family, positive

if TYPE_CHECKING:
    from .signatures import OfXDfLocated


_D = Family(__name__, "df", positive, (2.0,), (0.0, INF), 1.0)


def _log(y: Any, df: Any) -> Any:
    return gamma.log_density(y / 2, df / 2) - math.log(2)


logpdf: OfXDfLocated = _D.function("logpdf", _log)
pdf: OfXDfLocated = _D.function("pdf", lambda y, df: gamma.density(y / 2, df / 2) / 2, powers=True)
cdf: OfXDfLocated = _D.function("cdf", lambda y, df: special.gammainc(df / 2, y / 2))
logcdf: OfXDfLocated = _D.function("logcdf", lambda y, df: gamma.log_share(y / 2, df / 2))
sf: OfXDfLocated = _D.function("sf", lambda y, df: special.gammaincc(df / 2, y / 2))
logsf: OfXDfLocated = _D.function("logsf", lambda y, df: gamma.log_rest(y / 2, df / 2))

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
