"""Primitives that move elements without computing on them: broadcast, reshape, transpose, slice, pad, ...

The functions are those of `jax.lax`. All keep the dtype, any one (random keys too), and are linear in the array.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike, Operand
from ...ir.axis_relation import FREE, IDENTITY, MOVER, Loops, Relation, Whole, Window, inserted, pointwise, same_places
from ...ir.binding import with_out_sharding
from ...ir.primitive import NAMED, SIZE, AxisInfo, Linear, Primitive
from ...ir.static_ints import as_axes, as_axis, as_shape, check_positions, integers
from ...ir.typeof import placed_like
from ...ir.types import ArrayType, Shape, as_size, canonical_dtype, is_bool, is_integer, is_key, kind
from ...support.call_errors import public
from ...support.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError
from ...tracing.array_conversion import on_devices_of
from ...tracing.trace import Value, dtype_of, shape_of, typeof
from ...transforms.rule_helpers import instantiate, linear_jvp
from ...transforms.structural_primitives import (
    broadcast_in_dim_p,
    moved,
    reduce_sum_p,
    reshape_p,
    reshape_to,
    shape_error,
    transpose_p,
)
from ..elementwise.arithmetic import sub_p
from ..elementwise.comparison import select_n_p
from ..elementwise.conversion import convert_element_type

Dims = tuple[int, ...]


# ---------------------------------------------------------------------------- broadcast_in_dim


@public
def broadcast_in_dim(
    operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: None = None
) -> Array:
    """Spread an array over `shape`, its axis `i` becoming axis `broadcast_dimensions[i]`.

    >>> print(broadcast_in_dim(np.array([[1], [2]]), (3, 2), (1, 0)))
    [[1 2]
     [1 2]
     [1 2]]
    """
    shape = as_shape(shape, "broadcast_in_dim")
    dims = integers(broadcast_dimensions, "broadcast_dimensions", "broadcast_in_dim")
    if len(set(dims)) == len(dims) == len(shape_of(operand)) and list(dims) != sorted(dims):
        operand = transpose_p.bind(operand, permutation=tuple(sorted(range(len(dims)), key=dims.__getitem__)))
        dims = tuple(sorted(dims))
    x = typeof(operand)
    if isinstance(operand, Value) and x.shape == shape and len(dims) == len(shape):
        return operand
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims)


@public
def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: None = None) -> Array:
    """Add leading axes of the given sizes.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.broadcast(jnp.ones(3), (2,)).shape
    (2, 3)
    """
    sizes = as_shape(sizes, "broadcast")
    shape = shape_of(operand)
    return broadcast_in_dim(operand, (*sizes, *shape), range(len(sizes), len(sizes) + len(shape)))


def broadcast_to(operand: ArrayLike, shape: Sequence[int]) -> Any:
    """Spread an array over `shape` by NumPy's rule: axes align at the end."""
    shape = tuple(shape)
    ndim = len(shape_of(operand))
    if ndim > len(shape):
        raise ShapeError(f"broadcast_to: an array of shape {shape_of(operand)} does not broadcast to {shape}")
    return broadcast_in_dim(operand, shape, range(len(shape) - ndim, len(shape)))


