"""Loop bounds: a loop whose body is one `when` that holds in a contiguous run of iterations runs only these.

Attention with a causal mask is the example: of the blocks of keys only those up to the diagonal are visited, without a
branch that would keep the compiler from pipelining their loads. Both bounds are functions of one other id,

    clip(floor((a * id + b) / c), 0, n)

fitted to the table of where the test holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.ir.program import Program
from ..analysis.loop_carried import taken
from ..kernel.canonicalize import rename
from ..kernel.kernel import Kernel

DIVISORS = tuple(2**k for k in range(8))


@dataclass(frozen=True)
class Line:
    """`clip(floor((slope * id + start) / divisor), 0, most)` of the id of an axis; the numerator is not negative."""

    axis: int
    slope: int
    start: int
    divisor: int
    shift: int  # taken off after the division
    most: int
    clipped: bool


Bounds = tuple[int | Line, int | Line]


def narrow(kernel: Kernel, axis: int, body: Program) -> tuple[Program, Bounds | None]:
    """The body of the loop over an axis, and its bounds; None for the whole axis."""
    acting = [e for e in body.eqns if any(effect.kind != "read" for effect in e.effects)]
    if len(acting) != 1 or kernel.grid[axis] < 2:
        return body, None
    (eqn,) = acting
    table = taken(kernel, eqn)
    if table is None or eqn.outputs or eqn.params["branches"][0].eqns or table.ndim <= axis or table.shape[axis] == 1:
        return body, None
    bounds = bounds_of(kernel, axis, table)
    if bounds is None:
        return body, None
    eqns = list(body.eqns)
    at = next(i for i, e in enumerate(eqns) if e is eqn)
    eqns[at : at + 1] = rename(eqn.params["branches"][1], eqn.inputs[1:]).eqns
    return body.replace(eqns=eqns), bounds


def bounds_of(kernel: Kernel, axis: int, table: np.ndarray, empty_runs: bool = False) -> Bounds | None:
    """The bounds of the run of iterations in which a table is true along an axis; None if they are not such runs.

    `empty_runs`: where it is nowhere true, any two bounds will do of which the second is not after the first.
    """
    others = [d for d in range(table.ndim) if d != axis and table.shape[d] > 1]
    if len(others) > 1:
        return None
    holds = np.moveaxis(table, axis, -1).reshape(-1, table.shape[axis])
    counts = holds.sum(-1)
    low = np.where(counts > 0, holds.argmax(-1), 0)
    high = low + counts
    places = np.arange(holds.shape[1])
    if not (holds == ((places >= low[:, None]) & (places < high[:, None]))).all():
        return None
    # Where nothing holds any two equal ends do; those of the line, if it passes there.
    empty = counts == 0
    given = ~empty if empty_runs else np.ones(len(empty), bool)
    if not given.any():
        return None
    fixed = empty.any() and not empty_runs
    first, end = (_end(others[0] if others else None, x, given, kernel.grid[axis], fixed) for x in (low, high))
    if first is None or end is None:
        return None
    apart = empty_runs and (_values(end, len(empty)) > _values(first, len(empty)))[empty].any()
    return None if apart else (first, end)


def _values(end: int | Line, count: int) -> np.ndarray:
    """An end for each id of the other axis."""
    if isinstance(end, int):
        return np.full(count, end)
    found = (end.slope * np.arange(count) + end.start) // end.divisor - end.shift
    return np.clip(found, 0, end.most) if end.clipped else found


def _end(axis: int | None, found: np.ndarray, given: np.ndarray, most: int, fixed: bool) -> int | Line | None:
    """An end that is what was found of the given ids; a number if it is to be `fixed`."""
    ids, found = np.flatnonzero(given), found[given]
    if (found == found[0]).all():
        return int(found[0])
    if axis is None or fixed:
        return None
    inner = (found > 0) & (found < most)
    for divisor in DIVISORS:
        for slope in _slopes(ids, found, inner, divisor):
            # divisor * found <= slope * id + start < divisor * (found + 1), one side of it where it is clipped.
            least = np.where(found > 0, divisor * found - slope * ids, -(2**40))
            greatest = np.where(found < most, divisor * (found + 1) - 1 - slope * ids, 2**40)
            if least.max() <= greatest.min():
                start = int(least.max() if least.max() > -(2**40) else greatest.min())
                return _line(axis, np.arange(len(given)), slope, start, divisor, most)
    return None


def _slopes(ids: np.ndarray, found: np.ndarray, inner: np.ndarray, divisor: int) -> list[int]:
    """Slopes worth trying: those of what is not clipped, give or take the rounding; else of everything."""
    where = np.flatnonzero(inner) if inner.sum() > 1 else np.arange(len(ids))
    run, rise = int(ids[where[-1]] - ids[where[0]]), int(found[where[-1]]) - int(found[where[0]])
    nearest = round(divisor * rise / run)
    return sorted(range(divisor * (rise - 1) // run, divisor * (rise + 1) // run + 2), key=lambda s: abs(s - nearest))


def _line(axis: int, ids: np.ndarray, slope: int, start: int, divisor: int, most: int) -> Line:
    values = slope * ids + start
    shift = max(0, -(int(values.min()) // divisor))
    exact = values // divisor
    return Line(axis, slope, start + shift * divisor, divisor, shift, most,
                bool(exact.min() < 0 or exact.max() > most))  # fmt: skip
