"""`exp(a * (x - m))`, where m is one number for many of x, as `exp2(x * scale + shift)`: one multiply-add an element.

    scale = a * log2(e), shift = -m * scale        one for each m

Of x near m the product's rounding remains: an error of x by half a unit in its last place, which x has already where it
was computed. Where that is more than one of the exponent (masks by numbers such as -1e30 let x equal m), scale is
a power of two: then x * scale and shift are exact, and other x are so far below m that next to nothing is left.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from ...core.ir.passes import within
from ...core.ir.primitive import Primitive
from ...core.ir.program import Atom, Eqn, Literal, Program, Var
from ...core.ir.types import ArrayType
from ...core.primitives.elementwise.arithmetic import abs_p, exp_p, mul_p, neg_p, sub_p
from ...core.primitives.elementwise.comparison import ge_p, select_n_p
from ...core.primitives.movement.shape import broadcast_in_dim_p
from ..kernel.kernel import Kernel
from ..kernel.traverse import equation
from ..ops.scaled_exp2 import scaled_exp2_p

FLOAT32 = np.dtype(np.float32)
LARGE = 2.0**24  # from here on two neighbours among float32's numbers differ by more than 1


def fold_exponents(kernel: Kernel) -> Kernel:
    """The kernel with such exponentials in float32 folded; itself where its body has none."""
    body = _folded(kernel.body)
    return kernel if body is kernel.body else kernel.replace(body=body)


def _folded(program: Program) -> Program:
    eqns = [within(e, _folded) for e in program.eqns]
    made = {v: e for e in eqns for v in e.outputs}
    found: list[Eqn] = []
    for eqn in eqns:
        pattern = _pattern(eqn, made) if eqn.primitive is exp_p else None
        found += [eqn] if pattern is None else _equations(eqn, *pattern)
    if all(a is b for a, b in zip(found, program.eqns, strict=False)) and len(found) == len(program.eqns):
        return program
    return program.replace(eqns=_used(found, program))


Made = dict[Var, Eqn]


def _of(atom: Atom, made: Made, primitive: Primitive) -> Eqn | None:
    eqn = made.get(atom) if type(atom) is Var else None
    return eqn if eqn is not None and eqn.primitive is primitive else None


def _pattern(eqn: Eqn, made: Made) -> tuple[Atom, Eqn, float] | None:
    """x, the equation that spreads m, and a; None where an exponential is of another form."""
    x, factor = eqn.inputs[0], 1.0
    if not isinstance(x.type, ArrayType) or x.type.dtype != FLOAT32:
        return None
    if (scaled := _of(x, made, mul_p)) is not None:
        numbers = [a for a in scaled.inputs if type(a) is Literal]
        if len(numbers) != 1:
            return None
        factor = float(numbers[0].value)
        x = next(a for a in scaled.inputs if a is not numbers[0])
    difference = _of(x, made, sub_p)
    spread = None if difference is None else _of(difference.inputs[1], made, broadcast_in_dim_p)
    if difference is None or spread is None or not 2.0**-60 < factor <= 1:  # the largest x is not to overflow
        return None
    m = spread.inputs[0]
    few = isinstance(m.type, ArrayType) and m.type.size * 4 <= eqn.outputs[0].type.size
    return (difference.inputs[0], spread, factor) if few and type(m) is Var else None


def _equations(eqn: Eqn, x: Atom, spread: Eqn, factor: float) -> list[Eqn]:
    """The equations in place of an exponential."""
    m: Any = spread.inputs[0]
    scale = factor * math.log2(math.e)
    made: list[Eqn] = []

    def add(primitive: Primitive, *inputs: Any, **params: Any) -> Any:
        made.append(equation(primitive, list(inputs), params, eqn))
        return made[-1].outputs[0]

    def constant(value: float) -> Literal:
        return Literal(np.float32(value), ArrayType((), FLOAT32))

    def spreading(value: float) -> Any:
        return add(broadcast_in_dim_p, constant(value), shape=m.type.shape, broadcast_dimensions=())

    large = add(ge_p, add(abs_p, m), constant(LARGE / scale))
    scales = add(select_n_p, large, spreading(scale), spreading(2.0 ** math.floor(math.log2(scale))))
    shift = add(neg_p, add(mul_p, m, scales))
    wide = [add(broadcast_in_dim_p, v, **spread.params) for v in (scales, shift)]
    made.append(equation(scaled_exp2_p, [x, *wide], {}, eqn).replace(outputs=eqn.outputs))
    return made


def _used(eqns: list[Eqn], program: Program) -> list[Eqn]:
    """The equations without the differences and products that nothing uses any more."""
    used = Counter(a for e in eqns for a in e.inputs if type(a) is Var)
    used.update(a for a in program.outputs if type(a) is Var)
    kept = []
    for eqn in reversed(eqns):
        if eqn.primitive in (sub_p, mul_p, broadcast_in_dim_p) and not used[eqn.outputs[0]]:
            used.subtract(a for a in eqn.inputs if type(a) is Var)
        else:
            kept.append(eqn)
    return kept[::-1]
