"""Elements of nodes at places: computed where they are wanted, or read where they have been put."""

from __future__ import annotations

from dataclasses import dataclass

from ..llvm.builder import Builder, Value, vector
from .access import ZERO, Access, At
from .elementwise import number, rounded
from .expression_graph import HELD, Iota, Load, Map, Memory, Node, Number, View
from .loop_fusion import spread
from .refusal import refuse


@dataclass(frozen=True)
class Row:
    """A node that is kept for a row: its memory, the outer loop of each of its axes, whether it is there yet."""

    memory: Memory
    loops: tuple[int | None, ...]
    there: bool = False


class Elements(Access):
    """The elements of nodes at the place where the builder is."""

    def __init__(self, b: Builder, lanes: int):
        super().__init__(b, lanes)
        self.rows: dict[Node, Row] = {}  # what is kept of a row
        self.indices: list[At] = []  # of the group's outer loops
        self.here = ZERO  # along the innermost axis

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
