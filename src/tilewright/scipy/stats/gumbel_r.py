"""The Gumbel distribution of the greatest of many numbers.

>>> from tilewright.scipy import stats
>>> round(float(stats.gumbel_r.pdf(0.0)), 3), round(float(stats.gumbel_r.cdf(0.0)), 3)
(0.368, 0.368)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...numpy.elementwise import where3
from .. import special
from .family import INF, Family, log1mexp

if TYPE_CHECKING:
    from .signatures import OfPLocated, OfXLocated


_D = Family(__name__, weak="logpdf pdf cdf logcdf logsf ppf")


def log_density(y: Any) -> Any:
    fall = lax.exp(-y)
    return where3(lax.eq(y, -INF), -fall, -y - fall)


def log_sf(y: Any) -> Any:
    end = lax.eq(y, INF)
    return where3(end, -y, log1mexp(-lax.exp(where3(end, 0.0, -y))))


def sf_of(y: Any) -> Any:
    return -lax.expm1(-lax.exp(-y))


@custom_jvp
def _ppf(p: Array) -> Any:
    return -lax.log(-lax.log(p))


_ppf.defjvps(lambda t, out, p: t / abs(special.entr(p)))

logpdf: OfXLocated = _D.function("logpdf", log_density)
pdf: OfXLocated = _D.function("pdf", log_density)
cdf: OfXLocated = _D.function("cdf", lambda y: lax.exp(-lax.exp(-y)))
logcdf: OfXLocated = _D.function("logcdf", lambda y: -lax.exp(-y))
sf: OfXLocated = _D.function("sf", sf_of)
logsf: OfXLocated = _D.function("logsf", log_sf)
ppf: OfPLocated = _D.function("ppf", _ppf, "p")

__all__ = ["cdf", "log_density", "log_sf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf", "sf_of"]
__dir__: Callable[[], list[str]] = __all__.copy
