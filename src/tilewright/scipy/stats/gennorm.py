"""The generalised normal distribution, with density proportional to `exp(-abs(x) ** beta)`.

>>> from tilewright.scipy import stats
>>> round(float(stats.gennorm.pdf(0.0, 2.0)), 3), round(float(stats.gennorm.cdf(0.0, 2.0)), 3)
(0.564, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.api.transformations import jvp
from ...core.ir.array import Array
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...numpy.elementwise import where3
from .. import special
from .family import Family, positive

if TYPE_CHECKING:
    from .signatures import OfXBeta


_D = Family(__name__, "beta", positive, (2.0,), moves=False, weak="logpdf pdf cdf")


def _log(x: Any, beta: Array) -> Any:
    return lax.log(beta) - math.log(2) - lax.lgamma(1 / beta) - lax.pow(abs(x), beta)


@custom_jvp
def _cdf(x: Array, beta: Any) -> Any:
    tail = special.gammaincc(1 / beta, lax.pow(abs(x), beta)) / 2
    return where3(lax.lt(x, 0), tail, 1 - tail)


def _cdf_by_beta(t: Any, out: Any, x: Array, beta: Array) -> Any:
    middle = lax.eq(x, 0)
    size = where3(middle, 1.0, abs(x))
    tail = jvp(lambda b: special.gammaincc(1 / b, lax.pow(size, b)) / 2, (beta,), (lax.full_like(beta, 1),))[1]
    return t * where3(middle, 0.0, -lax.sign(x) * tail)


_cdf.defjvps(lambda t, out, x, beta: t * lax.exp(_log(x, beta)), _cdf_by_beta)


logpdf: OfXBeta = _D.function("logpdf", _log)
pdf: OfXBeta = _D.function("pdf", _log)
cdf: OfXBeta = _D.function("cdf", _cdf)

__all__ = ["cdf", "logpdf", "pdf"]
__dir__: Callable[[], list[str]] = __all__.copy
