"""Complex functions of zeros of either sign: XLA's take -0 for 0, which is the wrong side of a branch cut.

Each is computed where the parts of its operand have no sign. By symmetry its own parts then change sign with these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.ir.primitive import Primitive
from ....core.ir.types import ArrayType, is_complex
from ....core.primitives.elementwise.arithmetic import (
    acos_p,
    acosh_p,
    asin_p,
    asinh_p,
    atan_p,
    atanh_p,
    cos_p,
    cosh_p,
    exp2_p,
    exp_p,
    expm1_p,
    sin_p,
    sinh_p,
    sqrt_p,
    tan_p,
    tanh_p,
)
from ....core.primitives.elementwise.builders import real_dtype
from ..emit import Emitter, Operand, Rule

# With the signs of which parts of the operand the real and the imaginary part of the result change theirs; "+" says
# that a part of the result is positive before.
Symmetry = tuple[str, str]
ODD, EVEN, CONJUGATE, INVERSE = ("x", "y"), ("", "xy"), ("", "y"), ("+x", "+y")
SYMMETRIES: dict[Primitive, Symmetry] = {
    sin_p: ODD, tan_p: ODD, sinh_p: ODD, tanh_p: ODD,
    asin_p: INVERSE, atan_p: INVERSE, asinh_p: INVERSE, atanh_p: INVERSE, cos_p: EVEN, cosh_p: EVEN,
    sqrt_p: CONJUGATE, exp_p: CONJUGATE, exp2_p: CONJUGATE, expm1_p: CONJUGATE, acos_p: CONJUGATE, acosh_p: CONJUGATE,
}  # fmt: skip


def reflected(rule: Rule, symmetry: Symmetry, compare: Callable[..., Operand]) -> Rule:
    """A rule whose results of complex numbers have the symmetry, of zeros too."""

    def by_signs(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
        if not is_complex(out.dtype):
            return rule(e, operands, out, **params)
        real = ArrayType(out.shape, real_dtype(out.dtype))
        words = ArrayType(out.shape, np.dtype(f"int{8 * real.dtype.itemsize}"))
        parts = {"x": e.op("stablehlo.real", operands, real), "y": e.op("stablehlo.imag", operands, real)}
        negative: dict[str, Operand] = {}
        for name in sorted({*"".join(symmetry)} - {"+"}):
            word = e.op("stablehlo.bitcast_convert", [parts[name]], words)
            negative[name] = compare(e, "LT", word, e.constant(0, words))
            parts[name] = e.op("stablehlo.abs", [parts[name]], real)
        found = rule(e, [e.op("stablehlo.complex", [*parts.values()], out)], out, **params)
        results = [e.op("stablehlo.real", [found], real), e.op("stablehlo.imag", [found], real)]
        for n, names in enumerate(symmetry):
            for name in names:
                new = e.op("stablehlo.abs" if name == "+" else "stablehlo.negate", [results[n]], real)
                results[n] = new if name == "+" else e.op("stablehlo.select", [negative[name], new, results[n]], real)
        return e.op("stablehlo.complex", results, out)

    return by_signs
