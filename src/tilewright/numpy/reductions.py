"""Reductions over axes: sums, extremes, moments, truth, positions; each with NumPy's keywords.

A reduction takes `initial` (a value combined with the result) and `where` (a mask; elements left out
count as the neutral element). Half-precision sums are accumulated in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import lax
from ..core.primitives.reduction.reduce import highest, lowest
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError
from .elementwise import as_boolean, isnan, where3
from .util import (
    Array,
    ArrayLike,
    Axis,
    DTypeLike,
    astype,
    axes_of,
    axis_of,
    broadcast_to_shape,
    computation_dtype,
    default_int,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_bool,
    is_complex,
    is_inexact,
    is_unsigned,
    no_out,
    promote_dtypes_inexact,
    shape_of,
    strong,
    to_inexact,
    value,
)


def kept(result: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Put reduced axes back as axes of size 1."""
    return lax.expand_dims(result, axes) if keepdims else result


def mask_of(where: Any) -> Array:
    """The mask of a reduction; numbers, which might be meant as places, are refused."""
    mask = value(where, "where")
    if not is_bool(dtype_of(mask)):
        raise ArgumentError(f"`where` of dtype {dtype_of(mask)}", "pass an array of booleans")
    return mask


def masked(a: Array, where: Any, neutral: Any) -> Array:
    """The array with elements outside a mask replaced by a neutral element."""
    return a if where is None else where3(mask_of(where), a, np.asarray(neutral).astype(dtype_of(a))[()])


def summands(a: Array, dtype: DTypeLike) -> Array:
    """The elements in the dtype in which sums of `dtype` are accumulated."""
    return strong(astype(astype(a, dtype) if is_bool(dtype) else a, computation_dtype(dtype)))


def count(shape: tuple[int, ...], axes: tuple[int, ...], where: Any, dtype: DTypeLike, keepdims: bool) -> Any:
    """How many elements a reduction takes in: a number, or an array where a mask decides."""
    if where is None:
        size = 1
        for axis in axes:
            size *= shape[axis]
        return size
    mask = broadcast_to_shape(mask_of(where), shape)
    return kept(lax.reduce_sum_p.bind(astype(mask, dtype), axes=axes), axes, keepdims)


def sum_dtype(dtype: Any, promote_integers: bool = True) -> Any:
    """The dtype of a sum: small integers and booleans widen to the default integer."""
    if is_inexact(dtype) or not promote_integers:
        return default_int() if is_bool(dtype) else dtype
    least = np.dtype(f"u{default_int().name}") if is_unsigned(dtype) else default_int()
    return dtype if dtype.itemsize > least.itemsize else least


# ---------------------------------------------------------------------------- sums and products


def _added(reduction: Any, combine: Any, neutral: int) -> Any:
    def reduce(
        a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None,
        promote_integers: bool = True,
    ) -> Array:  # fmt: skip
        a = value(a)
        result_dtype = sum_dtype(dtype_of(a), promote_integers) if dtype is None else dtype
        a = masked(summands(a, result_dtype), where, neutral)
        axes = axes_of(axis, len(shape_of(a)))
        result = kept(reduction(a, axes), axes, keepdims)
        if initial is not None:
            result = combine(result, astype(initial, dtype_of(a)))
        return astype(result, result_dtype)

    return reduce


_STATIC = ("axis", "dtype", "keepdims", "promote_integers")
_sum = inline_jit(*_STATIC)(_added(lax.reduce_sum, lax.add, 0))
_prod = inline_jit(*_STATIC)(_added(lax.reduce_prod, lax.mul, 1))


@public
def sum(  # noqa: A001
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True,
) -> Array:  # fmt: skip
    """The sum over axes; integers narrower than the default widen unless `promote_integers` is off.

    >>> from tilewright import numpy as jnp
    >>> jnp.sum(jnp.arange(6).reshape(2, 3), axis=0)
    Array([3, 5, 7], dtype=int32)
    """
    no_out(out, "sum")
    return _sum(a, axis, dtype_argument(dtype), keepdims, initial, where, promote_integers)


