"""The Bernoulli distribution: 1 with probability `p`, else 0.

>>> from tilewright.scipy import stats
>>> float(stats.bernoulli.pmf(1, 0.25)), float(stats.bernoulli.cdf(0, 0.25)), float(stats.bernoulli.ppf(0.9, 0.25))
(0.25, 0.75, 1.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...numpy.elementwise import where3
from ...numpy.util import dtype_of
from .. import special
from .family import Family
from .safe_powers import with_powers

if TYPE_CHECKING:
    from ...core.ir.array import Array
    from .signatures import OfKP, OfKPAt


_D = Family(__name__, "p", lambda p: (p >= 0) & (p <= 1), (0.5,), (0.0, 1.0), 0.0, whole=True)


def _log(k: Any, p: Any) -> Any:
    return special.xlogy(k, p) + special.xlog1py(1 - k, -p)


logpmf: OfKPAt = _D.function("logpmf", _log)
pmf: OfKPAt = _D.function("pmf", lambda k, p: with_powers(k * 0, p, k, 1 - k), powers=True)
cdf: OfKP = _D.function("cdf", lambda k, p: where3(k < 1, 1 - p, 1.0), moves=False)
ppf: Callable[..., Array]
ppf = _D.function("ppf", lambda q, p: lax.convert_element_type(q > 1 - p, dtype_of(q)), moves=False)

__all__ = ["cdf", "logpmf", "pmf", "ppf"]
__dir__: Callable[[], list[str]] = __all__.copy
