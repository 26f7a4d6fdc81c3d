"""`jax._src.interpreters.batching`, for jaxoplanet: classes whose values say which of their leaves `vmap` maps."""

from ....batching import is_vmappable, register_vmappable, unregister_vmappable
from ....missing import not_adapted

__all__ = ["is_vmappable", "register_vmappable", "unregister_vmappable"]
__getattr__ = not_adapted("jax._src.interpreters.batching")