@public
def prod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True,
) -> Array:  # fmt: skip
    """The product over axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.prod(jnp.array([2., 3.]))
    Array(6., dtype=float32)
    """
    no_out(out, "prod")
    return _prod(a, axis, dtype_argument(dtype), keepdims, initial, where, promote_integers)


# ---------------------------------------------------------------------------- extremes


def _extreme(name: str, primitive: Any, combine: Any, neutral: Any) -> Any:
    def reduce(a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None) -> Array:
        a = value(a, name)
        if where is not None and initial is None:
            raise ArgumentError(f"{name} with `where` of elements that may all be left out", "give `initial`")
        a = masked(strong(a), where, neutral(dtype_of(a)))
        shape = shape_of(a)
        axes = axes_of(axis, len(shape))
        if initial is None and 0 in [shape[d] for d in axes]:
            raise ArgumentError(f"{name} of no elements (shape {shape}, axis {axis})", "give `initial`")
        if is_complex(dtype_of(a)):
            result = _complex_extreme(a, axes, name)
        else:
            result = primitive.bind(a, axes=axes)
        result = kept(result, axes, keepdims)
        return result if initial is None else combine(result, astype(initial, dtype_of(a)))

    return inline_jit("axis", "keepdims")(_named(reduce, f"_{name}"))


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


def _complex_extreme(a: Array, axes: tuple[int, ...], name: str) -> Array:
    """By real part, then by imaginary part; nan wins as it does for real numbers."""
    reduce_p = lax.reduce_max_p if name == "max" else lax.reduce_min_p
    re, im = lax.real(a), lax.imag(a)
    best = reduce_p.bind(re, axes=axes)
    outside = lax.ne(re, broadcast_to_shape(lax.expand_dims(best, axes), shape_of(re)))
    rest = lowest(dtype_of(im)) if name == "max" else highest(dtype_of(im))
    imaginary = reduce_p.bind(where3(outside, rest, im), axes=axes)
    return lax.complex(best, where3(isnan(best), np.nan, imaginary))


_max = _extreme("max", lax.reduce_max_p, lax.max, lowest)
_min = _extreme("min", lax.reduce_min_p, lax.min, highest)


