"""The Cauchy distribution with median `loc`.

>>> from tilewright.scipy import stats
>>> round(float(stats.cauchy.pdf(0.0)), 3), float(stats.cauchy.cdf(0.0)), round(float(stats.cauchy.ppf(0.75)), 3)
(0.318, 0.5, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...numpy.elementwise import where3
from .family import Family

if TYPE_CHECKING:
    from .signatures import OfQLocated, OfXLocated


_D = Family(__name__, tails="heavy")


def _log(y: Any) -> Any:
    return -math.log(math.pi) - lax.log1p(y * y)


def _cdf(y: Array) -> Any:
    return lax.atan2(lax.full_like(y, 1), -y) / math.pi


@custom_jvp
def _cotangent(angle: Array) -> Any:
    return lax.cos(angle) / lax.sin(angle)


_cotangent.defjvps(lambda t, out, angle: -t * (1 + out * out))


def _ppf(q: Array) -> Any:
    """The cotangent, by the nearer end of the interval."""
    upper = lax.gt(q, 0.5)
    size = _cotangent(math.pi * where3(upper, 1 - q, q))
    return where3(upper, size, -size)


logpdf: OfXLocated = _D.function("logpdf", _log)
pdf: OfXLocated = _D.function("pdf", _log)
cdf: OfXLocated = _D.function("cdf", _cdf)
logcdf: OfXLocated = _D.function("logcdf", lambda y: lax.log(_cdf(y)))
sf: OfXLocated = _D.function("sf", lambda y: _cdf(-y))
logsf: OfXLocated = _D.function("logsf", lambda y: lax.log(_cdf(-y)))
ppf: OfQLocated = _D.function("ppf", _ppf)
isf: OfQLocated = _D.function("isf", lambda q: -_ppf(q))

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
