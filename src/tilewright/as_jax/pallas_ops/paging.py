"""Attention over pages of keys and values: kernels whose index maps read a prefetched table of pages."""

from __future__ import annotations

from typing import Any

from ... import lang as tl
from ... import numpy as jnp
from ...core.ir.types import ArrayType
from ...core.primitives.movement.shape import broadcasted_iota

LOWEST = -1e30
ROWS = 16  # queries of one sequence in a block


def _online(scores: Any, v: Any, top: Any, sums: Any, acc: Any) -> None:
    """Add a block of scores to a running softmax."""
    new = jnp.maximum(top[...], scores.max(1, keepdims=True))
    weights, kept = jnp.exp(scores - new), jnp.exp(top[...] - new)
    sums[...] = sums[...] * kept + weights.sum(1, keepdims=True)
    acc[...] = acc[...] * kept + jnp.dot(weights, v)
    top[...] = new


def _start(top: Any, sums: Any, acc: Any) -> None:
    top[...] = jnp.full(top.shape, LOWEST, "float32")
    sums[...] = jnp.zeros(sums.shape, "float32")
    acc[...] = jnp.zeros(acc.shape, "float32")


def _scores(q: Any, k: Any, soft_cap: float | None) -> Any:
    found = jnp.dot(q.astype("float32"), k.astype("float32").T)
    return found if soft_cap is None else soft_cap * jnp.tanh(found / soft_cap)


def decode(q: Any, k_pages: Any, v_pages: Any, lengths: Any, table: Any, *, soft_cap: float | None, mask_value: float,
           interpret: bool = False) -> Any:  # fmt: skip
    """One query of each sequence, (batch, heads, width), with pages (key heads, pages, page size, width).

    `table` has the pages of each sequence, (batch, pages per sequence), and `lengths` how many keys it has.
    """
    batch, heads, width = q.shape
    kv_heads, _, size, _ = k_pages.shape
    group = heads // kv_heads

    def page(b: Any, h: Any, p: Any, lengths: Any, table: Any) -> tuple[Any, ...]:
        return h, table[b, jnp.minimum(p, jnp.maximum(tl.cdiv(lengths[b], size) - 1, 0))], 0, 0

    def body(lengths: Any, table: Any, q: Any, k: Any, v: Any, o: Any, top: Any, sums: Any, acc: Any) -> None:
        b, p = tl.program_id(0), tl.program_id(2)
        tl.when(p == 0)(lambda: _start(top, sums, acc))

        @tl.when(p * size < lengths[b])
        def _() -> None:
            scores = _scores(q[...], k[...], soft_cap)
            place = p * size + broadcasted_iota("int32", scores.shape, 1)
            _online(jnp.where(place < lengths[b], scores, mask_value), v[...].astype("float32"), top, sums, acc)

        @tl.when(p == tl.num_programs(2) - 1)
        def _() -> None:
            o[...] = (acc[...] / jnp.where(sums[...] == 0, 1, sums[...])).astype(o.dtype)

    rows = tl.BlockSpec((None, None, group, width), lambda b, h, p, *_: (b, h, 0, 0))
    pages = tl.BlockSpec((None, None, size, width), page)
    call = tl.kernel_call(
        body, ArrayType((batch, kv_heads, group, width), q.dtype), interpret=interpret, name="paged_attention",
        grid_spec=tl.PrefetchScalarGridSpec(
            2, (batch, kv_heads, table.shape[1]), [rows, pages, pages], rows,
            [tl.VMEM((group, 1), "float32"), tl.VMEM((group, 1), "float32"), tl.VMEM((group, width), "float32")]),
        dimension_semantics=("parallel", "parallel", "arbitrary"))  # fmt: skip
    return call(lengths, table, q.reshape(batch, kv_heads, group, width), k_pages, v_pages).reshape(q.shape)


def ragged(
    q: Any, pages: Any, lengths: Any, table: Any, offsets: Any, count: Any, *, scale: float, window: int | None,
    soft_cap: float | None, mask_value: float, k_scale: float, v_scale: float,
) -> Any:  # fmt: skip
    """The queries of each sequence, side by side in (tokens, heads, width), which are the last of its positions.

    `pages` is (pages, page size, 2 * key heads, width), keys and values of a head next to each other; `offsets` says
    where the queries of each sequence start, and `count` how many sequences there are.
    """
    tokens, heads, width = q.shape
    _, size, both, _ = pages.shape
    kv_heads, group = both // 2, heads // (both // 2)

    def rows(s: Any, j: Any, offsets: Any, count: Any) -> Any:
        start = jnp.minimum(offsets[s] + j * ROWS, tokens)
        size: Any = jnp.clip(jnp.where(s < count[0], offsets[s + 1] - start, 0), 0, ROWS)
        return tl.ds(start, size)

    def queries(s: Any, j: Any, h: Any, *rest: Any) -> tuple[Any, ...]:
        *_, offsets, count = rest
        return rows(s, j, offsets, count), h, 0, 0

    def page(s: Any, j: Any, h: Any, p: Any, *prefetched: Any) -> tuple[Any, ...]:
        lengths, table, _, count = prefetched
        last = jnp.maximum(tl.cdiv(lengths[s], size) - 1, 0)
        return jnp.where(s < count[0], table[s, jnp.minimum(p, last)], 0), 0, h, 0, 0

    def body(lengths: Any, table: Any, offsets: Any, count: Any, q: Any, kv: Any, o: Any, top: Any, sums: Any,
             acc: Any) -> None:  # fmt: skip
        s, j, p = tl.program_id(0), tl.program_id(1), tl.program_id(3)
        tl.when(p == 0)(lambda: _start(top, sums, acc))

        @tl.when((rows(s, j, offsets, count).size > 0) & (p * size < lengths[s]))
        def _() -> None:
            pairs = kv[...].astype("float32")
            scores = _scores(q[...].reshape(ROWS * group, width), pairs[:, 0] * k_scale * scale, soft_cap)
            row = broadcasted_iota("int32", scores.shape, 0) // group
            at = lengths[s] - (offsets[s + 1] - offsets[s]) + j * ROWS + row
            place = p * size + broadcasted_iota("int32", scores.shape, 1)
            seen = (place <= at) & (place < lengths[s])
            seen = seen if window is None else seen & (place > at - window)
            _online(jnp.where(seen, scores, mask_value), pairs[:, 1] * v_scale, top, sums, acc)

        @tl.when(p == tl.num_programs(3) - 1)
        def _() -> None:
            found = acc[...] / jnp.where(sums[...] == 0, 1, sums[...])
            o[...] = found.reshape(o.shape).astype(o.dtype)

    spec = tl.BlockSpec((tl.BoundedSlice(ROWS), None, group, width), queries, fill=0)
    call = tl.kernel_call(
        body, ArrayType((tokens, kv_heads, group, width), q.dtype), name="ragged_paged_attention",
        grid_spec=tl.PrefetchScalarGridSpec(
            4, (table.shape[0], -(-tokens // ROWS), kv_heads, table.shape[1]),
            [spec, tl.BlockSpec((None, size, None, 2, width), page)], spec,
            [tl.VMEM((ROWS * group, 1), "float32"), tl.VMEM((ROWS * group, 1), "float32"),
             tl.VMEM((ROWS * group, width), "float32")]))  # fmt: skip
    given = q.reshape(tokens, kv_heads, group, width), pages.reshape(*pages.shape[:2], kv_heads, 2, width)
    return call(lengths, table, offsets, count, *given).reshape(q.shape)
