"""The least time that a kernel can take on a target: the slowest of its matrix units, its vector units and its memory.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4), 2009; with a roof for each kind of unit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..core.ir import Eqn, Program, subprograms
from .cost import eqn_cost, kernel_cost
from .kernel import Kernel
from .target import Target, target_of


@dataclass(frozen=True)
class Roofline:
    """Seconds that each kind of unit is busy for at least, all of them at work at once."""

    matrix: float
    vector: float
    memory: float

    @property
    def seconds(self) -> float:
        return max(self.matrix, self.vector, self.memory)

    @property
    def by(self) -> str:
        """What bounds the time: `matrix units`, `vector units` or `memory`."""
        if self.memory >= max(self.matrix, self.vector):
            return "memory"
        return "matrix units" if self.matrix >= self.vector else "vector units"


def products(program: Program) -> Counter[str]:
    """Operations of the matrix products in a Program, by the dtype that is multiplied; of branches, the most."""
    total: Counter[str] = Counter()
    for eqn in program.eqns:
        total.update(_products(eqn))
    return total


def _products(eqn: Eqn) -> Counter[str]:
    if eqn.primitive.name == "dot_general":
        return Counter({str(eqn.inputs[0].type.dtype): eqn_cost(eqn)[0]})  # type: ignore[union-attr]
    inner = [products(p) for _, p in subprograms(eqn)]
    if not inner:
        return Counter()
    most = max(inner, key=lambda c: sum(c.values())) if eqn.primitive.name == "cond" else sum(inner, Counter())
    times = eqn.params.get("length", 1)
    return Counter({dtype: n * times for dtype, n in most.items()})


def roofline(kernel: Kernel, moved: int, target: str | Target) -> Roofline:
    """The roofline of one call of a kernel that moves some bytes between its blocks and memory.

    The body's operations are counted as if every cell did them all. A transcendental function takes one of a TPU's
    vector slots for a cycle.
    """
    target = target_of(target)
    cost = kernel_cost(kernel)
    multiplied = {dtype: n * kernel.cells for dtype, n in products(kernel.body).items()}
    rest = max(cost.flops - sum(multiplied.values()), 0)
    special = cost.transcendentals * max(target.vector_slots, 1)
    return Roofline(
        sum(n / target.rate(dtype) for dtype, n in multiplied.items()),
        max(rest, special) / target.vector_rate,
        moved / target.bandwidth,
    )
