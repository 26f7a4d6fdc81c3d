"""From accesses to addresses: positions of an access's elements, and the pointers and masks they become.

A position is a scalar part (starts) plus a part of the lanes (steps along the axes of the result), so that the scalar
parts of all axes are one addition to the pointer and the rest is known to Triton's analysis of contiguity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.ir.types import INT32, INT64, ArrayType
from ..core.primitives.refs.state_primitives import Index, Point, Span, Take, access_shape
from ..lang.kernel.kernel import EDGE
from .builders import Int, add, as_value, both, clip, compare, convert, lanes, less, mul, regroup, spread, valid
from .text import Printer, Value

FAR = 2**31 - 1  # the largest offset that 32 bits hold


@dataclass(frozen=True)
class Places:
    """Where the elements of an access lie along every axis of a Ref: `starts[d] + steps[d]`."""

    shape: tuple[int, ...]
    starts: list[Int]
    steps: list[Int]

    def along(self, p: Printer, axis: int) -> Int:
        return add(p, self.starts[axis], self.steps[axis])


def places_of(p: Printer, index: Index, dynamic: Sequence[Value]) -> Places:
    """The positions of an access; its axes are placed as NumPy places them."""
    shape, given = access_shape(index), iter(dynamic)
    starts: list[Int] = []
    steps: list[Int] = []
    for entry, axes in zip(index, index.axes(), strict=True):
        if type(entry) is Take:
            value = convert(p, next(given), INT32)
            view = [1] * len(shape)
            for axis, size in zip(axes, entry.shape, strict=True):
                view[axis] = size
            starts.append(0)
            steps.append(regroup(p, value, view))
            continue
        assert isinstance(entry, (Point, Span))
        starts.append(convert(p, next(given), INT32) if entry.start is None else entry.start)
        if type(entry) is Span:
            steps.append(mul(p, lanes(p, entry.size, axes[0], len(shape)), entry.stride))
        else:
            steps.append(0)
    return Places(shape, starts, steps)


# ---------------------------------------------------------------------------- blocks


@dataclass
class Window:
    """The part of an array in global memory that a Ref is: `starts` are elements along the array's axes.

    `visible` are the axes that the body sees; `proved` says of each
    axis whether accesses need not be checked against the array's start, and its end.
    """

    base: Value
    array: ArrayType
    starts: list[Int]
    visible: tuple[int, ...]
    proved: tuple[tuple[bool, bool], ...]
    fill: Any = None

    def locate(self, p: Printer, places: Places) -> tuple[Value, Value | None]:
        """Pointers to the elements of an access, and which of them exist (None: all)."""
        rank, shape = self.array.ndim, places.shape
        starts: list[Int] = list(self.starts)
        steps: list[Int] = [0] * rank
        for axis, start, step in zip(self.visible, places.starts, places.steps, strict=True):
            starts[axis] = add(p, starts[axis], start)
            steps[axis] = step
        masks = [valid(p, shape)]
        for d in range(rank):
            above, below = self.proved[d]
            if above and below:
                continue
            at = add(p, starts[d], steps[d])
            n = self.array.shape[d]
            if self.fill is EDGE and n:
                starts[d], steps[d] = 0, clip(p, at, 0, n - 1)
            elif isinstance(at, int):
                if not 0 <= at < n:
                    masks.append(p.constant(False, np.dtype(bool)))
            else:
                if not above:
                    masks.append(compare(p, "ge", at, p.constant(0, INT32)))
                if not below:
                    masks.append(less(p, at, n))
        return self._pointers(p, shape, starts, steps), both(p, *masks)

    def _pointers(self, p: Printer, shape: tuple[int, ...], starts: Sequence[Int], steps: Sequence[Int]) -> Value:
        strides = [int(np.prod(self.array.shape[d + 1 :], dtype=np.int64)) for d in range(self.array.ndim)]
        far = self.array.size > FAR
        pointer = self.base
        for parts in (starts, steps):
            total: Int = 0
            for x, stride in zip(parts, strides, strict=True):
                total = add(p, total, mul(p, _long(p, x) if far else x, stride))
            pointer = _moved(p, pointer, total)
        return spread(p, pointer, shape)


def _long(p: Printer, x: Int) -> Int:
    return convert(p, x, INT64) if isinstance(x, Value) else x


def _moved(p: Printer, pointer: Value, offset: Int) -> Value:
    if offset == 0:
        return pointer
    at = as_value(p, offset, INT32 if not isinstance(offset, int) or abs(offset) <= FAR else INT64)
    pointer = spread(p, pointer, at.shape)
    return p.op(f"tt.addptr {pointer.name}, {at.name} : {pointer.type}, {at.type}", at.shape, pointer.dtype, True)
