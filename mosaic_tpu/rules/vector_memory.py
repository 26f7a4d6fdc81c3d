"""Accesses of Refs: `get`, `swap` and `addupdate`.

Memory is accessed directly for any part at static indices, and for one row or an aligned part at computed
indices. Other rows at a computed index are read (and written) as the complete tiles around them, rotated; any other
part as the whole of its axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_bool
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p
from ...core.primitives.elementwise.comparison import select_n_p
from ...core.primitives.refs.state_primitives import (
    Index,
    access_shape,
    addupdate_p,
    get_p,
    split_operands,
    swap_p,
    whole,
)
from ...core.support.errors import ResourceError
from .. import vector_layout as moves
from ..body import Body, Rule
from ..refs import Past, Ref
from ..text import SEMAPHORE, SSA, Mem, bits_of
from ..values import Value, physical
from . import dma, scalar_memory
from .elementwise import RULES as ELEMENTWISE
from .shape import both, within

LANES, SUBLANES = 128, 8


@dataclass
class Part:
    """An access along one axis: `size` indices from `start` with `stride`; `direct`: memory is accessed at these,
    else at `limit` indices from `base`."""

    start: Any  # int or a scalar Value, counted from `base`
    size: int
    stride: int
    limit: int  # size of the axis, or of what is read of it
    direct: bool
    aligned: int = 1  # a multiple of the start, or of `base`, to be asserted for the access
    base: Any = 0

    @property
    def reach(self) -> int:
        return (self.size - 1) * self.stride + 1 if self.size else 0


def _parts(b: Body, ref: Ref, index: Index, dynamic: Sequence[Value], masked: bool) -> list[Part]:
    given = iter(dynamic)
    lead = len(ref.shape) - len(index)
    parts = [Part(0, 1, 1, 1, True) for _ in range(lead)]
    for axis, entry in enumerate(index):
        start = next(given) if entry.start is None else entry.start
        if isinstance(start, Value) and start.known is not None:
            start = int(start.known)
        size, stride = entry.size, entry.stride
        clipped = False
        if masked and size == 1 and isinstance(start, Value):  # a place outside is masked: any place does
            start, clipped = _clipped(b, start, ref.shape[lead + axis]), True
        anywhere = masked and not clipped
        part = _placed(ref, lead + axis, start, size, stride, anywhere)
        rows = isinstance(start, Value) and not part.direct and stride == 1 and lead + axis == len(ref.shape) - 2
        parts.append(_around(b, ref, part) if rows and not anywhere and ref.past is None else part)
    return parts


def _around(b: Body, ref: Ref, part: Part) -> Part:
    """Rows as part of the whole tiles around them; as they are where the axis ends within a tile, or has no more."""
    tile = SUBLANES * 32 // bits_of(ref.mem.element)
    rows = dma.rows_around(part.size, tile)
    if part.limit % tile or rows >= part.limit:
        return part
    base, within = dma.tiles_around(b, part.start, tile, part.limit - rows)
    return Part(within, part.size, 1, rows, False, tile, base)


def _clipped(b: Body, start: Value, limit: int) -> Value:
    """A position within an axis."""
    least, most = (b.known(n, ArrayType((), start.dtype)) for n in (0, limit - 1))
    high = ELEMENTWISE[min_p](b, [start, most], ArrayType((), start.dtype))
    return ELEMENTWISE[max_p](b, [high, least], ArrayType((), start.dtype))


def _placed(ref: Ref, axis: int, start: Any, size: int, stride: int, masked: bool) -> Part:
    limit, rank = ref.shape[axis], len(ref.shape)
    part = Part(start, size, stride, limit, True)
    if isinstance(start, int):
        part.direct = 0 <= start and start + part.reach <= limit
        return part
    bits = bits_of(ref.mem.element)
    tile = (LANES, SUBLANES * 32 // bits) if axis >= rank - 2 else None
    if size == limit == 1 and not masked:
        part.start = 0
    elif masked or (stride != 1 and axis >= rank - 2):
        part.direct = False
    elif tile is not None:
        needed = tile[0] if axis == rank - 1 else tile[1]
        if start.multiple % needed == 0:
            part.aligned = needed
        else:
            part.direct = axis == rank - 2 and size == 1 and bits == 32
    return part


def _place(b: Body, ref: Ref, parts: Sequence[Part]) -> tuple[list[SSA], tuple[int, ...]]:
    """Indices into the memref, and the shape asked for."""
    indices = [b.w.index(0) for _ in range(ref.lead)]
    shape = [1] * ref.lead
    for part in parts:
        at = b.as_index(part.start if part.direct else part.base)
        if part.aligned > 1:
            at = b.w.op("tpu.assume_multiple", [at], None, "index", f"multiple = {part.aligned} : i32")
        indices.append(at)
        shape.append(part.reach if part.direct else part.limit)
    if not all(part.direct for part in parts) and math.prod(shape) * 4 > 2 * b.target.default_bytes:
        raise ResourceError(
            f"kernel {b.name}: a computed place in {ref.type.array.show()} is reached by a value of {tuple(shape)}, "
            f"in 32-bit words more than {b.target.name} compiles",
            f"have a multiple of {SUBLANES * 32 // bits_of(ref.mem.element)} rows, of which whole ones are picked, or "
            "keep what is picked on an axis before the last two", b.source)  # fmt: skip
    return indices, tuple(shape)


def load(b: Body, mem: Mem, indices: Sequence[SSA], shape: tuple[int, ...]) -> SSA:
    return b.w.op("vector.load", [mem, *indices], shape, mem.element)


def store(b: Body, mem: Mem, indices: Sequence[SSA], value: SSA) -> None:
    attributes = f"operandSegmentSizes = array<i32: 1, 1, {len(indices)}, 0>, strides = array<i32>, add = false"
    b.w.ops("tpu.vector_store", [value, mem, *indices], [], attributes)


def _rotation(b: Body, part: Part, n: int, back: bool) -> SSA:
    """How far to rotate an axis of n so that the start comes first (`back`), or the first to the start."""
    start = b.integer(part.start) if isinstance(part.start, int) else part.start
    at = b.scalar(start)
    return b.modulo(b.scalar_op("arith.subi", b.int_constant(n), at) if back else at, n)


def _loaded(b: Body, ref: Ref, parts: Sequence[Part]) -> SSA:
    """What memory gives of an access, in 32 bits, without the leading axes of the memref."""
    indices, shape = _place(b, ref, parts)
    v = load(b, ref.mem, indices, shape)
    if ref.lead:
        v = b.w.op("vector.shape_cast", [v], shape[ref.lead :], v.element)
    return b.widen(v, ref.type.dtype)


def _unwidened(b: Body, ref: Ref, parts: Sequence[Part], out: ArrayType) -> Value | None:
    """An access that memory gives as it is, kept as stored."""
    if not all(p.direct and p.stride == 1 for p in parts) or physical(out.shape) != tuple(p.size for p in parts):
        return None
    indices, shape = _place(b, ref, parts)
    v = load(b, ref.mem, indices, shape)
    if ref.lead:
        v = b.w.op("vector.shape_cast", [v], shape[ref.lead :], v.element)
    if v.element in ("f32", "i32") or is_bool(out.dtype):
        return Value(out, vector=b.widen(v, out.dtype))
    return Value(out, narrow=v)


def _selected(b: Body, v: SSA, parts: Sequence[Part]) -> SSA:
    """The elements of an access, selected from the loaded vector."""
    for axis, part in enumerate(parts):
        if not part.direct:
            n = max(part.limit, part.reach)
            v = moves.pad_axis(b.w, v, axis, 0, n - part.limit)
            v = moves.rotate(b.w, v, _rotation(b, part, n, True), axis)
            v = moves.cut_axis(b.w, v, axis, 0, part.reach)
        v = moves.strided(b.w, v, axis, part.stride)
    return v


def _read(b: Body, ref: Ref, index: Index, dynamic: Sequence[Value], masked: bool, out: ArrayType) -> Value:
    parts = _parts(b, ref, index, dynamic, masked)
    found = _unwidened(b, ref, parts, out)
    if found is None:
        v = _selected(b, _loaded(b, ref, parts), parts)
        found = b.value(out, moves.reshape(b.w, v, physical(out.shape)), rounded=False)
    return found if ref.past is None else _filled(b, ref.past, found, parts, out)


def _filled(b: Body, past: Past, found: Value, parts: Sequence[Part], out: ArrayType) -> Value:
    """The loaded block with its fill in the ragged tail: a select in the last cells only."""
    held = b.narrow(found)
    sizes = tuple(p.size for p in parts)

    def chosen(_: Any) -> list[SSA]:
        inside = None
        for axis, limit in past.limits:
            part = parts[axis]
            place = moves.iota(b.w, sizes, axis)
            step = b.w.op("arith.muli", [place, b.w.constant(part.stride, "i32", sizes)], sizes, "i32")
            start = b.int_constant(part.start) if isinstance(part.start, int) else b.scalar(part.start)
            room = b.scalar_op("arith.subi", limit, start)
            bound = b.w.op("vector.broadcast", [room], sizes, "i32")
            inside = both(b, inside, b.w.op("arith.cmpi", [step, bound], sizes, "i1", "predicate = 2 : i64"))
        assert inside is not None
        mask = moves.reshape(b.w, inside, physical(out.shape))
        kept = b.select(mask, b.widen(held, out.dtype), b.vector(b.known(past.fill, out)))
        return [b.narrowed(kept, out.dtype)]

    regions = f"{b.w.region([], chosen)}, {b.w.region([], lambda _: [held])}"
    (made,) = b.w.ops("scf.if", [past.reaches], [(held.shape, held.element)], regions=regions)
    if is_bool(out.dtype):
        return Value(out, vector=b.widen(made, out.dtype))
    return b.value(out, made, rounded=False)


def read(b: Body, ref: Ref, index: Index, dynamic: Sequence[Value], mask: Value | None, other: Value | None,
         out: ArrayType) -> Value:  # fmt: skip
    """Part of a Ref; where a mask is false, `other` (zero without one)."""
    out = ArrayType(out.shape, out.dtype)
    if not out.size:
        return b.known(0, out)
    if ref.is_far:
        if mask is not None:
            raise dma.NotWholeTiles
        around = dma.window(b, ref, index, dynamic)
        if around is None:
            return _read(b, dma.read_hbm(b, ref, index, dynamic, out), whole(out.shape), [], False, out)
        (_, tiles, places), inside, at = around
        held = dma.read_hbm(b, ref, tiles, places, ArrayType(access_shape(tiles), out.dtype))
        return _read(b, held, inside, at, False, out)
    if ref.in_smem:
        found = scalar_memory.read(b, ref, index, dynamic, mask is not None, out)
    else:
        found = _read(b, ref, index, dynamic, mask is not None, out)
    if mask is None:
        return found
    other = b.known(0, out) if other is None else b.spread(other, out.shape)
    return ELEMENTWISE[select_n_p](b, [mask, other, found], out)


def _get(b: Body, xs: list[Any], out: ArrayType, index: Index, masked: bool = False) -> Value:
    dynamic, mask, other = split_operands(index, xs[1:], masked)
    return read(b, xs[0], index, dynamic, mask, other, out)


# ---------------------------------------------------------------------------- writes


def write(b: Body, ref: Ref, value: Value, index: Index, dynamic: Sequence[Value], mask: Value | None) -> None:
    """Store part of a Ref, where a mask is true."""
    if not value.type.size:
        return
    if ref.is_far:
        if mask is not None:
            raise dma.NotWholeTiles
        around = dma.window(b, ref, index, dynamic)
        if around is None:
            held, done = dma.near(b, ref, ArrayType(value.shape, value.dtype))
            write(b, held, value, whole(value.shape), [], None)
            dma.write_hbm(b, ref, index, dynamic, held, done)
            return
        (_, tiles, places), inside, at = around
        held = dma.read_hbm(b, ref, tiles, places, ArrayType(access_shape(tiles), value.dtype))
        write(b, held, value, inside, at, None)
        dma.write_hbm(b, ref, tiles, places, held, b.scratch((), dma.DMA_SEMAPHORE, SEMAPHORE))
        return
    if ref.in_smem:
        scalar_memory.write(b, ref, value, index, dynamic, mask)
        return
    parts = _parts(b, ref, index, dynamic, mask is not None)
    indices, shape = _place(b, ref, parts)
    sizes = tuple(p.size for p in parts)
    if mask is None and all(p.direct and p.stride == 1 for p in parts):
        narrow = b.narrow(value) if sizes == physical(value.shape) else \
            b.narrowed(moves.reshape(b.w, b.vector(value), sizes), value.dtype)  # fmt: skip
    else:
        new, there = _spread_parts(b, moves.reshape(b.w, b.vector(value), sizes), mask, parts, sizes)
        old = _loaded(b, ref, parts)
        narrow = b.narrowed(b.select(there, new, old) if there is not None else new, value.dtype)
    if ref.lead:
        narrow = b.w.op("vector.shape_cast", [narrow], shape, narrow.element)
    store(b, ref.mem, indices, narrow)


def _spread_parts(b: Body, v: SSA, mask: Value | None, parts: Sequence[Part],
                  sizes: tuple[int, ...]) -> tuple[SSA, SSA | None]:  # fmt: skip
    """A value in the layout of the memory around its indices, and the mask of the elements that it writes."""
    asked = None if mask is None else moves.as_words(b.w, moves.reshape(b.w, b.vector(mask), sizes))
    for axis, part in enumerate(parts):
        if part.stride > 1 and part.size > 1:
            v = moves.cut_axis(b.w, moves.spread_out(b.w, v, axis, part.stride, 0), axis, 0, part.reach)
            if asked is not None:
                asked = moves.spread_out(b.w, asked, axis, part.stride, 0)
                asked = moves.cut_axis(b.w, asked, axis, 0, part.reach)
        if not part.direct:
            n = max(part.limit, part.reach)
            v = _rotated_into(b, v, part, axis, n)
            asked = None if asked is None else _rotated_into(b, asked, part, axis, n)
    there = None if asked is None else moves.as_mask(b.w, asked, "i1")
    assert v.shape is not None
    for axis, part in enumerate(parts):
        if part.direct and (part.stride == 1 or part.size <= 1):
            continue
        place = moves.iota(b.w, v.shape, axis)
        if not part.direct:
            start = b.integer(part.start) if isinstance(part.start, int) else part.start
            begin = b.w.op("vector.broadcast", [b.scalar(start)], v.shape, "i32")
            place = b.w.op("arith.subi", [place, begin], v.shape, "i32")
            there = both(b, there, within(b, place, part.reach))
        if part.stride > 1 and part.size > 1:
            rest = b.w.op("arith.remsi", [place, b.w.constant(part.stride, "i32", v.shape)], v.shape, "i32")
            zero = b.w.constant(0, "i32", v.shape)
            there = both(b, there, b.w.op("arith.cmpi", [rest, zero], v.shape, "i1", "predicate = 0 : i64"))
    return v, there


def _rotated_into(b: Body, v: SSA, part: Part, axis: int, n: int) -> SSA:
    v = moves.pad_axis(b.w, v, axis, 0, n - part.reach)
    return moves.cut_axis(b.w, moves.rotate(b.w, v, _rotation(b, part, n, False), axis), axis, 0, part.limit)


def _swap(b: Body, xs: list[Any], out: ArrayType, index: Index, masked: bool = False) -> Value:
    ref, value = xs[:2]
    dynamic, mask, _ = split_operands(index, xs[2:], masked)
    old = read(b, ref, index, dynamic, mask, value, out) if b.wanted[0] else b.known(0, out)
    write(b, ref, value, index, dynamic, mask)
    return old


def _addupdate(b: Body, xs: list[Any], outs: Sequence[Any], index: Index, masked: bool = False) -> list[Value]:
    ref, value = xs[:2]
    dynamic, mask, _ = split_operands(index, xs[2:], masked)
    if not value.type.size:
        return []
    old = read(b, ref, index, dynamic, mask, None, value.type)
    write(b, ref, ELEMENTWISE[add_p](b, [old, value], ArrayType(value.shape, value.dtype)), index, dynamic, mask)
    return []


RULES: dict[Primitive, Rule] = {get_p: _get, swap_p: _swap, addupdate_p: _addupdate}
