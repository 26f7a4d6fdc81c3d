"""The samplers that the others are made of: bits, uniform, normal, integers, choices and permutations.

Each public function checks its arguments and calls a compiled one with shape and dtype static.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from .. import numpy as tnp
from ..core.ir.array import Array, ArrayLike, DTypeLike
from ..core.ir.promotion import to_inexact
from ..core.ir.types import canonical_dtype, is_float, is_integer, is_unsigned, kind
from ..core.jit.jit import jit
from ..core.primitives.elementwise import arithmetic, bitwise, comparison, conversion
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.keys.threefry import UINTS
from ..core.primitives.movement import shape as shapes
from ..core.primitives.movement.sort import sort_key_val, top_k
from ..core.primitives.reduction.reduce import argmax
from ..core.primitives.special import functions
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, DtypeError, ShapeError
from ..core.tracing.array_conversion import as_array
from ..core.tracing.trace import dtype_of, shape_of, typeof
from .key import (
    Shape,
    chosen,
    finfo,
    float_dtype,
    int_dtype,
    one_key,
    raw_bits,
    sample_shape,
    split2,
    working_dtype,
)


def constant(dtype: DTypeLike, value: Any) -> Any:
    """A scalar of a dtype."""
    return np.asarray(value).astype(dtype)[()]


@public
def bits(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: None = None) -> Array:
    """Unsigned integers, every bit of them fair and independent; uint32 by default (uint64 with `enable_x64`).

    Raises `DtypeError` for a dtype that is not unsigned.

    >>> import tilewright as tw
    >>> tw.random.bits(tw.random.key(0), (2,)).dtype
    dtype('uint32')
    """
    key = one_key("bits", key)
    dtype = int_dtype("bits", dtype, np.uint64)
    if not is_unsigned(dtype):
        raise DtypeError(f"bits: dtype must be an unsigned integer dtype, got {dtype}", "use `randint`")
    return raw_bits(key, dtype.itemsize * 8, sample_shape("bits", shape))


# ---------------------------------------------------------------------------- uniform


@public
def uniform(
    key: ArrayLike, shape: Shape = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, *,
    out_sharding: None = None,
) -> Array:  # fmt: skip
    """Floats uniform in [minval, maxval), on a grid of as many steps as the mantissa has.

    Bounds of one element may have more axes than `shape`, which the result then has too. Raises `DtypeError` for a
    dtype that is not a float and `ShapeError` if the bounds do not broadcast to `shape`.

    >>> import tilewright as tw
    >>> bool(tw.random.uniform(tw.random.key(0)) < 1)
    True
    """
    key = one_key("uniform", key)
    rank = max(len(shape_of(minval)), len(shape_of(maxval)))
    if shape is not None and all(n == 1 for bound in (minval, maxval) for n in shape_of(bound)):
        shape = shapes.as_shape(shape, "uniform")
        shape = (*(1,) * (rank - len(shape)), *shape)
    shape = sample_shape("uniform", shape, minval, maxval)
    return draw_uniform(key, minval, maxval, shape, float_dtype("uniform", dtype))


@functools.partial(jit, static_argnums=(3, 4))
def draw_uniform(key: ArrayLike, minval: Any, maxval: Any, shape: Any, dtype: DTypeLike) -> Any:
    """Random mantissas under the exponent of [1, 2), less 1, scaled."""
    low, high = (shapes.broadcast_to(convert_element_type(v, dtype), shape) for v in (minval, maxval))
    info = finfo(dtype)
    width = 8 if info.nmant < 8 else info.bits
    word = UINTS[info.bits]
    mantissa = convert_element_type(raw_bits(key, width, shape), word)
    mantissa = bitwise.shift_right_logical_p.bind(mantissa, constant(word, width - info.nmant))
    one = np.ones((), dtype).view(word)[()]
    fraction = conversion.bitcast_convert_type(bitwise.or_p.bind(mantissa, one), dtype) - constant(dtype, 1)
    found = fraction * (high - low) + low
    if info.bits == 8:  # XLA computes the operands of a maximum of such floats anew for each place that reads them
        return comparison.select(found < low, low, found)
    return arithmetic.max(low, found)


# ---------------------------------------------------------------------------- normal


@public
def normal(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = None, *, out_sharding: None = None) -> Array:
    """Standard normal values; complex ones have variance 1 shared by both parts.

    Raises `DtypeError` for a dtype that is neither float nor complex.

    >>> import tilewright as tw
    >>> tw.random.normal(tw.random.key(0), (2, 3)).shape
    (2, 3)
    """
    key = one_key("normal", key)
    return draw_normal(key, sample_shape("normal", shape), float_dtype("normal", dtype, complex_too=True))


@functools.partial(jit, static_argnums=(1, 2))
def draw_normal(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Any:
    """The inverse of the normal's distribution function, at a uniform point of (-1, 1)."""
    if kind(dtype) == "complex":
        part = np.real(np.zeros((), dtype)).dtype
        re, im = (convert_element_type(draw_normal(k, shape, part), dtype) for k in split2(key))
        return (re + 1j * im) / constant(dtype, math.sqrt(2))
    low = np.nextafter(constant(dtype, -1), constant(dtype, 0))
    u = draw_uniform(key, low, constant(dtype, 1), shape, dtype)
    return functions.erf_inv(u) * constant(dtype, math.sqrt(2))


