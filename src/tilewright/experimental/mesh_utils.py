"""Devices in the order that suits a mesh."""

from collections.abc import Callable

from ..sharding import create_device_mesh, create_hybrid_device_mesh

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]
__dir__: Callable[[], list[str]] = __all__.copy
