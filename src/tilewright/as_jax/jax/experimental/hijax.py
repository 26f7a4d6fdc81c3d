"""`jax.experimental.hijax`: what flax derives classes from. Types of clients' own are refused in use."""

from __future__ import annotations

from typing import Any

from ....core.primitive import Zero
from ....core.rules import instantiate as instantiate_zeros
from ...accumulators import GradAccum, NullAccum, ValAccum
from ...avals import AbstractValue, ShapedArray
from ...hiprim import HiPrim
from ...hiprim_derived import jvp_from_lin, linearize_from_jvp, vjp_from_jvp, vjp_from_lin
from ...jax.interpreters.ad import is_undefined_primal
from ...missing import not_adapted


class HiType:
    """A type of a client's own; refused when a value of it is made."""


class aval_method:
    """A method of values that their type has."""

    def __init__(self, fun: Any):
        self.fun = fun


class aval_property:
    """A property of values that their type has."""

    def __init__(self, fget: Any):
        self.fget = fget


def register_hitype(value_type: type, type_of: Any) -> None:
    """Nothing: a value of such a type is refused when it is made."""


VJPHiPrimitive = HiPrim
__all__ = [
    "AbstractValue", "GradAccum", "HiPrim", "HiType", "NullAccum", "ShapedArray", "VJPHiPrimitive", "ValAccum", "Zero",
    "aval_method", "aval_property", "instantiate_zeros", "is_undefined_primal", "jvp_from_lin", "linearize_from_jvp",
    "register_hitype", "vjp_from_jvp", "vjp_from_lin",
]  # fmt: skip
__getattr__ = not_adapted("jax.experimental.hijax")
