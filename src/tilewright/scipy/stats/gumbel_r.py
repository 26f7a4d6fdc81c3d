"""The Gumbel distribution of the greatest of many numbers.

>>> from tilewright.scipy import stats
>>> round(float(stats.gumbel_r.pdf(0.0)), 3), round(float(stats.gumbel_r.cdf(0.0)), 3)
(0.368, 0.368)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...numpy.elementwise import where3
from .. import special
from .family import INF, Family, log1mexp

if TYPE_CHECKING:
    from ...core.ir.array import Array


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
def _ppf(p: Any) -> Any:
    return -lax.log(-lax.log(p))


_ppf.defjvps(lambda t, out, p: t / abs(special.entr(p)))

logpdf: Callable[..., Array] = _D.function("logpdf", log_density)
pdf: Callable[..., Array] = _D.function("pdf", log_density)
cdf: Callable[..., Array] = _D.function("cdf", lambda y: lax.exp(-lax.exp(-y)))
logcdf: Callable[..., Array] = _D.function("logcdf", lambda y: -lax.exp(-y))
sf: Callable[..., Array] = _D.function("sf", sf_of)
logsf: Callable[..., Array] = _D.function("logsf", log_sf)
ppf: Callable[..., Array] = _D.function("ppf", _ppf, "p")

__all__ = ["cdf", "log_density", "log_sf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf", "sf_of"]
__dir__: Callable[[], list[str]] = __all__.copy
