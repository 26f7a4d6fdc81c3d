"""Convolutions and correlations of arrays of any rank, as sums over windows or by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import lax
from ...core.support.errors import ArgumentError, ShapeError, UnsupportedError
from ...numpy.elementwise import conj
from ...numpy.fft import fftn, ifftn, irfftn, rfftn
from ...numpy.util import (
    Array,
    ArrayLike,
    axes_of,
    dtype_of,
    inline_jit,
    is_complex,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)

_MODES = ("full", "same", "valid")
Precision = Any


def _operands(name: str, in1: Any, in2: Any, mode: str) -> tuple[Array, Array]:
    if mode not in _MODES:
        raise ArgumentError(f"{name}: mode={mode!r}", 'one of "full", "same", "valid"')
    in1, in2 = map(strong, promote_dtypes_inexact(value(in1, name), value(in2, name)))
    if len(shape_of(in1)) != len(shape_of(in2)):
        raise ShapeError(f"{name} of {shape_of(in1)} and {shape_of(in2)}", "arrays of one rank")
    return in1, in2


def _ordered(name: str, first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether the second of two shapes is the larger one in every axis; ShapeError where neither is."""
    if all(a >= b for a, b in zip(first, second, strict=True)):
        return False
    if all(a <= b for a, b in zip(first, second, strict=True)):
        return True
    raise ShapeError(f'{name} of {tuple(first)} and {tuple(second)} with mode="valid"',
                     "one of them has to be the larger in every axis")  # fmt: skip


def _flipped(x: Array) -> Array:
    return lax.rev(x, tuple(range(len(shape_of(x)))))


def _direct(name: str, in1: Array, in2: Array, mode: str, precision: Precision, late: bool = False) -> Array:
    """The sum over windows. `late`: of two middles of an even kernel, "same" takes the second."""
    if 0 in (*shape_of(in1), *shape_of(in2)):
        raise ShapeError(f"{name} of {shape_of(in1)} and {shape_of(in2)}", "pass arrays that are not empty")
    if mode == "valid" and _ordered(name, shape_of(in1), shape_of(in2)):
        in1, in2 = in2, in1
    if mode == "full" and in1.size < in2.size:
        in1, in2 = in2, in1
    sizes = shape_of(in2)
    cut = [(n if late else n - 1) // 2 for n in sizes]  # of the full result, before the same
    padding = {
        "full": [(n - 1, n - 1) for n in sizes],
        "same": [(n - 1 - c, c) for n, c in zip(sizes, cut, strict=True)],
        "valid": [(0, 0)] * len(sizes),
    }[mode]
    lhs, rhs = lax.expand_dims(in1, (0, 1)), lax.expand_dims(_flipped(in2), (0, 1))
    out = lax.conv_general_dilated(lhs, rhs, (1,) * len(sizes), padding, precision=precision)
    return lax.squeeze(out, (0, 1))


def _by_transforms(in1: Array, in2: Array, mode: str, axes: Any) -> Array:
    rank = len(shape_of(in1))
    dims = axes_of(axes, rank)
    lengths = lambda x: [shape_of(x)[d] for d in dims]  # noqa: E731
    rest = [d for d in range(rank) if d not in dims]
    if any(shape_of(in1)[d] != shape_of(in2)[d] and 1 not in (shape_of(in1)[d], shape_of(in2)[d]) for d in rest):
        raise ShapeError(f"fftconvolve of {shape_of(in1)} and {shape_of(in2)} along axes {dims}",
                         "the other axes have equal sizes")  # fmt: skip
    if mode == "valid" and _ordered("fftconvolve", lengths(in1), lengths(in2)):
        in1, in2 = in2, in1
    full = [a + b - 1 for a, b in zip(lengths(in1), lengths(in2), strict=True)]
    if 0 in (*shape_of(in1), *shape_of(in2)):
        raise ShapeError(f"fftconvolve of {shape_of(in1)} and {shape_of(in2)}", "pass arrays that are not empty")
    if not dims:
        return in1 * in2
    there, back = (fftn, ifftn) if is_complex(dtype_of(in1)) else (rfftn, irfftn)
    out = back(there(in1, full, dims) * there(in2, full, dims), full, dims)
    smaller = [abs(a - b) + 1 for a, b in zip(lengths(in1), lengths(in2), strict=True)]
    kept = {"full": full, "same": lengths(in1), "valid": smaller}[mode]
    start, stop = [0] * rank, list(shape_of(out))
    for d, n, size in zip(dims, full, kept, strict=True):
        start[d] = (n - size) // 2
        stop[d] = start[d] + size
    return lax.slice(out, start, stop)


@inline_jit("mode", "axes")
def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Sequence[int] | None = None) -> Array:
    """The convolution of two arrays of one rank by Fourier transforms, along axes (all by default).

    `mode` says which part of the full result is wanted: "full", "same" (the middle, as large as `in1`) or "valid"
    (where the smaller one lies wholly within the other).

    Raises:
      ShapeError: arrays that are empty, of two ranks, or none of which fits into the other ("valid").
      ArgumentError: another mode.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> signal.fftconvolve(jnp.array([1., 2.]), jnp.array([1., 1.])).round()
    Array([1., 3., 2.], dtype=float32)
    """
    in1, in2 = _operands("fftconvolve", in1, in2, mode)
    dtype = dtype_of(in1)
    return lax.convert_element_type(_by_transforms(in1, in2, mode, axes), dtype)


