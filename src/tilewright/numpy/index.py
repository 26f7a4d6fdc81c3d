"""Reading and writing by index: take, put, where things are, and index arithmetic."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .. import lax
from ..core.ir.array import DTypeLike
from ..core.ir.types import INT32, INT64
from ..core.primitives.movement.dynamic_slice import int64
from ..core.primitives.movement.gather_functions import take_along
from ..core.support.call_errors import public
from ..core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    DtypeError,
    IndexingError,
    ShapeError,
    UnsupportedError,
    plural,
)
from ..core.tracing.trace import Tracer
from .arithmetic import clip, floor_divide, remainder
from .create import arange, asarray, full, zeros
from .cumulative import cumsum
from .elementwise import as_boolean, where3
from .join import stack
from .shape import broadcast_to, ravel, resize
from .util import (
    Array,
    ArrayLike,
    as_weak_as,
    astype,
    axis_of,
    concrete,
    default_int,
    dtype_of,
    inline_jit,
    is_bool,
    is_integer,
    make_array,
    no_out,
    shape_argument,
    shape_of,
    strong,
    value,
)


def known(x: Any) -> bool:
    """Whether an array's value is at hand (it is not being traced)."""
    return not (isinstance(x, Tracer) and x.concrete() is None)


def as_indices(x: ArrayLike) -> Array:
    if isinstance(x, np.ndarray) and x.dtype == np.int64 and x.size and np.abs(x).max() > np.iinfo(INT32).max:
        return int64(x)
    x = value(x, "an index")
    if is_bool(dtype_of(x)):
        return astype(x, INT32)
    if not is_integer(dtype_of(x)):
        raise DtypeError(f"indices of dtype {dtype_of(x)}", "indices are integers; cast with `astype`")
    return x


def wrap_negative(indices: Array, size: int) -> Array:
    """Indices counted from the front."""
    if dtype_of(indices).kind != "i":
        return indices
    if isinstance(size, int) and size > np.iinfo(INT32).max:
        indices = lax.convert_element_type_p.bind(indices, new_dtype=INT64, weak_type=False)
        zero, length = (int64(np.full(shape_of(indices), n)) for n in (0, size))
        return lax.select_n_p.bind(lax.lt_p.bind(indices, zero), indices, lax.add_p.bind(indices, length))
    return where3(lax.lt(indices, 0), indices + size, indices)


# ---------------------------------------------------------------------------- reading


def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str | None = None,
    unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: Any = None,
) -> Array:  # fmt: skip
    """The elements at indices along an axis, or of the array laid flat.

    `mode` says what an index out of bounds reads: `fill` (the default: nan, or `fill_value`), `clip` the
    nearest element, `wrap` the element modulo the length.

    >>> from tilewright import numpy as jnp
    >>> jnp.take(jnp.array([10, 20, 30]), jnp.array([2, 0]))
    Array([30, 10], dtype=int32)
    """
    no_out(out, "take")
    if isinstance(indices, (list, tuple)):
        indices = np.asarray(indices)
    if isinstance(indices, np.ndarray) and is_integer(indices.dtype):
        indices = as_indices(indices)
    return _take(a, indices, axis, mode, unique_indices, indices_are_sorted, fill_value)


@inline_jit("axis", "mode", "unique_indices", "indices_are_sorted", "fill_value")
def _take(
    a: Any, indices: Any, axis: Any, mode: Any, unique_indices: bool, indices_are_sorted: bool, fill_value: Any = None
) -> Array:
    a, indices = value(a, "take"), as_indices(indices)
    if axis is None:
        a, axis = ravel(a), 0
    shape = shape_of(a)
    axis = axis_of(axis, len(shape))
    rank = len(shape_of(indices))
    if shape[axis] == 0:
        if math.prod(shape_of(indices)):
            raise IndexingError(f"take at indices of shape {shape_of(indices)} from an axis of size 0", "take none")
        return full((*shape[:axis], *shape_of(indices), *shape[axis + 1 :]), 0, dtype_of(a))
    if mode == "wrap":
        indices, mode = remainder(indices, shape[axis]) if shape[axis] else indices, "clip"
    elif mode != "clip":  # which knows no negative indices
        indices = wrap_negative(indices, shape[axis])
    if mode not in (None, "fill", "clip", "promise_in_bounds"):
        # A TypeError, upon which NumPy's own `take` runs on a copy.
        raise ArgumentTypeError(f"there is no mode {mode!r} of take", "one of 'fill', 'clip', 'wrap'")
    offset = (*range(axis), *range(axis + rank, len(shape) + rank - 1))
    numbers = lax.GatherDimensionNumbers(offset, (axis,), (axis,))
    sizes = tuple(1 if d == axis else n for d, n in enumerate(shape))
    return lax.gather(
        a, lax.expand_dims(indices, (rank,)), numbers, sizes, unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted, mode=mode or "fill", fill_value=fill_value,
    )  # fmt: skip


