"""The logistic distribution with median `loc`.

>>> from tilewright.scipy import stats
>>> float(stats.logistic.pdf(0.0)), float(stats.logistic.cdf(0.0)), float(stats.logistic.ppf(0.5))
(0.25, 0.5, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...numpy.elementwise import logaddexp
from .. import special
from .family import Family

if TYPE_CHECKING:
    from .signatures import OfXLocated


_D = Family(__name__, weak="cdf sf")


def _log(y: Any) -> Any:
    return -logaddexp(y, 0.0) - logaddexp(-y, 0.0)


logpdf: OfXLocated = _D.function("logpdf", _log)
pdf: OfXLocated = _D.function("pdf", _log)
cdf: OfXLocated = _D.function("cdf", lax.logistic)
sf: OfXLocated = _D.function("sf", lambda y: lax.logistic(-y))
ppf: OfXLocated = _D.function("ppf", special.logit, "x")
isf: OfXLocated = _D.function("isf", lambda x: -special.logit(x), "x")

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
