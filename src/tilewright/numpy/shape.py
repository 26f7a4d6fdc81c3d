"""Changing shapes and orders of axes; nothing here computes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import lax
from ..core.ir.array import Axis
from ..core.ir.binding import with_out_sharding
from ..core.ir.static_ints import integer
from ..core.ir.types import as_size
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, ShapeError, plural
from . import util
from .create import asarray, zeros_like
from .util import Array, ArrayLike, axes_of, axis_of, concrete, inline_jit, shape_argument, shape_of, value


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The shape of an array, number or sequence, or what NumPy says of another object: `()` of None.

    >>> from tilewright import numpy as jnp
    >>> jnp.shape(jnp.zeros((2, 3)))
    (2, 3)
    """
    found = getattr(a, "shape", None)
    return np.shape(getattr(a, "__jax_array__", lambda: a)()) if found is None else found


def ndim(a: ArrayLike) -> int:
    """The number of dimensions.

    >>> from tilewright import numpy as jnp
    >>> jnp.ndim(jnp.zeros((2, 3)))
    2
    """
    return len(shape(a))


def size(a: ArrayLike, axis: Axis = None) -> int:
    """The number of elements, or the length of one axis or the product of several.

    >>> from tilewright import numpy as jnp
    >>> jnp.size(jnp.zeros((2, 3)))
    6
    """
    dims = shape(a)
    return math.prod(dims[d] for d in axes_of(axis, len(dims)))


