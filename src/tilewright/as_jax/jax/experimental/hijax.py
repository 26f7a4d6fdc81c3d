"""`jax.experimental.hijax`: types of values and primitives that clients define."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.api.vjp_functions import GradAccum, NullAccum, RefAccum, ValAccum
from ....core.ir.extension_types import MappingSpec
from ....core.ir.primitive import Zero
from ....core.transforms.rule_helpers import instantiate as instantiate_zeros
from ...avals import AbstractValue, ShapedArray
from ...hiprim import HiPrim
from ...hiprim_derived import jvp_from_lin, linearize_from_jvp, vjp_from_jvp, vjp_from_lin
from ...hitype import HiPspec, HiType, aval_method, aval_property, register_hitype
from ...missing import not_adapted
from ..interpreters.ad import is_undefined_primal

VJPHiPrimitive = HiPrim
__all__ = [
    "AbstractValue", "GradAccum", "HiPrim", "HiPspec", "HiType", "MappingSpec", "NullAccum", "RefAccum",
    "ShapedArray",
    "VJPHiPrimitive", "ValAccum", "Zero", "aval_method", "aval_property", "instantiate_zeros", "is_undefined_primal",
    "jvp_from_lin", "linearize_from_jvp", "register_hitype", "vjp_from_jvp", "vjp_from_lin",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.experimental.hijax")
