"""Arrays on CPU devices brought from one sharding to another by the host: its parts are read in place and cut anew.

A program would exchange them, over threads that wait for each other: for arrays of megabytes that takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.types import ArrayType
from ...core.sharding.mesh import NamedSharding, indices
from ...core.support.memo import cached
from ..devices.jaxlib_shardings import raw
from ..jaxlib import shim

ALIGNED = 64  # bytes
LARGEST = 2**26  # bytes of an array that one thread copies faster than those of a program
Cut = tuple[int, tuple[slice, ...], tuple[slice, ...]]  # a device that holds it, where there, where in the new part


def aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """New memory at an address that XLA takes as it is."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + ALIGNED, np.uint8)
    start = -memory.ctypes.data % ALIGNED
    return memory[start : start + size].view(dtype).reshape(shape)


@cached(4096)
def _plan(source: NamedSharding, to: NamedSharding, shape: tuple[int, ...]) -> tuple[list[list[Cut]], list[int]]:
    """For each distinct new part what it is cut of, and for each device the number of its part."""
    parts: dict[Any, list[Cut]] = {}
    order = []
    held = {_bounds(index, shape): n for n, index in reversed(list(enumerate(indices(source, shape))))}
    for index in indices(to, shape):
        new = _bounds(index, shape)
        if new not in parts:
            parts[new] = [
                (n, _within(cut, old), _within(cut, new)) for old, n in held.items() if (cut := _common(old, new))
            ]
        order.append(list(parts).index(new))
    return list(parts.values()), order


def _bounds(index: tuple[slice, ...], shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(i.indices(n)[:2] for i, n in zip(index, shape, strict=True))


def _common(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> Any:
    cut = tuple((max(x, u), min(y, v)) for (x, y), (u, v) in zip(a, b, strict=True))
    return cut if cut and all(x < y for x, y in cut) else None


def _within(cut: Sequence[tuple[int, int]], outer: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    return tuple(slice(a - o, b - o) for (a, b), (o, _) in zip(cut, outer, strict=True))


def suits(buffer: Any, wide: ArrayType, source: NamedSharding, to: NamedSharding) -> bool:
    """Whether a buffer, to be of a type `wide` with its padding, is better brought so than by a program."""
    return (
        bool(wide.shape) and wide.nbytes <= LARGEST and shim.readable(buffer) and source.is_fully_addressable
        and to.kind is None and source.mesh.flat[0].platform == "cpu"
    )  # fmt: skip


def recut(
    buffer: Any, shape: tuple[int, ...], wide: ArrayType, source: NamedSharding, to: NamedSharding,
    leading: Callable[..., Any],
) -> Any:
    """A buffer resharded to `to`, with the type `wide`; `leading(mesh, n)` is the sharding in which part n is read."""
    shim.wait(buffer)
    parts, order = _plan(source, to, shape)
    read: dict[int, np.ndarray] = {}
    made = []
    ndim = len(wide.shape)
    size = (*to.shard_shape(shape), *wide.shape[len(shape) :])
    for cuts in parts:
        new = aligned(size, wide.dtype)
        if sum(new[at].size for _, _, at in cuts) < new.size:
            new[...] = 0  # padding
        for n, of, at in cuts:
            if n not in read:
                read[n] = shim.part_of(buffer, leading(source.mesh, n))
            new[at] = read[n][of]
        made.append(new)
    return shim.put_parts(wide, raw(to, ndim), [made[n] for n in order], [d.raw for d in to.mesh.flat])