@public
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Shape | None = None, dtype: DTypeLike = None, *, out_sharding: None = None
) -> Array:
    """Normal values given that they lie in (lower, upper).

    >>> import tilewright as tw
    >>> bool(abs(tw.random.truncated_normal(tw.random.key(0), -1.0, 1.0)) < 1)
    True
    """
    key = one_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    return _truncated_normal(key, lower, upper, sample_shape("truncated_normal", shape, lower, upper), dtype)


@functools.partial(jit, static_argnums=(3, 4))
def _truncated_normal(key: ArrayLike, lower: Any, upper: Any, shape: Any, dtype: DTypeLike) -> Any:
    root = constant(dtype, math.sqrt(2))
    lower, upper = (convert_element_type(v, dtype) for v in (lower, upper))
    a, b = (functions.erf(v / root) for v in (lower, upper))
    out = root * functions.erf_inv(draw_uniform(key, a, b, shape, dtype))
    low, high = (
        shapes.broadcast_to(arithmetic.nextafter(conversion.stop_gradient(v), constant(dtype, end)), shape)
        for v, end in ((lower, np.inf), (upper, -np.inf))
    )
    return arithmetic.min(arithmetic.max(out, low), high)


# ---------------------------------------------------------------------------- integers


@public
def bernoulli(
    key: ArrayLike, p: Any = 0.5, shape: Shape | None = None, mode: str = "low", *, out_sharding: None = None
) -> Array:
    """Booleans, each True with probability `p`; `mode='high'` resolves small probabilities with twice the bits.

    Raises `DtypeError` if `p` is not a float.

    >>> import tilewright as tw
    >>> tw.random.bernoulli(tw.random.key(0), 0.3, (4,)).dtype
    dtype('bool')
    """
    key = one_key("bernoulli", key)
    chosen("bernoulli's mode", mode, ("high", "low"))
    dtype = dtype_of(p)
    if not is_float(dtype):
        raise DtypeError(f"bernoulli: p must be a float, got {dtype}", "cast it with `astype`")
    return _bernoulli(key, p, sample_shape("bernoulli", shape, p), mode)


@functools.partial(jit, static_argnums=(2, 3))
def _bernoulli(key: ArrayLike, p: Any, shape: Any, mode: str) -> Any:
    dtype = dtype_of(p)
    p = shapes.broadcast_to(p, shape)
    if mode == "low":
        return draw_uniform(key, 0.0, 1.0, shape, dtype) < p
    both = draw_uniform(key, 0.0, 1.0, (2, *shape), dtype)
    first, second = (shapes.index_in_dim(both, i, 0, keepdims=False) for i in range(2))
    return second * constant(dtype, 2.0 ** -finfo(dtype).nmant) < p - first


@public
def randint(key: Any, shape: Shape, minval: Any, maxval: Any, dtype: Any = None, *, out_sharding: None = None) -> Array:
    """Integers uniform in [minval, maxval); `minval` where that range is empty.

    Raises `DtypeError` for a dtype that is not an integer and `ShapeError` if the bounds do not broadcast to `shape`.

    >>> import tilewright as tw
    >>> int(tw.random.randint(tw.random.key(0), (), 5, 6))
    5
    """
    key = one_key("randint", key)
    dtype = int_dtype("randint", dtype)
    shape = sample_shape("randint", shape, minval, maxval)
    info = np.iinfo(dtype)
    wide = dtype if info.bits >= 32 else np.dtype(np.int32)
    bounds = [(minval, info.min, info.max), (maxval, info.min, info.max + (info.bits < 32))]
    minval, maxval = (_integer(v, wide if info.bits < 32 else None, low, high) for v, low, high in bounds)
    out = _randint(key, minval, maxval, shape, wide)
    return out if wide == dtype else convert_element_type(out, dtype)