@inline_jit("axis", "mode", "fill_value", "wrap_negative_indices")
def take_along_axis(
    arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: str | None = None, fill_value: Any = None, *,
    wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """The elements at indices along an axis, one set of indices for each place of the other axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.take_along_axis(jnp.array([[3, 1, 2]]), jnp.array([[1, 2, 0]]), 1)
    Array([[1, 2, 3]], dtype=int32)
    """
    a, indices = value(arr, "take_along_axis"), as_indices(indices)
    if axis is None:
        if len(shape_of(indices)) != 1:
            raise ArgumentError(f"indices of shape {shape_of(indices)} without an axis", "they must be a vector")
        a, axis = ravel(a), 0
    shape, wanted = shape_of(a), shape_of(indices)
    if len(shape) != len(wanted):
        raise ArgumentError(f"indices of {plural(len(wanted), 'dimension')} for an array of {len(shape)}",
                            "ranks must agree")  # fmt: skip
    axis = axis_of(axis, len(shape))
    if wrap_negative_indices:
        indices = wrap_negative(indices, shape[axis])
    if mode == "one_hot":  # sums of products with ones and zeros
        mode, fill_value = "fill", 0
    others = [1 if d == axis else lax.broadcast_shapes((n,), (wanted[d],))[0] for d, n in enumerate(shape)]
    a = broadcast_to(a, [shape[d] if d == axis else n for d, n in enumerate(others)])
    indices = broadcast_to(indices, [wanted[d] if d == axis else n for d, n in enumerate(others)])
    if shape[axis] == 0 and 0 not in shape_of(indices):
        raise ArgumentError(f"take along an axis without elements (shape {shape})", "pass at least one element")

    return take_along(a, indices, axis, mode=mode or "fill", fill_value=fill_value)


# ---------------------------------------------------------------------------- where things are


@public
def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of elements that are not zero, one array for each axis.

    Their number depends on the values: within `jit` give `size`; missing ones are `fill_value` (default 0), which
    without `size` none are.

    Raises:
      ArgumentError: the array is a scalar, which has no axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.nonzero(jnp.array([0, 3, 4]))
    (Array([1, 2], dtype=int32),)
    """
    a = value(a, "nonzero")
    if not shape_of(a):
        raise ArgumentError("nonzero of an array of shape ()", "use `numpy.atleast_1d(x)`")
    if size is None:
        found = np.nonzero(concrete(a, "nonzero", "give `size`, or use `where(condition, x, y)`"))
        return tuple(make_array(f.astype(default_int())) for f in found)
    size = operator.index(size)
    fills = _fills(fill_value, len(shape_of(a)))
    return tuple(_nonzero(a, size, fills))


def _fills(fill_value: Any, rank: int) -> Any:
    if fill_value is None:
        return (0,) * rank
    return tuple(fill_value) if isinstance(fill_value, tuple) else (fill_value,) * rank


@inline_jit("size")
def _nonzero(a: Any, size: int, fills: Any) -> list[Array]:
    shape = shape_of(a)
    mask = ravel(as_boolean(value(a)))
    if shape_of(mask)[0] == 0 or size == 0:
        return [full((size,), f, default_int()) for f in fills]
    # The k-th hit is where the running count of hits passes k: count how many places are at or below k.
    running = cumsum(mask)
    hits = zeros((size,), default_int()).at[running].add(1, mode="drop")
    places = cumsum(hits)
    total = running[-1]
    valid = lax.lt(arange(size), total)
    return [
        where3(valid, place, astype(f, default_int()))
        for place, f in zip(unravel_index(places, shape), fills, strict=True)
    ]


@public
def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The places, in the array laid flat, of elements that are not zero.

    >>> from tilewright import numpy as jnp
    >>> jnp.flatnonzero(jnp.array([0, 3, 4]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


@public
def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of elements that are not zero, a row for each.

    >>> from tilewright import numpy as jnp
    >>> jnp.argwhere(jnp.array([0, 3, 4]))
    Array([[1],
           [2]], dtype=int32)
    """

    a = value(a, "argwhere")
    found = nonzero(a if shape_of(a) else ravel(a), size=size, fill_value=fill_value)
    return stack(found, 1) if shape_of(a) else zeros((shape_of(found[0])[0], 0), default_int())


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: Any = 0) -> Array:
    """The elements, laid flat, where a condition holds.

    >>> from tilewright import numpy as jnp
    >>> jnp.extract(jnp.array([True, False]), jnp.array([1, 2]))
    Array([1], dtype=int32)
    """
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def compress(
    condition: ArrayLike, a: ArrayLike, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0,
    out: None = None,
) -> Array:  # fmt: skip
    """The slices along an axis where a condition holds.

    >>> from tilewright import numpy as jnp
    >>> jnp.compress(jnp.array([False, True]), jnp.array([1, 2]))
    Array([2], dtype=int32)
    """
    no_out(out, "compress")
    condition, a = value(condition), value(a)
    if len(shape_of(condition)) != 1:
        raise ArgumentError(f"a condition of shape {shape_of(condition)} in compress", "it must be a vector")
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_of(axis, len(shape_of(a)))
    length = min(shape_of(condition)[0], shape_of(a)[axis])
    condition = lax.slice_in_dim(condition, 0, length)
    if size is None:
        return take(a, nonzero(condition)[0], axis, mode="clip")
    places = nonzero(condition, size=size, fill_value=shape_of(a)[axis])[0]
    return take(a, places, axis, mode="fill", fill_value=fill_value)


