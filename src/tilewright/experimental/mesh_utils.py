"""Devices in the order that suits a mesh."""

from ..sharding import create_device_mesh, create_hybrid_device_mesh

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]
__dir__ = __all__.copy
