"""The error function of complex numbers, and what is made of it: by rational approximations of Faddeeva's function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import lax
from ...core.ir.array import DTypeLike
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...core.support.errors import DtypeError
from ...core.support.memo import cached
from ...numpy.elementwise import imag, real, where3
from ...numpy.util import (
    Array,
    ArrayLike,
    dtype_of,
    inline_jit,
    is_complex,
    promote_dtypes_inexact,
    strong,
    value,
)
from .basic import polynomial

_ROOT_PI = math.sqrt(math.pi)


@cached()
def _rational(n: int) -> tuple[float, tuple[float, ...]]:
    """The width and coefficients of the approximation with `n` terms, the highest power first.

    J. A. C. Weideman, "Computation of the complex error function", SIAM Journal on Numerical Analysis 31, 1994.
    """
    width, half = math.sqrt(n / math.sqrt(2)), 2 * n
    t = width * np.tan(np.arange(1 - half, half) * math.pi / (2 * half))
    samples = np.concatenate([[0.0], np.exp(-t * t) * (width * width + t * t)])
    transform = np.real(np.fft.fft(np.fft.fftshift(samples))) / (2 * half)
    return width, tuple(transform[1 : n + 1][::-1].tolist())


def _terms(x: Array) -> int:
    return 56 if dtype_of(x) in (np.dtype(np.float64), np.dtype(np.complex128)) else 20


def _upper(below: Array, above: Array, terms: Sequence[float]) -> Array:
    """Faddeeva's function from `width - i z` and `width + i z`, for z in the upper half plane."""
    return 2 * polynomial(above / below, terms) / (below * below) + (1 / _ROOT_PI) / below


def _faddeeva(z: Array) -> Array:
    """In the upper half plane."""
    width, terms = _rational(_terms(z))
    turned = z * np.asarray(1j, dtype_of(z))
    return _upper(width - turned, width + turned, terms)


def _wide(x: Array) -> Array:
    return lax.convert_element_type(x, np.float32) if dtype_of(x).itemsize < 4 else x


def real_only(name: str, dtype: DTypeLike) -> None:
    """Raise `DtypeError` for complex numbers."""
    if is_complex(dtype):
        raise DtypeError(f"{name} of {dtype}", "pass real numbers")


def argument(x: Any, name: str) -> tuple[Array, Any]:
    """A float in which approximations can be computed, and the dtype of the result."""
    x = strong(*promote_dtypes_inexact(value(x, name)))
    real_only(name, dtype_of(x))
    return _wide(x), dtype_of(x)


@inline_jit()
def wofz(z: ArrayLike) -> Array:
    """Faddeeva's function `exp(-z^2) erfc(-i z)` of complex numbers.

    >>> from tilewright.scipy import special
    >>> abs(complex(special.wofz(1j)) - 0.427584) < 1e-5
    True
    """
    z = _wide(strong(*promote_dtypes_inexact(value(z, "wofz"))))
    if not is_complex(dtype_of(z)):
        z = lax.complex(z, lax.full_like(z, 0))
    below = lax.lt(imag(z), 0)
    w = _faddeeva(where3(below, -z, z))
    mirrored = where3(below, z, lax.full_like(z, 0))
    return where3(below, 2 * lax.exp(-mirrored * mirrored) - w, w)


@inline_jit()
def erfcx(x: ArrayLike) -> Array:
    """`exp(x^2) erfc(x)` of real or complex numbers, exact for large ones.

    >>> from tilewright.scipy import special
    >>> round(float(special.erfcx(10.0)), 4)
    0.0561
    """
    if is_complex(dtype_of(value(x, "erfcx"))):
        return wofz(value(x) * 1j)
    x, dtype = argument(x, "erfcx")
    width, terms = _rational(_terms(x))
    size = lax.min(abs(x), 1e15)
    large = abs(x) > 1e14
    right = where3(large, (1 / _ROOT_PI) / abs(where3(large, x, 1.0)), _upper(width + size, width - size, terms))
    negative = lax.lt(x, 0)
    low = where3(negative, x, 0.0)
    return lax.convert_element_type(where3(negative, 2 * lax.exp(low * low) - right, right), dtype)


_DAWSON = tuple([(-2.0) ** k / math.prod(range(1, 2 * k + 2, 2)) for k in range(16)][::-1])


@inline_jit()
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral `exp(-x^2) int_0^x exp(t^2) dt`.

    >>> from tilewright.scipy import special
    >>> round(float(special.dawsn(1.0)), 4)
    0.5381
    """
    x, dtype = argument(x, "dawsn")
    near = abs(x) < 0.7
    close = where3(near, x, 0.0)
    far = lax.min(lax.max(where3(near, 1.0, x), -1e14), 1e14)
    by_faddeeva = 0.5 * _ROOT_PI * imag(_faddeeva(lax.complex(far, lax.full_like(far, 0))))
    outer = where3(abs(x) > 1e13, 0.5 / where3(near, 1.0, x), by_faddeeva)
    return lax.convert_element_type(where3(near, close * polynomial(close * close, _DAWSON), outer), dtype)


# Of the powers of (pi x^2 / 2)^2: the series of the cosine integral over x, and of the sine integral over x^3.
_COSINE = tuple([(-1) ** k / (math.factorial(2 * k) * (4 * k + 1)) for k in range(14)][::-1])
_SINE = tuple([(-1) ** k / (math.factorial(2 * k + 1) * (4 * k + 3)) for k in range(14)][::-1])


def _fresnel_value(x: Array) -> tuple[Array, Array]:
    size = abs(x)
    near = size < 1.2
    close = where3(near, size, 0.0)
    square = (math.pi / 2) * (close * close)
    near_sine = close * square * polynomial(square * square, _SINE)
    near_cosine = close * polynomial(square * square, _COSINE)
    far = where3(near, 1.5, lax.min(size, 1e7))
    # C + i S = (1 + i) / 2 erf(sqrt(pi) / 2 (1 - i) x)   (DLMF 7.5.8)
    w = _faddeeva(lax.complex(far, far) * (_ROOT_PI / 2))
    angle = (math.pi / 2) * lax.rem(far * far, lax.full_like(far, 4))
    turned = lax.complex(lax.cos(angle), lax.sin(angle)) * w
    a, b = 1 - real(turned), -imag(turned)
    sine, cosine = where3(near, near_sine, 0.5 * (a + b)), where3(near, near_cosine, 0.5 * (a - b))
    end = size > 1e7
    sign = lax.sign(x)
    return where3(end, 0.5, sine) * sign, where3(end, 0.5, cosine) * sign


_fresnel = custom_jvp(_fresnel_value)


@_fresnel.defjvp
def _fresnel_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    angle = (math.pi / 2) * (x * x)
    return _fresnel(x), (t * lax.sin(angle), t * lax.cos(angle))


@inline_jit()
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel's integrals of `sin(pi t^2 / 2)` and `cos(pi t^2 / 2)` from 0 to `x`.

    >>> from tilewright.scipy import special
    >>> [round(float(v), 4) for v in special.fresnel(1.0)]
    [0.4383, 0.7799]
    """
    x, dtype = argument(x, "fresnel")
    s, c = _fresnel(x)
    return lax.convert_element_type(s, dtype), lax.convert_element_type(c, dtype)


__all__ = ["dawsn", "erfcx", "fresnel", "wofz"]
