"""Scaled dot-product attention, as one expression of arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import lax
from ..core.support.errors import ArgumentError, DtypeError, ShapeError
from ..numpy.contract import einsum
from ..numpy.elementwise import where3
from ..numpy.manipulation.repeat import repeat
from ..numpy.util import (
    Array,
    ArrayLike,
    astype,
    dtype_of,
    inline_jit,
    is_bool,
    promote_dtypes_inexact,
    shape_of,
    value,
)
from .fused import dot_product_attention as fused_attention
from .normalisation import logsumexp, softmax

IMPLEMENTATIONS = (None, "xla", "cudnn", "fused")
FUSED_FROM = 1024  # queries from which the kernel is faster, where it leaves out half of the scores


def dot_product_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None, mask: ArrayLike | None = None,
    *, scale: float | None = None, is_causal: bool = False, query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None, local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None, return_residual: bool = False, deterministic: bool = True,
) -> Any:  # fmt: skip
    """`softmax(query @ key.T * scale + bias) @ value` over heads, with masks.

    Shapes: query (batch, T, N, H), key and value (batch, S, K, H), where K divides N (grouped heads); the batch
    axis may be absent. bias and mask broadcast to (batch, N, T, S). Lengths, one per batch element, leave out what
    comes after them; `local_window_size` keeps keys within (left, right) positions. With `return_residual` also the
    logarithm of the softmax sums, of shape (batch, T, N). Softmax is computed in float32. `implementation`: 'fused' is
    blocks of scores with a reverse-mode derivative only, 'xla' the plain expression; None takes the faster of them.
    On GPUs `deterministic=False` lets the fused gradient be one kernel, whose blocks add up in any order.

    >>> from tilewright import nn, numpy as jnp
    >>> q = jnp.ones((1, 2, 1, 4))
    >>> nn.dot_product_attention(q, q, q).shape
    (1, 2, 1, 4)
    """
    if implementation not in IMPLEMENTATIONS:
        raise ArgumentError(f"there is no implementation {implementation!r} of attention", f"one of {IMPLEMENTATIONS}")
    if mask is not None and not is_bool(dtype_of(mask)):
        raise DtypeError(f"dot_product_attention: a mask of {dtype_of(mask)}", "`mask != 0`; what is added is `bias`")
    window = (local_window_size, local_window_size) if isinstance(local_window_size, int) else local_window_size
    if not return_residual and _is_fused(implementation, query, key, is_causal):
        return _fused(query, key, value, bias, mask, query_seq_lengths, key_value_seq_lengths, scale, is_causal, window,
                      deterministic)  # fmt: skip
    result, residual = _attention(
        query, key, value, bias, mask, query_seq_lengths, key_value_seq_lengths, scale, is_causal, window
    )
    return (result, residual) if return_residual else result


def _is_fused(implementation: str | None, query: ArrayLike, key: ArrayLike, is_causal: bool) -> bool:
    """Whether the kernel is asked for, or faster: measured, it is for long causal calls."""
    if implementation is not None:
        return implementation == "fused"
    q, k = shape_of(value(query)), shape_of(value(key))
    known = all(type(d) is int for d in (*q, *k))
    return known and is_causal and len(q) == 4 and len(k) == 4 and q[1] >= FUSED_FROM and k[1] >= FUSED_FROM


@inline_jit("scale", "is_causal", "window", "deterministic")
def _fused(
    query: Any, key: Any, val: Any, bias: Any = None, mask: Any = None, query_lengths: Any = None,
    key_lengths: Any = None, scale: Any = None, is_causal: bool = False, window: Any = None, deterministic: bool = True,
) -> Array:  # fmt: skip
    q, k, v = promote_dtypes_inexact(value(query), value(key), value(val))
    alone = len(shape_of(q)) == 3
    if alone:
        q, k, v = (lax.expand_dims(x, (0,)) for x in (q, k, v))
    _check_shapes(q, k, v)
    out = fused_attention(
        q, k, v, bias, mask, scale=scale, is_causal=is_causal, query_seq_lengths=query_lengths,
        key_value_seq_lengths=key_lengths, local_window_size=window, deterministic=deterministic,
    )  # fmt: skip
    return lax.squeeze(out, (0,)) if alone else out


@inline_jit("scale", "is_causal", "window")
def _attention(
    query: Any, key: Any, val: Any, bias: Any = None, mask: Any = None, query_lengths: Any = None,
    key_lengths: Any = None, scale: Any = None, is_causal: bool = False, window: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    q, k, v = promote_dtypes_inexact(value(query), value(key), value(val))
    alone = len(shape_of(q)) == 3
    if alone:
        q, k, v = (lax.expand_dims(x, (0,)) for x in (q, k, v))
    _check_shapes(q, k, v)
    heads, groups = shape_of(q)[2], shape_of(k)[2]
    if groups != heads:
        k, v = (repeat(x, heads // groups, 2) for x in (k, v))
    dtype = dtype_of(q)
    work = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    scale = 1 / math.sqrt(shape_of(q)[-1]) if scale is None else scale
    logits = einsum("btnh,bsnh->bnts", q, k, preferred_element_type=work) * scale
    if bias is not None:
        logits = logits + _four_axes(value(bias))
    keep = _kept(logits, mask, query_lengths, key_lengths, is_causal, window)
    if keep is not None:
        # Large and negative rather than -inf: a row that keeps nothing must not become nan.
        logits = where3(keep, logits, np.asarray(-0.7 * float(np.finfo(work).max), work)[()])
    shares = astype(softmax(logits, -1), dtype)
    result = einsum("bnts,bsnh->btnh", shares, v)
    if query_lengths is not None:
        inside = lax.broadcasted_iota(np.dtype(np.int32), (1, shape_of(q)[1], 1, 1), 1) < _four_axes_of(query_lengths)
        result = where3(inside, result, np.zeros((), dtype_of(result))[()])

    residual = astype(lax.transpose(logsumexp(logits, -1), (0, 2, 1)), dtype)
    if alone:
        result, residual = lax.squeeze(result, (0,)), lax.squeeze(residual, (0,))
    return result, residual


def _check_shapes(q: Array, k: Array, v: Array) -> None:
    shapes = [shape_of(x) for x in (q, k, v)]
    fits = all(len(shape) == 4 for shape in shapes)
    if fits:
        (b, _, n, h), (bk, s, g, hk), (bv, sv, gv, _) = shapes
        fits = (b, s, g) == (bv, sv, gv) and bk == b and h == hk and n % g == 0
    if not fits:
        raise ShapeError(
            f"attention of query {shapes[0]}, key {shapes[1]}, value {shapes[2]}",
            "shapes are (batch, T, N, H), (batch, S, K, H), (batch, S, K, H) with K dividing N",
        )


def _four_axes(x: Array) -> Array:
    return lax.expand_dims(x, tuple(range(4 - len(shape_of(x))))) if len(shape_of(x)) < 4 else x


def _four_axes_of(lengths: Any) -> Array:
    return lax.expand_dims(value(lengths), (1, 2, 3))


def _kept(logits: Array, mask: Any, query_lengths: Any, key_lengths: Any, is_causal: bool, window: Any) -> Any:
    """Which logits count; None if all do."""
    *_, t, s = shape_of(logits)
    rows, columns = (lax.broadcasted_iota(np.dtype(np.int32), (1, 1, t, s), d) for d in (2, 3))
    parts = [] if mask is None else [_four_axes(value(mask))]
    if is_causal:
        parts.append(rows >= columns)
    if window is not None:
        left, right = window
        parts += [columns >= rows - left, columns <= rows + right]
    if query_lengths is not None:
        parts.append(rows < _four_axes_of(query_lengths))
    if key_lengths is not None:
        parts.append(columns < _four_axes_of(key_lengths))
    keep = None
    for part in parts:
        keep = part if keep is None else keep & part
    return keep
