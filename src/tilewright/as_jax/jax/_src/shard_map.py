"""`jax._src.shard_map`, for the kernels that come with jax."""

from ....core.sharding.shard_map import shard_map
from ...missing import not_adapted

__all__ = ["shard_map"]
__getattr__ = not_adapted("jax._src.shard_map")
