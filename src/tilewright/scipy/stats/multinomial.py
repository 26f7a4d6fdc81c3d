"""The multinomial distribution: how often each of some outcomes comes in `n` trials, with probabilities `p`.

>>> from tilewright import numpy as jnp
>>> from tilewright.scipy import stats
>>> round(float(stats.multinomial.pmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5]))), 3)
0.5
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import lax
from ...core.support.errors import DtypeError, ShapeError
from ...numpy.elementwise import where3
from ...numpy.reductions import all as _all
from ...numpy.reductions import prod as _prod
from ...numpy.reductions import sum as _sum
from ...numpy.util import (
    Array,
    ArrayLike,
    astype,
    dtype_of,
    inline_jit,
    is_integer,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)
from .. import special
from .safe_powers import split_power


@inline_jit()
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the counts `x` (..., k), for a number of trials `n` and `p` (..., k).

    -inf where the counts do not sum to `n` or one is negative, NaN where a probability is not between 0 and 1.

    Raises:
      DtypeError: counts or trials that are not integers. ShapeError: counts or probabilities that are a number.
    """
    valid, legal, x, p, constant = _parts(x, n, p)
    return where3(valid, where3(legal, _sum(special.xlogy(x, p), -1) + constant, -math.inf), math.nan)


def _parts(x: Any, n: Any, p: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Whether `p` is valid, whether counts are legal, both, and the logarithm of the number of orders of the trials."""
    x, n = promote_dtypes(value(x, "logpmf"), value(n, "logpmf"))
    if not is_integer(dtype_of(x)):
        raise DtypeError(f"multinomial counts of dtype {dtype_of(x)}", "cast them with `astype(int)`")
    (p,) = promote_dtypes_inexact(value(p, "logpmf"))
    if not shape_of(x) or not shape_of(p):
        raise ShapeError(f"multinomial counts of shape {shape_of(x)} and probabilities of shape {shape_of(p)}",
                         "give one for each outcome, along the last axis")  # fmt: skip
    legal = (_sum(x, -1) == n) & _all(x >= 0, -1)
    x, n, p = (astype(strong(v), dtype_of(p)) for v in (where3(x < 0, 0, x), n, p))
    return _all((p >= 0) & (p <= 1), -1), legal, x, p, lax.lgamma(n + 1) - _sum(lax.lgamma(x + 1), -1)


@inline_jit()
def pmf(x: Any, n: Any, p: Any) -> Array:
    """The probability: see `logpmf`."""
    valid, legal, x, p, constant = _parts(x, n, p)
    log, factor = split_power(p, x)
    out = lax.exp(_sum(log, -1) + constant) * _prod(factor, -1)
    return where3(valid, where3(legal, out, 0.0), math.nan)

__all__ = ["logpmf", "pmf"]
__dir__: Callable[[], list[str]] = __all__.copy
