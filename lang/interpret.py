"""The meaning of a kernel, in NumPy: cells one after the other in grid order.

A block is copied in when a cell's index differs from the one before it, and an output block copied out
when its run of cells ends. What nothing has written is poison: NaN, or the least integer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.errors import OutOfBoundsError
from ..core.evaluate import evaluate
from ..core.types import is_bool, is_complex, is_float
from .kernel import EDGE, Block, Kernel


def poison(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array of what unwritten memory reads as."""
    if is_float(dtype) or is_complex(dtype):
        return np.full(shape, np.nan, dtype)
    if is_bool(dtype):
        return np.ones(shape, dtype)
    import ml_dtypes

    return np.full(shape, ml_dtypes.iinfo(dtype).min, dtype)


def block_index(block: Block, ids: Sequence[int], prefetched: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Which block a cell sees."""
    if block.index_map is None:
        return (0,) * block.array.ndim
    return tuple(int(i) for i in evaluate(block.index_map, *map(np.int32, ids), *prefetched))


class _Resident:
    """The block of one operand that is in reach of the cell at hand."""

    def __init__(self, kernel: Kernel, block: Block, array: np.ndarray, defined: bool, writable: bool):
        self.kernel, self.block, self.array = kernel, block, array
        self.defined, self.writable = defined, writable
        self.index: tuple[int, ...] | None = None
        self.whole = poison(block.sizes, block.array.dtype)

    @property
    def ref(self) -> np.ndarray:
        gone = tuple(d for d, s in enumerate(self.block.squeezed) if s)
        return self.whole.reshape([n for d, n in enumerate(self.block.sizes) if d not in gone])

    def _places(self, index: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Where a block lies in the array, and that part within the block."""
        inner, outer = [], []
        for d, (i, step, size, n) in enumerate(
            zip(index, self.block.steps, self.block.sizes, self.array.shape, strict=True)
        ):
            start = i * step - (self.block.padding[d][0] if self.block.padding else 0) * self.block.element[d]
            low, high = max(start, 0), min(start + size, n)
            if n and low >= high:
                raise OutOfBoundsError(
                    f"kernel {self.kernel.name}: operand {self.block.name} of {self.block.array.show()}: block {index} "
                    f"of sizes {self.block.sizes} starts at {start} along axis {d}, past the end {n}",
                    "keep the index map within the operand", self.kernel.source)  # fmt: skip
            outer.append(slice(low, high))
            inner.append(slice(low - start, high - start))
        return tuple(outer), tuple(inner)

    def enter(self, index: tuple[int, ...]) -> None:
        """Make block `index` the resident one, as it is in the array (outputs: undefined unless aliased)."""
        if index == self.index:
            return
        self.leave()
        self.index = index
        outer, inner = self._places(index)
        self.whole = poison(self.block.sizes, self.block.array.dtype)
        if self.block.fill is EDGE and self.defined:
            widths = [(i.start, n - i.stop) for i, n in zip(inner, self.block.sizes, strict=True)]
            self.whole = np.pad(self.array[outer], widths, "edge")
            return
        if not self.writable and self.block.fill is not None:
            self.whole[...] = self.block.fill
        if self.defined:
            self.whole[inner] = self.array[outer]

    def leave(self) -> None:
        """Copy the resident block back to the array, if it is an output's."""
        if self.writable and self.index is not None:
            outer, inner = self._places(self.index)
            self.array[outer] = self.whole[inner]
        self.index = None


Watcher = Callable[[tuple[int, ...], list[tuple[int, ...]]], None]


def interpret(kernel: Kernel, *arrays: Any, watch: Watcher | None = None) -> list[np.ndarray]:
    """Run a kernel cell by cell; gives its outputs.

    `watch(ids, block_indices)` is called before each cell, with the index of each input's and output's block.
    """
    given = [np.asarray(a) for a in arrays]
    prefetched = [a.copy() for a in given[: len(kernel.prefetch)]]
    rest = given[len(kernel.prefetch) :]
    starts = {o: rest[i] for i, o in kernel.aliases}
    inputs = [_Resident(kernel, b, a, True, False) for b, a in zip(kernel.inputs, rest, strict=True)]
    outputs = [
        _Resident(
            kernel, b, starts[o].copy() if o in starts else poison(b.array.shape, b.array.dtype), o in starts, True
        )
        for o, b in enumerate(kernel.outputs)
    ]
    scratch = [poison(s.shape, s.dtype) for s in kernel.scratch]
    for ids in np.ndindex(*kernel.grid):
        indices = [block_index(r.block, ids, prefetched) for r in (*inputs, *outputs)]
        if watch is not None:
            watch(ids, indices)
        for resident, index in zip((*inputs, *outputs), indices, strict=True):
            resident.enter(index)
        refs = [r.ref.copy() for r in inputs] + [r.ref for r in outputs]
        evaluate(kernel.body, *map(np.int32, ids), *prefetched, *refs, *scratch)
    for resident in outputs:
        resident.leave()
    return [r.array for r in outputs]
