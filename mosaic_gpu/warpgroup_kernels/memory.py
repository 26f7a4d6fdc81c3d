"""What a Ref of a kernel for warpgroups is: an array in global memory, tiles in shared memory, barriers, sums.

A Ref in shared memory whose rows are whole multiples of 128 bytes lies in swizzled tiles, one for each place along its
leading axes; any other one lies row after row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...core.ir.types import INT32, ArrayType
from ...core.primitives.refs.state_primitives import Index, Point, Span, Take, access_shape
from ...lang.legalize import Unfit
from .. import ptx
from ..refs import GLOBAL, SHARED, Addresses, Memory, Register, Space, Window
from ..text import Int, Printer
from ..values import Lazy, Tile, halves


def divisor(p: Printer, x: Int) -> int:
    """A number that a position is a multiple of, by how it was computed."""
    if isinstance(x, int):
        return x if x else 1 << 30
    known = {name: text for text, name in p.made.items() if isinstance(text, str) and isinstance(name, str)}

    def of(name: str) -> int:
        parts = known.get(name, "").replace(",", "").split()
        if parts[:1] == ["arith.constant"]:
            return abs(int(parts[1])) or 1 << 30
        if parts[:1] in (["arith.muli"], ["arith.addi"], ["arith.subi"]):
            a, b = of(parts[1]), of(parts[2])
            return min(a * b, 1 << 30) if parts[0] == "arith.muli" else math.gcd(a, b)
        return 1

    return of(x)


def entries(e: Any, index: Index, dynamic: Sequence[Any]) -> list[tuple[Int, int | None]]:
    """Where each axis of a part starts, and how long it is (None: one position)."""
    given, found = iter(dynamic), []
    for entry in index:
        if isinstance(entry, Take):
            raise Unfit("elements taken at computed places: take slices and single positions")
        start = e.integer(next(given)) if entry.start is None else entry.start
        if isinstance(entry, Span) and entry.stride != 1 and entry.size > 1:
            raise Unfit(f"a part with steps of {entry.stride}: take elements that lie side by side")
        found.append((start, entry.size if isinstance(entry, Span) else None))
    return found


def divided(e: Any, index: Index, dynamic: Sequence[Any], axis: int, parts: int, number: Int) -> tuple[Any, list[Any]]:
    """A part of a part that is divided along one of its axes: the one of a number."""
    p, given, kept, values, seen = e.p, iter(dynamic), list[Any](), list[Any](), 0
    for entry in index:
        value = next(given) if entry.start is None else None
        if isinstance(entry, Span):
            if seen == axis:
                size = entry.size // parts
                start = entry.start if value is None else e.integer(value)
                name = p.name(p.add(start, p.mul(number, size)))
                entry, value = Span(None, size), Lazy((), INT32, lambda p, place, name=name: name, fixed=True)
            seen += 1
        kept.append(entry)
        values += [] if value is None else [value]
    return Index(kept), values


def matrices(e: Any, index: Index, dynamic: Sequence[Any]) -> Iterator[tuple[Index, list[Any]]]:
    """The matrices, or the one matrix or row, that a part is, one for each place along the axes ahead of its rows."""
    p, given, spans = e.p, iter(dynamic), sum(isinstance(entry, Span) for entry in index)
    values = [None if entry.start is not None else e.integer(next(given)) for entry in index]
    ahead = [d for d, entry in enumerate(index) if isinstance(entry, Span)][: max(spans - 2, 0)]
    for places in np.ndindex(*(index[d].size for d in ahead)):
        at, entries_, operands = dict(zip(ahead, places, strict=True)), list[Any](), list[Any]()
        for d, (entry, value) in enumerate(zip(index, values, strict=True)):
            if d in at and value is None:
                entry = Point(entry.start + at[d])
            elif d in at:
                entry, value = Point(None), p.name(p.add(value, at[d]))
            entries_.append(entry)
            if value is not None:
                operands.append(Lazy((), INT32, lambda p, place, name=value: name, fixed=True))
        yield Index(entries_), operands


@dataclass(frozen=True)
class Rows:
    """A part of shared memory that the copy engine moves: some rows, each in chunks of `per` elements.

    `at(chunk, row)` is the address of a row of a chunk.
    """

    shape: tuple[int, int]
    per: int
    at: Callable[[int, int], Int]
    swizzled: bool


@dataclass(eq=False)
class View(Tile):
    """Some rows and whole chunks of columns of a tile of `pitch` rows."""

    pitch: int = 0

    @property
    def rows(self) -> int:
        return self.pitch


@dataclass(eq=False)
class Global:
    """An operand or a result, in global memory."""

    argument: int
    name: str
    array: ArrayType
    changes: bool

    def window(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Memory:
        found = entries(e, index, dynamic)
        visible = tuple(d for d, (_, size) in enumerate(found) if size is not None)
        sized = ArrayType(tuple(n if size is None else size for (_, size), n in
                                zip(found, self.array.shape, strict=True)), self.array.dtype)  # fmt: skip
        window = Window(self.name, self.array, [s for s, _ in found], visible,
                        ((True, True),) * self.array.ndim, changes=self.changes)  # fmt: skip
        return Memory(_Part(window, sized))

    def read(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Any:
        found = self.window(e, index, dynamic).whole()
        if not self.changes:
            return found
        e.reads()
        return e.held(found)

    def addresses(self, e: Any, index: Index, dynamic: Sequence[Any]) -> tuple[Space, Addresses]:
        """Where the elements of a part are, which are updated."""
        found = self.window(e, index, dynamic).window
        e.writes()
        return GLOBAL, partial(found.address, e.p)

    def write(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        window = self.window(e, index, dynamic).window
        value = e.settled_value(value)
        e.writes()
        if isinstance(value, Lazy):
            e.spread(value.shape, lambda p, place, owner: window.store(p, place, value.at(p, place), owner))
            return
        owner, (rows, cols) = e.owner(value.layout), e.extent(value.layout)
        for r in range(rows):
            for j in range(cols):
                window.store(e.p, e.place(value.layout, r, j), e.element(value, value.layout, r, j), owner)

    def add(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        self.write(e, index, dynamic, e.sum(self.read(e, index, dynamic), value))


class _Part(Window):
    """A window as long as the part of an array that it is."""

    def __init__(self, window: Window, sized: ArrayType):
        super().__init__(**vars(window))
        self.sized = sized

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.sized.shape[d] for d in self.visible)


@dataclass(eq=False)
class Shared:
    """A Ref in shared memory, from an address on; `plain`: it lies row after row, whatever its rows are."""

    name: str
    address: Int
    array: ArrayType
    plain: bool = False

    @property
    def swizzled(self) -> bool:
        shape, size = self.array.shape, self.array.dtype.itemsize
        return not self.plain and len(shape) > 1 and shape[-1] * size % ptx.ROW == 0 and shape[-2] % 8 == 0

    def rows(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Rows:
        """A part as the copy engine takes it."""
        p, size, shape = e.p, self.array.dtype.itemsize, access_shape(index)
        if self.swizzled and self._anywhere(e, index, dynamic):
            e.plain.add(self.name)  # so it is when it is printed again
            self.plain = True
        if self.swizzled and len(shape) == 2:
            tile = self.view(e, index, dynamic)
            pitch = tile.rows * ptx.ROW
            return Rows(shape, ptx.ROW // size, lambda c, r: p.add(tile.address, c * pitch, r * ptx.ROW), True)
        found = entries(e, index, dynamic)
        first = next((d for d, (_, n) in enumerate(found) if n is not None), 0)
        whole = all(n == m for (_, n), m in zip(found[first + 1 :], self.array.shape[first + 1 :], strict=True))
        rows, columns = (1, *shape)[-2:] if 0 < len(shape) < 3 else (0, 0)
        start: Int = 0
        for (i, _), n in zip(found, self.array.shape, strict=True):
            start = p.add(p.mul(start, n), i)
        if self.swizzled or not whole or not rows or columns * size % 16 or divisor(p, p.mul(start, size)) % ptx.ROW:
            raise Unfit(f"a part {index} of {self.name} of {self.array.show()} is copied: it is a matrix, or one row, "
                        "that lies side by side, of a multiple of 16 bytes a row, and begins at a multiple of "
                        f"{ptx.ROW} bytes")  # fmt: skip
        base = p.add(self.address, p.mul(start, size))
        return Rows((rows, columns), min(columns, 256), lambda c, r: p.add(base, (r * columns + c * 256) * size), False)

    def _anywhere(self, e: Any, index: Index, dynamic: Sequence[Any]) -> bool:
        """Whether a part has rows that swizzled tiles are not divided at."""
        start, rows = entries(e, index, dynamic)[-2]
        return rows is None or rows % 8 > 0 or divisor(e.p, start) % 8 > 0

    def view(self, e: Any, index: Index, dynamic: Sequence[Any]) -> View:
        """A part that is a matrix, as the copy engine and the tensor cores take it."""
        p, array, size = e.p, self.array, self.array.dtype.itemsize
        found = entries(e, index, dynamic)
        if not self.swizzled:
            raise Unfit(f"{self.name} of {array.show()} is copied or multiplied: give it rows of a multiple of "
                        f"{ptx.ROW} bytes, as many as a multiple of 8")  # fmt: skip
        if any(n is not None for _, n in found[:-2]) or None in (found[-2][1], found[-1][1]):
            raise Unfit(f"a part {index} of {self.name}: give some rows and columns of one matrix")
        (row, rows), (column, columns) = found[-2:]
        assert rows is not None and columns is not None
        per, pitch = ptx.ROW // size, array.shape[-2]
        for what, start, n, step in (("rows", row, rows, 8), ("columns", column, columns, per)):
            if divisor(p, start) % step or n % step:
                raise Unfit(f"a part {index} of {self.name}: its {what} are multiples of {step}, and begin at one that "
                            "is seen to be (write `i * size`)")  # fmt: skip
        at = p.add(self._matrix(p, [s for s, _ in found[:-2]]), p.mul(row, ptx.ROW),
                   p.mul(p.int("divui", column, per), pitch * ptx.ROW))  # fmt: skip
        made = View((rows, columns), array.dtype, lambda p, place: e.loaded(e.address(made, place), array.dtype),
                    frozenset({0, 1}), False, at, (0, 1), pitch)  # fmt: skip
        return made

    def _matrix(self, p: Printer, leading: Sequence[Int]) -> Int:
        """The address of the matrix at a place along the leading axes."""
        number: Int = 0
        for i, n in zip(leading, self.array.shape, strict=False):
            number = p.add(p.mul(number, n), i)
        return p.add(self.address, p.mul(number, math.prod(self.array.shape[-2:]) * self.array.dtype.itemsize))

    def element(self, p: Printer, place: Sequence[Int]) -> Int:
        """The address of an element."""
        shape, size = self.array.shape, self.array.dtype.itemsize
        if not self.swizzled:
            offset: Int = 0
            for i, n in zip(place, shape, strict=True):
                offset = p.add(p.mul(offset, n), i)
            return p.add(self.address, p.mul(offset, size))
        row, offset = place[-2], p.mul(place[-1], size)
        chunk = p.mul(p.int("divui", offset, ptx.ROW), shape[-2] * ptx.ROW)
        within = p.int("xori", p.int("remui", offset, ptx.ROW), p.mul(p.int("andi", row, 7), 16))
        return p.add(self._matrix(p, place[:-2]), chunk, p.mul(row, ptx.ROW), within)

    def places(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Any:
        """The address of each element of a part, as a function of its place in the part."""
        found = entries(e, index, dynamic)

        def at(p: Printer, place: Sequence[Int]) -> Int:
            given = iter(place)
            return self.element(p, [s if n is None else p.add(s, next(given)) for s, n in found])

        return at

    def read(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Any:
        at, dtype, shape = self.places(e, index, dynamic), self.array.dtype, access_shape(index)
        e.reads()
        varies = frozenset(d for d, n in enumerate(shape) if n > 1)
        return e.held(Lazy(shape, dtype, lambda p, place: e.loaded(at(p, place), dtype), varies))

    def addresses(self, e: Any, index: Index, dynamic: Sequence[Any]) -> tuple[Space, Addresses]:
        """Where the elements of a part are, which are updated."""
        at = self.places(e, index, dynamic)
        e.writes()
        return SHARED, lambda place: (e.p.name(at(e.p, place)), None)

    def write(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        p, at, dtype = e.p, self.places(e, index, dynamic), self.array.dtype
        value = e.settled_value(value)
        e.writes()
        if isinstance(value, Lazy):
            if halves(dtype) and value.shape:
                value = e.fragment(value)
            else:
                e.spread(value.shape, lambda p, place, owner: e.put(at(p, place), value.at(p, place), dtype, owner))
                return
        layout, owner = value.layout, e.owner(value.layout)
        rows, cols = e.extent(layout)
        if value.paired and layout.cols != len(value.shape) - 1:
            raise Unfit(f"{self.name} is stored transposed: store it as it is, and give `transpose_ref` to the product")
        for r in range(rows):
            for j in range(0, cols, 2 if value.paired else 1):
                word = value.regs[r][j // 2] if value.paired else e.element(value, layout, r, j)
                e.put(at(p, e.place(layout, r, j)), word, INT32 if value.paired else dtype, owner)

    def add(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        self.write(e, index, dynamic, e.sum(self.read(e, index, dynamic), value))


class Barriers(Register):
    """Barriers from an address on; the register's bits are the parities of the phases that are waited for next."""

    name: str
    address: Int
    shape: tuple[int, ...]
    count: int
    tensor: bool
    axes: tuple[()]
    leader: bool

    def __init__(self, name: str, address: Int, shape: tuple[int, ...]):
        zero = Lazy((), INT32, lambda p, place: p.constant(0), fixed=True)
        super().__init__(ArrayType((), INT32), zero)
        self.name, self.address, self.shape = name, address, shape
        self.count, self.tensor, self.axes, self.leader = 1, False, (), False
        self.waits: set[bool] = set()  # whether warps by themselves wait there, or warpgroups
        if math.prod(shape) > 32:
            raise Unfit(f"{math.prod(shape)} barriers in {name}: state several arrays, of 32 at most")

    def number(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Int:
        number: Int = 0
        for (start, _), n in zip(entries(e, index, dynamic), self.shape, strict=True):
            number = e.p.add(e.p.mul(number, n), start)
        return number

    def at(self, e: Any, number: Int) -> Int:
        return e.p.add(self.address, e.p.mul(number, 8))

    def next(self, e: Any, number: Int) -> Int:
        """The parity of the next phase of one of the barriers; the one after it is the other."""
        p = e.p
        self.waits.add(e.by_warps)
        if len(self.waits) > 1:
            raise Unfit(f"warps by themselves and whole warpgroups wait at {self.name}: state a barrier for each")
        word = e.word(self.value)
        parity = p.int("andi", p.int("shrui", word, number), 1)
        flipped = p.name(p.int("xori", word, p.int("shli", 1, number)))
        self.value: Any = Lazy((), INT32, lambda p, place: flipped, fixed=True)
        return parity


@dataclass(eq=False)
class Sums:
    """A Ref in tensor memory, from a column on: numbers of 32 bits, or of 16, two in a column, to be multiplied."""

    name: str
    column: int
    array: ArrayType

    @property
    def each(self) -> int:
        """How many numbers are in a column."""
        return 4 // self.array.dtype.itemsize

    def start(self, e: Any, index: Index, dynamic: Sequence[Any]) -> tuple[Int, int]:
        """The first column of tensor memory of a part, and how many numbers its rows have; it has all rows."""
        found = entries(e, index, dynamic)
        leading, (row, rows), (first, columns) = found[:-2], *found[-2:]
        if row != 0 or rows != self.array.shape[-2] or columns is None or any(n is not None for _, n in leading):
            raise Unfit(f"a part {index} of {self.name} in tensor memory: give all rows, and some columns")
        if divisor(e.p, first) % self.each or columns % self.each:
            raise Unfit(f"a part {index} of {self.name} in tensor memory: give columns in pairs, from an even one on")
        number: Int = 0
        for (i, _), n in zip(leading, self.array.shape, strict=False):
            number = e.p.add(e.p.mul(number, n), i)
        within = e.p.int("divui", e.p.add(e.p.mul(number, self.array.shape[-1]), first), self.each)
        return e.p.add(self.column, within), columns


class Zeros(Lazy):
    """What an accumulator holds before the first product."""
