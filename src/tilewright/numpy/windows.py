"""Window functions: Hann, Hamming, Blackman, Bartlett, Kaiser."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..core.support.call_errors import public
from .bessel import i0
from .create import arange, asarray, ones
from .elementwise import sqrt
from .util import Array, ArrayLike, canonical_dtype

_WINDOWS = {
    "hanning": "The Hann window of `M` points.",
    "hamming": "The Hamming window of `M` points.",
    "blackman": "The Blackman window of `M` points.",
    "bartlett": "The Bartlett (triangular) window of `M` points.",
}


def _window(name: str) -> Any:
    def window(M: int) -> Array:
        return asarray(getattr(np, name)(int(M)), dtype=canonical_dtype(float))

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"""{_WINDOWS[name]}

    >>> from tilewright import numpy as jnp
    >>> jnp.{name}(3).shape
    (3,)
    """
    return window


hanning: Any
hamming: Any
blackman: Any
bartlett: Any
hanning, hamming, blackman, bartlett = (public(_window(name)) for name in _WINDOWS)


@public
def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of `M` points with shape parameter `beta`.

    >>> from tilewright import numpy as jnp
    >>> jnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """

    M = operator.index(M)
    if M <= 1:
        return ones(M)
    centre = (M - 1) / 2
    n = arange(M, dtype=canonical_dtype(float))
    return i0(beta * sqrt(1 - ((n - centre) / centre) ** 2)) / i0(beta)


__all__ = [
    "bartlett", "blackman", "hamming", "hanning", "kaiser",
]  # fmt: skip
