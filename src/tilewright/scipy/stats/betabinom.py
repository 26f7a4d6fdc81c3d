"""The binomial distribution of `n` trials whose probability is beta distributed, with `a` and `b`.

>>> from tilewright.scipy import stats
>>> round(float(stats.betabinom.pmf(1, 3, 1.0, 1.0)), 3)
0.25
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import lax
from .. import special
from .binom import log_choices
from .family import Family, both

if TYPE_CHECKING:
    from .signatures import OfKNABAt


_D = Family(
    __name__, "n a b", lambda n, a, b: both(n >= 0, lax.eq(n, lax.floor(n)), a > 0, b > 0), (1.0, 1.0, 1.0),
    lambda n, a, b: (0.0, n), 0.0, whole=True,
)  # fmt: skip


def _log(k: Any, n: Any, a: Any, b: Any) -> Any:
    return log_choices(n, k) + special.betaln(k + a, n - k + b) - special.betaln(a, b)


logpmf: OfKNABAt = _D.function("logpmf", _log)
pmf: OfKNABAt = _D.function("pmf", _log)

__all__ = ["logpmf", "pmf"]
__dir__: Callable[[], list[str]] = __all__.copy
