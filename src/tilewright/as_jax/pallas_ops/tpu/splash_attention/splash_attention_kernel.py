"""Attention of (heads, positions, width) with a static mask."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..... import numpy as jnp
from .....core.support import pytree
from ...attend import DEFAULT_MASK_VALUE, attend, attend_by_operations, refuse
from .splash_attention_mask import Mask, NumpyMask


class SegmentIds(NamedTuple):
    """The segment of each query, and of each key."""

    q: Any
    kv: Any


class QKVLayout(enum.IntEnum):
    """The order of axes in memory, which is not used."""

    HEAD_DIM_MINOR = enum.auto()
    SEQ_MINOR = enum.auto()


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Sizes of blocks, which are not used."""

    block_q: int
    block_kv: int
    block_kv_compute: int | None = None
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_kv_dkv_compute: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None
    use_fused_bwd_kernel: bool = False
    q_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    k_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    v_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR

    @property
    def has_backward_blocks(self) -> bool:
        """Whether there are sizes for the derivative."""
        return self.block_q_dkv is not None

    @classmethod
    def get_default(cls) -> BlockSizes:
        """Some sizes."""
        return cls(128, 128)


@pytree.register_static
@dataclass(frozen=True)
class SplashAttentionKernel:
    """Attention of q (heads, queries, width) with k and v (heads, keys, width), or of one head for all (MQA)."""

    mask: Any
    one_head: bool
    mask_value: float
    soft_cap: float | None
    by_operations: bool = False

    def __call__(self, q: Any, k: Any, v: Any, segment_ids: SegmentIds | None = None, sinks: Any = None) -> Any:
        """The attention; q is scaled by the caller."""
        refuse("splash attention", sinks=sinks is not None)
        k, v = (x[None] if self.one_head else x for x in (k, v))
        mask = jnp.asarray(np.asarray(self.mask[:, :, :] if isinstance(self.mask, Mask) else self.mask))
        if segment_ids is not None and (self.soft_cap is not None or self.by_operations):
            mask = mask & (segment_ids.q[:, None] == segment_ids.kv[None, :])
        if self.soft_cap is None and not self.by_operations:
            segments = None if segment_ids is None else (segment_ids.q[None], segment_ids.kv[None])
            return attend(q[None], k[None], v[None], mask=mask[None], segments=segments)[0]
        k, v = (jnp.repeat(x, q.shape[0] // x.shape[0], 0) for x in (k, v))
        return attend_by_operations(q, k, v, mask=mask, soft_cap=self.soft_cap, mask_value=self.mask_value)[0]


def _make(
    mask: Any, *, is_mqa: bool, block_sizes: BlockSizes | None = None, save_residuals: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE, attn_logits_soft_cap: float | None = None, downcast_smem_data: bool = True,
    head_shards: int = 1, q_seq_shards: int = 1, residual_checkpoint_name: str | None = None, interpret: bool = False,
) -> SplashAttentionKernel:  # fmt: skip
    refuse("splash attention", save_residuals=save_residuals)
    held = mask if isinstance(mask, Mask) else NumpyMask(np.asarray(mask))
    return SplashAttentionKernel(held, is_mqa, mask_value, attn_logits_soft_cap)


def _make_reference(mask: Any, is_mqa: bool, backward_impl: str = "vanilla", **params: Any) -> SplashAttentionKernel:
    kernel = _make(mask, is_mqa=is_mqa, **params)
    return SplashAttentionKernel(kernel.mask, is_mqa, kernel.mask_value, kernel.soft_cap, True)


make_splash_mha: Any = functools.partial(_make, is_mqa=False)
make_splash_mqa: Any = functools.partial(_make, is_mqa=True)
make_splash_mha_single_device: Any = make_splash_mha
make_splash_mqa_single_device: Any = make_splash_mqa
make_masked_mha_reference: Any = functools.partial(_make_reference, is_mqa=False)
make_masked_mqa_reference: Any = functools.partial(_make_reference, is_mqa=True)
