"""Grids of coordinates, and the objects that make arrays by subscripting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import lax
from ..core.support.call_errors import public
from ..core.support.config import config
from ..core.support.errors import ArgumentError
from .create import arange, asarray
from .join import concatenate, stack
from .shape import broadcast_arrays
from .spaces import linspace
from .util import Array, ArrayLike, DTypeLike, dtype_argument, promote_dtypes, shape_argument, shape_of


@public
def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinate arrays of a grid from coordinate vectors; with 'xy' the first two axes are swapped.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.meshgrid(jnp.arange(2), jnp.arange(3))]
    [(3, 2), (3, 2)]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"there is no indexing {indexing!r}", "one of 'xy', 'ij'")
    if not copy:
        raise ArgumentError("meshgrid(copy=False): arrays here are never views", "leave `copy` out")
    vectors = [asarray(x) for x in xi]
    if any(len(shape_of(v)) > 1 for v in vectors):
        raise ArgumentError("meshgrid of arrays of more than one dimension", "pass vectors")
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    result = tuple(
        lax.reshape(v, tuple(math.prod(shape_of(v)) if d == axis else 1 for d in range(len(axes))))
        for axis, v in zip(axes, vectors, strict=True)
    )
    return result if sparse or not result else broadcast_arrays(*result)


def indices(dimensions: Any, dtype: DTypeLike = None, sparse: bool = False) -> Any:
    """The index of every element of a grid, one array for each dimension.

    >>> from tilewright import numpy as jnp
    >>> jnp.indices((2, 3)).shape
    (2, 2, 3)
    """
    sizes = shape_argument(dimensions)
    dtype = dtype_argument(dtype, int)
    grid = meshgrid(*(arange(n, dtype=dtype) for n in sizes), indexing="ij", sparse=sparse)
    if sparse:
        return grid
    return stack(grid) if grid else asarray(np.zeros((0,), dtype))


def _range_of(s: slice) -> Array:
    """The values a slice names; an imaginary step is a number of values, ends included."""
    start, stop, step = (0 if s.start is None else s.start), s.stop, 1 if s.step is None else s.step
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)))
    return arange(0, start, step) if stop is None else arange(start, stop, step)


class _Grid:
    """Makes coordinate grids by subscripting with slices."""

    def __init__(self, name: str, sparse: bool, doc: str):
        self._name, self._sparse, self.__doc__ = name, sparse, doc

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _range_of(key)
        if not key:
            return [] if self._sparse else arange(0)
        ranges = [_range_of(s) for s in key]
        with config(numpy_dtype_promotion="standard"):  # they are of the grid's own making
            axes = promote_dtypes(*ranges)
        grid = meshgrid(*axes, indexing="ij", sparse=self._sparse)
        return list(grid) if self._sparse else stack(grid)

    def __repr__(self) -> str:
        return f"tilewright.numpy.{self._name}"


mgrid: _Grid = _Grid("mgrid", False, "A dense grid of coordinates: `mgrid[0:2, 0:3]` has shape (2, 2, 3).")
ogrid: _Grid = _Grid("ogrid", True, "An open grid of coordinates: `ogrid[0:2, 0:3]` has shapes (2, 1) and (1, 3).")


class _Joined:
    """Makes arrays by subscripting with slices, numbers and arrays, joined along an axis."""

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int, doc: str):
        self._name, self._default, self.__doc__ = name, (axis, ndmin, trans1d), doc

    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndmin, trans1d = self._default
        matrix = None
        if items and isinstance(items[0], str):
            matrix = {"r": 0, "c": 1}.get(items[0])
            if matrix is None:
                axis, ndmin, trans1d = self._directive(items[0])
            items = items[1:]
        joined = concatenate([self._part(item, ndmin, trans1d) for item in items], axis)
        if matrix is None or len(shape_of(joined)) != 1:
            return joined
        return lax.expand_dims(joined, (matrix,))  # a row or a column, where NumPy makes a matrix

    def _directive(self, text: str) -> tuple[int, int, int]:
        numbers = list(self._default)
        for i, word in enumerate(text.split(",")):
            numbers[i] = int(word)
        return tuple(numbers)  # type: ignore[return-value]

    def _part(self, item: Any, ndmin: int, trans1d: int) -> Array:
        a = _range_of(item) if isinstance(item, slice) else asarray(item)
        rank = len(shape_of(a))
        if rank == 0:
            a, rank = lax.reshape(a, (1,)), 1
        missing = ndmin - rank
        if missing <= 0:
            return a
        # `trans1d` is where the axes of the item go among those of the result.
        start = trans1d if trans1d >= 0 else missing + trans1d + 1
        places = range(start, start + rank)
        return lax.expand_dims(a, tuple(d for d in range(ndmin) if d not in places))

    def __repr__(self) -> str:
        return f"tilewright.numpy.{self._name}"


r_: _Joined = _Joined("r_", 0, 1, -1, "Join along the first axis: `r_[0:3, 5]` is `[0, 1, 2, 5]`.")
c_: _Joined = _Joined("c_", -1, 2, 0, "Join vectors as columns: `c_[0:2, 0:2]` has shape (2, 2).")
index_exp: Any = np.index_exp
s_: Any = np.s_

__all__ = [
    "c_", "index_exp", "indices", "meshgrid", "mgrid", "ogrid", "r_", "s_",
]  # fmt: skip
