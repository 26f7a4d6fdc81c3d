"""Bessel functions of the first kind and whole order."""

from __future__ import annotations

import operator
from typing import Any

from ... import lax
from ...core.support.errors import ArgumentError, DtypeError
from ...numpy.elementwise import where3
from ...numpy.util import Array, ArrayLike, dtype_of, inline_jit, is_complex, promote_dtypes_inexact, shape_of, value


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of orders 0 to `v`, along a new first axis, by recurrence backwards from order `n_iter`.

    `n_iter` has to be well above `abs(z)` and `v`. J. C. P. Miller's algorithm (DLMF 3.6(iii)).

    Raises:
      DtypeError: complex numbers.
      ArgumentError: a negative order, or one above `n_iter`.

    >>> from tilewright.scipy import special
    >>> special.bessel_jn(1.0, v=1)
    Array([0.7652, 0.4401], dtype=float32)
    """
    order, start = operator.index(v), operator.index(n_iter)
    if not 0 <= order <= start:
        raise ArgumentError(f"bessel_jn: v={v} with n_iter={n_iter}", "0 <= v <= n_iter")
    return _bessel_jn(z, order, start)


@inline_jit("order", "start")
def _bessel_jn(z: Any, order: int, start: int) -> Array:
    (z,) = promote_dtypes_inexact(value(z, "bessel_jn"))
    if is_complex(dtype_of(z)):
        raise DtypeError(f"bessel_jn of {dtype_of(z)}", "pass real numbers")
    zero = lax.eq(z, 0)
    safe = where3(zero, 1.0, z)

    # The order from which on nothing is left of the function, to the last digit: larger ones would only overflow.
    double = dtype_of(z).itemsize == 8
    size = lax.ceil(abs(safe) + 6 * lax.cbrt(abs(safe))) + (30 if double else 14)
    first_order = lax.min(lax.max(size, order + 8.0), float(start))
    seed = 1e-280 if double else 1e-30

    def step(carry: Any, k: Array) -> Any:
        above, here, total = carry
        here = where3(lax.eq(first_order, k), seed, here)
        below = 2 * (k + 1) * here / safe - above
        even = lax.eq(lax.rem(k, lax.full_like(k, 2)), 0)
        return (here, below, where3(even, total + 2 * below, total)), below

    orders = lax.iota(dtype_of(z), start + 1)
    nothing = safe * 0
    (_, first, total), found = lax.scan(step, (nothing, nothing, nothing), orders, reverse=True)
    out = found[: order + 1] / lax.expand_dims(total - first, (0,))
    at_zero = lax.eq(lax.expand_dims(orders[: order + 1], tuple(range(1, len(shape_of(z)) + 1))), 0)
    return where3(lax.expand_dims(zero, (0,)), where3(at_zero, 1.0, 0.0), out)


__all__ = ["bessel_jn"]
