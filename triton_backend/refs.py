"""The two kinds of Ref: `Register`, a value that is replaced, and `Memory`, a window of global memory.

What one thread of a program stores, another may load: between accesses to the same memory of which one is a store
there is a barrier, unless both are stores to the same places, or the places have nothing in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.ir.types import ArrayType, is_bool
from ..core.primitives.refs.state_primitives import Index, Point, Span, Take
from ..lang.kernel.kernel import EDGE
from ..lang.ops.atomics import Sync
from . import descriptors
from .atomics import atomic_rmw
from .builders import (
    INT8,
    arith,
    both,
    compare,
    convert,
    lanes,
    less,
    mul,
    plus,
    select,
    spread,
    sub,
    take,
)
from .pointers import Window, places_of
from .text import Printer, Value


@dataclass(eq=False)
class Register:
    """A Ref whose content is a value."""

    array: ArrayType
    value: Value

    def read(self, p: Printer, index: Index, dynamic: Sequence[Value], mask: Value | None = None,
             other: Value | None = None) -> Value:  # fmt: skip
        if index.is_whole(self.array.shape):
            found = self.value
        else:
            at = places_of(p, index, dynamic)
            found = take(p, self.value, at.shape, [at.along(p, d) for d in range(len(index))])
        if mask is None:
            return found
        return select(p, mask, found, p.constant(0, found.dtype) if other is None else other)

    def write(self, p: Printer, value: Value, index: Index, dynamic: Sequence[Value], mask: Value | None) -> None:
        if index.is_whole(self.array.shape):
            self.value = value if mask is None else select(p, mask, value, self.value)
            return
        starts, shape = places_of(p, index, dynamic).starts, self.array.shape
        inside: Value | None = None
        sources = []
        for d, (entry, start) in enumerate(zip(index, starts, strict=True)):
            here = lanes(p, shape[d], d, len(shape))
            if type(entry) is Point:
                at = start if isinstance(start, Value) else p.constant(start, here.dtype)
                inside = both(p, inside, compare(p, "eq", here, at))
                continue
            assert type(entry) is Span
            if entry.start == 0 and entry.size == shape[d] and entry.stride == 1:
                sources.append(here)
                continue
            offset = sub(p, here, start)
            place = arith(p, "divsi", offset, entry.stride)
            sources.append(place)
            zero = p.constant(0, here.dtype)
            inside = both(p, inside, compare(p, "ge", _v(p, offset), zero), less(p, place, entry.size))
            if entry.stride > 1:
                inside = both(p, inside, compare(p, "eq", _v(p, mul(p, place, entry.stride)), _v(p, offset)))
        new = take(p, value, shape, sources)
        inside = both(p, inside, None if mask is None else take(p, mask, shape, sources))
        self.value = new if inside is None else select(p, inside, new, self.value)

    def add(self, p: Printer, value: Value, index: Index, dynamic: Sequence[Value], mask: Value | None) -> None:
        old = self.read(p, index, dynamic)
        self.write(p, plus(p, old, value), index, dynamic, mask)


def _v(p: Printer, x: Any) -> Value:
    return x if isinstance(x, Value) else p.constant(x, lanes(p, 2, 0, 1).dtype)


# ---------------------------------------------------------------------------- global memory


@dataclass(eq=False)
class Traffic:
    """What was read and written of one memory since the last barrier: (is a store, index, operands); None: anything.

    `recurring`: what one turn of a loop stores, the next may touch.
    """

    recurring: bool = True
    recent: list[tuple[bool, Index | None, tuple[Value, ...]]] = field(default_factory=list)

    def again(self) -> None:
        """At the start of a loop's body, its end may be what comes before."""
        if self.recurring:
            self.recent[:] = [(True, None, ())]

    def note(self, p: Printer, store: bool, index: Index | None, dynamic: Sequence[Value]) -> None:
        one = (store, index, tuple(dynamic))
        if any((store or was[0]) and _meet(one, was) for was in self.recent):
            p.line("gpu.barrier")
            self.recent.clear()
        if one not in self.recent:
            self.recent.append(one)


def _meet(one: Any, other: Any) -> bool:
    """Whether two accesses may touch an element by different threads."""
    (store, a, x), (stored, b, y) = one, other
    if a is None or b is None:
        return True
    if a == b and x == y:
        return not (store and stored)  # stores to one place are by one thread, loads by all that hold a copy
    return not any(_apart(e, f) for e, f in zip(a, b, strict=True))


