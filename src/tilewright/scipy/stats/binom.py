"""The binomial distribution: how many of `n` trials succeed, each with probability `p`.

>>> from tilewright.scipy import stats
>>> round(float(stats.binom.pmf(2, 4, 0.5)), 3)
0.375
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from ...numpy.elementwise import where3
from .. import special
from .family import Family, both
from .safe_powers import with_powers

if TYPE_CHECKING:
    from .signatures import OfKNPAt


_D = Family(
    __name__, "n p", lambda n, p: both(n >= 0, lax.eq(n, lax.floor(n)), p >= 0, p <= 1), (1.0, 0.5),
    lambda n, p: (0.0, n), 0.0, whole=True, weak="pmf logpmf",
)  # fmt: skip


def log_choices(n: Any, k: Any) -> Any:
    """The logarithm of the number of ways to choose `k` of `n`."""
    out = -lax.log1p(n) - special.betaln(n - k + 1, k + 1)
    one_way = lax.bitwise_or(lax.eq(k, 0), lax.eq(k, n))  # of which the value is 0, but not the derivatives
    return out - lax.stop_gradient(where3(one_way, out, 0.0))


def _log(k: Any, n: Any, p: Any) -> Any:
    return log_choices(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p)


def _probability(k: Any, n: Any, p: Any) -> Any:
    return with_powers(log_choices(n, k), p, k, n - k)


logpmf: OfKNPAt = _D.function("logpmf", _log)
pmf: OfKNPAt = _D.function("pmf", _probability, powers=True)

__all__ = ["log_choices", "logpmf", "pmf"]
__dir__: Callable[[], list[str]] = __all__.copy
