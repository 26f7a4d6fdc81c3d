"""Far memory, asynchronous copies and semaphores.

A Ref in HBM is accessed by copies alone. A copy moves complete tiles: along the last axis it starts at a
multiple of the lanes and ends at another or at the end, along the one before it starts at a multiple of the sublanes
(or is one row of 32-bit numbers). `NotWholeTiles` says that an access is none such; the kernel is then lowered with its
operands in VMEM and plain copies. Where these are too large for that, rows of 16 bits are reached by the tiles around
them, which are copied and waited for (`window`); a write copies them back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, MemorySpace, RefType
from ...core.primitives.refs.state_primitives import Index, Point, Span, Take, access_shape, whole
from ...lang.ops.dma import (
    dma_start_p,
    dma_wait_p,
    parts_of,
    semaphore_read_p,
    semaphore_signal_p,
    semaphore_wait_p,
    split_parts,
)
from ...lang.ops.mesh_axes import Axes, device_index_p
from ...lang.ops.remote_dma import barrier_p, remote_signal_p, remote_start_p, remote_wait_p
from ...lang.ops.run_scoped import undefine_p
from ..body import Body, Rule
from ..refs import Ref
from ..text import SEMAPHORE, SSA, VMEM, Mem, bits_of
from ..values import Value, physical


class NotWholeTiles(Exception):
    """An access that no copy can make: says why."""

    def __str__(self) -> str:
        return super().__str__() or "an access to far memory is not of whole tiles"


Access = tuple[Ref, Index, Sequence[Any]]
MOST_ROWS = 64  # that are copied one by one
DMA_SEMAPHORE, REGULAR_SEMAPHORE = "!tpu.dma_semaphore", "!tpu.semaphore"


def part(b: Body, ref: Ref, index: Index, dynamic: Sequence[Any]) -> Mem:
    """The memref of part of a Ref, in the physical shape of the access."""
    given = iter(dynamic)
    rank = len(ref.shape)
    lead = rank - len(index)
    starts: list[Any] = [*(ref.at or [0] * ref.lead), *[0] * lead]
    sizes = [1] * (ref.lead + lead)
    for axis, entry in enumerate(index):
        if type(entry) is Take or entry.stride != 1:
            raise NotWholeTiles
        start = next(given) if entry.start is None else entry.start
        size = entry.size
        if type(entry) is not Span and lead + axis >= rank - 2:
            raise NotWholeTiles
        starts.append(_tile_aligned(b, ref, lead + axis, start, size))
        sizes.append(size)
    shape = physical(access_shape(index))
    if ref.in_smem:
        raise NotWholeTiles
    sliced = ref.mem
    if tuple(sizes) != ref.mem.shape:
        places = [b.int_constant(s) if isinstance(s, int) else s for s in starts]
        sliced = _slice(b, sliced, places, tuple(sizes))
    return sliced if sliced.shape == shape else _squeeze(b, sliced, shape)


def _tile_aligned(b: Body, ref: Ref, axis: int, start: Any, size: int) -> Any:
    """A start that copies take; as an i32 where it is computed."""
    rank, limit = len(ref.shape), ref.shape[axis]
    known: Any = start if isinstance(start, int) else start.known
    word: Any = b.scalar(start) if isinstance(start, Value) and known is None else int(known)
    if axis < rank - 2 or (size == limit and known is not None):
        return word
    bits = bits_of(ref.mem.element)
    tile = b.target.lanes if axis == rank - 1 else b.target.sublanes * 32 // bits
    aligned = (int(known) if known is not None else start.multiple) % tile == 0
    if axis == rank - 1:
        if not aligned or (size % tile and (known is None or int(known) + size != limit)):
            raise NotWholeTiles(f"an access to {ref.type.array.show()} is not of whole tiles of {tile} lanes")
    elif not aligned:
        if size != 1 or bits != 32:
            shown = ref.type.array.show()
            raise NotWholeTiles(f"an access to {shown} is not known to start at a multiple of {tile} rows")
        return word
    if isinstance(word, int):
        return word
    return b.w.op("tpu.assume_multiple", [word], None, "i32", f"multiple = {tile} : i32")


def _slice(b: Body, mem: Mem, starts: Sequence[SSA], sizes: tuple[int, ...]) -> Mem:
    out = Mem(b.w.fresh(), sizes, mem.element, mem.space)
    operands = ", ".join([mem.name, *(s.name for s in starts)])
    types = ", ".join([mem.type, *("i32" for _ in starts)])
    segments = f"operandSegmentSizes = array<i32: 1, {len(starts)}, 0>"
    b.w.lines.append(f'{out.name} = "tpu.memref_slice"({operands}) <{{{segments}}}> : ({types}) -> {out.type}')
    return out


def _squeeze(b: Body, mem: Mem, shape: tuple[int, ...]) -> Mem:
    out = Mem(b.w.fresh(), shape, mem.element, mem.space)
    b.w.lines.append(f'{out.name} = "tpu.memref_squeeze"({mem.name}) : ({mem.type}) -> {out.type}')
    return out


# ---------------------------------------------------------------------------- copies


def semaphore(b: Body, ref: Ref, index: Index, dynamic: Sequence[Any]) -> Mem:
    """One semaphore of an array of them."""
    if not index:
        return ref.mem
    given = iter(dynamic)
    starts = []
    for entry in index:
        start = next(given) if entry.start is None else entry.start
        starts.append(b.int_constant(start) if isinstance(start, int) else b.scalar(start))
    ones = (1,) * len(starts)
    return _squeeze(b, _slice(b, ref.mem, starts, ones), ())


def ends(b: Body, source: Access, target: Access) -> list[tuple[Mem, Mem]]:
    """What is copied from and to: as a whole, or row by row where rows of 32 bits start anywhere."""
    try:
        return [(part(b, *source), part(b, *target))]
    except NotWholeTiles:
        rows = _rows(*source)
        if rows is None or rows != _rows(*target):
            raise
    return [(part(b, *_row(b, *source, r)), part(b, *_row(b, *target, r))) for r in range(rows)]


def _rows(ref: Ref, index: Index, dynamic: Sequence[Any]) -> int | None:
    """How many rows an access has that may be copied one by one; None where they may not."""
    if len(index) < 2 or bits_of(ref.mem.element) != 32 or type(index[-2]) is not Span or type(index[-1]) is not Span:
        return None
    return index[-2].size if index[-2].stride == 1 and index[-2].size <= MOST_ROWS else None


def _row(b: Body, ref: Ref, index: Index, dynamic: Sequence[Any], row: int) -> Access:
    """One row of an access."""
    axis, start = len(index) - 2, index[-2].start
    at, span = list(dynamic), Span(None if start is None else start + row, 1)
    if start is None:
        place = index.dynamic.index(axis)
        known = at[place].known
        at[place] = Value(at[place].type, known=None if known is None else known + row, scalar=None if known is not None
                          else b.scalar_op("arith.addi", b.scalar(at[place]), b.int_constant(row)))  # fmt: skip
    return ref, Index((*index[:axis], span, index[-1])), at


def _copied(b: Body, source: Access, target: Access, done: Mem) -> None:
    """Copy, and wait until it is done."""
    found = ends(b, source, target)
    for act in (start_copy, wait_copy):
        for one, other in found:
            act(b, one, other, done)


def start_copy(b: Body, source: Mem, target: Mem, done: Mem) -> None:
    segments = "operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false"
    b.w.ops("tpu.enqueue_dma", [source, target, done], [], segments)


def wait_copy(b: Body, source: Mem, target: Mem, done: Mem) -> None:
    segments = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, strict_ordering = false"
    b.w.ops("tpu.wait_dma2", [done, source, target], [], segments)


def _copy(act: Any) -> Rule:
    def rule(b: Body, xs: list[Any], outs: Sequence[Any], *, src: Index, dst: Index, sem: Index,
             add: bool, own: bool) -> list[Any]:  # fmt: skip
        (source, source_at), (target, target_at), (done, done_at) = parts_of(xs, src, dst, sem)
        if add or done.mem.element != DMA_SEMAPHORE:
            raise NotWholeTiles
        for one, other in ends(b, (source, src, source_at), (target, dst, target_at)):
            act(b, one, other, semaphore(b, done, sem, done_at))
        return []

    return rule


def rows_around(size: int, tile: int) -> int:
    """How many rows the whole tiles around some rows have, wherever these start."""
    return (-(-(size - 1) // tile) + 1) * tile


def tiles_around(b: Body, start: Value, tile: int, most: int) -> tuple[Value, Value]:
    """Where the whole tiles around a row start, at `most`, and the row's place in them."""
    scalar, word, step = ArrayType((), start.dtype), b.scalar(start), b.int_constant(tile)
    first = b.scalar_op("arith.muli", b.scalar_op("arith.divsi", word, step), step)
    first = b.scalar_op("arith.minsi", first, b.int_constant(most))
    within = Value(scalar, scalar=b.scalar_op("arith.subi", word, first))
    return Value(scalar, scalar=first, multiple=tile), within


