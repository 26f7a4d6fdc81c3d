"""Differences, integrals, interpolation and other functions of sampled data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import lax
from ...core.ir.array import Axis
from ...core.primitives.control_flow.subprograms import known
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, plural
from ..arithmetic import clip, mod
from ..create import asarray
from ..cumulative import cumsum
from ..dtypes import finfo
from ..elementwise import not_equal, subtract, where3
from ..index import take
from ..join import concatenate
from ..reductions import sum as sum_of
from ..select import where
from ..shape import moveaxis, ravel
from ..sorting import argsort, searchsorted
from ..util import (
    Array,
    ArrayLike,
    as_weak_as,
    astype,
    axes_of,
    axis_of,
    broadcast_to_shape,
    dtype_of,
    inline_jit,
    is_bool,
    is_complex,
    is_inexact,
    is_integer,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)


def _ends(a: Array, axis: int, edge: Any) -> Array:
    """Something to join before or after an array: a number becomes a slice."""
    edge = asarray(edge)
    dims = list(shape_of(a))
    dims[axis] = 1
    return edge if shape_of(edge) else broadcast_to_shape(edge, tuple(dims))


@inline_jit("n", "axis")
def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """The differences of neighbours along an axis, taken `n` times.

    >>> from tilewright import numpy as jnp
    >>> jnp.diff(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a = value(a, "diff")
    if not shape_of(a):
        raise ArgumentError("diff of an array of rank 0", "pass at least one dimension")
    if n < 0:
        raise ArgumentError(f"diff taken {n} times", "n is 0 or more")
    axis = axis_of(axis, len(shape_of(a)))
    if n == 0:
        return a
    parts = [
        *([] if prepend is None else [_ends(a, axis, prepend)]),
        a,
        *([] if append is None else [_ends(a, axis, append)]),
    ]
    a = concatenate(parts, axis) if len(parts) > 1 else a
    combine = not_equal if is_bool(dtype_of(a)) else subtract
    for _ in range(n):
        a = combine(lax.slice_in_dim(a, min(1, shape_of(a)[axis]), None, axis=axis),
                    lax.slice_in_dim(a, 0, max(shape_of(a)[axis] - 1, 0), axis=axis))  # fmt: skip
    return a


@inline_jit()
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """The differences of neighbours of an array laid flat, with values joined at the ends.

    >>> from tilewright import numpy as jnp
    >>> jnp.ediff1d(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a = ravel(value(ary, "ediff1d"))
    result = [lax.sub(lax.slice_in_dim(a, 1, None), lax.slice_in_dim(a, 0, shape_of(a)[0] - 1))]
    if to_begin is not None:
        result.insert(0, strong(astype(ravel(asarray(to_begin)), dtype_of(a))))
    if to_end is not None:
        result.append(strong(astype(ravel(asarray(to_end)), dtype_of(a))))
    return concatenate(result)


@public
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int | None = None) -> Any:
    """Numerical derivatives along axes: central differences inside, one-sided ones at the ends.

    `varargs` are the spacings: one for all axes, or for each axis a number or the coordinates.

    >>> from tilewright import numpy as jnp
    >>> jnp.gradient(jnp.array([1., 4., 9.]))
    Array([3., 4., 5.], dtype=float32)
    """
    if edge_order not in (None, 1):
        raise ArgumentError(f"edge_order={edge_order}", "only first-order differences at the ends are offered")
    (f,) = promote_dtypes_inexact(value(f, "gradient"))
    axes = axes_of(axis, len(shape_of(f)))
    if len(varargs) not in (0, 1, len(axes)):
        raise ArgumentError(f"{plural(len(varargs), 'spacing')} for {plural(len(axes), 'axis')}",
                            "give none, one, or one for each axis")  # fmt: skip
    steps = list(varargs) * len(axes) if len(varargs) == 1 else list(varargs) or [1.0] * len(axes)
    results = [as_weak_as(_gradient(f, h, d), f, *varargs) for h, d in zip(steps, axes, strict=True)]
    return results[0] if axis is not None and not isinstance(axis, (tuple, list)) or len(axes) == 1 else results


@inline_jit("axis")
def _gradient(f: Array, h: Any, axis: int) -> Array:
    n = shape_of(f)[axis]
    if n < 2:
        raise ArgumentError(f"gradient along an axis of {plural(n, 'element')}", "there must be at least 2")
    h = astype(asarray(h), dtype_of(f))

    def part(start: int, stop: int | None) -> Array:
        return lax.slice_in_dim(f, start, stop, axis=axis)

    first, last = part(1, 2) - part(0, 1), part(n - 1, n) - part(n - 2, n - 1)
    if not shape_of(h):
        inside = (part(2, None) - part(0, n - 2)) / (2 * h)
        return lax.concatenate([first / h, inside, last / h], axis)
    gaps = h[1:] - h[:-1]
    column = [1] * len(shape_of(f))
    column[axis] = n - 2
    left, right = (lax.reshape(g, column) for g in (gaps[: n - 2], gaps[1:]))
    inside = (
        -right / (left * (left + right)) * part(0, n - 2)
        + (right - left) / (left * right) * part(1, n - 1)
        + left / (right * (left + right)) * part(2, None)
    )
    return lax.concatenate([first / gaps[0], inside, last / gaps[n - 2]], axis)


@inline_jit("axis")
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral of samples along an axis by the trapezoidal rule.

    >>> from tilewright import numpy as jnp
    >>> jnp.trapezoid(jnp.array([1., 2., 3.]))
    Array(4., dtype=float32)
    """
    if x is None:
        y, dx = promote_dtypes_inexact(*promote_dtypes_inexact(value(y, "trapezoid")), value(dx))
        if shape_of(dx):  # an array of distances meets `y`, from the last axis on
            dx = moveaxis(lax.expand_dims(dx, range(len(shape_of(y)) - len(shape_of(dx)))), axis, -1)
        y = moveaxis(y, axis, -1)
    else:
        y, x = promote_dtypes_inexact(value(y, "trapezoid"), value(x))
        y = moveaxis(y, axis, -1)
        dx = diff(x) if len(shape_of(x)) == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    return strong(sum_of(dx * (y[..., 1:] + y[..., :-1]), -1) * 0.5)


@inline_jit("left", "right")
def _interp(x: Any, xp: Any, fp: Any, left: Any, right: Any, period: Any, edges: Any = ()) -> Array:
    x, xp = promote_dtypes_inexact(value(x, "interp"), value(xp, "interp"))
    (fp,) = promote_dtypes_inexact(value(fp, "interp"))
    if len(shape_of(xp)) != 1 or shape_of(xp) != shape_of(fp) or shape_of(xp)[0] == 0:
        raise ArgumentError(f"interp of points of shapes {shape_of(xp)} and {shape_of(fp)}", "pass equal vectors")
    if period is not None:
        period = lax.abs(value(period))
        x, xp = mod(x, period), mod(xp, period)
        order = argsort(xp)
        xp, fp = take(xp, order, mode="clip"), take(fp, order, mode="clip")
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    n = shape_of(xp)[0]
    place = clip(searchsorted(xp, x, side="right"), 1, n - 1) if n > 1 else lax.full(shape_of(x), 0, np.dtype(np.int32))
    before = place - 1 if n > 1 else place
    x0, x1, y0, y1 = (take(v, i, mode="clip") for v in (xp, fp) for i in (before, place))
    width = x1 - x0
    flat = lax.le(lax.abs(width), float(finfo(dtype_of(xp)).eps) ** 2)  # the quotient would be no number
    t = (x - x0) / where3(flat, 1.0, width)
    result = (
        where3(flat, y0, y0 + t * (y1 - y0)) if not is_complex(dtype_of(fp)) else y0 + where3(flat, 0.0, t) * (y1 - y0)
    )
    if period is None:
        below, above = edges
        slope_left = left == "extrapolate"
        slope_right = right == "extrapolate"
        if not slope_left:
            result = where(x < xp[0], fp[0] if below is None else below, result)
        if not slope_right:
            result = where(x > xp[-1], fp[-1] if above is None else above, result)
    return result


@public
def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """Linear interpolation between points with rising `xp`.

    Beyond them it is the first and the last value, or `left` and `right`; either may be 'extrapolate'.

    >>> from tilewright import numpy as jnp
    >>> jnp.interp(jnp.array([0.5]), jnp.array([0., 1.]), jnp.array([0., 10.]))
    Array([5.], dtype=float32)
    """
    for edge in (left, right):
        if isinstance(edge, str) and edge != "extrapolate":
            raise ArgumentError(f"interp beyond the points by {edge!r}", "give a value or 'extrapolate'")
    if period is not None and (shape_of(period) or known(period) == 0):
        raise ArgumentError(f"interp with period {period}", "the period is one number that is not zero")
    how = ["extrapolate" if isinstance(e, str) else None for e in (left, right)]
    edges = tuple(None if isinstance(e, str) else e for e in (left, right))
    return _interp(x, xp, fp, how[0], how[1], period, edges)


@inline_jit("axis", "period")
def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: Any = 2 * math.pi) -> Array:
    """Add multiples of a period along an axis so that no jump is larger than half of it.

    >>> from tilewright import numpy as jnp
    >>> jnp.unwrap(jnp.array([0., 4.]), period=4.)
    Array([0., 0.], dtype=float32)
    """
    p = value(p, "unwrap")
    if not is_inexact(dtype_of(p)) and not (is_integer(dtype_of(p)) and isinstance(period, int)):
        (p,) = promote_dtypes_inexact(p)
    axis = axis_of(axis, len(shape_of(p)))
    jump = diff(p, axis=axis)
    half = period / 2 if is_inexact(dtype_of(p)) else period // 2
    turned = mod(jump + half, period) - half
    even = is_inexact(dtype_of(p)) or period % 2 == 0
    if even:
        turned = where((turned == -half) & (jump > 0), half, turned)
    limit = half if discont is None else discont
    correction = where(abs(jump) < limit, 0, turned - jump)
    first = lax.slice_in_dim(p, 0, 1, axis=axis)
    rest = lax.slice_in_dim(p, 1, None, axis=axis) + cumsum(correction, axis)
    return lax.concatenate(promote_dtypes(first, rest), axis)


