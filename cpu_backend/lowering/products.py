"""Products of matrices: tiles of rows and vectors of columns in registers, summed over the contracted axis.

    C[m, n] = sum over k of A[m, k] B[k, n]        within loops over batch axes

Columns are lanes. Panels of B whose columns are not neighbours, or that are of another dtype than the sums, or far
apart, are packed first, a panel at a time; elements of A are repeated in all lanes. Where the contracted axis is long,
a panel has a block of it, and the sums are stored between blocks.

Products of integers summed in int32 add several to a lane by one instruction: a row of the panel holds as many rows of
B, and as many elements of A are repeated in all lanes. They are four of bytes with VNNI, or two of 16 bits, for which
LLVM selects `vpdpwssd` or `vpmaddwd`. One of two bytes is signed and one unsigned: where A has the signs of B, 128 is
added to A or subtracted, and 128 times the sums over B are what the sums start from.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.refs.state_primitives import Span, Take
from ..llvm.builder import Builder, Int, Value, vector
from .access import At
from .elementwise import RULES, bitcast, convert, from_stored, rounded, to_stored
from .emit import F32, Allocate, Emitter
from .expression_graph import HELD, STORED, Dot, Keep, Load, Map, Memory, Node, Product, View, row_major

PANEL_BYTES = 4096  # rows of B this far apart are packed: each is on a page of its own
UNROLL = 4
BLOCK = 256  # rows of B in a panel where there are many, so that it stays in the first cache
PARTIAL = 2**20  # the most bytes of sums over the blocks before
BYTES = (np.dtype("int8"), np.dtype("uint8"))
PAIRS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}  # by the number of sums
TOP_BITS = -0x7F7F7F80  # of four bytes


def grouped(features: Collection[str], bits: int, sums: np.dtype, left: np.dtype, right: np.dtype) -> int:
    """How many products of two dtypes an instruction adds to a lane of the sums."""
    if "avx2" not in features or sums != np.int32 or not {left, right} <= {*BYTES, np.dtype("int16")}:
        return 1
    vnni = ("avx512vnni" if bits == 512 else "avxvnni") in features
    return 4 if vnni and left in BYTES and right in BYTES else 2


def added(b: Builder, group: int, old: Value, x: Value, y: Value) -> Value:
    """A vector of sums of integers with products added, in groups; of four, `x` is unsigned and `y` signed."""
    if group == 1:
        return old + x * y
    if group == 4:
        return b.call(f"llvm.x86.avx512.vpdpbusd.{32 * old.lanes}", old.type, old, x, y)
    halves = vector("i16", 2 * old.lanes)
    x, y = (b.value(halves, f"bitcast {z.type} {z.text} to {halves}") for z in (x, y))
    return old + b.call(f"llvm.x86.{PAIRS[old.lanes]}", old.type, x, y)


def _flipped(b: Builder, x: Value, **params: Any) -> Value:
    """Bytes with 128 added or subtracted, of the other signedness."""
    return bitcast(b, b.binary("xor", x, -128), **params)


@dataclass(frozen=True)
class Strided:
    """A node's elements in memory: `strides` apart along each of its axes."""

    base: Value
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


def strided(e: Emitter, node: Node, allocate: Allocate, wanted: np.dtype | None = None) -> Strided:
    """Where a node's elements are; those that are nowhere, or should be of another dtype, are put into memory."""
    found = _found(e, node)
    if found is None or wanted is not None and found.dtype != wanted:
        memory = allocate(wanted or node.dtype, node.shape)
        held, scalar = HELD[str(node.dtype)], HELD[str(memory.dtype)]
        source: Node = node
        if held != scalar:
            source = Map(node.shape, memory.dtype, (node,), rule=RULES[convert_element_type_p])
        e.run([Keep(source, memory)], allocate)
        found = Strided(memory.base, node.shape, memory.strides, memory.dtype)
    return found


