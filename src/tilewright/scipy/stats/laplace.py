"""The Laplace distribution with median `loc`.

>>> from tilewright.scipy import stats
>>> float(stats.laplace.pdf(0.0)), float(stats.laplace.cdf(0.0))
(0.5, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import lax
from ...numpy.elementwise import where3
from .family import Family

if TYPE_CHECKING:
    from ...core.ir.array import Array
    from .signatures import OfXLocated


_D = Family(__name__)
logpdf: OfXLocated = _D.function("logpdf", lambda y: -abs(y) - math.log(2))
pdf: OfXLocated = _D.function("pdf", lambda y: -abs(y) - math.log(2))
cdf: Callable[..., Array]
cdf = _D.function("cdf", lambda y: where3(lax.lt(y, 0), lax.exp(-abs(y)) / 2, 1 - lax.exp(-abs(y)) / 2))

__all__ = ["cdf", "logpdf", "pdf"]
__dir__: Callable[[], list[str]] = __all__.copy
