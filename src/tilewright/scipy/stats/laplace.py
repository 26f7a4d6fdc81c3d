"""The Laplace distribution with median `loc`.

>>> from tilewright.scipy import stats
>>> float(stats.laplace.pdf(0.0)), float(stats.laplace.cdf(0.0))
(0.5, 0.5)
"""

from __future__ import annotations

import math

from ... import lax
from ...numpy.elementwise import where3
from .family import Family

_D = Family(__name__)
logpdf = _D.function("logpdf", lambda y: -abs(y) - math.log(2))
pdf = _D.function("pdf", lambda y: -abs(y) - math.log(2))
cdf = _D.function("cdf", lambda y: where3(lax.lt(y, 0), lax.exp(-abs(y)) / 2, 1 - lax.exp(-abs(y)) / 2))

__all__ = ["cdf", "logpdf", "pdf"]
__dir__ = __all__.copy
