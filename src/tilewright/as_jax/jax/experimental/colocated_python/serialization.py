"""`jax.experimental.colocated_python.serialization`: the lists of devices that orbax's signatures name."""

from collections.abc import Callable
from typing import Any

from .....xla_backend.jaxlib.shim import DeviceList
from ....missing import not_adapted

__all__ = ["DeviceList"]
__getattr__: Callable[..., Any] = not_adapted("jax.experimental.colocated_python.serialization")
