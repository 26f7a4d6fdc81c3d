"""The CPU time that a call of a kernel takes by either route, estimated from its passes and the rates of the machine.

    seconds ::= the longer of memory and arithmetic, and a part of the shorter, for each pass

A byte costs what it does in the second cache where all arrays of a pass fit into it, what it does in memory where they
take `FAR` times as much, and something in between for sizes between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...core.support.memo import cached
from ...lang.analysis.facts import analyse
from ...lang.kernel.kernel import UNBOUNDED, Kernel
from ...lang.kernel.traverse import block_bytes
from ..lowering.streaming import streamed_outputs
from .cells import in_cells
from .dataflow_graph import Graph, Region, Root, Value, reached, with_shared
from .rates import Rates

LEAST = 0.5  # of the bytes that are read and written beside is what a byte that is written costs at least
FAR = 16  # times the second cache
OVERLAP = 0.5  # of the shorter of memory and arithmetic is not hidden behind the longer
XLA_PRODUCT, PRODUCT = 0.9, 0.94  # of the rate of multiply-adds that products of matrices reach
XLA_INTEGERS, INTEGERS, SHORT = 4, 2.6, 0.8  # multiply-adds of float32 in the time of one of integers, of int16
SHALLOW = 32  # elements of the contracted axis in the time that XLA takes for a sum of products, beside these
LOOPED = 8000  # multiply-adds of float32 in the time that XLA takes for an operation of a loop, beside its work
FIRST = 3  # times the rate of the second cache that machine code reads a row at which is in the first one
DEAR = 16  # multiply-adds, of an element of a row that machine code keeps where it is repeated
CELL = 4000  # and in the time that a cell of machine code takes for its loops, beside its work


@dataclass(frozen=True)
class Machine:
    """What estimates go by: the rates of a core, bytes of its first two caches, the cores, lanes of a vector.

    Outputs of `streams` bytes and more bypass the caches.
    """

    rates: Rates
    first: int
    cache: int
    cores: int
    lanes: int
    streams: int

    def seconds(self, read: float, written: float, working: float, how: str = "copy") -> float:
        """The time to read and write some bytes, of arrays that take `working` bytes; `how` names writes."""
        rates = self.rates
        pair = getattr(rates, how)
        far = min(max(math.log(max(working, 1) / self.cache) / math.log(FAR), 0), 1)  # 0 in the cache, 1 in memory
        write = max(2 / pair - 1 / rates.read, LEAST / pair)
        return sum(n * near ** (1 - far) * slow**far for n, near, slow in (
            (read, 1 / rates.near, 1 / rates.read), (written, 1 / rates.near, write)))  # fmt: skip

    def multiply_adds(self, count: float) -> float:
        return count / self.rates.fma


@dataclass(frozen=True)
class Estimate:
    """Seconds of a call as XLA computes the kernel, and as machine code."""

    xla: float
    machine_code: float

    def text(self) -> str:
        """Both, in words."""
        return f"estimated {shown(self.machine_code)} as machine code, {shown(self.xla)} by XLA"


def shown(seconds: float) -> str:
    """A time with its unit."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def _both(memory: float, arithmetic: float) -> float:
    return max(memory, arithmetic) + OVERLAP * min(memory, arithmetic)


class Around(NamedTuple):
    """What is around a kernel in its program, and XLA fuses with it.

    `bytes` are those of operands that elementwise operations make for it, and of results that they read: XLA neither
    writes nor reads them. `moved`: results are transposed, padded or the like; XLA then computes again for each element
    of a result what is repeated along some of its axes. `flops` are those of products that
    XLA computes once for this kernel and others: its share of what that saves.
    """

    bytes: int = 0
    moved: bool = False
    flops: float = 0


ALONE = Around()


@cached(512)
def estimate(kernel: Kernel, machine: Machine, around: Around = ALONE) -> Estimate | None:
    """The estimate of a kernel; None where its grid is not known."""
    if kernel.extents or UNBOUNDED in kernel.grid or kernel.symbolic or not kernel.cells:
        return None
    turns = math.prod(kernel.grid[a] for a in _carry(kernel))
    in_order, merged = (turns, 1) if analyse(kernel).phases is None else (1, turns)
    moved = sum(t.nbytes for t in (*kernel.in_types, *kernel.out_types))
    extra = machine.seconds(around.bytes, around.bytes, moved)
    code = in_cells(kernel).kernel
    parallel = math.prod(code.grid) // math.prod(code.grid[a] for a in _carry(code))
    shared = machine.multiply_adds(around.flops / 2 / XLA_PRODUCT)
    return Estimate(
        (_xla(Graph(kernel), machine, in_order, merged, around.moved) - shared) / machine.cores,
        (_machine_code(Graph(code), machine) + extra) / min(machine.cores, parallel),
    )


def _carry(kernel: Kernel) -> list[int]:
    """The axes along which cells run in order."""
    return [a for a in analyse(kernel).carry if kernel.grid[a] > 1]


# ---------------------------------------------------------------------------- XLA


def _xla(graph: Graph, machine: Machine, in_order: int, merged: int, moved: bool) -> float:
    """Cells in order are a loop of XLA's; sums over cells that are `merged` are never written cell by cell."""
    total = 0.0
    for region in graph.regions:
        roots = [r for r in with_shared(region) if merged == 1 or r.ref not in graph.states]
        stops = {id(r.value) for r in roots}
        times = _repeated(region) if moved else {}
        seconds = sum(_loop(graph, r, stops, machine, in_order, merged, times) for r in roots)
        if region.loop or in_order > 1:
            seconds += machine.multiply_adds(LOOPED) * len(roots) * in_order
        total += seconds * region.times
    return total


