"""Discrete Fourier transforms of the last axes."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import Kind, Loops, Relation, Whole, Work
from ...ir.primitive import Linear, Primitive, Zero
from ...ir.types import FLOAT32, FLOAT64, INT32, ArrayType, is_complex
from ...support.errors import ArgumentError, DtypeError, ShapeError, plural
from ...support.memo import cached
from ...tracing.trace import typeof
from ...transforms.rule_helpers import like, linear_jvp
from ...transforms.structural_primitives import spread
from ..elementwise.arithmetic import mul_p
from ..elementwise.bitwise import and_p
from ..elementwise.comparison import gt_p, lt_p, select_n_p
from ..elementwise.conversion import conj_p, convert_element_type
from ..movement.shape import broadcasted_iota, integers

MOST = 3  # axes at once: what XLA takes


class FftType(enum.IntEnum):
    """Which transform: forwards or back, and of real numbers by half of their transform."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_COMPLEX = {FLOAT32: np.dtype(np.complex64), FLOAT64: np.dtype(np.complex128)}
_REAL = {v: k for k, v in _COMPLEX.items()}


@cached(1024)
def _typing(x: ArrayType, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> ArrayType:
    name, count = fft_type.name.lower(), len(fft_lengths)
    given = _COMPLEX if fft_type is FftType.RFFT else _REAL
    if x.dtype not in given:
        raise DtypeError(f"{name} takes {' or '.join(map(str, given))}, got {x.show()}", "cast with `astype`")
    if not 1 <= count <= MOST or count > x.ndim:
        raise ShapeError(f"{name} of {plural(count, 'axis')} of {x.show()}",
                         f"1 to {MOST} of the last axes; `numpy.fft` transforms any axes")  # fmt: skip
    if min(fft_lengths) < 1:
        raise ArgumentError(f"{name} of lengths {fft_lengths}", "a transform has 1 point or more")
    half = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    wanted = half if fft_type is FftType.IRFFT else fft_lengths
    if x.shape[-count:] != wanted:
        raise ShapeError(f"{name} of lengths {fft_lengths} takes last axes {wanted}, got {x.show()}",
                         "pad or cut the operand; `numpy.fft` does")  # fmt: skip
    last = {FftType.RFFT: half, FftType.IRFFT: fft_lengths}.get(fft_type, wanted)
    dtype = x.dtype if fft_type in (FftType.FFT, FftType.IFFT) else given[x.dtype]
    return ArrayType((*x.shape[:-count], *last), dtype)


def _weighted(x: Array, fft_lengths: tuple[int, ...], inner: float, scale: float) -> Any:
    """Half of a transform times `scale`; times `inner` too where an element stands for its mirror image as well."""
    type_: Any = typeof(x)
    place = broadcasted_iota(INT32, type_.shape, type_.ndim - 1)
    twice = and_p.bind(gt_p.bind(place, np.int32(0)), lt_p.bind(place, np.int32((fft_lengths[-1] + 1) // 2)))
    once, mirrored = (spread(like(x, w), type_.shape) for w in (scale, scale * inner))
    return mul_p.bind(x, select_n_p.bind(twice, once, mirrored))


def _conjugate(x: Array) -> Any:
    return conj_p.bind(x, input_dtype=typeof(x).dtype)


def _transpose(ct: Array, x: Linear, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> list[Any]:
    """The matrix of a whole transform is symmetric; that of a half one is, but for its weights, the other's adjoint."""
    if type(ct) is Zero:
        return [None]
    points = float(math.prod(fft_lengths))
    if fft_type is FftType.RFFT:
        half = _weighted(_conjugate(ct), fft_lengths, 0.5, points)
        return [fft_p.bind(half, fft_type=FftType.IRFFT, fft_lengths=fft_lengths)]
    if fft_type is FftType.IRFFT:
        half = fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
        return [_conjugate(_weighted(half, fft_lengths, 2.0, 1 / points))]
    return [fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]


def _numpy(x: Operand, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    count = len(fft_lengths)
    name, axes = f"{fft_type.name.lower()}n", tuple(range(x.ndim - count, x.ndim))
    out = _typing(ArrayType(x.shape, x.dtype), fft_type=fft_type, fft_lengths=fft_lengths)
    if out.size == 0:
        return np.zeros(out.shape, out.dtype)
    return getattr(np.fft, name)(x, fft_lengths, axes).astype(out.dtype)


def _relation(ins: Sequence[Any], outs: Sequence[Any], *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Relation:
    """The transformed axes are whole, the others parallel."""
    loops, count = Loops(), ins[0].ndim - len(fft_lengths)
    shared = loops.axes(ins[0].shape[:count])
    apart = len(loops.sizes)
    before, after = ((*shared, *loops.axes(t.shape[count:])) for t in (ins[0], outs[0]))
    kinds: dict[int, Kind] = {f: Whole() for f in range(apart, len(loops.sizes))}
    return loops.relation([before], [after], kinds)


fft_p: Primitive = Primitive(
    "fft", _typing, jvp=linear_jvp(lambda: fft_p), transpose=_transpose, numpy=_numpy, relation=_relation,
    work=Work(40),  # 5 log2(n) for each point, at n = 256
)  # fmt: skip


def fft(x: ArrayLike, fft_type: FftType | str | int, fft_lengths: int | Sequence[int]) -> Array:
    """The discrete Fourier transform of the last axes, one for each of up to three lengths.

    `fft_type` is one of `FftType`, or its name. A transform of real numbers ("RFFT") gives the first `n // 2 + 1`
    elements along the last axis and its inverse ("IRFFT") takes them. The inverses divide by the number of points.

    Raises:
      ArgumentError: no such transform, or one without points.
      ShapeError: the last axes do not have these lengths, or there are more than three.
      DtypeError: complex numbers for RFFT.

    >>> import numpy as np
    >>> fft(np.array([1.0, 2.0, 3.0], np.float32), "RFFT", 3).shape
    (2,)
    """
    try:
        kind = FftType[fft_type.upper()] if isinstance(fft_type, str) else FftType(fft_type)
    except (KeyError, ValueError):
        raise ArgumentError(f"fft_type={fft_type!r}", f"one of {', '.join(FftType.__members__)}") from None
    lengths = integers(fft_lengths, "fft_lengths", "fft")
    dtype = typeof(x).dtype
    real = FLOAT64 if dtype.itemsize == (16 if is_complex(dtype) else 8) else FLOAT32
    if kind is not FftType.RFFT:
        x = convert_element_type(x, _COMPLEX[real])
    elif not is_complex(dtype):
        x = convert_element_type(x, real)
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths) if lengths else x


PRIMITIVES = (fft_p,)

__all__ = ["FftType", "fft", "fft_p"]
