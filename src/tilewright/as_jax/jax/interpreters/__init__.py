"""`jax.interpreters`: rules of primitives for each transformation."""

from collections.abc import Callable
from typing import Any

from ...missing import not_adapted

__getattr__: Callable[..., Any] = not_adapted(
    "jax.interpreters", submodules=("ad", "batching", "mlir", "partial_eval", "pxla", "xla")
)
