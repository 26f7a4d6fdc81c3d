"""What an operation does to axes: its loops, and which of them each axis of each operand and result follows.

    Relation ::= factors (loops) with sizes and kinds; for each axis of each operand and result the factors it follows
    Kind     ::= PARALLEL | Reduced(monoid) | Whole(forward) | Window(low, high, stride, dilation)
    Work     ::= operations and calls of transcendental functions for each point of the loops

A result's element at a point of the parallel factors depends on the operands' elements at that point alone; along a
reduced factor on all of them, joined by the monoid; along a whole factor on all of them in any way; along a window on
its neighbours. Batching, fusion, padding, partitioning, costs and masks all read this; an operation without a relation
is opaque: it may do anything, and nobody assumes otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ir import Eqn

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
    """Point i of the factor (a result's position) needs operand positions `i*stride - low` to `i*stride + high`.

    Only every `dilation`-th of them is read. What lies outside of the operand is the operation's own padding.
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
        """How many points the loops have together."""
        return math.prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Work:
    """What one point of the loops costs."""

    flops: int = 0
    transcendentals: int = 0


FREE, ONE, TRANSCENDENTAL = Work(), Work(1), Work(0, 1)

# What kind of operation a primitive is, beyond its relation.
POINTWISE = "pointwise"  # a result's element is a function of the operands' elements at its place
MOVER = "mover"  # elements change their places and nothing else (a broadcast repeats them)
IDENTITY = "identity"  # the result is the operand
EFFECT = "effect"  # it acts on the world or on Refs


def relate(eqn: Eqn) -> Relation | None:
    """The relation of an equation; None where it is opaque."""
    rule = eqn.primitive.relation
    if rule is None:
        return None
    return rule([a.type for a in eqn.inputs], [v.type for v in eqn.outputs], **eqn.params)


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

    def relation(self, operands: Sequence[Axes], results: Sequence[Axes], kinds: dict[int, Kind] | None = None
                 ) -> Relation:  # fmt: skip
        """The relation; factors without a kind are parallel."""
        known = kinds or {}
        found = tuple(known.get(i, PARALLEL) for i in range(len(self.sizes)))
        return Relation(tuple(self.sizes), found, tuple(operands), tuple(results))


def pointwise(ins: Sequence[Any], outs: Sequence[Any], **params: Any) -> Relation:
    """The relation of an operation on elements; operands of rank 0 stand beside arrays of one shape."""
    loops = Loops()
    axes = loops.axes(outs[0].shape)
    return loops.relation([axes if t.shape else () for t in ins], [axes] * len(outs))
