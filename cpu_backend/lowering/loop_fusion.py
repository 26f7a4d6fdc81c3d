"""Which roots share loops: groups with common outer loops, and within a group passes over the innermost axis.

    Group ::= outer loops, roots; each root with the loops of its axes, at most one axis besides, and a level
    level ::= how many results of the group, of the same turn of its outer loops, a root has to wait for

So a row's maximum, the sum of its exponentials and its quotients are three passes over one row, in cache, and a row's
reductions are in registers when the next pass wants them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...core.primitives.refs.state_primitives import Take
from .expression_graph import Apart, Fold, Load, Map, Node, Product, Root, Shape, Store, View

# Where along a root's axes an element of a node is wanted, for each axis of the node: (axis, start, step); axis None:
# at `start` always; start None: at a place that is computed.
Place = tuple[int | None, int | None, int]
Places = tuple[Place, ...]
CHEAP = 16  # what an element's use may cost where it is repeated for every register of a product
HERE = 0, 1  # start and step of the element at the very place


def reached(root: Root, produced: Mapping[Node, Root]) -> list[tuple[Node, Places]]:
    """The nodes that a root computes or reads, with their places; what other roots make is not looked into."""
    top = tuple((d, *HERE) for d in range(len(root.domain)))
    own = root.value
    waiting: list[tuple[Node, Places]] = [(root.value.operands[0] if isinstance(root, Fold) else root.value, top)]
    if isinstance(root, Store):
        axes = root.index.axes()
        for node, axis in zip(root.positions, root.index.dynamic, strict=True):
            waiting.append((node, tuple(top[a] for a in axes[axis]) if node.shape else ()))
        if root.mask is not None:
            waiting.append((root.mask, top if root.mask.shape else ()))
    found: dict[tuple[Node, Places], None] = {}
    while waiting:
        node, places = waiting.pop()
        if (node, places) in found:
            continue
        found[node, places] = None
        if node.memory is None and (node is own or node not in produced):
            waiting.extend(inputs_of(node, places))
    return list(found)


def inputs_of(node: Node, places: Places) -> Iterator[tuple[Node, Places]]:
    """The operands of a node with the places at which it wants them."""
    if isinstance(node, View):
        moved = dict(node.starts)
        inner = []
        for axis, (along, start, step) in enumerate(node.places):
            here: Place = (None, start, 0) if along is None else _moved(places[along], start, step)
            inner.append((here[0], None, here[2]) if axis in moved else here)
        yield node.operands[0], tuple(inner)
        yield from ((operand, ()) for operand in node.operands[1:])
    elif isinstance(node, Load):
        axes = node.index.axes()
        for operand, axis in zip(node.positions, node.index.dynamic, strict=True):
            yield operand, tuple(places[a] for a in axes[axis]) if operand.shape else ()
        for operand in (node.mask, node.other):
            if operand is not None:
                yield operand, places if operand.shape else ()
    elif isinstance(node, Map):
        for operand in node.operands:
            yield operand, spread(operand.shape, node.shape, places)
    else:
        yield from ((operand, ((None, None, 0),) * len(operand.shape)) for operand in node.operands)


def _moved(place: Place, start: int, step: int) -> Place:
    along, first, stride = place
    return along, None if first is None else start + step * first, stride * step


def spread(inner: Shape, outer: Shape, places: tuple) -> tuple:
    """Places of an operand whose shape is repeated to that of the result."""
    if inner == outer:
        return places
    skip = len(outer) - len(inner)
    return tuple((None, 0, 0) if n == 1 != outer[skip + d] else places[skip + d] for d, n in enumerate(inner))


@dataclass(eq=False)
class Member:
    """A root in a group: by axis of its domain the outer loop that it is (None: the innermost axis), and its level."""

    root: Root
    loops: tuple[int | None, ...]
    reached: list[tuple[Node, Places]]
    level: int = 0

    @property
    def inner(self) -> int | None:
        """The axis that is vectorised."""
        return self.loops.index(None) if None in self.loops else None

    @property
    def width(self) -> int:
        return 1 if self.inner is None else self.root.domain[self.inner]

    @property
    def folded(self) -> bool:
        """Whether the root combines elements of several turns of the outer loops."""
        return isinstance(self.root, Fold) and any(self.loops[a] is not None for a in self.root.node.axes)


@dataclass(eq=False)
class Group:
    """Roots that share outer loops."""

    sizes: Shape
    members: list[Member] = field(default_factory=list)

    def producer(self, node: Node) -> Member | None:
        return next((m for m in self.members if m.root.value is node and not isinstance(m.root, Store)), None)

    def fit(self, root: Root, found: list[tuple[Node, Places]]) -> Member | None:
        """The root as a member of this group; None where it must wait for the group's end."""
        domain = root.domain
        alone = any(isinstance(r, Apart) or repeated(r) for r in (root, self.members[0].root))
        if alone or len(domain) not in (len(self.sizes), len(self.sizes) + 1):
            return None
        loops: list[int | None] = [None] * len(domain)
        for node, places in found:
            producer = self.producer(node)
            if producer is None:
                continue
            if producer.folded:
                return None
            kept = producer.root.node.kept if isinstance(producer.root, Fold) else range(len(node.shape))
            for place, axis in zip(places, kept, strict=True):
                loop = producer.loops[axis]
                if loop is None:
                    continue  # along a row that is complete
                if place[0] is None or place[1:] != HERE or loops[place[0]] not in (None, loop):
                    return None
                loops[place[0]] = loop
        taken = {loop for loop in loops if loop is not None}
        if len(taken) != sum(loop is not None for loop in loops):
            return None
        free = [loop for loop in range(len(self.sizes)) if loop not in taken]
        rows = len(domain) - (len(domain) > len(self.sizes))  # the last axis is not an outer loop in place of another
        for axis, size in enumerate(domain[:rows]):
            if loops[axis] is None and free and self.sizes[free[0]] == size:
                loops[axis] = free.pop(0)
        if free or loops.count(None) > 1:
            return None
        if any(loop is not None and self.sizes[loop] != domain[a] for a, loop in enumerate(loops)):
            return None
        member = Member(root, tuple(loops), found)
        return member if self._in_order(member) and self._computed_alike(member) else None

    def _computed_alike(self, member: Member) -> bool:
        """Whether members before it that compute a node for themselves want the element that it puts into memory."""
        if isinstance(member.root, Store):
            return True
        uses = [(m, places) for m in self.members for node, places in m.reached if node is member.root.value]
        return all(self._loops(m, places) == member.loops for m, places in uses)

    @staticmethod
    def _loops(member: Member, places: Places) -> tuple[int | None, ...] | None:
        """The loops of a node's axes, where a member wants its element of the very place; else None."""
        if any(p[0] is None or p[1:] != HERE for p in places):
            return None
        return tuple(member.loops[p[0]] for p in places if p[0] is not None)

    def _in_order(self, member: Member) -> bool:
        """Whether a store changes only elements that members before it have read in the same turn."""
        root = member.root
        if not isinstance(root, Store):
            return True
        for other in self.members:
            for node, places in other.reached:
                if isinstance(node, Load) and node.source.same(root.target) and node.memory is None:
                    if not aligned(node, root):
                        return False
                    if self._loops(other, places) != member.loops:
                        return False
        return True

    def add(self, member: Member) -> None:
        level = 0
        for node, _ in member.reached:
            producer = self.producer(node)
            if producer is not None:
                level = max(level, producer.level + 1)
        if isinstance(member.root, Store):
            for other in self.members:
                if any(isinstance(n, Load) and n.source.same(member.root.target) for n, _ in other.reached):
                    level = max(level, other.level + (other.width != member.width))
        member.level = level
        self.members.append(member)


