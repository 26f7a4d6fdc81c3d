"""`pallas.ops.gpu.attention`: attention of (batch, positions, heads, width)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .... import numpy as jnp
from ..attend import attend, attend_by_operations, causal_mask, refuse, same_segment


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of blocks, which are not used."""

    block_q: int
    block_k: int
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None

    @classmethod
    def get_default(cls) -> BlockSizes:
        """Some sizes."""
        return cls(128, 128, 32, 32, 32, 32)

    @property
    def has_backward_blocks(self) -> bool:
        """Whether there are sizes for the derivative."""
        return self.block_q_dq is not None


def _heads_first(*arrays: Any) -> list[Any]:
    return [jnp.swapaxes(x, 1, 2) for x in arrays]


def mha(
    q: Any, k: Any, v: Any, segment_ids: Any, sm_scale: float = 1.0, causal: bool = False,
    block_sizes: BlockSizes | None = None, backward_pass_impl: str = "triton", num_warps: int | None = None,
    num_stages: int = 2, grid: tuple[int, ...] | None = None, interpret: bool = False, debug: bool = False,
    return_residuals: bool = False,
) -> Any:  # fmt: skip
    """`softmax(q @ k.T * sm_scale) @ v`, within segments where `segment_ids`, (batch, positions), are given.

    >>> from tilewright import numpy as tnp
    >>> q = tnp.ones((1, 8, 2, 4))
    >>> mha(q, q, q, None, causal=True).shape
    (1, 8, 2, 4)
    """
    refuse("mha", return_residuals=return_residuals)
    segments = None if segment_ids is None else (segment_ids, segment_ids)
    out = attend(*_heads_first(q, k, v), scale=sm_scale, causal=causal, segments=segments)
    return jnp.swapaxes(out, 1, 2)


def mha_reference(q: Any, k: Any, v: Any, segment_ids: Any, sm_scale: float = 1.0, causal: bool = False) -> Any:
    """The same by array operations."""
    mask = None if segment_ids is None else same_segment(segment_ids, segment_ids)
    if causal:
        below = causal_mask(q.shape[1], k.shape[1])
        mask = below if mask is None else mask & below
    return jnp.swapaxes(attend_by_operations(*_heads_first(q, k, v), scale=sm_scale, mask=mask)[0], 1, 2)
