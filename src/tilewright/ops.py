"""Sums, products and extrema of the segments of an array, under the names of `jax.ops`.

Each is one scatter into an array of the operation's neutral element; its kernels, derivatives and batches are those of
the scatter.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import lax
from .core.api.transformations import jvp
from .core.ir.array import Array
from .core.ir.binding import with_out_sharding
from .core.primitives.custom.custom_derivatives import custom_jvp
from .core.support.call_errors import public
from .core.support.errors import ArgumentError, DtypeError, ShapeError
from .numpy import (
    argsort,
    broadcast_to,
    clip,
    concatenate,
    expand_dims,
    full,
    iinfo,
    ones,
    pad,
    ravel,
    reshape,
    where,
)
from .numpy.util import (
    ArrayLike,
    astype,
    concrete,
    dtype_of,
    inline_jit,
    is_bool,
    is_inexact,
    is_integer,
    shape_of,
    value,
)


def _lowest(dtype: Any) -> Any:
    if is_bool(dtype):
        return False
    return dtype.type(iinfo(dtype).min) if is_integer(dtype) else -np.inf


def _highest(dtype: Any) -> Any:
    if is_bool(dtype):
        return True
    return dtype.type(iinfo(dtype).max) if is_integer(dtype) else np.inf


class _Operation(NamedTuple):
    """A scatter, its neutral element, and the reduction that combines buckets."""

    scatter: Callable[..., Any]
    neutral: Callable[[Any], Any]
    reduce: Callable[..., Any]


_OPERATIONS = {
    "sum": _Operation(lax.scatter_add, lambda dtype: 0, lax.reduce_sum),
    "prod": _Operation(lax.scatter_mul, lambda dtype: 1, lax.reduce_prod),
    "max": _Operation(lax.scatter_max, _lowest, lax.reduce_max),
    "min": _Operation(lax.scatter_min, _highest, lax.reduce_min),
}


@dataclass(frozen=True)
class _Segments:
    """What is done to the segments, and how."""

    kind: str
    count: int
    bucket: int | None
    sorted: bool
    unique: bool
    mode: Any

    def __call__(self, data: Any, ids: Any) -> Any:
        if self.bucket is None:
            return self.scattered(data, ids)
        size, rank, inner = shape_of(data)[0], len(shape_of(data)), shape_of(data)[1:]
        number = -(-size // self.bucket)
        room = (0, number * self.bucket - size)
        data = pad(data, [room, *[(0, 0)] * (rank - 1)], constant_values=self.neutral(data))
        ids = pad(ids, [room, *[(0, 0)] * (len(shape_of(ids)) - 1)], constant_values=-1)
        data = reshape(data, (number, self.bucket, *inner))
        ids = reshape(ids, (number, self.bucket, *shape_of(ids)[1:]))
        return _OPERATIONS[self.kind].reduce(self.scattered(data, ids, batch=1), (0,))

    def neutral(self, data: Any) -> Any:
        return _OPERATIONS[self.kind].neutral(dtype_of(data))

    def scattered(self, data: Any, ids: Any, batch: int = 0) -> Any:
        """Data of ids (and `batch` leading axes that both share), scattered into neutral elements."""
        lead, rank = len(shape_of(ids)), len(shape_of(data))
        shape = (*shape_of(data)[:batch], self.count, *shape_of(data)[lead:])
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=tuple(range(lead, rank)),
            inserted_window_dims=(batch,),
            scatter_dims_to_operand_dims=(batch,),
            operand_batching_dims=tuple(range(batch)),
            scatter_indices_batching_dims=tuple(range(batch)),
        )
        out, how = full(shape, self.neutral(data), dtype_of(data)), _OPERATIONS[self.kind]
        promises = {"indices_are_sorted": self.sorted and not batch, "unique_indices": self.unique}
        return how.scatter(out, expand_dims(ids, -1), data, numbers, **promises, mode=self.mode)


@inline_jit("how")
def _segments(data: Any, ids: Any, how: _Segments) -> Any:
    if how.kind != "prod" or not is_inexact(dtype_of(data)) or how.unique:
        return how(data, ids)
    product = custom_jvp(how)  # a scatter that multiplies repeatedly has no derivative
    product.defjvp(lambda xs, ts: jvp(lambda data: _products_by_scan(data, xs[1], how), xs[:1], ts[:1]))
    return product(data, ids)


def _products_by_scan(data: Any, ids: Any, how: _Segments) -> Any:
    """Products of segments as the ends of the runs of a scan over the sorted data, which has all derivatives."""
    inner, count = shape_of(data)[len(shape_of(ids)) :], how.count
    clipped = how.mode is lax.GatherScatterMode.CLIP
    ids = clip(ids, 0, max(count - 1, 0)) if clipped else where((ids >= 0) & (ids < count), ids, count)
    ids = ravel(ids)
    order = argsort(ids)
    ids, data = ids[order], reshape(data, (-1, *inner))[order]
    changes, edge = ids[1:] != ids[:-1], ones((min(1, ids.size),), bool)
    starts = reshape(concatenate([edge, changes]), (-1, *(1 for _ in inner)))

    def combine(left: Any, right: Any) -> Any:
        (fresh, x), (fresh_too, y) = left, right
        return fresh | fresh_too, where(fresh_too, y, x * y)

    _, runs = lax.associative_scan(combine, (broadcast_to(starts, data.shape), data))
    last = where(concatenate([changes, edge]), ids, count)  # the others are dropped
    return ones((count, *inner), data.dtype).at[last].set(runs, mode="drop", unique_indices=True)


def _segment(
    kind: str, data: Any, segment_ids: Any, num_segments: Any, sorted_: bool, unique: bool, bucket_size: Any,
    mode: Any, out_sharding: Any,
) -> Any:  # fmt: skip
    if out_sharding is not None:
        how = (kind, data, segment_ids, num_segments, sorted_, unique, bucket_size, mode, None)
        return with_out_sharding(out_sharding, _segment, *how)
    name = f"segment_{kind}"
    data, ids = value(data, name), value(segment_ids, name)
    if not is_integer(dtype_of(ids)):
        raise DtypeError(f"{name}: segment ids have dtype {dtype_of(ids)}", "pass integers")
    if shape_of(data)[: len(shape_of(ids))] != shape_of(ids):  # data is broadcast to the ids
        try:
            data = broadcast_to(data, (*shape_of(ids), *shape_of(data)[1:]))
        except ShapeError:
            raise ShapeError(
                f"{name}: segment ids of shape {shape_of(ids)} for data of shape {shape_of(data)}",
                "give one id for each element of the data's leading axis",
            ) from None
    if num_segments is None:
        known = concrete(ids, name, "pass num_segments")
        num_segments = int(known.max()) + 1 if known.size else 0
    count = operator.index(num_segments)
    if count < 0:
        raise ArgumentError(f"{name}: num_segments is {count}", "a number of zero or more")
    if bucket_size is not None and operator.index(bucket_size) < 1:
        raise ArgumentError(f"{name}: bucket_size is {bucket_size}", "a number of one or more")
    if is_bool(dtype_of(data)) and kind in ("sum", "prod"):
        data = astype(data, int)
    mode = lax.GatherScatterMode.FILL_OR_DROP if mode is None else lax.GatherScatterMode.from_any(mode)
    bucket = None if bucket_size is None or not shape_of(ids) else operator.index(bucket_size)
    return _segments(data, ids, _Segments(kind, count, bucket, bool(sorted_), bool(unique), mode))


@public
def segment_sum(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The sum of each segment: (n, ...) data and (n,) integer ids give (num_segments, ...), of the data's dtype.

    Ids outside of 0 to `num_segments` - 1 are dropped (`mode="clip"` moves them to the ends). `num_segments` is the
    largest id and one more where it is not given, which `jit` cannot know. `bucket_size` sums so many elements at a
    time, then the sums, which rounds less. `indices_are_sorted` and `unique_indices` are promises.

    Raises `DtypeError` for ids that are no integers and `ShapeError` where data and ids differ in size.

    >>> from tilewright import numpy as tnp
    >>> segment_sum(tnp.arange(5), tnp.array([0, 0, 1, 1, 2]))
    Array([1, 5, 4], dtype=int32)
    """
    how = (indices_are_sorted, unique_indices, bucket_size, mode, out_sharding)
    return _segment("sum", data, segment_ids, num_segments, *how)


