"""Functions with derivatives of their own, under the names of `jax.custom_derivatives`."""

from collections.abc import Callable

from .core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p
from .core.primitives.custom.custom_derivatives import (
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

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p",
    "custom_vjp", "custom_vjp_call_p", "custom_vjp_primal_tree_values", "linear_call", "zero_from_primal",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
