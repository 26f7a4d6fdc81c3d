"""What an operation does to axes: its loops, and which of them each axis of each operand and result follows.

    Relation ::= factors (loops) with sizes and kinds; for each axis of each operand and result the factors it follows
    Kind     ::= PARALLEL | Reduced(monoid) | Whole(forward) | Window(low, high, stride, dilation)
    Work     ::= operations and calls of transcendental functions for each point of the loops

A result's element at a point of the parallel factors depends on the operands' elements at that point alone; along a
reduced factor on all of them, joined by the monoid; along a whole factor on all of them in any way; along a window on
its neighbours. A block of the parallel factors is computed by the same operation on blocks of the operands (`iota`
alone has to know where its block lies), and parts of a reduced factor are joined by its monoid.

Batching, fusion, padding, partitioning, costs and masks all read this; an operation without a relation is opaque: it
may do anything, and nobody assumes otherwise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..support.memo import cached

if TYPE_CHECKING:
    from .array import ArrayLike
    from .program import Eqn

Axis = tuple[int, ...]  # the factors that an axis follows, major to minor; none for an axis of one element
Axes = tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Monoid:
    """How the elements along a reduced factor are joined: associative, with a neutral element for each dtype."""

    name: str
    neutral: Callable[[Any], Any]  # of a dtype: a NumPy scalar
    combine: Callable[[Any, Any], Any]  # of two values of one shape


@dataclass(frozen=True, slots=True)
class Parallel:
    """Each point of the factor is computed by itself."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The points of the factor are joined into one; no result follows it."""

    monoid: Monoid


