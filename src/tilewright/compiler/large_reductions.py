"""Which programs on the CPU may gain by fused kernels: those with a reduction of an array that is not small.

Imports nothing of the kernel language: programs without one do not load it.
"""

from __future__ import annotations

from ..core.ir.passes import vocabulary
from ..core.ir.program import Program
from ..core.primitives.reduction.reduce import PRIMITIVES

REDUCTIONS = frozenset(PRIMITIVES)
# A kernel that moves less takes some 50 us by either route: what it could save is less than what compiling costs.
LEAST_BYTES = 2**19


def has_large_reduction(program: Program) -> bool:
    """Whether a Program, or one within it, reduces an array of `LEAST_BYTES` or more."""
    found = vocabulary(program)
    return not REDUCTIONS.isdisjoint(found.primitives) and any(map(_reduces_much, (program, *found.programs)))


def _reduces_much(program: Program) -> bool:
    return any(eqn.primitive in REDUCTIONS and eqn.inputs[0].type.nbytes >= LEAST_BYTES for eqn in program.eqns)
