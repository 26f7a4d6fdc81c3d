"""Scaled dot-product attention that never holds the scores of all queries.

`o = softmax(q @ k.T * scale + bias) @ v` by blocks of queries (Rabe and Staats, 2021, arXiv:2112.05682). With the row
sums' logarithm l kept, the backward pass makes the shares again, `p = exp(s - l)`, and with
`delta = sum(do * o)`: `dv = p.T @ do`, `ds = p * (do @ v.T - delta)`, `dq = ds @ k * scale`, `dk = ds.T @ q * scale`
(Dao et al., 2022, arXiv:2205.14135). Where a row of keys does not fit in fast memory the forward kernel visits blocks
of keys with a running maximum and sum, and the backward pass is two kernels: one for dq, one for dk and dv. A causal
mask lets a block of queries leave out the keys after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright import lax
from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.support.errors import ArgumentError, ShapeError
from ...core.tracing.trace import shape_of
from ...lang.ops.basic import cdiv
from ...lang.targets.target import current_target
from ..cost import Cost
from .attention_kernels import (
    LOW,
    SCORES_BYTES,
    Form,
    backward_of_keys,
    backward_of_queries,
    backward_of_rows,
    forward,
    runs_of,
    sum_to,
    tiles,
)
from .base import Operation, dtype_of, nbytes, with_backward, work_dtype

SEGMENTS = 8  # into how many runs of queries a call is cut, where rows of scores are whole


def _cut(form: Form, t: int, length: int) -> list[tuple[Form, slice, slice]]:
    """Where it is causal, runs of queries, each with the keys that it sees: half the work."""
    step = cdiv(cdiv(t, SEGMENTS), form.rows) * form.rows
    if not form.causal or step >= t or form.columns < length:
        return [(form, slice(0, t), slice(0, length))]
    parts = []
    for first in range(0, t, step):
        end = min(first + step, t)
        seen = min(end, length)
        part = Form(form.scale, form.causal, form.window, min(form.rows, end - first), seen, first)
        parts.append((part, slice(first, end), slice(0, seen)))
    return parts


def _part_of(extra: dict[str, Any], rows: slice, columns: slice) -> dict[str, Any]:
    """Bias, mask and segments of a run of queries and of the keys that it sees."""
    found = {}
    for name, a in extra.items():
        shape = shape_of(a)
        if name in ("bias", "mask"):
            a = a[:, :, rows if shape[2] > 1 else slice(None), columns if shape[3] > 1 else slice(None)]
        elif name in ("query_segments", "key_segments"):
            a = a[:, rows if name == "query_segments" else columns]
        found[name] = a
    return found


def _after(x: Array, done: Sequence[Any], keys: Array) -> Any:
    """Queries `x`, once `done` are: runs that could be side by side would hold the scores of all of them.

    Few scores may be. XLA:CPU drops barriers before it orders a program, so this is a choice that it cannot see to be
    always the same.
    """
    (batch, t, heads, _), length = shape_of(x), shape_of(keys)[1]
    if 4 * batch * heads * max(t, length) * length <= SCORES_BYTES:
        return x
    for y in done:
        x = jnp.where(y.max() > np.inf, jnp.zeros((), x.dtype), x)
    return x


Backward = tuple[Form, ...] | None  # of the one backward kernel or the two; None: whole rows of scores


def _forward(form: Form, blocks: Backward, q: Array, k: Array, v: Array, extra: dict[str, Any]) -> tuple[Any, Any]:
    """The result and the sums of rows; where rows are whole, by runs of queries one after the other."""
    if blocks is not None:
        return tuple(forward(form, q, k, v, extra))
    done: list[Any] = []
    for f, r, c in _cut(form, shape_of(q)[1], shape_of(k)[1]):
        run = _after(q[:, r], [d[0] for d in done[-1:]], k)
        done.append(forward(f, run, k[:, c], v[:, c], _part_of(extra, r, c)))
    if len(done) == 1:
        return done[0][0], done[0][1]
    return jnp.concatenate([d[0] for d in done], 1), jnp.concatenate([d[1] for d in done], 2)


def _backward_by_blocks(
    blocks: tuple[Form, ...], q: Array, k: Array, v: Array, extra: dict[str, Any], sums: Array, delta: Array, ct: Array
) -> tuple[Any, Any, Any, Any]:
    """The cotangents of q, k, v and a bias (None without one), by a kernel for dq and one for dk and dv, or by one."""
    given = q, k, v, extra, sums, delta, ct.astype(q.dtype)
    if len(blocks) == 1:
        dk, dv, dq = backward_of_keys(blocks[0], *given, added=True)
        return (dq * blocks[0].scale).astype(q.dtype), dk, dv, None
    (dq, *scores), (dk, dv) = backward_of_queries(blocks[0], *given), backward_of_keys(blocks[1], *given)
    return dq, dk, dv, sum_to(scores[0], shape_of(extra["bias"])) if scores else None


def _backward_by_rows(
    form: Form, q: Array, k: Array, v: Array, extra: dict[str, Any], sums: Array, delta: Array, ct: Array
) -> tuple[Any, Any, Any, Any]:
    """The same by runs of queries one after the other, with rows of scores of all keys that a run sees."""
    work, length = work_dtype(q, k, v), shape_of(k)[1]
    dqs, dk, dv = [], jnp.zeros(shape_of(k), work), jnp.zeros(shape_of(v), work)
    dbias: Any = jnp.zeros(shape_of(extra["bias"]), work) if "bias" in extra else None
    whole = Form(form.scale, form.causal, form.window, form.rows, length)
    for f, r, c in _cut(whole, shape_of(q)[1], length):
        part, run = _part_of(extra, r, c), _after(q[:, r], [*dqs[-1:], dk, dv] if dqs else [], k)
        dq, dkp, dvp, *scores = backward_of_rows(
            f, run, k[:, c], v[:, c], part, sums[:, :, r], delta[:, :, r], ct[:, r]
        )
        dqs.append(dq)
        if c.stop == length:
            dk, dv = dk + dkp, dv + dvp
        else:
            dk, dv = dk.at[:, c].add(dkp), dv.at[:, c].add(dvp)
        if dbias is not None:
            (heads, rows, columns), (found,) = shape_of(dbias)[1:], scores
            found = sum_to(found, (shape_of(dbias)[0], heads, *shape_of(found)[2:]))
            dbias = dbias.at[:, :, r if rows > 1 else slice(None), c if columns > 1 else slice(None)].add(found)
    dq = dqs[0] if len(dqs) == 1 else jnp.concatenate(dqs, 1)
    return dq, dk.astype(k.dtype), dv.astype(v.dtype), dbias


def _vjp(form: Form, names: tuple[str, ...], blocks: Backward) -> Any:
    """Attention of q, k, v and the extras, with a custom derivative."""

    def forward(q: Array, k: Array, v: Array, *extra: Any) -> Any:
        return _forward(form, blocks, q, k, v, dict(zip(names, extra, strict=True)))

    def backward(ct: Array, q: Array, k: Array, v: Array, *rest: Any) -> Any:
        *values, out, sums = rest
        extra, work = dict(zip(names, values, strict=True)), work_dtype(q, k, v)
        delta = jnp.swapaxes((ct.astype(work) * out.astype(work)).sum(-1), 1, 2)
        given = q, k, v, extra, sums, delta, ct
        dq, dk, dv, dbias = _backward_by_rows(form, *given) if blocks is None else _backward_by_blocks(blocks, *given)
        return dq, dk, dv, *(dbias.astype(x.dtype) if name == "bias" else None for name, x in extra.items())

    return with_backward(forward, backward)


def _forms(
    form: Form, rows: int | None, columns: int | None, shape: tuple[int, ...], head_bytes: int, extra: Mapping[str, Any]
) -> Any:
    """The form of the forward kernel, and those of the backward kernels (None: whole rows of scores)."""
    target = current_target()
    batch, n, t, length = shape
    if target.whole_arrays:
        columns = min(columns or length, length)
        many = max(cdiv(t, 4), min(cdiv(t, 2), 128))  # fewer leave products small, more compute what is masked
        many = min(max(SCORES_BYTES // (4 * columns * batch * n), 64), many)
        return replace(form, rows=min(rows or many, t), columns=columns), None
    plain = not extra and not (t % 128 or length % 128 or head_bytes & (head_bytes - 1))
    made = []
    for which in range(3):
        r, c, params = tiles(target, which, t, length, head_bytes, plain)
        r = min(rows or r, t)
        made.append(replace(form, rows=r, columns=min(columns or c, length), params=params, runs=runs_of(target, r)))
    return made[0], (made[1], made[2])


def _four(x: Operand, shape: tuple[int, ...], what: str) -> Any:
    x = jnp.asarray(x)
    x = x.reshape((1,) * (4 - len(shape_of(x))) + shape_of(x)) if len(shape_of(x)) < 4 else x
    if len(shape_of(x)) != 4 or any(a not in (1, b) for a, b in zip(shape_of(x), shape, strict=True)):
        raise ShapeError(f"attention: a {what} {shape_of(x)} for scores {shape}", "it broadcasts to (batch, N, T, S)")
    return x


def _integers(x: Operand | None, shape: tuple[int, ...] | None = None) -> Any:
    if x is None:
        return None
    x = jnp.asarray(x).astype(jnp.int32)
    return x if shape is None else x.reshape(shape)


def dot_product_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None, mask: ArrayLike | None = None, *,
    scale: float | None = None, is_causal: bool = False, query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None, local_window_size: int | tuple[int, int] | None = None,
    query_segment_ids: ArrayLike | None = None, key_value_segment_ids: ArrayLike | None = None, rows: int | None = None,
    columns: int | None = None, deterministic: bool = True,
) -> Any:  # fmt: skip
    """`softmax(query @ key.T * scale + bias) @ value` by blocks: (batch, T, N, H), (batch, S, K, H), K divides N.

    `bias` and `mask` broadcast to (batch, N, T, S); lengths are (batch,); `local_window_size` keeps keys within (left,
    right) positions; segment ids, (batch, T) and (batch, S), keep keys of a query's own segment. `rows` and `columns`
    are the block of scores, by default the target's. Reverse mode only. On GPUs and without a bias,
    `deterministic=False` computes the gradient in one kernel of five products instead of two of seven; its blocks add
    to the gradient of the query atomically, in any order.

    Raises:
      ShapeError: operands that do not fit. ArgumentError: ids of one side only.

    >>> import numpy as np
    >>> q = np.ones((1, 2, 1, 4), np.float32)
    >>> dot_product_attention(q, q, q).shape
    (1, 2, 1, 4)
    """
    q, k, v = (jnp.asarray(x) for x in (query, key, value))
    if len(shape_of(q)) != 4 or len(shape_of(k)) != 4 or shape_of(k) != shape_of(v):
        raise ShapeError(f"attention of {shape_of(q)}, {shape_of(k)}, {shape_of(v)}",
                         "shapes are (batch, T, N, H), (batch, S, K, H), (batch, S, K, H)")  # fmt: skip
    (batch, t, n, h), (other, length, heads, width) = shape_of(q), shape_of(k)
    if batch != other or h != width or not heads or n % heads:
        raise ShapeError(f"attention of {shape_of(q)} and {shape_of(k)}", "batch and H are equal, K divides N")
    if (query_segment_ids is None) != (key_value_segment_ids is None):
        raise ArgumentError("attention was given segment ids of one side", "give those of queries and those of keys")
    if 0 in shape_of(q) or not length:
        return jnp.zeros(shape_of(q), q.dtype)
    shape, int32 = (batch, n, t, length), jnp.int32
    given = {
        "bias": None if bias is None else _four(bias, shape, "bias"),
        "mask": None if mask is None else _four(mask, shape, "mask").astype(int32),
        "query_segments": _integers(query_segment_ids),
        "key_segments": _integers(key_value_segment_ids),
        "query_lengths": _integers(query_seq_lengths, (batch, 1)),
        "key_lengths": _integers(key_value_seq_lengths, (batch, 1)),
    }
    extra = {name: a for name, a in given.items() if a is not None}
    window: Any = local_window_size or (None, None)
    window = (window, window) if isinstance(window, int) else window
    form = Form(1 / math.sqrt(h) if scale is None else scale, is_causal, tuple(window), t, length)
    form, backward = _forms(form, rows, columns, shape, h * dtype_of(q).itemsize, extra)
    if backward is not None and not deterministic and current_target().gpu and "bias" not in extra:
        backward = backward[1:]
    out = _vjp(form, tuple(extra), backward)(q, k, v, *extra.values())
    if "query_lengths" in extra:
        inside = lax.broadcasted_iota(int32, (1, t, 1, 1), 1) < extra["query_lengths"][:, :, None, None]
        out = jnp.where(inside, out, jnp.zeros((), out.dtype))
    return out


def reference(
    query: Operand, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None, mask: Any = None, *,
    scale: float | None = None, is_causal: bool = False, query_seq_lengths: Operand | None = None,
    key_value_seq_lengths: Operand | None = None, local_window_size: int | tuple[int, int] | None = None,
    query_segment_ids: Any = None, key_value_segment_ids: Any = None, **blocks: Any,
) -> Any:  # fmt: skip
    (_, t, n, h), (_, length, heads, _) = shape_of(query), shape_of(key)
    work = work_dtype(query, key, value)
    k, v = (jnp.repeat(x, n // heads, 2) for x in (key, value))
    s = jnp.einsum("btnh,bsnh->bnts", query, k, preferred_element_type=work) * (
        1 / math.sqrt(h) if scale is None else scale
    )
    s = s if bias is None else s + bias
    rows, columns = jnp.arange(t)[:, None], jnp.arange(length)[None, :]
    left, right = (
        (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size or (length, length)
    )
    keep = (columns >= rows - left) & (columns <= rows + right)
    keep = (keep & (rows >= columns) if is_causal else keep)[None, None]
    keep = keep if mask is None else keep & (mask != 0)
    if query_segment_ids is not None:
        keep = keep & (query_segment_ids[:, None, :, None] == key_value_segment_ids[:, None, None, :])
    if key_value_seq_lengths is not None:
        keep = keep & (columns < key_value_seq_lengths[:, None, None, None])
    if query_seq_lengths is not None:
        keep = keep & (rows < query_seq_lengths[:, None, None, None])
    s = jnp.where(keep, s, LOW)
    p = jnp.exp(s - lax.stop_gradient(s.max(-1, keepdims=True)))
    out = jnp.einsum("bnts,bsnh->btnh", (p / p.sum(-1, keepdims=True)).astype(query.dtype), v)
    if query_seq_lengths is not None:
        out = jnp.where(
            jnp.arange(t)[:, None, None] < query_seq_lengths[:, None, None, None], out, jnp.zeros((), out.dtype)
        )
    return out


def cost(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, *args: Any, is_causal: bool = False, **options: Any
) -> Cost:
    (b, t, n, h), s = shape_of(query), shape_of(key)[1]
    scores = b * n * t * s // (2 if is_causal else 1)
    return Cost(scores * (4 * h + 5), scores + b * n * t, nbytes(query, key, value, query))


OPERATIONS = (Operation("dot_product_attention", dot_product_attention, reference, cost),)
