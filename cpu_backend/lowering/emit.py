"""Code of groups of roots: loops over their axes, an innermost axis in vectors, and elements of nodes at places.

    At ::= base + lane * step          where along an axis an element is wanted, of every lane

What does not depend on the innermost axis is computed before its loop. A node that is dear and wanted by several
passes over a row is kept for the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.primitives.refs.state_primitives import Span, Take
from ...lang.kernel.kernel import EDGE
from ..llvm.builder import Builder, Int, Value, vector
from .elementwise import extremum, from_stored, is_signed, number, rounded, to_stored
from .refusal import refuse
from .schedule import Group, Member, Place, dear, groups_of, spread, wanted_elsewhere
from .values import HELD, STORED, Fold, Held, Iota, Keep, Load, Map, Memory, Monoid, Node, Number, Product, Store, View

Allocate = Callable[[np.dtype, Sequence[int]], Memory]
F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class At:
    """See the module."""

    base: Int
    step: int = 0

    @property
    def key(self) -> tuple[Any, int]:
        return (self.base.text if isinstance(self.base, Value) else self.base), self.step


ZERO = At(0)


@dataclass(frozen=True)
class Row:
    """A node that is kept for a row: its memory, the outer loop of each of its axes, whether it is there yet."""

    memory: Memory
    loops: tuple[int | None, ...]
    there: bool = False


Position = At | Value  # of every lane one by one


class Emitter:
    """The elements of nodes at the place where the builder is."""

    def __init__(self, b: Builder, lanes: int, product: Callable[[Emitter, Product, Allocate], None]):
        self.b, self.most, self.product = b, lanes, product
        self.scopes: list[dict[Any, Any]] = [{}]
        self.lanes = 0  # of the pass at hand
        self.tail: Value | None = None  # which lanes there are, where not all
        self.rows: dict[Node, Row] = {}  # what is kept of a row
        self.indices: list[At] = []  # of the group's outer loops
        self.here = ZERO  # along the innermost axis

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
        return self._found(key) or self._note(key, self.b.binary(op, x, y))

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
                found = self.both(found, self.b.compare("slt", self.everywhere(position), limit))
        return found

    def both(self, x: Value | None, y: Value | None) -> Value | None:
        if x is None or y is None:
            return x if y is None else y
        return self.b.binary("and", x, y)

    def _edged(self, memory: Memory, positions: Sequence[Position]) -> list[Position]:
        """Positions past the end brought to the last element."""
        found = list(positions)
        for d, limit in enumerate(memory.limits):
            if limit is not None:
                place = self.b.intrinsic("smin", self.everywhere(found[d]), limit - 1)
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
            x = rounded(
                b, self.combined(Monoid("add"), self.read(memory, positions, mask), x, memory.dtype), memory.dtype
            )
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
            b.store(x, pointer) if mask is None else b.masked_store(x, pointer, mask)
            return
        offsets = self.splat(self.everywhere(At(base, step)), self.lanes)
        offsets = offsets if apart is None else offsets + self.splat(apart, self.lanes)
        b.scatter(x, memory.base, offsets, b.constant(True, vector("i1", self.lanes)) if mask is None else mask)

    def positions(
        self, memory: Memory, index: Any, operands: Sequence[Node], places: Sequence[At], masked: bool
    ) -> tuple[list[Position], Value | None]:
        """The positions in a memory of an access at places of its result, and where they are inside if it is masked."""
        given, axes = iter(operands), index.axes()
        found: list[Position] = []
        inside = None
        for d, (entry, axis) in enumerate(zip(index, axes, strict=True)):
            count, stride = (entry.size, entry.stride) if type(entry) is Span else (1, 1)
            reach = (count - 1) * stride
            dynamic = type(entry) is Take or entry.start is None
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

    # ------------------------------------------------------------ elements

    def at(self, node: Node, places: tuple[At, ...]) -> Value:
        """An element of a node at places along its axes: a vector where they differ from lane to lane."""
        key = id(node), tuple(p.key for p in places)
        found = self._found(key)
        return found if found is not None else self._note(key, self._at(node, places), node)

    def _at(self, node: Node, places: tuple[At, ...]) -> Value:
        if node.memory is not None:
            return self.read(node.memory, places)
        row = self.rows.get(node)
        own = () if row is None else tuple(self.here if k is None else self.indices[k] for k in row.loops)
        if row is None or not self.here.step or [p.key for p in places] != [p.key for p in own]:
            return self._made(node, places)
        if row.there:
            return self.read(row.memory, [self.here])
        found = self._made(node, places)
        self.write(row.memory, [self.here], found)
        return found

    def _made(self, node: Node, places: tuple[At, ...]) -> Value:
        b = self.b
        if isinstance(node, Number):
            return b.constant(number(node.value, node.dtype), HELD[str(node.dtype)])
        if isinstance(node, Iota):
            return self._iota(node, places[node.axis])
        if isinstance(node, View):
            return self.at(node.operands[0], self.inner(node, places))
        if isinstance(node, Load):
            return self._load(node, places)
        if not isinstance(node, Map):
            raise refuse(f"a {type(node).__name__.lower()} of shape {node.shape} is wanted where it is not complete")
        values = [self.at(x, spread(x.shape, node.shape, places) if x.shape else ()) for x in node.operands]
        lanes = max((v.lanes for v in values), default=0)
        if lanes:
            values = [
                b.constant(number(n.value, n.dtype), vector(v.type, lanes)) if isinstance(n, Number)
                else self.splat(v, lanes) for n, v in zip(node.operands, values, strict=True)
            ]  # fmt: skip
        dtypes = [x.dtype for x in node.operands]
        return rounded(b, node.rule(b, *values, dtypes=dtypes, dtype=node.dtype, **node.params), node.dtype)

    def inner(self, node: View, places: tuple[At, ...]) -> tuple[At, ...]:
        """Where in its operand a view has its elements."""
        moved = dict(node.starts)
        found = []
        for axis, (along, start, step) in enumerate(node.places):
            if axis in moved:
                most = node.operands[0].shape[axis] - (1 if along is None else node.shape[along])
                start = self.start(node.operands[moved[axis]], most)
            found.append(At(start) if along is None else self.moved(places[along], start, step))
        return tuple(found)

    def _iota(self, node: Iota, at: At) -> Value:
        b, held = self.b, HELD[str(node.dtype)]
        whole = held if held[0] == "i" else "i64"
        base = at.base if isinstance(at.base, Value) else b.constant(at.base, "i64")
        base = base if whole == "i64" else b.cast("trunc", base, whole)
        if at.step:
            base = self.splat(base, self.lanes) + b.lane_numbers(self.lanes, whole, at.step)
        return base if whole == held else rounded(b, b.cast("sitofp", base, held), node.dtype)

    def _load(self, node: Load, places: tuple[At, ...]) -> Value:
        positions, inside = self.positions(node.source, node.index, node.positions, places, node.masked)
        if node.mask is None:
            return self.read(node.source, positions)
        mask = self.at(node.mask, places)
        other = node.other
        value = None if other is None else self.at(other, places if other.shape else ())
        if value is None:
            value = self.b.constant(number(0, node.dtype), HELD[str(node.dtype)])
        return self.read(node.source, positions, self.both(mask, inside), value)

    # ------------------------------------------------------------ combining

    def combined(self, monoid: Monoid, x: Value, y: Value, dtype: np.dtype) -> Value:
        if monoid.name in ("max", "min"):
            return extremum(self.b, x, y, dtype, monoid.name == "max")
        if dtype.kind == "b":
            return self.b.binary({"add": "or", "mul": "and"}.get(monoid.name, monoid.name), x, y)
        return self.b.binary(monoid.name, x, y)

    def across(self, monoid: Monoid, x: Value, dtype: np.dtype) -> Value:
        """The lanes of a vector combined, half with half."""
        b, lanes = self.b, x.lanes
        while lanes > 1:
            half = lanes // 2
            type_ = vector(x.scalar, half)
            parts = []
            for start in (0, half):
                picked = ", ".join(f"i32 {start + i}" for i in range(half))
                parts.append(
                    b.value(type_, f"shufflevector {x.type} {x.text}, {x.type} poison, <{half} x i32> <{picked}>")
                )
            x, lanes = self.combined(monoid, parts[0], parts[1], dtype), half
        return b.extract(x, 0) if x.lanes else x

    # ------------------------------------------------------------ groups

    def run(self, roots: Sequence[Any], allocate: Allocate) -> None:
        """The code of roots, in order."""
        groups = groups_of(roots)
        for fold in wanted_elsewhere(groups):
            if fold.target is None:
                fold.target = fold.node.place = allocate(fold.node.dtype, fold.node.shape)
        for group in groups:
            if isinstance(group.members[0].root, Product):
                root = group.members[0].root
                if root.target is None:
                    root.target = root.value.place = allocate(root.value.dtype, root.value.shape)
                self.product(self, root, allocate)
                root.value.memory = root.target
            else:
                self._group(group, allocate)

    def _group(self, group: Group, allocate: Allocate) -> None:
        if any(0 in m.root.domain for m in group.members):
            self._empty(group)
            return
        sums: dict[Member, Memory] = {}
        for member in group.members:
            if member.folded:
                sums[member] = self._started(member, allocate)
        kept = dear(group)
        for node, (_, loops) in kept.items():
            dtype = F32 if HELD[str(node.dtype)] == "float" else node.dtype
            self.rows[node] = Row(allocate(dtype, (node.shape[loops.index(None)],)), loops)
        with ExitStack() as stack:
            stack.enter_context(self.scope())
            indices = self.indices = []
            for size in group.sizes:
                loop = stack.enter_context(self.b.loop(0, size, empty=False)) if size > 1 else None
                indices.append(ZERO if loop is None else At(loop.index))
            for level in range(max(m.level for m in group.members) + 1):
                members = [m for m in group.members if m.level == level]
                for width in sorted({m.width for m in members}):
                    self._pass([m for m in members if m.width == width], width, indices, sums)
                self.rows |= {n: replace(self.rows[n], there=True) for n, (first, _) in kept.items() if first == level}
        self.rows = {}
        for member, memory in sums.items():
            self._rounded_sum(member, memory)
        for member in group.members:
            root = member.root
            if isinstance(root, (Keep, Fold)) and root.target is not None:
                root.value.memory = sums.get(member, root.target)

    def _empty(self, group: Group) -> None:
        """Reductions of nothing are neutral; there is nothing else to do."""
        for member in group.members:
            root = member.root
            if isinstance(root, Fold):
                if root.target is not None:
                    self._filled(root.target, root.node.monoid.neutral(root.node.dtype))
                    root.node.memory = root.target
                elif root.node.size:
                    value = number(root.node.monoid.neutral(root.node.dtype), root.node.dtype)
                    self._note((id(root.node), ()), self.b.constant(value, HELD[str(root.node.dtype)]), root.node)
            elif isinstance(root, Keep):
                root.value.memory = root.target

    def _filled(self, memory: Memory, value: Any) -> None:
        """One number in all of a contiguous memory."""
        b, size = self.b, math.prod(memory.shape)
        stored = to_stored(b, b.constant(number(value, memory.dtype), HELD[str(memory.dtype)]), memory.dtype)
        with b.loop(0, size) as loop:
            b.store(stored, b.offset(memory.base, loop.index, stored.type))

    def _started(self, member: Member, allocate: Allocate) -> Memory:
        """Memory for what a reduction over the outer loops has so far; of more digits where the dtype has few."""
        root = member.root
        assert isinstance(root, Fold) and root.target is not None
        node = root.node
        narrow = HELD[str(node.dtype)] == "float" and node.dtype != F32
        memory = allocate(F32, node.shape) if narrow else root.target
        self._filled(memory, node.monoid.neutral(node.dtype))
        return memory

    def _rounded_sum(self, member: Member, memory: Memory) -> None:
        root, b = member.root, self.b
        assert isinstance(root, Fold) and root.target is not None
        if memory is root.target:
            return
        with b.loop(0, math.prod(memory.shape)) as loop:
            place = b.offset(memory.base, loop.index, "float")
            b.store(rounded(b, b.load(place, "float"), root.node.dtype), place)

    # ------------------------------------------------------------ passes

    def _places(self, member: Member, indices: Sequence[At], inner: At) -> tuple[At, ...]:
        """Where along its axes a root is."""
        return tuple(inner if loop is None else indices[loop] for loop in member.loops)

    def _pass(self, members: list[Member], width: int, indices: Sequence[At], sums: dict[Member, Memory]) -> None:
        """The roots of one level over one innermost axis."""
        lanes = min(self.most, 1 << (width - 1).bit_length()) if width > 1 else 0
        self._hoist(members, indices, lanes)
        folds = [m for m in members if isinstance(m.root, Fold) and (m.inner is None or m.inner in m.root.node.axes)]
        if not lanes:
            self._point(members, indices, ZERO, sums, {m: [] for m in folds})
            self._kept(members)
            return
        self.lanes = lanes
        full, rest = divmod(width, lanes)
        unroll = 4 if full >= 4 else 1
        running = {m: [self._neutral(m, lanes)] * (unroll if folds else 1) for m in folds}
        turns = full // unroll
        if turns > 1:
            carried = [v for values in running.values() for v in values]
            with self.scope(), self.b.loop(0, turns * unroll * lanes, unroll * lanes, carried, empty=False) as loop:
                values = iter(loop.carried)
                inside = {m: [next(values) for _ in found] for m, found in running.items()}
                for u in range(unroll):
                    here = At(self.add(loop.index, u * lanes), 1)
                    self._vector(members, indices, here, sums, inside, u)
                loop.next = [v for found in inside.values() for v in found]
            values = iter(loop.out)
            running = {m: [next(values) for _ in found] for m, found in running.items()}
            done = turns * unroll
        else:
            done = 0
        for k in range(done, full):
            self._vector(members, indices, At(k * lanes, 1), sums, running, (k - done) % unroll)
        if rest:
            bits = ", ".join(f"i1 {'true' if i < rest else 'false'}" for i in range(lanes))
            self.tail = Value(f"<{bits}>", vector("i1", lanes), self.b)
            self._vector(members, indices, At(full * lanes, 1), sums, running, 0)
            self.tail = None
        for member, values in running.items():
            self._finish(member, values, indices, sums)
        self.lanes = 0
        self._kept(members)

    @staticmethod
    def _kept(members: Sequence[Member]) -> None:
        """What a pass has put into memory is read from there: its row is complete."""
        for member in members:
            if isinstance(member.root, Keep):
                member.root.value.memory = member.root.target

    def _hoist(self, members: Sequence[Member], indices: Sequence[At], lanes: int) -> None:
        """Compute before the innermost loop what is the same in all of its turns."""
        for member in members:
            for node, places in member.reached:
                if isinstance(node, Load) and node.memory is None and not node.masked and lanes:
                    self._starts(node)
                if isinstance(node, Number) or any(p[1] is None for p in places):
                    continue
                if any(p[0] is not None and member.loops[p[0]] is None for p in places):
                    continue
                if isinstance(node, (View, Iota)) or isinstance(node, Load) and node.memory is None and node.masked:
                    continue
                here = tuple(self._place(member, indices, p) for p in places)
                if lanes and not self._depends(node):
                    self.splat(self.at(node, here), lanes)

    def _starts(self, node: Load) -> None:
        """Compute where a load that is not of a static part begins."""
        for operand, axis in zip(node.positions, node.index.dynamic, strict=True):
            entry = node.index[axis]
            if type(entry) is not Take:
                reach = (entry.size - 1) * entry.stride if type(entry) is Span else 0
                self.start(operand, node.source.shape[axis] - 1 - reach)

    def _depends(self, node: Node) -> bool:
        """Whether a node cannot be computed yet."""
        if node.memory is not None or isinstance(node, (Map, Load, View, Number, Iota)):
            return False
        return not any(key[0] == id(node) for scope in self.scopes for key in scope)

    def _place(self, member: Member, indices: Sequence[At], place: Place) -> At:
        along, start, step = place
        assert start is not None
        if along is None:
            return At(start)
        loop = member.loops[along]
        assert loop is not None
        return self.moved(indices[loop], start, step)

    def _neutral(self, member: Member, lanes: int) -> Value:
        root = member.root
        assert isinstance(root, Fold)
        dtype = root.node.dtype
        return self.b.constant(number(root.node.monoid.neutral(dtype), dtype), vector(HELD[str(dtype)], lanes))

    def _vector(
        self, members: Sequence[Member], indices: Sequence[At], inner: At, sums: dict[Member, Memory],
        running: dict[Member, list[Value]], slot: int,
    ) -> None:  # fmt: skip
        with self.scope():
            self._point(members, indices, inner, sums, running, slot)

    def _point(
        self, members: Sequence[Member], indices: Sequence[At], inner: At, sums: dict[Member, Memory],
        running: dict[Member, list[Value]], slot: int = 0,
    ) -> None:  # fmt: skip
        """All roots of a pass at one place: every value first, then what is stored."""
        self.here, values = inner, []
        for member in members:
            places = self._places(member, indices, inner)
            root = member.root
            node = root.value.operands[0] if isinstance(root, Fold) else root.value
            values.append((member, places, self.at(node, places)))
        for member, places, x in values:
            self._done(member, places, x, sums, running, slot)

    def _done(
        self, member: Member, places: tuple[At, ...], x: Value, sums: dict[Member, Memory],
        running: dict[Member, list[Value]], slot: int,
    ) -> None:  # fmt: skip
        root, b = member.root, self.b
        if isinstance(root, Store):
            self._store(root, places, x)
        elif isinstance(root, Keep):
            self.write(root.target, places, x)
        elif isinstance(root, Fold):
            node = root.node
            if member not in running:  # over outer loops alone
                memory, kept = sums[member], [places[a] for a in node.kept]
                old = self.read(memory, kept)
                self.write(memory, kept, self.combined(node.monoid, old, x, node.dtype))
            elif member.inner is None or not running[member]:
                self._result(member, x, places, sums)
            else:
                lanes = running[member][slot].lanes
                x = self.splat(x, lanes)
                x = x if self.tail is None else b.select(self.tail, x, self._neutral(member, lanes))
                running[member][slot] = self.combined(node.monoid, running[member][slot], x, node.dtype)

    def _finish(self, member: Member, values: list[Value], indices: Sequence[At], sums: dict[Member, Memory]) -> None:
        """A row's reduction from what its lanes have."""
        root = member.root
        assert isinstance(root, Fold)
        monoid, dtype = root.node.monoid, root.node.dtype
        while len(values) > 1:
            pairs = list(zip(values[::2], values[1::2], strict=False))
            values = [self.combined(monoid, x, y, dtype) for x, y in pairs] + values[len(pairs) * 2 :]
        self._result(member, self.across(monoid, values[0], dtype), self._places(member, indices, ZERO), sums)

    def _result(self, member: Member, x: Value, places: tuple[At, ...], sums: dict[Member, Memory]) -> None:
        root = member.root
        assert isinstance(root, Fold)
        node = root.node
        kept = tuple(places[a] for a in node.kept)
        if member in sums:
            memory = sums[member]
            self.write(memory, kept, self.combined(node.monoid, self.read(memory, kept), x, node.dtype))
            return
        x = rounded(self.b, x, node.dtype)
        self._note((id(node), tuple(p.key for p in kept)), x, node)
        if root.target is not None:
            self.write(root.target, kept, x)

    def _store(self, root: Store, places: tuple[At, ...], x: Value) -> None:
        masked = root.mask is not None
        positions, inside = self.positions(root.target, root.index, root.positions, places, masked)
        mask = None if root.mask is None else self.both(self.at(root.mask, places), inside)
        self.write(root.target, positions, x, mask, root.add)
