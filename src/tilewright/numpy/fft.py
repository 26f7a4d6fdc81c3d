"""`numpy.fft`: discrete Fourier transforms of any axes, and their frequencies and shifts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import lax
from ..core.ir.static_ints import integer, integers
from ..core.primitives.contraction.fft import FftType
from ..core.primitives.contraction.fft import fft as transformed
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, plural
from .create import asarray
from .elementwise import conj
from .manipulation.roll import roll
from .shape import moveaxis
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    astype,
    axes_of,
    default_float,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_complex,
    put,
    shape_of,
    value,
)

_Norm = str | None

# ---------------------------------------------------------------------------- transforms

_FORWARD = (FftType.FFT, FftType.RFFT)
_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _sizes(name: str, kind: FftType, shape: Sequence[int], s: Any, axes: Sequence[int]) -> tuple[int, ...]:
    """How many points each axis is transformed with; -1 in `s` stands for those that there are."""
    present = [shape[d] for d in axes]
    if kind is FftType.IRFFT:
        present[-1] = 2 * (present[-1] - 1)
    given = present if s is None else integers(s, "sizes", name)
    sizes = tuple(own if n == -1 else n for n, own in zip(given, present, strict=True))
    if min(sizes) < 1:
        raise ArgumentError(f"{name}: a transform of {min(sizes)} data points", "transform 1 point or more")
    return sizes


def _fitted(x: Array, lengths: Sequence[int]) -> Array:
    """The last axes cut, or padded with zeros, to some lengths."""
    shape = shape_of(x)
    lead = len(shape) - len(lengths)
    if shape[lead:] == tuple(lengths):
        return x
    config = [(0, 0, 0)] * lead + [(0, n - old, 0) for old, n in zip(shape[lead:], lengths, strict=True)]
    return lax.pad(x, np.zeros((), dtype_of(x))[()], config)


def _all(x: Array, kind: FftType, sizes: tuple[int, ...]) -> Array:
    """A transform of the last axes, however many: XLA takes three at once."""
    if len(sizes) <= 3:
        return transformed(x, kind, sizes)
    rank, rest = len(shape_of(x)), sizes[:-3]
    there, here = range(rank - len(sizes), rank - 3), range(rank - len(rest), rank)

    def others(x: Array) -> Array:
        inner = FftType.FFT if kind in _FORWARD else FftType.IFFT
        return moveaxis(_all(moveaxis(x, tuple(there), tuple(here)), inner, rest), tuple(here), tuple(there))

    return others(transformed(x, kind, sizes[-3:])) if kind in _FORWARD else transformed(others(x), kind, sizes[-3:])


def _scaled(name: str, x: Array, forward: bool, norm: _Norm, points: int) -> Array:
    """The result under another convention than that only the inverse divides by the number of points."""
    if norm not in _SWAPPED:
        raise ArgumentError(f"{name}: norm={norm!r}", 'one of "backward", "ortho", "forward"')
    power = {"ortho": 0.5, "forward": 1.0}.get(norm or "", 0.0)
    return x * float(points) ** (-power if forward else power) if power else x


def _transform(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: _Norm) -> Array:
    a = value(a, name)
    rank = len(shape_of(a))
    if s is not None and axes is not None and len(s) != len(axes):
        raise ArgumentError(f"{name}: {plural(len(s), 'size')} for {plural(len(axes), 'axis')}",
                            "one size for each axis")  # fmt: skip
    dims = axes_of(range(rank)[rank - len(s) :] if axes is None and s is not None else axes, rank)
    if kind in (FftType.FFT, FftType.IFFT):
        a = _as_complex(a)
    if not dims:
        if kind in (FftType.RFFT, FftType.IRFFT):
            raise ArgumentError(f"{name} along no axes", "name at least one axis")
        return a
    sizes, last = _sizes(name, kind, shape_of(a), s, dims), tuple(range(rank - len(dims), rank))
    half = (*sizes[:-1], sizes[-1] // 2 + 1) if kind is FftType.IRFFT else sizes
    out = _all(_fitted(moveaxis(a, dims, last), half), kind, sizes)
    return moveaxis(_scaled(name, out, kind in _FORWARD, norm, math.prod(sizes)), last, dims)


def _as_complex(a: Array) -> Array:
    dtype = dtype_of(a)
    return a if is_complex(dtype) else astype(a, np.dtype(np.complex128 if dtype.itemsize == 8 else np.complex64))


_KINDS = {
    "fft": (FftType.FFT, "The discrete Fourier transform"),
    "ifft": (FftType.IFFT, "The inverse discrete Fourier transform"),
    "rfft": (FftType.RFFT, "The first half of the discrete Fourier transform of real numbers,"),
    "irfft": (FftType.IRFFT, "The real numbers whose transform's first half is given,"),
}
_NORMS = """`norm` says which direction divides by the number of points: "backward" (the inverse), "forward", or
    "ortho" (both, by its root). The result is float32 or complex64, of 64-bit operands float64 or complex128.

    Raises:
      ArgumentError: no such axis or norm, or no points.
      DtypeError: complex numbers where real ones are transformed."""


def _documented(fun: Any, name: str, text: str, example: str) -> Callable[..., Array]:
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""{text} {_NORMS}

    >>> from tilewright import numpy as jnp
    >>> jnp.fft.{name}({example}
    """
    return inline_jit("n", "s", "axis", "axes", "norm")(fun)