@public
def max(  # noqa: A001
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The largest element over axes; nan if there is one.

    >>> from tilewright import numpy as jnp
    >>> jnp.max(jnp.array([1, 3, 2]))
    Array(3, dtype=int32)
    """
    no_out(out, "max")
    return _max(a, axis, keepdims, initial, where)


@public
def min(  # noqa: A001
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The smallest element over axes; nan if there is one.

    >>> from tilewright import numpy as jnp
    >>> jnp.min(jnp.array([2, 1, 3]))
    Array(1, dtype=int32)
    """
    no_out(out, "min")
    return _min(a, axis, keepdims, initial, where)


amax: Callable[..., Array]
amin: Callable[..., Array]
amax, amin = max, min


def minmax(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """The smallest and the largest element over axes.

    >>> from tilewright import numpy as jnp
    >>> [int(v) for v in jnp.minmax(jnp.array([2, 1, 3]))]
    [1, 3]
    """
    return min(a, axis, out, keepdims, initial, where), max(a, axis, out, keepdims, initial, where)


@public
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The range: largest less smallest.

    >>> from tilewright import numpy as jnp
    >>> jnp.ptp(jnp.array([1, 5]))
    Array(4, dtype=int32)
    """
    no_out(out, "ptp")
    return _ptp(a, axis, keepdims)


@inline_jit("axis", "keepdims")
def _ptp(a: Any, axis: Any, keepdims: bool) -> Array:
    return lax.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


# ---------------------------------------------------------------------------- truth


def _truth(name: str, primitive: Any, neutral: bool) -> Any:
    def reduce(a: Any, axis: Any = None, keepdims: bool = False, where: Any = None) -> Array:
        a = masked(as_boolean(value(a, name)), where, neutral)
        axes = axes_of(axis, len(shape_of(a)))
        return strong(kept(primitive.bind(a, axes=axes), axes, keepdims))

    return inline_jit("axis", "keepdims")(_named(reduce, f"_{name}"))


_all = _truth("all", lax.reduce_and_p, True)
_any = _truth("any", lax.reduce_or_p, False)


@public
def all(  # noqa: A001
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Whether all elements over axes are true.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.all(jnp.array([True, False])))
    False
    """
    no_out(out, "all")
    return _all(a, axis, keepdims, where)


@public
def any(  # noqa: A001
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Whether any element over axes is true.

    >>> from tilewright import numpy as jnp
    >>> bool(jnp.any(jnp.array([True, False])))
    True
    """
    no_out(out, "any")
    return _any(a, axis, keepdims, where)


@inline_jit("axis", "keepdims")
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements over axes are not zero.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.count_nonzero(jnp.array([0, 1, 2])))
    2
    """
    return sum(as_boolean(value(a, "count_nonzero")), axis, default_int(), keepdims=keepdims)


# ---------------------------------------------------------------------------- moments


def _inexact_result(a: Array, dtype: DTypeLike) -> Any:
    return to_inexact(dtype_of(a)) if dtype is None else dtype


@inline_jit("axis", "dtype", "keepdims")
def _mean(a: Any, axis: Any, dtype: DTypeLike, keepdims: bool, where: Any) -> Array:
    a = value(a, "mean")
    result = _inexact_result(a, dtype)
    work = computation_dtype(to_inexact(result))
    shape = shape_of(a) if where is None else np.broadcast_shapes(shape_of(a), shape_of(where))
    axes = axes_of(axis, len(shape))
    total = sum(a, axes, work, keepdims=keepdims, where=where)
    return strong(astype(total / count(shape, axes, where, work, keepdims), result))


@public
def mean(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, keepdims: bool = False, *,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The mean over axes; of integers a float.

    >>> from tilewright import numpy as jnp
    >>> jnp.mean(jnp.arange(4))
    Array(1.5, dtype=float32)
    """
    no_out(out, "mean")
    return _mean(a, axis, dtype_argument(dtype), keepdims, where)


@inline_jit("axis", "dtype", "keepdims", "correction")
def _var(a: Any, axis: Any, dtype: DTypeLike, correction: Any, keepdims: bool, where: Any, mean: Any) -> Array:
    a = value(a, "var")
    if dtype is not None and is_complex(dtype_of(a)) and not is_complex(dtype):
        raise ArgumentError(
            f"the variance of {dtype_of(a)} in {dtype}", "take the real part first, or leave `dtype` out"
        )
    inner = to_inexact(dtype_of(a)) if dtype is None else to_inexact(dtype)
    result = np.zeros((), to_inexact(dtype_of(a))).real.dtype if dtype is None else dtype
    work = computation_dtype(inner)
    a = astype(a, work)
    shape = shape_of(a) if where is None else np.broadcast_shapes(shape_of(a), shape_of(where))
    axes = axes_of(axis, len(shape))
    centre = _mean(a, axes, None, True, where) if mean is None else astype(mean, work)
    gap = masked(a - centre, where, 0)  # not only its square: a NaN left out would be in the derivative
    squares = lax.real(lax.mul(gap, lax.conj(gap))) if is_complex(work) else lax.square(gap)
    size = count(shape, axes, where, dtype_of(squares), keepdims)
    total = sum(squares, axes, keepdims=keepdims)
    left = size - correction
    if isinstance(left, (int, float)):
        return astype(total / left if left > 0 else total * np.nan, result)
    return astype(where3(left > 0, total / left, np.nan), result)


def _correction(ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if ddof not in (0, None):
        raise ArgumentError(f"ddof={ddof} and correction={correction} say the same", "give one of them")
    return correction


@public
def var(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    *, where: ArrayLike | None = None, mean: ArrayLike | None = None, correction: int | float | None = None,
) -> Array:  # fmt: skip
    """The variance over axes: the mean squared distance from the mean, with `ddof` taken off the count.

    >>> from tilewright import numpy as jnp
    >>> jnp.var(jnp.array([1., 3.]))
    Array(1., dtype=float32)
    """
    no_out(out, "var")
    return _var(a, axis, dtype_argument(dtype), _correction(ddof, correction), keepdims, where, mean)


@public
def std(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    *, where: ArrayLike | None = None, mean: ArrayLike | None = None, correction: int | float | None = None,
) -> Array:  # fmt: skip
    """The standard deviation over axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.std(jnp.array([1., 3.]))
    Array(1., dtype=float32)
    """
    no_out(out, "std")
    return _std(a, axis, dtype_argument(dtype), _correction(ddof, correction), keepdims, where, mean)


@inline_jit("axis", "dtype", "keepdims", "correction")
def _std(a: Any, axis: Any, dtype: DTypeLike, correction: Any, keepdims: bool, where: Any, mean: Any) -> Array:
    return lax.sqrt(_var(a, axis, dtype, correction, keepdims, where, mean))


@public
def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The weighted mean over axes; with `returned`, also the sum of the weights.

    >>> from tilewright import numpy as jnp
    >>> jnp.average(jnp.array([1., 2.]), weights=jnp.array([3., 1.]))
    Array(1.25, dtype=float32)
    """
    result, total = _average(a, axis, weights, keepdims)
    return (result, total) if returned else result


@inline_jit("axis", "keepdims")
def _average(a: Any, axis: Any, weights: Any = None, keepdims: bool = False) -> tuple[Array, Array]:
    a = value(a, "average")
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    if weights is None:
        result = mean(a, axes, keepdims=keepdims)
        return result, lax.full(shape_of(result), count(shape, axes, None, None, False), dtype_of(result))
    a, weights = promote_dtypes_inexact(a, value(weights, "average"))
    if shape_of(weights) != shape:
        if shape_of(weights) != tuple(shape[d] for d in axes):
            raise ArgumentError(
                f"weights of shape {shape_of(weights)} for an array of shape {shape} over axis {axis}",
                "give weights the shape of the array, or of the axes averaged over",
            )
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        weights = lax.broadcast_in_dim(lax.transpose(weights, order), shape, tuple(sorted(axes)))
    total = sum(weights, axes, keepdims=keepdims)
    return sum(lax.mul(a, weights), axes, keepdims=keepdims) / total, total


# ---------------------------------------------------------------------------- positions


def _position(name: str, function: Any) -> Any:
    def reduce(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
        a = value(a, name)
        shape = shape_of(a)
        if axis is None:
            flat = lax.reshape(a, (math.prod(shape),))
            number, shown = 0, tuple(range(len(shape)))
        else:
            flat, number = a, axis_of(axis, len(shape))
            shown = (number,)
        if shape_of(flat)[number] == 0:
            raise ArgumentError(f"{name} of no elements (shape {shape}, axis {axis})", "pass at least one element")
        return kept(function(flat, number, default_int()), shown, keepdims)

    return inline_jit("axis", "keepdims")(_named(reduce, f"_{name}"))


_argmax, _argmin = _position("argmax", lax.argmax), _position("argmin", lax.argmin)


@public
def argmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the largest element along an axis, or in the array laid flat; the first of equals.

    >>> from tilewright import numpy as jnp
    >>> jnp.argmax(jnp.array([1, 3, 2]))
    Array(1, dtype=int32)
    """
    no_out(out, "argmax")
    return _argmax(a, axis, bool(keepdims))


@public
def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the smallest element along an axis, or in the array laid flat; the first of equals.

    >>> from tilewright import numpy as jnp
    >>> jnp.argmin(jnp.array([2, 1, 3]))
    Array(1, dtype=int32)
    """
    no_out(out, "argmin")
    return _argmin(a, axis, bool(keepdims))


__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "max", "mean", "min", "minmax",
    "prod", "ptp", "std", "sum", "var",
]  # fmt: skip
