"""Cumulative sums, products and extrema along an axis, in order, with what there is so far in registers.

Along the last axis several rows go side by side, as each addition waits for the one before; along another axis the
lanes are neighbours of the last axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ..llvm.builder import Int, Value, vector
from .access import ZERO, At
from .elementwise import combined, number, rounded
from .emit import Allocate, Emitter
from .expression_graph import HELD, Accumulate, Cumulative, Memory
from .nest import fold_name

ROWS = 8  # that go side by side


def cumulate(e: Emitter, root: Cumulative, allocate: Allocate) -> None:
    """The code of a cumulative operation, into the memory of its root."""
    node = root.value
    assert isinstance(node, Accumulate) and root.target is not None
    e.nest.line(f"cumulative {fold_name(node.monoid)} along axis {node.axis} of {list(node.shape)}")
    if node.size:
        (_along_rows if node.axis == len(node.shape) - 1 else _across)(e, node, root.target)


def _start(e: Emitter, node: Accumulate, lanes: int) -> Value:
    """What combined with an element is that element."""
    dtype = node.dtype
    neutral = number(node.monoid.neutral(dtype), dtype)
    if node.monoid.name == "add" and HELD[str(dtype)] in ("float", "double"):
        neutral = -0.0  # 0 + -0 would be 0
    return e.b.constant(neutral, vector(HELD[str(dtype)], lanes))


@contextmanager
def _loops(e: Emitter, node: Accumulate, axes: Sequence[int]) -> Iterator[list[At]]:
    """Loops over some axes; gives where along each axis the code inside is."""
    places = [ZERO] * len(node.shape)
    with ExitStack() as stack:
        for axis in axes:
            if node.shape[axis] > 1:
                loop = stack.enter_context(e.b.loop(0, node.shape[axis], empty=False))
                stack.enter_context(e.scope())
                places[axis] = At(loop.index)
        yield places


def _accumulated(e: Emitter, node: Accumulate, target: Memory, starts: Sequence[tuple[At, ...]], lanes: int) -> None:
    """Elements along the axis from some places on, those of all places side by side."""
    n = node.shape[node.axis]
    with e.scope(), e.b.loop(0, n, carried=[_start(e, node, lanes)] * len(starts), empty=False) as loop:
        here: Int = n - 1 - loop.index if node.reverse else loop.index
        found = []
        for start, old in zip(starts, loop.carried, strict=True):
            places = (*start[: node.axis], At(here), *start[node.axis + 1 :])
            x = e.splat(e.at(node.operands[0], places), lanes)
            found.append(combined(e.b, node.monoid, old, x, node.dtype))
            e.write(target, places, rounded(e.b, found[-1], node.dtype))
        loop.next = found


def _along_rows(e: Emitter, node: Accumulate, target: Memory) -> None:
    last = len(node.shape) - 1
    rows = next(r for r in (ROWS, 4, 2, 1) if last == 0 and r == 1 or last and node.shape[last - 1] % r == 0)
    with _loops(e, node, range(last - 1)) as places, ExitStack() as stack:
        first: Int = 0
        if last and node.shape[last - 1] > rows:
            first = stack.enter_context(e.b.loop(0, node.shape[last - 1], rows, empty=False)).index
            stack.enter_context(e.scope())
        starts = [(*places[: max(last - 1, 0)], *[At(e.add(first, r))] * bool(last), ZERO) for r in range(rows)]
        _accumulated(e, node, target, starts, 0)


def _across(e: Emitter, node: Accumulate, target: Memory) -> None:
    last = len(node.shape) - 1
    width = node.shape[last]
    lanes = min(e.most, 1 << (width - 1).bit_length()) if width > 1 else 0
    full = width // lanes * lanes if lanes else 0
    with _loops(e, node, [a for a in range(last) if a != node.axis]) as places:
        e.lanes = lanes
        if full:
            with e.scope(), e.b.loop(0, full, lanes, empty=False) as loop:
                _accumulated(e, node, target, [(*places[:last], At(loop.index, 1))], lanes)
        if full < width:
            e.tail = e.b.lanes_below(width - full, lanes) if lanes else None
            _accumulated(e, node, target, [(*places[:last], At(full, 1) if lanes else ZERO)], lanes)
            e.tail = None
        e.lanes = 0
