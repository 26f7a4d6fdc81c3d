"""Student's distribution with `df` degrees of freedom.

>>> from tilewright.scipy import stats
>>> round(float(stats.t.pdf(0.0, 1.0)), 3)
0.318
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from .family import Family, positive

if TYPE_CHECKING:
    from .signatures import OfXDfLocated


_D = Family(__name__, "df", positive, (1.0,), tails="heavy")


def _log(y: Any, df: Any) -> Any:
    half = df / 2
    constant = lax.lgamma(half + 0.5) - lax.lgamma(half) - 0.5 * lax.log(math.pi * df)
    return constant - (half + 0.5) * lax.log1p(y * y / df)


logpdf: OfXDfLocated = _D.function("logpdf", _log)
pdf: OfXDfLocated = _D.function("pdf", _log)

__all__ = ["logpdf", "pdf"]
__dir__: Callable[[], list[str]] = __all__.copy