def repeated(root: Root) -> bool:
    return isinstance(root, Store) and root.repeated


def _in_turn(root: Root) -> bool:
    """Whether the elements of the last axis may be one in memory, so that they are added one after the other."""
    if not isinstance(root, Store) or not root.repeated:
        return False
    last, axes = len(root.domain) - 1, root.index.axes()
    return any(last in axis for entry, axis in zip(root.index, axes, strict=True) if type(entry) is Take)


def aligned(load: Load, store: Store) -> bool:
    """Whether a load reads at each place the element that a store changes there."""
    return load.index == store.index and not load.index.dynamic and not load.masked


def groups_of(roots: Sequence[Root]) -> list[Group]:
    """The roots, in order, in groups that run one after the other."""
    produced: dict[Node, Root] = {}  # by the roots so far
    groups: list[Group] = []
    for root in roots:
        found = reached(root, produced)
        member = groups[-1].fit(root, found) if groups else None
        if member is None:
            count = max(len(root.domain) - (not _in_turn(root)), 0)
            groups.append(Group(tuple(root.domain[:count])))
            member = Member(root, (*range(count), *[None] * (len(root.domain) - count)), found)
        groups[-1].add(member)
        if not isinstance(root, Store):
            produced[root.value] = root
    return groups


def wanted_elsewhere(groups: Sequence[Group]) -> Iterator[Fold]:
    """The reductions whose results another group reads, or that are complete only after their group."""
    for group in groups:
        own = {m.root.value: m for m in group.members if isinstance(m.root, Fold)}
        for node, member in own.items():
            others = any(node is n for g in groups if g is not group for m in g.members for n, _ in m.reached)
            if member.folded or others:
                assert isinstance(member.root, Fold)
                yield member.root


