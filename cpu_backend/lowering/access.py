"""Where elements are, and code that reads and writes them there.

    At ::= base + lane * step          where along an axis an element is wanted, of every lane

What has been computed at the place of the builder is kept by scope, so that it is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.primitives.refs.state_primitives import Span, Take
from ...lang.kernel.kernel import EDGE
from ..llvm.builder import BYTES, Builder, Int, Value, vector
from .elementwise import combined, from_stored, is_signed, number, rounded, to_stored
from .expression_graph import HELD, LINE, STORED, Held, Memory, Monoid, Node
from .nest import Nest
from .refusal import refuse


@dataclass(frozen=True)
class At:
    """See the module."""

    base: Int
    step: int = 0

    @property
    def key(self) -> tuple[Any, int]:
        return (self.base.text if isinstance(self.base, Value) else self.base), self.step


ZERO = At(0)
AHEAD = 2**17  # bytes of a row that is fetched while the one before is computed


Position = At | Value  # of every lane one by one


class Access:
    """Accesses to memories at the place where the builder is."""

    b: Builder
    most: int

    def __init__(self, b: Builder, lanes: int):
        self.b, self.most = b, lanes
        self.scopes: list[dict[Any, Any]] = [{}]
        self.lanes = 0  # of the pass at hand
        self.tail: Value | None = None  # which lanes there are, where not all
        self.ahead = False  # whether loads of operands fetch the next row too
        self.multiples: dict[str, int] = {}  # what indices of loops are multiples of
        self.nest = Nest()

    # ------------------------------------------------------------ scopes

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside is not there after it."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def _found(self, key: Any) -> Any:
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key][0]
        return None

    def _note[T](self, key: Any, value: T, keep: Any = None) -> T:
        self.scopes[-1][key] = value, keep  # `keep` stays alive, so that its id is its own
        return value

    def known(self, node: Node, places: tuple[At, ...]) -> Value | None:
        return self._found((id(node), tuple(p.key for p in places)))

    def held(self, x: Value, dtype: np.dtype) -> Node:
        """A scalar that is there in this scope, as a node."""
        node = Held((), dtype)
        self._note((id(node), ()), x, node)
        return node

    def note(self, node: Node, places: tuple[At, ...], x: Value) -> None:
        """An element of a node that is there in this scope."""
        self._note((id(node), tuple(p.key for p in places)), x, node)

    def splat(self, x: Value, lanes: int) -> Value:
        if not lanes or x.lanes:
            return x
        found = self._found(("splat", x.text, x.type, lanes))
        return found or self._note(("splat", x.text, x.type, lanes), self.b.splat(x, lanes))

    # ------------------------------------------------------------ places

    def add(self, x: Int, y: Int) -> Int:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        return self._once("add", x, y) if not isinstance(x, int) or not isinstance(y, int) else 0

    def mul(self, x: Int, y: int) -> Int:
        return x * y if isinstance(x, int) else self._once("mul", x, y)

    def _once(self, op: str, x: Int, y: Int) -> Int:
        if isinstance(y, int) and y == (0 if op == "add" else 1):
            return x
        if isinstance(x, int) and x == 0 and op == "add":
            return y
        key = (op, *(v.text if isinstance(v, Value) else v for v in (x, y)))
        found = self._found(key) or self._note(key, self.b.binary(op, x, y))
        if op == "add" and isinstance(x, Value) and isinstance(y, int) and x.text in self.multiples:
            self.multiples[found.text] = math.gcd(self.multiples[x.text], y)
        return found

    def moved(self, at: At, start: Int, step: int) -> At:
        return At(self.add(self.mul(at.base, step), start), at.step * step)

    def everywhere(self, at: Position) -> Value:
        """A place as a number of every lane."""
        if isinstance(at, Value):
            return at
        base = at.base if isinstance(at.base, Value) else self.b.constant(at.base, "i64")
        if not at.step:
            return base
        return self.splat(base, self.lanes) + self.b.lane_numbers(self.lanes, "i64", at.step)

    def index(self, node: Node, places: tuple[At, ...]) -> Value:
        """An integer node as i64."""
        return self.b.cast("sext" if is_signed(node.dtype) else "zext", self.at(node, places), "i64")

    def within(self, x: Value, most: Int) -> Value:
        """A place brought between 0 and the most."""
        return self.b.intrinsic("smax", self.b.intrinsic("smin", x, most), 0)

    def start(self, node: Node, most: int | None) -> Value:
        """A scalar as a place, brought between 0 and the most if that is given."""
        found = self._found(("start", id(node), most))
        if found is None:
            place = self.index(node, ())
            found = self._note(("start", id(node), most), place if most is None else self.within(place, most), node)
        return found

    # ------------------------------------------------------------ memory

    def _locate(self, memory: Memory, positions: Sequence[Position]) -> tuple[Int, int, Value | None]:
        """The offset of positions: base, distance of lanes, and what lanes add one by one."""
        base: Int = 0
        step, apart = 0, None
        for position, stride in zip(positions, memory.strides, strict=True):
            if isinstance(position, At):
                base = self.add(base, self.mul(position.base, stride))
                step += position.step * stride
            else:
                part = position * stride
                apart = part if apart is None else apart + part
        return base, step, apart

    def _bounds(self, memory: Memory, positions: Sequence[Position]) -> Value | None:
        """Where positions are inside of the array."""
        found = None
        for position, limit in zip(positions, memory.limits, strict=False):
            if limit is not None:
                low, high = limit
                place = self.everywhere(position)
                found = self.both(found, self.b.compare("slt", place, high))
                if low is not None:
                    found = self.both(found, self.b.compare("sge", place, low))
        return found

    def both(self, x: Value | None, y: Value | None) -> Value | None:
        if x is None or y is None:
            return x if y is None else y
        return self.b.binary("and", x, y)

    def _edged(self, memory: Memory, positions: Sequence[Position]) -> list[Position]:
        """Positions out of the array brought to the nearest element of it."""
        found = list(positions)
        for d, limit in enumerate(memory.limits):
            if limit is not None:
                low, high = limit
                place = self.b.intrinsic("smin", self.everywhere(found[d]), high - 1)
                place = place if low is None else self.b.intrinsic("smax", place, low)
                found[d] = place if place.lanes else At(place)
        return found

    def read(
        self, memory: Memory, positions: Sequence[Position], mask: Value | None = None, other: Any = None
    ) -> Value:
        """Elements of a memory; where a mask is false or they are past its end, another value."""
        b, scalar = self.b, STORED[str(memory.dtype)]
        if memory.ragged and memory.fill is EDGE:
            positions = self._edged(memory, positions)
        else:
            inside = self._bounds(memory, positions)
            if inside is not None and mask is not None and other is not None:
                # Where both hold that there is something else, the mask says what.
                fill = self._fill(memory, inside.lanes)
                found = self._read(memory, positions, self.both(mask, inside), b.constant(0, scalar), scalar)
                found = b.select(self._like(inside, found), found, fill)
                return b.select(self._like(mask, found), found, other)
            mask = self.both(mask, inside)
        if other is None:
            fill = self._fill(memory, 0)
            return self._read(memory, positions, mask, to_stored(b, fill, memory.dtype), scalar)
        found = self._read(memory, positions, mask, b.constant(0, scalar), scalar)
        return found if mask is None else b.select(self._like(mask, found), found, other)

    def _like(self, mask: Value, x: Value) -> Value:
        return self.splat(mask, x.lanes) if x.lanes and not mask.lanes else mask

    def _fill(self, memory: Memory, lanes: int) -> Value:
        value = 0 if memory.fill is None or memory.fill is EDGE else memory.fill
        held = HELD[str(memory.dtype)]
        return self.b.constant(number(value, memory.dtype), vector(held, lanes))

    def _read(
        self, memory: Memory, positions: Sequence[Position], mask: Value | None, other: Value, scalar: str
    ) -> Value:
        b = self.b
        base, step, apart = self._locate(memory, positions)
        if not step and apart is None:
            if mask is None:
                return from_stored(b, b.load(b.offset(memory.base, base, scalar), scalar), memory.dtype)
            if mask.lanes:  # one place for all lanes, and some that want it
                mask, lanes = mask, mask.lanes
                every = self.splat(self.everywhere(At(base)), lanes)
                found = b.gather(memory.base, every, self._live(mask), self.splat(other, lanes))
                return from_stored(b, found, memory.dtype)
            safe = b.select(mask, self.everywhere(At(base)), 0)
            found = b.load(b.offset(memory.base, safe, scalar), scalar)
            return from_stored(b, b.select(mask, found, other), memory.dtype)
        lanes = self.lanes
        type_ = vector(scalar, lanes)
        mask = self.tail if mask is None else self._live(mask)
        if step == 1 and apart is None:
            pointer = b.offset(memory.base, base, scalar)
            if self.ahead and memory.fixed and len(memory.shape) > 1 and memory.strides[-2] * BYTES[scalar] <= AHEAD:
                b.prefetch(b.offset(pointer, memory.strides[-2], scalar))
            found = b.load(pointer, type_) if mask is None else b.masked_load(pointer, mask, self.splat(other, lanes))
            return from_stored(b, found, memory.dtype)
        offsets = self.everywhere(At(base, step))
        offsets = self.splat(offsets, lanes) if apart is None else self.splat(offsets, lanes) + self.splat(apart, lanes)
        mask = b.constant(True, vector("i1", lanes)) if mask is None else mask
        return from_stored(b, b.gather(memory.base, offsets, mask, self.splat(other, lanes)), memory.dtype)

    def _live(self, mask: Value) -> Value:
        """A mask of the lanes that there are."""
        found = self.both(self.splat(mask, self.lanes), self.tail)
        assert found is not None
        return found

    def write(
        self, memory: Memory, positions: Sequence[Position], x: Value, mask: Value | None = None, add: bool = False
    ) -> None:
        """Elements stored, where a mask holds and there is something of the array."""
        b, scalar = self.b, STORED[str(memory.dtype)]
        mask = self.both(mask, self._bounds(memory, positions))
        base, step, apart = self._locate(memory, positions)
        if add:
            old = self.read(memory, positions, mask)
            x = rounded(b, combined(b, Monoid("add"), old, x, memory.dtype), memory.dtype)
        if not step and apart is None:
            if x.lanes or mask is not None and mask.lanes:
                raise refuse("several elements are stored to one place")
            with ExitStack() as stack:
                if mask is not None:
                    stack.enter_context(b.when(mask))
                b.store(to_stored(b, x, memory.dtype), b.offset(memory.base, base, scalar))
            return
        x = to_stored(b, self.splat(x, self.lanes), memory.dtype)
        mask = self.tail if mask is None else self._live(mask)
        if step == 1 and apart is None:
            pointer = b.offset(memory.base, base, scalar)
            if mask is not None:
                b.masked_store(x, pointer, mask)
            else:
                streamed = memory.streamed and self._aligned(memory, positions[-1])
                b.store(x, pointer, min(self.lanes * memory.dtype.itemsize, LINE) if streamed else None, streamed)
            return
        offsets = self.splat(self.everywhere(At(base, step)), self.lanes)
        offsets = offsets if apart is None else offsets + self.splat(apart, self.lanes)
        b.scatter(x, memory.base, offsets, b.constant(True, vector("i1", self.lanes)) if mask is None else mask)

    def _aligned(self, memory: Memory, last: Position) -> bool:
        """Whether a row's vector starts at a multiple of its own size, where the row starts at one of `LINE`."""
        if not isinstance(last, At):
            return False
        lanes = min(self.lanes, LINE // memory.dtype.itemsize)
        multiple = last.base if isinstance(last.base, int) else self.multiples.get(last.base.text, 1)
        return multiple % lanes == 0

    def positions(
        self, memory: Memory, index: Any, operands: Sequence[Node], places: Sequence[At], masked: bool
    ) -> tuple[list[Position], Value | None]:
        """The positions in a memory of an access at places of its result, and where they are inside if it is masked."""
        given, axes = iter(operands), index.axes()
        found: list[Position] = []
        inside = None
        for d, (entry, axis) in enumerate(zip(index, axes, strict=True)):
            count, stride = entry.size, entry.stride
            reach = (count - 1) * stride
            dynamic = entry.start is None
            start: Int
            if not dynamic:
                start = entry.start or 0
            elif type(entry) is Take:
                place = self.index(next(given), tuple(places[a] for a in axis))
                start = place if masked else self.within(place, memory.shape[d] - 1)
            else:
                start = self.start(next(given), None if masked else memory.shape[d] - 1 - reach)
            at: Position
            if type(entry) is Span:
                at = self.moved(places[axis[0]], start, stride)
            elif isinstance(start, Value) and start.lanes:
                at = start
            else:
                at = At(start)
            if masked and (not isinstance(start, int) or start < 0 or start + reach >= memory.shape[d]):
                place = self.everywhere(at)
                low = self.b.compare("sge", place, 0)
                inside = self.both(inside, self.both(low, self.b.compare("slt", place, memory.shape[d])))
            found.append(at)
        return found, inside