@public
def segment_prod(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The product of each segment, 1 of an empty one; the rest as `segment_sum`.

    >>> from tilewright import numpy as tnp
    >>> segment_prod(tnp.arange(5), tnp.array([0, 0, 1, 1, 2]))
    Array([0, 6, 4], dtype=int32)
    """
    how = (indices_are_sorted, unique_indices, bucket_size, mode, out_sharding)
    return _segment("prod", data, segment_ids, num_segments, *how)


@public
def segment_max(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The largest element of each segment, the dtype's lowest (-inf) of an empty one; the rest as `segment_sum`.

    >>> from tilewright import numpy as tnp
    >>> segment_max(tnp.arange(5), tnp.array([0, 0, 1, 1, 2]))
    Array([1, 3, 4], dtype=int32)
    """
    how = (indices_are_sorted, unique_indices, bucket_size, mode, out_sharding)
    return _segment("max", data, segment_ids, num_segments, *how)


@public
def segment_min(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The smallest element of each segment, the dtype's highest (inf) of an empty one; the rest as `segment_sum`.

    >>> from tilewright import numpy as tnp
    >>> segment_min(tnp.arange(5), tnp.array([0, 0, 1, 1, 2]))
    Array([0, 2, 4], dtype=int32)
    """
    how = (indices_are_sorted, unique_indices, bucket_size, mode, out_sharding)
    return _segment("min", data, segment_ids, num_segments, *how)


__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
__dir__: Callable[[], list[str]] = __all__.copy
