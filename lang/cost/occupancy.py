"""Sums whose blocks leave multiprocessors of a GPU idle, and in how many stretches they take the least time.

A kernel whose carried axes only add up runs all steps of a sum in one block. Where there are fewer blocks than
multiprocessors, or too few bytes in flight to cover the memory's latency, the steps are cut in stretches: partial sums,
and a second kernel that adds them up (`lang/transforms/split_sums.py`). The least of a model of time decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...core.ir.program import Program
from ...core.support.memo import cached
from ...core.tracing.trace import trace_program
from ..analysis.affine import needs_of
from ..call.primitive import call
from ..kernel.kernel import Block, Kernel
from ..ops.basic import cdiv
from ..targets.target import Target
from ..transforms.split_sums import Addends, Stretches, Total, addends, partial_kernel, total_kernel
from ..verify.communication import communicates
from ..warpgroups.specs import mesh_of
from .estimate import kernel_cost
from .roofline import products

MANY = 4e6  # bytes of operands; of fewer, a kernel more is not worth its launch
LATENCY = 700e-9  # seconds from a load to its value, of HBM
LAUNCH = 5e-6  # seconds that one kernel more takes
LOADED = 16 * 1024  # bytes that the loads of one block have in flight, at most
RESIDENT = 8  # blocks of a multiprocessor at once, at most
SHARES = (1, 2, 4, 8)  # blocks for each multiprocessor that are tried


@dataclass(frozen=True)
class Divided:
    """A kernel as two: the Program that calls them, what it has them add up, and the stretches of the steps."""

    program: Program
    kernels: tuple[Kernel, Kernel]
    stretches: Stretches

    def line(self, kernel: Kernel) -> str:
        """What was decided, in words."""
        axes = ", ".join(f"axis {a} of its grid in {n}" for a, n in self.stretches)
        return f"kernel {kernel.name} adds up in stretches ({axes}): its blocks were too few for the multiprocessors"


@cached(512)
def divided(kernel: Kernel, target: Target) -> Divided | None:
    """A kernel of sums as two, where that takes less time on a GPU by the model; None: it stays one."""
    if not target.gpu or mesh_of(kernel) is not None or communicates(kernel):
        return None
    found = addends(kernel)
    if found is None:
        return None
    model = Model.of(found, target)
    if model.moved < MANY or model.multiplies and model.rest >= target.units:
        return None  # tiles of products were chosen for waves of blocks
    best = min(_choices(found, model), key=model.seconds, default=())
    if not best or model.seconds(best) + LAUNCH >= model.seconds(()):
        return None
    parts = math.prod(n for _, n in best)
    partial, total = partial_kernel(found, best), total_kernel(found, parts, target.units)
    return Divided(in_two(found, partial, total), (partial, total.kernel), best)


def in_two(found: Addends, partial: Kernel, total: Total) -> Program:
    """What a kernel computes, by the kernels of its partial sums and of their total."""
    kernel = found.kernel
    ahead, emitted = len(kernel.prefetch), len(found.emitted)

    def run(*operands: Any) -> list[Any]:
        made = call(partial, *operands)
        given = [*operands[ahead:], *made[emitted:]]
        totals = iter(call(total.kernel, *operands[:ahead], *(given[i] for i in total.inputs)))
        own = dict(zip(found.emitted, made, strict=False))
        return [own[o] if o in own else next(totals) for o in range(len(kernel.outputs))]

    return trace_program(run, kernel.in_types, kernel.name)


def _choices(found: Addends, model: Model) -> list[Stretches]:
    """Ways to cut the carried axes, for several numbers of blocks."""
    ways = {}
    for share in SHARES:
        wanted, way = max(2, math.ceil(share * model.target.units / model.rest)), []
        for axis in found.carry:
            size = found.kernel.grid[axis]
            parts = _parts(size, wanted, bool(found.emitted))
            if parts > 1:
                way.append((axis, parts))
            wanted = cdiv(wanted, parts)
        if way:
            ways[tuple(way)] = None
    return list(ways)


def _parts(size: int, wanted: int, even: bool) -> int:
    """In how many stretches an axis is cut: about as many as wanted, of one length if there are such."""
    if wanted >= size:
        return size
    exact = [n for n in range(wanted, min(size, 2 * wanted) + 1) if size % n == 0]
    if exact:
        return exact[0]
    return 1 if even else cdiv(size, cdiv(size, wanted))


@dataclass(frozen=True)
class Model:
    """The time of a kernel of sums by its stretches.

    `rest` are its blocks without any, `moved` the bytes of its operands (what comes in again is in the L2 cache),
    `step` those of one step's loads, `state` those of the sums that a block holds; `found.nbytes` are those of all of
    the sums. `flops` are the seconds that its operations take on the whole device; `multiplies`: there are products of
    matrices among them.
    """

    found: Addends
    target: Target
    rest: int
    moved: int
    step: int
    state: int
    flops: float
    multiplies: bool

    @staticmethod
    def of(found: Addends, target: Target) -> Model:
        kernel = found.kernel
        rest = math.prod(n for a, n in enumerate(kernel.grid) if a not in found.carry)
        carried = {*found.carry}
        moving = [b for b in kernel.inputs if b.index_map is not None and not carried.isdisjoint(_axes(kernel, b))]
        step = sum(math.prod(b.shape) * b.array.dtype.itemsize for b in moving)
        moved = sum(b.array.nbytes for b in kernel.inputs)
        state = sum(math.prod(s.block.shape) * s.block.array.dtype.itemsize for s in found.states)
        multiplied = products(kernel.body)
        seconds = sum(n * kernel.cells / target.rate(dtype) for dtype, n in multiplied.items())
        rest_flops = max(kernel_cost(kernel).flops - sum(multiplied.values()) * kernel.cells, 0)
        return Model(found, target, rest, moved, step, state, max(seconds, rest_flops / target.vector_rate),
                     bool(multiplied))  # fmt: skip

    def seconds(self, stretches: Stretches) -> float:
        """The time of both kernels without their launches; of the one, for no stretches."""
        target, parts = self.target, math.prod(n for _, n in stretches)
        steps = math.prod(self.found.kernel.grid[a] for a in self.found.carry)
        longest = math.prod(cdiv(self.found.kernel.grid[a], dict(stretches).get(a, 1)) for a in self.found.carry)
        blocks = self.rest * parts
        room = target.register_bytes // max(2 * self.state + 2 * min(self.step, LOADED), 1)
        at_once = min(blocks, target.units * max(1, min(RESIDENT, room)))
        busy = min(1.0, blocks / target.units)
        in_flight = at_once * min(self.step, LOADED) / (target.bandwidth * LATENCY)
        rate = min(1.0, in_flight, 2 * busy)  # one multiprocessor takes twice its share of the bandwidth at most
        waste = longest * parts / steps * cdiv(blocks, at_once) * at_once / blocks  # short stretches, the last wave
        work = max(self.moved / target.bandwidth / max(rate, 1e-9), self.flops / busy) * waste
        return work + (2 * parts * self.found.nbytes / target.bandwidth if stretches else 0.0)


def _axes(kernel: Kernel, block: Block) -> set[Any]:
    """The grid axes that a block's index map uses; those of computed indices are all of them."""
    if block.index_map is None:
        return set()
    needs = needs_of(block.index_map, len(kernel.grid))
    return set(range(len(kernel.grid))) if "data" in needs else set(needs)
