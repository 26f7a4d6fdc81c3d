"""`jax.extend.mlir`: MLIR's bindings."""

from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir as ir
from jaxlib.mlir import passmanager as passmanager

from ....missing import not_adapted

__getattr__: Callable[..., Any] = not_adapted("jax.extend.mlir", submodules=("dialects",))
