"""`scipy.fft`: discrete cosine transforms of any axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import lax
from ..core.ir.static_ints import integers
from ..core.support.errors import ArgumentError, plural
from ..numpy.elementwise import imag, real
from ..numpy.fft import fft, irfft, rfft
from ..numpy.shape import moveaxis
from ..numpy.util import (
    Array,
    ArrayLike,
    astype,
    axes_of,
    dtype_of,
    inline_jit,
    is_complex,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _phases(x: Array, count: int, start: float) -> Array:
    """`exp(-i pi (k + start) / (2 n))` for `count` whole numbers k along the last axis, which has n points."""
    dtype, angles = dtype_of(x), -math.pi / (2 * shape_of(x)[-1]) * (np.arange(count) + start)
    phases = lax.exp(lax.complex(np.zeros(count, dtype), angles.astype(dtype)))
    return lax.expand_dims(phases, range(len(shape_of(x)) - 1))


def _first(x: Array) -> Array:
    """The transform of type I: of the numbers and their mirror image, in which the ends come once."""
    n = shape_of(x)[-1]
    if n < 2:
        raise ArgumentError(f"a cosine transform of type 1 of {plural(n, 'point')}", "it has two or more")
    return real(rfft(lax.concatenate([x, lax.rev(x[..., 1:-1], (len(shape_of(x)) - 1,))], len(shape_of(x)) - 1)))


def _second(x: Array) -> Array:
    """Type II, by a transform of as many points: J. Makhoul, "A fast cosine transform in one and two dimensions",
    IEEE Transactions on Acoustics, Speech and Signal Processing 28, 1980."""
    last, n = len(shape_of(x)) - 1, shape_of(x)[-1]
    halves = lax.concatenate([x[..., ::2], lax.rev(x[..., 1::2], (last,))], last)
    turned = rfft(halves) * _phases(x, n // 2 + 1, 0) * 2
    return lax.concatenate([real(turned), -lax.rev(imag(turned)[..., 1 : (n + 1) // 2], (last,))], last)


def _third(x: Array) -> Array:
    """Type III, the inverse of type II but for the number of points: its steps in reverse."""
    last, n = len(shape_of(x)) - 1, shape_of(x)[-1]
    reversed_ = lax.concatenate([x[..., :1] * 0, lax.rev(x[..., 1:], (last,))], last)
    half = lax.complex(x, -reversed_)[..., : n // 2 + 1] * lax.conj(_phases(x, n // 2 + 1, 0))
    halves = irfft(half, n) * float(n)
    even = (n + 1) // 2
    odd = lax.rev(halves[..., even:], (last,))
    odd = lax.pad(odd, np.zeros((), dtype_of(x))[()], [(0, 0, 0)] * last + [(0, even - n // 2, 0)])
    pairs = lax.concatenate([lax.expand_dims(v, (last + 1,)) for v in (halves[..., :even], odd)], last + 1)
    return lax.reshape(pairs, (*shape_of(x)[:-1], 2 * even))[..., :n]


def _fourth(x: Array) -> Array:
    """Type IV, by a transform of twice as many points."""
    n, turn = shape_of(x)[-1], _phases(x, shape_of(x)[-1], 0)
    long = fft(astype(x, dtype_of(turn)) * turn, 2 * n)[..., :n]
    return 2 * real(long * _phases(x, n, 0.5))


_TYPES: dict[int, Callable[[Array], Array]] = {1: _first, 2: _second, 3: _third, 4: _fourth}


def _scaled_ends(x: Array, ends: Sequence[int], factor: float) -> Array:
    scale = np.ones(shape_of(x)[-1], dtype_of(x))
    scale[list(ends)] *= factor
    return x * lax.expand_dims(scale, range(len(shape_of(x)) - 1))


def _along(x: Array, kind: int, norm: str | None, inverse: bool) -> Array:
    """One cosine transform of the last axis."""
    if is_complex(dtype_of(x)):
        return lax.complex(_along(real(x), kind, norm, inverse), _along(imag(x), kind, norm, inverse))
    n = shape_of(x)[-1]
    kind = _INVERSE[kind] if inverse else kind
    points = 2 * (n - 1) if kind == 1 else 2 * n
    if norm == "ortho":
        before, after = {1: ((0, -1), (0, -1)), 2: ((), (0,)), 3: ((0,), ()), 4: ((), ())}[kind]
        x = _scaled_ends(x, before, math.sqrt(2)) if before else x
        out = _TYPES[kind](x) * (1 / math.sqrt(points))
        return _scaled_ends(out, after, math.sqrt(0.5)) if after else out
    out = _TYPES[kind](x)
    return out * (1 / points) if inverse is (norm != "forward") else out


def _transformed(name: str, x: Any, kind: Any, s: Any, axes: Any, norm: Any, inverse: bool) -> Array:
    x = strong(*promote_dtypes_inexact(value(x, name)))
    x = lax.convert_element_type(x, np.float32) if dtype_of(x).itemsize < 4 else x
    if kind not in _TYPES:
        raise ArgumentError(f"{name}: type={kind!r}", "1, 2, 3 or 4")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ArgumentError(f"{name}: norm={norm!r}", 'one of "backward", "ortho", "forward"')
    rank = len(shape_of(x))
    if s is not None and axes is not None and len(s) != len(axes):
        raise ArgumentError(f"{name}: {plural(len(s), 'size')} for {plural(len(axes), 'axis')}",
                            "one size for each axis")  # fmt: skip
    dims = axes_of(range(rank)[rank - len(s) :] if axes is None and s is not None else axes, rank)
    sizes = [shape_of(x)[d] for d in dims] if s is None else integers(s, "sizes", name)
    for d, n in zip(dims, sizes, strict=True):
        n = shape_of(x)[d] if n == -1 and name.endswith("n") else n
        if n < 1:
            raise ArgumentError(f"{name}: a transform of {n} data points", "transform 1 point or more")
        x = moveaxis(x, d, -1)
        change = (0, n - shape_of(x)[-1], 0)
        x = lax.pad(x, np.zeros((), dtype_of(x))[()], [(0, 0, 0)] * (rank - 1) + [change]) if change[1] else x
        x = moveaxis(_along(x, kind, norm, inverse), -1, d)
    return x


@inline_jit("type", "n", "axis", "norm")
def dct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:  # noqa: A002
    """The discrete cosine transform of a type from 1 to 4 along an axis, cut or padded with zeros to `n` points.

    `norm`: "backward" (the inverse divides by twice the number of points), "forward", or "ortho" (orthogonal).
    The two parts of complex numbers are transformed alike.

    Raises:
      ArgumentError: no such type, norm or axis, or no points.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import fft
    >>> fft.dct(jnp.array([1., 1.]))
    Array([4., 0.], dtype=float32)
    """
    return _transformed("dct", x, type, None if n is None else (n,), (axis,), norm, False)


@inline_jit("type", "n", "axis", "norm")
def idct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:  # noqa: A002
    """The inverse of `dct`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import fft
    >>> fft.idct(jnp.array([4., 0.]))
    Array([1., 1.], dtype=float32)
    """
    return _transformed("idct", x, type, None if n is None else (n,), (axis,), norm, True)


@inline_jit("type", "s", "axes", "norm")
def dctn(
    x: ArrayLike, type: int = 2, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None  # noqa: A002
) -> Array:  # fmt: skip
    """`dct` along several axes (all; with `s` the last ones), cut or padded with zeros to the sizes `s` (-1: as it is).

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import fft
    >>> fft.dctn(jnp.ones((2, 2)))[0]
    Array([16.,  0.], dtype=float32)
    """
    return _transformed("dctn", x, type, s, axes, norm, False)


@inline_jit("type", "s", "axes", "norm")
def idctn(
    x: ArrayLike, type: int = 2, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None  # noqa: A002
) -> Array:  # fmt: skip
    """The inverse of `dctn`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import fft
    >>> fft.idctn(jnp.array([[16., 0.], [0., 0.]]))[0]
    Array([1., 1.], dtype=float32)
    """
    return _transformed("idctn", x, type, s, axes, norm, True)


__all__ = ["dct", "dctn", "idct", "idctn"]
__dir__: Callable[[], list[str]] = __all__.copy
