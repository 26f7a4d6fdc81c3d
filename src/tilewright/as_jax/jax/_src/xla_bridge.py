"""`jax._src.xla_bridge`, for chex: the platforms in use, of which it asks whether the CPU has started."""

from ...missing import not_adapted

_backends: dict[str, object] = {}
__getattr__ = not_adapted("jax._src.xla_bridge")
