"""The Gumbel distribution of the least of many numbers: the mirror image of that of the greatest.

>>> from tilewright.scipy import stats
>>> round(float(stats.gumbel_l.pdf(0.0)), 3), round(float(stats.gumbel_l.cdf(0.0)), 3)
(0.368, 0.632)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.primitives.custom.custom_derivatives import custom_jvp
from .. import special
from . import gumbel_r
from .family import Family

if TYPE_CHECKING:
    from .signatures import OfPLocated, OfXLocated


_D = Family(__name__, weak="logpdf pdf cdf logcdf sf logsf ppf")


@custom_jvp
def _ppf(p: Any) -> Any:
    return lax.log(-lax.log1p(-p))


_ppf.defjvps(lambda t, out, p: t / abs(-special.xlog1py(1 - p, -p)))

logpdf: OfXLocated = _D.function("logpdf", lambda y: gumbel_r.log_density(-y))
pdf: OfXLocated = _D.function("pdf", lambda y: gumbel_r.log_density(-y))
cdf: OfXLocated = _D.function("cdf", lambda y: gumbel_r.sf_of(-y))
logcdf: OfXLocated = _D.function("logcdf", lambda y: gumbel_r.log_sf(-y))
sf: OfXLocated = _D.function("sf", lambda y: lax.exp(-lax.exp(y)))
logsf: OfXLocated = _D.function("logsf", lambda y: -lax.exp(y))
ppf: OfPLocated = _D.function("ppf", _ppf, "p")

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__: Callable[[], list[str]] = __all__.copy
