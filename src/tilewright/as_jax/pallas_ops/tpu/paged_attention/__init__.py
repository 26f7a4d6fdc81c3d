"""`pallas.ops.tpu.paged_attention`: one query of each sequence, with keys and values in pages."""

from .paged_attention_kernel import paged_attention

__all__ = ["paged_attention"]
