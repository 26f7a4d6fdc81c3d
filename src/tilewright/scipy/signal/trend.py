"""Trends taken off signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, UnsupportedError
from ...numpy.contract import matmul
from ...numpy.reductions import mean
from ...numpy.shape import moveaxis
from ...numpy.util import (
    Array,
    ArrayLike,
    axis_of,
    concrete,
    dtype_of,
    inline_jit,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)


@public
def detrend(
    data: ArrayLike, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None  # noqa: A002
) -> Array:  # fmt: skip
    """A signal without its mean ("constant") or its line of least squares ("linear") along an axis.

    With break points `bp` each part between two of them has a line of its own.

    Raises:
      ArgumentError: another type, or break points outside of the signal.
      UnsupportedError: `overwrite_data`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import signal
    >>> signal.detrend(jnp.array([1., 2., 6.]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise UnsupportedError("detrend(overwrite_data=...)", "arrays are not changed: use the result")
    if type not in ("constant", "linear"):
        raise ArgumentError(f"detrend: type={type!r}", '"constant" or "linear"')
    points = concrete(bp, "detrend: the break points", "pass them as Python's integers").astype(int)
    return _detrended(data, axis, type, tuple(np.atleast_1d(points).tolist()))


@inline_jit("axis", "kind", "points")
def _detrended(data: Any, axis: int, kind: str, points: tuple[int, ...]) -> Array:
    x = strong(*promote_dtypes_inexact(value(data, "detrend")))
    if kind == "constant":
        return x - mean(x, axis, keepdims=True)
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    ends = sorted({0, n, *points})
    if ends[0] < 0 or ends[-1] > n:
        raise ArgumentError(f"detrend: break points {points} of a signal of {n}", f"0 to {n}")
    x = moveaxis(x, axis, -1)
    parts = [_without_line(x[..., low:high]) for low, high in zip(ends, ends[1:], strict=False)]
    return moveaxis(lax.concatenate(parts, len(shape_of(x)) - 1) if parts else x, -1, axis)


def _without_line(x: Array) -> Array:
    """A signal along the last axis without its projection onto constants and lines."""
    n = shape_of(x)[-1]
    lines = np.linalg.qr(np.stack([np.ones(n), np.arange(n) - (n - 1) / 2], 1))[0].astype(dtype_of(x))
    exact = lax.Precision.HIGHEST
    return x - matmul(matmul(x, lines, precision=exact), lines.T, precision=exact)
