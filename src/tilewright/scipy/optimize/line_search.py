"""A line search by the strong Wolfe conditions, one evaluation of the function in each turn of one loop.

J. Nocedal and S. Wright, "Numerical Optimization", 2nd edition, algorithms 3.5 (bracketing) and 3.6 (zoom); near a
minimum, where rounding hides the decrease, the approximate conditions of W. Hager and H. Zhang, "A new conjugate
gradient method with guaranteed descent and an efficient line search", 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ... import lax
from ... import numpy as tnp
from ...core.support import pytree
from ...numpy.util import Array, dtype_of

ZOOMS = 30  # at most, evaluations within a bracket


class Point(NamedTuple):
    """A step along the direction: its length, the function's value and slope there, and the gradient."""

    step: Array
    value: Array
    slope: Array
    gradient: Array


class Found(NamedTuple):
    """The point accepted; `status` is 0, or 1 (nothing in a bracket), or 3 (no bracket in `maxiter` steps)."""

    point: Point
    failed: Array
    status: Array
    evaluations: Array


class _State(NamedTuple):
    before: Point  # while bracketing the last point, then the better end of the bracket
    other: Point  # the other end
    accepted: Point
    zooming: Array
    done: Array
    brackets: Array
    zooms: Array


def _chosen(which: Array, a: Any, b: Any) -> Any:
    return pytree.map(lambda x, y: tnp.where(which, x, y), a, b)


def _nonzero(x: Array) -> Array:
    """A divisor, 1 in place of 0: a quotient that is not chosen has a finite derivative then."""
    return tnp.where(x == 0, 1, x)


def _between(a: Point, b: Point) -> Array:
    """The minimum of the cubic through two points with their slopes, or the middle where that is near an end."""
    width = b.step - a.step
    d1 = a.slope + b.slope + 3 * (a.value - b.value) / _nonzero(width)
    square = d1 * d1 - a.slope * b.slope
    d2 = tnp.sign(width) * tnp.where(square > 0, tnp.sqrt(tnp.where(square > 0, square, 1)), 0)
    scale = b.slope - a.slope + 2 * d2
    part = 1 - (b.slope + d2 - d1) / _nonzero(scale)
    usable = (width != 0) & (square >= 0) & (scale != 0) & (part > 0.1) & (part < 0.9)
    return a.step + width * tnp.where(usable, part, 0.5)


def line_search(
    value_and_grad: Callable[[Array], tuple[Array, Array]],
    x: Array,
    direction: Array,
    value: Array,
    gradient: Array,
    first: Array,
    c1: float = 1e-4,
    c2: float = 0.9,
    maxiter: int = 20,
) -> Found:
    """A step along a direction of descent that satisfies the strong Wolfe conditions; `first` is tried first."""
    slope = tnp.real(tnp.vdot(gradient, direction))
    rounding = tnp.finfo(dtype_of(value)).eps * tnp.abs(value)
    start = Point(tnp.zeros_like(value), value, slope, gradient)

    def evaluated(step: Array) -> Point:
        found, g = value_and_grad(x + step * direction)
        return Point(step, found, tnp.real(tnp.vdot(g, direction)), g)

    def too_high(p: Point) -> Array:
        decreased = p.value <= value + c1 * p.step * slope
        level = (p.value <= value + rounding) & (p.slope <= (2 * c1 - 1) * slope)
        return ~(decreased | level)

    def going(s: _State) -> Array:
        left = tnp.where(s.zooming, s.zooms < ZOOMS, s.brackets < maxiter)
        return ~s.done & left

    def turn(s: _State) -> _State:
        step = tnp.where(s.zooming, _between(s.before, s.other), tnp.where(s.brackets == 0, first, 2 * s.before.step))
        p = evaluated(step)
        beyond = (p.value >= s.before.value) & (s.zooming | (s.brackets > 0))
        high = too_high(p) | beyond | ~tnp.isfinite(p.value)
        done = ~high & (tnp.abs(p.slope) <= -c2 * slope)
        # The bracket lies between p and what was before, or, in a bracket, between p and the end uphill of it.
        back = tnp.where(s.zooming, p.slope * (s.other.step - s.before.step) >= 0, p.slope >= 0)
        return _State(
            before=_chosen(high, s.before, p),
            other=_chosen(high, p, _chosen(back, s.before, s.other)),
            accepted=_chosen(done, p, s.accepted),
            zooming=s.zooming | high | back,
            done=done,
            brackets=s.brackets + tnp.where(s.zooming, 0, 1),
            zooms=s.zooms + tnp.where(s.zooming, 1, 0),
        )

    no = tnp.zeros_like(slope, dtype=bool)
    none = tnp.asarray(0)
    s = lax.while_loop(going, turn, _State(start, start, start, no, no, none, none))
    # The better end of a bracket has a lower value: a step, though not of the slope asked for.
    usable = s.done | (s.zooming & (s.before.step > 0))
    point = _chosen(s.done, s.accepted, _chosen(usable, s.before, start))
    status = tnp.where(usable, 0, tnp.where(s.zooming, 1, 3))
    return Found(point, ~usable, status, s.brackets + s.zooms)
