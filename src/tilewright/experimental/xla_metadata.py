"""`jax.experimental.xla_metadata`'s names: notes for XLA beside operations."""

from ..core.jit.xla_metadata import set_xla_metadata, xla_metadata_call, xla_metadata_call2

__all__ = ["set_xla_metadata", "xla_metadata_call", "xla_metadata_call2"]
