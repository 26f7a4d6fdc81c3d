"""`exp2(x * scale + shift)`: one fused multiply-add and one instruction of the special function unit, where a target
has them. It is what `exp(a * (x - m))` becomes (`lang/legalize/exponents.py`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.primitives.elementwise.arithmetic import exp2_p, mul_p
from ...core.primitives.elementwise.builders import nary
from ...core.transforms.structural_primitives import add_p

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive


def _expand(x: Array, scale: Array, shift: Array) -> Any:
    return exp2_p.bind(add_p.bind(mul_p.bind(x, scale), shift))


def _numpy(x: Operand, scale: Operand, shift: Operand) -> Any:
    """The product is not rounded before the sum."""
    return np.exp2((np.multiply(x, scale, dtype=np.float64) + shift).astype(x.dtype))


def _slope(t: Array, out: Array, factor: ArrayLike) -> Any:
    return mul_p.bind(t, mul_p.bind(mul_p.bind(out, factor), np.asarray(math.log(2), out.aval.dtype)[()]))


scaled_exp2_p: Primitive = nary(
    "scaled_exp2", ("float",), _numpy,
    [lambda t, out, x, scale, shift: _slope(t, out, scale), lambda t, out, x, scale, shift: _slope(t, out, x),
     lambda t, out, x, scale, shift: _slope(t, out, np.asarray(1, out.aval.dtype)[()])],
    expand=_expand,
)  # fmt: skip
PRIMITIVES = (scaled_exp2_p,)
