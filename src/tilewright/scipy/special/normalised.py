"""Shares of exponentials, and the logarithm of their sum: those of `tilewright.nn` under SciPy's signatures."""

from __future__ import annotations

from ...core.ir.array import Axis
from ...nn.normalisation import log_softmax as _log_softmax
from ...nn.normalisation import logsumexp
from ...nn.normalisation import softmax as _softmax
from ...numpy.util import Array, ArrayLike


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """`exp(x)` divided by its sum over axes, all by default.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import special
    >>> special.softmax(jnp.array([0., 0.]))
    Array([0.5, 0.5], dtype=float32)
    """
    return _softmax(x, axis)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """The logarithm of `softmax`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import special
    >>> special.log_softmax(jnp.array([3.]))
    Array([0.], dtype=float32)
    """
    return _log_softmax(x, axis)


__all__ = ["log_softmax", "logsumexp", "softmax"]
