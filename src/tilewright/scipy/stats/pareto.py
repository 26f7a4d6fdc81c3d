"""The Pareto distribution of numbers from `loc + scale` on, whose density falls with the power `b + 1`.

>>> from tilewright.scipy import stats
>>> round(float(stats.pareto.pdf(2.0, 1.0)), 3), round(float(stats.pareto.cdf(2.0, 1.0)), 3)
(0.25, 0.5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from ...numpy.elementwise import where3
from .family import INF, Family, log1mexp, positive

if TYPE_CHECKING:
    from .signatures import OfQBLocated, OfXBLocated


_D = Family(__name__, "b", positive, (1.0,), (1.0, INF), 2.0, weak="logcdf")


def _log_cdf(y: Array, b: Array) -> Any:
    """`log(1 - exp(-u))` of `u = b log(y)`; where that is 0 by its first powers, with the right derivatives by `b`."""
    end = lax.eq(y, 1)
    log = lax.log(y)
    small = where3(end, b * log, 0.0)
    first = lax.log(b) + lax.log(where3(end, log, 1.0)) - small / 2 + small * small / 24
    return where3(end, first, log1mexp(where3(end, -1.0, -b * log)))


logpdf: OfXBLocated = _D.function("logpdf", lambda y, b: lax.log(b) - (b + 1) * lax.log(y))
pdf: OfXBLocated = _D.function("pdf", lambda y, b: lax.log(b) - (b + 1) * lax.log(y))
cdf: OfXBLocated = _D.function("cdf", lambda y, b: -lax.expm1(-b * lax.log(y)))
logcdf: OfXBLocated = _D.function("logcdf", _log_cdf)
sf: OfXBLocated = _D.function("sf", lambda y, b: lax.exp(-b * lax.log(y)))
logsf: OfXBLocated = _D.function("logsf", lambda y, b: -b * lax.log(y))
ppf: OfQBLocated = _D.function("ppf", lambda q, b: lax.exp(-lax.log1p(-q) / b))

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
