"""Products, sums and elementwise products of sparse arrays with each other and with dense ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import lax
from ... import numpy as jnp
from ...core.api.transformations import eval_shape
from ...core.ir.array import DTypeLike
from ...core.ir.types import is_bool
from ...core.primitives.contraction.coo_matmul import coo_matmul, sampled
from ...core.primitives.contraction.dot_algorithms import PrecisionLike
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ...core.tracing.trace import dtype_of, shape_of
from .base import Array, batched
from .bcoo import (
    BCOO,
    bcoo_extract,
    bcoo_sum_duplicates,
    bcoo_transpose,
    columns,
    full_buffers,
    past_end,
    valid,
    wrapped,
)
from .layout import bcoo_update_layout, flattened

Axes = tuple[int, ...]


class _Dims:
    """The dimension numbers of a product, as tuples."""

    def __init__(self, numbers: Any):
        (self.left, self.right), (self.left_batch, self.right_batch) = (
            (tuple(operator.index(d) for d in a), tuple(operator.index(d) for d in b)) for a, b in numbers
        )

    def result(self, lhs: Any, rhs: Any, preferred: Any) -> Any:
        """The shape and dtype of the product; raises where operands do not fit."""
        numbers = ((self.left, self.right), (self.left_batch, self.right_batch))
        dtype = _counted(jnp.promote_types(lhs.dtype, rhs.dtype))
        types = [jnp.empty((), dtype).aval.with_shape(x.shape) for x in (lhs, rhs)]
        return eval_shape(lambda a, b: lax.dot_general(a, b, numbers, preferred_element_type=preferred), *types)


def _counted(dtype: DTypeLike) -> Any:
    """The dtype of sums: booleans are counted."""
    return np.dtype(np.int32) if is_bool(dtype) else dtype


def _others(ndim: int, *axes: Axes) -> list[int]:
    taken = {d for some in axes for d in some}
    return [d for d in range(ndim) if d not in taken]


# ------------------------------------------------------------------------------------------- products


@public
def bcoo_dot_general(
    lhs: BCOO | Array, rhs: BCOO | Array, *, dimension_numbers: Any, precision: PrecisionLike = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """`lax.dot_general` of operands of which one or both are sparse: dense if one is dense, else sparse.

    Axes that both keep are batch axes of the sparse operand; dense axes are not summed over.

    Raises:
      UnsupportedError: batch axes that are not the sparse operand's, or a sum over its dense axes.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> bcoo_dot_general(sparse.eye(2), jnp.ones(2), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([1., 1.], dtype=float32)
    """
    dims = _Dims(dimension_numbers)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_sparse(lhs, rhs, dims, preferred_element_type)
    if isinstance(lhs, BCOO):
        return _sparse_dense(lhs, jnp.asarray(rhs), dims, preferred_element_type)
    if isinstance(rhs, BCOO):
        swapped = _Dims(tuple((b, a) for a, b in dimension_numbers))
        found = _sparse_dense(rhs, jnp.asarray(lhs), swapped, preferred_element_type)
        kept, batch = rhs.ndim - len(dims.right), len(dims.left_batch)
        return jnp.transpose(found, (*range(batch), *range(kept, found.ndim), *range(batch, kept)))
    return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)


def _sparse_dense(lhs: BCOO, rhs: Array, dims: _Dims, preferred: Any) -> Array:
    out = dims.result(lhs, rhs, preferred)
    if any(d >= lhs.n_batch for d in dims.left_batch):
        raise UnsupportedError(f"product of {lhs} with batch axes {dims.left_batch} that are not batch axes of it",
                               "`update_layout` makes them so")  # fmt: skip
    if any(d >= lhs.n_batch + lhs.n_sparse for d in dims.left):
        raise UnsupportedError(f"product of {lhs} over its dense axes", "`update_layout(n_dense=0)` makes them sparse")
    lhs, left, batches = _batch_first(lhs, dims)
    shared = len(dims.left_batch)
    rhs = jnp.transpose(rhs, (*dims.right_batch, *dims.right, *_others(rhs.ndim, dims.right_batch, dims.right)))
    rhs = jnp.expand_dims(rhs, tuple(range(shared, batches)))
    sizes, dense = lhs.parts[1:]
    free = [d for d in range(len(sizes)) if d not in left]
    dtype = jnp.promote_types(lhs.dtype, dtype_of(rhs)) if preferred is None else out.dtype
    computed = _counted(dtype)

    def product(data: Array, indices: Array, rhs: Array) -> Array:
        k = math.prod(sizes[d] for d in left)
        rows, cols = (_place(indices, sizes, axes) for axes in (free, left))
        inner, wide = math.prod(dense), jnp.reshape(rhs, (k, math.prod(shape_of(rhs)[len(left) :])))
        size = math.prod(sizes[d] for d in free)
        if dense:
            rows = jnp.ravel(rows[:, None] * inner + np.arange(inner, dtype=rows.dtype))
            cols = jnp.repeat(cols, inner)
        found = coo_matmul(jnp.ravel(data), rows, cols, wide, size=size * inner)
        return jnp.reshape(found, (*(sizes[d] for d in free), *dense, *shape_of(rhs)[len(left) :]))

    found = batched(product, batches)(lhs.data.astype(computed), lhs.indices, rhs.astype(computed))
    return jnp.broadcast_to(found, out.shape).astype(out.dtype)


def _place(indices: Array, sizes: Sequence[int], axes: Sequence[int]) -> Array:
    """Where elements are along some axes laid flat; before or past the ends where they are outside along any."""
    chosen = tuple(sizes[d] for d in axes)
    if not axes:
        return jnp.zeros(shape_of(indices)[0], indices.dtype)
    if len(axes) == 1:
        place = indices[:, axes[0]]
        return jnp.where(place < 0, place + np.asarray(chosen[0], place.dtype), place)
    picked = indices if list(axes) == list(range(len(sizes))) else indices[:, np.array(axes, np.int32)]
    return flattened(wrapped(picked, chosen), chosen)


def _batch_first(mat: BCOO, dims: _Dims) -> tuple[BCOO, list[int], int]:
    """The operand with shared batch axes first and those summed over made sparse; which sparse axes are summed over."""
    summed = [d for d in dims.left if d < mat.n_batch]
    order = [*dims.left_batch, *_others(mat.n_batch, dims.left_batch, tuple(summed)), *summed]
    kept = mat.n_batch - len(summed)
    left = [d - mat.n_batch + len(summed) if d >= mat.n_batch else summed.index(d) for d in dims.left]
    if order != list(range(mat.n_batch)):
        mat = bcoo_transpose(mat, permutation=(*order, *range(mat.n_batch, mat.ndim)))
    return bcoo_update_layout(mat, n_batch=kept), left, kept


def _sparse_sparse(lhs: BCOO, rhs: BCOO, dims: _Dims, preferred: Any) -> BCOO:
    """Every pair of elements that agree where the sum runs: as many as there may be."""
    out = dims.result(lhs, rhs, preferred)
    for mat, batch, summed in ((lhs, dims.left_batch, dims.left), (rhs, dims.right_batch, dims.right)):
        inside = all(mat.n_batch <= d < mat.n_batch + mat.n_sparse for d in summed)
        if mat.n_dense or not inside or any(d >= mat.n_batch for d in batch):
            raise UnsupportedError(
                f"product of sparse arrays {lhs} and {rhs} with batch axes {batch}, over {summed}",
                "shared axes are batch axes, sums run over sparse ones, and none is dense",
            )
    extra = rhs.n_batch - len(dims.right_batch)
    if extra and lhs.n_sparse > len(dims.left):
        raise UnsupportedError(f"product of {lhs} and {rhs}: free batch axes after free sparse ones",
                               "`update_layout(n_batch=...)` makes them sparse")  # fmt: skip
    shared, own = len(dims.left_batch), lhs.n_batch - len(dims.left_batch)
    lhs, rhs = (
        bcoo_transpose(m, permutation=(*b, *_others(m.n_batch, b), *range(m.n_batch, m.ndim)))
        for m, b in ((lhs, dims.left_batch), (rhs, dims.right_batch))
    )
    (ld, li), (rd, ri) = ([x.astype(out.dtype) if i == 0 else x for i, x in enumerate((m.data, m.indices))]
                          for m in (lhs, rhs))  # fmt: skip
    ld, li = (jnp.expand_dims(x, tuple(range(lhs.n_batch, lhs.n_batch + extra))) for x in (ld, li))
    rd, ri = (jnp.expand_dims(x, tuple(range(shared, shared + own))) for x in (rd, ri))
    left, right = ([d - m.n_batch for d in summed] for m, summed in ((lhs, dims.left), (rhs, dims.right)))
    batches = shared + own + extra
    most = math.prod(out.shape[batches:])

    def product(ld: Array, li: Array, rd: Array, ri: Array) -> tuple[Array, Array]:
        li, ri = wrapped(li, lhs.parts[1]), wrapped(ri, rhs.parts[1])
        same = jnp.all(li[:, None, np.array(left, np.int32)] == ri[None, :, np.array(right, np.int32)], -1)
        same = same & valid(li, lhs.parts[1])[:, None] & valid(ri, rhs.parts[1])[None]
        data = jnp.where(same, ld[:, None] * rd[None], 0).astype(out.dtype)
        pairs = []
        for axis, (indices, summed) in enumerate(((li, left), (ri, right))):
            kept = np.array(_others(indices.shape[1], tuple(summed)), np.int32)
            if not len(kept):
                data, same = jnp.sum(data, axis, keepdims=True), jnp.any(same, axis, keepdims=True)
            pairs.append((indices[:, kept], len(kept)))
        count = data.size
        places = [jnp.broadcast_to(jnp.expand_dims(x, 1 - axis) if n else jnp.zeros((1, 1, 0), x.dtype),
                                   (*data.shape, n)) for axis, (x, n) in enumerate(pairs)]  # fmt: skip
        kept = sum(n for _, n in pairs)
        indices = jnp.reshape(jnp.concatenate(places, -1), (count, kept))
        limits = past_end(indices, out.shape[batches:])
        return jnp.ravel(data), jnp.where(jnp.ravel(same)[:, None], indices, limits)

    found = BCOO(batched(product, batches)(ld, li, rd, ri), shape=out.shape)
    return bcoo_sum_duplicates(found, most) if found.nse > most else found


@public
def bcoo_dot_general_sampled(A: Array, B: Array, indices: Array, *, dimension_numbers: Any) -> Array:
    """The elements of a product of dense arrays at BCOO indices: shape batch axes + (nse,) + dense axes.

    >>> from tilewright import numpy as jnp
    >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> bcoo_dot_general_sampled(x, x, jnp.array([[0, 1]]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([10.], dtype=float32)
    """
    a, b, dims = jnp.asarray(A), jnp.asarray(B), _Dims(dimension_numbers)
    if is_bool(jnp.promote_types(a.dtype, b.dtype)):  # counted, to be asked whether there is any
        counts = bcoo_dot_general_sampled(a.astype(int), b.astype(int), indices, dimension_numbers=dimension_numbers)
        return counts.astype(bool)
    out = dims.result(a, b, None)
    if indices.ndim == 2 and indices.shape[1] == out.ndim == 2 and a.ndim == b.ndim == 2:
        a = jnp.transpose(a, (*_others(2, dims.left), *dims.left)).astype(out.dtype)
        b = jnp.transpose(b, (*_others(2, dims.right), *dims.right)).astype(out.dtype)
        rows, cols = columns(wrapped(indices, out.shape))
        return sampled(rows, cols, a, b)
    whole = lax.dot_general(a, b, dimension_numbers)
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    data = jnp.zeros((*indices.shape[:-1], *out.shape[n_batch + n_sparse :]), out.dtype)
    return bcoo_extract(BCOO((data, indices), shape=out.shape), whole, assume_unique=True).data


# ------------------------------------------------------------------------------------------- sums


@public
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sums over some axes, as a sparse array of as many elements.

    >>> from tilewright.experimental import sparse
    >>> bcoo_reduce_sum(sparse.eye(2), axes=(0,)).todense()
    Array([1., 1.], dtype=float32)
    """
    gone = {operator.index(a) for a in axes}
    if any(not 0 <= a < mat.ndim for a in gone):
        raise ArgumentError(f"sum over axes {sorted(gone)} of shape {mat.shape}", "0 <= axis < ndim")
    b, s = mat.n_batch, mat.n_sparse
    data, indices = full_buffers(mat) if any(a < b for a in gone) else (mat.data, mat.indices)
    data = jnp.sum(data, tuple(a - s + 1 for a in gone if a >= b + s), _counted(data.dtype))
    if any(b <= a < b + s for a in gone):
        inside = valid(indices, mat.parts[1])
        data = jnp.where(jnp.expand_dims(inside, tuple(range(b + 1, data.ndim))), data, 0).astype(data.dtype)
        kept = np.array([i for i in range(s) if i + b not in gone], np.int32)
        limits = past_end(indices, [mat.parts[1][i] for i in kept])
        indices = jnp.where(inside[..., None], indices[..., kept], limits)
    summed = [a for a in range(b) if a in gone]
    order = [*(a for a in range(b) if a not in gone), *summed]
    held = len(order) - len(summed)

    def laid(x: Array) -> Array:
        x = jnp.transpose(x, (*order, *range(b, x.ndim)))
        return jnp.reshape(x, (*x.shape[:held], math.prod(x.shape[held : b + 1]), *x.shape[b + 1 :]))

    shape = tuple(n for a, n in enumerate(mat.shape) if a not in gone)
    return BCOO((laid(data), laid(indices)) if summed else (data, indices), shape=shape)


# ------------------------------------------------------------------------------------------- elementwise products


@public
def bcoo_multiply_dense(sp_mat: BCOO, v: Array) -> Array:
    """The data of the elementwise product with a dense array, which is repeated to the sparse array's shape.

    Raises:
      UnsupportedError: the product would have another shape than the sparse array.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> bcoo_multiply_dense(sparse.eye(2), jnp.array([2.0, 3.0]))
    Array([2., 3.], dtype=float32)
    """
    return sp_mat.data * at_places(sp_mat, jnp.asarray(v), 0)


def at_places(mat: BCOO, v: Array, outside: int) -> Array:
    """The values of a dense array, repeated to a sparse array's shape, at its places; they broadcast with its data."""
    if not v.ndim:
        return v
    if v.ndim > mat.ndim or jnp.broadcast_shapes(v.shape, mat.shape) != mat.shape:
        raise UnsupportedError(f"product of {mat} with a dense array of shape {v.shape} has another shape",
                               "broadcast the sparse array first, or use `todense()`")  # fmt: skip
    sizes = mat.parts[1]

    def found(indices: Array, v: Array) -> Array:
        if not sizes:
            return v[None]
        count, inner = shape_of(indices)[0], shape_of(v)[len(sizes) :]
        if not count or 0 in shape_of(v)[: len(sizes)]:
            return jnp.full((count, *inner), outside, v.dtype)
        places = tuple(i if m != 1 else jnp.zeros_like(i) for i, m in zip(columns(wrapped(indices, sizes)), v.shape))
        return v.at[places].get(mode="fill", fill_value=outside)

    return batched(found, mat.n_batch)(mat.indices, jnp.reshape(v, (1,) * (mat.ndim - v.ndim) + v.shape))


@public
def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product of two sparse arrays of one number of axes.

    >>> from tilewright.experimental import sparse
    >>> bcoo_multiply_sparse(sparse.eye(2), sparse.eye(2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if lhs.ndim != rhs.ndim:
        raise ArgumentTypeError(f"product of sparse arrays of shapes {lhs.shape} and {rhs.shape}", "ranks are equal")
    if lhs.n_dense != rhs.n_dense:
        raise UnsupportedError(f"product of {lhs} and {rhs}", "`update_layout` gives them dense axes alike")
    shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
    n_batch = min(lhs.n_batch, rhs.n_batch)
    lhs, rhs = (bcoo_update_layout(m, n_batch=n_batch) for m in (lhs, rhs))
    a, b = lhs.parts[1], rhs.parts[1]
    sizes = shape[n_batch : n_batch + len(a)]
    both = np.array([i for i in range(len(a)) if a[i] == b[i] == sizes[i]], np.int32)

    def product(ld: Array, li: Array, rd: Array, ri: Array) -> tuple[Array, Array]:
        li, ri = wrapped(li, a), wrapped(ri, b)
        same = jnp.all(li[:, None, both] == ri[None, :, both], -1)
        same = same & valid(li, a)[:, None] & valid(ri, b)[None]
        dense = (1,) * (ld.ndim - 1)
        dtype = jnp.promote_types(ld.dtype, rd.dtype)
        if a == sizes or b == sizes:  # an element meets all that are at its place at once
            if a != sizes:
                ld, li, rd, same = rd, ri, ld, same.T
            met = jnp.tensordot(same.astype(dtype), rd.astype(dtype), 1)
            return (ld * met).astype(dtype), li
        pairs = (ld[:, None] * rd[None]).astype(dtype)
        data = jnp.where(jnp.reshape(same, (*same.shape, *dense)), pairs, 0).astype(dtype)
        indices = jnp.maximum(li[:, None], ri[None])
        indices = jnp.where(same[..., None], indices, past_end(indices, sizes))
        count = same.size
        return jnp.reshape(data, (count, *data.shape[2:])), jnp.reshape(indices, (count, len(sizes)))

    buffers = batched(product, n_batch)(lhs.data, lhs.indices, rhs.data, rhs.indices)
    return BCOO(buffers, shape=shape)


# ------------------------------------------------------------------------------------------- convolutions


@public
def bcoo_conv_general_dilated(
    lhs: BCOO | Array, rhs: BCOO | Array, *, window_strides: Any, padding: Any, lhs_dilation: Any = None,
    rhs_dilation: Any = None, dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1,
    precision: PrecisionLike = None, preferred_element_type: DTypeLike = None, out_sharding: Any = None,
) -> BCOO:  # fmt: skip
    """`lax.conv_general_dilated` in one dimension of one channel, of operands of which one or both are sparse.

    Raises:
      UnsupportedError: strides, dilations, groups, channels or more dimensions.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[[1.0, 0.0, 2.0]]]))
    >>> bcoo_conv_general_dilated(x, jnp.ones((1, 1, 2)), window_strides=(1,), padding=[(0, 0)]).todense()
    Array([[[1., 2.]]], dtype=float32)
    """
    plain = all(tuple(x) == (1,) for x in (window_strides, lhs_dilation or (1,), rhs_dilation or (1,)))
    plain = plain and feature_group_count == batch_group_count == 1 and lhs.ndim == rhs.ndim == 3
    if not plain or lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1):
        raise UnsupportedError(
            f"sparse convolution of shapes {lhs.shape} and {rhs.shape} with strides {window_strides}",
            "one dimension of one channel, without strides, dilations and groups",
        )
    if dimension_numbers not in (None, ("NCH", "OIH", "NCH"), ((0, 1, 2),) * 3) or lhs.dtype != rhs.dtype:
        raise UnsupportedError(f"sparse convolution with {dimension_numbers}", "operands of one dtype, laid out as NCH")
    sizes = (lhs.shape[2], rhs.shape[2])
    low, high = lax.padtype_to_pads(sizes[:1], sizes[1:], (1,), padding)[0] if isinstance(padding, str) else padding[0]
    (ld, li), (rd, ri) = (_line(x) for x in (lhs, rhs))
    data = jnp.ravel(ld[:, None] * rd[None])
    length = max(0, sizes[0] + low + high - sizes[1] + 1)
    places = jnp.ravel(li[:, None] + low - ri[None])
    outside = (places < 0) | (places >= length)
    places = jnp.where(outside, length, places)
    data = jnp.where(outside, 0, data).astype(data.dtype)
    return BCOO((data[None, None], places[None, None, :, None]), shape=(1, 1, length))


def _line(x: BCOO | Array) -> tuple[Array, Array]:
    """The elements of an operand of shape (1, 1, n), those outside as zeros at 0."""
    if not isinstance(x, BCOO):
        return jnp.ravel(x), jnp.arange(x.size, dtype=np.int32)
    mat = bcoo_update_layout(bcoo_update_layout(x, n_batch=0, n_dense=0), n_batch=2)
    data, indices = mat.data[0, 0], mat.indices[0, 0, :, 0]
    inside = valid(mat.indices[0, 0], mat.shape[2:])
    return jnp.where(inside, data, 0).astype(data.dtype), jnp.where(inside, indices, 0)


__all__ = [
    "bcoo_conv_general_dilated", "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_multiply_dense",
    "bcoo_multiply_sparse", "bcoo_reduce_sum",
]  # fmt: skip
