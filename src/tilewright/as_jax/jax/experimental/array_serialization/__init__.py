"""`jax.experimental.array_serialization`, of which flax and orbax need what saves arrays."""

from ....missing import not_adapted

__all__: list[str] = []
__getattr__ = not_adapted("jax.experimental.array_serialization", submodules=("serialization",))
