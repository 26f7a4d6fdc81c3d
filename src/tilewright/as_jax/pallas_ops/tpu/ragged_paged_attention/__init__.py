"""`pallas.ops.tpu.ragged_paged_attention`: sequences of any number of queries, with keys and values in pages."""

from .kernel import ragged_paged_attention, ref_ragged_paged_attention

__all__ = ["ragged_paged_attention", "ref_ragged_paged_attention"]
