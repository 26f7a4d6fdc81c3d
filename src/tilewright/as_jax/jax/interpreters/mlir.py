"""`jax.interpreters.mlir`: how primitives are lowered. What writes MLIR is loaded when it is asked for."""

from typing import Any

from ...missing import not_adapted
from ...register_lowering import LowerFun, lower_fun, lowering_context, register_lowering

_WRITING = frozenset((
    "LoweringRuleContext", "ModuleContext", "aval_to_ir_type", "aval_to_ir_types", "custom_call", "dense_int_array",
    "dense_int_elements", "dtype_to_ir_type", "emit_python_callback", "flatten_ir_values", "i32_attr", "i64_attr", "ir",
    "ir_constant",
))  # fmt: skip
_missing = not_adapted("jax.interpreters.mlir")

__all__ = ["LowerFun", "lower_fun", "register_lowering"]


def __getattr__(name: str) -> Any:
    return getattr(lowering_context(), name) if name in _WRITING else _missing(name)
