"""A kernel as a Mosaic module: its body, its index maps, and the attributes that say how its grid runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.ir.dataflow import bodies
from ..core.ir.printer import identifier
from ..core.ir.program import Program
from ..core.ir.types import ArrayType, MemorySpace, RefType, is_bool
from ..core.primitives.elementwise.arithmetic import max_p, mul_p
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.shape import broadcast_in_dim_p, reshape_p, reshape_to
from ..core.primitives.refs.state_primitives import Index, Span
from ..core.support.errors import KernelBodyError, ResourceError, UnsupportedError
from ..core.support.memo import cached
from ..core.tracing.trace import trace_program
from ..lang.analysis.facts import analyse
from ..lang.analysis.index_maps import map_of, runs_again
from ..lang.cost.estimate import kernel_cost
from ..lang.interpret.interpreter import parallel_axes
from ..lang.kernel.kernel import ID, Block, Kernel
from ..lang.legalize import Legal, entry
from ..lang.ops.atomics import atomic_cas_p, atomic_rmw_p
from ..lang.ops.dma import dma_start_p, dma_wait_p
from ..lang.ops.remote_dma import barrier_p, remote_start_p, remote_wait_p
from ..lang.targets.compiler_params import params_of
from ..lang.targets.target import Target
from ..lang.tpu import CompilerParams
from ..lang.transforms.desugar import uses
from ..lang.transforms.discharge import Cell, run_cells
from ..lang.transforms.dynamic_grid import by_ids
from ..lang.transforms.fit_vmem import most_vmem, vmem_bytes
from ..lang.transforms.rebuild import INHERITED
from ..lang.verify.communication import communicates
from .body import Body
from .kernel_variants import COPIES, hbm_bytes, in_windows, needs_hbm
from .module import MosaicModule
from .refs import Past, Ref
from .rules import BACKEND, RULES
from .rules import vector_memory as memory
from .rules.dma import DMA_SEMAPHORE, REGULAR_SEMAPHORE, NotWholeTiles
from .text import SEMAPHORE, SMEM, SSA, VMEM, Mem
from .values import Value, physical, stored, wide
from .windows import Window, cast, finished, indices, margins, prepared, ragged_axes, storage_dtype, window_of

DYNAMIC = -(2**63)  # how MLIR writes a size that is not static


@dataclass(frozen=True)
class _Start:
    """What an aliased output holds at first: the operand's number among the windows, and the output's."""

    source: int
    output: int


@entry(BACKEND)
@cached(512)
def mosaic_module(legal: Legal, target: Target) -> MosaicModule:
    """A kernel in the Mosaic TPU dialect.

    Raises:
      DtypeError: a dtype that a TPU's registers do not hold.
      UnsupportedError: an operation without a TPU form.
      ResourceError: far operands that it reaches in other ways than by whole tiles, and that VMEM does not hold.
    """
    kernel, (first, *others) = legal.given, legal.forms
    if needs_hbm(kernel, target):
        try:
            return _Lowering(kernel, first, target, True).module()
        except NotWholeTiles as error:
            if windows := in_windows(kernel, target):
                with suppress(NotWholeTiles):
                    return _Lowering(kernel, others[0], target, True, windows).module()
            _refuse_parts(kernel, target, str(error))  # else these copies are plain ones, between VMEM and VMEM
    return _Lowering(kernel, others[0] if others else first, target, False).module()


def _refuse_parts(kernel: Kernel, target: Target, why: str) -> None:
    """Raise for copies of parts of tiles that cannot be plain ones: to other devices, or of more than VMEM holds."""
    if communicates(kernel):
        raise UnsupportedError(
            f"kernel {kernel.name}: a copy in it moves no whole tiles of memory, which a TPU's copies to other devices "
            f"have to: {why}", f"copy whole Refs, or parts that are multiples of {target.sublanes} rows and "
            f"{target.lanes} columns", kernel.source)  # fmt: skip
    if hbm_bytes(kernel) > target.fast_bytes:
        raise ResourceError(
            f"kernel {kernel.name}: {why}, so that its operands in far memory are to be in VMEM: these are "
            f"{hbm_bytes(kernel):,} bytes, and {target.name} has {target.fast_bytes:,}",
            "start copies at multiples of the tile and say so, `multiple_of(start, 8)`, or keep the rows that are "
            "picked on an axis before the last two", kernel.source)  # fmt: skip


class _Lowering:
    def __init__(self, given: Kernel, kernel: Kernel, target: Target, far: bool, windows: bool = False):
        self.given, self.kernel, self.windows = given, kernel, windows
        self.dynamic = tuple(a for a, p in given.extents if not by_ids(given, p))
        self.target, self.far = target, far
        self.grid = self.kernel.grid or (1,)
        self.inputs = [window_of(self.kernel, b, False, target, far) for b in self.kernel.inputs]
        atomics, aliased = uses(self.given.body, ATOMICS), {o for _, o in self.kernel.aliases}
        again = [(atomics or o in aliased) and _again(self.kernel, b, atomics)
                 for o, b in enumerate(self.kernel.outputs)]  # fmt: skip
        self.outputs = [
            window_of(self.kernel, b, True, target, far, a) for b, a in zip(self.kernel.outputs, again, strict=True)
        ]
        self.starts: list[_Start] = []
        self.sources = [*range(len(self.inputs))]  # the kernel's input that each window is of
        self.aliases: list[tuple[int, int]] = []
        for i, o in self.kernel.aliases:
            self._alias(i, o)

    def _alias(self, i: int, o: int) -> None:
        """The operand that shares memory with an output: the aliased input, cut as the output is."""
        window = self.outputs[o]
        number = i
        if not _same(self.inputs[i], window):
            number = len(self.inputs)
            block = replace(window.block, name=f"{window.block.name}_start")
            self.inputs.append(replace(window, block=block))
            self.sources.append(i)
        if window.kind != "far":
            self.starts.append(_Start(number, o))
        self.aliases.append((len(self.dynamic) + len(self.kernel.prefetch) + number, o))

    # ------------------------------------------------------------ the module

    def module(self) -> MosaicModule:
        kernel = self.kernel
        body = self.body()
        windows = [*self.inputs, *self.outputs]
        maps = [self.transform(f"transform_{i}", w) for i, w in enumerate(windows) if w.kind != "far"]
        text = f"module @{identifier(kernel.name)} {{\n" + "\n".join([body, *maps]) + "\n}\n"
        cost = kernel_cost(self.given)
        return MosaicModule(
            kernel.name, text, tuple(self.in_types()), tuple(w.array for w in self.outputs), tuple(self.aliases),
            self.prepare(), self.finish(), cost.flops, cost.transcendentals, cost.bytes_accessed,
            self.limit(), has_communication=communicates(self.given), collective_id=self.collective_id(),
        )  # fmt: skip

    def collective_id(self) -> int | None:
        """The number of the barrier semaphore that the kernel shares."""
        found = params_of(self.given, CompilerParams).collective_id
        if found is None and uses(self.given.body, {barrier_p}):
            raise KernelBodyError(
                f"kernel {self.given.name} takes the barrier semaphore, and says not which",
                "pass `compiler_params=CompilerParams(collective_id=0)`, one number for the kernels that may not meet "
                "at one barrier", self.given.source)  # fmt: skip
        return found

    def limit(self) -> int | None:
        """VMEM that the kernel may take: as asked, or more than it gets unasked where its blocks fill half of that."""
        told = dict(self.given.settings)
        asked = params_of(self.given, CompilerParams).vmem_limit_bytes
        if asked is not None and not told.get(INHERITED):
            return asked
        wanted = 2 * sum(size for _, size in vmem_bytes(self.given, self.target))
        if not self.far:  # then VMEM holds those too, with room to move their rows
            wanted = max(wanted, 3 * hbm_bytes(self.given))
        most = most_vmem(self.target)
        if told.get(INHERITED):  # a derivative holds values of which its blocks say nothing
            wanted = max(4 * wanted, asked or 0)
        return min(wanted, most) if wanted > self.target.default_bytes else None

    def in_types(self) -> list[ArrayType]:
        """Sizes of the grid axes that are computed, prefetched scalars, inputs."""
        return [*(ID for _ in self.dynamic), *self.word_types(), *(w.array for w in self.inputs)]

    def word_types(self) -> list[ArrayType]:
        words = [ArrayType(t.shape if t.shape and t.size else (1,), storage_dtype(t.dtype, words=True))
                 for t in self.kernel.prefetch]  # fmt: skip
        return words

    def prepare(self) -> Program | None:
        kernel, n = self.kernel, len(self.kernel.prefetch)

        def operands(*arrays: Any) -> list[Any]:
            sizes = [self._size(p, arrays[:n]) for a, p in kernel.extents if a in self.dynamic]
            words = [_words(a, t) for a, t in zip(arrays[:n], self.word_types(), strict=False)]
            rest = arrays[n:]
            return [*sizes, *words, *(prepared(kernel, w, rest[i], arrays[:n])
                              for w, i in zip(self.inputs, self.sources, strict=True))]  # fmt: skip

        if self.in_types() == kernel.in_types:
            return None
        return trace_program(operands, kernel.in_types, "prepare")

    def _size(self, program: Program, prefetched: Sequence[Any]) -> Any:
        """The size of a grid axis, of the prefetched scalars."""
        cells = [*(np.int32(0) for _ in self.kernel.grid), *(Cell(p) for p in prefetched)]
        return max_p.bind(convert_element_type(run_cells(program, cells)[0], ID.dtype), np.int32(0))

    def finish(self) -> Program | None:
        kernel, n = self.kernel, len(self.given.in_types)
        results = [w.array for w in self.outputs]
        if results == kernel.out_types:
            return None

        def outputs(*arrays: Any) -> list[Any]:
            return [finished(w, r) for w, r in zip(self.outputs, arrays[n:], strict=True)]

        return trace_program(outputs, [*kernel.in_types, *results], "finish")

    # ------------------------------------------------------------ functions

    def transform(self, name: str, window: Window) -> str:
        """An index map: the window's index, of the ids and prefetched scalars."""
        b = Body(BACKEND, self.given.name, self.target)
        ids, words = self._ids(b), self._prefetched()
        zero = b.integer(0)
        found = indices(window, ids, lambda: self._block_index(b, window.block, ids, words), zero)
        b.w.ops("func.return", [b.scalar(v) for v in found], [])
        return b.w.function(name, [*(i.scalar for i in ids), *(r.mem for r in words)], ["i32"] * len(found))

    def _block_index(self, b: Body, block: Block, ids: Sequence[Value], words: Sequence[Ref]) -> list[Value]:
        assert block.index_map is not None
        return b.inline(block.index_map, [*ids[: len(self.kernel.grid)], *words])

    def _ids(self, b: Body) -> list[Value]:
        return [Value(ID, scalar=SSA(f"%i{a}", None, "i32")) for a in range(len(self.grid))]

    def _prefetched(self) -> list[Ref]:
        words = self.word_types()
        return [
            Ref(RefType(t, MemorySpace.SMEM), Mem(f"%p{i}", held.shape, _word(t.dtype), SMEM))
            for i, (t, held) in enumerate(zip(self.kernel.prefetch, words, strict=True))
        ]

    def body(self) -> str:
        kernel, b = self.kernel, Body(BACKEND, self.given.name, self.target, self.windows)
        b.source = kernel.source
        ids, words = self._ids(b), self._prefetched()
        ins = [self._window_ref(f"%a{i}", w) for i, w in enumerate(self.inputs)]
        outs = [self._window_ref(f"%o{i}", w) for i, w in enumerate(self.outputs)]
        scratch = [self._scratch(b, f"%s{i}", s, kernel.splits[3] + i) for i, s in enumerate(kernel.scratch)]
        for ref, window in zip([*ins, *outs], [*self.inputs, *self.outputs], strict=True):
            if window.kind == "far" and window.lead:
                place = self._block_index(b, window.block, ids, words)[: window.lead]
                ref.at = tuple(b.scalar(v) for v in place)
        for start in self.starts:
            self._fill_start(b, ids, words, ins[start.source], outs[start.output], self.outputs[start.output])
        for ref, window in [*zip(ins, self.inputs[: len(kernel.inputs)], strict=False), *zip(outs, self.outputs)]:
            ref.past = self._past(b, ids, words, window)
        seen = [self._enter_placed(b, ids, words, r, w) for r, w in zip(outs, self.outputs, strict=True)]
        b.inline(kernel.body, [*ids[: len(kernel.grid)], *words, *ins[: len(kernel.inputs)], *seen, *scratch])
        for ref, block, window in zip(outs, seen, self.outputs, strict=True):
            if window.kind == "placed":
                self._copy_placed(b, ids, words, ref, block, window, False)
        b.w.ops("func.return", [], [])
        scratch = [r for r in scratch if not r.barrier]
        memory = [r.mem for r in (*words, *ins, *outs, *scratch)]
        arguments = [*(i.scalar for i in ids), *memory, *b.extra]
        return b.w.function("main", arguments, [], self._attributes(len(scratch) + len(b.extra)))

    def _fill_start(self, b: Body, ids: list[Value], words: list[Ref], source: Ref, out: Ref, window: Window) -> None:
        """Copy what an aliased output holds at first, where a run of cells of one block begins."""
        first = self._enters(b, ids, words, window)
        shape = out.mem.shape
        zeros = [b.w.index(0)] * len(shape)

        def copied(_: Any) -> None:
            value = b.w.op("vector.load", [source.mem, *zeros], shape, source.mem.element)
            attributes = f"operandSegmentSizes = array<i32: 1, 1, {len(shape)}, 0>, strides = array<i32>, add = false"
            b.w.ops("tpu.vector_store", [value, out.mem, *zeros], [], attributes)

        if first is None:
            copied(None)
            return
        b.w.ops("scf.if", [first], [], regions=f"{b.w.region([], copied)}, {b.w.region([], lambda _: [])}")

    def _past(self, b: Body, ids: list[Value], words: list[Ref], window: Window) -> Past | None:
        """Where a cell's block reaches past the end of its array, and what is to be loaded there."""
        axes = ragged_axes(window)
        if not axes:
            return None
        block, limits, reaches = window.block, [], None
        at = self._block_index(b, block, ids, words)
        for d in axes:
            last = b.int_constant(block.array.shape[d] // block.sizes[d])
            here = b.w.op("arith.cmpi", [b.scalar(at[d]), last], None, "i1", "predicate = 0 : i64")
            reaches = here if reaches is None else b.w.op("arith.ori", [reaches, here], None, "i1")
            start = b.scalar_op("arith.muli", b.scalar(at[d]), b.int_constant(block.sizes[d]))
            limit = b.scalar_op("arith.subi", b.int_constant(block.array.shape[d]), start)
            limits.append((sum(not s for s in block.squeezed[:d]), limit))
        assert reaches is not None
        return Past(reaches, tuple(limits), block.fill)

    def _enter_placed(self, b: Body, ids: list[Value], words: list[Ref], ref: Ref, window: Window) -> Ref:
        """The Ref that the body sees of an output: of one whose windows overlap, memory of the block's own."""
        if window.kind != "placed":
            return ref
        block = Ref(window.block.ref_type, b.scratch(physical(window.block.shape), window.element, VMEM))
        self._copy_placed(b, ids, words, ref, block, window, True)
        return block

    def _copy_placed(self, b: Body, ids: list[Value], words: list[Ref], ref: Ref, block: Ref, window: Window,
                     enter: bool) -> None:  # fmt: skip
        """Copy the part of an array where a cell's window is to the block (`enter`), or back."""
        at = self._block_index(b, window.block, ids, words)
        of = window.block
        shape = tuple(n + low + high for n, (low, high, _) in zip(of.array.shape, margins(of), strict=True))
        whole = Ref(RefType(ArrayType(shape, of.array.dtype), MemorySpace.VMEM), ref.mem)
        starts = [_times(b, i, step) for i, step in zip(at, of.steps, strict=True)]
        index = Index(Span(None, n) for n in of.sizes)
        part = ArrayType(of.sizes, of.array.dtype)
        every = Index(Span(0, n) for n in of.shape)
        if enter:
            value = memory.read(b, whole, index, starts, None, None, part)
            flat = RULES[reshape_p](b, [value], ArrayType(of.shape, of.array.dtype))
            memory.write(b, block, flat, every, [], None)
        else:
            value = memory.read(b, block, every, [], None, None, ArrayType(of.shape, of.array.dtype))
            memory.write(b, whole, RULES[reshape_p](b, [value], part), index, starts, None)

    def _enters(self, b: Body, ids: list[Value], words: list[Ref], window: Window) -> SSA | None:
        """Whether the cell is the first of a run that sees one block; None: every cell is."""
        if all(n == 1 for n in self.grid):
            return None
        if window.kind == "placed":
            return self._all_zero(b, ids)
        fact = map_of(self.kernel, window.block)
        if fact is not None and fact.affine is not None:
            apart = {a for terms in fact.affine.coefficients if len(terms) == 1 for a in terms}
            if set(fact.axes) <= apart:
                same = [a for a, n in enumerate(self.grid) if n > 1 and a not in fact.axes]
                return self._all_zero(b, [ids[a] for a in same])
        here = indices(window, ids, lambda: self._block_index(b, window.block, ids, words), b.integer(0))
        past = self._before(b, ids)
        there = indices(window, past, lambda: self._block_index(b, window.block, past, words), b.integer(0))
        new = self._all_zero(b, ids)
        for x, y in zip(here, there, strict=True):
            differs = b.w.op("arith.cmpi", [b.scalar(x), b.scalar(y)], None, "i1", "predicate = 1 : i64")
            new = differs if new is None else b.w.op("arith.ori", [new, differs], None, "i1")
        return new

    def _all_zero(self, b: Body, ids: Sequence[Value]) -> SSA | None:
        found = None
        for i in ids:
            zero = b.w.op("arith.cmpi", [b.scalar(i), b.int_constant(0)], None, "i1", "predicate = 0 : i64")
            found = zero if found is None else b.w.op("arith.andi", [found, zero], None, "i1")
        return found

    def _before(self, b: Body, ids: Sequence[Value]) -> list[Value]:
        """The ids of the cell before (of the first cell: its own)."""
        found, borrow = [], b.int_constant(1)
        for a in reversed(range(len(ids))):
            less = b.scalar_op("arith.subi", b.scalar(ids[a]), borrow)
            under = b.w.op("arith.cmpi", [less, b.int_constant(0)], None, "i1", "predicate = 2 : i64")
            last = self._last(b, a) if a else b.int_constant(0)
            found.append(Value(ID, scalar=b.w.op("arith.select", [under, last, less], None, "i32")))
            borrow = b.w.op("arith.extui", [under], None, "i32")
        return found[::-1]

    def _last(self, b: Body, axis: int) -> SSA:
        """The last id along a grid axis."""
        if axis not in self.dynamic:
            return b.int_constant(self.grid[axis] - 1)
        size = b.w.op("tpu.iteration_bound", [], None, "i32", f"dim = {axis} : i32")
        return b.scalar_op("arith.subi", size, b.int_constant(1))

    # ------------------------------------------------------------ memory and attributes

    def _window_ref(self, name: str, window: Window) -> Ref:
        return Ref(window.block.ref_type, Mem(name, window.bounds, window.element, window.space), window.lead)

    def _scratch(self, b: Body, name: str, type: RefType, number: int) -> Ref:
        dtype = type.dtype
        if type.space is MemorySpace.SEMAPHORE and self.far:
            found = _uses_of(self.kernel.body, self.kernel.body.inputs[number])
            if "barrier" in found:
                mem = Mem(b.w.fresh(), (), REGULAR_SEMAPHORE, SEMAPHORE)
                b.w.lines.append(f'{mem.name} = "tpu.sem_barrier"() : () -> {mem.type}')
                return Ref(type, mem, barrier=True)
            copies = "dma" in found
            element = DMA_SEMAPHORE if copies else REGULAR_SEMAPHORE
            return Ref(type, Mem(name, type.shape, element, SEMAPHORE))
        if type.space in (MemorySpace.SMEM, MemorySpace.SEMAPHORE):
            return Ref(type, Mem(name, type.shape or (1,), _word(dtype), SMEM))
        return Ref(type, Mem(name, physical(type.shape), stored(dtype), VMEM))

    def parallel(self) -> set[int]:
        """The axes that cores may divide: no two cells along them meet in an output's window or in an atomic."""
        if not self.kernel.grid or any(w.kind == "placed" for w in self.outputs):
            return set()
        if communicates(self.kernel):
            return set()
        asked = set(parallel_axes(self.kernel))
        if not self.far:
            return asked - set(analyse(self.kernel).carry)
        if uses(self.kernel.body, ATOMICS):
            return set()
        windows = [n for n, w in enumerate(self.outputs) if w.kind != "far"]
        every = tuple(range(len(self.kernel.grid)))
        shared = [analyse(self.kernel).ignored(n) for n in windows]
        return asked.difference(*(every if axes is None else axes for axes in shared))

    def _attributes(self, scratch: int) -> str:
        parallel = self.parallel()
        semantics = ", ".join(
            f"#tpu.dimension_semantics<{'parallel' if a in parallel else 'arbitrary'}>" for a in range(len(self.grid))
        )
        params = ", ".join(_window_params(i, w) for i, w in enumerate([*self.inputs, *self.outputs]))
        bounds = ", ".join(str(DYNAMIC if a in self.dynamic else n) for a, n in enumerate(self.grid))
        return (f"dimension_semantics = [{semantics}], iteration_bounds = array<i64: {bounds}>, "
                f"scalar_prefetch = {len(self.kernel.prefetch)} : i64, scratch_operands = {scratch} : i64, "
                f"tpu.core_type = #tpu.core_type<tc>, window_params = [{params}]")  # fmt: skip


def _again(kernel: Kernel, block: Block, unknown: bool) -> bool:
    """Whether cells come back to a block that others have left; `unknown`: where the index map reads data."""
    if block.index_map is None:
        return False
    fact = map_of(kernel, block)
    return unknown if fact is None or fact.table is None else runs_again(kernel, fact) is not None


def _times(b: Body, x: Value, n: int) -> Value:
    """A block index as a number of elements."""
    return RULES[mul_p](b, [x, b.integer(n)], ID)


def _word(dtype: np.dtype[Any]) -> str:
    """The element type of a dtype in scalar memory."""
    return "i32" if is_bool(dtype) else wide(dtype)


def _window_params(number: int, window: Window) -> str:
    """One operand's attributes for the grid's pipeline."""
    if window.kind == "far":
        return "{}"
    bounds = ", ".join(map(str, window.bounds))
    mode = ", pipeline_mode = #tpu.pipeline_mode<synchronous>" if window.block.buffers == 1 else ""
    return f"{{transform_indices = @transform_{number}, window_bounds = array<i64: {bounds}>{mode}}}"


ATOMICS = frozenset({atomic_rmw_p, atomic_cas_p})
_KINDS = {**dict.fromkeys((dma_start_p, dma_wait_p, remote_start_p, remote_wait_p), "dma"), barrier_p: "barrier"}


def _uses_of(program: Program, var: Any) -> set[str]:
    """What a Program does with a semaphore: "dma", "signal" or "barrier"."""
    found: set[str] = set()
    for eqn in program.eqns:
        if eqn.primitive in COPIES and var in eqn.inputs:
            found.add(_KINDS.get(eqn.primitive, "signal"))
        for body in bodies(eqn):
            found.update(*(_uses_of(body.program, inner) for outer, inner, _ in body.taken if outer is var))
    return found


def _words(array: Any, type: ArrayType) -> Any:
    """An operand of scalar memory."""
    if not array.size:
        return broadcast_in_dim_p.bind(np.zeros((), type.dtype)[()], shape=type.shape, broadcast_dimensions=())
    return reshape_to(cast(array, type.dtype), type.shape)


def _same(a: Window, b: Window) -> bool:
    """Whether two windows cut their arrays alike."""
    alike = (a.kind, a.array, a.bounds, a.cut, a.axes, a.space) == (b.kind, b.array, b.bounds, b.cut, b.axes, b.space)
    return alike and replace(a.block, name="").key == replace(b.block, name="", fill=a.block.fill).key
