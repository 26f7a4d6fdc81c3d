"""A grid within a body: `emit_pipeline` runs a body over blocks of Refs in HBM.

Steps run in order: input blocks are copied in, the body runs, output blocks are copied out. An output block stays
resident while its index is unchanged, so a body may accumulate in it. An input in HBM whose blocks are all in bounds,
and that is no output, is double-buffered: the next step's block is prefetched.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array, ArrayLike
from ...core.ir.types import FAR, MemorySpace, RefType
from ...core.primitives.control_flow.while_loop import fori_loop
from ...core.primitives.elementwise.arithmetic import add_p, div_p, max_p, mul_p, rem_p, sub_p
from ...core.primitives.elementwise.bitwise import or_p
from ...core.primitives.elementwise.comparison import eq_p, lt_p, ne_p
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.ref_indexing import Slice, dslice
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, BlockRankError, UnsupportedError
from ..kernel.block_spec import BlockAxis, BlockSpec, BoundedSlice, Buffered, block_index, no_block_spec
from .basic import Cell, current_cell, in_cell, unravel, when
from .block_parts import block_part, starts_of
from .dma import AsyncCopyDescriptor, SemaphoreType, sync_copy
from .dynamic_slices import int32_of
from .inline_asm import staged
from .run_scoped import allocate, undefine_p

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef
    from ...core.support.pytree import PyTree


class _Operand:
    """One Ref of a pipeline, its spec, and the memory that holds its block."""

    def __init__(self, name: str, ref: AnyRef, spec: BlockSpec, written: Sequence[Any] | None = None):
        self.ref, self.spec = ref, spec
        array = refs.view(ref).ref.aval.array.with_shape(ref.shape)
        self.array, shape = array, array.shape
        self.where = f"emit_pipeline: operand {name} of {array.show()}"
        self.moves = spec.block_shape is not None or spec.index_map is not None
        given = tuple(shape if spec.block_shape is None else spec.block_shape)
        if len(given) != len(shape):
            raise BlockRankError(
                f"{self.where} has rank {len(shape)}, its block shape {given} has rank {len(given)}",
                "give the block shape one entry per axis of the operand")  # fmt: skip
        self.axes = list(map(BlockAxis.of, given))
        self.bounded = [isinstance(s, BoundedSlice) for s in given]
        parts = zip(self.axes, self.bounded, shape, strict=True)
        self.ragged = [axis.ragged(n) and not bounded for axis, bounded, n in parts]
        self._check_bounded()
        self.kept = kept = tuple(a.size for a in self.axes if not a.squeezed)
        self.block = ref
        held = refs.view(ref).ref
        self.ahead = (self.moves and written is not None and not any((*self.ragged, *self.bounded))
                      and held.aval.space in FAR and all(held is not refs.view(w).ref for w in written))  # fmt: skip
        if self.ahead:
            self.buffers = allocate("emit_pipeline", RefType(array.with_shape((2, *kept)), MemorySpace.VMEM))
            self.arrived = allocate("emit_pipeline", SemaphoreType.DMA((2,)))
        elif self.moves:
            self.block = allocate("emit_pipeline", RefType(array.with_shape(kept), MemorySpace.VMEM))
            if any(self.bounded) and written is not None:  # what no slice fills is unspecified, and may be read
                undefine_p.bind(self.block, zero=True)

    def _check_bounded(self) -> None:
        if any(self.bounded) and any(self.ragged):
            raise UnsupportedError(
                f"{self.where}: its block shape {self.spec.block_shape} has a BoundedSlice, and its blocks along axis "
                f"{self.ragged.index(True)} reach past the end", "give sizes that divide the other axes")  # fmt: skip

    def index(self, ids: Sequence[Any]) -> list[Any]:
        """Which block a step sees: an index, or along an axis of BoundedSlice a slice."""
        found = block_index(self.spec, ids, len(self.axes), self.where)
        return [i if isinstance(i, Slice) else int32_of(i) for i in found]

    def part(self, index: Sequence[Any]) -> tuple[Any, Any]:
        """The block as part of the Ref, and its in-bounds mask (None: all)."""
        ends = [np.int32(n) if ragged else None for ragged, n in zip(self.ragged, self.array.shape, strict=True)]
        return block_part(self.ref, self.axes, starts_of(self.axes, index), ends)

    def copy(self, number: ArrayLike, ids: Sequence[Any]) -> AsyncCopyDescriptor:
        """The copy of the block of step `number` to its buffer."""
        slot = rem_p.bind(number, np.int32(2))
        part, _ = self.part(self.index(ids))
        return AsyncCopyDescriptor(part, refs.view(self.buffers, slot), refs.view(self.arrived, slot), own=True)

    def copy_start(self, number: ArrayLike, counts: Sequence[Any]) -> Callable[[], None]:
        return lambda: self.copy(number, _ids(number, counts)).start()

    def slices(self, index: Sequence[Any]) -> tuple[Any, Any]:
        """Of a block with slices: the part of the Ref, and that of the block which holds it."""
        starts = [
            i if bounded else dslice(i if a.element or a.squeezed else mul_p.bind(i, np.int32(a.size)), a.size)
            for i, bounded, a in zip(index, self.bounded, self.axes, strict=True)
        ]
        pairs = list(zip(starts, self.axes, strict=True))
        far, near = [i.start if a.squeezed else i for i, a in pairs], [i for i, a in pairs if not a.squeezed]
        return refs.view(self.ref, tuple(far)), refs.view(self.block, tuple(dslice(0, i.size) for i in near))

    def load(self, index: Sequence[Any]) -> None:
        if any(self.bounded):
            sync_copy(*self.slices(index))
            return
        part, mask = self.part(index)
        other = None if mask is None else self.spec.fill
        refs.write(refs.view(self.block), refs.read(part, mask, other))

    def store(self, index: Sequence[Any]) -> None:
        if any(self.bounded):
            sync_copy(*reversed(self.slices(index)))
            return
        part, mask = self.part(index)
        refs.write(part, refs.read(refs.view(self.block)), mask)


def _ids(step: ArrayLike, grid: Sequence[Any]) -> list[Any]:
    """The ids of a step counted in grid order."""
    ids = unravel(step, range(len(grid)), grid)
    return [ids[axis] for axis in range(len(grid))]


def _specs(specs: Any, what: str) -> list[BlockSpec]:
    found = pytree.leaves(specs, is_leaf=lambda x: x is None or isinstance(x, BlockSpec))
    for spec in found:
        if spec is not None and not isinstance(spec, BlockSpec):
            raise ArgumentError(f"emit_pipeline: {what} hold {spec!r}", "give BlockSpec values, or None for whole Refs")
    return [spec or no_block_spec for spec in found]


@public
def emit_pipeline(
    body: Callable[..., None], *, grid: int | Sequence[Any] = (), in_specs: Sequence[Any] = (), out_specs: Any = (),
    dimension_semantics: Any = None, core_axis: Any = None, core_axis_name: Any = None, tiling: Any = None,
    trace_scopes: bool = True, no_pipelining: bool = False, num_stages: int | None = None,
) -> Callable[..., None]:  # fmt: skip
    """A function of Refs, for use in a body, that runs `body` over a grid of blocks of them.

    Call it with the input Refs, then the output Refs, one for each spec, in pytrees as the body is to see them;
    `scratches=` are Refs passed on to every step. `body(*in_blocks, *out_blocks, *scratches)` sees the blocks, and
    `program_id` the steps. Grid sizes may be traced. `num_stages` is how many blocks of each operand are in flight on a
    target that has a pipeline, as `BlockSpec(buffering=)` says of one; it and the other keywords are hints, and change
    no result.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def double(x, o):
    ...     o[...] = 2 * x[...]
    >>> def body(x, o):
    ...     spec = tl.BlockSpec((2,), lambda i: (i,))
    ...     tl.emit_pipeline(double, grid=(2,), in_specs=[spec], out_specs=[spec])(x, o)
    >>> far = tl.BlockSpec(memory_space=tl.ANY)
    >>> call = tl.kernel_call(body, tw.ShapeDtypeStruct((4,), 'float32'), in_specs=[far], out_specs=far)
    >>> call(np.float32([1, 2, 3, 4])).tolist()
    [2.0, 4.0, 6.0, 8.0]
    """
    if num_stages is not None:
        Buffered(num_stages)
    ins, outs = _specs(in_specs, "in_specs"), _specs(out_specs, "out_specs")
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)

    def pipeline(*args: Any, scratches: Sequence[Any] | None = None) -> None:
        cell = current_cell("emit_pipeline")
        given, structure = pytree.flatten(args)
        if len(given) != len(ins) + len(outs):
            raise ArgumentError(
                f"emit_pipeline: {len(given)} Refs for {len(ins)} in_specs and {len(outs)} out_specs",
                "give one Ref per spec",
            )
        written = given[len(ins) :]
        inputs = [_Operand(f"{i}", r, s, written) for i, (r, s) in enumerate(zip(given, ins, strict=False))]
        outputs = [_Operand(f"{i}", r, s) for i, (r, s) in enumerate(zip(written, outs, strict=True), len(ins))]
        _Pipeline(body, cell, sizes, inputs, outputs, structure, scratches or ()).run()

    return pipeline


class _Pipeline:
    """One call of a pipeline: the blocks that its body sees in each step."""

    def __init__(
        self, body: Callable[..., None], cell: Cell, sizes: Sequence[Any], inputs: list[_Operand],
        outputs: list[_Operand], structure: pytree.PyTreeDef, scratches: Sequence[Any],
    ):  # fmt: skip
        self.body, self.cell, self.sizes, self.scratches = body, cell, tuple(sizes), scratches
        self.inputs, self.outputs, self.structure = inputs, outputs, structure
        self.counts = [int32_of(n) for n in sizes]
        total: Any = functools.reduce(operator.mul, sizes, 1)
        self.total = total if isinstance(total, int) else int32_of(total)

    def run(self) -> None:
        self.cell.made.setdefault("ids", self.cell.ids)
        self.start_copies(np.int32(0))
        fori_loop(0, self.total, self.step, ())

    def start_copies(self, number: ArrayLike) -> None:
        """The blocks of a step are on their way, if there is such a step."""
        for operand in self.inputs:
            if operand.ahead:
                when(lt_p.bind(number, int32_of(self.total)))(operand.copy_start(number, self.counts))

    def step(self, number: Array, carried: Sequence[Any]) -> Any:
        ids = _ids(number, self.counts)
        before = _ids(max_p.bind(sub_p.bind(number, np.int32(1)), np.int32(0)), self.counts)
        self.start_copies(add_p.bind(number, np.int32(1)))
        for operand in self.inputs:
            if operand.ahead:
                operand.copy(number, ids).wait()
                operand.block = refs.view(operand.buffers, rem_p.bind(number, np.int32(2)))
            elif operand.moves:
                operand.load(operand.index(ids))
        moving = [o for o in self.outputs if o.moves]
        for operand in moving:
            _enter(operand, number, operand.index(ids), operand.index(before))
        cell, blocks = self.cell, [o.block for o in (*self.inputs, *self.outputs)]
        with in_cell(Cell(cell.kernel, tuple(ids), self.sizes, cell.trace, cell.devices, cell.made)):
            self.body(*self.structure.unflatten(blocks), *self.scratches)
        for operand in moving:
            operand.store(operand.index(ids))
        return carried


def _enter(operand: _Operand, number: Array, index: Sequence[Any], before: Sequence[Any]) -> None:
    """An output block that was not in reach in the step before is undefined."""
    new = eq_p.bind(number, np.int32(0))
    for i, j in zip(index, before, strict=True):
        new = or_p.bind(new, ne_p.bind(*(int32_of(x.start if isinstance(x, Slice) else x) for x in (i, j))))
    when(new)(lambda: undefine_p.bind(operand.block, zero=False) and None)


@public
def loop(
    lower: Any, upper: Any, *, init_carry: ArrayLike | None = None, step: Any = 1, unroll: Any = None,
    num_stages: int | None = None,
) -> Callable[[Callable[..., Any]], Any]:  # fmt: skip
    """Decorator: run a function for each index from `lower` to `upper` by `step`; a loop of the body.

    With `init_carry` the function takes and gives the carry too, and the decorated name is its last value. `num_stages`
    is the number of iterations of this loop that Triton pipelines, where the bounds are static; it changes no result.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(x, o):
    ...     o[...] = x[...]
    ...     @tl.loop(0, 3)
    ...     def _(i):
    ...         o[...] += i.astype('float32')
    >>> out = tw.ShapeDtypeStruct((2,), 'float32')
    >>> tl.kernel_call(body, out)(np.float32([1, 2])).tolist()
    [4.0, 5.0]
    """
    stride = int32_of(step)
    low, high = int32_of(lower), int32_of(upper)
    if all(isinstance(x, (int, np.integer)) for x in (lower, upper, step)):
        count: Any = max(-(-(int(upper) - int(lower)) // int(step)), 0)
    else:
        count = div_p.bind(add_p.bind(sub_p.bind(high, low), sub_p.bind(stride, np.int32(1))), stride)

    def decorate(function: Callable[..., Any]) -> Any:
        def one(i: Array, carry: PyTree) -> Any:
            at = staged(add_p.bind(low, mul_p.bind(int32_of(i), stride)), num_stages)
            if init_carry is None:
                function(at)
                return carry
            return function(at, carry)

        return fori_loop(0, count, one, () if init_carry is None else init_carry)

    return decorate
