"""What a Ref of a body is: registers, a tile in shared memory, or a window of an array in global memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..core.ir.array import DTypeLike
from ..core.ir.types import ArrayType, is_bool
from ..core.primitives.refs.state_primitives import Index, Point, Span, Take, access_shape
from ..lang.kernel.kernel import EDGE
from ..lang.legalize import Unfit
from .text import Int, Printer
from .values import EIGHT, Fragment, Layout, Lazy, Product, Tile, computed, narrowed, widened

Space = tuple[str, str, str]  # the name of a memory, and what an address in it is: in PTX, in MLIR
GLOBAL, SHARED = ("global", "l", "!llvm.ptr"), ("shared::cta", "r", "i32")
Addresses = Callable[[Sequence[Int]], tuple[Any, str | None]]  # of a place; and whether it exists (None: it does)


@dataclass(eq=False)
class Register:
    """A Ref in registers: whole values alone go in and out."""

    array: ArrayType
    value: Any  # a Fragment, or a Lazy of constants and positions
    layout: Layout | None = None  # what a loop or a branch has settled on

    def _whole(self, index: Index) -> None:
        if not index.is_whole(self.array.shape):
            raise Unfit(f"a part {index} of {self.array.show()} in registers: read and write the whole of it")

    def read(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Any:
        self._whole(index)
        if isinstance(self.value, Fragment):
            e.settle(self.value)
        return self.value

    def write(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        self._whole(index)
        self.value = value if isinstance(value, Lazy) and value.fixed else e.fragment(value).held

    def add(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        self._whole(index)
        old = self.value
        if isinstance(value, Product) and value.once and value.made is None and value.dtype == self.array.dtype:
            if isinstance(old, Lazy):
                old = e.fragment(old, value.layout)
            if isinstance(old, Fragment) and old.layout == value.layout and old.dtype == value.dtype:
                self.value = e.issue(value, old)
                return
        self.write(e, index, dynamic, e.sum(self.read(e, index, dynamic), value))

    # ------------------------------------------------------------ through loops and branches

    def types(self) -> list[str]:
        """The MLIR types of what travels; nothing where the value is known without registers."""
        return self.value.types if self.layout is not None else []

    def names(self, e: Any) -> list[str]:
        if self.layout is None:
            return []
        value = self.value
        if not (isinstance(value, Fragment) and value.layout == self.layout):
            self.value = value = e.fragment(value, self.layout)
        return value.flat


class Carried:
    """Registers as the values that a loop or a branch carries, each in one layout on every path.

    `late`: those whose products are still being made at the end of an iteration.
    """

    e: Any
    registers: Sequence[Register]

    def __init__(self, e: Any, registers: Sequence[Register], bodies: Sequence[Callable[[], Any]]):
        self.e, self.registers = e, registers
        self.late: Any = e.unify(registers, bodies)
        self.layouts: list[Layout | None] = [r.layout for r in registers]

    @property
    def types(self) -> list[str]:
        return [t for r in self.registers for t in r.types()]

    def names(self) -> list[str]:
        """What the registers hold, as SSA names in the settled layouts; code within may have changed these."""
        for register, layout in zip(self.registers, self.layouts, strict=True):
            register.layout = layout
        return [name for r in self.registers for name in r.names(self.e)]

    def rename(self, names: Sequence[str]) -> None:
        """Have the registers hold the values of some names."""
        left = iter(names)
        for register, layout in zip(self.registers, self.layouts, strict=True):
            register.layout = layout
            if layout is not None:
                register.value = register.value.with_flat([next(left) for _ in register.value.flat])

    def restore(self, names: Sequence[str]) -> None:
        """Have them hold the results of the loop or branch, free to change their layouts again."""
        left = iter(names)
        for register in self.registers:
            if register.layout is not None:
                template = self.e.fragment(register.value, register.layout)
                register.value = template.with_flat([next(left) for _ in template.flat])
                register.layout = None


@dataclass(eq=False)
class TileRef:
    """A Ref that the copy engine brings to shared memory; `ready` waits until it has."""

    tile: Tile
    ready: Callable[[], None]

    def read(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Any:
        self.ready()
        if index.is_whole(self.tile.shape):
            return self.tile
        return part(e, self.tile, index, dynamic)


def part(e: Any, whole: Lazy, index: Index, dynamic: Sequence[Any]) -> Lazy:
    """A part of a value in memory."""
    if any(isinstance(entry, Take) for entry in index):
        raise Unfit("elements taken at computed places: gather them before the kernel")
    given, entries = iter(dynamic), list(index)
    starts: list[Int] = [e.integer(next(given)) if i.start is None else i.start for i in entries]
    shape = access_shape(index)
    spans = [d for d, entry in enumerate(entries) if isinstance(entry, Span)]

    def at(p: Printer, place: Sequence[Int]) -> str:
        full = list(starts)
        for i, d in zip(place, spans, strict=True):
            entry = entries[d]
            assert isinstance(entry, Span)
            full[d] = p.add(starts[d], p.mul(i, entry.stride))
        return whole.at(p, full)

    assert all(isinstance(entry, (Point, Span)) for entry in entries)
    return Lazy(shape, whole.dtype, at, frozenset(d for d, n in enumerate(shape) if n > 1))


STORED = {"bool": "i8", "bfloat16": "bf16", "float16": "f16", "float32": "f32"}


def stored(dtype: DTypeLike) -> str:
    """The MLIR type of an element in memory."""
    return STORED.get(str(dtype), f"i{8 * dtype.itemsize}")


@dataclass(eq=False)
class Window:
    """A part of an array in global memory: `starts` are elements along its axes, `visible` those the body sees.

    `proved` says of each axis that the window does not start before the array, and not end after it.
    """

    base: str
    array: ArrayType
    starts: list[Int]
    visible: tuple[int, ...]
    proved: tuple[tuple[bool, bool], ...]
    fill: Any = None
    changes: bool = False  # it is of a result
    target: Any = None  # how the copy engine stores it: a `schedule.Moved`, and the name of its descriptor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape[d] for d in self.visible)

    def _located(self, p: Printer, place: Sequence[Int]) -> tuple[list[Int], str | None]:
        """Positions along the array's axes, and whether they exist (None: they do)."""
        at: list[Int] = list(self.starts)
        for d, i in zip(self.visible, place, strict=True):
            at[d] = p.add(at[d], i)
        inside: str | None = None
        for d, (n, (above, below)) in enumerate(zip(self.array.shape, self.proved, strict=True)):
            for proved, how, end in ((above, "sge", 0), (below, "slt", n)):
                if not proved:
                    one = p.compare(how, at[d], end)
                    inside = one if inside is None else p.pure(f"arith.andi {inside}, {one} : i1")
        return at, inside

    def pointer(self, p: Printer, at: Sequence[Int], dtype: str) -> str:
        """The address of an element."""
        offset: Int = 0
        for i, n in zip(at, self.array.shape, strict=True):
            offset = p.add(p.mul(offset, n), i)
        return p.pure(f"llvm.getelementptr {self.base}[{p.name(offset)}] : (!llvm.ptr, i32) -> !llvm.ptr, {dtype}")

    def load(self, p: Printer, place: Sequence[Int]) -> str:
        """A number; past the end the fill, or any. What this kernel stores is read anew each time."""
        at, inside = self._located(p, place)
        if inside is not None:
            for d, (n, (above, below)) in enumerate(zip(self.array.shape, self.proved, strict=True)):
                at[d] = at[d] if above else p.int("maxsi", at[d], 0)
                at[d] = at[d] if below else p.int("minsi", at[d], n - 1)
        dtype = self.array.dtype
        kind = stored(dtype)
        read = p.op if self.changes else p.pure
        found = read(f"llvm.load {self.pointer(p, at, kind)} : !llvm.ptr -> {kind}")
        if kind in ("f16", "bf16"):
            found = p.pure(f"arith.extf {found} : {kind} to f32")
        elif is_bool(dtype):
            found = p.pure(f"arith.cmpi ne, {found}, {p.constant(0, 'i8')} : i8")
        elif kind not in ("f32", "i32"):
            found = p.pure(f"arith.ext{'s' if dtype.kind == 'i' else 'u'}i {found} : {kind} to i32")
            found = widened(p, found, dtype) if str(dtype) in EIGHT else found
        if inside is None or self.fill is None or self.fill is EDGE:
            return found
        type_ = computed(dtype)
        return p.pure(f"arith.select {inside}, {found}, {p.constant(self.fill, type_)} : {type_}")

    def address(self, p: Printer, place: Sequence[Int]) -> tuple[str, str | None]:
        """Where an element is, and whether it exists."""
        at, inside = self._located(p, place)
        return self.pointer(p, at, stored(self.array.dtype)), inside

    def store(self, p: Printer, place: Sequence[Int], number: str, owner: str | None) -> None:
        """Store a number, by the threads that own it, where there is a place for it."""
        at, inside = self._located(p, place)
        if owner is not None:
            inside = owner if inside is None else p.pure(f"arith.andi {inside}, {owner} : i1")
        kind = stored(self.array.dtype)
        if kind in ("f16", "bf16"):
            number = p.pure(f"arith.truncf {number} : f32 to {kind}")
        elif is_bool(self.array.dtype):
            number = p.pure(f"arith.extui {number} : i1 to i8")
        elif kind not in ("f32", "i32"):
            number = narrowed(p, number, self.array.dtype) if str(self.array.dtype) in EIGHT else number
            number = p.pure(f"arith.trunci {number} : i32 to {kind}")

        def put() -> None:
            p.line(f"llvm.store {number}, {self.pointer(p, at, kind)} : {kind}, !llvm.ptr")

        if inside is None:
            put()
        else:
            with p.when(inside):
                put()


