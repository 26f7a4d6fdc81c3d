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
    from ...core.ir.array import Array


_D = Family(__name__, weak="cdf sf")


def _log(y: Any) -> Any:
    return -logaddexp(y, 0.0) - logaddexp(-y, 0.0)


logpdf: Callable[..., Array] = _D.function("logpdf", _log)
pdf: Callable[..., Array] = _D.function("pdf", _log)
cdf: Callable[..., Array] = _D.function("cdf", lax.logistic)
sf: Callable[..., Array] = _D.function("sf", lambda y: lax.logistic(-y))
ppf: Callable[..., Array] = _D.function("ppf", special.logit, "x")
isf: Callable[..., Array] = _D.function("isf", lambda x: -special.logit(x), "x")

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
