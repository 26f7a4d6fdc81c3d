"""Which keys each query sees, as values that are computed where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .....core.support.errors import ArgumentError, ShapeError


class Mask:
    """A mask of a shape (queries, keys); indexing gives part of it as a NumPy array of bools."""

    shape: tuple[int, ...]

    def __getitem__(self, index: Any) -> np.ndarray:
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise NotImplementedError("masks are combined by `&` and `|`, not by `and` and `or`")

    def __or__(self, other: Mask) -> Mask:
        return _Combined(self, other, np.logical_or)

    def __and__(self, other: Mask) -> Mask:
        return _Combined(self, other, np.logical_and)


@dataclass(frozen=True)
class _Combined(Mask):
    left: Mask
    right: Mask
    combine: Callable[..., Any]

    def __post_init__(self) -> None:
        if self.left.shape != self.right.shape:
            raise ShapeError(f"masks of shapes {self.left.shape} and {self.right.shape} are combined", "give one shape")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.left.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.combine(self.left[index], self.right[index])


@dataclass(frozen=True)
class NumpyMask(Mask):
    """A mask that is an array."""

    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.array[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumpyMask) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.tobytes()))


@dataclass(frozen=True)
class _OfPositions(Mask):
    """A mask that a rule computes from the positions of queries and keys."""

    shape: tuple[int, int]

    def rule(self, q: np.ndarray, kv: np.ndarray) -> Any:
        raise NotImplementedError

    def __getitem__(self, index: Any) -> np.ndarray:
        q, kv = (np.arange(n) for n in self.shape)
        return np.broadcast_to(self.rule(q[:, None], kv[None, :]), self.shape)[index]


@dataclass(frozen=True)
class FullMask(_OfPositions):
    """Every query sees every key."""

    def rule(self, q: np.ndarray, kv: np.ndarray) -> Any:
        return np.True_


@dataclass(frozen=True)
class CausalMask(_OfPositions):
    """Query `i` sees the keys up to `i + offset`."""

    offset: int = 0
    shard_count: int = 1

    def rule(self, q: np.ndarray, kv: np.ndarray) -> Any:
        return q + self.offset >= kv


@dataclass(frozen=True)
class LocalMask(_OfPositions):
    """Query `i` sees the keys from `i + offset - left` to `i + offset + right`; None: no limit on that side."""

    window_size: tuple[int | None, int | None] = (None, None)
    offset: int = 0
    shard_count: int = 1

    def rule(self, q: np.ndarray, kv: np.ndarray) -> Any:
        left, right = self.window_size
        seen: Any = np.True_
        if left is not None:
            seen = seen & (kv >= q + self.offset - left)
        return seen if right is None else seen & (kv <= q + self.offset + right)


@dataclass(frozen=True)
class ChunkedCausalMask(_OfPositions):
    """A query sees the keys of its own chunk up to its own position."""

    chunk_size: int = 1
    shard_count: int = 1

    def __post_init__(self) -> None:
        if self.chunk_size < 1:
            raise ArgumentError(f"chunk_size is {self.chunk_size}", "give 1 or more")

    def rule(self, q: np.ndarray, kv: np.ndarray) -> Any:
        return (q >= kv) & (q // self.chunk_size == kv // self.chunk_size)


@dataclass(frozen=True)
class MultiHeadMask(Mask):
    """A mask for each head, all of one shape."""

    masks: Sequence[Mask]

    def __post_init__(self) -> None:
        object.__setattr__(self, "masks", tuple(self.masks))
        if not self.masks or any(m.shape != self.masks[0].shape for m in self.masks):
            raise ShapeError(f"masks of heads have the shapes {[m.shape for m in self.masks]}",
                             "give one or more, of one shape")  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.masks), *self.masks[0].shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        heads, *rest = index if isinstance(index, tuple) else (index,)
        chosen = range(len(self.masks))[heads]
        part = tuple(rest) or (slice(None), slice(None))
        if isinstance(chosen, int):
            return self.masks[chosen][part]
        return np.stack([self.masks[i][part] for i in chosen])


def make_causal_mask(shape: tuple[int, int], offset: int = 0) -> np.ndarray:
    """A causal mask as an array."""
    return CausalMask(shape, offset)[:, :]


def make_local_attention_mask(
    shape: tuple[int, int], window_size: tuple[int | None, int | None], *, offset: int = 0
) -> np.ndarray:
    """A mask of a window of keys around each query, as an array."""
    return LocalMask(shape, window_size, offset)[:, :]


def make_chunk_attention_mask(shape: tuple[int, int], chunk_size: int) -> np.ndarray:
    """A causal mask within chunks, as an array."""
    return ChunkedCausalMask(shape, chunk_size)[:, :]


def make_random_mask(shape: tuple[int, int], sparsity: float, seed: int) -> np.ndarray:
    """A random mask as an array, of which the part `sparsity` is False."""
    return np.random.default_rng(seed).random(shape) >= sparsity