_ONE = {
    "fft": "jnp.array([1., 0.]))\n    Array([1.+0.j, 1.+0.j], dtype=complex64)",
    "ifft": "jnp.array([2., 0.]))\n    Array([1.+0.j, 1.+0.j], dtype=complex64)",
    "rfft": "jnp.array([1., 0., 0.]))\n    Array([1.+0.j, 1.+0.j], dtype=complex64)",
    "irfft": "jnp.array([3., 0.]), n=3)\n    Array([1., 1., 1.], dtype=float32)",
}


def _along(name: str) -> Callable[..., Array]:
    """The transform of one axis."""
    kind, text = _KINDS[name]

    def transform(a: ArrayLike, n: int | None = None, axis: int = -1, norm: _Norm = None) -> Array:
        if n is not None and integer(n, "n", name) < 1:
            raise ArgumentError(f"{name}: a transform of {n} data points", "transform 1 point or more")
        return _transform(name, kind, a, None if n is None else (n,), (axis,), norm)

    return _documented(transform, name, f"{text} along an axis, cut or padded with zeros to `n` points.", _ONE[name])


def _plane(base: str) -> Callable[..., Array]:
    """The transform of two axes."""
    kind, text = _KINDS[base]
    name, shape = f"{base}2", (2, 3) if base == "rfft" else (2, 4)

    def transform(a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: _Norm = None) -> Array:
        return _transform(name, kind, a, s, axes, norm)

    text = f"{text} along two axes, cut or padded with zeros to the sizes `s`."
    return _documented(transform, name, text, f"jnp.ones((2, {3 if base == 'irfft' else 4}))).shape\n    {shape}")


def _space(base: str) -> Callable[..., Array]:
    """The transform of any axes."""
    kind, text = _KINDS[base]
    name, shape = f"{base}n", (2, 3) if base == "rfft" else (2, 4)

    def transform(a: ArrayLike, s: Any = None, axes: Sequence[int] | None = None, norm: _Norm = None) -> Array:
        return _transform(name, kind, a, s, axes, norm)

    text = f"{text} along axes (all; with `s` the last ones), cut or padded with zeros to the sizes `s`."
    return _documented(transform, name, text, f"jnp.ones((2, {3 if base == 'irfft' else 4}))).shape\n    {shape}")


fft: Callable[..., Array]
ifft: Callable[..., Array]
rfft: Callable[..., Array]
irfft: Callable[..., Array]
fft, ifft, rfft, irfft = map(_along, _KINDS)
fft2: Callable[..., Array]
ifft2: Callable[..., Array]
rfft2: Callable[..., Array]
irfft2: Callable[..., Array]
fft2, ifft2, rfft2, irfft2 = map(_plane, _KINDS)
fftn: Callable[..., Array]
ifftn: Callable[..., Array]
rfftn: Callable[..., Array]
irfftn: Callable[..., Array]
fftn, ifftn, rfftn, irfftn = map(_space, _KINDS)


@public
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: _Norm = None) -> Array:
    """The transform, real numbers, of what is the conjugate of its own mirror image and given by its first half.

    `irfft` of the conjugate, with the directions of `norm` exchanged.

    >>> from tilewright import numpy as jnp
    >>> jnp.fft.hfft(jnp.array([1., 0.]), n=3)
    Array([1., 1., 1.], dtype=float32)
    """
    return irfft(conj(value(a, "hfft")), n, axis, _SWAPPED.get(norm, norm))


@public
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: _Norm = None) -> Array:
    """The inverse of `hfft`: the conjugate of `rfft`, with the directions of `norm` exchanged.

    >>> from tilewright import numpy as jnp
    >>> jnp.fft.ihfft(jnp.array([3., 3., 3.])).real
    Array([3., 0.], dtype=float32)
    """
    return conj(rfft(a, n, axis, _SWAPPED.get(norm, norm)))


# ---------------------------------------------------------------------------- frequencies and shifts


def _frequencies(name: str) -> Any:
    def frequencies(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
        if integer(n, "n", name) < 1:
            raise ArgumentError(f"{name} of a transform of length {n}", "n is at least 1")
        if isinstance(d, (list, tuple)) or shape_of(d):
            raise ArgumentError(f"{name} of samples {d} apart", "the distance is one number")
        kind = dtype_argument(dtype) or default_float()
        return put(asarray(getattr(np.fft, name)(n, 1.0).astype(kind)) / d, device)

    frequencies.__name__ = frequencies.__qualname__ = name
    kind = "real " if name == "rfftfreq" else ""
    frequencies.__doc__ = f"""The frequencies of a {kind}discrete Fourier transform of `n` samples, `d` apart.

    >>> from tilewright import numpy as jnp
    >>> jnp.fft.{name}(2).shape
    (2,)
    """
    return public(frequencies)


fftfreq: Any
rfftfreq: Any
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


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