# ---------------------------------------------------------------------------- writing


def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, inplace: bool = True, *,
    mode: str | None = None,
) -> Array:  # fmt: skip
    """A copy of an array with values written at indices along an axis, as `take_along_axis` reads them.

    >>> from tilewright import numpy as jnp
    >>> jnp.put_along_axis(jnp.zeros((1, 2)), jnp.array([[1]]), 5., 1, inplace=False)
    Array([[0., 5.]], dtype=float32)
    """
    _not_in_place("put_along_axis", inplace)
    return _put_along_axis(arr, indices, values, axis, mode)


def _not_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise UnsupportedError(
            f"{name} cannot change its argument: arrays are immutable", "pass inplace=False and use the result"
        )


@inline_jit("axis", "mode")
def _put_along_axis(arr: Any, indices: Any, new: Any, axis: Any, mode: Any = None) -> Array:
    a, indices = value(arr), as_indices(indices)
    original = shape_of(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_of(axis, len(shape_of(a)))
    wanted = list(
        np.broadcast_shapes(shape_of(indices), tuple(1 if d == axis else n for d, n in enumerate(shape_of(a))))
    )
    grid = [
        indices if d == axis else lax.broadcasted_iota(INT32, tuple(n if e == d else 1 for e in range(len(wanted))), d)
        for d, n in enumerate(wanted)
    ]
    return lax.reshape(a.at[tuple(grid)].set(astype(new, dtype_of(a)), mode=mode), original)


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """A copy of an array with values written at places of the array laid flat; values repeat as needed.

    >>> from tilewright import numpy as jnp
    >>> jnp.put(jnp.zeros(3), jnp.array([0, 2]), 1., inplace=False)
    Array([1., 0., 1.], dtype=float32)
    """

    _not_in_place("put", inplace)
    a, ind, v = value(a, "put"), ravel(as_indices(ind)), ravel(value(v))
    size = math.prod(shape_of(a))
    if mode == "wrap":
        ind, mode = remainder(ind, size), None
    elif mode == "clip":
        ind, mode = clip(ind, 0, size - 1), None
    elif mode is not None:
        raise ArgumentError(f"there is no mode {mode!r} of put", "one of None, 'wrap', 'clip'")
    if shape_of(ind)[0] == 0 or shape_of(v)[0] == 0:
        return a
    v = resize(v, shape_of(ind))
    return lax.reshape(ravel(a).at[ind].set(astype(v, dtype_of(a)), mode="drop"), shape_of(a))


@inline_jit("inplace")
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """A copy of an array with successive values written where a mask holds; values repeat as needed.

    >>> from tilewright import numpy as jnp
    >>> jnp.place(jnp.zeros(3), jnp.array([True, False, True]), jnp.array([1., 2.]), inplace=False)
    Array([1., 0., 2.], dtype=float32)
    """
    _not_in_place("place", inplace)
    a, mask, vals = value(arr), as_boolean(value(mask)), ravel(value(vals))
    if math.prod(shape_of(mask)) != math.prod(shape_of(a)):
        raise ShapeError(f"place: a mask of shape {shape_of(mask)} for an array of shape {shape_of(a)}",
                         "pass a mask of as many elements")  # fmt: skip
    if shape_of(vals)[0] == 0:
        raise ArgumentError("place of no values", "pass at least one")
    mask = lax.reshape(mask, shape_of(a))
    order = remainder(cumsum(ravel(mask)) - 1, shape_of(vals)[0])
    new = lax.reshape(take(vals, order, mode="clip"), shape_of(a))
    return as_weak_as(where3(mask, astype(new, dtype_of(a)), a), a)


@inline_jit("wrap", "inplace")
def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """A copy of an array with its main diagonal replaced.

    >>> from tilewright import numpy as jnp
    >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 1., inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    _not_in_place("fill_diagonal", inplace)
    if wrap:
        raise UnsupportedError(
            "fill_diagonal(wrap=True) is not offered", "fill the blocks of the tall matrix one by one"
        )
    a = value(a, "fill_diagonal")
    shape = shape_of(a)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ArgumentError(f"fill_diagonal of shape {shape}", "pass a matrix, or an array with all sides equal")
    n = min(shape)
    new = value(val)
    new = resize(ravel(new), (n,)) if shape_of(new) else new
    return a.at[(arange(n),) * len(shape)].set(astype(new, dtype_of(a)))


# ---------------------------------------------------------------------------- index arithmetic


@inline_jit("shape")
def _unravel(indices: Any, shape: tuple[int, ...]) -> list[Array]:
    indices = as_indices(indices)
    total = math.prod(shape)
    indices = clip(wrap_negative(indices, total), 0, max(total - 1, 0))
    result = []
    for n in reversed(shape):
        result.append(remainder(indices, max(n, 1)))
        indices = floor_divide(indices, max(n, 1))
    return result[::-1]


def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Places in an array laid flat as an index for each axis; those out of bounds are clipped.

    >>> from tilewright import numpy as jnp
    >>> [int(v) for v in jnp.unravel_index(5, (2, 3))]
    [1, 2]
    """
    return tuple(_unravel(indices, shape_argument(shape)))


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: str = "raise", order: str = "C", *, dtype: DTypeLike = None
) -> Array:
    """Indices for each axis as places in the array laid flat.

    >>> from tilewright import numpy as jnp
    >>> int(jnp.ravel_multi_index((1, 2), (2, 3)))
    5
    """
    sizes = shape_argument(dims)
    parts = [as_indices(i) for i in multi_index]
    if len(parts) != len(sizes):
        raise ArgumentError(f"{plural(len(parts), 'index')} for {plural(len(sizes), 'dimension')}",
                            "give one for each dimension")  # fmt: skip
    if mode == "raise":
        for part, n in zip(parts, sizes, strict=True):
            data = np.asarray(part)  # a tracer's error says that its value is not known
            if data.size and (data.min() < 0 or data.max() >= n):
                raise ArgumentError(
                    f"index {data.max()} is out of range for a dimension of {n}", "use mode 'wrap' or 'clip'"
                )
    elif mode == "clip":
        parts = [clip(p, 0, n - 1) for p, n in zip(parts, sizes, strict=True)]
    elif mode == "wrap":
        parts = [remainder(p, n) for p, n in zip(parts, sizes, strict=True)]
    elif mode != "ignore":
        raise ArgumentError(f"there is no mode {mode!r}", "one of 'raise', 'wrap', 'clip', 'ignore'")
    pairs = list(zip(parts, sizes, strict=True))
    result: Any = 0
    for part, n in pairs if order == "C" else reversed(pairs):
        result = part + result * n
    return strong(value(result) if dtype is None else astype(result, np.dtype(dtype)))


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array with sides `n`.

    >>> from tilewright import numpy as jnp
    >>> [v.tolist() for v in jnp.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array.

    >>> from tilewright import numpy as jnp
    >>> [v.tolist() for v in jnp.diag_indices_from(jnp.ones((2, 2)))]
    [[0, 1], [0, 1]]
    """
    shape = shape_of(arr)
    if len(shape) < 2 or len(set(shape)) != 1:
        raise ArgumentError(f"diag_indices_from of shape {shape}", "pass an array with all sides equal")
    return diag_indices(shape[0], len(shape))


def _triangle_indices(name: str) -> Any:
    side = "at and below" if name == "tril" else "at and above"

    def function(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
        rows, columns = getattr(np, f"{name}_indices")(n, k, m)
        return make_array(rows.astype(default_int())), make_array(columns.astype(default_int()))

    def of(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
        shape = shape_of(arr)
        if len(shape) != 2:
            raise ArgumentError(f"{name}_indices_from of shape {shape}", "pass a matrix")
        return function(shape[0], k, shape[1])

    function.__name__, of.__name__ = f"{name}_indices", f"{name}_indices_from"
    for f in (function, of):
        f.__qualname__ = f.__name__
        argument = "2" if f is function else "jnp.ones((2, 2))"
        f.__doc__ = f"""The indices of the elements {side} diagonal number `k` of a matrix.

    >>> from tilewright import numpy as jnp
    >>> len(jnp.{f.__name__}({argument}))
    2
    """
    return public(function), public(of)


tril_indices: Any
tril_indices_from: Any
tril_indices, tril_indices_from = _triangle_indices("tril")
triu_indices: Any
triu_indices_from: Any
triu_indices, triu_indices_from = _triangle_indices("triu")


@public
def mask_indices(n: int, mask_func: Any, k: int = 0, *, size: int | None = None) -> tuple[Array, ...]:
    """The indices of an n by n matrix that a masking function such as `triu` keeps.

    >>> from tilewright import numpy as jnp
    >>> len(jnp.mask_indices(2, jnp.triu))
    2
    """
    return nonzero(mask_func(full((n, n), 1, int), k), size=size)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Vectors of indices shaped so that together they name a grid.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.ix_(jnp.arange(2), jnp.arange(3))]
    [(2, 1), (1, 3)]
    """

    result = []
    for i, item in enumerate(args):
        a = asarray(item)
        if len(shape_of(a)) != 1:
            raise ArgumentError(f"ix_ of an array of shape {shape_of(a)}", "pass vectors")
        a = nonzero(a)[0] if is_bool(dtype_of(a)) else a
        result.append(lax.reshape(a, tuple(shape_of(a)[0] if d == i else 1 for d in range(len(args)))))
    return tuple(result)


@inline_jit("length")
def _bincount(x: Any, weights: Any, length: int) -> Array:
    x = as_indices(x)
    weights = np.ones((), default_int()) if weights is None else value(weights)
    places = clip(x, 0)
    return zeros((length,), dtype_of(weights)).at[places].add(weights, mode="drop")


@public
def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """How often each integer from 0 occurs, or the sum of its weights; within `jit` give `length`.

    >>> from tilewright import numpy as jnp
    >>> jnp.bincount(jnp.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int32)
    """
    x = as_indices(x)
    if len(shape_of(x)) != 1:
        raise ArgumentError(f"bincount of shape {shape_of(x)}", "pass a vector")
    if length is None:
        data = concrete(x, "bincount", "give `length`")
        length = max(int(data.max()) + 1 if data.size else 0, operator.index(minlength))
    if weights is None:
        return _bincount(x, np.ones((), default_int()), operator.index(length))
    return _bincount(x, weights, operator.index(length))


__all__ = [
    "argwhere", "bincount", "compress", "diag_indices", "diag_indices_from", "extract", "fill_diagonal",
    "flatnonzero", "ix_", "mask_indices", "nonzero", "place", "put", "put_along_axis", "ravel_multi_index", "take",
    "take_along_axis", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip
