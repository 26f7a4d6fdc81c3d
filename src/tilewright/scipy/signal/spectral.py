"""Spectra of signals: Fourier transforms of segments under a window, their averages, and the signals again."""

from __future__ import annotations

import importlib
import operator
from typing import Any

import numpy as np

from ... import lax
from ...core.ir.array import DTypeLike
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ShapeError, plural, warn
from ...core.support.memo import once
from ...numpy.create import arange
from ...numpy.elementwise import conj, imag, real, sqrt, where3
from ...numpy.fft import fft, fftfreq, ifft, irfft, rfft, rfftfreq
from ...numpy.index import take
from ...numpy.manipulation.pad import pad
from ...numpy.reductions import mean
from ...numpy.reductions import sum as _sum
from ...numpy.shape import moveaxis
from ...numpy.statistics.quantiles import median
from ...numpy.util import (
    Array,
    ArrayLike,
    astype,
    axis_of,
    dtype_of,
    inline_jit,
    is_complex,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)
from .trend import detrend as _detrend

Window = Any
_BOUNDARIES = (None, "even", "odd", "constant", "zeros")


# ---------------------------------------------------------------------------- windows and segments


@once
def _scipy_windows() -> Any:
    """SciPy's windows, imported when one is asked for by a name: they take a third of a second."""
    return importlib.import_module("scipy.signal.windows")


def _named_window(window: Any, n: int) -> np.ndarray:
    if window == "hann":
        return np.ones(1) if n == 1 else np.sin(np.pi * np.arange(n) / n) ** 2
    try:
        return _scipy_windows().get_window(window, n)
    except ValueError as error:
        raise ArgumentError(f"window={window!r}: {error}", "a window's name of SciPy, or the window itself") from None


def _window(window: Any, nperseg: int | None, length: int | None, dtype: DTypeLike) -> tuple[Array, int]:
    """The window and how long the segments are; `length` is the signal's, where it is known."""
    if nperseg is not None and operator.index(nperseg) < 1:
        raise ArgumentError(f"nperseg={nperseg}", "a segment has 1 point or more")
    if isinstance(window, (str, tuple)):
        n = 256 if nperseg is None else operator.index(nperseg)
        if length is not None and n > length:
            if nperseg is not None:
                warn(f"nperseg={n} is more than the signal's {length} points, which are taken")
            n = length
        return value(_named_window(window, n).astype(dtype)), n
    found = astype(value(window), dtype)
    if len(shape_of(found)) != 1:
        raise ShapeError(f"a window of shape {shape_of(found)}", "a window is a vector")
    (n,) = shape_of(found)
    if length is not None and n > length:
        raise ShapeError(f"a window of {plural(n, 'point')} for a signal of {length}", "it is at most as long")
    if nperseg not in (None, n):
        raise ArgumentError(f"nperseg={nperseg} with a window of {plural(n, 'point')}", "leave it out")
    return found, n


def _overlap(noverlap: int | None, nperseg: int) -> int:
    found = nperseg // 2 if noverlap is None else operator.index(noverlap)
    if found >= nperseg:
        raise ArgumentError(f"noverlap={found} of segments of {nperseg} points", "segments overlap by less")
    return found


def _extended(x: Array, n: int, boundary: str | None) -> Array:
    """The last axis longer by `n` points on both sides."""
    if boundary is None or n == 0:
        return x
    widths = [(0, 0)] * (len(shape_of(x)) - 1) + [(n, n)]
    if boundary == "odd":
        return pad(x, widths, "reflect", reflect_type="odd")
    return pad(x, widths, {"even": "reflect", "constant": "edge", "zeros": "constant"}[boundary])


def _lengthened(x: Array, n: int) -> Array:
    """The last axis with zeros after it, up to a length."""
    short = n - shape_of(x)[-1]
    return pad(x, [(0, 0)] * (len(shape_of(x)) - 1) + [(0, short)]) if short else x


def _segments(x: Array, n: int, step: int) -> Array:
    """Segments (..., count, n) of the last axis, `step` points apart."""
    count = (shape_of(x)[-1] - n) // step + 1
    places = np.arange(count, dtype=np.int32)[:, None] * step + np.arange(n, dtype=np.int32)
    return take(x, places, axis=-1, mode="clip")


def _trendless(x: Array, how: Any, axis: int) -> Array:
    if isinstance(how, str):
        return _detrend(x, -1, how)
    if callable(how):
        remove: Any = how
        return remove(x) if axis == -1 else moveaxis(remove(moveaxis(x, axis, -1)), -1, axis)
    if how:
        raise ArgumentError(f"detrend={how!r}", '"constant", "linear", a function or False')
    return x


def _along_last(weights: Any, x: Array) -> Array:
    """Weights of the last axis in the dtype and rank of an array."""
    return lax.expand_dims(astype(value(weights), dtype_of(x)), range(len(shape_of(x)) - 1))


# ---------------------------------------------------------------------------- spectra


