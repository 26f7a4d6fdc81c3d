"""Integer operations as hardware has them: `legalize` makes those that are defined everywhere of these.

What they give outside of their domains is not specified; in NumPy it is a number that is easy to see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.ir.array import Operand
from ...core.ir.primitive import Primitive
from ...core.primitives.elementwise.arithmetic import div_p, rem_p
from ...core.primitives.elementwise.bitwise import (
    bits_of,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
)
from ...core.primitives.elementwise.builders import nary

ODD = 0x55  # what there is outside


def _divisor(x: Operand, y: Operand) -> Any:
    return (y != 0) & (y != np.array(-1).astype(y.dtype)) if np.dtype(y.dtype).kind == "i" else y != 0


def _amount(x: Operand, y: Operand) -> Any:
    return (y >= 0) & (y < bits_of(x.dtype))


def _inside(name: str, of: Primitive, domain: Callable[[Any, Any], Any], kinds: tuple[str, ...] = ("int", "uint")
            ) -> Primitive:  # fmt: skip
    """What `of` is on a domain."""

    def numpy(x: Operand, y: Operand) -> Any:
        return np.where(domain(x, y), of.numpy(x, y), np.array(ODD).astype(x.dtype))  # type: ignore[misc]

    return nary(name, kinds, numpy, wide=False)


quotient_p: Primitive = _inside("quotient", div_p, _divisor)
remainder_p: Primitive = _inside("remainder", rem_p, _divisor)
bits_up_p: Primitive = _inside("bits_up", shift_left_p, _amount)
bits_down_p: Primitive = _inside("bits_down", shift_right_logical_p, _amount)
sign_down_p: Primitive = _inside("sign_down", shift_right_arithmetic_p, _amount, ("int",))
PRIMITIVES = (quotient_p, remainder_p, bits_up_p, bits_down_p, sign_down_p)
