"""Axes of sparse arrays: what kind an axis is, broadcasting, joining, reshaping, reversing, slicing, gathering."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import lax
from ... import numpy as jnp
from ...core.api.transformations import vmap
from ...core.ir.array import DTypeLike
from ...core.ir.types import canonical_dtype
from ...core.primitives.movement.gather_dimension_numbers import GatherScatterMode
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError, AxisError, ShapeError, UnsupportedError, warn
from ...core.tracing.trace import dtype_of, shape_of
from .base import Array, Shape, SparseEfficiencyError, SparseEfficiencyWarning, batched, check_fits
from .bcoo import BCOO, bcoo_sum_duplicates, bcoo_transpose, columns, full_buffers, past_end, valid, wrapped


def _grid(sizes: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    """Every place of some axes in row-major order: shape (places, axes)."""
    return np.indices(sizes).reshape(len(sizes), math.prod(sizes)).T.astype(dtype)


# ------------------------------------------------------------------------------------------ what kind an axis is


@public
def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> BCOO:
    """The same array with other numbers of batch and dense axes.

    More of them than before means storing zeros, unless the axes are of size 1: an error, with `on_inefficient` "warn"
    a warning, with None neither.

    Raises:
      SparseEfficiencyError: zeros would be stored.
      ArgumentError: the numbers do not fit the array.

    >>> from tilewright.experimental import sparse
    >>> bcoo_update_layout(sparse.eye(2), n_batch=1, on_inefficient=None)
    BCOO(float32[2, 2], nse=2, n_batch=1)
    """
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if on_inefficient not in ("error", "warn", None):
        raise ArgumentError(f"on_inefficient={on_inefficient!r}", "'error', 'warn' or None")
    if min(n_batch, n_dense, mat.ndim - n_batch - n_dense) < 0:
        raise ArgumentError(f"n_batch={n_batch} and n_dense={n_dense} for {mat.ndim} axes", "0 or more sparse ones")
    grown = (*mat.shape[mat.n_batch : n_batch], *mat.shape[mat.ndim - n_dense : mat.ndim - mat.n_dense])
    if any(n > 1 for n in grown) and on_inefficient:
        what = f"{mat} with n_batch={n_batch} and n_dense={n_dense} stores zeros"
        if on_inefficient == "error":
            raise SparseEfficiencyError(what, "pass on_inefficient='warn' or None if that is what you want")
        warn(what, SparseEfficiencyWarning)
    if n_dense < mat.n_dense:
        mat = _dense_to_sparse(mat, mat.n_dense - n_dense)
    if n_batch < mat.n_batch:
        mat = _batch_to_sparse(mat, mat.n_batch - n_batch)
    if n_dense > mat.n_dense:
        mat = _sparse_to_dense(mat, n_dense - mat.n_dense)
    return _sparse_to_batch(mat, n_batch - mat.n_batch) if n_batch > mat.n_batch else mat


def _dense_to_sparse(mat: BCOO, count: int) -> BCOO:
    sizes = mat.parts[2][:count]
    grid = _grid(sizes, dtype_of(mat.indices))

    def change(data: Array, indices: Array) -> tuple[Array, Array]:
        nse = indices.shape[0]
        data = jnp.reshape(data, (nse * len(grid), *data.shape[1 + count :]))
        return data, jnp.concatenate([jnp.repeat(indices, len(grid), 0), np.tile(grid, (nse, 1))], 1)

    data, indices = batched(change, mat.n_batch)(mat.data, mat.indices)
    return BCOO((data, indices), shape=mat.shape, unique_indices=mat.unique_indices)


def _batch_to_sparse(mat: BCOO, count: int) -> BCOO:
    data, indices = full_buffers(mat)
    kept = mat.n_batch - count
    grid = _grid(mat.parts[0][kept:], dtype_of(indices))

    def change(data: Array, indices: Array) -> tuple[Array, Array]:
        nse = indices.shape[-2]
        data = jnp.reshape(data, (len(grid) * nse, *data.shape[count + 1 :]))
        indices = jnp.reshape(indices, (len(grid) * nse, indices.shape[-1]))
        return data, jnp.concatenate([np.repeat(grid, nse, 0), indices], 1)

    data, indices = batched(change, kept)(data, indices)
    return BCOO((data, indices), shape=mat.shape, unique_indices=mat.unique_indices)


def _sparse_to_dense(mat: BCOO, count: int) -> BCOO:
    sizes = mat.parts[1][mat.n_sparse - count :]

    def change(data: Array, indices: Array) -> tuple[Array, Array]:
        places = (jnp.arange(indices.shape[0]), *columns(indices[:, indices.shape[1] - count :]))
        wide = jnp.zeros((data.shape[0], *sizes, *data.shape[1:]), data.dtype)
        return wide.at[places].set(data, mode="drop") if wide.size else wide, indices[:, : indices.shape[1] - count]

    data, indices = batched(change, mat.n_batch)(mat.data, mat.indices)
    return BCOO((data, indices), shape=mat.shape)


def _sparse_to_batch(mat: BCOO, count: int) -> BCOO:
    sizes = mat.parts[1][:count]

    def change(data: Array, indices: Array) -> tuple[Array, Array]:
        nse, rest = indices.shape[0], indices[:, count:]
        wide = jnp.zeros((*sizes, *data.shape), data.dtype)
        if wide.size:
            wide = wide.at[(*columns(indices[:, :count]), jnp.arange(nse))].set(data, mode="drop")
        return wide, jnp.broadcast_to(rest, (*sizes, *rest.shape))

    data, indices = batched(change, mat.n_batch)(mat.data, mat.indices)
    return BCOO((data, indices), shape=mat.shape)


# ------------------------------------------------------------------------------------------- shapes


@public
def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The array repeated along new axes; axis i becomes axis `broadcast_dimensions[i]`.

    New axes before the sparse ones are batch axes, those after dense ones dense, others sparse and of size 1.

    Raises:
      UnsupportedError: a sparse axis would get another size than 1.

    >>> from tilewright.experimental import sparse
    >>> bcoo_broadcast_in_dim(sparse.eye(2), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCOO(float32[3, 2, 2], nse=2, n_batch=1)
    """
    shape, dims = tuple(shape), tuple(operator.index(d) for d in broadcast_dimensions)
    if len(dims) != mat.ndim:
        raise ShapeError(f"broadcast_dimensions {dims} for shape {mat.shape}", "one for each axis")
    b, s = mat.n_batch, mat.n_sparse
    batch, sparse, dense = dims[:b], dims[b : b + s], dims[b + s :]
    if list(dims) != sorted(set(dims)):
        raise ArgumentError(f"broadcast_dimensions {dims} mix kinds of axes", "they ascend")
    n_batch = min(dims[b:], default=len(shape))
    n_dense = len(shape) - dense[0] if dense else 0
    inner, old = shape[n_batch : len(shape) - n_dense], mat.parts[1]
    if math.prod(inner) != math.prod(old):
        raise UnsupportedError(f"broadcast of {mat} to {shape} adds sparse axes of size above 1",
                               "new axes before the sparse ones can have any size")  # fmt: skip
    data = lax.broadcast_in_dim(
        mat.data, (*shape[:n_batch], mat.nse, *shape[len(shape) - n_dense :]),
        (*batch, n_batch, *(d - len(inner) + 1 for d in dense)))  # fmt: skip
    indices = lax.broadcast_in_dim(mat.indices, (*shape[:n_batch], mat.nse, s), (*batch, n_batch, n_batch + 1))
    if len(inner) != s:
        inside = valid(indices, old)[..., None]
        places = [jnp.zeros_like(indices[..., 0])] * len(inner)
        for i, d in enumerate(sparse):
            places[d - n_batch] = indices[..., i]
        indices = jnp.where(inside, jnp.stack(places, -1), past_end(indices, inner))
    return BCOO((data, indices), shape=shape)


