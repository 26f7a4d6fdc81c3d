"""`pallas.ops.tpu.flash_attention`: attention of (batch, heads, positions, width)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..attend import DEFAULT_MASK_VALUE, attend, attend_by_operations, causal_mask, refuse, same_segment


class SegmentIds(NamedTuple):
    """The segment of each query, (batch, queries), and of each key, (batch, keys)."""

    q: Any
    kv: Any


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of blocks, which are not used."""

    block_q: int
    block_k_major: int
    block_k: int
    block_b: int
    block_q_major_dkv: int | None = None
    block_k_major_dkv: int | None = None
    block_k_dkv: int | None = None
    block_q_dkv: int | None = None
    block_k_major_dq: int | None = None
    block_k_dq: int | None = None
    block_q_dq: int | None = None

    @property
    def has_backward_blocks(self) -> bool:
        """Whether there are sizes for the derivative."""
        return self.block_q_dq is not None

    @classmethod
    def get_default(cls, *shape: Any) -> BlockSizes:
        """Some sizes."""
        return cls(128, 128, 128, 1, 128, 128, 128, 128, 128, 128, 128)


def flash_attention(
    q: Any, k: Any, v: Any, ab: Any = None, segment_ids: SegmentIds | None = None, *, causal: bool = False,
    sm_scale: float = 1.0, block_sizes: BlockSizes | None = None, debug: bool = False,
) -> Any:  # fmt: skip
    """`softmax(q @ k.T * sm_scale + ab) @ v`, `ab` of (batch, heads, queries, keys); reverse mode only.

    >>> from tilewright import numpy as tnp
    >>> q = tnp.ones((1, 2, 8, 4))
    >>> flash_attention(q, q, q, causal=True).shape
    (1, 2, 8, 4)
    """
    segments = None if segment_ids is None else (segment_ids.q, segment_ids.kv)
    # The bias comes after the scale here and in the fused kernel.
    return attend(q, k, v, scale=sm_scale, bias=ab, causal=causal, segments=segments)


def mha_reference(
    q: Any, k: Any, v: Any, ab: Any, segment_ids: SegmentIds | None = None, causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE, sm_scale: float = 1.0,
) -> Any:  # fmt: skip
    """The same by array operations."""
    return mha_reference_no_custom_vjp(q, k, v, ab, segment_ids, causal=causal, mask_value=mask_value,
                                       sm_scale=sm_scale)  # fmt: skip


def mha_reference_no_custom_vjp(
    q: Any, k: Any, v: Any, ab: Any = None, segment_ids: SegmentIds | None = None, *, causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE, sm_scale: float = 1.0, save_residuals: bool = False,
) -> Any:  # fmt: skip
    """The same by array operations."""
    refuse("mha_reference_no_custom_vjp", save_residuals=save_residuals)
    mask = None if segment_ids is None else same_segment(*segment_ids)
    if causal:
        below = causal_mask(q.shape[2], k.shape[2])
        mask = below if mask is None else mask & below
    return attend_by_operations(q, k, v, scale=sm_scale, bias=ab, mask=mask, mask_value=mask_value)[0]
