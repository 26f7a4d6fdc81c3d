"""`numpy.fft`: the frequencies and shifts of discrete transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ArgumentError
from .create import asarray
from .repeat import roll
from .util import Array, ArrayLike, DTypeLike, axes_of, default_float, dtype_argument, put, shape_of, value


def _frequencies(name: str) -> Any:
    def frequencies(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
        if n == 0:
            raise ArgumentError(f"{name} of a transform of length 0", "n is at least 1")
        kind = dtype_argument(dtype) or default_float()
        return put(asarray(getattr(np.fft, name)(n, 1.0).astype(kind)) / d, device)

    frequencies.__name__ = frequencies.__qualname__ = name
    kind = "real " if name == "rfftfreq" else ""
    frequencies.__doc__ = f"""The frequencies of a {kind}discrete Fourier transform of `n` samples, `d` apart.

    >>> from tilewright import numpy as jnp
    >>> jnp.fft.{name}(2).shape
    (2,)
    """
    return frequencies


fftfreq, rfftfreq = _frequencies("fftfreq"), _frequencies("rfftfreq")


def fftshift(x: ArrayLike, axes: Any = None) -> Array:
    """Move the zero frequency to the middle along axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.fft.fftshift(jnp.arange(4))
    Array([2, 3, 0, 1], dtype=int32)
    """
    x = value(x, "fftshift")
    dims = axes_of(axes, len(shape_of(x)))
    return roll(x, tuple(shape_of(x)[d] // 2 for d in dims), dims)


def ifftshift(x: ArrayLike, axes: Any = None) -> Array:
    """Move the zero frequency back to the front along axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.fft.ifftshift(jnp.arange(4))
    Array([2, 3, 0, 1], dtype=int32)
    """
    x = value(x, "ifftshift")
    dims = axes_of(axes, len(shape_of(x)))
    return roll(x, tuple(-(shape_of(x)[d] // 2) for d in dims), dims)
