"""`pallas.ops.tpu.megablox`: products of groups of rows, each with a matrix of its own."""

from .ops import gmm

__all__ = ["gmm"]
