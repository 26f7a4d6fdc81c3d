"""`pallas.ops.tpu.ragged_paged_attention`: sequences of any number of queries, with keys and values in pages."""

from __future__ import annotations

from typing import Any

from ..... import numpy as jnp
from ...attend import DEFAULT_MASK_VALUE, attend_by_operations
from ...paging import ragged


def ragged_paged_attention(
    q: Any, kv_pages: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any, *, sm_scale: float = 1.0,
    sliding_window: int | None = None, soft_cap: float | None = None, mask_value: float | None = DEFAULT_MASK_VALUE,
    k_scale: float | None = None, v_scale: float | None = None, num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None, vmem_limit_bytes: int | None = None,
) -> Any:  # fmt: skip
    """Causal attention of the queries of each sequence, which are its last positions.

    q is (tokens, heads, width), the sequences side by side from `cu_q_lens`; `kv_pages` is (pages, page size, 2 * key
    heads, width), a head's keys and values next to each other. Rows of no sequence are unspecified.
    """
    lengths, table, offsets, count = (jnp.asarray(x, "int32") for x in (kv_lens, page_indices, cu_q_lens, num_seqs))
    return ragged(
        q, kv_pages, lengths, table, offsets, count, scale=sm_scale, window=sliding_window, soft_cap=soft_cap,
        mask_value=DEFAULT_MASK_VALUE if mask_value is None else mask_value, k_scale=k_scale or 1.0,
        v_scale=v_scale or 1.0)  # fmt: skip


def ref_ragged_paged_attention(
    queries: Any, kv_pages: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any, *,
    sm_scale: float = 1.0, sliding_window: int | None = None, soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE, k_scale: float | None = None, v_scale: float | None = None,
) -> Any:  # fmt: skip
    """The same, sequence by sequence, by array operations; of known lengths."""
    outs, group = [], queries.shape[1] // (kv_pages.shape[2] // 2)
    for s in range(int(num_seqs[0])):
        q = jnp.swapaxes(queries[int(cu_q_lens[s]) : int(cu_q_lens[s + 1])], 0, 1)
        length, n = int(kv_lens[s]), q.shape[1]
        both = kv_pages[page_indices[s]].reshape(-1, *kv_pages.shape[2:])[:length].astype("float32")
        k, v = (jnp.repeat(jnp.swapaxes(both[:, part::2], 0, 1), group, 0) for part in (0, 1))
        at, place = jnp.arange(n)[:, None] + (length - n), jnp.arange(length)[None, :]
        mask = place <= at if sliding_window is None else (place <= at) & (place > at - sliding_window)
        out, _ = attend_by_operations(
            q, k * (k_scale or 1.0), v * (v_scale or 1.0), scale=sm_scale, mask=mask, soft_cap=soft_cap,
            mask_value=DEFAULT_MASK_VALUE if mask_value is None else mask_value)  # fmt: skip
        outs.append(jnp.swapaxes(out, 0, 1))
    return jnp.concatenate(outs)
