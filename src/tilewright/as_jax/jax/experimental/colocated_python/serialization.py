"""`jax.experimental.colocated_python.serialization`: the lists of devices that orbax's signatures name."""

from .....xla_backend.jaxlib.shim import DeviceList
from ....missing import not_adapted

__all__ = ["DeviceList"]
__getattr__ = not_adapted("jax.experimental.colocated_python.serialization")
