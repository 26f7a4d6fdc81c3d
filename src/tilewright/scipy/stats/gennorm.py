"""The generalised normal distribution, with density proportional to `exp(-abs(x) ** beta)`.

>>> from tilewright.scipy import stats
>>> round(float(stats.gennorm.pdf(0.0, 2.0)), 3), round(float(stats.gennorm.cdf(0.0, 2.0)), 3)
(0.564, 0.5)
"""

from __future__ import annotations

import math
from typing import Any

from ... import lax
from ...numpy.elementwise import where3
from .. import special
from .family import Family, positive

_D = Family(__name__, "beta", positive, moves=False)


def _log(x: Any, beta: Any) -> Any:
    return lax.log(beta) - math.log(2) - lax.lgamma(1 / beta) - lax.pow(abs(x), beta)


def _cdf(x: Any, beta: Any) -> Any:
    half, size = 1 / beta, lax.pow(abs(x), beta)
    return where3(lax.lt(x, 0), special.gammaincc(half, size) / 2, 1 - special.gammaincc(half, size) / 2)


logpdf = _D.function("logpdf", _log)
pdf = _D.function("pdf", _log)
cdf = _D.function("cdf", _cdf)