def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Array:
    """The same elements in another shape; one dimension may be -1 and is inferred.

    >>> from tilewright import numpy as jnp
    >>> jnp.reshape(jnp.arange(4), (2, -1))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, reshape, a, shape, order, copy=copy)
    a = value(a, "reshape")
    wanted = _inferred(shape_of(a), shape)
    if order in ("C", "K", "A"):
        return a if wanted == shape_of(a) and not copy else lax.reshape(a, wanted)
    if order != "F":
        raise ArgumentError(f"order {order!r} of elements", "use 'C' or 'F'")
    return transpose(lax.reshape(transpose(a), wanted[::-1]))


def _inferred(old: tuple[int, ...], shape: Any) -> tuple[int, ...]:
    several = isinstance(shape, (tuple, list)) or getattr(shape, "ndim", 0) == 1  # an array of sizes
    sizes = [as_size(d) for d in shape] if several else [as_size(shape)]
    total = math.prod(old)
    if sizes.count(-1) == 1:
        rest = math.prod([d for d in sizes if d != -1])
        if rest > 0 and total % rest == 0:
            sizes[sizes.index(-1)] = total // rest
    if any([d < 0 for d in sizes]) or math.prod(sizes) != total:
        raise ShapeError(f"an array of shape {old} does not reshape to {tuple(sizes)}",
                         f"give sizes whose product is {total}, its number of elements")  # fmt: skip
    return tuple(sizes)


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """The array laid flat.

    >>> from tilewright import numpy as jnp
    >>> jnp.ravel(jnp.ones((1, 2)))
    Array([1., 1.], dtype=float32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, ravel, a, order)
    return reshape(a, (-1,) if 0 not in shape_of(a) else (0,), order)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Reverse the axes, or put them in a given order.

    >>> from tilewright import numpy as jnp
    >>> jnp.transpose(jnp.ones((1, 2))).shape
    (2, 1)
    """
    a = value(a, "transpose")
    n = len(shape_of(a))
    order = tuple(range(n))[::-1] if axes is None else axes_of(tuple(axes), n)
    if len(order) != n:
        raise ArgumentError(f"axes {axes} do not order the {plural(n, 'axis')} of the array", "name every axis once")
    return a if order == tuple(range(n)) else lax.transpose(a, order)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """Put the axes in a given order.

    >>> from tilewright import numpy as jnp
    >>> jnp.permute_dims(jnp.ones((1, 2)), (1, 0)).shape
    (2, 1)
    """
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Swap the last two axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.matrix_transpose(jnp.ones((3, 1, 2))).shape
    (3, 2, 1)
    """
    return swapaxes(x, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Swap two axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.swapaxes(jnp.ones((1, 2)), 0, 1).shape
    (2, 1)
    """
    order = list(range(len(shape_of(a))))
    i, j = axis_of(axis1, len(order)), axis_of(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return transpose(a, order)


def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """Move axes to new places, the others keeping their order.

    >>> from tilewright import numpy as jnp
    >>> jnp.moveaxis(jnp.ones((1, 2, 3)), 0, -1).shape
    (2, 3, 1)
    """
    a = value(a, "moveaxis")
    n = len(shape_of(a))
    source = tuple(source) if isinstance(source, range) else source
    destination = tuple(destination) if isinstance(destination, range) else destination
    old, new = axes_of(source, n), axes_of(destination, n)
    if len(old) != len(new):
        raise ArgumentError(f"{plural(len(old), 'axis')} to move to {plural(len(new), 'place')}",
                            "give as many places as axes")  # fmt: skip
    order = [d for d in range(n) if d not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return transpose(a, order)


@public
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Move one axis back until it lies before position `start`.

    >>> from tilewright import numpy as jnp
    >>> jnp.rollaxis(jnp.ones((1, 2, 3)), 2).shape
    (3, 1, 2)
    """
    n = len(shape_of(a))
    axis = axis_of(axis, n)
    start = start + n if start < 0 else start
    if not 0 <= start <= n:
        raise ArgumentError(f"start {start} is out of range for {plural(n, 'axis')}", f"use 0 to {n}")
    return moveaxis(a, axis, start - 1 if axis < start else start)


def expand_dims(a: ArrayLike, axis: Axis) -> Array:
    """Insert axes of size 1 at positions of the result.

    >>> from tilewright import numpy as jnp
    >>> jnp.expand_dims(jnp.ones(2), 0).shape
    (1, 2)
    """
    a = value(a, "expand_dims")
    count = len(axis) if isinstance(axis, (tuple, list, range)) else 1
    return lax.expand_dims(a, tuple(sorted(axes_of(axis, len(shape_of(a)) + count))))


def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """Remove axes of size 1: all, or those named.

    >>> from tilewright import numpy as jnp
    >>> jnp.squeeze(jnp.ones((1, 2))).shape
    (2,)
    """
    a = value(a, "squeeze")
    dims = shape_of(a)
    axes = tuple(d for d, n in enumerate(dims) if n == 1) if axis is None else axes_of(axis, len(dims))
    if any(dims[d] != 1 for d in axes):
        raise ShapeError(f"axes {axes} of shape {dims} are not all of size 1", "squeeze only axes of size 1")
    return lax.squeeze(a, axes) if axes else a


def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: Any = None) -> Array:
    """Repeat an array along new or unit axes to a shape.

    >>> from tilewright import numpy as jnp
    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, broadcast_to, array, shape)
    array, wanted = value(array, "broadcast_to"), shape_argument(shape)
    old = shape_of(array)
    fits = len(old) <= len(wanted) and all(a in (1, b) for a, b in zip(old[::-1], wanted[::-1], strict=False))
    if not fits:
        raise ShapeError(f"shape {old} does not broadcast to {wanted}", "each dimension must be equal or 1")
    return util.broadcast_to_shape(array, wanted)


def broadcast_arrays(*args: ArrayLike) -> tuple[Array, ...]:
    """Arrays repeated to the shape they have in common.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))]
    [(2, 3), (2, 3)]
    """
    return tuple(util.broadcast(util.values(*args), scalars=False))


def _at_least(n: int, place: Any) -> Any:
    def function(*arys: Any) -> Any:
        results = []
        for item in arys:
            a = asarray(item)
            while len(shape_of(a)) < n:
                a = expand_dims(a, place(len(shape_of(a))))
            results.append(a)
        return results[0] if len(results) == 1 else results

    function.__name__ = function.__qualname__ = f"atleast_{n}d"
    function.__doc__ = f"""Arrays with axes of size 1 added until they have {n} dimensions.

    >>> from tilewright import numpy as jnp
    >>> jnp.atleast_{n}d(1.0).ndim
    {n}
    """
    return function


atleast_1d: Any = _at_least(1, lambda ndim: 0)
atleast_2d: Any = _at_least(2, lambda ndim: 0)
atleast_3d: Any = _at_least(3, lambda ndim: ndim if ndim != 1 else 0)


# ---------------------------------------------------------------------------- order of elements


@inline_jit("axis")
def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """Reverse the order of elements along axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    m = value(m, "flip")
    return lax.rev(m, axes_of(axis, len(shape_of(m))))


