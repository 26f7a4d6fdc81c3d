"""The geometric distribution: which trial is the first to succeed, each with probability `p`.

>>> from tilewright.scipy import stats
>>> round(float(stats.geom.pmf(2, 0.25)), 4)
0.1875
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from .. import special
from .family import INF, Family
from .safe_powers import with_powers

if TYPE_CHECKING:
    from .signatures import OfKPAt


_D = Family(__name__, "p", lambda p: (p > 0) & (p <= 1), (0.5,), (1.0, INF), 1.0, whole=True)


def _log(k: Any, p: Array) -> Any:
    return special.xlog1py(k - 1, -p) + lax.log(p)


logpmf: OfKPAt = _D.function("logpmf", _log)
pmf: OfKPAt = _D.function("pmf", lambda k, p: with_powers(lax.log(p), p, of_rest=k - 1), powers=True)

__all__ = ["logpmf", "pmf"]
__dir__: Callable[[], list[str]] = __all__.copy
