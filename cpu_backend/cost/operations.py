"""What an element of each operation costs, in fused multiply-adds: as XLA computes it, and as machine code.

The figures are instruction counts of either form, relative to the rate at which a core multiplies and adds; they were
fitted to `benchmarks cpu` and hold for float32; of float64 an element costs twice as much, where `WIDE` does not say.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.ir.axis_relation import FREE
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.movement.shape import concatenate_p
from ...core.primitives.reduction.reduce import argmax_p, argmin_p
from ...core.primitives.special import functions as special

CALL = 600  # a scalar function, an element at a time


class Cost(NamedTuple):
    """Multiply-adds of one element by either route."""

    xla: float
    machine_code: float


ONE = Cost(1, 1)
COSTS: dict[Primitive, Cost] = {
    ew.exp_p: Cost(40, 20), ew.exp2_p: Cost(40, 18), ew.expm1_p: Cost(100, 40), ew.log_p: Cost(50, 36),
    ew.log1p_p: Cost(80, 140), ew.tanh_p: Cost(30, 38), ew.logistic_p: Cost(50, 34), special.erf_p: Cost(28, 46),
    ew.sin_p: Cost(CALL, 85), ew.cos_p: Cost(CALL, 85), ew.pow_p: Cost(500, 280), ew.div_p: Cost(18, 18),
    ew.sqrt_p: Cost(20, 20), ew.rsqrt_p: Cost(18, 8), concatenate_p: Cost(90, 2),
}  # fmt: skip
WIDE: dict[Primitive, Cost] = {  # of float64
    ew.exp_p: Cost(70, 32), ew.expm1_p: Cost(115, 80), ew.tanh_p: Cost(50, 120), ew.logistic_p: Cost(195, 95),
    special.erf_p: Cost(1150, 210), ew.pow_p: Cost(1330, 470), ew.rsqrt_p: Cost(18, 14),
}  # fmt: skip
SEARCHED = Cost(150, 4)  # an element that is searched for the place of an extremum: XLA's loop is of scalars
DEAR = 20  # from here on XLA stores an intermediate value that several of its loops read, rather than recompute it


def cost_of(eqn: Eqn) -> Cost:
    """What an element of an equation's result costs."""
    found = COSTS.get(eqn.primitive)
    if eqn.primitive in (argmax_p, argmin_p):
        steps = eqn.inputs[0].type.size / max(eqn.outputs[0].type.size, 1)
        found = Cost(SEARCHED.xla * steps, SEARCHED.machine_code * steps)
    if found is None:
        work = eqn.primitive.work
        found = Cost(0, 0) if work is FREE else Cost(CALL, CALL) if work.transcendentals else ONE
    wide = 2 if any(str(getattr(v.type, "dtype", "")) == "float64" for v in eqn.outputs) else 1
    if wide == 2 and eqn.primitive in WIDE:
        return WIDE[eqn.primitive]
    return Cost(found.xla * wide, found.machine_code * wide)
