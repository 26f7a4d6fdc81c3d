"""The beta distribution of numbers between 0 and 1, with exponents `a - 1` and `b - 1`.

>>> from tilewright.scipy import stats
>>> round(float(stats.beta.pdf(0.5, 2.0, 2.0)), 3), round(float(stats.beta.cdf(0.5, 2.0, 2.0)), 3)
(1.5, 0.5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from ...numpy.elementwise import where3
from .. import special
from .family import Family, both, positive
from .safe_powers import with_powers

if TYPE_CHECKING:
    from .signatures import OfXABLocated


_D = Family(__name__, "a b", positive, (2.0, 2.0), (0.0, 1.0), 0.5)


def _log(y: Any, a: Any, b: Any) -> Any:
    return special.xlogy(a - 1, y) + special.xlog1py(b - 1, -y) - special.betaln(a, b)


def _density(y: Any, a: Any, b: Any) -> Any:
    return with_powers(-special.betaln(a, b), y, a - 1, b - 1)


def _sf(y: Any, a: Any, b: Any) -> Any:
    return special.betainc(b, a, 1 - y)


def _log_share(y: Array, a: Any, b: Array) -> Any:
    """The logarithm of `betainc`: at 0 that of a power, at 1 minus a power where that is steep."""
    low, high = lax.eq(y, 0), both(lax.eq(y, 1), lax.lt(b, 1))
    inside = lax.log(special.betainc(a, b, where3(low | high, 0.5, y)))
    rest = lax.pow(where3(high, 1 - y, 1.0), b) * lax.exp(-special.betaln(a, b)) / b
    return where3(low, a * lax.log(y), where3(high, -rest, inside))


logpdf: OfXABLocated = _D.function("logpdf", _log)
pdf: OfXABLocated = _D.function("pdf", _density, powers=True)
cdf: OfXABLocated = _D.function("cdf", lambda y, a, b: special.betainc(a, b, y))
logcdf: OfXABLocated = _D.function("logcdf", _log_share)
sf: OfXABLocated = _D.function("sf", _sf)
logsf: OfXABLocated = _D.function("logsf", lambda y, a, b: _log_share(1 - y, b, a))

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
