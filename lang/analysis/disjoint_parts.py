"""Disjoint access analysis in HBM: the grid axes along which no cell accesses another cell's part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.program import Eqn
from ...core.ir.types import FAR
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.refs.state_primitives import Index
from ...core.support.memo import cached
from ..kernel.kernel import Kernel
from ..kernel.traverse import CALLS
from ..ops.dma import dma_start_p, dma_wait_p
from .ranges import VALUES, Places, Ref

_KNOWN = (*VALUES, dma_start_p, dma_wait_p, cond_p, scan_p, while_p, *CALLS)
Part = list[tuple[Any, Any]]  # along each axis of a Ref, tables of the first and the last place that a cell may reach


class _Reach(Places):
    """What cells may reach of some Refs, by position: one part for those that share memory."""

    def __init__(self, kernel: Kernel, positions: Sequence[int]):
        self.part: Part = []
        self.positions = positions
        super().__init__(kernel)

    def one(self, eqn: Eqn, inputs: list[Any], may: np.ndarray, sure: np.ndarray) -> list[Any]:
        primitive = eqn.primitive
        if primitive in VALUES and eqn.params["masked"]:
            self.access(eqn, inputs[0].position, eqn.params["index"], inputs[1 + VALUES[primitive] :], may, sure)
            return [None] * len(eqn.outputs)
        if primitive not in _KNOWN:
            for ref in (v for v in inputs if type(v) is Ref and v.position in self.positions):
                self.join([(0, n - 1) for n in self.kernel.body.inputs[ref.position].type.shape])
        return super().one(eqn, inputs, may, sure)

    def access(self, eqn: Eqn, position: int, index: Index, operands: Sequence[Any], may: np.ndarray, sure: np.ndarray
               ) -> None:  # fmt: skip
        if position not in self.positions:
            return
        given, found = iter(operands), []
        for entry, n in zip(index, self.kernel.body.inputs[position].type.shape, strict=True):
            span = max(entry.size - 1, 0) * entry.stride
            if entry.start is not None:
                found.append((entry.start, entry.start + span))
            else:
                place = next(given)
                found.append((0, n - 1) if place is None else (place.low, place.high + span))
        self.join(found)

    def join(self, more: Part) -> None:
        pairs = zip(self.part or more, more, strict=True)
        self.part = [(np.minimum(a, c), np.maximum(b, d)) for (a, b), (c, d) in pairs]


@cached(1024)
def disjoint_axes(kernel: Kernel, number: int) -> tuple[int, ...]:
    """The grid axes along which cells access disjoint parts of an unblocked output.

    Two cells that differ on one of them reach no element in common, whatever their other ids are.
    """
    _, first_in, first_out, _, _ = kernel.splits
    shared = [i for i, o in kernel.aliases if o == number]
    blocks = [kernel.outputs[number], *(kernel.inputs[i] for i in shared)]
    if any(b.space not in FAR or b.index_map is not None for b in blocks):
        return ()
    found: list[int] = []
    part = _Reach(kernel, [first_out + number, *(first_in + i for i in shared)]).part
    for axis in kernel.long_axes:
        if any(_separate(low, high, (*found, axis), len(kernel.grid)) for low, high in part):
            found.append(axis)
    return tuple(found)


def _separate(low: ArrayLike, high: ArrayLike, axes: tuple[int, ...], rank: int) -> bool:
    """Whether what cells reach does not overlap for different ids on the last of some axes, the others' being equal."""
    low, high = (np.reshape(x, (1,) * (rank - np.ndim(x)) + np.shape(x)) for x in np.broadcast_arrays(low, high))
    rest = tuple(a for a in range(rank) if a not in axes)
    low, high = (np.moveaxis(x, axes[-1], -1) for x in (low.min(rest, keepdims=True), high.max(rest, keepdims=True)))
    order = np.argsort(low, -1)
    low, high = (np.take_along_axis(x, order, -1) for x in (low, high))
    return low.shape[-1] > 1 and bool((high[..., :-1] < low[..., 1:]).all())
