"""Shared parts of gather and scatter: related axes, windows at computed indices, and out-of-bounds modes.

A gather has an operand, and indices whose last axis holds one start position per axis named in
`start_index_map`. For each position it takes the window of `slice_sizes`; window axes that are neither
collapsed nor batching land at `offset_dims` of the result, and the other axes of the indices in the rest.
Source: XLA's operation semantics, "Gather" and "Scatter".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ...ir.array import DTypeLike, Operand
from ...ir.axis_relation import Axes, Kind, Loops
from ...ir.types import ArrayType, Shape, is_bool, is_inexact, is_integer, is_key, is_unsigned
from ...support.errors import ArgumentError, DtypeError, ShapeError
from .shape import Dims


class GatherDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and result a gather relates; names as in XLA, the index axis always last."""

    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()


class GatherScatterMode(Enum):
    """What happens to windows that leave the array: moved inside, filled or dropped, or promised not to occur."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(mode: GatherScatterMode | str | None) -> GatherScatterMode:
        """A mode from its name; None means `FILL_OR_DROP`."""
        if isinstance(mode, GatherScatterMode):
            return mode
        try:
            return GatherScatterMode("fill" if mode in (None, "drop") else mode)
        except ValueError:
            names = "'clip', 'fill', 'drop', 'promise_in_bounds'"
            raise ArgumentError(f"there is no index mode {mode!r}", f"the modes are {names}") from None


FILL, CLIP, PROMISE = GatherScatterMode.FILL_OR_DROP, GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS


def default_fill(dtype: DTypeLike) -> Any:
    """What out-of-bounds reads give: NaN, the least signed or greatest unsigned integer, or True."""
    if is_key(dtype):
        return None
    if is_bool(dtype):
        return True
    if is_inexact(dtype):
        return math.nan
    return int(ml_dtypes.iinfo(dtype).max if is_unsigned(dtype) else ml_dtypes.iinfo(dtype).min)


# ---------------------------------------------------------------------------- typing


def check_indices(name: str, indices: ArrayType, width: int) -> None:
    if not is_integer(indices.dtype):
        raise DtypeError(f"{name}: indices must be integers, got {indices.show()}", "cast them with `astype('int32')`")
    if not indices.ndim or indices.shape[-1] != width:
        raise ShapeError(
            f"{name}: the last axis of the indices {indices.show()} must hold {width} positions",
            "one per operand axis that is indexed")  # fmt: skip


def check_dims(name: str, what: str, dims: Sequence[int], rank: int, ordered: bool = True) -> None:
    bad = any(not 0 <= d < rank for d in dims) or len(set(dims)) != len(dims)
    if bad or (ordered and list(dims) != sorted(dims)):
        order = " in increasing order" if ordered else ""
        raise ShapeError(f"{name}: {what} {tuple(dims)} must be distinct axes below {rank}{order}")


def check_batching(name: str, x: ArrayType, indices: ArrayType, of_x: Dims, of_indices: Dims) -> None:
    if [x.shape[i] for i in of_x] != [indices.shape[i] for i in of_indices]:
        shown = f"{of_x} of {x.show()} and {of_indices} of the indices {indices.show()}"
        raise ShapeError(f"{name}: batching axes {shown} differ in size")


def gather_shape(batch: Shape, d: GatherDimensionNumbers, slice_sizes: Dims) -> Shape:
    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    window = iter([s for i, s in enumerate(slice_sizes) if i not in gone])
    rest = iter(batch)
    return tuple(next(window) if i in d.offset_dims else next(rest) for i in range(len(batch) + len(d.offset_dims)))


# ---------------------------------------------------------------------------- meaning


def window_positions(
    operand_shape: Shape, indices: Operand, out_shape: Shape, d: GatherDimensionNumbers, slice_sizes: Dims, clamp: bool
) -> tuple[tuple[Any, ...], Any]:
    """For each element of the window array of `out_shape`: its position in the operand, and whether it is valid.

    With `clamp` windows are moved inside the operand; the mask says which were inside to begin with.
    """
    batch_axes = [i for i in range(len(out_shape)) if i not in d.offset_dims]

    def over_batch(values: Operand) -> Any:
        view = [1] * len(out_shape)
        for axis, size in zip(batch_axes, values.shape, strict=True):
            view[axis] = size
        return values.reshape(view)

    def along(axis: int, size: int) -> Any:
        return np.arange(size).reshape([size if i == axis else 1 for i in range(len(out_shape))])

    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    offset_axis = iter(d.offset_dims)
    positions, inside = [], np.ones((1,) * len(out_shape), bool)
    for axis, (size, limit) in enumerate(zip(slice_sizes, operand_shape, strict=True)):
        position = np.zeros((1,) * len(out_shape), np.int64)
        if axis in d.start_index_map:
            start = over_batch(indices[..., d.start_index_map.index(axis)].astype(np.int64))
            inside = inside & (start >= 0) & (start <= limit - size)
            position = np.clip(start, 0, max(limit - size, 0)) if clamp else start
        elif axis in d.operand_batching_dims:
            at = d.start_indices_batching_dims[d.operand_batching_dims.index(axis)]
            position = along(batch_axes[at], limit)
        if axis not in gone:
            position = position + along(next(offset_axis), size)
        positions.append(np.broadcast_to(position, out_shape))
    return tuple(positions), np.broadcast_to(inside, out_shape)


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and updates a scatter relates; the mirror of `GatherDimensionNumbers`."""

    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    operand_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()

    def as_gather(self) -> GatherDimensionNumbers:
        """The dimension numbers of the gather that reads what this scatter writes."""
        return GatherDimensionNumbers(*self)


def window_sizes(x_shape: Shape, update_shape: Shape, d: ScatterDimensionNumbers) -> Dims:
    """The size of a window along each axis of the operand."""
    gone = (*d.inserted_window_dims, *d.operand_batching_dims)
    sizes = iter([update_shape[i] for i in d.update_window_dims])
    return tuple(min(1, n) if i in gone else next(sizes) for i, n in enumerate(x_shape))


def added(dims: Sequence[int], n: int = 1) -> Dims:
    return tuple(d + n for d in dims)


def window_axes(
    loops: Loops, x: ArrayType, sizes: Dims, batch: Axes, d: GatherDimensionNumbers
) -> tuple[Axes, Axes, dict[int, Kind]]:
    """The axes of an array and of the windows cut from it, and the kinds of their factors."""
    axes, window, kinds = [], [], {}
    for a, (n, size) in enumerate(zip(x.shape, sizes, strict=True)):
        if a in d.operand_batching_dims:
            axes.append(batch[d.start_indices_batching_dims[d.operand_batching_dims.index(a)]])
            continue
        if size == n and a not in d.collapsed_slice_dims:
            axes.append(loops.axis(n))
            window.append(axes[-1])
            continue
        (old, new), more = loops.whole(n, size)
        axes.append(old)
        if a not in d.collapsed_slice_dims:
            window.append(new)
        kinds |= more
    return tuple(axes), tuple(window), kinds


__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers"]