@public
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Sparse arrays of one layout joined along a batch or sparse axis.

    Raises:
      ArgumentError: the layouts differ.
      UnsupportedError: the axis is dense.

    >>> from tilewright.experimental import sparse
    >>> bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0)
    BCOO(float32[4, 2], nse=4)
    """
    mats, d = list(operands), operator.index(dimension)
    if not mats or not all(isinstance(m, BCOO) for m in mats):
        raise ArgumentError("bcoo_concatenate takes BCOO arrays, one or more", "convert the others by `fromdense`")
    mats = _aligned(mats)
    first = mats[0]
    layouts = {(m.n_batch, m.n_dense, m.ndim) for m in mats}
    if len(layouts) > 1:
        raise ArgumentError(f"bcoo_concatenate of layouts {sorted(layouts)}", "`update_layout` makes them alike")
    if not 0 <= d < first.ndim or len({(*m.shape[:d], *m.shape[d + 1 :]) for m in mats}) > 1:
        raise ShapeError(f"bcoo_concatenate of shapes {[m.shape for m in mats]} along axis {d}", "others are equal")
    shape = (*first.shape[:d], sum(m.shape[d] for m in mats), *first.shape[d + 1 :])
    b = first.n_batch
    if d >= b + first.n_sparse:
        raise UnsupportedError("bcoo_concatenate along a dense axis", "make it sparse by `update_layout`")
    parts = [full_buffers(m) for m in mats]
    if d < b:
        nse = max(m.nse for m in mats)
        parts = [_padded(m, *part, nse) for m, part in zip(mats, parts, strict=True)]
        return BCOO(tuple(jnp.concatenate(list(x), d) for x in zip(*parts)), shape=shape)
    indices, start = [], 0
    for m, (_, old) in zip(mats, parts, strict=True):
        offset = past_end(old, [start if i == d - b else 0 for i in range(m.n_sparse)])
        limits = past_end(old, shape[b : b + m.n_sparse])
        old = wrapped(old, m.parts[1])
        indices.append(jnp.where(valid(old, m.parts[1])[..., None], old + offset, limits))
        start += m.shape[d]
    data = jnp.concatenate([p[0] for p in parts], b)
    return BCOO((data, jnp.concatenate(indices, b)), shape=shape)


def _aligned(mats: list[BCOO]) -> list[BCOO]:
    """Arrays of which some have one batch axis and some none, of size 1: as `m[None]` gives them."""
    counts = {m.n_batch for m in mats}
    if counts != {0, 1}:
        return mats
    for wanted in (1, 0):
        others = [m for m in mats if m.n_batch != wanted]
        if all(m.ndim and m.shape[0] == 1 for m in others):
            return [bcoo_update_layout(m, n_batch=wanted) for m in mats]
    return mats


def _padded(mat: BCOO, data: Array, indices: Array, nse: int) -> tuple[Array, Array]:
    b, missing = mat.n_batch, nse - mat.nse
    if not missing:
        return data, indices
    filler = jnp.broadcast_to(past_end(indices, mat.parts[1]), (*mat.parts[0], missing, mat.n_sparse))
    zeros = jnp.zeros((*mat.parts[0], missing, *mat.parts[2]), data.dtype)
    return jnp.concatenate([data, zeros], b), jnp.concatenate([indices, filler], b)


@public
def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None
) -> BCOO:
    """The array in another shape, in which batch, sparse and dense axes stay apart; first transposed by `dimensions`.

    Raises:
      ArgumentError: the new shape mixes kinds of axes, or has another size.

    >>> from tilewright.experimental import sparse
    >>> bcoo_reshape(sparse.eye(2), new_sizes=(4,)).indices.ravel()
    Array([0, 3], dtype=int32)
    """
    new = tuple(operator.index(n) for n in new_sizes)
    if math.prod(new) != mat.size:
        raise ShapeError(f"reshape of {mat.shape} to {new}", "the sizes have one product")
    if not mat.size:
        return BCOO._empty(new, dtype=mat.dtype, index_dtype=mat.indices.dtype)
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=tuple(dimensions))
    batch, sparse, _ = mat.parts
    running = [math.prod(new[:i]) for i in range(len(new) + 1)]
    first, second = math.prod(batch), math.prod(batch) * math.prod(sparse)
    if first not in running or second not in running:
        raise ArgumentError(f"reshape of {mat} to {new} mixes batch, sparse and dense axes",
                            "`update_layout` changes what an axis is")  # fmt: skip
    # Axes of size 1 at a border go with the axes before it.
    i1 = max(i for i, n in enumerate(running) if n == first) if mat.n_batch else 0
    i2 = max(i for i, n in enumerate(running) if n == second) if mat.n_dense else len(new)
    i2 = max(i1, i2)
    data, indices = full_buffers(mat)
    new_batch, new_sparse, new_dense = new[:i1], new[i1:i2], new[i2:]
    data = jnp.reshape(data, (*new_batch, mat.nse, *new_dense))
    indices = jnp.reshape(indices, (*new_batch, mat.nse, mat.n_sparse))
    limits = past_end(indices, new_sparse)
    inside = valid(indices, sparse)[..., None]
    flat = flattened(wrapped(indices, sparse), sparse)
    places = jnp.unravel_index(jnp.where(inside[..., 0], flat, 0), new_sparse) if new_sparse else ()
    if not new_sparse:
        indices = jnp.zeros((*new_batch, mat.nse, 0), indices.dtype)
        data = jnp.where(jnp.reshape(inside, inside.shape[:-1] + (1,) * len(new_dense)), data, 0).astype(data.dtype)
    else:
        indices = jnp.where(inside, jnp.stack(places, -1).astype(indices.dtype), limits)
    return BCOO((data, indices), shape=new, unique_indices=mat.unique_indices)


def flattened(indices: Array, sizes: Shape) -> Array:
    """Coordinates as places in row-major order; those past the end of any axis come out past the end of all."""
    total = math.prod(sizes)
    steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    dtype = dtype_of(indices) if total <= np.iinfo(dtype_of(indices)).max else canonical_dtype(np.int64)
    check_fits((total,), dtype)
    place = jnp.zeros(shape_of(indices)[:-1], dtype)
    for column, step in zip(columns(indices), steps, strict=True):
        place = place + column.astype(dtype) * step
    return jnp.where(valid(indices, sizes), place, total)


@public
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with the order of elements along some axes reversed.

    >>> from tilewright.experimental import sparse
    >>> bcoo_rev(sparse.eye(2), (0,)).todense()
    Array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    dims = tuple(operator.index(d) for d in dimensions)
    if any(not 0 <= d < operand.ndim for d in dims) or len(set(dims)) < len(dims):
        raise AxisError(f"bcoo_rev along {dims} of an array of {operand.ndim} axes", "name axes that it has, once each")
    b, s = operand.n_batch, operand.n_sparse
    data, indices = full_buffers(operand)
    batch, dense = [d for d in dims if d < b], [d - s + 1 for d in dims if d >= b + s]
    data, indices = lax.rev(data, (*batch, *dense)), lax.rev(indices, tuple(batch))
    sizes = operand.parts[1]
    turned = past_end(indices, [i + b in dims for i in range(s)]).astype(bool)
    limits = past_end(indices, sizes)
    found = wrapped(indices, sizes)
    found = jnp.where(valid(found, sizes)[..., None] & turned, limits - 1 - found, found)
    return BCOO((data, found), shape=operand.shape, unique_indices=operand.unique_indices)


@public
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without some axes of size 1.

    >>> from tilewright.experimental import sparse
    >>> bcoo_squeeze(sparse.empty((2, 1)), dimensions=(1,)).shape
    (2,)
    """
    dims = {operator.index(d) + (arr.ndim if d < 0 else 0) for d in dimensions}
    if any(not 0 <= d < arr.ndim or arr.shape[d] != 1 for d in dims):
        raise ShapeError(f"squeeze of axes {sorted(dims)} of shape {arr.shape}", "they are of size 1")
    b, s = arr.n_batch, arr.n_sparse
    batch = tuple(d for d in dims if d < b)
    dense = tuple(d - s + 1 for d in dims if d >= b + s)
    kept = np.array([i for i in range(s) if i + b not in dims], np.int32)
    indices = arr.indices
    if len(kept) < s:
        inside = valid(indices, arr.parts[1])[..., None]
        limits = past_end(indices, [arr.parts[1][i] for i in kept])
        data = jnp.where(jnp.expand_dims(inside[..., 0], tuple(range(b + 1, arr.data.ndim))), arr.data, 0)
        indices = jnp.where(inside, indices[..., kept], limits)
    else:
        data = arr.data
    shape = tuple(n for d, n in enumerate(arr.shape) if d not in dims)
    buffers = (jnp.squeeze(data.astype(arr.dtype), (*batch, *dense)), jnp.squeeze(indices, batch))
    return BCOO(buffers, shape=shape, **arr._flags)