def window(b: Body, ref: Ref, index: Index, dynamic: Sequence[Value]) -> tuple[Access, Index, list[Value]] | None:
    """The complete tiles around some rows of 8 or 16 bits in HBM, and the rows' offsets in them; None where there
    are none: a Ref of one axis, strided rows, or an end within a tile."""
    axis, limit = len(index) - 2, ref.shape[-2] if len(ref.shape) > 1 else 0
    tile = b.target.sublanes * 32 // bits_of(ref.mem.element)
    entry = index[axis] if len(index) == len(ref.shape) - ref.lead and axis >= 0 else None
    if not b.windows or entry is None or bits_of(ref.mem.element) not in (8, 16) or limit % tile:
        return None
    if type(entry) is Take or entry.stride != 1:
        return None
    size = entry.size
    rows = min(rows_around(size, tile), limit)
    place = sum(n < axis for n in index.dynamic)
    start = b.integer(entry.start) if entry.start is not None else dynamic[place]
    first, within = tiles_around(b, start, tile, limit - rows)
    before, after = dynamic[:place], dynamic[place + (entry.start is None) :]
    around = Index((*index[:axis], Span(None, rows), index[-1]))
    shape = access_shape(around)
    inside = Index((*(Span(0, n) for n in shape[:-2]), Span(None, size) if type(entry) is Span else Point(None),
                    Span(0, shape[-1])))  # fmt: skip
    return (ref, around, [*before, first, *after]), inside, [within]


