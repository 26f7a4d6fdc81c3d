"""`jax.extend.backend`: jaxlib's clients of the platforms in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.support.errors import ArgumentError
from ....xla_backend.devices.client import client, default_device, present
from ...missing import not_adapted


def backends() -> dict[str, Any]:
    """The client of each platform.

    >>> "cpu" in backends()
    True
    """
    return {platform: client(platform) for platform in present()}


def get_backend(platform: Any = None) -> Any:
    """The client of a platform, by default of that of new arrays; a client is its own.

    >>> get_backend("cpu").platform
    'cpu'
    """
    if platform is not None and not isinstance(platform, str):
        return platform
    found, name = backends(), default_device().platform if platform is None else platform
    name = "gpu" if name in ("cuda", "rocm") else name
    if name not in found:
        raise ArgumentError(f"there is no platform {platform!r}", f"one of {', '.join(map(repr, found))}")
    return found[name]


get_default_device = default_device

__all__ = ["backends", "get_backend", "get_default_device"]
__getattr__: Callable[..., Any] = not_adapted("jax.extend.backend")
