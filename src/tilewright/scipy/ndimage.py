"""`jax.scipy.ndimage`'s names."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence

import numpy as np

from .. import lax
from .. import numpy as tnp
from ..core.support.call_errors import public
from ..core.support.config import config
from ..core.support.errors import ArgumentError, UnsupportedError
from ..numpy.util import Array, ArrayLike, dtype_of, inline_jit, is_inexact, promote_dtypes_inexact, shape_of, value


def _mirrored(index: Array, size: int) -> Array:
    """A place reflected about the centres of the first and last element."""
    return tnp.abs((index + size - 1) % (2 * size - 2) - (size - 1)) if size > 1 else index * 0


def _reflected(index: Array, size: int) -> Array:
    """A place reflected about the outer edges of the first and last element."""
    place = index % (2 * size)
    return tnp.minimum(place, 2 * size - 1 - place)


def _inside(index: Array, size: int) -> Array:
    return tnp.clip(index, 0, size - 1)


# What stands at a place outside: the element there instead, by the array's size.
_PLACES: dict[str, Callable[[Array, int], Array]] = {
    "constant": _inside,
    "grid-constant": _inside,
    "nearest": _inside,
    "wrap": lambda index, size: index % size,
    "grid-wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": _reflected,
    "grid-mirror": _reflected,
}


def _rounded(x: Array) -> Array:
    return lax.round(x) if is_inexact(dtype_of(x)) else x


def _nodes(coordinate: Array, order: int) -> list[tuple[Array, Array | float]]:
    """The elements that a coordinate lies at or between, with their weights."""
    if order == 0:
        return [(_rounded(coordinate).astype(np.int32), 1)]
    lower = tnp.floor(coordinate)
    part = coordinate - lower
    return [(lower.astype(np.int32), 1 - part), (lower.astype(np.int32) + 1, part)]


@inline_jit("order", "mode")
def _mapped(x: Array, coordinates: Sequence[Array], cval: ArrayLike, order: int, mode: str) -> Array:
    place = _PLACES[mode]
    constant = mode.endswith("constant")
    cval = tnp.asarray(cval).astype(dtype_of(x))
    axes = []
    for coordinate, size in zip(coordinates, shape_of(x), strict=True):
        nodes = _nodes(coordinate, order)
        axes.append([(place(i, size), (i >= 0) & (i < size) if constant else None, w) for i, w in nodes])
    terms = []
    for corner in itertools.product(*axes):
        indices, valid, weights = zip(*corner, strict=True)
        found = x[indices]
        if constant:
            found = tnp.where(functools.reduce(operator.and_, valid), found, cval)
        terms.append(functools.reduce(operator.mul, weights) * found)
    result = functools.reduce(operator.add, terms)
    if not is_inexact(dtype_of(x)):
        result = _rounded(result)
    return result.astype(dtype_of(x))


@public
def map_coordinates(
    input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant", cval: ArrayLike = 0.0
) -> Array:
    """The elements of an array at coordinates that lie between its own.

    `coordinates` has an array for each axis, all of the result's shape. `order` 0 takes the nearest element and
    1 interpolates linearly; others raise `UnsupportedError`. `mode` says what lies outside: "constant" (`cval`),
    "nearest", "wrap", "mirror", "reflect". As in jax, "wrap" and "constant" are what SciPy calls "grid-wrap" and
    "grid-constant", which are taken too.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.ndimage import map_coordinates
    >>> print(map_coordinates(jnp.arange(4.0), [jnp.array([0.5, 2.25])], order=1))
    [0.5  2.25]
    """
    x = value(input, "map_coordinates")
    if len(coordinates) != len(shape_of(x)):
        raise ArgumentError(
            f"map_coordinates with {len(coordinates)} coordinates for an array of shape {shape_of(x)}", "one per axis"
        )
    if mode not in _PLACES:
        raise UnsupportedError(f"map_coordinates with mode={mode!r}", f"one of {', '.join(_PLACES)}")
    if order not in (0, 1):
        raise UnsupportedError(f"map_coordinates with order={order!r}", "0 or 1")
    if 0 in shape_of(x):
        raise ArgumentError(f"map_coordinates of an array of shape {shape_of(x)}", "pass one with elements")
    places = [tnp.asarray(c) for c in coordinates]
    if order == 1:
        places = [promote_dtypes_inexact(c)[0] for c in places]
    with config(numpy_dtype_promotion="standard"):  # an image of integers has fractional places
        return _mapped(x, places, cval, order, mode)


__all__ = ["map_coordinates"]
__dir__: Callable[[], list[str]] = __all__.copy
