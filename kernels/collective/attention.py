"""Attention over a sequence that is split over devices: keys and values go round, as in Liu et al. (2023).

Each device has some queries; it meets the keys and values of all devices one after the other, and keeps the greatest
logit so far, the sum of exponentials and the weighted sum of values, as online softmax does. The derivative is that of
the ring of `ppermute`s.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import numpy as np

from tilewright import lax
from tilewright import numpy as jnp

from ...core.api.transformations import vjp
from ...core.ir.array import Array, ArrayLike
from ...core.ir.types import ArrayType
from ...core.primitives.custom.custom_derivatives import custom_vjp
from ...core.support.errors import ShapeError
from ...core.tracing.trace import shape_of
from ...lang.call.kernel_call import kernel_call
from ...lang.kernel.block_spec import BlockSpec
from ...lang.ops.basic import program_id
from ...lang.ops.dma import SemaphoreType
from ...lang.ops.emit_pipeline import emit_pipeline
from ...lang.tpu import CompilerParams
from ..fused.base import dtype_of, work_dtype
from .ring import FAR, Ring, alike, all_pass, chosen, copied, passed_on, size_of, tile

LANES = 128  # a per-row value fills a TPU's lanes in HBM
LEAST = np.float32(-1e30)  # stands for minus infinity, so that what is masked wholly gives no NaN


def _logits(q: Array, k: Array, scale: float, causal: bool, rows: Array, columns: Array) -> Any:
    """q @ k.T of (..., T, D) and (..., S, D) in float32; `rows` and `columns` are where they begin in the sequence."""
    batch = tuple(range(len(shape_of(q)) - 2))
    last = len(batch) + 1
    found = lax.dot_general(q, k, (((last,), (last,)), (batch, batch)), preferred_element_type=work_dtype(q))
    found = found * np.asarray(scale, found.dtype)
    if not causal:
        return found
    shape = shape_of(found)
    mine, theirs = (lax.broadcasted_iota(np.int32, shape, d) for d in (last - 1, last))
    ahead = theirs + columns > mine + rows
    return jnp.where(ahead, np.asarray(LEAST, found.dtype), found)


def _met(q: Array, k: Array, v: Array, most: Array, total: Array, out: Array, scale: float, causal: bool, rows: Array,
         columns: Array) -> tuple[Any, Any, Any]:  # fmt: skip
    """The greatest logit, the sum and the weighted values, (..., T, 1) and (..., T, D), once k and v were met."""
    logits = _logits(q, k, scale, causal, rows, columns)
    new = jnp.maximum(most, logits.max(-1, keepdims=True))
    weights, before = jnp.exp(logits - new), jnp.exp(most - new)
    batch = tuple(range(len(shape_of(q)) - 2))
    last = len(batch)
    seen = lax.dot_general(weights.astype(v.dtype), v, (((last + 1,), (last,)), (batch, batch)),
                           preferred_element_type=logits.dtype)  # fmt: skip
    return new, total * before + weights.sum(-1, keepdims=True), out * before + seen


def _heads_first(x: Array) -> Any:
    return x.transpose(0, 2, 1, 3)


def _ring(q: Array, k: Array, v: Array, axis_name: Hashable, scale: float, causal: bool) -> Any:
    """Of arrays (batch, heads, T, D)."""
    count, length, here = size_of(axis_name), shape_of(k)[2], lax.axis_index(axis_name)
    one, work = (*shape_of(q)[:3], 1), work_dtype(q)
    state = jnp.full(one, LEAST, work), jnp.zeros(one, work), jnp.zeros(shape_of(q), work)
    for step in range(count):
        place = (here + count - step) % count
        after = [passed_on(x, axis_name) for x in (k, v)] if step < count - 1 else [None, None]
        state = _met(q, k, v, *state, scale, causal, here * shape_of(q)[2], place * length)
        k, v = after
    _, total, out = state
    return (out / total).astype(dtype_of(q))


def _kernel(q: Any, k: Any, v: Any, axis_name: Hashable, scale: float, causal: bool, collective_id: int) -> Any:
    """Of arrays (batch * heads, T, D)."""
    heads, length, width = shape_of(q)
    keys, work = shape_of(k)[1], work_dtype(q)
    rows = tile(length, 256, 16)

    def body(q: Any, k: Any, v: Any, out: Any, both: Any, most: Any, total: Any, held: Any, local: Any, send: Any,
             receive: Any, free: Any) -> None:  # fmt: skip
        ring = Ring(axis_name)
        copied(k, both.at[0, 0], local)
        copied(v, both.at[0, 1], local)
        ring.meet()

        def step(number: int, slot: Any, place: Any) -> None:
            first, last = number == 0, number == ring.size - 1

            def meet(q: Any, k: Any, v: Any, *refs: Any) -> None:
                states, outs = refs[: 0 if first else 3], refs[0 if first else 3 :]
                shape = q.shape
                state = [s[..., : 1 if n < 2 else width] for n, s in enumerate(states)] or [
                    jnp.full((*shape[:-1], 1), LEAST, work),
                    jnp.zeros((*shape[:-1], 1), work),
                    jnp.zeros(shape, work),
                ]
                at = ring.here * np.int32(length) + program_id(1) * np.int32(rows)
                top, total, mean = state
                found = _met(q[...], k[...], v[...], top, total, mean, scale, causal, at, place * np.int32(keys))
                if last:
                    found = ((found[2] / found[1]).astype(out.dtype),)
                for ref, value in zip(outs, found, strict=True):
                    ref[...] = jnp.broadcast_to(value, ref.shape)

            whole = BlockSpec((1, keys, width), lambda h, i: (h, 0, 0))
            part = BlockSpec((1, rows, width), lambda h, i: (h, i, 0))
            one = BlockSpec((1, rows, LANES), lambda h, i: (h, i, 0))
            state_specs, states = [one, one, part], [most, total, held]
            run = emit_pipeline(
                meet, grid=(heads, length // rows), in_specs=[part, whole, whole, *([] if first else state_specs)],
                out_specs=[part] if last else state_specs,
            )  # fmt: skip
            run(q, both.at[slot, 0], both.at[slot, 1], *([] if first else states), *([out] if last else states))

        all_pass(ring, both, send, receive, free, step)

    one, whole = ArrayType((heads, length, LANES), work), ArrayType((heads, length, width), work)
    outs = [ArrayType(shape_of(q), dtype_of(q)), ArrayType((2, 2, heads, keys, width), dtype_of(k)), one, one, whole]
    return kernel_call(
        body, outs, in_specs=[FAR] * 3, out_specs=[FAR] * 5, name="ring_attention",
        scratch_shapes=[SemaphoreType.DMA, SemaphoreType.DMA, SemaphoreType.DMA((2,)), SemaphoreType.REGULAR],
        compiler_params=CompilerParams(collective_id=collective_id),
    )(q, k, v)[0]  # fmt: skip


@functools.partial(custom_vjp, nondiff_argnums=(3, 4, 5, 6))
def _by_kernel(q: Any, k: Any, v: Any, axis_name: Hashable, scale: float, causal: bool, collective_id: int) -> Any:
    flat_q, flat_k, flat_v = (x.reshape(-1, *shape_of(x)[2:]) for x in (q, k, v))
    return _kernel(flat_q, flat_k, flat_v, axis_name, scale, causal, collective_id).reshape(shape_of(q))


def _forward(q: Any, k: Any, v: Any, axis_name: Hashable, scale: float, causal: bool, collective_id: int) -> Any:
    return _by_kernel(q, k, v, axis_name, scale, causal, collective_id), (q, k, v)


def _backward(axis_name: Hashable, scale: float, causal: bool, collective_id: int, saved: Any, ct: Any) -> Any:
    return vjp(lambda q, k, v: _ring(q, k, v, axis_name, scale, causal), *saved)[1](ct)


_by_kernel.defvjp(_forward, _backward)


def ring_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, axis_name: Hashable, *, is_causal: bool = False,
    scale: float | None = None, way: str | None = None, collective_id: int = 0,
) -> Any:  # fmt: skip
    """Attention within a `shard_map` that splits the sequence: arrays (batch, T, heads, D) of a device; the same back.

    Each device meets the keys and values of all, which go round while it computes. With `is_causal` a query sees the
    keys up to its own place in the whole sequence. `scale` is by default 1 / sqrt(D). `way` and `collective_id` are as
    in `all_gather_matmul`. The algorithm is that of Liu, Zaharia, Abbeel, "Ring Attention" (2023). Raises a
    `ShapeError` for arrays of other ranks or sizes, and an `UnboundAxisError` outside of a `shard_map`.

    >>> import numpy as np, tilewright as tw
    >>> mesh = tw.make_mesh((1,), ("x",))
    >>> f = tw.shard_map(lambda q: ring_attention(q, q, q, "x"), mesh=mesh, in_specs=tw.P(None, "x"),
    ...                  out_specs=tw.P(None, "x"))
    >>> f(np.ones((1, 4, 2, 8), np.float32)).shape
    (1, 4, 2, 8)
    """
    q, k, v = (shape_of(x) for x in (query, key, value))
    if len(q) != 4 or k != v or (*q[:1], *q[2:]) != (*k[:1], *k[2:]):
        raise ShapeError(f"ring_attention of shapes {q}, {k} and {v}",
                         "give arrays (batch, T, heads, D), keys and values of one shape")  # fmt: skip
    way = chosen("ring_attention", axis_name, way, q[1], q[3])
    scale = float(q[-1] ** -0.5 if scale is None else scale)
    query, key, value = (_heads_first(x) for x in alike(axis_name, query, key, value))
    if way == "kernel":
        return _heads_first(_by_kernel(query, key, value, axis_name, scale, is_causal, collective_id))
    return _heads_first(_ring(query, key, value, axis_name, scale, is_causal))


def ring_attention_reference(
    query: Any, key: Any, value: Any, axis_name: Any, *, is_causal: bool = False, scale: float | None = None
) -> Any:
    """Attention to keys and values that every device gathers."""
    k, v = (_heads_first(lax.all_gather(x, axis_name, axis=1, tiled=True)) for x in (key, value))
    q = _heads_first(query)
    scale = float(shape_of(q)[-1] ** -0.5 if scale is None else scale)
    logits = _logits(q, k, scale, is_causal, lax.axis_index(axis_name) * shape_of(q)[2], np.int32(0))
    weights = jnp.exp(logits - logits.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True)).astype(dtype_of(v))
    return _heads_first(lax.dot_general(weights, v, (((3,), (2,)), ((0, 1), (0, 1)))).astype(dtype_of(q)))
