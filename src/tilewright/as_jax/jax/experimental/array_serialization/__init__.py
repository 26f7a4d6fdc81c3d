"""`jax.experimental.array_serialization`, of which flax and orbax need what saves arrays."""

from collections.abc import Callable
from typing import Any

from ....missing import not_adapted

__all__: list[str] = []
__getattr__: Callable[..., Any] = not_adapted("jax.experimental.array_serialization", submodules=("serialization",))