def _found(e: Emitter, node: Node) -> Strided | None:
    if node.memory is not None:
        return (
            None
            if node.memory.ragged
            else Strided(node.memory.base, node.shape, node.memory.strides, node.memory.dtype)
        )
    if isinstance(node, View) and not node.starts:
        inner = _found(e, node.operands[0])
        if inner is None:
            return None
        offset, strides = 0, [0] * len(node.shape)
        for (along, start, step), stride in zip(node.places, inner.strides, strict=True):
            offset += start * stride
            if along is not None:
                strides[along] += step * stride
        return Strided(_moved(e, inner.base, offset, inner.dtype), node.shape, tuple(strides), inner.dtype)
    if not isinstance(node, Load) or node.masked or node.source.ragged or node.index.takes:
        return None
    offset_: Int = 0
    strides, given = [], iter(node.positions)
    for d, (entry, stride) in enumerate(zip(node.index, node.source.strides, strict=True)):
        assert not isinstance(entry, Take)
        reach = (entry.size - 1) * entry.stride if isinstance(entry, Span) else 0
        start: Int = entry.start if entry.start is not None else e.start(next(given), node.source.shape[d] - 1 - reach)
        offset_ = e.add(offset_, e.mul(start, stride))
        if isinstance(entry, Span):
            strides.append(entry.stride * stride)
    return Strided(
        _moved(e, node.source.base, offset_, node.source.dtype), node.shape, tuple(strides), node.source.dtype
    )


def _moved(e: Emitter, base: Value, offset: Int, dtype: np.dtype) -> Value:
    return e.b.offset(base, offset, STORED[str(dtype)])


def _one(x: Strided, axes: Sequence[int]) -> tuple[int, int] | None:
    """Some axes as one: its size and stride; None if they are not one after the other in memory."""
    size, stride = 1, None
    for a in reversed([a for a in axes if x.shape[a] != 1]):
        if stride is not None and x.strides[a] != stride * size:
            return None
        stride = x.strides[a] if stride is None else stride
        size *= x.shape[a]
    return size, 0 if stride is None else stride


@dataclass(frozen=True)
class Matrix:
    """Batch axes one by one, then two axes of a matrix."""

    base: Value
    batch: tuple[int, ...]
    rows: tuple[int, int]
    columns: tuple[int, int]
    dtype: np.dtype


def _matrix(
    e: Emitter, node: Node, allocate: Allocate, axes: tuple[tuple[int, ...], ...], wanted: np.dtype | None
) -> Matrix:  # fmt: skip
    """A node as a matrix of its axes (batch, rows, columns)."""
    batch, rows, columns = axes
    found = strided(e, node, allocate, wanted)
    one, other = _one(found, rows), _one(found, columns)
    if one is None or other is None:
        order = (*batch, *rows, *columns)
        places = tuple((order.index(d), 0, 1) for d in range(len(order)))
        turned = View(tuple(node.shape[a] for a in order), node.dtype, (node,), places=places)
        memory = allocate(found.dtype, turned.shape)
        source: Node = turned
        if found.dtype != node.dtype and HELD[str(found.dtype)] != HELD[str(node.dtype)]:
            return _matrix(e, _view_of(found, turned, order), allocate, _ranges(batch, rows, columns), None)
        e.run([Keep(source, memory)], allocate)
        found = Strided(memory.base, turned.shape, memory.strides, memory.dtype)
        batch, rows, columns = _ranges(batch, rows, columns)
        one, other = _one(found, rows), _one(found, columns)
    assert one is not None and other is not None
    return Matrix(found.base, tuple(found.strides[a] for a in batch), one, other, found.dtype)


