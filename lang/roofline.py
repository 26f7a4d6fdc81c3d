"""The least time that a kernel can take on a target: the slowest of its matrix units, its vector units and its memory.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4), 2009; with a roof for each kind of unit.
"""

from __future__ import annotations

import math
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


def products(program: Program, unit: int = 1) -> Counter[str]:
    """Operations of the matrix products in a Program, by the dtype that is multiplied; of branches, the most.

    `unit`: the side of a matrix unit, whose parts that a product leaves empty are counted as well.
    """
    total: Counter[str] = Counter()
    for eqn in program.eqns:
        total.update(_products(eqn, unit))
    return total


def filled(eqn: Eqn, unit: int) -> float:
    """How full a product keeps a square matrix unit at best: one operand stays in it, the other streams through.

    The side that is contracted and a side of the operand that stays are cut into pieces of the unit's size.
    """
    (contracted, _), (batched, _) = eqn.params["dimension_numbers"]
    shape = eqn.inputs[0].type.shape
    depth = math.prod(shape[d] for d in contracted)
    rows = math.prod(n for d, n in enumerate(shape) if d not in (*contracted, *batched))
    columns = math.prod(eqn.outputs[0].type.shape) // max(math.prod(shape[d] for d in batched) * rows, 1)

    def part(n: int) -> float:
        return n / (-(-n // unit) * unit) if n else 1.0

    return part(depth) * max(part(rows), part(columns))


def _products(eqn: Eqn, unit: int) -> Counter[str]:
    if eqn.primitive.name == "dot_general":
        flops = round(eqn_cost(eqn)[0] / filled(eqn, unit))
        return Counter({str(eqn.inputs[0].type.dtype): flops})
    inner = [products(p, unit) for _, p in subprograms(eqn)]
    if not inner:
        return Counter()
    most = max(inner, key=lambda c: sum(c.values())) if eqn.primitive.name == "cond" else sum(inner, Counter())
    times = eqn.params.get("length", 1)
    return Counter({dtype: n * times for dtype, n in most.items()})


def roofline(kernel: Kernel, moved: int, target: str | Target) -> Roofline:
    """The roofline of one call of a kernel that moves some bytes between its blocks and memory.

    The body's operations are counted as if every cell did them all. A transcendental function takes one of a TPU's
    vector slots for a cycle; a product smaller than a TPU's matrix unit takes as long as one that fills it.
    """
    target = target_of(target)
    cost = kernel_cost(kernel)
    rest = max(cost.flops - sum(products(kernel.body).values()) * kernel.cells, 0)
    unit = target.matrix[0] if target.kind == "tpu" else 1
    multiplied = {dtype: n * kernel.cells for dtype, n in products(kernel.body, unit).items()}
    special = cost.transcendentals * max(target.vector_slots, 1)
    return Roofline(
        sum(n / target.rate(dtype) for dtype, n in multiplied.items()),
        max(rest, special) / target.vector_rate,
        moved / target.bandwidth,
    )