def fliplr(m: ArrayLike) -> Array:
    """Reverse the order of columns.

    >>> from tilewright import numpy as jnp
    >>> jnp.fliplr(jnp.array([[1, 2]]))
    Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """Reverse the order of rows.

    >>> from tilewright import numpy as jnp
    >>> jnp.flipud(jnp.array([1, 2]))
    Array([2, 1], dtype=int32)
    """
    return flip(m, 0)


@inline_jit("k", "axes")
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turn a plane of two axes by 90 degrees, `k` times.

    >>> from tilewright import numpy as jnp
    >>> jnp.rot90(jnp.array([[1, 2]]))
    Array([[2],
           [1]], dtype=int32)
    """
    m = value(m, "rot90")
    first, second = axes_of(tuple(axes), len(shape_of(m)))
    k = integer(k, "k", "rot90") % 4
    if k == 0:
        return m
    if k == 2:
        return flip(m, (first, second))
    return swapaxes(flip(m, second), first, second) if k == 1 else flip(swapaxes(m, first, second), second)


@inline_jit("reps")
def tile(A: ArrayLike, reps: Any) -> Array:
    """Repeat a whole array a number of times along each axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.tile(jnp.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    """
    a = value(A, "tile")
    times = tuple(operator.index(r) for r in reps) if isinstance(reps, (tuple, list)) else (operator.index(reps),)
    rank = max(len(times), len(shape_of(a)))
    times = (1,) * (rank - len(times)) + times
    dims = (1,) * (rank - len(shape_of(a))) + shape_of(a)
    pairs = [n for pair in zip(times, dims, strict=True) for n in pair]
    wide = lax.broadcast_in_dim(lax.reshape(a, dims), pairs, range(1, 2 * rank, 2))
    return lax.reshape(wide, tuple(t * n for t, n in zip(times, dims, strict=True)))


@public
def resize(a: ArrayLike, new_shape: Any) -> Array:
    """The elements, repeated as often as needed, in a new shape.

    >>> from tilewright import numpy as jnp
    >>> jnp.resize(jnp.array([1, 2]), (3,))
    Array([1, 2, 1], dtype=int32)
    """

    a, wanted = value(a, "resize"), shape_argument(new_shape)
    flat, total = ravel(a), math.prod(wanted)
    if shape_of(flat)[0] == 0 or total == 0:
        return zeros_like(a, shape=wanted)
    times = -(-total // shape_of(flat)[0])
    return reshape(lax.slice_in_dim(tile(flat, times), 0, total), wanted)


@public
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axis = None) -> Array:
    """Cut the zeros off the front and back of a known array.

    >>> from tilewright import numpy as jnp
    >>> jnp.trim_zeros(jnp.array([0, 1, 0]))
    Array([1], dtype=int32)
    """
    a = value(filt, "trim_zeros")
    data = concrete(a, "trim_zeros", "cut it at known places")
    for number in axes_of(axis, data.ndim):
        hits = np.flatnonzero(np.any(data != 0, axis=tuple(d for d in range(data.ndim) if d != number)))
        low = int(hits[0]) if "f" in trim.lower() and hits.size else 0
        high = int(hits[-1]) + 1 if "b" in trim.lower() and hits.size else data.shape[number]
        if not hits.size:
            low = high = 0
        a = lax.slice_in_dim(a, low, high, axis=number)
        data = data[(slice(None),) * number + (slice(low, high),)]
    return a


__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "expand_dims", "flip", "fliplr",
    "flipud", "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel", "reshape", "resize", "rollaxis",
    "rot90", "shape", "size", "squeeze", "swapaxes", "tile", "transpose", "trim_zeros",
]  # fmt: skip