def _ranges(*groups: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    found, start = [], 0
    for group in groups:
        found.append(tuple(range(start, start + len(group))))
        start += len(group)
    return tuple(found)


def _view_of(found: Strided, turned: View, order: Sequence[int]) -> Node:
    """A node whose elements are in memory already, its axes in another order."""
    memory = Memory(
        "workspace", found.dtype, turned.shape, tuple(found.strides[a] for a in order), found.base, fixed=True
    )
    node = Node(turned.shape, found.dtype)
    node.memory = memory
    return node


class Multiplier:
    """The code of products for a machine with vectors of some bits."""

    def __init__(self, bits: int):
        self.bits = bits
        self.rows = 6 if bits == 256 else 8
        self.vectors = 2

    def __call__(self, e: Emitter, root: Product, allocate: Allocate) -> None:
        node = root.value
        assert isinstance(node, Dot)
        if not node.size:
            return
        left, right = node.operands
        (lc, rc), (lb, rb) = node.contracted, node.batch
        sums = F32 if HELD[str(node.dtype)] == "float" else node.dtype
        lf = tuple(a for a in range(len(left.shape)) if a not in (*lc, *lb))
        rf = tuple(a for a in range(len(right.shape)) if a not in (*rc, *rb))
        if not math.prod(left.shape[a] for a in lc):
            self._nothing(e, root, allocate)
            return
        group = 1
        if lc == (len(left.shape) - 1,) and left.shape[-1] > 1:
            group = grouped(e.b.features, self.bits, sums, left.dtype, right.dtype)
        flips = group == 4 and left.dtype == right.dtype
        if flips:
            left = Map(left.shape, BYTES[left.dtype == BYTES[0]], (left,), rule=_flipped)
        a = _matrix(e, left, allocate, (lb, lf, lc), {1: sums, 2: np.dtype("int16"), 4: left.dtype}[group])
        if group > 1 and a.columns[1] != 1:
            left = Map(left.shape, a.dtype, (left,), rule=RULES[convert_element_type_p])
            a = _matrix(e, left, allocate, (lb, lf, lc), None)
        b = _matrix(e, right, allocate, (rb, rc, rf), None)
        with ExitStack() as stack:
            stack.enter_context(e.scope())
            first: Int = 0
            second: Int = 0
            third: Int = 0
            sizes = [left.shape[x] for x in lb]
            apart = row_major((*sizes, a.rows[0] * b.columns[0]))[: len(sizes)]
            for size, x, y, z in zip(sizes, a.batch, b.batch, apart, strict=True):
                if size == 1:
                    continue
                stack.enter_context(e.nest.inside(f"loop of {size}"))
                loop = stack.enter_context(e.b.loop(0, size, empty=False))
                first, second = e.add(first, e.mul(loop.index, x)), e.add(second, e.mul(loop.index, y))
                third = e.add(third, e.mul(loop.index, z))
            pa, pb = _moved(e, a.base, first, a.dtype), _moved(e, b.base, second, b.dtype)
            pc = None if root.target is None else _moved(e, root.target.base, third, root.target.dtype)
            _Tiles(self, e, a, b, (pa, pb, pc), root, sums, (group, flips), allocate).run()

    @staticmethod
    def _nothing(e: Emitter, root: Product, allocate: Allocate) -> None:
        """A sum of no products."""
        if root.target is None:
            root.target = allocate(root.value.dtype, root.value.shape)
        e.fill(root.target, 0)
        if root.store is not None:
            root.value.memory = root.target
            e.run([root.store], allocate)
            root.value.memory = None


class _Tiles:
    """One product of two matrices."""

    def __init__(
        self, machine: Multiplier, e: Emitter, a: Matrix, b: Matrix, pointers: tuple[Value, Value, Value | None],
        root: Product, sums: np.dtype, grouping: tuple[int, bool], allocate: Allocate,
    ):  # fmt: skip
        self.e, self.a, self.b, self.root, self.sums = e, a, b, root, sums
        self.out = root.value.dtype
        self.pa, self.pb, self.pc = pointers
        (self.m, self.am), (self.k, self.ak) = a.rows, a.columns
        _, self.bk = b.rows
        self.n, self.bn = b.columns
        self.scalar = HELD[str(sums)]
        self.lanes = machine.bits // (64 if self.scalar == "double" else 32)
        self.step, self.flips = grouping  # rows of B in a row of the panel; whether the signs of A are those of B
        self.depth = -(-self.k // self.step)
        if self.n < self.lanes:
            self.lanes = max(1 << (self.n - 1).bit_length(), 4 if self.step > 1 else 2)
        self.rows, self.vectors = machine.rows, machine.vectors
        self.wide = self.lanes * self.vectors
        far = abs(self.bk) * np.dtype(b.dtype).itemsize >= PANEL_BYTES and self.m >= 4 * self.rows
        many = self.m >= 4 * self.rows and self.m * self.wide * sums.itemsize <= PARTIAL
        self.blocked = self.step == 1 and self.k > 2 * BLOCK and many
        self.packs = self.bn != 1 or b.dtype != sums or far or self.blocked
        self.start: Int = 0  # the first element of the contracted axis in this block, and their number
        self.extent = BLOCK if self.blocked else self.k
        rows = self.extent if self.blocked else self.depth + self.flips
        self.panel = allocate(sums, (rows, self.wide)) if self.packs else None
        self.partial = allocate(sums, (self.m, self.wide)) if self.blocked else None

    def run(self) -> None:
        self.e.nest.line(self.text())
        full = self.n // self.wide * self.wide
        if full:
            with self.e.scope(), self.e.b.loop(0, full, self.wide, empty=False) as loop:
                self.e.multiples[loop.index.text] = self.wide
                self.columns(loop.index, self.wide)
        if self.n > full:
            self.columns(full, self.n - full)

    def text(self) -> str:
        """The product, its tiles and what is packed, in words."""
        store, rows, columns = self.root.store, min(self.rows, self.m), min(self.wide, self.n)
        rest = [f"{x} {name}" for x, name in ((self.m % rows, "rows"), (self.n % columns, "columns")) if x]
        parts = [f"tiles of {rows} x {columns} in registers{', and of the last ' * bool(rest)}{' and '.join(rest)}"]
        parts += {1: [], 2: ["pairs of 16 bits"], 4: ["fours of bytes"]}[self.step]
        parts += [f"right operand packed in panels of {self.extent} x {self.wide}"] * self.packs
        parts += [] if store is None else [f"epilogue: store {store.target.name}"]
        return f"product, {self.m} x {self.k} by {self.k} x {self.n}: {'; '.join(parts)}"

    def columns(self, first: Int, count: int) -> None:
        """All rows of some columns."""
        e = self.e
        if self.partial is None:
            return self.block(first, count, True)
        e.fill(self.partial, 0)
        last = (self.k - 1) // BLOCK * BLOCK
        with e.scope(), e.b.loop(0, last, BLOCK, empty=False) as loop:
            self.start = loop.index
            self.block(first, count, False)
        self.start, self.extent = last, self.k - last
        self.block(first, count, True)
        self.start, self.extent = 0, BLOCK

    def block(self, first: Int, count: int, last: bool) -> None:
        """All rows of some columns, of one block of the contracted axis."""
        e = self.e
        if self.panel is not None:
            self.pack(first, count)
        full = self.m // self.rows * self.rows
        if full:
            with e.scope(), e.b.loop(0, full, self.rows, empty=False) as loop:
                self.tile(loop.index, self.rows, first, count, last)
        if self.m > full:
            self.tile(full, self.m - full, first, count, last)

    def masks(self, count: int) -> list[Value | None]:
        """For each vector of some columns which lanes there are; None for all."""
        found: list[Value | None] = []
        for start in range(0, count, self.lanes):
            left = min(count - start, self.lanes)
            found.append(None if left == self.lanes else self.e.b.lanes_below(left, self.lanes))
        return found

    def pack(self, first: Int, count: int) -> None:
        """A panel of B, zeros past its end, in the dtype of the sums."""
        e, b = self.e, self.e.b
        masks = self.masks(count)
        squares = self.extent // self.lanes * self.lanes if self.bk == 1 and self.bn != 1 and None in masks else 0
        if squares:
            turned = [v for v, mask in enumerate(masks) if mask is None]
            with e.scope(), b.loop(0, squares // self.step, self.lanes // self.step, empty=False) as loop:
                for v in turned:
                    self.square(loop.index, first, v)
            self.pack_rows(0, squares, first, [(v, m) for v, m in enumerate(masks) if m is not None])
        self.pack_rows(squares, self.extent, first, list(enumerate(masks)))
        if self.flips:
            self.pack_starts(len(masks))

    def pack_starts(self, vectors: int) -> None:
        """The last row of a panel, from which sums start: what A differs by, times the sums of columns, subtracted."""
        e, b = self.e, self.e.b
        type_ = vector(self.scalar, self.lanes)
        with e.scope(), b.loop(0, self.depth, 1, [b.constant(0, type_)] * vectors, empty=False) as loop:
            loop.next = [
                self.added(total, b.constant(TOP_BITS, type_), self.column(loop.index, v, 0, None))
                for v, total in enumerate(loop.carried)
            ]
        for v, total in enumerate(loop.out):
            self.keep(self.depth, v, 0 - total)

    def pack_rows(self, start: int, end: int, first: Int, masks: Sequence[tuple[int, Value | None]]) -> None:
        """Rows of B in some vectors of a panel, one by one or two by two."""
        if start == end or not masks:
            return
        e, b, step = self.e, self.e.b, self.step
        full = end // step
        if start // step < full:
            with e.scope(), b.loop(start // step, full, empty=False) as loop:
                for v, mask in masks:
                    rows = [self.row(e.add(e.mul(loop.index, step), r), first, v, mask) for r in range(step)]
                    self.packed(loop.index, v, rows)
        if end % step:
            for v, mask in masks:
                self.packed(full, v, [self.row(k, first, v, mask) for k in range(full * step, end)])

    def row(self, k: Int, first: Int, v: int, mask: Value | None) -> Value:
        """A vector of a row of B as memory has it, zeros past its end."""
        e, b = self.e, self.e.b
        source = STORED[str(self.b.dtype)]
        at = e.add(e.add(e.mul(e.add(self.start, k), self.bk), e.mul(first, self.bn)), v * self.lanes * self.bn)
        zero = b.constant(0, vector(source, self.lanes))
        pointer = b.offset(self.pb, at, source)
        if self.bn == 1:
            return b.load(pointer, zero.type) if mask is None else b.masked_load(pointer, mask, zero)
        every = b.constant(True, vector("i1", self.lanes)) if mask is None else mask
        return b.gather(pointer, b.lane_numbers(self.lanes, "i64", self.bn), every, zero)

    def square(self, row: Value, first: Int, v: int) -> None:
        """As many rows of B as one vector of a panel has lanes, where a column of B is contiguous."""
        e, b, lanes, step = self.e, self.e.b, self.lanes, self.step
        source = STORED[str(self.b.dtype)]
        start = e.add(e.add(self.start, e.mul(row, step)), e.mul(e.add(first, v * lanes), self.bn))
        pointer = b.offset(self.pb, start, source)
        columns = [b.load(b.offset(pointer, j * self.bn, source), vector(source, lanes)) for j in range(lanes)]
        rows = b.transposed(columns)
        for r in range(0, lanes, step):
            self.packed(e.add(row, r // step), v, rows[r : r + step])

    def packed(self, row: Int, v: int, rows: Sequence[Value]) -> None:
        """Store one vector of a panel: a row of B, or parts of its elements from several."""
        b, bits = self.e.b, 32 // self.step
        parts = [convert(b, from_stored(b, x, self.b.dtype), self.b.dtype, self.sums) for x in rows]
        if self.step > 1:
            parts = [b.binary("and", x, (1 << bits) - 1) for x in parts]
        x = parts[0]
        for i, y in enumerate(parts[1:], 1):
            x = b.binary("or", x, b.binary("shl", y, bits * i))
        self.keep(row, v, x)

    def keep(self, row: Int, v: int, x: Value) -> None:
        e = self.e
        assert self.panel is not None
        e.b.store(x, e.b.offset(self.panel.base, e.add(e.mul(row, self.wide), v * self.lanes), self.scalar))

    def tile(self, row: Int, rows: int, first: Int, count: int, last: bool) -> None:
        """Some rows of some columns: their sums in registers over the whole contracted axis."""
        e, b = self.e, self.e.b
        masks = self.masks(count)
        type_ = vector(self.scalar, self.lanes)
        scalar = STORED[str(self.a.dtype)]
        starts = [b.offset(self.pa, e.mul(e.add(row, r), self.am), scalar) for r in range(rows)]
        sums = [b.constant(0, type_)] * (rows * len(masks))
        if self.flips:
            sums = [self.column(self.depth, v, first, None) for v in range(len(masks))] * rows
        if self.partial is not None:
            kept = [self.kept(e.add(row, r), v) for r in range(rows) for v in range(len(masks))]
            sums = [b.load(pointer, type_) for pointer in kept]

        def step(sums: list[Value], k: Int) -> list[Value]:
            columns = [self.column(k, v, first, mask) for v, mask in enumerate(masks)]
            found = list(sums)
            for r in range(rows):
                at = e.mul(e.add(self.start, k), self.ak * self.step)
                x = b.splat(self.element(b.offset(starts[r], at, scalar), k), self.lanes)
                for v, y in enumerate(columns):
                    at = r * len(masks) + v
                    old = found[at]
                    found[at] = self.added(old, x, y)
            return found

        whole = self.extent // self.step // UNROLL * UNROLL
        if whole > UNROLL:
            with e.scope(), b.loop(0, whole, UNROLL, sums, empty=False) as loop:
                found = loop.carried
                for u in range(UNROLL):
                    found = step(found, e.add(loop.index, u))
                loop.next = found
            sums = loop.out
        else:
            whole = 0
        for k in range(whole, -(-self.extent // self.step)):
            sums = step(sums, k)
        if not last:
            for pointer, x in zip(kept, sums, strict=True):
                b.store(x, pointer)
            return
        for r in range(rows):
            with e.scope():
                for v, mask in enumerate(masks):
                    x = rounded(b, sums[r * len(masks) + v], self.out)
                    self.done(x, e.add(row, r), e.add(first, v * self.lanes), mask)

    def kept(self, row: Int, v: int) -> Value:
        """Where the sums over the blocks before are."""
        e = self.e
        assert self.partial is not None
        return e.b.offset(self.partial.base, e.add(e.mul(row, self.wide), v * self.lanes), self.scalar)

    def element(self, pointer: Value, k: Int) -> Value:
        """An element of A, or a group as one; the last may lack some."""
        b, size = self.e.b, 4 // self.step
        left = self.k % self.step
        if not left or k != self.depth - 1:
            return b.load(pointer, self.scalar, size if self.step > 1 else None)
        part = STORED[str(self.a.dtype)]
        found = b.cast("zext", b.load(pointer, part, size), self.scalar)
        for i in range(1, left):
            more = b.cast("zext", b.load(b.offset(pointer, i, part), part, size), self.scalar)
            found = b.binary("or", found, b.binary("shl", more, 8 * size * i))
        return found

    def added(self, old: Value, x: Value, y: Value) -> Value:
        """A vector of sums with the next product added."""
        if self.scalar[0] != "i":
            return self.e.b.fma(x, y, old)
        if self.step == 4 and self.a.dtype == np.int8:
            x, y = y, x
        return added(self.e.b, self.step, old, x, y)

    def done(self, x: Value, row: Int, column: Int, mask: Value | None) -> None:
        """Store a vector of the product, or what is made of it."""
        e, b, root = self.e, self.e.b, self.root
        if self.pc is not None:
            stored = STORED[str(self.out)]
            pointer = b.offset(self.pc, e.add(e.mul(row, self.n), column), stored)
            x = to_stored(b, x, self.out)
            b.store(x, pointer) if mask is None else b.masked_store(x, pointer, mask)
            return
        assert root.store is not None
        places = At(row), At(column, 1)
        e.lanes, e.tail = self.lanes, mask
        with e.scope():
            e.note(root.value, places, x)
            e.store(root.store, places, e.at(root.store.value, places))
        e.lanes, e.tail = 0, None

    def column(self, k: Int, v: int, first: Int, mask: Value | None) -> Value:
        """A vector of a row of B."""
        e, b = self.e, self.e.b
        type_ = vector(self.scalar, self.lanes)
        if self.panel is not None:
            at = e.add(e.mul(k, self.wide), v * self.lanes)
            return b.load(b.offset(self.panel.base, at, self.scalar), type_)
        pointer = b.offset(self.pb, e.add(e.add(e.mul(k, self.bk), first), v * self.lanes), self.scalar)
        return b.load(pointer, type_) if mask is None else b.masked_load(pointer, mask, b.constant(0, type_))
