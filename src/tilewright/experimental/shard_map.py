"""`shard_map` under the place that it had before."""

from collections.abc import Callable

from ..core.sharding.shard_map import shard_map

__all__ = ["shard_map"]
__dir__: Callable[[], list[str]] = __all__.copy
