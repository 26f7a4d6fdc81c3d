"""The lattice of poison levels, element by element, and its transfer functions: relations of equations.

    CLEAN      specified
    MAYBE      not known (the top)
    POISON     unspecified in place: past the end of an operand, or uninitialised memory
    TAINTED    derived from poison at other indices, by a reduction over them or from a neighbour

A level is an array of these that broadcasts to the shape of its value, of the same rank; None: all elements are clean.
Abstract memory has two more levels between cells:

    UNWRITTEN        uninitialised: a read gives POISON
    MAYBE_UNWRITTEN  clean, or uninitialised
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...core.ir.axis_relation import IDENTITY, POINTWISE, Axes, Reduced, Relation, Whole, Window, relate
from ...core.ir.program import Eqn

CLEAN, MAYBE, POISON, TAINTED = range(4)
Level = np.ndarray | None


def uniform(kind: int, rank: int) -> np.ndarray:
    """One level for all elements of a value."""
    return np.full((1,) * rank, kind, np.uint8)


def canonical(level: Level) -> Level:
    """The canonical form of a level: None where clean, of one element where all are equal."""
    if level is None or level.size == 1:
        return None if level is None or not level.flat[0] else level
    first = level.flat[0]
    if (level == first).all():
        return uniform(first, level.ndim) if first else None
    return level


def worst_of(levels: Sequence[Level], rank: int) -> Level:
    """The element-wise worst of levels, those of scalars broadcast: the transfer of pointwise operations."""
    out: Level = None
    for level in levels:
        if level is not None:
            level = level if level.ndim == rank else level.reshape((1,) * rank)
            out = level if out is None else np.maximum(out, level)
    return out


def weakened(level: Level) -> Level:
    """A level that may or may not hold."""
    return None if level is None else np.minimum(level, MAYBE)


def join(one: Level, two: Level) -> Level:
    """The join of two values where control flow merges."""
    if one is two:
        return one
    a, b = (np.uint8(0) if x is None else x for x in (one, two))
    return canonical(np.where(a == b, a, np.minimum(np.maximum(a, b), MAYBE)))


def transfer(eqn: Eqn, levels: Sequence[Level]) -> list[Level]:
    """The transfer function of an equation: the levels of its results, given those of its operands."""
    if all(level is None for level in levels):
        return [None] * len(eqn.outputs)
    if eqn.primitive.kind in (POINTWISE, IDENTITY):
        return [worst_of(levels, len(v.type.shape)) for v in eqn.outputs]
    relation = relate(eqn)
    if relation is None:
        return [uniform(MAYBE, len(v.type.shape)) for v in eqn.outputs]
    total: Any = None
    for level, axes in zip(levels, relation.operands, strict=True):
        if level is not None:
            part = _on_factors(level, axes, relation)
            total = part if total is None else np.maximum(total, part)
    return [canonical(_on_result(total, axes, v.type.shape, relation)) for v, axes in
            zip(eqn.outputs, relation.results, strict=True)]  # fmt: skip


def _reduced(level: np.ndarray, axis: int) -> np.ndarray:
    """The level of a reduction along an axis."""
    if level.shape[axis] == 1:
        return level
    found = level.max(axis=axis, keepdims=True)
    return np.where(found == POISON, TAINTED, found).astype(np.uint8)


def _windowed(level: np.ndarray, axis: int, count: int, window: Window) -> np.ndarray:
    """The level of each of `count` windows along an axis."""
    n = level.shape[axis]
    if n == 1:
        return level
    taps = np.arange(-window.low, window.high + 1, window.dilation)
    places = np.arange(count)[:, None] * window.stride + taps
    found = np.take(level, np.clip(places, 0, n - 1).reshape(-1), axis=axis)
    inside = ((places >= 0) & (places < n)).reshape([-1 if d == axis else 1 for d in range(level.ndim)])
    shape = (*level.shape[:axis], count, taps.size, *level.shape[axis + 1 :])
    found = np.where(inside, found, 0).reshape(shape).max(axis=axis + 1)
    return found if taps.size == 1 else np.where(found == POISON, TAINTED, found).astype(np.uint8)


def _on_factors(level: np.ndarray, axes: Axes, relation: Relation) -> np.ndarray:
    """The level of an operand with an axis for each factor, after what the factors do to it."""
    sizes, kinds = relation.sizes, relation.kinds
    place: list[int] = []  # the factor of each axis so far
    for factors in axes:
        at, n = len(place), level.shape[len(place)]
        known = not set(place).intersection(factors)
        if len(factors) == 1 and known and isinstance(kinds[factors[0]], Window):
            level = _windowed(level, at, sizes[factors[0]], kinds[factors[0]])  # type: ignore[arg-type]
            place.append(factors[0])
        elif n == 1 or not known or n != math.prod(sizes[f] for f in factors):
            level = level if n == 1 else np.minimum(level.max(axis=at, keepdims=True), MAYBE)
            fresh = [f for f in factors if f not in place]
            level = level.reshape((*level.shape[:at], *[1] * len(fresh), *level.shape[at + 1 :]))
            place += fresh
        else:
            level = level.reshape((*level.shape[:at], *(sizes[f] for f in factors), *level.shape[at + 1 :]))
            place += factors
    level = level.transpose(np.argsort(place)) if place else level
    level = level.reshape([level.shape[sorted(place).index(f)] if f in place else 1 for f in range(len(sizes))])
    for f, kind in enumerate(kinds):
        if isinstance(kind, Reduced):
            level = _reduced(level, f)
        elif isinstance(kind, Whole):
            if kind.forward:
                level = np.maximum.accumulate(level, axis=f)
            elif f in place:
                level = np.minimum(level.max(axis=f, keepdims=True), MAYBE)
    return level


def _on_result(total: np.ndarray, axes: Axes, shape: Sequence[int], relation: Relation) -> np.ndarray:
    """The level of a result, from that of the points of all factors."""
    order = [f for factors in axes for f in factors]
    if len(set(order)) != len(order):
        return uniform(int(total.max() > 0), len(shape))
    for f in set(range(len(relation.sizes))).difference(order):
        total = _reduced(total, f)
    total = total.transpose([*order, *(f for f in range(total.ndim) if f not in order)])
    for axis, factors in enumerate(axes):  # the axes before are merged, the factors after are not
        part = total.shape[axis : axis + len(factors)]
        whole = all(n == 1 for n in part)
        sizes = part if whole else tuple(relation.sizes[f] for f in factors)
        if not whole and math.prod(sizes) != shape[axis]:
            return uniform(int(total.max() > 0), len(shape))
        rest = total.shape[axis + len(factors) :]
        total = np.broadcast_to(total, (*total.shape[:axis], *sizes, *rest))
        total = total.reshape((*total.shape[:axis], math.prod(sizes), *rest))
    return total.reshape(total.shape[: len(shape)])


UNWRITTEN, MAYBE_UNWRITTEN = 4, 5
_LOADED = np.array([CLEAN, MAYBE, POISON, TAINTED, POISON, MAYBE], np.uint8)
_ESCAPING = np.array([CLEAN, MAYBE, POISON, TAINTED, CLEAN, CLEAN], np.uint8)  # that all is written is another check
_CLEAN_IF_WRITTEN = np.array([True, False, False, False, True, True])  # clean where it is written


def loaded(content: Level) -> Level:
    """The level of a read from memory."""
    return None if content is None else canonical(_LOADED[content])


def escaping(content: Level) -> Level:
    """The level of an output block that is copied out."""
    return None if content is None else canonical(_ESCAPING[content])


def join_memory(one: Level, two: Level) -> Level:
    """The join of two memories' levels of one Ref."""
    if one is two:
        return one
    a, b = (np.uint8(CLEAN) if x is None else x for x in (one, two))
    other = np.where(_CLEAN_IF_WRITTEN[a] & _CLEAN_IF_WRITTEN[b], MAYBE_UNWRITTEN, MAYBE)
    return canonical(np.where(a == b, a, other).astype(np.uint8))


class Copy(NamedTuple):
    """A copy in flight: its level, its destination, the bytes that it signals."""

    nbytes: int
    level: Any  # of levels, as bytes and shape, or None
    ref: int
    index: Any
    dynamic: tuple[int, ...]
    add: bool


Copies = dict[Any, tuple[tuple[Copy, ...], int]]  # by semaphore: copies in flight, bytes not waited for


@dataclass(frozen=True, eq=False)
class State:
    """Abstract memory: levels by position among the body's inputs; `escapes`: the worst level in each output block."""

    levels: dict[int, Level]
    escapes: tuple[int, ...]
    copies: Copies

    @cached_property
    def key(self) -> Any:
        held = tuple(None if x is None else (x.shape, x.tobytes()) for x in self.levels.values())
        return held, self.escapes, tuple(self.copies.items())