def finish(groups: Sequence[Group], number: int) -> Store | None:
    """The store after a product that alone uses it, element by element and cheaply; it is taken out of its group."""
    own, *_ = groups[number].members
    root, following = own.root, groups[number + 1 : number + 2]
    if not isinstance(root, Product) or not following or not following[0].members:
        return None
    node, (first, *others) = root.value, following[0].members
    store = first.root
    if root.target is not None or node.place is not None or len(node.shape) != 2 or not isinstance(store, Store):
        return None
    uses = [(m, places) for g in groups for m in g.members for n, places in m.reached if n is node and m is not own]
    if any(m is not first or places != tuple((d, *HERE) for d in range(2)) for m, places in uses) or not uses:
        return None
    if store.index.takes or store.domain != node.shape or cost(store.value) > CHEAP:
        return None
    if any(isinstance(n, Load) and n.source.same(store.target) for m in (own, *others) for n, _ in m.reached):
        return None
    following[0].members.pop(0)
    return store


Loops = tuple[int | None, ...]


def dear(group: Group) -> dict[Node, tuple[int, Loops]]:
    """Nodes that passes of several levels want, kept for a row: the level that makes them, and their loops."""
    found: dict[Node, dict[Loops, set[int]]] = {}
    for member in group.members:
        if member.inner is None:
            continue
        for node, places in member.reached:
            if not isinstance(node, Map) or node.memory is not None or not all(p[1:] == HERE for p in places):
                continue
            loops = tuple(None if p[0] is None else member.loops[p[0]] for p in places)
            if loops.count(None) == 1 and all(p[0] is not None for p in places) and cost(node) >= 8:
                found.setdefault(node, {}).setdefault(loops, set()).add(member.level)
    shared = {
        n: (min(levels), loops) for n, ways in found.items() if len(ways) == 1
        for loops, levels in ways.items() if len(levels) > 1
    }  # fmt: skip
    inner = _below(shared)
    return {n: how for n, how in shared.items() if n not in inner}


def _below(nodes: Iterable[Node]) -> set[Node]:
    """What some nodes are computed from."""
    found: set[Node] = set()
    waiting = [operand for n in nodes for operand in n.operands]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.operands if isinstance(node, (Map, View)) else ()
    return found


def cost(node: Node) -> int:
    """What an element costs to compute, each node counted once."""
    nodes = [node, *(n for n in _below([node]) if isinstance(n, Map) and n.memory is None)]
    return sum(n.cost for n in nodes if isinstance(n, Map))