def _apart(a: Point | Span | Take, b: Point | Span | Take) -> bool:
    """Whether two entries of an index are known to have no position in common."""
    if a.start is None or b.start is None:
        return False
    return not _positions(a, a.start) & _positions(b, b.start)


def _positions(entry: Point | Span, start: int) -> set[int]:
    return {start} if isinstance(entry, Point) else set(range(start, start + entry.size * entry.stride, entry.stride))


@dataclass(eq=False)
class Memory:
    """A Ref in global memory.

    `atomic`: additions may meet those of other programs. `described`: accesses go through a tensor descriptor where
    one can be.
    """

    window: Window
    traffic: Traffic
    atomic: bool = False
    described: bool = False
    held: Value | None = None  # the whole block, where it was loaded ahead

    @property
    def dtype(self) -> Any:
        return self.window.array.dtype

    def read(self, p: Printer, index: Index, dynamic: Sequence[Value], mask: Value | None = None,
             other: Value | None = None) -> Value:  # fmt: skip
        if self.held is not None and mask is None and index.is_whole(self.held.shape):
            return self.held
        self.traffic.note(p, False, index, dynamic)
        if self.described and mask is None:
            tile = descriptors.load(p, self.window, index, dynamic)
            if tile is not None:
                return tile
        pointers, exist = self.window.locate(p, places_of(p, index, dynamic))
        fill = 0 if self.window.fill is None or self.window.fill is EDGE else self.window.fill
        if mask is None or (exist is None and other is None):
            fill = fill if mask is None else 0
            return _load(p, pointers, self.dtype, both(p, exist, mask), p.constant(fill, self.dtype))
        found = _load(p, pointers, self.dtype, both(p, exist, mask), p.constant(fill, self.dtype))
        return select(p, mask, found, p.constant(0, self.dtype) if other is None else other)

    def write(self, p: Printer, value: Value, index: Index, dynamic: Sequence[Value], mask: Value | None) -> None:
        self.traffic.note(p, True, index, dynamic)
        if self.described and mask is None and descriptors.store(p, self.window, value, index, dynamic):
            return
        pointers, exist = self.window.locate(p, places_of(p, index, dynamic))
        store(p, pointers, value, both(p, exist, mask))

    def add(self, p: Printer, value: Value, index: Index, dynamic: Sequence[Value], mask: Value | None) -> None:
        if self.atomic or index.takes:
            self.update(p, "add", value, index, dynamic, mask, wanted=False)
            return
        old = self.read(p, index, dynamic, mask)
        self.write(p, plus(p, old, value), index, dynamic, mask)

    def update(self, p: Printer, kind: str, value: Value, index: Index, dynamic: Sequence[Value], mask: Value | None,
               wanted: bool, sync: Sync | None = None) -> Value:  # fmt: skip
        """An atomic update; gives what was there (0 where masked out)."""
        sync = sync or ("acq_rel" if wanted else "relaxed", "gpu")
        pointers, exist = self.located(p, index, dynamic)
        found = atomic_rmw(p, kind, pointers, spread(p, value, pointers.shape), both(p, exist, mask), sync)
        return found if mask is None or not wanted else select(p, mask, found, p.constant(0, found.dtype))

    def located(self, p: Printer, index: Index, dynamic: Sequence[Value]) -> tuple[Value, Value | None]:
        """The pointers of an atomic access."""
        self.traffic.note(p, True, None, ())
        return self.window.locate(p, places_of(p, index, dynamic))


def _load(p: Printer, pointers: Value, dtype: Any, mask: Value | None, other: Value) -> Value:
    kept = INT8 if is_bool(dtype) else dtype
    rest = ""
    if mask is not None:
        mask, other = spread(p, mask, pointers.shape), spread(p, convert(p, other, kept), pointers.shape)
        rest = f", {mask.name}, {other.name}"
    out = p.op(f"tt.load {pointers.name}{rest} : {pointers.type}", pointers.shape, kept)
    return convert(p, out, dtype)


def store(p: Printer, pointers: Value, value: Value, mask: Value | None) -> None:
    """Store a value of the pointers' shape."""
    value = spread(p, convert(p, value, INT8) if is_bool(value.dtype) else value, pointers.shape)
    rest = "" if mask is None else f", {spread(p, mask, pointers.shape).name}"
    p.line(f"tt.store {pointers.name}, {value.name}{rest} : {pointers.type}")


Ref = Register | Memory
