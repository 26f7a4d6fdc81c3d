"""Two warpgroups in turns at the tensor cores: each computes with its products while those of the other are made.

A warpgroup starts products once the other has started its own; a named barrier of each tells. What that spares is a
model: without an order both multiply, then both compute, so that a turn takes the sum of both times; in turns it takes
the longer of the two, and what the barriers take.
"""

from __future__ import annotations

from dataclasses import replace

from ..lang.cost.estimate import eqn_cost, program_cost
from ..lang.legalize import Unfit
from ..lang.targets.target import Target
from .schedule import Schedule, products

FIRST = 4  # of the two named barriers: those before it are of the block and of each warpgroup
HANDOVER = 60  # cycles from an arrival at a named barrier until the other warpgroup goes on: an assumption
SPECIAL = 16  # transcendental functions of a multiprocessor in a cycle (CUDA C++ Programming Guide, for 9.0)


def ordered(s: Schedule) -> Schedule:
    """A schedule whose two warpgroups take turns.

    Raises:
      Unfit: they do not.
    """
    if s.consumers != 2:
        raise Unfit(f"two warpgroups take turns at products, and in it {s.consumers} compute: leave `ping_pong` out")
    if not products(s.parts.main):
        raise Unfit("warpgroups take turns at the products of a loop, and it has none there: leave `ping_pong` out")
    return replace(s, ordered=True)


def pays(s: Schedule, target: Target) -> bool:
    """Whether a loop is estimated to be faster in turns; both have all of a multiprocessor while the other waits."""
    found, cost = products(s.parts.main), program_cost(s.parts.main)
    flops = [(eqn_cost(eqn)[0], str(eqn.inputs[0].type.dtype)) for eqn in found]
    multiplied = sum(n / target.rate(dtype) for n, dtype in flops)
    rest = cost.flops - sum(n for n, _ in flops)
    special = cost.transcendentals / (SPECIAL * target.units * target.clock)
    computed = max(2 * rest / target.rate("float32"), special)  # where a multiplication with an addition counts as two
    return min(multiplied, computed) * target.units > 2 * HANDOVER / target.clock