@dataclass(frozen=True, slots=True)
class Whole:
    """The points of the factor need each other. `forward`: point i needs those up to i alone (a scan)."""

    forward: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Point i of the factor (a result's index) needs operand indices `i*stride - low` to `i*stride + high`.

    Only every `dilation`-th of them is read. Out-of-bounds elements are the operation's own padding.
    """

    low: int
    high: int
    stride: int = 1
    dilation: int = 1


Kind = Parallel | Reduced | Whole | Window
PARALLEL = Parallel()


@dataclass(frozen=True, slots=True)
class Relation:
    """The factors of one operation, by number: their sizes and kinds, and the axes that follow them."""

    sizes: tuple[int, ...]
    kinds: tuple[Kind, ...]
    operands: tuple[Axes, ...]
    results: tuple[Axes, ...]

    def of_kind(self, kind: type) -> frozenset[int]:
        """The factors of one kind."""
        return frozenset(i for i, k in enumerate(self.kinds) if isinstance(k, kind))

    @property
    def points(self) -> int:
        """The number of points of the results' and the reduced factors, combined."""
        followed = {f for axes in self.results for axis in axes for f in axis} | self.of_kind(Reduced)
        return math.prod(self.sizes[f] for f in followed)


@dataclass(frozen=True, slots=True)
class Work:
    """What one point of the loops costs; with `operand`, what one element of that operand costs."""

    flops: int = 0
    transcendentals: int = 0
    operand: int | None = None


FREE, ONE, TRANSCENDENTAL = Work(), Work(1), Work(0, 1)

# What kind of operation a primitive is, beyond its relation.
POINTWISE = "pointwise"  # a result's element is a function of the operands' elements at its place
MOVER = "mover"  # elements change their places and nothing else (a broadcast repeats them)
IDENTITY = "identity"  # the result is the operand: pointwise too
EFFECT = "effect"  # it acts on the world or on Refs


def relate(eqn: Eqn) -> Relation | None:
    """The relation of an equation; None where it is opaque."""
    rule = eqn.primitive.relation
    if rule is None:
        return None
    ins, outs = tuple([a.type for a in eqn.inputs]), tuple([v.type for v in eqn.outputs])
    return _related(rule, ins, outs, tuple(eqn.params.items()))


def runs(eqn: Eqn) -> int:
    """How often the Programs among an equation's parameters run, as far as is known: of a `choice`, one of them."""
    rule = eqn.primitive.runs
    return 1 if rule is None else rule([a.type for a in eqn.inputs], **eqn.params)


def work_of(eqn: Eqn) -> tuple[int, int]:
    """Operations, and calls of transcendental functions, of an equation, without those of Programs in it.

    An opaque operation is counted by the elements of its largest result.
    """
    work = eqn.primitive.work
    if work is FREE:
        return 0, 0
    if work.operand is not None:
        points = eqn.inputs[work.operand].type.size
    else:
        relation = relate(eqn)
        sizes = [math.prod(v.type.shape) for v in eqn.outputs if hasattr(v.type, "shape")]
        points = max(sizes, default=1) if relation is None else relation.points
    return work.flops * points, work.transcendentals * points


@cached(4096)
def _related(
    rule: Callable[..., Any], ins: tuple[Any, ...], outs: tuple[Any, ...], params: Sequence[Any]
) -> Relation | None:
    return rule(ins, outs, **dict(params))


def inserted(values: Sequence[Any], at: int, value: ArrayLike) -> tuple[Any, ...]:
    """A tuple with one more entry."""
    return (*values[:at], value, *values[at:])


def without(relation: Relation, factor: int) -> Relation:
    """The relation of parts in which a factor has one element, the axes that follow it alone left out.

    >>> loops = Loops()
    >>> axes = loops.axes((4, 3))
    >>> without(loops.relation([axes], [axes]), 0).operands
    (((0,),),)
    """

    def rest(values: tuple[Axes, ...]) -> tuple[Axes, ...]:
        kept = [[[f for f in axis if f != factor] for axis in axes if axis != (factor,)] for axes in values]
        return tuple([tuple([tuple([f - (f > factor) for f in axis]) for axis in axes]) for axes in kept])

    sizes = (*relation.sizes[:factor], *relation.sizes[factor + 1 :])
    kinds = (*relation.kinds[:factor], *relation.kinds[factor + 1 :])
    return Relation(sizes, kinds, rest(relation.operands), rest(relation.results))


class Loops:
    """Numbers factors while a relation is written.

    >>> loops = Loops()
    >>> axes = loops.axes((3, 1, 5))
    >>> axes
    ((0,), (), (1,))
    >>> loops.relation([axes], [axes[:1]], {1: Whole()}).sizes
    (3, 5)
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def axis(self, size: int) -> Axis:
        """A new factor for an axis; none for an axis of one element."""
        if size == 1:
            return ()
        self.sizes.append(size)
        return (len(self.sizes) - 1,)

    def axes(self, shape: Sequence[int]) -> Axes:
        """New factors for every axis of a shape."""
        return tuple(self.axis(n) for n in shape)

    def cut(self, old: Sequence[int], new: Sequence[int]) -> tuple[Axes, Axes, dict[int, Kind]]:
        """Factors for the axes of an array before and after a reshape, and the kinds of those that are not parallel.

        Axes that merge or split follow several factors, major to minor. Where no factors fit both (3, 4) and (4, 3),
        each new axis needs all of the old ones.

        >>> Loops().cut((6, 5), (2, 15))
        (((0, 1), (2,)), ((0,), (1, 2)), {})
        """
        kinds: dict[int, Kind] = {}
        olds: list[Axis] = []
        news: list[Axis] = []
        for left, right in _groups(old, new):
            ends = sorted({*_ends(left), *_ends(right)})
            if 0 not in left and all(b % a == 0 for a, b in itertools.pairwise(ends)):
                known = {b: self.axis(b // a) for a, b in reversed([*itertools.pairwise(ends)])}
                olds += _between(left, known)
                news += _between(right, known)
            else:
                whole = self.axes(left), self.axes(right)
                kinds.update({f: Whole() for axes in whole for axis in axes for f in axis})
                olds += whole[0]
                news += whole[1]
        return _with_ones(old, olds), _with_ones(new, news), kinds

    def whole(self, *sizes: int) -> tuple[Axes, dict[int, Kind]]:
        """A separate unsplittable factor per axis, and the kinds of all."""
        found = self.axes(sizes)
        return found, {f: Whole() for axis in found for f in axis}

    def slide(self, size: int, count: int, window: Window) -> tuple[Axis, Axis, dict[int, Kind]]:
        """An operand's axis of a size, and a result's whose `count` elements each see a window of it, with the kinds.

        A window that sees the axis as it is makes it parallel.
        """
        if size == count and window == Window(0, 0):
            axis = self.axis(size)
            return axis, axis, {}
        if size == 1 or count == 1:
            (old, new), kinds = self.whole(size, count)
            return old, new, kinds
        axis = self.axis(count)
        return axis, axis, dict.fromkeys(axis, window)

    def relation(self, operands: Sequence[Axes], results: Sequence[Axes], kinds: dict[int, Kind] | None = None
                 ) -> Relation:  # fmt: skip
        """The relation; factors without a kind are parallel."""
        known = kinds or {}
        found = tuple(known.get(i, PARALLEL) for i in range(len(self.sizes)))
        return Relation(tuple(self.sizes), found, tuple(operands), tuple(results))


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes, those of one element left out, that hold the same number of elements."""
    left, right = [n for n in old if n != 1], [n for n in new if n != 1]
    if 0 in left:
        return [(left, right)]
    groups: list[tuple[list[int], list[int]]] = []
    while left:
        a, b = [left.pop(0)], [right.pop(0)]
        while (m := math.prod(a)) != (n := math.prod(b)):
            if m < n:
                a.append(left.pop(0))
            else:
                b.append(right.pop(0))
        groups.append((a, b))
    return groups


def _ends(sizes: Sequence[int]) -> list[int]:
    """The number of elements of the run below each of its axes, and in all."""
    return list(itertools.accumulate(reversed(sizes), initial=1, func=lambda a, b: a * b))


def _between(sizes: Sequence[int], known: dict[int, Axis]) -> list[Axis]:
    """The factors of each axis of a run: those that end above where it starts, up to where it ends."""
    ends = _ends(sizes)[::-1]
    return [tuple(f for end, axis in known.items() if low < end <= high for f in axis)
            for high, low in itertools.pairwise(ends)]  # fmt: skip


def _with_ones(shape: Sequence[int], axes: Sequence[Axis]) -> Axes:
    rest = iter(axes)
    return tuple(() if n == 1 else next(rest) for n in shape)


def pointwise(ins: Sequence[Any], outs: Sequence[Any], **params: Any) -> Relation:
    """The relation of an operation on elements; operands of rank 0 stand beside arrays of one shape."""
    loops = Loops()
    axes = loops.axes(outs[0].shape)
    return loops.relation([axes if t.shape else () for t in ins], [axes] * len(outs))


def same_places(types: Sequence[Any], outs: Sequence[Any], **_: Any) -> list[list[Any]]:
    """For `Primitive.places`: results are sharded like the first split operand of their rank, where divisible."""
    t = next(t for t in types if t.placed is not None and t.ndim == outs[0].ndim)
    mesh, dims = t.placed.mesh, t.placed.spec.padded(t.ndim)
    return [[d if n % mesh.parts(d) == 0 else () for d, n in zip(dims, o.shape, strict=True)] for o in outs]


def other_places(types: Sequence[Any], outs: Sequence[Any], *, axes: Sequence[int], **_: Any) -> list[list[Any]]:
    """For `Primitive.places`: the result is sharded like the operand, without the axes that it loses."""
    return [[d for i, d in enumerate(types[0].placed.spec.padded(types[0].ndim)) if i not in axes]]
