"""Operations of all devices along an axis of a mesh, whose communication goes on while they compute.

Each is called within a `shard_map`. Besides its `reference` in collectives of `lax` there are two ways to compute it: a
ring of `ppermute`s, which any target runs, and a kernel that copies to the next device by itself, for TPUs.
"""

from .attention import ring_attention
from .product import all_gather_matmul, matmul_reduce_scatter

__all__ = ["all_gather_matmul", "matmul_reduce_scatter", "ring_attention"]
