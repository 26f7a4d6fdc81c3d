"""`jax.scipy.signal`: convolutions, trends and spectra."""

from collections.abc import Callable

from .convolution import convolve, convolve2d, correlate, correlate2d, fftconvolve
from .spectral import csd, istft, stft, welch
from .trend import detrend

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