def _loop(
    graph: Graph, root: Root, stops: set[int], machine: Machine, in_order: int, merged: int, times: Mapping[int, float]
) -> float:  # fmt: skip
    """One of XLA's loops over whole arrays, with the reductions along rows that it needs, each reading memory again."""
    read = arithmetic = 0.0
    for value in reached(root.value, stops):
        if value is not root.value and (value.stored or id(value) in stops):
            read += value.bytes
            continue
        arithmetic += value.cost.xla * (value.size * times[id(value)] if id(value) in times else value.distinct)
        if value.rows and value is not root.value:
            read += sum(v.bytes for v in reached(value.operands[0], stops) if v.stored or id(v) in stops)
    written = root.bytes
    if root.flops:
        written //= merged
        depth = root.flops / 2 / max(root.value.size, 1) * merged
        library = root.dtypes == ("int8", "int8", "int32") or not _integers(root)
        each = _multiply_adds(root, machine) / XLA_PRODUCT if library else XLA_INTEGERS * max(root.itemsize / 4, 1)
        arithmetic = root.flops / 2 * each * (1 + SHALLOW / max(depth, 1))
    how = "in_place" if root.ref in graph.aliased else "copy"
    memory = machine.seconds(read, written, (read + written) / in_order, how)
    return _both(memory, machine.multiply_adds(arithmetic))


# ---------------------------------------------------------------------------- machine code


def _machine_code(graph: Graph, machine: Machine) -> float:
    kernel = graph.kernel
    read, written = (sum(t.nbytes for t in types) for types in (kernel.in_types, kernel.out_types))
    held = block_bytes(kernel)
    arithmetic = kept = again = 0.0
    for region in graph.regions:
        values = {id(v): v for v in region.values if not v.stored}
        times = _repeated(region, DEAR)
        arithmetic += region.times * sum(
            times[k] * _elements(v, machine) * v.cost.machine_code for k, v in values.items()
        )
        arithmetic += region.times * sum(_product(r, machine) for r in region.roots if r.flops)
        # Each cell reads the right operand of a product, and packs it.
        again += region.times * sum(machine.seconds(2 * r.right, r.right, r.right / graph.cells) for r in region.roots)
        kept += region.times * sum(_kept(r) for r in region.roots if r.ref is None or r.ref in graph.states)
        for value in (v for v in values.values() if v.rows):
            (operand, *_), row = value.operands, value.operands[0].width * value.operands[0].itemsize
            faster = FIRST if row <= machine.first // 2 else 1
            again += region.times * operand.size * operand.itemsize / machine.rates.near / faster
    memory = machine.seconds(read, 0, read + written)
    streamed = streamed_outputs(kernel, _carry(kernel), machine.streams)
    for o, type_ in enumerate(kernel.out_types):
        ref = kernel.body.inputs[kernel.splits[2] + o]
        how = "in_place" if ref in graph.aliased else "streamed" if o in streamed else "copy"
        memory += machine.seconds(0, type_.nbytes, read + written, how)
    again += machine.seconds(kept / 2, kept / 2, held / 2) + machine.multiply_adds(CELL) * graph.cells
    return _both(memory, machine.multiply_adds(arithmetic) + again)


def _kept(root: Root) -> int:
    """Bytes that are written to memory of the cell's own and read there, by what is no pass along rows."""
    if root.reduces:
        return sum(o.size * o.itemsize for o in root.value.operands)
    return 2 * root.bytes


def _repeated(region: Region, dear: float = math.inf) -> dict[int, float]:
    """How often each value is computed: a row that is repeated along other axes, as often as it is read there.

    One whose element costs more than `dear` is kept.
    """
    found: dict[int, float] = {id(v): 1.0 for v in region.values}
    for value in reversed(region.values):
        for operand in value.operands:
            if id(operand) in found and not operand.stored and operand.width > 1 and operand.size:
                again = found[id(value)] * value.size / operand.size
                found[id(operand)] = max(found[id(operand)], 1 if operand.cost.machine_code >= dear else again)
    return found


def _elements(value: Value, machine: Machine) -> float:
    """Elements with the lanes that the ends of rows leave empty."""
    lanes = machine.lanes
    return value.size * (-(-value.width // lanes) * lanes / value.width) if value.width else 0.0


def _product(root: Root, machine: Machine) -> float:
    """Multiply-adds of a product, with the lanes that its columns leave empty."""
    width = root.value.width
    filled = width / (-(-width // machine.lanes) * machine.lanes) if width else 1.0
    return root.flops / 2 / PRODUCT / filled * _multiply_adds(root, machine)


def _integers(root: Root) -> bool:
    return "int" in root.dtypes[-1]


def _multiply_adds(root: Root, machine: Machine) -> float:
    """Multiply-adds of float32 in the time of one of a product, by machine code or by XLA's library."""
    *operands, sums = root.dtypes
    if sums == "int32" and {*operands} <= {"int8", "uint8"}:
        return machine.rates.fma / machine.rates.bytes
    if sums == "int32" and {*operands} <= {"int8", "uint8", "int16"}:
        return SHORT
    return max(root.itemsize / 4, 1) * (INTEGERS if _integers(root) else 1)


__all__ = ["Estimate", "Machine", "estimate", "shown"]
