"""From a kernel to one module of code: its cells in loops, the blocks of a cell as memories, and the body.

    cell(buffers, workspace, number)     one cell of the parallel axes, and in order all cells of the others

An input's block is read where its operand has it, an output's is written where the result is; scratch and intermediate
values are in the workspace of the thread, or on its stack where they are small. Where blocks may reach past the end of
an array there are two bodies, one for cells whose blocks are whole, without masks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.ir.types import ArrayType, MemorySpace
from ...core.primitives.refs.state_primitives import whole
from ...core.support.errors import UnsupportedError
from ...lang.analysis.facts import analyse
from ...lang.analysis.index_maps import map_of
from ...lang.kernel.kernel import UNBOUNDED, Block, Kernel
from ...lang.legalize import Legal, entry
from ...lang.targets.target import CPU, Target
from ..llvm.builder import Builder, Int, Value
from ..llvm.compile import module_text
from ..machine.features import Features, cores, features
from ..runtime.handler import Launch, handler
from .body import Body
from .cumulative import cumulate
from .emit import Emitter
from .expression_graph import STORED, Cumulative, Memory, Number, Product, row_major
from .in_place import in_place
from .products import Multiplier
from .refusal import refuse
from .rules import BACKEND, RULES
from .streaming import streamed_outputs, uncached, with_streams

ALIGN = 64
STACK_BYTES = 32 * 2**10  # of a cell's own memory that is on the thread's stack
MOST_BYTES = 64 * 2**20  # of it at all
MOST_LINES = 60_000  # of text: beyond, compiling takes seconds
SMALL_BYTES = 512 * 2**10  # that a kernel moves: less is not worth another thread


@dataclass(frozen=True)
class Code:
    """A kernel's module as text, and how it is called: with the kernel's operands and results, and a workspace.

    `aliases` are the (operand, result) pairs whose buffers may be one, `nest` are the loops in words.
    """

    text: str
    launch: Launch
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    nest: tuple[str, ...] = ()


class Lowering:
    """One kernel being turned into code."""

    kernel: Kernel
    machine: Features
    emitter: Emitter
    inputs: list[Value]
    outputs: list[Value]

    def __init__(self, kernel: Kernel, machine: Features, stream_from: int):
        self.kernel, self.machine = kernel, machine
        self.carry: tuple[int, ...] = tuple(a for a in analyse(kernel).carry if kernel.grid[a] > 1)
        self.parallel: tuple[int, ...] = tuple(a for a in kernel.long_axes if a not in self.carry)
        self.in_place: tuple[tuple[int, int], ...] = in_place(kernel)
        self.streamed: frozenset[int] = streamed_outputs(kernel, self.carry, stream_from)
        self.b: Builder = Builder("cell", [("ptr", "buffers"), ("ptr", "workspace"), ("i64", "number")], machine.names)
        self.used = 0
        self.emitter = Emitter(self.b, machine.lanes, {Product: Multiplier(machine.bits), Cumulative: cumulate})
        self.body: Body = Body(self.emitter, RULES, self.allocate)

    def allocate(self, size: int) -> Value:
        """Memory of the cell's own, at an offset of its workspace."""
        start = -(-self.used // ALIGN) * ALIGN
        self.used: int = start + size + ALIGN  # vectors may read a little further than a value's end
        if self.used > MOST_BYTES:
            raise refuse(f"the intermediate values of a cell take more than {MOST_BYTES >> 20} MiB")
        return self.b.offset(self.own, start, "i8")

    def run(self) -> Builder:
        kernel, b = self.kernel, self.b
        buffers, workspace, number = b.parameters
        self.own: Value = b.value("ptr", f"getelementptr i8, ptr {workspace.text}, i64 0")
        b.always = b.compare("sge", number, 0)
        count = len(kernel.prefetch) + len(kernel.inputs) + len(kernel.outputs)
        pointers = [b.load(b.offset(buffers, i, "ptr"), "ptr") for i in range(count)]
        n, first = len(kernel.prefetch), len(kernel.prefetch) + len(kernel.inputs)
        self.prefetched: list[Memory] = [
            Memory("prefetched", self.body.dtype(t.dtype), t.shape, row_major(t.shape), p, fixed=True)
            for t, p in zip(kernel.prefetch, pointers, strict=False)
        ]
        self.inputs, self.outputs = pointers[n:first], pointers[first:]
        self.scratch: list[Memory] = [self._scratch(t) for t in kernel.scratch]
        self.kept: dict[int, Memory] = {o: self._kept(kernel.outputs[o]) for o in read_past_end(kernel)}
        ids: list[Int] = [0] * len(kernel.grid)
        for axis in reversed(self.parallel):
            size = kernel.grid[axis]
            outermost = axis == self.parallel[0]
            ids[axis] = number if outermost else b.binary("urem", number, size)
            number = number if outermost else b.binary("udiv", number, size)
        with ExitStack() as stack:
            for axis in self.carry:
                size = kernel.grid[axis]
                stack.enter_context(self.emitter.nest.inside(f"axis {axis}, carried: loop of {size} in order"))
                loop = stack.enter_context(b.loop(0, size, empty=False))
                stack.enter_context(self.body.region())
                ids[axis] = loop.index
            self._cell(ids)
        return b

    def _scratch(self, type_: Any) -> Memory:
        if type_.space is MemorySpace.SEMAPHORE:
            raise refuse("it counts semaphores")
        return self.body.allocate(self.body.dtype(type_.dtype), type_.shape)

    def _kept(self, block: Block) -> Memory:
        """Memory of a block that is read where it reaches past the array's end: what is written there stays."""
        return self.body.allocate(self.body.dtype(block.array.dtype), block.shape)

    # ------------------------------------------------------------ one cell

    def _cell(self, ids: Sequence[Int]) -> None:
        kernel, b = self.kernel, self.b
        with self.body.region():
            nodes = [self._id(i) for i in ids]
            placed = []
            for block, pointer in zip(kernel.blocks, [*self.inputs, *self.outputs], strict=True):
                placed.append((block, pointer, self._starts(block, ids, nodes)))
            inside = None
            for block, _, starts in placed:
                for d, start in enumerate(starts):
                    if block.axes[d].ragged(block.array.shape[d]):
                        most = block.array.shape[d] - block.sizes[d]
                        inside = self.emitter.both(inside, self._compared("sle", start, most))
                        if block.padding[d][0]:
                            inside = self.emitter.both(inside, self._compared("sge", start, 0))
            if inside is None:
                self._run(nodes, placed, False)
            else:
                b.either(inside, lambda: self._form(nodes, placed, False), lambda: self._form(nodes, placed, True))
        if len(b.lines) > MOST_LINES:
            raise refuse(f"its code would be more than {MOST_LINES} instructions")

    def _compared(self, how: str, x: Int, y: int) -> Value:
        return self.b.compare(how, x if isinstance(x, Value) else self.b.constant(x, "i64"), y)

    def _id(self, i: Int) -> Any:
        if isinstance(i, int):
            return Number((), np.dtype(np.int32), value=i)
        return self.emitter.held(self.b.cast("trunc", i, "i32"), np.dtype(np.int32))

    def _starts(self, block: Block, ids: Sequence[Int], nodes: Sequence[Any]) -> list[Int]:
        """The first element of a cell's block along the array's axes."""
        e, fact = self.emitter, map_of(self.kernel, block)
        found: list[Int] = []
        if fact is not None and fact.affine is not None:
            for d, (const, terms) in enumerate(zip(fact.affine.const, fact.affine.coefficients, strict=True)):
                value: Int = int(const)
                low = high = int(const)
                for axis, factor in dict(terms).items():
                    value = e.add(value, e.mul(ids[axis], int(factor)))
                    reach = int(factor) * (self.kernel.grid[axis] - 1)
                    low, high = low + min(reach, 0), high + max(reach, 0)
                if low < 0 or high >= block.axes[d].count(block.array.shape[d]):
                    raise refuse(f"blocks of {block.name} may be outside of it")
                found.append(value)
        else:
            assert block.index_map is not None
            outputs = self.body.run(block.index_map, [*nodes, *self.prefetched])
            self.body.flush()
            for node, axis, n in zip(outputs, block.axes, block.array.shape, strict=True):
                found.append(e.within(e.index(node, ()), max(axis.count(n) - 1, 0)))
        return [
            e.add(e.mul(i, step), -low) for i, step, (low, _) in zip(found, block.steps, block.padding, strict=True)
        ]

    def _memory(
        self, block: Block, pointer: Value, starts: Sequence[Int], masked: bool, written: bool, streamed: bool,
        buffer: int | None,
    ) -> Memory:  # fmt: skip
        e, scalar = self.emitter, STORED[str(self.body.dtype(block.array.dtype))]
        strides = row_major(block.array.shape)
        base: Int = 0
        limits: list[tuple[Value | None, Value] | None] = []
        for d, (start, stride) in enumerate(zip(starts, strides, strict=True)):
            base = e.add(base, e.mul(start, stride))
            if d in block.seen:
                n, limit = block.array.shape[d], None
                if masked and block.axes[d].ragged(n):
                    first = start if isinstance(start, Value) else self.b.constant(start, "i64")
                    limit = (0 - first if block.padding[d][0] else None), n - first
                limits.append(limit)
        return Memory(
            block.name,
            block.array.dtype,
            block.shape,
            tuple(strides[d] for d in block.seen),
            self.b.offset(pointer, base, scalar),
            tuple(limits) if masked else (),
            block.fill,
            not written and buffer is None,
            streamed and not masked,
            buffer,
        )

    def _form(self, nodes: Sequence[Any], placed: Sequence[Any], masked: bool) -> None:
        """The body of the cells whose blocks are whole, or of the others."""
        with self.emitter.nest.inside("blocks across an end, masked" if masked else "blocks within the arrays"):
            self._run(nodes, placed, masked)

    def _run(self, nodes: Sequence[Any], placed: Sequence[Any], masked: bool) -> None:
        n = len(self.kernel.inputs)
        with self.body.region():
            buffers = {i: i for i, _ in self.in_place} | {n + o: i for i, o in self.in_place}
            memories = [
                self._memory(block, pointer, starts, masked, i >= n, i - n in self.streamed, buffers.get(i))
                for i, (block, pointer, starts) in enumerate(placed)
            ]  # fmt: skip
            arrays = {o: memories[n + o] for o in self.kept} if masked else {}
            for o, array in arrays.items():
                memories[n + o] = self.kept[o]
                self._copied(array, self._within(self.kept[o], array))
            self.body.run(self.kernel.body, [*nodes, *self.prefetched, *memories, *self.scratch])
            self.body.flush()
            for o, array in arrays.items():
                self._copied(self.kept[o], array)

    def _within(self, kept: Memory, array: Memory) -> Memory:
        """A block's own memory, where the array has elements."""
        return replace(kept, limits=array.limits)

    def _copied(self, source: Memory, target: Memory) -> None:
        self.body.store(target, whole(target.shape), self.body.load(source), (), None, False)
        self.body.flush()


def read_past_end(kernel: Kernel) -> list[int]:
    """The outputs that the body reads, and whose blocks may reach past the end of the array."""
    first = kernel.splits[2]
    used = {e.operand - first for e in kernel.body.effects if isinstance(e.operand, int) and e.kind != "write"}
    return [
        o for o, block in enumerate(kernel.outputs)
        if o in used and any(a.ragged(n) for a, n in zip(block.axes, block.array.shape, strict=True))
    ]  # fmt: skip


def _check(kernel: Kernel) -> None:
    """Raise an error for what is not known to be right."""
    if kernel.extents or UNBOUNDED in kernel.grid:
        raise refuse("its grid's sizes are computed")
    if kernel.symbolic:
        raise refuse("its sizes are not known")
    aliased = {o for _, o in kernel.aliases}
    for o in read_past_end(kernel):
        if o in aliased and kernel.outputs[o].fill is not None:
            raise refuse(f"the body reads {kernel.outputs[o].name} past its end, where its operand has a fill")
    for block in kernel.blocks:
        if not block.array.size:
            raise refuse(f"{block.name} has no elements")


def lower(kernel: Kernel, machine: Features, threads: int, stream_from: int) -> Code:
    """The module of a kernel that is in the form of `BACKEND`; raises an `UnsupportedError` for what it is not for."""
    _check(kernel)
    lowering = Lowering(kernel, machine, stream_from)
    b = lowering.run()
    cells = math.prod(kernel.grid[a] for a in lowering.parallel)
    if not math.prod(kernel.grid):
        raise refuse("it has no cells")
    moved = sum(t.nbytes for t in (*kernel.in_types, *kernel.out_types))
    workers = min(cells, threads) if moved >= SMALL_BYTES else 1
    workspace = lowering.used if lowering.used > STACK_BYTES else 0
    if lowering.used and not workspace:
        stack = b.slot("i8", lowering.used)
        b.lines[0] = f"  {lowering.own.text} = getelementptr i8, ptr {stack.text}, i64 0"
    operands = len(kernel.prefetch) + len(kernel.inputs)
    copies = tuple(
        (len(kernel.prefetch) + i, o, kernel.outputs[o].array.nbytes) for i, o in kernel.aliases
    )  # fmt: skip
    launch = Launch(operands, len(kernel.outputs), cells, max(cells // (workers * 8), 1), workers, workspace, copies)
    extra = (ArrayType((workspace * workers,), np.dtype(np.uint8)),) if workspace else ()
    nest = [_launched(lowering, launch), *(f"  {line}" for line in lowering.emitter.nest.lines)]
    cell = with_streams(b, [operands + o for o in sorted(lowering.streamed)], machine.architecture)
    aliases = tuple((len(kernel.prefetch) + i, o) for i, o in lowering.in_place)
    return Code(module_text([*cell, *handler(launch, machine.architecture)]), launch, tuple(kernel.in_types),
                (*kernel.out_types, *extra), aliases, tuple(nest))  # fmt: skip


def _launched(lowering: Lowering, launch: Launch) -> str:
    """How the cells of a kernel are divided, in words."""
    axes = ", ".join(f"axis {a} of {lowering.kernel.grid[a]}" for a in lowering.parallel)
    parts = [f"parallel, {axes}: {launch.cells} program instances" if axes else "one program instance"]
    parts.append(f"{launch.workers} thread{'s' * (launch.workers > 1)}")
    parts += [f"{launch.workspace} bytes of workspace each"] if launch.workspace else []
    streamed = [lowering.kernel.outputs[o].name for o in sorted(lowering.streamed)]
    return ", ".join(parts + ([f"{', '.join(streamed)} stored past the caches"] if streamed else []))


@entry(BACKEND)
def code_of(
    legal: Legal, target: Target, machine: Features | None = None, threads: int | None = None,
    stream_from: int | None = None,
) -> Code:  # fmt: skip
    """A kernel's machine code as text, for this machine or one with given features, and at most some threads.

    Outputs of at least `stream_from` bytes bypass the caches, by default those that these would not hold.

    Raises an `UnsupportedError` for a kernel that XLA's route computes, with the reason.
    """
    legal.check()
    threads = cores() if threads is None else threads
    return lower(legal.kernel, machine or features(), threads, uncached() if stream_from is None else stream_from)


def reason(kernel: Kernel) -> str | None:
    """Why a kernel has no machine code here; None where it has."""
    try:
        code_of(kernel, CPU)
    except UnsupportedError as error:
        return error.what
    return None
