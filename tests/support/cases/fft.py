"""Cases of Fourier transforms: even and odd lengths, one point, several axes, batches, none at all."""

from tilewright.core.primitives.contraction.fft import FftType, fft_p

from . import Case
from .shape import t

C64 = "complex64"


def fft(name, shape, lengths, dtype=None):
    dtype = dtype or ("float32" if name == "RFFT" else C64)
    return Case(fft_p, (t(*shape, dtype=dtype),), {"fft_type": FftType[name], "fft_lengths": lengths}, note=name)


CASES = [
    fft("FFT", (6,), (6,)),
    fft("FFT", (2, 5), (5,)),
    fft("FFT", (3, 4), (3, 4)),
    fft("FFT", (0, 4), (4,)),
    fft("IFFT", (2, 5), (5,)),
    fft("IFFT", (2, 3, 2), (2, 3, 2)),
    fft("RFFT", (6,), (6,)),
    fft("RFFT", (2, 5), (5,)),
    fft("RFFT", (2, 1), (1,)),
    fft("RFFT", (3, 4), (3, 4)),
    fft("RFFT", (2, 3, 5), (2, 3, 5)),
    fft("IRFFT", (4,), (6,)),
    fft("IRFFT", (2, 3), (5,)),
    fft("IRFFT", (2, 1), (1,)),
    fft("IRFFT", (3, 3), (3, 4)),
    fft("IRFFT", (2, 3, 3), (2, 3, 5)),
]
