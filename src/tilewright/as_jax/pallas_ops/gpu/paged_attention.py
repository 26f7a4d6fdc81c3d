"""`pallas.ops.gpu.paged_attention`: one query of each sequence, with keys and values in pages."""

from __future__ import annotations

from typing import Any

from .... import numpy as jnp
from ..attend import DEFAULT_MASK_VALUE, attend_by_operations
from ..paging import decode


def paged_attention(
    q: Any, k_pages: Any, v_pages: Any, block_tables: Any, lengths: Any, k_scales_pages: Any = None,
    v_scales_pages: Any = None, *, block_h: int = 16, pages_per_compute_block: int = 8, k_splits: int = 16,
    num_warps: int = 8, num_stages: int = 2, interpret: bool = False, debug: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE, attn_logits_soft_cap: float | None = None,
) -> Any:  # fmt: skip
    """`softmax(q @ k.T) @ v` of q (batch, heads, width) and pages (key heads, pages, page size, width).

    `block_tables` are the pages of each sequence, (batch, pages per sequence), and `lengths` the number of its keys
    (None: all of its pages). Scales, (key heads, pages, page size), multiply the pages.
    """
    table = jnp.asarray(block_tables, "int32")
    if lengths is None:
        lengths = jnp.full(q.shape[0], table.shape[1] * k_pages.shape[2])
    if k_scales_pages is not None:
        k_pages = k_pages.astype(q.dtype) * k_scales_pages[..., None].astype(q.dtype)
    if v_scales_pages is not None:
        v_pages = v_pages.astype(q.dtype) * v_scales_pages[..., None].astype(q.dtype)
    return decode(q, k_pages, v_pages, jnp.asarray(lengths, "int32"), table, soft_cap=attn_logits_soft_cap,
                  mask_value=mask_value, interpret=interpret)  # fmt: skip


def paged_attention_reference(
    q: Any, k: Any, v: Any, lengths: Any, *, mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
) -> Any:  # fmt: skip
    """The same by array operations, of k and v (batch, keys, key heads, width)."""
    k, v = (jnp.repeat(jnp.swapaxes(x, 1, 2), q.shape[1] // x.shape[2], 1) for x in (k, v))
    mask = None
    if lengths is not None:
        mask = jnp.arange(k.shape[2])[None, None, None, :] < jnp.asarray(lengths)[:, None, None, None]
    out, _ = attend_by_operations(q[:, :, None], k, v, mask=mask, soft_cap=attn_logits_soft_cap, mask_value=mask_value)
    return out[:, :, 0]