@public
def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Add leading axes of size 1 until the array has `rank` axes."""
    ndim = len(shape_of(x))
    return x if ndim == rank else expand_dims(x, range(rank - ndim))


@public
def broadcast_shapes(*shapes: Sequence[int] | int) -> Shape:
    """The shape that arrays of the given shapes broadcast to by NumPy's rule; a number is the shape of a vector.

    Raises `ShapeError` for sizes that differ and none of which is 1, and for negative ones.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    full = [(s,) if isinstance(s, int | np.integer) else s for s in shapes]
    rank = max((len(s) for s in full), default=0)
    out = [1] * rank
    for shape in full:
        for i, d in enumerate(shape, rank - len(shape)):
            if out[i] != d and d != 1:
                if out[i] != 1:
                    shown = ", ".join(str(tuple(s)) for s in full)
                    remedy = "sizes must be equal or 1"
                    if len(set(map(len, full))) > 1:
                        remedy += (", counted from the last axis: an axis that is summed over stays with "
                                   "`keepdims=True`, `x[:, None]` adds one")  # fmt: skip
                    raise ShapeError(f"Incompatible shapes for broadcasting: {shown}", remedy)
                if isinstance(d, str | float) or (isinstance(d, int) and d < 0):
                    kind = ShapeError if isinstance(d, int) else ArgumentTypeError
                    raise kind(f"the shape {tuple(shape)} has the size {d!r}", "sizes are integers, zero or more")
                out[i] = as_size(d)
    return tuple(out)