def read_hbm(b: Body, ref: Ref, index: Index, dynamic: Sequence[Value], out: ArrayType) -> Ref:
    """A copy of part of a Ref in HBM, in newly allocated VMEM."""
    held, done = near(b, ref, out)
    _copied(b, (ref, index, dynamic), (held, whole(out.shape), ()), done)
    return held


def write_hbm(b: Body, ref: Ref, index: Index, dynamic: Sequence[Value], held: Ref, done: Mem) -> None:
    """Write a block of VMEM to part of a Ref in HBM."""
    _copied(b, (held, whole(held.type.shape), ()), (ref, index, dynamic), done)


def near(b: Body, ref: Ref, type: ArrayType) -> tuple[Ref, Mem]:
    """VMEM for what is copied, and the semaphore of the copy."""
    mem = b.scratch(physical(type.shape), ref.mem.element, VMEM)
    return Ref(RefType(type, MemorySpace.VMEM), mem), b.scratch((), DMA_SEMAPHORE, SEMAPHORE)


# ---------------------------------------------------------------------------- semaphores


def _signal(b: Body, xs: list[Any], outs: Sequence[Any], *, index: Index) -> list[Any]:
    ref, value, *dynamic = xs
    b.w.ops("tpu.sem_signal", [semaphore(b, ref, index, dynamic), b.scalar(value)], [],
            "operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>")  # fmt: skip
    return []