def _integer(value: Any, narrow_to: Any, low: int, high: int) -> Any:
    """A bound as an integer; clipped to [low, high] if it is one of a type narrower than 32 bits."""
    if isinstance(value, int):
        value = constant(canonical_dtype(int), value)
    if not is_integer(dtype_of(value)):
        value = convert_element_type(value, canonical_dtype(int))
    if narrow_to is None:
        return value
    value = convert_element_type(value, narrow_to)
    return comparison.clamp(constant(narrow_to, low), value, constant(narrow_to, high))


def _clipped(value: Any, dtype: DTypeLike) -> Any:
    """An integer as another integer type, saturated."""
    own, info = np.iinfo(dtype_of(value)), np.iinfo(dtype)
    low, high = max(own.min, info.min), min(own.max, info.max)
    own_dtype = dtype_of(value)
    value = comparison.clamp(constant(own_dtype, low), value, constant(own_dtype, high))
    return convert_element_type(value, dtype)


@functools.partial(jit, static_argnums=(3, 4))
def _randint(key: ArrayLike, minval: Any, maxval: Any, shape: Any, dtype: Any) -> Any:
    """Two words modulo the span, the higher weighted by 2^bits modulo the span: bias below 2^-bits."""
    top = _clipped(constant(dtype, np.iinfo(dtype).max), dtype_of(maxval))
    past_end = shapes.broadcast_to(comparison.gt(maxval, shapes.broadcast_to(top, shape_of(maxval))), shape)
    low, high = (shapes.broadcast_to(_clipped(v, dtype), shape) for v in (minval, maxval))
    width = dtype.itemsize * 8
    word = UINTS[width]
    higher, lower = (raw_bits(k, width, shape) for k in split2(key))
    span = convert_element_type(high - low, word)
    span = comparison.select(high <= low, shapes.full_like(span, 1), span)
    span = comparison.select(past_end & (high > low), span + constant(word, 1), span)
    weight = arithmetic.rem(shapes.full_like(span, constant(word, 2 ** (width // 2))), span)
    weight = arithmetic.rem(weight * weight, span)
    offset = arithmetic.rem(higher, span) * weight + arithmetic.rem(lower, span)
    return low + convert_element_type(arithmetic.rem(offset, span), dtype)


@public
def rademacher(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = None, *, out_sharding: None = None) -> Array:
    """-1 or 1, each with probability one half.

    >>> import tilewright as tw
    >>> abs(int(tw.random.rademacher(tw.random.key(0))))
    1
    """
    key = one_key("rademacher", key)
    dtype = canonical_dtype(int if dtype is None else dtype)
    return _rademacher(key, sample_shape("rademacher", shape), dtype)


@functools.partial(jit, static_argnums=(1, 2))
def _rademacher(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Any:
    heads = convert_element_type(_bernoulli(key, constant(canonical_dtype(float), 0.5), shape, "low"), dtype)
    return constant(dtype, 2) * heads - constant(dtype, 1)


# ---------------------------------------------------------------------------- permutations and choices


@public
def permutation(
    key: ArrayLike, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: None = None
) -> Array:
    """The elements of `x` along `axis` (or of `range(x)`) in random order; slices move whole unless `independent`.

    >>> import tilewright as tw
    >>> sorted(tw.random.permutation(tw.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    key = one_key("permutation", key)
    type_ = typeof(x)
    axis = shapes.as_axis(axis, type_.ndim or 1, "permutation")
    if not type_.ndim:
        if not is_integer(type_.dtype):
            raise DtypeError(f"permutation of a scalar of dtype {type_.dtype}", "give an integer or an array")
        return _shuffle_range(key, operator.index(x))
    return _permutation(key, as_array(x), axis, independent)


@functools.partial(jit, static_argnums=(1,))
def _shuffle_range(key: ArrayLike, size: int) -> Any:
    return _shuffle(key, shapes.iota(canonical_dtype(int), size), 0)


@functools.partial(jit, static_argnums=(2, 3))
def _permutation(key: ArrayLike, x: Array, axis: int, independent: bool) -> Any:
    if independent or len(shape_of(x)) == 1:
        return _shuffle(key, x, axis)

    order = _shuffle_range(key, shape_of(x)[axis])
    return tnp.take(x, order, axis, unique_indices=True)


def _shuffle(key: ArrayLike, x: Any, axis: int) -> Any:
    """Sort by random words, as often as makes a tie unlikely: n^3 against 2^32 words to the power of the rounds."""
    size = math.prod(shape_of(x))
    rounds = math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, subkey = split2(key)
        _, x = sort_key_val(raw_bits(subkey, 32, shape_of(x)), x, axis)
    return x


@public
def choice(
    key: ArrayLike, a: Any, shape: Shape = (), replace: bool = True, p: Any = None, axis: int = 0,
    mode: str | None = None,
) -> Array:  # fmt: skip
    """Elements of `a` along `axis` (or of `range(a)`), with probabilities `p`, drawn with or without replacement.

    Raises `ArgumentError` for an empty `a`, or for more draws than elements without replacement.

    >>> import tilewright as tw
    >>> tw.random.choice(tw.random.key(0), 5, (3,), replace=False).shape
    (3,)
    """

    key = one_key("choice", key)
    shape = sample_shape("choice", shape)
    a_shape = shape_of(a)
    if a_shape:
        axis = shapes.as_axis(axis, len(a_shape), "choice")
    size, draws = (a_shape[axis] if a_shape else operator.index(a)), math.prod(shape)
    whole = (*a_shape[:axis], *shape, *a_shape[axis + 1 :])
    if draws == 0:
        return shapes.full(whole, 0, dtype_of(a))
    if size <= 0:
        raise ArgumentError("choice: there is nothing to choose from", "give a non-empty `a`")
    if not replace and draws > size:
        raise ArgumentError(f"choice: {draws} draws of {size} elements without replacement", "use replace=True")
    if p is None and not replace:
        mixed = permutation(key, a if not a_shape else as_array(a), axis)
        return shapes.reshape(shapes.slice_in_dim(mixed, 0, draws, axis=axis), whole)
    if p is None:
        index = randint(key, shape, 0, size)
    else:
        index = _weighted(key, p, size, shape, replace, mode)
    return shapes.reshape(tnp.take(as_array(a), index, axis), whole) if a_shape else index


def _weighted(key: ArrayLike, p: Any, size: int, shape: Any, replace: bool, mode: Any) -> Any:
    if shape_of(p) != (size,):
        raise ShapeError(f"choice: p has shape {shape_of(p)}, not ({size},)", "give one probability for each element")
    p = convert_element_type(p, working_dtype(to_inexact(dtype_of(p))))
    return _weighted_index(key, p, shape, replace, mode)


@functools.partial(jit, static_argnums=(2, 3, 4))
def _weighted_index(key: ArrayLike, p: Array, shape: Any, replace: bool, mode: Any) -> Any:
    integer = canonical_dtype(int)
    if replace:
        total = tnp.cumsum(p)
        u = constant(dtype_of(p), 1) - draw_uniform(key, 0.0, 1.0, shape, dtype_of(p))
        return convert_element_type(tnp.searchsorted(total, total[-1] * u), integer)
    noisy = draw_gumbel(key, shape_of(p), dtype_of(p), mode or "low") + arithmetic.log(p)
    return shapes.reshape(convert_element_type(top_k(noisy, math.prod(shape))[1], integer), shape)


# ---------------------------------------------------------------------------- gumbel and categorical


@public
def gumbel(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike = None, mode: str | None = None, *, out_sharding: None = None
) -> Array:
    """Gumbel values, with density exp(-(x + exp(-x))); `mode='high'` reaches further into the upper tail.

    That of float32 ends at about 16 without a mode, at 32 with 'high', and with 'highest', from 64 bits each, at 44.

    >>> import tilewright as tw
    >>> tw.random.gumbel(tw.random.key(0), (3,)).shape
    (3,)
    """
    key = one_key("gumbel", key)
    reach = chosen("gumbel's mode", mode or "low", ("highest", "high", "low"))
    shape, dtype = sample_shape("gumbel", shape), float_dtype("gumbel", dtype)
    return convert_element_type(draw_gumbel(key, shape, working_dtype(dtype), reach), dtype)


@functools.partial(jit, static_argnums=(1, 2, 3))
def draw_gumbel(key: ArrayLike, shape: Any, dtype: DTypeLike, mode: str) -> Any:
    """-log(-log(u)); in the high modes -log(-log(1 - u)) with u of twice the bits where it is small."""
    if mode == "highest" and dtype == np.float32:
        return _finest_gumbel(key, shape)
    info = finfo(dtype)
    log, neg = arithmetic.log, arithmetic.neg
    if mode == "low":
        return neg(log(neg(log(draw_uniform(key, info.tiny, 1.0, shape, dtype)))))
    both = draw_uniform(key, 0.0, 1.0, (2, *shape), dtype)
    high, low = (shapes.index_in_dim(both, i, 0, keepdims=False) for i in range(2))
    least = max(2.0 ** -(2 * info.nmant + 1), float(info.tiny))
    fine = high + constant(dtype, 2.0**-info.nmant) * low + constant(dtype, least)
    x = comparison.select(high >= constant(dtype, 0.5), high, fine)
    return neg(log(neg(arithmetic.log1p(neg(x)))))


def _finest_gumbel(key: ArrayLike, shape: Any) -> Any:
    """-log(-log(1 - u)) for u of 64 bits, of which 24 are kept; the smaller one of u and 1 - u is computed with."""
    words = raw_bits(key, 32, (2, *shape))
    high, low = (shapes.index_in_dim(words, i, 0, keepdims=False) for i in range(2))
    small = high < np.uint32(2**31)
    carry = convert_element_type(low == np.uint32(0), np.uint32)
    high = comparison.select(small, high, ~high + carry)
    low = comparison.select(small, low, ~low + np.uint32(1))
    zeros, more = bitwise.clz(high), bitwise.clz(low)
    none = zeros == np.uint32(32)
    joined = (high << zeros) | (low >> (np.uint32(32) - zeros))
    top = comparison.select(none, low << more, joined) >> np.uint32(8)
    zeros = convert_element_type(comparison.select(none, zeros + more, zeros), np.int32)
    x = convert_element_type(top, np.float32) * tnp.ldexp(np.float32(1), -24 - zeros)
    log, neg = arithmetic.log, arithmetic.neg
    return neg(log(neg(comparison.select(small, arithmetic.log1p(neg(x)), log(x)))))


@public
def categorical(
    key: ArrayLike,
    logits: Any,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: None = None,
) -> Array:
    """Indices along `axis`, each with probability proportional to the exponential of its logit (the Gumbel trick).

    Leading axes of `shape` beyond those of the batch are repeated draws; without replacement they are distinct.
    Raises `ArgumentError` for more such draws than categories.

    >>> import tilewright as tw
    >>> int(tw.random.categorical(tw.random.key(0), tw.numpy.array([0.0, 100.0])))
    1
    """
    key = one_key("categorical", key)
    logits = as_array(logits)
    full = shape_of(logits)
    axis = shapes.as_axis(axis, len(full), "categorical")
    batch = (*full[:axis], *full[axis + 1 :])
    shape = batch if shape is None else shapes.as_shape(shape, "categorical")
    if shape[len(shape) - len(batch) :] != batch and shapes.broadcast_shapes(shape, batch) != shape:
        raise ShapeError(f"categorical: shape {shape} does not end in the batch's shape {batch}", "prepend axes to it")
    lead = shape[: len(shape) - len(batch)]
    if not replace and math.prod(lead) > full[axis]:
        raise ArgumentError(
            f"categorical: {math.prod(lead)} draws of {full[axis]} categories without replacement", "use replace=True"
        )
    reach = chosen("categorical's mode", mode or "low", ("highest", "high", "low"))
    return _categorical(key, logits, axis, shape, lead, replace, reach)


@functools.partial(jit, static_argnums=(2, 3, 4, 5, 6))
def _categorical(key: ArrayLike, logits: Any, axis: int, shape: Any, lead: Any, replace: bool, mode: str) -> Any:
    dtype, full = working_dtype(dtype_of(logits)), shape_of(logits)
    logits = convert_element_type(logits, dtype)
    if replace:
        sizes = list(shape[len(lead) :])
        sizes.insert(axis, full[axis])
        whole = (*lead, *sizes)
        noisy = draw_gumbel(key, whole, dtype, mode) + shapes.broadcast_to(logits, whole)
        return argmax(noisy, axis + len(lead), canonical_dtype(int))
    noisy = logits + draw_gumbel(key, full, dtype, mode)
    order = [d for d in range(len(full)) if d != axis]
    _, index = top_k(shapes.transpose(noisy, (*order, axis)), math.prod(lead))
    ndim = len(shape_of(index))
    return shapes.reshape(shapes.transpose(index, (ndim - 1, *range(ndim - 1))), shape)