# ------------------------------------------------------------------------------------------- slices


@public
def bcoo_slice(
    mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> BCOO:
    """The part of an array from `start_indices` to before `limit_indices`, every `strides`-th element.

    Raises:
      ArgumentError: bounds or strides that the array does not have.

    >>> from tilewright.experimental import sparse
    >>> bcoo_slice(sparse.eye(3), start_indices=(0, 1), limit_indices=(3, 3)).shape
    (3, 2)
    """
    _is_bcoo(mat, "bcoo_slice")
    starts, limits = [operator.index(i) for i in start_indices], [operator.index(i) for i in limit_indices]
    steps = [1] * mat.ndim if strides is None else [operator.index(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim or any(step <= 0 for step in steps) or any(
        not 0 <= a <= z <= n for a, z, n in zip(starts, limits, mat.shape, strict=False)
    ):  # fmt: skip
        raise ArgumentError(f"slice from {starts} to {limits} by {steps} of shape {mat.shape}",
                            "0 <= start <= limit <= size, and positive strides, for each axis")  # fmt: skip
    b, s = mat.n_batch, mat.n_sparse
    cuts = [slice(a, z, step) for a, z, step in zip(starts, limits, steps, strict=True)]
    shape = tuple(-(-(z - a) // step) for a, z, step in zip(starts, limits, steps, strict=True))
    data, indices = (x[tuple(slice(None) if x.shape[i] != mat.shape[i] else cuts[i] for i in range(b))]
                     for x in (mat.data, mat.indices))  # fmt: skip
    data = data[(slice(None),) * (b + 1) + tuple(cuts[b + s :])]
    first, last, step = (past_end(indices, x[b : b + s]) for x in (starts, limits, steps))
    found = wrapped(indices, mat.parts[1])
    keep = jnp.all((found >= first) & (found < last) & ((found - first) % step == 0), -1)
    return _kept(mat, data, (found - first) // step, keep, shape)


def _kept(mat: BCOO, data: Array, indices: Array, keep: Array, shape: Shape) -> BCOO:
    """Of moved elements those that are in a part; no more of them than the part has places."""
    b, s = mat.n_batch, mat.n_sparse
    if not s:
        return BCOO((data, indices), shape=shape)
    sizes = shape[b : b + s]
    indices = jnp.where(keep[..., None], indices, past_end(indices, sizes)).astype(mat.indices.dtype)
    mask = jnp.expand_dims(keep, tuple(range(b + 1, data.ndim)))
    found = BCOO((jnp.where(mask, data, 0).astype(data.dtype), indices), shape=shape)
    return bcoo_sum_duplicates(found, math.prod(sizes)) if mat.nse > math.prod(sizes) else found


@public
def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """The part of `slice_sizes` that begins at `start_indices`, which may be traced and are moved inside.

    >>> from tilewright.experimental import sparse
    >>> bcoo_dynamic_slice(sparse.eye(3), (1, 1), (2, 2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    _is_bcoo(mat, "bcoo_dynamic_slice")
    sizes = tuple(operator.index(n) for n in slice_sizes)
    if not len(start_indices) == len(sizes) == mat.ndim or any(
        not 0 <= n <= m for n, m in zip(sizes, mat.shape, strict=False)
    ):
        raise ShapeError(f"dynamic_slice of sizes {sizes} of shape {mat.shape}", "one start and size for each axis")
    b, s = mat.n_batch, mat.n_sparse
    starts = [jnp.asarray(i) for i in start_indices]
    starts = [jnp.clip(jnp.where(i < 0, i + m, i), 0, m - n) for i, m, n in zip(starts, mat.shape, sizes, strict=True)]
    data, indices = full_buffers(mat)
    zero = [jnp.zeros_like(starts[0])] * (1 if starts else 0)
    data = lax.dynamic_slice(
        data, (*starts[:b], *zero, *starts[b + s :]), (*sizes[:b], mat.nse, *sizes[b + s :])
    ) if mat.ndim else data  # fmt: skip
    indices = lax.dynamic_slice(indices, (*starts[:b], *zero, *zero), (*sizes[:b], mat.nse, s)) if b else indices
    if not s:
        return BCOO((data, indices), shape=sizes)
    first = jnp.expand_dims(jnp.stack(starts[b : b + s]).astype(indices.dtype), tuple(range(b + 1)))
    found = wrapped(indices, mat.parts[1])
    last = first + past_end(indices, sizes[b : b + s])
    keep = jnp.all((found >= first) & (found < last), -1)
    return _kept(mat, data, found - first, keep, sizes)


@public
def bcoo_gather(
    operand: BCOO, start_indices: Array, dimension_numbers: Any, slice_sizes: Sequence[int], *,
    unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None, fill_value: Any = None,
) -> BCOO:  # fmt: skip
    """`lax.gather` of a sparse array, for indices within bounds.

    Raises:
      UnsupportedError: a mode that says what is outside, or batching dimensions.

    >>> import numpy as np
    >>> from tilewright import lax
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.BCOO.fromdense(np.float32([[0, 2], [3, 0]]))
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> sparse.bcoo_gather(mat, np.int32([[1]]), rows, (1, 2)).todense().tolist()
    [[3.0, 0.0]]
    """
    _is_bcoo(operand, "bcoo_gather")
    numbers = lax.GatherDimensionNumbers(*dimension_numbers)
    how = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if how is GatherScatterMode.FILL_OR_DROP or numbers.operand_batching_dims:
        raise UnsupportedError(f"gather of a sparse array with mode={how.value!r} or batching dimensions",
                               "x.at[i].get(mode='clip'), or `todense()` first")  # fmt: skip
    starts, full = jnp.asarray(start_indices), list(operand.shape)
    where: list[Any] = [jnp.zeros((), starts.dtype)] * operand.ndim
    axes: list[int | None] = [None] * operand.ndim
    for i, d in enumerate(numbers.start_index_map):
        where[d], axes[d], full[d] = jnp.ravel(starts[..., i]), 0, slice_sizes[d]

    def one(where: list[Array]) -> BCOO:
        return bcoo_squeeze(bcoo_dynamic_slice(operand, where, full), dimensions=numbers.collapsed_slice_dims)

    result = vmap(one, in_axes=(axes,))(where)
    batch = starts.shape[:-1]
    inner = result.shape[1:]
    data, indices = full_buffers(result)
    data, indices = (jnp.reshape(x, (*batch, *x.shape[1:])) for x in (data, indices))
    result = BCOO((data, indices), shape=(*batch, *inner))
    offsets = numbers.offset_dims
    others = [d for d in range(result.ndim) if d not in offsets]
    order = [0] * result.ndim
    for source, target in enumerate([*others, *offsets]):
        order[target] = source
    if sorted(order[: result.n_batch]) != list(range(result.n_batch)):
        result = bcoo_update_layout(result, n_batch=0)
    return bcoo_transpose(result, permutation=tuple(order))


def _is_bcoo(mat: Any, name: str) -> None:
    if not isinstance(mat, BCOO):
        raise ArgumentTypeError(f"{name} of a {type(mat).__name__}", "the first argument is a BCOO")


__all__ = [
    "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dynamic_slice", "bcoo_gather", "bcoo_reshape", "bcoo_rev",
    "bcoo_slice", "bcoo_squeeze", "bcoo_update_layout",
]  # fmt: skip