def _wait(b: Body, xs: list[Any], outs: Sequence[Any], *, index: Index, decrement: bool) -> list[Any]:
    ref, value, *dynamic = xs
    at = semaphore(b, ref, index, dynamic)
    b.w.ops("tpu.sem_wait", [at, b.scalar(value)], [])
    if not decrement:
        b.w.ops("tpu.sem_signal", [at, b.scalar(value)], [], "operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>")
    return []


def _read(b: Body, xs: list[Any], out: ArrayType, *, index: Index) -> Value:
    ref, *dynamic = xs
    word = b.w.op("tpu.sem_read", [semaphore(b, ref, index, dynamic)], None, "i32")
    return Value(ArrayType((), out.dtype), scalar=word)


# ---------------------------------------------------------------------------- other devices


def _device_index(b: Body, xs: list[Any], out: ArrayType, *, axis: Any, mesh: Axes, axes: Any) -> Value:
    """The place along an axis, from the device's number in row-major order."""
    names = [name for name, _ in mesh]
    at = names.index(axis)
    inner = math.prod(n for _, n in mesh[at + 1 :])
    number = b.w.op("tpu.device_id", [], None, "i32")
    number = b.scalar_op("arith.divsi", number, b.int_constant(inner)) if inner > 1 else number
    number = b.scalar_op("arith.remsi", number, b.int_constant(mesh[at][1])) if at else number
    return Value(ArrayType((), out.dtype), scalar=number)


def _remote_start(b: Body, xs: list[Any], outs: Sequence[Any], *, src: Index, dst: Index, send: Index, recv: Index,
                  mesh: Axes, axes: Any) -> list[Any]:  # fmt: skip
    (source, source_at), (target, target_at), (sent, sent_at), (received, received_at) = split_parts(
        xs, src, dst, send, recv)  # fmt: skip
    operands = [part(b, source, src, source_at), semaphore(b, sent, send, sent_at), part(b, target, dst, target_at),
                semaphore(b, received, recv, received_at), b.scalar(xs[-1])]  # fmt: skip
    segments = "operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false"
    b.w.ops("tpu.enqueue_dma", operands, [], segments)
    return []


def _remote_wait(b: Body, xs: list[Any], outs: Sequence[Any], *, src: Index, dst: Index, sem: Index, sent: bool,
                 mesh: Axes, axes: Any) -> list[Any]:  # fmt: skip
    (source, source_at), (target, target_at), (done, done_at) = split_parts(xs, src, dst, sem)
    ends = [part(b, source, src, source_at), part(b, target, dst, target_at)]
    ends = ends[::-1] if sent else ends  # what is waited for stands second
    segments = "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, strict_ordering = false"
    b.w.ops("tpu.wait_dma2", [semaphore(b, done, sem, done_at), *ends, b.scalar(xs[-1])], [], segments)
    return []


def _remote_signal(b: Body, xs: list[Any], outs: Sequence[Any], *, index: Index, mesh: Axes, axes: Any) -> list[Any]:
    ref, value, *dynamic, device = xs
    b.w.ops("tpu.sem_signal", [semaphore(b, ref, index, dynamic), b.scalar(value), b.scalar(device)], [],
            "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>")  # fmt: skip
    return []


def _barrier(b: Body, xs: list[Any], outs: Sequence[Any], *, mesh: Axes, axes: Any) -> list[Any]:
    return []  # the semaphore is made at the top of the function


def _undefine(b: Body, xs: list[Any], outs: Sequence[Any], *, zero: bool) -> list[Any]:
    return []  # what memory holds is undefined as it is; semaphores are left at zero


RULES: dict[Primitive, Rule] = {
    dma_start_p: _copy(start_copy), dma_wait_p: _copy(wait_copy), semaphore_signal_p: _signal,
    semaphore_wait_p: _wait, semaphore_read_p: _read, undefine_p: _undefine, device_index_p: _device_index,
    remote_start_p: _remote_start, remote_wait_p: _remote_wait, remote_signal_p: _remote_signal, barrier_p: _barrier,
}  # fmt: skip
