"""`jax.extend`: what extensions of jax may use."""

from collections.abc import Callable
from typing import Any

from ...missing import not_adapted

__getattr__: Callable[..., Any] = not_adapted(
    "jax.extend", submodules=("backend", "core", "ifrt_programs", "linear_util", "mlir", "random", "source_info_util")
)
