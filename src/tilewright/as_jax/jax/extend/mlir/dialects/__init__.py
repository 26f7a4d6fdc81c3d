"""`jax.extend.mlir.dialects`: dialects of MLIR."""

from collections.abc import Callable
from typing import Any

from jaxlib.mlir.dialects import arith, builtin, chlo, func, math, memref, scf, sdy, stablehlo, vector

from .....missing import not_adapted

__all__ = ["arith", "builtin", "chlo", "func", "math", "memref", "scf", "sdy", "stablehlo", "vector"]
__getattr__: Callable[..., Any] = not_adapted("jax.extend.mlir.dialects")