def _convolved(name: str, in1: Any, in2: Any, mode: str, method: str, precision: Precision) -> Array:
    if method not in ("auto", "direct", "fft"):
        raise ArgumentError(f"{name}: method={method!r}", 'one of "auto", "direct", "fft"')
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    return _direct(name, *_operands(name, in1, in2, mode), mode, precision)


@inline_jit("mode", "method", "precision")
def convolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Precision = None
) -> Array:
    """The convolution of two arrays of one rank, directly ("auto", "direct") or by Fourier transforms ("fft").

    The modes and errors are those of `fftconvolve`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> signal.convolve(jnp.array([1, 2, 3]), jnp.array([1, 1]), mode="same")
    Array([1., 3., 5.], dtype=float32)
    """
    return _convolved("convolve", in1, in2, mode, method, precision)


@inline_jit("mode", "method", "precision")
def correlate(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Precision = None
) -> Array:
    """The correlation of two arrays of one rank: the convolution with the second turned around and conjugated.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> signal.correlate(jnp.array([1, 2, 3]), jnp.array([0, 1]), mode="valid")
    Array([2., 3.], dtype=float32)
    """
    return _convolved("correlate", in1, _flipped(conj(value(in2, "correlate"))), mode, method, precision)


def _planes(name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any) -> tuple[Array, Array]:
    if boundary != "fill" or fillvalue != 0:
        raise UnsupportedError(f"{name} with boundary={boundary!r} and fillvalue={fillvalue!r}",
                               "pad with `numpy.pad` and take mode=\"valid\"")  # fmt: skip
    in1, in2 = _operands(name, in1, in2, mode)
    if len(shape_of(in1)) != 2:
        raise ShapeError(f"{name} of {shape_of(in1)} and {shape_of(in2)}", "it takes matrices; `convolve` takes others")
    return in1, in2


@inline_jit("mode", "boundary", "fillvalue", "precision")
def convolve2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
    precision: Precision = None,
) -> Array:  # fmt: skip
    """The convolution of two matrices, with zeros around them.

    Raises:
      UnsupportedError: another boundary than zeros.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> signal.convolve2d(jnp.ones((2, 2)), jnp.ones((2, 2)), mode="valid")
    Array([[4.]], dtype=float32)
    """
    in1, in2 = _planes("convolve2d", in1, in2, mode, boundary, fillvalue)
    return _direct("convolve2d", in1, in2, mode, precision)


@inline_jit("mode", "boundary", "fillvalue", "precision")
def correlate2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
    precision: Precision = None,
) -> Array:  # fmt: skip
    """The correlation of two matrices, the second conjugated, with zeros around them.

    Raises:
      UnsupportedError: another boundary than zeros.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> signal.correlate2d(jnp.ones((2, 2)), jnp.ones((2, 2)), mode="valid")
    Array([[4.]], dtype=float32)
    """
    in1, in2 = _planes("correlate2d", in1, in2, mode, boundary, fillvalue)
    return _direct("correlate2d", in1, _flipped(conj(in2)), mode, precision, late=True)