@dataclass(eq=False)
class Memory:
    """A Ref in global memory; `meeting`: blocks that run side by side update it."""

    window: Window
    meeting: bool = False

    def whole(self) -> Lazy:
        shape = self.window.shape
        return Lazy(shape, self.window.array.dtype, lambda p, place: self.window.load(p, place),
                    frozenset(d for d, n in enumerate(shape) if n > 1))  # fmt: skip

    def read(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Lazy:
        return part(e, self.whole(), index, dynamic)

    def addresses(self, e: Any, index: Index, dynamic: Sequence[Any]) -> tuple[Space, Addresses]:
        """Where the elements of a part are."""
        p, window, given = e.p, self.window, iter(dynamic)
        starts, proved, visible = list(window.starts), list(window.proved), []
        for d, entry in zip(window.visible, index, strict=True):
            if isinstance(entry, Take) or isinstance(entry, Span) and entry.stride != 1:
                raise Unfit("elements updated at computed places, or in steps: update slices")
            starts[d] = p.add(starts[d], e.integer(next(given)) if entry.start is None else entry.start)
            proved[d] = (False, False) if entry.start is None else proved[d]
            visible += [d] if isinstance(entry, Span) else []
        found = replace(window, starts=starts, proved=tuple(proved), visible=tuple(visible))
        return GLOBAL, partial(found.address, p)

    def write(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        window = self.window
        if any(not isinstance(i, Span) or i.start != 0 or i.stride != 1 for i in index):
            raise Unfit(f"a part {index} of a result is stored: store the whole of its block")
        value = e.settled(value) if isinstance(value, Product) else value
        own = value.layout if isinstance(value, Fragment) else None
        made = e.fragment(value, e.layout(value.shape, None, own))
        e.settle(made)
        if e.stored.setdefault(window.base, made.layout) != made.layout:
            raise Unfit("a result is stored with its rows along the rows of registers, and along their columns: store "
                        "it in one way")  # fmt: skip
        if window.target is not None and window.target(e, made):
            return
        layout, p = made.layout, e.p
        owner = e.owner(layout)
        rows, cols = e.extent(layout)
        for r in range(rows):
            for j in range(cols):
                window.store(p, e.place(layout, r, j), e.element(made, layout, r, j), owner)

    def add(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        """Each thread adds to what it has stored itself: numbers of one result always have one place in registers."""
        made = e.fragment(value)
        self.write(e, index, dynamic, e.sum(self.read(e, index, dynamic), made))