@public
def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert axes of size 1 at the given positions of the result.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.expand_dims(jnp.ones((2, 3)), (0, 3)).shape
    (1, 2, 3, 1)
    """
    shape = shape_of(array)
    rank = len(shape) + len(integers(dimensions, "dimensions", "expand_dims"))
    new = as_axes(dimensions, rank, "expand_dims")
    kept = [i for i in range(rank) if i not in new]
    sizes = [1] * rank
    for i, d in zip(kept, shape, strict=True):
        sizes[i] = d
    return broadcast_in_dim(array, sizes, kept)


# ---------------------------------------------------------------------------- reshape, squeeze, transpose, rev, copy


@public
def reshape(
    operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, *, out_sharding: None = None
) -> Array:
    """The same elements, in row-major order, in another shape; one size may be -1, to be worked out.

    `dimensions`, if given, is a permutation of the axes applied first.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if dimensions is not None and tuple(dimensions) != tuple(range(len(dimensions))):
        operand = transpose(operand, dimensions)
    x = typeof(operand)
    sizes = integers(new_sizes, "new_sizes", "reshape")
    if -1 in sizes:
        rest = -math.prod(sizes)
        if sizes.count(-1) > 1 or any(d < -1 for d in sizes) or not rest or x.size % rest:
            raise shape_error("reshape", x, f"cannot work out the -1 of {sizes}")  # type: ignore[arg-type]
        sizes = tuple(x.size // rest if d == -1 else d for d in sizes)
    if isinstance(operand, Value) and x.shape == sizes:
        return operand
    return reshape_p.bind(operand, new_sizes=sizes, dimensions=None)


@public
def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge the axes from `start_dimension` up to, not including, `stop_dimension` into one.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.collapse(jnp.ones((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    shape = shape_of(operand)
    start, stop, _ = slice_of(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise ShapeError(f"collapse: axes {start_dimension} to {stop_dimension} of shape {shape} run backwards")
    return reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def _squeeze_typing(x: ArrayType, *, dimensions: Dims) -> ArrayType:
    if any(not 0 <= d < x.ndim or x.shape[d] != 1 for d in dimensions):
        raise shape_error("squeeze", x, f"axes {dimensions} are not all of size 1", "only axes of size 1 can go")
    return x.with_shape(d for i, d in enumerate(x.shape) if i not in dimensions)


def _squeeze_relation(ins: Sequence[Any], outs: Sequence[Any], *, dimensions: Dims) -> Relation:
    loops = Loops()
    axes = loops.axes(ins[0].shape)
    return loops.relation([axes], [tuple(a for d, a in enumerate(axes) if d not in dimensions)])


squeeze_p: Primitive = Primitive(
    "squeeze",
    typing=_squeeze_typing,
    jvp=linear_jvp(lambda: squeeze_p),
    transpose=lambda ct, x, **_: [reshape_to(ct, x.shape)],
    axes={"dimensions": NAMED},
    numpy=lambda x, *, dimensions: np.squeeze(x, dimensions),
    relation=_squeeze_relation,
    work=FREE,
    kind=MOVER,
)


@public
def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Drop the named axes, each of size 1.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.squeeze(jnp.ones((1, 3, 1)), (0,)).shape
    (3, 1)
    """
    dims = as_axes(dimensions, len(shape_of(array)), "squeeze")
    return array if not dims and isinstance(array, Value) else squeeze_p.bind(array, dimensions=tuple(sorted(dims)))


@public
def transpose(operand: Operand, permutation: Sequence[int]) -> Array:
    """Reorder the axes: axis `i` of the result is axis `permutation[i]` of the operand.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.transpose(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    permutation = integers(permutation, "permutation", "transpose")
    if (
        permutation == tuple(range(len(permutation)))
        and isinstance(operand, Value)
        and len(permutation) == len(operand.aval.shape)
    ):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def _rev_typing(x: ArrayType, *, dimensions: Dims) -> ArrayType:
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < x.ndim for d in dimensions):
        raise shape_error("rev", x, f"axes {dimensions} are not distinct axes of it")
    return x


def _rev_relation(ins: Sequence[Any], outs: Sequence[Any], *, dimensions: Dims) -> Relation:
    loops = Loops()
    axes = loops.axes(ins[0].shape)
    return loops.relation([axes], [axes], {f: Whole() for d in dimensions for f in axes[d]})


rev_p: Primitive = Primitive(
    "rev",
    places=same_places,
    typing=_rev_typing,
    jvp=linear_jvp(lambda: rev_p),
    transpose=lambda ct, x, *, dimensions: [rev_p.bind(ct, dimensions=dimensions)],
    numpy=lambda x, *, dimensions: np.flip(x, dimensions),
    relation=_rev_relation,
    axes={"dimensions": NAMED},
    work=FREE,
    kind=MOVER,
)


@public
def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along the named axes.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.rev(jnp.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return rev_p.bind(operand, dimensions=as_axes(dimensions, len(shape_of(operand)), "rev"))


copy_p: Primitive = Primitive(
    "copy",
    typing=lambda x: x,
    jvp=linear_jvp(lambda: copy_p),
    transpose=lambda ct, x: [ct],
    numpy=np.copy,
    relation=pointwise,
    work=FREE,
    kind=IDENTITY,
)


def copy(x: Any) -> Any:
    """A new array with the same elements."""
    return copy_p.bind(x)


# ---------------------------------------------------------------------------- slice


slice_of = slice  # the builtin, whose name the function below takes


def _slice_typing(x: ArrayType, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None) -> ArrayType:
    steps = strides or (1,) * x.ndim
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        shown = f"starts {start_indices}, limits {limit_indices}, strides {strides}"
        raise shape_error("slice", x, f"{shown} need one per axis")
    for start, limit, step, size in zip(start_indices, limit_indices, steps, x.shape, strict=True):
        if not 0 <= start <= limit <= size or step < 1:
            raise shape_error(
                "slice", x, f"starts {start_indices}, limits {limit_indices}, strides {strides} leave its bounds",
                "0 <= start <= limit <= size and stride >= 1 must hold on every axis")  # fmt: skip
    return x.with_shape(-(-(b - a) // s) for a, b, s in zip(start_indices, limit_indices, steps, strict=True))


def _slice_numpy(x: Operand, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None) -> Any:
    return x[tuple(map(slice_of, start_indices, limit_indices, strides or (1,) * x.ndim))]


def slide(x: ArrayType, out: ArrayType, windows: Sequence[Window | None], *scalars: Any) -> Relation:
    """The relation of an operation whose result sees a window of the operand along each axis (None: all of it)."""
    loops = Loops()
    olds, news, kinds = [], [], {}
    for size, count, window in zip(x.shape, out.shape, windows, strict=True):
        if window is None:
            (old, new), more = loops.whole(size, count)
        else:
            old, new, more = loops.slide(size, count, window)
        olds.append(old)
        news.append(new)
        kinds |= more
    return loops.relation([tuple(olds), *scalars], [tuple(news)], kinds)


def _slice_relation(ins: Any, outs: Any, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None) -> Relation:
    steps = strides or (1,) * len(start_indices)
    return slide(ins[0], outs[0], [Window(-a, a, s) for a, s in zip(start_indices, steps, strict=True)])


def _slice_transpose(ct: Array, x: Linear, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None) -> Any:
    steps, shape = strides or (1,) * x.ndim, shape_of(ct)
    spans = [(n - 1) * s + 1 if n else 0 for n, s in zip(shape, steps, strict=True)]
    ends = [size - start - span for size, start, span in zip(x.shape, start_indices, spans, strict=True)]
    config = tuple((a, b, s - 1) for a, b, s in zip(start_indices, ends, steps, strict=True))
    return [pad_p.bind(ct, _zero(ct), padding_config=config)]


slice_p: Primitive = Primitive(
    "slice",
    places=same_places,
    typing=_slice_typing,
    jvp=linear_jvp(lambda: slice_p),
    transpose=_slice_transpose,
    numpy=_slice_numpy,
    relation=_slice_relation,
    axes={"start_indices": 0, "limit_indices": SIZE, "strides": 1},
    work=FREE,
    kind=MOVER,
)


@public
def slice(  # noqa: A001
    operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Array:
    """The elements from `start_indices` up to `limit_indices`, `strides` apart.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.slice(jnp.arange(10), (1,), (8,), (3,))
    Array([1, 4, 7], dtype=int32)
    """
    starts = integers(start_indices, "start_indices", "slice")
    limits = integers(limit_indices, "limit_indices", "slice")
    steps = None if strides is None else integers(strides, "strides", "slice")
    if steps is not None and all(s == 1 for s in steps):
        steps = None
    x = typeof(operand)
    if isinstance(operand, Value) and steps is None and not any(starts) and limits == x.shape:
        return operand
    return slice_p.bind(operand, start_indices=starts, limit_indices=limits, strides=steps)


def _ends(start: int, limit: int, size: Any) -> tuple[Any, Any]:
    """The ends of a slice of which a size is symbolic, or an integer of NumPy's."""
    start, limit = (n if n is None else as_size(n) for n in (start, limit))
    if type(size) is int and all([n is None or type(n) is int for n in (start, limit)]):
        return slice_of(start, limit).indices(size)[:2]
    first = 0 if start is None else start if start >= 0 else start + size
    last = size if limit is None else limit if limit >= 0 else limit + size
    return first, last


@public
def slice_in_dim(
    operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """`slice` along one axis; negative indices count from the end, and None means the end itself.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.slice_in_dim(jnp.arange(10), -3, None)
    Array([7, 8, 9], dtype=int32)
    """
    shape = shape_of(operand)
    axis = as_axis(axis, len(shape), "slice_in_dim")
    if any([type(n) is not int and n is not None for n in (shape[axis], start_index, limit_index)]):
        start, limit = _ends(start_index, limit_index, shape[axis])
    else:
        start, limit, _ = slice_of(start_index, limit_index).indices(shape[axis])
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, max(start, limit), operator.index(stride)
    return slice(operand, starts, limits, steps)


@public
def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The part of an array at one index of an axis; the axis stays, with size 1, if `keepdims`.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.index_in_dim(jnp.array([10, 20, 30]), -1)
    Array([30], dtype=int32)
    """
    shape = shape_of(operand)
    axis, position = as_axis(axis, len(shape), "index_in_dim"), as_size(index)
    size = shape[axis]
    if not -size <= position < size:
        raise ShapeError(f"index_in_dim: index {index} is out of bounds for axis {axis} of shape {shape}")
    position %= size
    part = slice_in_dim(operand, position, position + 1, 1, axis)
    return part if keepdims else squeeze(part, (axis,))


# ---------------------------------------------------------------------------- iota, full


def _iota_numpy(*, dtype: np.dtype[Any], shape: Shape, dimension: int) -> Any:
    view = [1] * len(shape)
    view[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(view), shape)


def _iota_typing(*, dtype: np.dtype[Any], shape: Shape, dimension: int) -> ArrayType:
    if not 0 <= dimension < len(shape):
        raise ShapeError(f"iota: dimension {dimension} is not an axis of shape {shape}")
    if kind(dtype) not in ("int", "uint", "float", "complex"):
        raise DtypeError(f"iota: dtype {dtype} cannot count", "use an integer, float or complex dtype")
    if is_integer(dtype):
        check_positions("iota", shape[dimension], dtype)
    return ArrayType(shape, dtype)


iota_p: Primitive
iota_p = Primitive("iota", typing=_iota_typing, jvp=None, numpy=_iota_numpy, relation=pointwise, work=FREE, kind=MOVER)


@public
def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: None = None) -> Array:
    """An array of `shape` whose elements are their own index along `dimension`.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.broadcasted_iota("int32", (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    shape = as_shape(shape, "broadcasted_iota")
    dimension = as_axis(dimension, len(shape), "broadcasted_iota")
    return iota_p.bind(dtype=canonical_dtype(dtype), shape=shape, dimension=dimension)


@public
def iota(dtype: DTypeLike, size: int) -> Array:
    """The integers from 0 up to `size`, in `dtype`.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.iota("float32", 3)
    Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@public
def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike = None, *, sharding: None = None) -> Array:
    """An array of `shape` filled with a scalar; without `dtype`, that of the scalar (weak for a Python number).

    >>> from tilewright import lax, numpy as jnp
    >>> lax.full((2,), 7, "int32")
    Array([7, 7], dtype=int32)
    """
    if sharding is not None:
        return with_out_sharding(sharding, full, shape, fill_value, dtype)
    shape = as_shape(shape, "full")
    x = typeof(fill_value)
    if x.shape:
        raise ShapeError(f"full: fill_value must be a scalar, got shape {x.shape}", "use `broadcast_to`")
    return broadcast_in_dim(_cast(fill_value, dtype), shape, ())


@public
def full_like(x: Any, fill_value: ArrayLike, dtype: Any = None, shape: Any = None, *, sharding: None = None) -> Array:
    """An array filled with a scalar, of the shape, sharding and dtype of `x` where they are not given.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.full_like(jnp.zeros(2), 7)
    Array([7., 7.], dtype=float32)
    """
    if sharding is not None:
        return with_out_sharding(sharding, full_like, x, fill_value, dtype, shape)
    placed = placed_like(x)
    fill = full if placed is None or shape is not None else functools.partial(with_out_sharding, placed, full)
    type = x if hasattr(x, "shape") and hasattr(x, "dtype") else typeof(x)
    shape = tuple(type.shape) if shape is None else as_shape(shape, "full_like")
    weak = dtype is None and getattr(typeof(x) if isinstance(x, Value) else type, "weak_type", False)
    dtype = type.dtype if dtype is None else dtype
    if weak and isinstance(fill_value, (bool, int, float, complex)):
        python = {"float": float, "complex": complex}.get(kind(dtype), int)
        if dtype_of(python(0)) == dtype:
            fill_value, dtype = python(fill_value), None
    out = fill(shape, fill_value, dtype)
    return on_devices_of(x, out) if placed is None else out


def _cast(value: Any, dtype: np.dtype[Any]) -> Any:
    """A scalar in `dtype`, at once where its value is known."""
    if dtype is None:
        return value
    dtype = canonical_dtype(dtype)
    if isinstance(value, Value):
        return convert_element_type(value, dtype)
    if is_key(dtype):
        raise DtypeError("full: an array of random keys has no fill value", "use `random.key` or `random.split`")
    array = np.asarray(value)
    if array.dtype.kind == "c" and kind(dtype) != "complex":
        array = array.real
    return (array != 0 if is_bool(dtype) else array.astype(dtype))[()]


def _zero(x: Operand) -> Any:
    return np.zeros((), dtype_of(x))[()]


# ---------------------------------------------------------------------------- pad


def _padded(size: int, low: int, high: int, interior: int) -> int:
    return low + high + size + (max(0, size - 1) * interior if interior else 0)


def _pad_typing(x: ArrayType, value: ArrayType, *, padding_config: tuple[tuple[int, int, int], ...]) -> ArrayType:
    if value.shape or value.dtype != x.dtype:
        raise ShapeError(
            f"pad: the padding value is {value.show()}, the operand {x.show()}", "pad with a scalar of the same dtype"
        )
    if len(padding_config) != x.ndim:
        raise shape_error("pad", x, f"padding_config {padding_config} needs one (low, high, interior) per axis")
    if any(interior < 0 for _, _, interior in padding_config):
        raise shape_error("pad", x, f"padding_config {padding_config} has negative interior padding")
    shape = tuple(_padded(d, *c) for d, c in zip(x.shape, padding_config, strict=True))
    if any(d < 0 for d in shape):
        raise shape_error("pad", x, f"padding_config {padding_config} crops to negative shape {shape}")
    return ArrayType(shape, x.dtype, x.weak_type and value.weak_type)


def _pad_numpy(x: Operand, value: Operand, *, padding_config: Sequence[Any]) -> Any:
    dilated = [d + max(0, d - 1) * inner for d, (_, _, inner) in zip(x.shape, padding_config, strict=True)]
    out = np.full(
        [max(0, low) + d + max(0, high) for d, (low, high, _) in zip(dilated, padding_config, strict=True)],
        value, dtype=x.dtype)  # fmt: skip
    place = [slice_of(max(0, low), max(0, low) + d, 1 + inner)
             for d, (low, _, inner) in zip(dilated, padding_config, strict=True)]  # fmt: skip
    out[tuple(place)] = x
    ends = zip(out.shape, padding_config, strict=True)
    crop = [slice_of(max(0, -low), n - max(0, -high)) for n, (low, high, _) in ends]
    return out[tuple(crop)]


def _pad_transpose(ct: Array, x: Linear, value: Any, *, padding_config: Sequence[Any]) -> Any:
    # Undo the outer padding, then keep every (interior + 1)-th element.
    outer = tuple((-low, -high, 0) for low, high, _ in padding_config)
    steps = tuple(inner + 1 for _, _, inner in padding_config)
    inside = pad_p.bind(ct, _zero(ct), padding_config=outer)
    inside = slice(inside, (0,) * len(steps), shape_of(inside), steps)
    ct_value = None
    if isinstance(value, Linear):
        axes = tuple(range(len(steps)))
        ct_value = sub_p.bind(reduce_sum_p.bind(ct, axes=axes), reduce_sum_p.bind(inside, axes=axes))
    return [inside if isinstance(x, Linear) else None, ct_value]


def _pad_relation(ins: Sequence[Any], outs: Sequence[Any], *, padding_config: Sequence[Any]) -> Relation:
    return slide(ins[0], outs[0], [None if inner else Window(low, -low) for low, _, inner in padding_config], ())


def _pad_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, padding_config: Sequence[Any]) -> Any:
    (x, value), (b, value_dim) = args, dims
    if value_dim is None:
        return pad_p.bind(x, value, padding_config=inserted(padding_config, b, (0, 0, 0))), b
    # A padding value per example: pad a mask alike, and choose by it.
    x = moved(axis, x, b, 0)
    config = ((0, 0, 0), *padding_config)
    padded = pad_p.bind(x, _zero(x), padding_config=config)
    mask = pad_p.bind(full(shape_of(x), True), np.False_, padding_config=config)
    values = broadcast_in_dim(value, shape_of(padded), (0,))
    return select_n_p.bind(mask, values, padded), 0


pad_p: Primitive = Primitive(
    "pad",
    places=same_places,
    typing=_pad_typing,
    jvp=linear_jvp(lambda: pad_p),
    transpose=_pad_transpose,
    batch=_pad_batch,
    numpy=_pad_numpy,
    relation=_pad_relation,
    work=FREE,
    kind=MOVER,
)


@public
def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Surround and interleave with a scalar: `(low, high, interior)` per axis; negative low and high crop.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.pad(jnp.array([1, 2, 3]), 0, [(2, -1, 1)])
    Array([0, 0, 1, 0, 2, 0], dtype=int32)
    """
    try:
        config = tuple((as_size(a), as_size(b), operator.index(c)) for a, b, c in padding_config)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"pad: padding_config {padding_config!r} is not one (low, high, interior) of ints per axis"
        ) from None
    if not isinstance(padding_value, Value) and not np.ndim(padding_value):
        type_ = typeof(operand)
        if not (type_.weak_type and typeof(padding_value) == type_.with_shape(())):
            padding_value = _cast(padding_value, type_.dtype)
    return pad_p.bind(operand, padding_value, padding_config=config)


# ---------------------------------------------------------------------------- concatenate, split, tile


def _concatenate_typing(*xs: ArrayType, dimension: int) -> ArrayType:
    shown = ", ".join(x.show() for x in xs)
    if not xs:
        raise ArgumentError("concatenate: there are no arrays to concatenate", "pass one at least")
    first = xs[0]
    if len({x.dtype for x in xs}) > 1:
        raise DtypeError(f"concatenate: the operands' dtypes differ: {shown}", "cast them to one dtype")
    rest = {(*x.shape[:dimension], *x.shape[dimension + 1 :]) for x in xs}
    if not 0 <= dimension < first.ndim or len({x.ndim for x in xs}) > 1 or len(rest) > 1:
        raise ShapeError(
            f"concatenate: {shown} do not join along axis {dimension}", "ranks and all other sizes must be equal"
        )
    size = sum(x.shape[dimension] for x in xs)
    shape = (*first.shape[:dimension], size, *first.shape[dimension + 1 :])
    return ArrayType(shape, first.dtype, all(x.weak_type for x in xs))


def _concatenate_transpose(ct: Operand, *args: Any, dimension: int) -> Any:
    cts, start = [], 0
    for x in args:
        size = (x.shape if isinstance(x, Linear) else shape_of(x))[dimension]
        cts.append(slice_in_dim(ct, start, start + size, 1, dimension) if isinstance(x, Linear) else None)
        start += size
    return cts


def cut_axis(ins: Sequence[Any], outs: Sequence[Any], axis: int) -> Relation:
    """The relation of an operation that joins or parts arrays along an axis: a whole factor for each of them."""
    loops = Loops()
    parts, kinds = loops.whole(*(t.shape[axis] for t in (*ins, *outs)))
    shared = loops.axes(inserted(ins[0].shape[:axis] + ins[0].shape[axis + 1 :], axis, 1))
    found = [(*shared[:axis], part, *shared[axis + 1 :]) for part in parts]
    return loops.relation(found[: len(ins)], found[len(ins) :], kinds)


concatenate_p: Primitive = Primitive(
    "concatenate",
    places=same_places,
    typing=_concatenate_typing,
    jvp=linear_jvp(lambda: concatenate_p),
    transpose=_concatenate_transpose,
    relation=lambda ins, outs, *, dimension: cut_axis(ins, outs, dimension),
    axes={"dimension": NAMED},
    work=FREE,
    numpy=lambda *xs, dimension: np.concatenate(xs, dimension),
)


@public
def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Join arrays of equal dtype along an axis.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.concatenate([jnp.array([1, 2]), jnp.array([3])], 0)
    Array([1, 2, 3], dtype=int32)
    """
    operands = tuple(operands)
    if len(operands) == 1 and isinstance(operands[0], Value):
        return operands[0]
    if operands:
        dimension = as_axis(dimension, len(shape_of(operands[0])), "concatenate")
    return concatenate_p.bind(*operands, dimension=dimension)


def _split_typing(x: ArrayType, *, sizes: Dims, axis: int) -> list[ArrayType]:
    if not 0 <= axis < x.ndim or any(s < 0 for s in sizes) or sum(sizes) != x.shape[axis]:
        raise shape_error("split", x, f"sizes {sizes} do not add up to its axis {axis}")
    return [x.with_shape((*x.shape[:axis], s, *x.shape[axis + 1 :])) for s in sizes]


split_p: Primitive = Primitive(
    "split",
    places=same_places,
    typing=_split_typing,
    jvp=linear_jvp(lambda: split_p),
    transpose=lambda cts, x, *, sizes, axis: [concatenate_p.bind(*map(instantiate, cts), dimension=axis)],
    relation=lambda ins, outs, *, sizes, axis: cut_axis(ins, outs, axis),
    axes={"axis": NAMED},
    work=FREE,
    kind=MOVER,
    numpy=lambda x, *, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis) if sizes else [],
    multiple=True,
)


@public
def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Cut an array into pieces of the given sizes along an axis.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.split(jnp.arange(3), (1, 2))
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    axis = as_axis(axis, len(shape_of(operand)), "split")
    return split_p.bind(operand, sizes=integers(sizes, "sizes", "split"), axis=axis)


@public
def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Join arrays of one shape along a new axis.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.stack([jnp.ones(3), jnp.zeros(3)]).shape
    (2, 3)
    """
    operands = tuple(operands)
    if not operands:
        raise ArgumentError("stack: there are no arrays to stack", "pass one at least")
    axis = as_axis(axis, len(shape_of(operands[0])) + 1, "stack")
    return concatenate([expand_dims(x, (axis,)) for x in operands], axis)


@public
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Any, ...]:
    """The parts of an array along an axis, without that axis.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.unstack(jnp.array([10, 20]))
    (Array(10, dtype=int32), Array(20, dtype=int32))
    """
    axis = as_axis(axis, len(shape_of(x)), "unstack")
    parts = split(x, (1,) * shape_of(x)[axis], axis)
    return tuple(squeeze(part, (axis,)) for part in parts)


@public
def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array `reps[i]` times along axis `i`; missing leading axes count as size 1.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.tile(jnp.array([1, 2]), (2,))
    Array([1, 2, 1, 2], dtype=int32)
    """
    shape = shape_of(operand)
    reps = as_shape(reps, "tile")
    if len(reps) < len(shape):
        raise ShapeError(f"tile: reps {reps} needs one entry per axis of shape {shape}")
    full_shape = (1,) * (len(reps) - len(shape)) + tuple(shape)
    x = reshape_to(operand, full_shape)
    spread = functools.reduce(lambda out, pair: (*out, *pair), zip(reps, full_shape, strict=True), ())
    x = broadcast_in_dim(x, spread, range(1, 2 * len(reps), 2))
    return reshape(x, tuple(r * d for r, d in zip(reps, full_shape, strict=True)))


PRIMITIVES: tuple[Primitive, ...] = (
    broadcast_in_dim_p, reshape_p, squeeze_p, transpose_p, rev_p, copy_p, slice_p, iota_p, pad_p, concatenate_p,
    split_p,
)  # fmt: skip

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_in_dim_p", "broadcast_shapes", "broadcast_to_rank",
    "broadcasted_iota", "collapse", "concatenate", "concatenate_p", "copy_p", "expand_dims", "full", "full_like",
    "index_in_dim", "iota", "iota_p", "pad", "pad_p", "reshape", "reshape_p", "rev", "rev_p", "slice",
    "slice_in_dim", "slice_p", "split", "split_p", "squeeze", "squeeze_p", "stack", "tile", "transpose",
    "transpose_p", "unstack",
]  # fmt: skip