@inline_jit("axis", "bitorder")
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Bits (whether elements are zero) packed into bytes along an axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.packbits(jnp.array([1, 0, 0, 0, 0, 0, 0, 1]))
    Array([129], dtype=uint8)
    """
    a = value(a, "packbits")
    _check_bitorder(bitorder)
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_of(axis, len(shape_of(a)))
    bits = moveaxis(astype(lax.ne(a, np.zeros((), dtype_of(a))[()]), np.dtype(np.uint8)), axis, -1)
    rest = -shape_of(bits)[-1] % 8
    bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * (len(shape_of(bits)) - 1) + [(0, rest, 0)])
    bits = lax.reshape(bits, (*shape_of(bits)[:-1], shape_of(bits)[-1] // 8, 8))
    places = np.arange(8, dtype=np.uint8)[:: -1 if bitorder == "big" else 1]
    shifted = lax.shift_left(bits, broadcast_to_shape(places, shape_of(bits)))
    return moveaxis(lax.reduce_or(shifted, (len(shape_of(bits)) - 1,)), -1, axis)


def _check_bitorder(bitorder: str) -> None:
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"there is no bitorder {bitorder!r}", "one of 'big', 'little'")


@inline_jit("axis", "count", "bitorder")
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """Bytes as their bits along an axis; `count` cuts, or fills with zeros.

    >>> from tilewright import numpy as jnp
    >>> jnp.unpackbits(jnp.array([129], dtype=jnp.uint8))
    Array([1, 0, 0, 0, 0, 0, 0, 1], dtype=uint8)
    """
    a = value(a, "unpackbits")
    _check_bitorder(bitorder)
    if dtype_of(a) != np.uint8:
        raise ArgumentError(f"unpackbits of {dtype_of(a)}", "pass bytes (uint8)")
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_of(axis, len(shape_of(a)))
    a = moveaxis(a, axis, -1)
    wide = lax.broadcast_in_dim(a, (*shape_of(a), 8), range(len(shape_of(a))))
    places = np.arange(8, dtype=np.uint8)[:: -1 if bitorder == "big" else 1]
    bits = lax.bitwise_and(lax.shift_right_logical(wide, broadcast_to_shape(places, shape_of(wide))), np.uint8(1))
    bits = lax.reshape(bits, (*shape_of(a)[:-1], shape_of(a)[-1] * 8))
    if count is not None:
        bound = shape_of(bits)[-1]
        if count < -bound:
            raise ArgumentError(f"unpackbits of {bound} bits, with count={count}",
                                "a negative count drops bits from the end")  # fmt: skip
        more = (count - bound) if count >= 0 else count
        bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * (len(shape_of(bits)) - 1) + [(0, more, 0)])
    return moveaxis(bits, -1, axis)


__all__ = [
    "diff", "ediff1d", "gradient", "interp", "packbits", "trapezoid", "unpackbits", "unwrap",
]  # fmt: skip
