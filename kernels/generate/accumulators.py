"""What sums are kept in from cell to cell: wide enough to add up, begun in the first cell, given in the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike, DTypeLike
from ...core.ir.axis_relation import Monoid
from ...core.ir.types import ArrayType, MemorySpace, RefType, is_float
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.shape import broadcast_in_dim_p
from ...core.primitives.reduction.reduce import PRODUCT, SUM
from ...lang.ops.basic import when
from .loops import Cut

FLOAT32 = np.dtype(np.float32)


def accumulator(dtype: DTypeLike) -> Any:
    """The dtype that sums of a dtype are kept in."""
    return FLOAT32 if is_float(dtype) and dtype.itemsize < 4 else dtype


def accumulator_of(monoid: Monoid, dtype: DTypeLike) -> Any:
    """The dtype that a monoid's results of a dtype are kept in: what rounds is kept wide."""
    return accumulator(dtype) if monoid is SUM or monoid is PRODUCT else dtype


def full(value: ArrayLike, shape: Sequence[int]) -> Any:
    return broadcast_in_dim_p.bind(value, shape=tuple(shape), broadcast_dimensions=()) if shape else value


class CarriedValues:
    """Values kept from cell to cell in a traced body: in the result where it is as wide, else in scratch."""

    cut: Cut
    outs: Sequence[ArrayType]
    shape: tuple[int, ...]
    wide: Sequence[Any]

    def __init__(self, cut: Cut, outs: Sequence[ArrayType], shape: Sequence[int], wide: Sequence[Any]):
        self.cut, self.outs, self.shape, self.wide = cut, outs, tuple(shape), wide
        self.narrow: list[int] = [k for k, t in enumerate(outs) if wide[k] != t.dtype]

    @property
    def scratch(self) -> list[RefType]:
        return [RefType(ArrayType(self.shape, self.wide[k]), MemorySpace.VMEM) for k in self.narrow]

    def run(self, results: Sequence[Any], scratch: Sequence[Any], first: Callable[[], Sequence[Any]],
            step: Callable[[list[Any]], None]) -> None:  # fmt: skip
        """A cell: `first` gives what the values start as, `step` changes them, the last cell stores them."""
        held = dict(zip(self.narrow, scratch, strict=True))
        states = [held.get(k, o) for k, o in enumerate(results)]

        @when(self.cut.first())
        def _() -> None:
            for state, value, dtype in zip(states, first(), self.wide, strict=True):
                state[...] = full(convert_element_type(value, dtype), self.shape)

        step(states)
        if self.narrow:

            @when(self.cut.last())
            def _() -> None:
                for k in self.narrow:
                    results[k][...] = convert_element_type(states[k][...], self.outs[k].dtype)
