"""Code of groups of roots: loops over their axes, an innermost axis in vectors.

What does not depend on the innermost axis is computed before its loop. A node that is dear and wanted by several
passes over a row is kept for the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.primitives.refs.state_primitives import Span, Take
from ..llvm.builder import Builder, Value, vector
from .access import ZERO, At
from .elementwise import across, combined, number, rounded, to_stored
from .expression_graph import HELD, Apart, Fold, Iota, Keep, Load, Map, Memory, Node, Number, Product, Store, View
from .loop_fusion import Group, Member, Place, dear, finish, groups_of, wanted_elsewhere
from .nest import pass_text
from .node_codegen import Elements, Row

Allocate = Callable[[np.dtype, Sequence[int]], Memory]
F32 = np.dtype(np.float32)
UNROLL = 4  # vectors of a pass in one iteration of its loop


class Emitter(Elements):
    """The code of roots at the place where the builder is."""

    here: At
    indices: list[At]

    def __init__(self, b: Builder, lanes: int, apart: Mapping[type[Apart], Callable[[Emitter, Any, Allocate], None]]):
        super().__init__(b, lanes)
        self.apart = apart
        self.placed: list[list[Node]] = [[]]  # what has been put in memory, by region of the body

    def run(self, roots: Sequence[Any], allocate: Allocate) -> None:
        """The code of roots, in order."""
        groups = groups_of(roots)
        for fold in wanted_elsewhere(groups):
            if fold.target is None:
                fold.target = fold.node.place = allocate(fold.node.dtype, fold.node.shape)
        for place, group in enumerate(groups):
            root = group.members[0].root if group.members else None
            if isinstance(root, Product):
                root.store = finish(groups, place)
            if isinstance(root, Product) and root.store is not None:
                self.apart[Product](self, root, allocate)
            elif isinstance(root, Apart):
                if root.target is None:
                    root.target = root.value.place = allocate(root.value.dtype, root.value.shape)
                self.apart[type(root)](self, root, allocate)
                self._in_memory(root.value, root.target)
            elif group.members:
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
                if size == 1:
                    indices.append(ZERO)
                    continue
                stack.enter_context(self.nest.inside(f"loop of {size}"))
                indices.append(At(stack.enter_context(self.b.loop(0, size, empty=False)).index))
            for level in range(max(m.level for m in group.members) + 1):
                self.ahead = level == 1 and bool(indices)  # the first pass waits for memory, later ones compute
                members = [m for m in group.members if m.level == level]
                for width in sorted({m.width for m in members}):
                    rows = sum(f == level and self.rows[n].memory.shape == (width,) for n, (f, _) in kept.items())
                    self._pass([m for m in members if m.width == width], width, indices, sums, rows)
                self.rows |= {n: replace(self.rows[n], there=True) for n, (first, _) in kept.items() if first == level}
        self.ahead = False
        self.rows: dict[Node, Row] = {}
        for member, memory in sums.items():
            self._rounded_sum(member, memory)
        for member in group.members:
            root = member.root
            if isinstance(root, (Keep, Fold)) and root.target is not None:
                self._in_memory(root.value, sums.get(member, root.target))

    def _empty(self, group: Group) -> None:
        """Reductions of nothing are neutral; there is nothing else to do."""
        for member in group.members:
            root = member.root
            if isinstance(root, Fold):
                if root.target is not None:
                    self.fill(root.target, root.node.monoid.neutral(root.node.dtype))
                    self._in_memory(root.node, root.target)
                elif root.node.size:
                    value = number(root.node.monoid.neutral(root.node.dtype), root.node.dtype)
                    self._note((id(root.node), ()), self.b.constant(value, HELD[str(root.node.dtype)]), root.node)
            elif isinstance(root, Keep):
                self._in_memory(root.value, root.target)

    def fill(self, memory: Memory, value: Any) -> None:
        """One number in all of a contiguous memory."""
        b, size = self.b, math.prod(memory.shape)
        stored = to_stored(b, b.constant(number(value, memory.dtype), HELD[str(memory.dtype)]), memory.dtype)
        whole = size // self.most * self.most
        if whole:
            every = b.splat(stored, self.most)
            with b.loop(0, whole, self.most, empty=False) as loop:
                b.store(every, b.offset(memory.base, loop.index, stored.type))
        with b.loop(whole, size) as loop:
            b.store(stored, b.offset(memory.base, loop.index, stored.type))

    def _started(self, member: Member, allocate: Allocate) -> Memory:
        """Memory for what a reduction over the outer loops has so far; of more digits where the dtype has few."""
        root = member.root
        assert isinstance(root, Fold) and root.target is not None
        node = root.node
        narrow = HELD[str(node.dtype)] == "float" and node.dtype != F32
        memory = allocate(F32, node.shape) if narrow else root.target
        self.fill(memory, node.monoid.neutral(node.dtype))
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

    def _pass(
        self, members: list[Member], width: int, indices: Sequence[At], sums: dict[Member, Memory], rows: int
    ) -> None:
        """The roots of one level over one innermost axis; `rows` are the values that are kept for the row."""
        lanes = min(self.most, 1 << (width - 1).bit_length()) if width > 1 else 0
        unroll = UNROLL if lanes and width // lanes >= UNROLL else 1
        self.nest.line(pass_text(members, width, lanes, unroll, rows if lanes else 0))
        self._hoist(members, indices, lanes)
        folds = [m for m in members if isinstance(m.root, Fold) and (m.inner is None or m.inner in m.root.node.axes)]
        if not lanes:
            self._point(members, indices, ZERO, sums, {m: [] for m in folds})
            self._kept(members)
            return
        self.lanes = lanes
        full, rest = divmod(width, lanes)
        running = {m: [self._neutral(m, lanes)] * (unroll if folds else 1) for m in folds}
        turns = full // unroll
        if turns > 1:
            carried = [v for values in running.values() for v in values]
            with self.scope(), self.b.loop(0, turns * unroll * lanes, unroll * lanes, carried, empty=False) as loop:
                values = iter(loop.carried)
                inside = {m: [next(values) for _ in found] for m, found in running.items()}
                self.multiples[loop.index.text] = lanes
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
            self.tail = self.b.lanes_below(rest, lanes)
            self._vector(members, indices, At(full * lanes, 1), sums, running, 0)
            self.tail = None
        for member, values in running.items():
            self._finish(member, values, indices, sums)
        self.lanes: int = 0
        self._kept(members)

    def _in_memory(self, node: Node, memory: Memory) -> None:
        """A node's elements are read from a memory from here on, to the end of the region."""
        node.memory = memory
        self.placed[-1].append(node)

    def _kept(self, members: Sequence[Member]) -> None:
        """What a pass has put into memory is read from there: its row is complete."""
        for member in members:
            if isinstance(member.root, Keep):
                self._in_memory(member.root.value, member.root.target)

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
            self.store(root, places, x)
        elif isinstance(root, Keep):
            self.write(root.target, places, x)
        elif isinstance(root, Fold):
            node = root.node
            if member not in running:  # over outer loops alone
                memory, kept = sums[member], [places[a] for a in node.kept]
                old = self.read(memory, kept)
                self.write(memory, kept, combined(b, node.monoid, old, x, node.dtype))
            elif member.inner is None or not running[member]:
                self._result(member, x, places, sums)
            else:
                lanes = running[member][slot].lanes
                x = self.splat(x, lanes)
                x = x if self.tail is None else b.select(self.tail, x, self._neutral(member, lanes))
                running[member][slot] = combined(b, node.monoid, running[member][slot], x, node.dtype)

    def _finish(self, member: Member, values: list[Value], indices: Sequence[At], sums: dict[Member, Memory]) -> None:
        """A row's reduction from what its lanes have."""
        root = member.root
        assert isinstance(root, Fold)
        monoid, dtype = root.node.monoid, root.node.dtype
        while len(values) > 1:
            pairs = list(zip(values[::2], values[1::2], strict=False))
            values = [combined(self.b, monoid, x, y, dtype) for x, y in pairs] + values[len(pairs) * 2 :]
        self._result(member, across(self.b, monoid, values[0], dtype), self._places(member, indices, ZERO), sums)

    def _result(self, member: Member, x: Value, places: tuple[At, ...], sums: dict[Member, Memory]) -> None:
        root = member.root
        assert isinstance(root, Fold)
        node = root.node
        kept = tuple(places[a] for a in node.kept)
        if member in sums:
            memory = sums[member]
            self.write(memory, kept, combined(self.b, node.monoid, self.read(memory, kept), x, node.dtype))
            return
        x = rounded(self.b, x, node.dtype)
        self._note((id(node), tuple(p.key for p in kept)), x, node)
        if root.target is not None:
            self.write(root.target, kept, x)

    def store(self, root: Store, places: tuple[At, ...], x: Value) -> None:
        masked = root.mask is not None
        positions, inside = self.positions(root.target, root.index, root.positions, places, masked)
        mask = None if root.mask is None else self.both(self.at(root.mask, places), inside)
        again = root.add or isinstance(root.value, Number)  # a constant is likely to be added to
        target = replace(root.target, streamed=False) if again and root.target.streamed else root.target
        self.write(target, positions, x, mask, root.add)
