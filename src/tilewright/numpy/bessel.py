"""Modified Bessel functions of the first kind, of order 0 and 1, with derivatives that are right everywhere."""

from __future__ import annotations

import math
from typing import Any

from .. import lax
from ..core.primitives.custom.custom_derivatives import custom_jvp
from .elementwise import where3
from .util import Array, ArrayLike, inline_jit, promote_dtypes_inexact, value


@custom_jvp
def _i0(x: Array) -> Array:
    size = lax.abs(x)
    return where3(lax.eq(size, math.inf), size, lax.exp(size) * lax.bessel_i0e(x))


@custom_jvp
def _i1(x: Array) -> Array:
    size = lax.abs(x)
    return where3(lax.eq(size, math.inf), x, lax.exp(size) * lax.bessel_i1e(x))


def _i1_slope(t: Any, out: Any, x: Array) -> Array:
    """I1' = I0 - I1 / x (DLMF 10.29.2); close to 0 the quotient by its power series, at infinity without it."""
    close, infinite = lax.lt(lax.abs(x), 0.1), lax.eq(lax.abs(x), math.inf)
    square = lax.square(where3(close, x, 0.0))
    series = 0.5 + square / 16 * (1 + square / 24 * (1 + square / 48))
    safe = where3(close | infinite, 1.0, x)
    return t * (_i0(x) - where3(close, series, where3(infinite, 0.0, _i1(safe) / safe)))


_i0.defjvps(lambda t, out, x: t * _i1(x))
_i1.defjvps(_i1_slope)


@inline_jit()
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, order 0.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.i0(0.0))
    1.0
    """
    return _i0(*promote_dtypes_inexact(value(x, "i0")))


@inline_jit()
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, order 1.

    >>> from tilewright.scipy import special
    >>> float(special.i1(0.0))
    0.0
    """
    return _i1(*promote_dtypes_inexact(value(x, "i1")))


__all__ = [
    "i0",
]  # fmt: skip
