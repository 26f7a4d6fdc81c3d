"""What is unspecified of a value, element by element, and how equations pass it on, by their relations.

    CLEAN      specified
    MAYBE      not known
    RAW        unspecified, as it lies in memory: past the end of an operand, or where nothing has written
    SPOILED    made of unspecified elements of other places, by a sum over them or from a neighbour

A level is an array of these that broadcasts to the shape of its value, of the same rank; None: all is clean.
Memory has two more levels between program instances:

    UNWRITTEN  nothing has written it: read, it is RAW
    PERHAPS    clean, or unwritten
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

CLEAN, MAYBE, RAW, SPOILED = range(4)
Level = np.ndarray | None


def flat(kind: int, rank: int) -> np.ndarray:
    """One level for all elements of a value."""
    return np.full((1,) * rank, kind, np.uint8)


def tidy(level: Level) -> Level:
    """The same level: None where clean, as small as it can be where all elements have the same."""
    if level is None or level.size == 1:
        return None if level is None or not level.flat[0] else level
    first = level.flat[0]
    if (level == first).all():
        return flat(first, level.ndim) if first else None
    return level


def most(levels: Sequence[Level], rank: int) -> Level:
    """The worst of some levels, element by element; those of scalars hold for all elements."""
    out: Level = None
    for level in levels:
        if level is not None:
            level = level if level.ndim == rank else level.reshape((1,) * rank)
            out = level if out is None else np.maximum(out, level)
    return out


def doubted(level: Level) -> Level:
    """A level of which it is not known whether it holds."""
    return None if level is None else np.minimum(level, MAYBE)


def either(one: Level, two: Level) -> Level:
    """The level of a value that is one of two."""
    if one is two:
        return one
    a, b = (np.uint8(0) if x is None else x for x in (one, two))
    return tidy(np.where(a == b, a, np.minimum(np.maximum(a, b), MAYBE)))


def through(eqn: Eqn, levels: Sequence[Level]) -> list[Level]:
    """The levels of an equation's results, given those of its operands."""
    if all(level is None for level in levels):
        return [None] * len(eqn.outputs)
    if eqn.primitive.kind in (POINTWISE, IDENTITY):
        return [most(levels, len(v.type.shape)) for v in eqn.outputs]
    relation = relate(eqn)
    if relation is None:
        return [flat(MAYBE, len(v.type.shape)) for v in eqn.outputs]
    total: Any = None
    for level, axes in zip(levels, relation.operands, strict=True):
        if level is not None:
            part = _over_loops(level, axes, relation)
            total = part if total is None else np.maximum(total, part)
    return [tidy(_of_result(total, axes, v.type.shape, relation)) for v, axes in
            zip(eqn.outputs, relation.results, strict=True)]  # fmt: skip


def _mixed(level: np.ndarray, axis: int) -> np.ndarray:
    """The level of what is made of all elements along an axis."""
    if level.shape[axis] == 1:
        return level
    found = level.max(axis=axis, keepdims=True)
    return np.where(found == RAW, SPOILED, found).astype(np.uint8)


def _seen(level: np.ndarray, axis: int, count: int, window: Window) -> np.ndarray:
    """The level of what each of `count` windows sees along an axis."""
    n = level.shape[axis]
    if n == 1:
        return level
    taps = np.arange(-window.low, window.high + 1, window.dilation)
    places = np.arange(count)[:, None] * window.stride + taps
    found = np.take(level, np.clip(places, 0, n - 1).reshape(-1), axis=axis)
    inside = ((places >= 0) & (places < n)).reshape([-1 if d == axis else 1 for d in range(level.ndim)])
    shape = (*level.shape[:axis], count, taps.size, *level.shape[axis + 1 :])
    found = np.where(inside, found, 0).reshape(shape).max(axis=axis + 1)
    return found if taps.size == 1 else np.where(found == RAW, SPOILED, found).astype(np.uint8)


def _over_loops(level: np.ndarray, axes: Axes, relation: Relation) -> np.ndarray:
    """The level of an operand with an axis for each factor, after what the factors do to it."""
    sizes, kinds = relation.sizes, relation.kinds
    place: list[int] = []  # the factor of each axis so far
    for factors in axes:
        at, n = len(place), level.shape[len(place)]
        known = not set(place).intersection(factors)
        if len(factors) == 1 and known and isinstance(kinds[factors[0]], Window):
            level = _seen(level, at, sizes[factors[0]], kinds[factors[0]])  # type: ignore[arg-type]
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
            level = _mixed(level, f)
        elif isinstance(kind, Whole):
            if kind.forward:
                level = np.maximum.accumulate(level, axis=f)
            elif f in place:
                level = np.minimum(level.max(axis=f, keepdims=True), MAYBE)
    return level


def _of_result(total: np.ndarray, axes: Axes, shape: Sequence[int], relation: Relation) -> np.ndarray:
    """The level of a result, from that of the points of all factors."""
    order = [f for factors in axes for f in factors]
    if len(set(order)) != len(order):
        return flat(int(total.max() > 0), len(shape))
    for f in set(range(len(relation.sizes))).difference(order):
        total = _mixed(total, f)
    total = total.transpose([*order, *(f for f in range(total.ndim) if f not in order)])
    for axis, factors in enumerate(axes):  # the axes before are merged, the factors after are not
        part = total.shape[axis : axis + len(factors)]
        whole = all(n == 1 for n in part)
        sizes = part if whole else tuple(relation.sizes[f] for f in factors)
        if not whole and math.prod(sizes) != shape[axis]:
            return flat(int(total.max() > 0), len(shape))
        rest = total.shape[axis + len(factors) :]
        total = np.broadcast_to(total, (*total.shape[:axis], *sizes, *rest))
        total = total.reshape((*total.shape[:axis], math.prod(sizes), *rest))
    return total.reshape(total.shape[: len(shape)])


UNWRITTEN, PERHAPS = 4, 5
_READ = np.array([CLEAN, MAYBE, RAW, SPOILED, RAW, MAYBE], np.uint8)
_OUT = np.array([CLEAN, MAYBE, RAW, SPOILED, CLEAN, CLEAN], np.uint8)  # that all is written is another check
_BARE = np.array([True, False, False, False, True, True])  # clean where it is written


def seen(held: Level) -> Level:
    """The level of what is read from memory."""
    return None if held is None else tidy(_READ[held])


def stored(held: Level) -> Level:
    """The level of what memory lets out."""
    return None if held is None else tidy(_OUT[held])


def joined(one: Level, two: Level) -> Level:
    """What memory holds that holds one of two."""
    if one is two:
        return one
    a, b = (np.uint8(CLEAN) if x is None else x for x in (one, two))
    return tidy(np.where(a == b, a, np.where(_BARE[a] & _BARE[b], PERHAPS, MAYBE)).astype(np.uint8))


class Copy(NamedTuple):
    """A copy that was started: what it brings, where to, and how many bytes it announces."""

    nbytes: int
    level: Any  # of levels, as bytes and shape, or None
    ref: int
    index: Any
    dynamic: tuple[int, ...]
    add: bool


Copies = dict[Any, tuple[tuple[Copy, ...], int]]  # by semaphore: copies under way, bytes that came and were not spent


@dataclass(frozen=True, eq=False)
class State:
    """Levels by position among the inputs of the body; `dirty`: the worst that each output block would let out."""

    levels: dict[int, Level]
    dirty: tuple[int, ...]
    copies: Copies

    @cached_property
    def key(self) -> Any:
        held = tuple(None if x is None else (x.shape, x.tobytes()) for x in self.levels.values())
        return held, self.dirty, tuple(self.copies.items())
