"""The least time that a kernel can take on a target: the slowest of its matrix units, its vector units and its memory.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4), 2009; with a roof for each kind of unit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.ir.axis_relation import runs
from ...core.ir.program import Eqn, Program, subprograms
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.refs.state_primitives import get_p
from ..kernel.kernel import Kernel
from ..targets.target import Target, target_of
from .estimate import eqn_cost, kernel_cost


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

    `unit`: the side of a matrix unit, whose parts that a product leaves empty are counted as well. Products of several
    left sides with one right side fill it as the product of all their rows would.
    """
    total: Counter[str] = Counter()
    alike: dict[Any, list[Eqn]] = {}
    read: dict[Any, Any] = {}  # what was loaded, by its name: the Ref and where in it
    for eqn in program.eqns:
        if eqn.primitive is get_p:
            read[id(eqn.outputs[0])] = *map(id, eqn.inputs), str(eqn.params)
        if eqn.primitive is dot_general_p:
            right = id(eqn.inputs[1])
            alike.setdefault((read.get(right, right), str(eqn.params["dimension_numbers"])), []).append(eqn)
        else:
            total.update(_products(eqn, unit))
    for eqns in alike.values():
        flops = round(sum(eqn_cost(e)[0] for e in eqns) / filled(eqns, unit))
        total[str(eqns[0].inputs[0].type.dtype)] += flops
    return total


def filled(eqns: Sequence[Eqn], unit: int) -> float:
    """How full products with one right side keep a square matrix unit at best.

    One operand stays in it, the other streams through: the side that is contracted and a side of the operand that
    stays are cut into pieces of the unit's size.
    """
    (contracted, _), (batched, _) = eqns[0].params["dimension_numbers"]
    shapes = [e.inputs[0].type.shape for e in eqns]
    rows = [math.prod(n for d, n in enumerate(s) if d not in (*contracted, *batched)) for s in shapes]
    depth, batch = (math.prod(shapes[0][d] for d in axes) for axes in (contracted, batched))
    columns = math.prod(eqns[0].outputs[0].type.shape) // max(batch * rows[0], 1)

    def part(n: int) -> float:
        return n / (-(-n // unit) * unit) if n else 1.0

    return part(depth) * max(part(sum(rows)), part(columns))


def _products(eqn: Eqn, unit: int) -> Counter[str]:
    inner = [products(p, unit) for _, p in subprograms(eqn)]
    if not inner:
        return Counter()
    most = max(inner, key=lambda c: sum(c.values())) if eqn.primitive.choice else sum(inner, Counter())
    times = runs(eqn)
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
