"""`jax.scipy.integrate`'s names."""

from __future__ import annotations

from collections.abc import Callable

from ..numpy import trapezoid as _trapezoid
from ..numpy.util import Array, ArrayLike


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral of samples along an axis by the trapezoidal rule, at the places `x` or `dx` apart.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.integrate import trapezoid
    >>> print(trapezoid(jnp.array([1., 2., 3.])))
    4.0
    """
    return _trapezoid(y, x, dx, axis)


__all__ = ["trapezoid"]
__dir__: Callable[[], list[str]] = __all__.copy
