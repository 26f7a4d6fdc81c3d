"""The uniform distribution from `loc` to `loc + scale`.

>>> from tilewright.scipy import stats
>>> float(stats.uniform.pdf(0.3, 0.0, 2.0)), float(stats.uniform.cdf(0.5, 0.0, 2.0))
(0.5, 0.25)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...numpy.util import strong
from .family import Family

if TYPE_CHECKING:
    from .signatures import OfQLocated, OfXLocated


_D = Family(__name__, support=(0.0, 1.0), inside=0.5, weak="logpdf pdf ppf", strong="cdf")
logpdf: OfXLocated = _D.function("logpdf", lambda y: y * 0)
pdf: OfXLocated = _D.function("pdf", lambda y: y * 0)
cdf: OfXLocated = _D.function("cdf", strong)
ppf: OfQLocated = _D.function("ppf", lambda q: q)

__all__ = ["cdf", "logpdf", "pdf", "ppf"]
__dir__: Callable[[], list[str]] = __all__.copy
