"""Triton's tensor descriptors: tiles of an array that the copy engine moves, by the rules of its hardware."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.support.errors import EmulationError
from .core import Op, Rule, Run

RANK, SIZE, ALIGNED = 5, 256, 16  # axes, elements of a tile along one, bytes


@dataclass
class Descriptor:
    """A tile of an array at any place: what is outside reads as a fill and is not written."""

    base: Any
    shape: list[int]
    strides: list[int]
    fill: float

    def lanes(self, tile: Sequence[int], index: Sequence[Any], dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Addresses and mask of the tile at an index."""
        address, mask = np.asarray(self.base), np.asarray(True)
        for d, (n, start, size, stride) in enumerate(zip(tile, index, self.shape, self.strides, strict=True)):
            at = (int(start) + np.arange(n)).reshape([-1 if d == e else 1 for e in range(len(tile))])
            mask = mask & (at >= 0) & (at < size)
            address = address + at * stride * dtype.itemsize
        return address, mask


def _make(op: Op) -> Run:
    rank = (len(op.operands) - 1) // 2
    pointee = op.operands[0].pointee
    fill = np.nan if op.int("padding", 1) == 2 else 0
    tile = _tile(op.result.text)
    assert pointee is not None
    if tile[-1] * pointee.itemsize < ALIGNED:
        raise EmulationError(f"{op.name}: a row of {tile} of {pointee} has fewer than {ALIGNED} bytes")
    if len(tile) != rank or rank > RANK or max(tile) > SIZE:
        raise EmulationError(f"{op.name}: a tile {tile} of {rank} axes, of which {RANK} of {SIZE} elements may be")

    def run(base: Any, *sizes: Any) -> Descriptor:
        shape, strides = [int(n) for n in sizes[:rank]], [int(n) for n in sizes[rank:]]
        if min(shape) < 1:
            raise EmulationError(f"{op.name}: an array of shape {shape}")
        if strides[-1] != 1:
            raise EmulationError(f"{op.name}: the last stride is {strides[-1]}, not 1")
        if any(s * pointee.itemsize % ALIGNED for s in strides[:-1]) or int(base) % ALIGNED:
            raise EmulationError(f"{op.name}: base or strides {strides} of {pointee} are not in {ALIGNED} bytes")
        return Descriptor(base, shape, strides, fill)

    return run


def _tile(text: str) -> list[int]:
    found = re.search(r"<((?:\d+x)+)", text)
    assert found is not None
    return [int(n) for n in found.group(1).split("x") if n]


def _load(op: Op) -> Run:
    machine, dtype, tile = op.machine, op.result.dtype, _tile(op.operands[0].text)
    assert dtype is not None

    def run(descriptor: Descriptor, *index: Any) -> Any:
        address, mask = descriptor.lanes(tile, index, dtype)
        other = np.full(address.shape, descriptor.fill, dtype)
        return machine.memory.load(address, dtype, mask, other, True).reshape(op.result.shape)

    return run


def _store(op: Op) -> Run:
    machine, tile = op.machine, _tile(op.operands[0].text)

    def run(descriptor: Descriptor, value: Any, *index: Any) -> None:
        address, mask = descriptor.lanes(tile, index, value.dtype)
        machine.memory.store(address, np.ascontiguousarray(value).reshape(tile), mask, True)

    return run


# add, min, max, and, or, xor by number of the attribute.
REDUCE_INTO = {1: np.add, 2: np.minimum, 3: np.maximum, 6: np.bitwise_and, 7: np.bitwise_or, 8: np.bitwise_xor}


def _reduce(op: Op) -> Run:
    machine, f, tile = op.machine, REDUCE_INTO[op.int("kind")], _tile(op.operands[0].text)

    def run(descriptor: Descriptor, value: Any, *index: Any) -> None:
        address, mask = descriptor.lanes(tile, index, value.dtype)
        machine.memory.update(address, mask, f, [np.ascontiguousarray(value).reshape(tile)])

    return run


RULES: dict[str, Rule] = {
    "tt.make_tensor_descriptor": _make,
    "tt.descriptor_load": _load,
    "tt.descriptor_store": _store,
    "tt.descriptor_reduce": _reduce,
}
