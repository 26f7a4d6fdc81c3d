"""The Cauchy distribution wrapped around a circle, of angles from 0 to two pi.

>>> from tilewright.scipy import stats
>>> round(float(stats.wrapcauchy.pdf(0.0, 0.5)), 3)
0.477
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from .family import Family

if TYPE_CHECKING:
    from .signatures import OfXC


_D = Family(__name__, "c", lambda c: (c > 0) & (c < 1), (0.5,), (0.0, 2 * math.pi), 1.0, moves=False, weak="logpdf pdf")


def _log(x: Any, c: Array) -> Any:
    half = lax.sin(x / 2)
    gap = (1 - c) * (1 - c) + 4 * c * half * half  # 1 + c^2 - 2 c cos(x)
    return lax.log1p(-c) + lax.log1p(c) - math.log(2 * math.pi) - lax.log(gap)


logpdf: OfXC = _D.function("logpdf", _log)
pdf: OfXC = _D.function("pdf", _log)

__all__ = ["logpdf", "pdf"]
__dir__: Callable[[], list[str]] = __all__.copy
