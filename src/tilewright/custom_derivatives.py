"""Functions with derivatives of their own, under the names of `jax.custom_derivatives`."""

from .core.primitives.custom import (
    CustomVJPPrimal,
    SymbolicZero,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    custom_vjp_primal_tree_values,
    linear_call,
    zero_from_primal,
)
from .core.primitives.custom_calls import custom_jvp_call_p, custom_vjp_call_p

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p",
    "custom_vjp", "custom_vjp_call_p", "custom_vjp_primal_tree_values", "linear_call", "zero_from_primal",
]  # fmt: skip