def _spectral(
    x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, detrend: Any, onesided: bool,
    scaling: str, axis: int, mode: str, boundary: Any, padded: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Frequencies, times and the transforms of segments, or (`mode` "psd") products of those of two signals."""
    if boundary not in _BOUNDARIES:
        raise ArgumentError(f"boundary={boundary!r}", f"one of {_BOUNDARIES}")
    if scaling not in ("density", "spectrum"):
        raise ArgumentError(f"scaling={scaling!r}", '"density" or "spectrum"')
    both = [value(v, "a spectrum") for v in ((x,) if y is None else (x, y))]
    both = [strong(v) for v in promote_dtypes_inexact(*both)]
    if len({len(shape_of(v)) for v in both}) > 1:
        raise ShapeError(f"signals of {' and '.join(str(shape_of(v)) for v in both)}", "signals of one rank")
    axis = axis_of(axis, len(shape_of(both[0])))
    last = axis == len(shape_of(both[0])) - 1
    both = [moveaxis(v, axis, -1) for v in both]
    complex_ = is_complex(dtype_of(both[0]))
    if onesided and complex_:
        warn("the spectrum of complex numbers has two sides: return_onesided=False")
    real_dtype = np.zeros((), dtype_of(both[0])).real.dtype
    length = max(shape_of(v)[-1] for v in both)
    if any(v.size == 0 for v in both):
        shapes = list(map(shape_of, both))
        leading, length = lax.broadcast_shapes(*(s[:-1] for s in shapes)), min(s[-1] for s in shapes)
        empty = moveaxis(lax.full((*leading, length), 0.0, real_dtype), -1, axis)
        power = mode == "psd" and y is None
        return empty, empty, empty if power else astype(empty, np.result_type(real_dtype, np.complex64))
    win, size = _window(window, nperseg, shape_of(both[0])[-1], real_dtype)
    step = size - _overlap(noverlap, size)
    points = size if nfft is None else operator.index(nfft)
    if points < size:
        raise ArgumentError(f"nfft={points} of segments of {size} points", "it is at least as many")
    return _of_segments(
        _lengthened(both[0], length), _lengthened(both[1], length) if len(both) > 1 else None, win, fs, size, step,
        points, detrend, -1 if last else axis, onesided and not complex_, scaling, mode, boundary, padded,
    )  # fmt: skip


@inline_jit("size", "step", "points", "detrend", "axis", "onesided", "scaling", "mode", "boundary", "padded")
def _of_segments(
    x: Any, y: Any, win: Any, fs: Any, size: int, step: int, points: int, detrend: Any, axis: int, onesided: bool,
    scaling: str, mode: str, boundary: Any, padded: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    length = shape_of(x)[-1] + (2 * (size // 2) if boundary is not None else 0)
    full = length + (-(length - size) % step) % size if padded else length

    def transformed(v: Array) -> Array:
        v = _lengthened(_extended(v, size // 2, boundary), full)
        v = _trendless(_segments(v, size, step), detrend, axis)
        return (rfft if onesided else fft)(v * _along_last(win, v), points)

    first = transformed(x)
    real_dtype = dtype_of(win)
    scale = 1 / (fs * _sum(win * win)) if scaling == "density" else 1 / lax.square(_sum(win))
    if mode == "stft":
        out = first * astype(sqrt(scale), dtype_of(first))
    else:
        out = conj(first) * (first if y is None else transformed(y)) * astype(scale, dtype_of(first))
        doubled = np.ones(shape_of(out)[-1], real_dtype)
        doubled[1 : (points + 1) // 2] = 2  # what stands for its mirror image as well
        out = out * _along_last(doubled, out) if onesided else out
        out = real(out) if y is None else out
    frequencies = (rfftfreq if onesided else fftfreq)(points, 1.0, dtype=real_dtype) * astype(fs, real_dtype)
    count = (full - size) // step + 1
    times = (arange(count, dtype=real_dtype) * step + (0.0 if boundary is not None else size / 2)) / fs
    out = moveaxis(out, -1, -2)  # (..., frequencies, segments)
    return frequencies, astype(times, real_dtype), out if axis == -1 else moveaxis(out, -2, axis)


@public
def stft(
    x: ArrayLike, fs: ArrayLike = 1.0, window: Window = "hann", nperseg: int = 256, noverlap: int | None = None,
    nfft: int | None = None, detrend: Any = False, return_onesided: bool = True, boundary: str | None = "zeros",
    padded: bool = True, axis: int = -1,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The Fourier transforms of overlapping segments of a signal: frequencies, the segments' times, and transforms.

    The transforms have frequencies in place of `axis` and segments along the last one. `window` is a vector or a name
    of SciPy's; `noverlap` is half of `nperseg` by default, `nfft` is `nperseg`. `boundary` says how the signal goes on
    beyond its ends ("zeros", "even", "odd", "constant"; None: it does not).

    Raises:
      ArgumentError: sizes that do not fit each other, or unknown options.
      ShapeError: a window longer than the signal.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> [v.shape for v in signal.stft(jnp.ones(16), nperseg=4)]
    [(3,), (9,), (3, 9)]
    """
    return _spectral(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis, "stft",
                     boundary, padded)  # fmt: skip


@public
def csd(
    x: ArrayLike, y: ArrayLike | None, fs: ArrayLike = 1.0, window: Window = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """The cross spectral density of two signals, by the average over segments ("mean" or "median"), with frequencies.

    With `y` None that of `x` and itself, in real numbers. The other arguments and the errors are those of `stft`.
    P. Welch, "The use of the fast Fourier transform for the estimation of power spectra", 1967.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> [v.shape for v in signal.csd(jnp.ones(16), jnp.ones(16), nperseg=4)]
    [(3,), (3,)]
    """
    if average not in ("mean", "median"):
        raise ArgumentError(f"average={average!r}", '"mean" or "median"')
    frequencies, _, out = _spectral(x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
                                    "psd", None, False)  # fmt: skip
    return frequencies, _averaged(out, average) if out.size else out


@inline_jit("average")
def _averaged(out: Any, average: str) -> Array:
    if average == "mean":
        return mean(out, -1)
    n = shape_of(out)[-1]
    even = 2.0 * np.arange(1, (n - 1) // 2 + 1)
    bias = 1 + float(np.sum(1 / (even + 1) - 1 / even))  # of the median of exponential variables, for their mean
    if is_complex(dtype_of(out)):
        return lax.complex(median(real(out), -1), median(imag(out), -1)) / bias
    return median(out, -1) / bias


@public
def welch(
    x: ArrayLike, fs: ArrayLike = 1.0, window: Window = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """The power spectral density of a signal, with frequencies: `csd` with itself.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> [v.shape for v in signal.welch(jnp.ones(16), nperseg=4)]
    [(3,), (3,)]
    """
    return csd(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


# ---------------------------------------------------------------------------- back to signals


def _overlapped(x: Array, step: int) -> Array:
    """The sum of segments (..., count, n) laid `step` points apart."""
    *batch, count, n = shape_of(x)
    parts = -(-n // step)
    x = _lengthened(x, parts * step)
    total: Any = 0
    for i in range(parts):
        piece = x[..., i * step : (i + 1) * step]
        total = total + pad(piece, [(0, 0)] * len(batch) + [(i, parts - 1 - i), (0, 0)])
    return lax.reshape(total, (*batch, (count + parts - 1) * step))[..., : step * (count - 1) + n]


@public
def istft(
    Zxx: ArrayLike, fs: ArrayLike = 1.0, window: Window = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True, boundary: bool = True,
    time_axis: int = -1, freq_axis: int = -2,
) -> tuple[Array, Array]:  # fmt: skip
    """The signal of which `stft` with the same arguments gave the transforms, and its times.

    Raises:
      ArgumentError: sizes or axes that do not fit each other.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> f, t, z = signal.stft(jnp.array([1., 2., 3., 4.]), nperseg=4)
    >>> (signal.istft(z)[1] + 0.5).astype(int)
    Array([1, 2, 3, 4], dtype=int32)
    """
    z = value(Zxx, "istft")
    rank = len(shape_of(z))
    if rank < 2:
        raise ShapeError(f"istft of {shape_of(z)}", "transforms have an axis of frequencies and one of segments")
    at, across = axis_of(time_axis, rank), axis_of(freq_axis, rank)
    if at == across:
        raise ArgumentError(f"istft: time_axis and freq_axis are both {at}", "name two axes")
    default = 2 * (shape_of(z)[across] - 1) if input_onesided else shape_of(z)[across]
    wide = dtype_of(z) in (np.dtype(np.float64), np.dtype(np.complex128))
    size = operator.index(nperseg or default)
    win, size = _window(window, size, None, np.float64 if wide else np.float32)
    points = operator.index(nfft) if nfft is not None else default + (input_onesided and size == default + 1)
    if points < size:
        raise ArgumentError(f"istft: nfft={points} of segments of {size} points", "it is at least as many")
    step = size - _overlap(noverlap or None, size)
    return _joined(moveaxis(z, (across, at), (-1, -2)), win, fs, size, step, points, bool(input_onesided),
                   bool(boundary), at - (across < at))  # fmt: skip


@inline_jit("size", "step", "points", "onesided", "boundary", "axis")
def _joined(
    z: Any, win: Any, fs: Any, size: int, step: int, points: int, onesided: bool, boundary: bool, axis: int
) -> tuple[Array, Array]:
    segments = (irfft if onesided else ifft)(z, points)[..., :size]
    x = _overlapped(segments * _along_last(_sum(win) * win, segments), step)
    weight = _overlapped(lax.broadcast_in_dim(win * win, (shape_of(z)[-2], size), (1,)), step)
    half = size // 2 if boundary else 0
    inner = slice(half, shape_of(x)[-1] - half)
    weight = weight[inner]
    x = x[..., inner]
    x = x / _along_last(where3(weight > 1e-10, weight, 1.0), x)
    times = astype(arange(shape_of(x)[-1], dtype=dtype_of(win)) / fs, dtype_of(win))
    return times, moveaxis(x, -1, axis)
