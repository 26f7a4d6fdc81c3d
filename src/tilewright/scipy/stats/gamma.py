"""The gamma distribution of positive numbers, with exponent `a - 1`.

>>> from tilewright.scipy import stats
>>> round(float(stats.gamma.pdf(1.0, 2.0)), 3), round(float(stats.gamma.cdf(1.0, 2.0)), 3)
(0.368, 0.264)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import ArrayLike
from ...numpy.elementwise import where3
from .. import special
from .family import INF, Family, both, positive
from .safe_powers import with_powers

if TYPE_CHECKING:
    from .signatures import OfXALocated


_D = Family(__name__, "a", positive, (2.0,), (0.0, INF), 1.0, weak="sf logsf")


def log_density(y: Any, a: Any) -> Any:
    end = lax.eq(y, INF)
    safe = where3(end, 1.0, y)
    return where3(end, -y, special.xlogy(a - 1, safe) - safe - lax.lgamma(a))


def density(y: Any, a: Any) -> Any:
    return with_powers(-y - lax.lgamma(a), y, a - 1)


def log_share(y: ArrayLike, a: ArrayLike) -> Any:
    """The logarithm of `gammainc`, near 0 that of a power."""
    end = lax.eq(y, 0)
    return where3(end, a * lax.log(y), lax.log(special.gammainc(a, where3(end, 1.0, y))))


def log_rest(y: ArrayLike, a: ArrayLike) -> Any:
    """The logarithm of `gammaincc`, at 0 minus a power where that is steep."""
    end = both(lax.eq(y, 0), lax.lt(a, 1))
    power = lax.pow(where3(end, y, 1.0), a) * lax.exp(-lax.lgamma(a + 1))
    return where3(end, -power, lax.log(special.gammaincc(a, where3(end, 1.0, y))))


logpdf: OfXALocated = _D.function("logpdf", log_density)
pdf: OfXALocated = _D.function("pdf", density, powers=True)
cdf: OfXALocated = _D.function("cdf", lambda y, a: special.gammainc(a, y))
logcdf: OfXALocated = _D.function("logcdf", log_share)
sf: OfXALocated = _D.function("sf", lambda y, a: special.gammaincc(a, y))
logsf: OfXALocated = _D.function("logsf", log_rest)

__all__ = ["cdf", "density", "log_density", "log_rest", "log_share", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
