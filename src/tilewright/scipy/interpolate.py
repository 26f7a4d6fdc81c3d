"""`jax.scipy.interpolate`'s names."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numpy as tnp
from ..core.primitives.control_flow.subprograms import known
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from ..numpy.util import Array, ArrayLike, dtype_of, promote_dtypes_inexact, shape_of

_METHODS = ("linear", "nearest")


def _method(name: Any) -> str:
    if name not in _METHODS:
        raise ArgumentError(f"RegularGridInterpolator with method={name!r}", f"one of {', '.join(_METHODS)}")
    return name


@public
class RegularGridInterpolator:
    """A function of points, interpolated from values on a rectangular grid.

    `points` has the coordinates along each of the first axes of `values`, increasing or decreasing. The interpolator is
    called with points in the last axis of an array; `method` is "linear" or "nearest". Outside of the grid it gives
    `fill_value`, or, where that is None, goes on from the outermost cell. Raises `UnsupportedError` for
    `bounds_error=True`, and `ShapeError` and `ArgumentError` where the grid does not fit the values.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.interpolate import RegularGridInterpolator
    >>> f = RegularGridInterpolator((jnp.array([0., 1.]),), jnp.array([10., 20.]))
    >>> print(f(jnp.array([[0.25], [2.]])))
    [12.5  nan]
    """

    values: Array
    fill_value: ArrayLike | None

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = np.nan,
    ):
        self.method: str = _method(method)
        if bounds_error:
            raise UnsupportedError("RegularGridInterpolator with bounds_error=True: an array's values cannot raise",
                                   "leave it out, and look for `fill_value` in the result")  # fmt: skip
        (values,) = promote_dtypes_inexact(tnp.asarray(values))
        self.grid = tuple(promote_dtypes_inexact(tnp.asarray(p))[0] for p in points)
        shape = shape_of(values)
        if not 0 < len(self.grid) <= len(shape):
            raise ArgumentError(f"RegularGridInterpolator with {len(self.grid)} arrays of points for values of {shape}",
                                "one for each of their first axes")  # fmt: skip
        for axis, p in enumerate(self.grid):
            if shape_of(p) != (shape[axis],):
                raise ShapeError(f"points of shape {shape_of(p)} along axis {axis} of values of {shape}",
                                 f"pass a vector of {shape[axis]}")  # fmt: skip
        if fill_value is not None and not np.can_cast(dtype_of(tnp.asarray(fill_value)), dtype_of(values), "same_kind"):
            raise DtypeError(
                f"a fill_value of {dtype_of(fill_value)} beside values of {dtype_of(values)}",
                "pass a number of their kind",
            )
        for axis, p in enumerate(self.grid):
            values = self._ascending(axis, p, values)
        self.values, self.fill_value = values, fill_value

    def _ascending(self, axis: int, points: Array, values: Array) -> Array:
        """The values, turned round, as the points are, where these decrease."""
        concrete = known(points)
        if concrete is None:
            falls = points[0] > points[-1]
            rising, turned = tnp.where(falls, points[::-1], points), tnp.where(falls, tnp.flip(values, axis), values)
        else:
            steps = np.diff(np.asarray(concrete))
            if np.all(steps > 0):
                return values
            if not np.all(steps < 0):
                raise ArgumentError(f"the points along axis {axis} are not strictly ordered", "sort them")
            rising, turned = points[::-1], tnp.flip(values, axis)
        self.grid: tuple[Any, ...] = (*self.grid[:axis], rising, *self.grid[axis + 1 :])
        return turned

    def __call__(self, xi: ArrayLike | Sequence[ArrayLike], method: str | None = None) -> Array:
        """The values at points: shape (..., number of the grid's axes)."""
        method = self.method if method is None else _method(method)
        n = len(self.grid)
        x = tnp.stack(tnp.broadcast_arrays(*map(tnp.asarray, xi)), -1) if isinstance(xi, tuple) else tnp.asarray(xi)
        if len(shape_of(x)) == 1:
            x = tnp.reshape(x, (-1, n)) if n == 1 or shape_of(x)[0] % n == 0 else x
        if not shape_of(x) or shape_of(x)[-1] != n:
            raise ShapeError(
                f"points of shape {shape_of(x)} for a grid of {n} axes", f"give the last axis {n} elements"
            )
        (x,) = promote_dtypes_inexact(x)
        lead = shape_of(x)[:-1]
        columns = tnp.reshape(x, (-1, n)).T
        cells = [self._cell(grid, c) for grid, c in zip(self.grid, columns, strict=True)]
        outside = functools.reduce(operator.or_, [(c < g[0]) | (c > g[-1]) for g, c in zip(self.grid, columns)])
        unknown = functools.reduce(operator.or_, [tnp.isnan(c) for c in columns])
        rest = (1,) * (len(shape_of(self.values)) - n)
        if method == "nearest":
            found = self.values[tuple(tnp.where(part <= 0.5, low, high) for low, high, part in cells)]
        else:
            corners = itertools.product(*[[(low, 1 - part), (high, part)] for low, high, part in cells])
            terms = []
            for corner in corners:
                places, weights = zip(*corner, strict=True)
                weight = functools.reduce(operator.mul, weights)
                terms.append(self.values[places] * tnp.reshape(weight, (-1, *rest)))
            found = functools.reduce(operator.add, terms)
        if self.fill_value is not None:
            found = tnp.where(tnp.reshape(outside, (-1, *rest)), self.fill_value, found)
        found = tnp.where(tnp.reshape(unknown, (-1, *rest)), np.nan, found)
        return tnp.reshape(found, (*lead, *shape_of(self.values)[n:]))

    def _cell(self, grid: Array, x: Array) -> tuple[Array, Array, Array]:
        """The elements below and above each coordinate, and the part of the way between them."""
        last = shape_of(grid)[0] - 1
        low = tnp.clip(tnp.searchsorted(grid, x) - 1, 0, max(last - 1, 0))
        high = tnp.minimum(low + 1, last)
        width = grid[high] - grid[low]
        return low, high, tnp.where(width == 0, 0, (x - grid[low]) / tnp.where(width == 0, 1, width))


__all__ = ["RegularGridInterpolator"]
__dir__: Callable[[], list[str]] = __all__.copy
