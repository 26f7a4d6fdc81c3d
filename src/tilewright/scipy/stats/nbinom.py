"""The negative binomial distribution: how many trials fail before `n` succeed, each with probability `p`.

>>> from tilewright.scipy import stats
>>> round(float(stats.nbinom.pmf(1, 2, 0.5)), 3)
0.25
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...core.ir.array import Array
from .. import special
from .family import INF, Family, both
from .safe_powers import with_powers

if TYPE_CHECKING:
    from .signatures import OfKNPAt


_D = Family(__name__, "n p", lambda n, p: both(n > 0, p > 0, p <= 1), (1.0, 0.5), (0.0, INF), 0.0, whole=True)


def _log_certain(k: Any, n: Any, p: Array) -> Any:
    return -lax.log(n + k) - special.betaln(n, k + 1) + n * lax.log(p)


def _log(k: Any, n: Any, p: Any) -> Any:
    return _log_certain(k, n, p) + special.xlog1py(k, -p)


def _probability(k: Any, n: Any, p: Any) -> Any:
    return with_powers(_log_certain(k, n, p), p, of_rest=k)


logpmf: OfKNPAt = _D.function("logpmf", _log)
pmf: OfKNPAt = _D.function("pmf", _probability, powers=True)

__all__ = ["logpmf", "pmf"]
__dir__: Callable[[], list[str]] = __all__.copy
