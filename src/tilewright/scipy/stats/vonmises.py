"""The von Mises distribution of angles around 0, narrower with greater `kappa`.

>>> from tilewright.scipy import stats
>>> round(float(stats.vonmises.pdf(0.0, 1.0)), 3)
0.342
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from ...numpy.elementwise import where3
from .. import special
from .family import Family

if TYPE_CHECKING:
    from .signatures import OfXKappa


_D = Family(__name__, "kappa", lambda kappa: kappa >= 0, (1.0,), moves=False, weak="logpdf pdf", tails="none")


def _log_i0e(kappa: Any) -> Any:
    """Of numbers from 0 on; the scaled function itself has a kink at 0."""
    small = kappa < 1
    near = where3(small, kappa, 0.0)
    return where3(small, lax.log(special.i0(near)) - near, lax.log(lax.bessel_i0e(where3(small, 1.0, kappa))))


def _log(x: Array, kappa: Any) -> Any:
    return kappa * (lax.cos(x) - 1) - math.log(2 * math.pi) - _log_i0e(kappa)


logpdf: OfXKappa = _D.function("logpdf", _log)
pdf: OfXKappa = _D.function("pdf", _log)

__all__ = ["logpdf", "pdf"]
__dir__: Callable[[], list[str]] = __all__.copy
