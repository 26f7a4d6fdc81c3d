"""`pallas.ops.tpu.paged_attention`: one query of each sequence, with keys and values in pages."""

from __future__ import annotations

from typing import Any

from ..... import numpy as jnp
from ...attend import DEFAULT_MASK_VALUE
from ...paging import decode
from .quantization_utils import QuantizedTensor, unquantize_from_int8


def paged_attention(
    q: Any, k_pages: Any, v_pages: Any, lengths: Any, page_indices: Any, *, mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None, pages_per_compute_block: int, megacore_mode: str | None = None,
    inline_seq_dim: bool = True,
) -> Any:  # fmt: skip
    """`softmax(q @ k.T) @ v` of q (batch, heads, width) and pages (key heads, pages, page size, width).

    `page_indices` are the pages of each sequence, (batch, pages per sequence), and `lengths` the number of its keys.
    Of quantised pages the values are made first.
    """
    k_pages, v_pages = (unquantize_from_int8(x, q.dtype) if isinstance(x, QuantizedTensor) else x
                        for x in (k_pages, v_pages))  # fmt: skip
    return decode(q, k_pages, v_pages, jnp.asarray(lengths, "int32"), jnp.asarray(page_indices, "int32"),
                  soft_cap=attn_logits_soft_cap, mask_value=mask_value)  # fmt: skip
