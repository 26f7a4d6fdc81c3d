"""`gather`: reading windows of an array at computed positions, and what gather and scatter share.

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

from ..errors import ArgumentError, DtypeError, ShapeError
from ..primitive import AxisInfo, Linear, Primitive, Zero
from ..relation import FREE, Axes, Kind, Loops, Relation, inserted
from ..rules import moveaxis, zeros
from ..trace import dtype_of, shape_of, typeof
from ..types import ArrayType, Shape, is_bool, is_inexact, is_integer, is_key, is_unsigned
from .compare import lt_p, select_n_p
from .elementwise import add_p, rem_p
from .shape import Dims, as_axes, concatenate, expand_dims, integers


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
    def from_any(mode: Any) -> GatherScatterMode:
        """A mode from its name; None means `FILL_OR_DROP`."""
        if isinstance(mode, GatherScatterMode):
            return mode
        try:
            return GatherScatterMode("fill" if mode in (None, "drop") else mode)
        except ValueError:
            names = "'clip', 'fill', 'drop', 'promise_in_bounds'"
            raise ArgumentError(f"there is no index mode {mode!r}", f"the modes are {names}") from None


FILL, CLIP, PROMISE = GatherScatterMode.FILL_OR_DROP, GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS


def default_fill(dtype: Any) -> Any:
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


def _gather_typing(
    x: ArrayType, indices: ArrayType, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Dims,
    indices_are_sorted: bool, unique_indices: bool, mode: GatherScatterMode, fill_value: Any,
) -> ArrayType:  # fmt: skip
    d, rank = dimension_numbers, x.ndim
    check_indices("gather", indices, len(d.start_index_map))
    batch = indices.shape[:-1]
    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    out_rank = len(batch) + len(d.offset_dims)
    check_dims("gather", "offset_dims", d.offset_dims, out_rank)
    check_dims("gather", "collapsed_slice_dims", d.collapsed_slice_dims, rank)
    check_dims("gather", "operand_batching_dims", d.operand_batching_dims, rank)
    check_dims("gather", "start_indices_batching_dims", d.start_indices_batching_dims, len(batch), ordered=False)
    check_dims("gather", "collapsed_slice_dims and operand_batching_dims", gone, rank, ordered=False)
    check_dims("gather", "start_index_map and operand_batching_dims", (*d.start_index_map, *d.operand_batching_dims),
               rank, ordered=False)  # fmt: skip
    if len(slice_sizes) != rank or len(d.offset_dims) + len(gone) != rank:
        raise ShapeError(f"gather: slice_sizes {slice_sizes} and {d} do not fit the operand {x.show()}")
    for size, limit in zip(slice_sizes, x.shape, strict=True):
        if not 0 <= size <= limit:
            raise ShapeError(f"gather: slice_sizes {slice_sizes} exceed the operand {x.show()}")
    if any(slice_sizes[g] != 1 for g in d.collapsed_slice_dims) or any(slice_sizes[g] > 1 for g in gone):
        raise ShapeError(f"gather: slice_sizes {slice_sizes} must be 1 along axes {gone}, which the result lacks")
    check_batching("gather", x, indices, d.operand_batching_dims, d.start_indices_batching_dims)
    return ArrayType(_gather_shape(batch, d, slice_sizes), x.dtype, x.weak_type)


def check_batching(name: str, x: ArrayType, indices: ArrayType, of_x: Dims, of_indices: Dims) -> None:
    if [x.shape[i] for i in of_x] != [indices.shape[i] for i in of_indices]:
        shown = f"{of_x} of {x.show()} and {of_indices} of the indices {indices.show()}"
        raise ShapeError(f"{name}: batching axes {shown} differ in size")


def _gather_shape(batch: Shape, d: GatherDimensionNumbers, slice_sizes: Dims) -> Shape:
    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    window = iter([s for i, s in enumerate(slice_sizes) if i not in gone])
    rest = iter(batch)
    return tuple(next(window) if i in d.offset_dims else next(rest) for i in range(len(batch) + len(d.offset_dims)))


# ---------------------------------------------------------------------------- meaning


def window_positions(
    operand_shape: Shape, indices: Any, out_shape: Shape, d: GatherDimensionNumbers, slice_sizes: Dims, clamp: bool
) -> tuple[tuple[Any, ...], Any]:
    """For each element of the window array of `out_shape`: its position in the operand, and whether it is valid.

    With `clamp` windows are moved inside the operand; the mask says which were inside to begin with.
    """
    batch_axes = [i for i in range(len(out_shape)) if i not in d.offset_dims]

    def over_batch(values: Any) -> Any:
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


def _gather_numpy(
    x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any, fill_value: Any, **_: Any
) -> Any:
    out_shape = _gather_shape(indices.shape[:-1], dimension_numbers, slice_sizes)
    if 0 in out_shape:
        return np.zeros(out_shape, x.dtype)
    positions, inside = window_positions(x.shape, indices, out_shape, dimension_numbers, slice_sizes, clamp=True)
    out = x[positions]
    if mode is FILL:
        fill = np.asarray(default_fill(x.dtype) if fill_value is None else fill_value).astype(x.dtype)
        out = np.where(inside, out, fill)
    return out


# ---------------------------------------------------------------------------- rules


def _gather_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out, t = gather_p.bind(*primals, **params), tangents[0]
    if type(t) is Zero:
        return out, Zero(typeof(out).tangent())
    return out, gather_p.bind(t, primals[1], **params | {"fill_value": 0})


def _gather_transpose(
    ct: Any, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, fill_value: Any, **how: Any
) -> Any:
    from .scatter import ScatterDimensionNumbers, scatter_add_p

    if not isinstance(x, Linear):
        return [None, None]
    into = zeros(ArrayType(x.shape, dtype_of(ct)))
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    return [scatter_add_p.bind(into, indices, ct, dimension_numbers=numbers, **how), None]


def added(dims: Sequence[int], n: int = 1) -> Dims:
    return tuple(d + n for d in dims)


def _gather_batch(
    axis: AxisInfo, args: Any, dims: Any, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Dims, **how: Any
) -> Any:
    (x, indices), (x_dim, i_dim), d = args, dims, dimension_numbers
    if i_dim is None:
        return _gather_batch_operand(axis, x, indices, x_dim, d, slice_sizes, how)
    indices = moveaxis(indices, i_dim, 0)
    d = d._replace(offset_dims=added(d.offset_dims), start_indices_batching_dims=added(d.start_indices_batching_dims))
    if x_dim is None:
        how |= {"indices_are_sorted": False, "unique_indices": False}
    else:
        x = moveaxis(x, x_dim, 0)
        slice_sizes = (min(1, axis.size), *slice_sizes)
        d = d._replace(
            collapsed_slice_dims=added(d.collapsed_slice_dims),
            start_index_map=added(d.start_index_map),
            operand_batching_dims=(0, *added(d.operand_batching_dims)),
            start_indices_batching_dims=(0, *d.start_indices_batching_dims),
        )
        how |= {"indices_are_sorted": False}
    return gather_p.bind(x, indices, dimension_numbers=d, slice_sizes=slice_sizes, **how), 0


def _gather_batch_operand(
    axis: AxisInfo, x: Any, indices: Any, at: int, d: GatherDimensionNumbers, slice_sizes: Dims, how: Any
) -> Any:
    """Only the operand is batched: its batch axis, wherever it is, becomes one more window axis."""

    def shifted(values: Dims) -> Dims:
        return tuple(v + (v >= at) for v in values)

    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    before = sum(i not in gone for i in range(at))
    rank = len(shape_of(indices)) - 1 + len(d.offset_dims)
    out = d.offset_dims[before] if before < len(d.offset_dims) else rank
    offsets = (*d.offset_dims[:before], out, *added(d.offset_dims[before:]))
    d = d._replace(
        offset_dims=offsets, collapsed_slice_dims=shifted(d.collapsed_slice_dims),
        start_index_map=shifted(d.start_index_map), operand_batching_dims=shifted(d.operand_batching_dims))  # fmt: skip
    sizes = inserted(slice_sizes, at, axis.size)
    return gather_p.bind(x, indices, dimension_numbers=d, slice_sizes=sizes, **how), out


def _gather_relation(
    ins: Any, outs: Any, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Dims, **_: Any
) -> Relation:
    """Parallel along the axes of the indices and those that windows take whole; all of any other may be read."""
    (x, indices), (out,), d, loops = ins, outs, dimension_numbers, Loops()
    batch = loops.axes(indices.shape[:-1])
    (vector,), kinds = loops.whole(indices.shape[-1])
    axes, window, more = window_axes(loops, x, slice_sizes, batch, d)
    rest, inner = iter(batch), iter(window)
    result = tuple(next(inner) if i in d.offset_dims else next(rest) for i in range(out.ndim))
    return loops.relation([axes, (*batch, vector)], [result], kinds | more)


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


gather_p = Primitive(
    "gather",
    typing=_gather_typing,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
    numpy=_gather_numpy,
    relation=_gather_relation,
    work=FREE,
)


def scalar_fill(fill_value: Any, dtype: Any) -> Any:
    """A fill value as a hashable Python scalar (None for the dtype's default)."""
    if fill_value is None or is_key(dtype):
        return None
    if np.ndim(fill_value):
        raise ArgumentError(f"gather: fill_value must be a scalar, got shape {np.shape(fill_value)}")
    value = np.asarray(fill_value).astype(dtype).item()
    return math.nan if value != value and not isinstance(value, complex) else value


def gather(
    operand: Any, start_indices: Any, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int], *,
    unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """Read the windows of `slice_sizes` that start at `start_indices`; `mode` says what happens out of bounds."""
    return gather_p.bind(
        operand, start_indices,
        dimension_numbers=GatherDimensionNumbers(*(integers(d, "dimension", "gather") for d in dimension_numbers)),
        slice_sizes=integers(slice_sizes, "slice_sizes", "gather"),
        indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode), fill_value=scalar_fill(fill_value, dtype_of(operand)),
    )  # fmt: skip


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Any:
    """The elements of `src` at the 1-d index arrays `idxs` along `axes`, batch axis first, indices taken modulo."""
    shape = shape_of(src)
    axes = as_axes(axes, len(shape), "index_take")
    indices = concatenate([expand_dims(_modulo(i, shape[a]), (1,)) for i, a in zip(idxs, axes, strict=True)], 1)
    sizes = [1 if i in axes else n for i, n in enumerate(shape)]
    kept = len(shape) - len(axes)
    numbers = GatherDimensionNumbers(tuple(range(1, kept + 1)), tuple(sorted(axes)), axes)
    return gather(src, indices, numbers, sizes, mode=CLIP)


def _modulo(index: Any, size: int) -> Any:
    n = np.asarray(size).astype(dtype_of(index))[()]
    rest = rem_p.bind(index, n)
    return select_n_p.bind(lt_p.bind(rest, np.zeros_like(n)[()]), rest, add_p.bind(rest, n))


def take_along(
    x: Any, indices: Any, axis: int, mode: Any = PROMISE, fill_value: Any = None, unique: bool = False
) -> Any:
    """`x[..., indices[..., i, ...], ...]` along one axis; `indices` has the other sizes of `x`."""
    shape, d = shape_of(x), tuple(i for i in range(len(shape_of(x))) if i != axis)
    out_shape = shape_of(indices)
    if 0 in out_shape:
        return zeros(ArrayType(out_shape, dtype_of(x)))
    return gather(
        x, expand_dims(indices, (len(shape),)), GatherDimensionNumbers((), (axis,), (axis,), d, d), (1,) * len(shape),
        unique_indices=unique, mode=mode, fill_value=fill_value)  # fmt: skip


PRIMITIVES: tuple[Primitive, ...] = (gather_p,)

__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "gather", "gather_p", "index_take",
]  # fmt: skip
