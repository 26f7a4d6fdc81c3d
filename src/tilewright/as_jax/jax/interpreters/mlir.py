"""`jax.interpreters.mlir`: how primitives are lowered."""

from ...lowering import LowerFun, lower_fun, register_lowering
from ...missing import not_adapted

__all__ = ["LowerFun", "lower_fun", "register_lowering"]
__getattr__ = not_adapted("jax.interpreters.mlir")
