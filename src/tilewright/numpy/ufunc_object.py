"""`ufunc`: a scalar function over arrays, with NumPy's methods `reduce`, `accumulate`, `at`, `outer`, `reduceat`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import lax
from ..core.errors import ArgumentError, UnsupportedError
from . import cumulative, reductions
from .create import arange
from .elementwise import where3
from .shape import moveaxis
from .util import (
    Array,
    ArrayLike,
    Axis,
    DTypeLike,
    astype,
    axes_of,
    axis_of,
    broadcast_to_shape,
    dtype_argument,
    dtype_of,
    no_out,
    shape_of,
    value,
)

# The ufuncs whose reductions and cumulative forms exist as functions of their own.
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_CUMULATIVE = {"add": "cumsum", "multiply": "cumprod"}


class ufunc:  # noqa: N801
    """A function of scalars applied elementwise to broadcast arrays, with NumPy's ufunc methods."""

    def __init__(
        self, func: Callable[..., Any], /, nin: int, nout: int, *, name: str | None = None, nargs: int | None = None,
        identity: Any = None, doc: str = "",
    ):  # fmt: skip
        self._function, self.nin, self.nout, self.identity = func, nin, nout, identity
        self.nargs = nin if nargs is None else nargs
        self.__name__ = name or func.__name__
        example = (
            f"\n\n    >>> from tilewright import numpy as jnp\n    >>> jnp.{name}.nin\n    {nin}\n    " if doc else ""
        )
        self.__doc__ = (doc or func.__doc__ or "") + example

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Any:
        if out is not None or where is not None:
            no_out(out, self.__name__)
            raise UnsupportedError(f"{self.__name__} takes no `where`", "use `numpy.where` on the result")
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} arguments, got {len(args)}")
        return self._function(*args)

    def __repr__(self) -> str:
        return f"<tilewright.numpy.ufunc {self.__name__!r}>"

    def __hash__(self) -> int:
        return hash((self._function, self.nin, self.nout))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ufunc) and (self._function, self.nin, self.nout) == (
            other._function,
            other.nin,
            other.nout,
        )

    def _needs_two(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ArgumentError(f"{method} of {self!r}", "only functions of two arguments and one result have it")

    def reduce(
        self, a: ArrayLike, axis: Axis = 0, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = None,
    ) -> Array:  # fmt: skip
        """Combine the elements along one axis or several."""
        self._needs_two("reduce")
        no_out(out, "reduce")

        a = value(a)
        known = _REDUCTIONS.get(self.__name__)
        if known in ("sum", "prod"):
            return getattr(reductions, known)(a, axis, dtype, keepdims=keepdims, initial=initial, where=where)
        if known in ("max", "min"):
            return getattr(reductions, known)(a, axis, keepdims=keepdims, initial=initial, where=where)
        if known is not None and initial is None:
            return getattr(reductions, known)(a, axis, keepdims=keepdims, where=where)
        return self._fold(a, axis, dtype, keepdims, initial, where)

    def _fold(self, a: Array, axis: Axis, dtype: DTypeLike, keepdims: bool, initial: Any, where: Any) -> Array:
        if dtype is not None:
            a = astype(a, dtype_argument(dtype))
        if where is not None:
            if self.identity is None and initial is None:
                raise ArgumentError(f"{self!r} has no identity for elements left out", "give `initial`")
            a = where3(where, a, np.asarray(self.identity if initial is None else initial).astype(dtype_of(a))[()])
        shape = shape_of(a)
        axes = axes_of(axis, len(shape))
        kept = [d for d in range(len(shape)) if d not in axes]
        flat = lax.reshape(moveaxis(a, axes, range(len(axes))), (-1 if shape else 1, *[shape[d] for d in kept]))
        if initial is None and self.identity is None:
            if shape_of(flat)[0] == 0:
                raise ArgumentError(f"{self!r} of nothing has no value", "give `initial`")
            first, rest = lax.index_in_dim(flat, 0, 0, keepdims=False), lax.slice_in_dim(flat, 1, None)
        else:
            start = self.identity if initial is None else initial
            first = lax.full(shape_of(flat)[1:], start, dtype_of(flat))
            rest = flat
        result, _ = lax.scan(lambda carry, x: (astype(self._function(carry, x), dtype_of(first)), None), first, rest)
        return lax.expand_dims(result, tuple(sorted(axes))) if keepdims else result

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None) -> Array:
        """The running results of `reduce` along an axis."""
        self._needs_two("accumulate")
        no_out(out, "accumulate")

        a = value(a)
        known = _CUMULATIVE.get(self.__name__)
        if known is not None:
            return getattr(cumulative, known)(a, axis, dtype)
        if dtype is not None:
            a = astype(a, dtype_argument(dtype))
        number = axis_of(axis, len(shape_of(a)))
        if shape_of(a)[number] == 0:
            return a

        moved = moveaxis(a, number, 0)
        first = lax.index_in_dim(moved, 0, 0, keepdims=False)

        def step(carry: Any, x: Any) -> Any:
            carry = astype(self._function(carry, x), dtype_of(first))
            return carry, carry

        _, rest = lax.scan(step, first, lax.slice_in_dim(moved, 1, None))
        return moveaxis(lax.concatenate([lax.expand_dims(first, (0,)), rest], 0), 0, number)

    def at(self, a: ArrayLike, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Array:
        """A copy of `a` with the function applied at indices, once for each time an index occurs."""
        if inplace:
            raise UnsupportedError(
                f"{self.__name__}.at cannot change its argument", "pass inplace=False and use the result"
            )
        a = value(a)
        if self.nin == 1:
            return a.at[indices].apply(self._function)
        update = a.at[indices]
        method = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}.get(self.__name__)
        if method is not None:
            return getattr(update, method)(b)
        if self.__name__ == "subtract":
            return update.add(-value(b))
        return self._at_one_by_one(a, indices, b)

    def _at_one_by_one(self, a: Array, indices: Any, b: Any) -> Array:
        size = math.prod(shape_of(a))
        places = lax.reshape(arange(size), shape_of(a))[indices]
        updates = broadcast_to_shape(value(b), shape_of(places))
        count = math.prod(shape_of(places))
        flat_places, flat_updates = lax.reshape(places, (count,)), lax.reshape(updates, (count,))

        def step(carry: Any, item: Any) -> Any:
            place, update = item
            return carry.at[place].set(astype(self._function(carry[place], update), dtype_of(a))), None

        result, _ = lax.scan(step, lax.reshape(a, (size,)), (flat_places, flat_updates))
        return lax.reshape(result, shape_of(a))

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array:
        """The function of every pair of elements."""
        self._needs_two("outer")
        A, B = value(A), value(B)
        left = lax.reshape(A, shape_of(A) + (1,) * len(shape_of(B)))
        return self._function(left, B)

    def reduceat(self, a: ArrayLike, indices: Any, axis: int = 0, dtype: DTypeLike = None, out: None = None) -> Array:
        """`reduce` of consecutive slices that start at known indices."""
        self._needs_two("reduceat")
        no_out(out, "reduceat")
        a = value(a)
        number = axis_of(axis, len(shape_of(a)))
        starts = [int(i) for i in np.asarray(indices)]
        ends = [*starts[1:], shape_of(a)[number]]
        parts = []
        for start, end in zip(starts, ends, strict=True):
            part = lax.slice_in_dim(a, start, max(end, start + 1), axis=number)
            parts.append(self.reduce(part, number, dtype, keepdims=True))
        return lax.concatenate(parts, number)


__all__ = [
    "ufunc",
]  # fmt: skip
