"""The normal distribution between `a` and `b` standard deviations from `loc`.

>>> from tilewright.scipy import stats
>>> round(float(stats.truncnorm.pdf(0.0, -1.0, 1.0)), 3), round(float(stats.truncnorm.cdf(0.0, -1.0, 1.0)), 3)
(0.584, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...numpy.elementwise import where3
from .. import special
from .family import Family, log1mexp

if TYPE_CHECKING:
    from .signatures import OfXABLocated


def _inside(a: Array, b: Array) -> Any:
    """A point between the bounds, which may be infinite."""
    below, above = lax.eq(a, -math.inf), lax.eq(b, math.inf)
    return where3(below, where3(above, 0.0, b - 1), where3(above, a + 1, (a + b) / 2))


_D = Family(
    __name__, "a b", lambda a, b: a < b, (-1.0, 1.0), lambda a, b: (a, b), _inside,
    strong="logpdf pdf cdf logcdf sf logsf",
)  # fmt: skip


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal distribution's probability between `a` and `b`, from the side of the nearer tail."""
    right = lax.gt(a + b, 0)
    low, high = where3(right, -b, a), where3(right, -a, b)
    near, whole = special.log_ndtr(high), lax.eq(low, -math.inf)
    none = lax.eq(low, high)
    gap = where3(whole | none, -1.0, special.log_ndtr(where3(whole, 0.0, low)) - near)
    # Of no width the density times the width, whose logarithm has the right derivatives.
    return where3(none, lax.log(where3(whole, 0.0, high - low)), near + where3(whole, 0.0, log1mexp(gap)))


def _log(y: Any, a: Any, b: Any) -> Any:
    return -0.5 * (y * y + math.log(2 * math.pi)) - _log_mass(a, b)


def _logcdf(y: Any, a: Any, b: Any) -> Any:
    return _log_mass(a, y) - _log_mass(a, b)


def _logsf(y: Any, a: Any, b: Any) -> Any:
    return _log_mass(y, b) - _log_mass(a, b)


def _at(bound: Any, a: Any, b: Any) -> Any:
    """The density at a bound, 0 at infinity."""
    end = lax.eq(abs(bound), math.inf)
    return where3(end, 0.0, lax.exp(_log(where3(end, 0.0, bound), a, b)))


@custom_jvp
def _cdf(y: Any, a: Any, b: Any) -> Any:
    return lax.exp(_logcdf(y, a, b))


@custom_jvp
def _sf(y: Any, a: Any, b: Any) -> Any:
    return lax.exp(_logsf(y, a, b))


_cdf.defjvps(
    lambda t, out, y, a, b: t * lax.exp(_log(y, a, b)),
    lambda t, out, y, a, b: -t * _at(a, a, b) * _sf(y, a, b),
    lambda t, out, y, a, b: -t * _at(b, a, b) * out,
)
_sf.defjvps(
    lambda t, out, y, a, b: -t * lax.exp(_log(y, a, b)),
    lambda t, out, y, a, b: t * _at(a, a, b) * out,
    lambda t, out, y, a, b: t * _at(b, a, b) * _cdf(y, a, b),
)

logpdf: OfXABLocated = _D.function("logpdf", _log)
pdf: OfXABLocated = _D.function("pdf", _log)
cdf: OfXABLocated = _D.function("cdf", _cdf)
logcdf: OfXABLocated = _D.function("logcdf", _logcdf)
sf: OfXABLocated = _D.function("sf", _sf)
logsf: OfXABLocated = _D.function("logsf", _logsf)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
