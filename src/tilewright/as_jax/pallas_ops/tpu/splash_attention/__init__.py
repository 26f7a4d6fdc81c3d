"""`pallas.ops.tpu.splash_attention`: attention with a static mask, one for each head."""

from .splash_attention_kernel import (
    BlockSizes,
    QKVLayout,
    SegmentIds,
    SplashAttentionKernel,
    make_masked_mha_reference,
    make_masked_mqa_reference,
    make_splash_mha,
    make_splash_mha_single_device,
    make_splash_mqa,
    make_splash_mqa_single_device,
)
from .splash_attention_mask import (
    CausalMask,
    ChunkedCausalMask,
    FullMask,
    LocalMask,
    Mask,
    MultiHeadMask,
    NumpyMask,
    make_causal_mask,
    make_chunk_attention_mask,
    make_local_attention_mask,
    make_random_mask,
)

__all__ = [
    "BlockSizes", "CausalMask", "ChunkedCausalMask", "FullMask", "LocalMask", "Mask", "MultiHeadMask", "NumpyMask",
    "QKVLayout", "SegmentIds", "SplashAttentionKernel", "make_causal_mask", "make_chunk_attention_mask",
    "make_local_attention_mask", "make_masked_mha_reference", "make_masked_mqa_reference", "make_random_mask",
    "make_splash_mha", "make_splash_mha_single_device", "make_splash_mqa", "make_splash_mqa_single_device",
]  # fmt: skip
