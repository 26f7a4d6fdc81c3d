"""`shard_map` under the place that it had before."""

from ..core.sharding.shard_map import shard_map

__all__ = ["shard_map"]
__dir__ = __all__.copy
