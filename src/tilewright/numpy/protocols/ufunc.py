"""`ufunc`: a scalar function over arrays, with NumPy's methods `reduce`, `accumulate`, `at`, `outer`, `reduceat`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import lax
from ...core.api.transformations import ShapeDtypeStruct, eval_shape
from ...core.support.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ..create import arange, asarray
from ..elementwise import as_boolean, where3
from ..functional import vectorize
from ..index import take
from ..shape import moveaxis
from ..util import (
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


class ufunc:  # noqa: N801
    """A function of scalars applied elementwise to broadcast arrays, with NumPy's ufunc methods.

    `func` is the function of scalars, of `nin` arguments and `nout` results, and `identity` what it leaves the other
    argument alone with. `call` is the same on arrays, where there is a faster one than `vectorize(func)`; `reduce`,
    `accumulate`, `at` and `reduceat` are faster ways of the methods, that take their arguments.

    >>> from tilewright import numpy as jnp
    >>> jnp.ufunc(lambda x, y: x + 2 * y, 2, 1).reduce(jnp.array([1, 2, 3]))
    Array(11, dtype=int32)
    """

    def __init__(
        self, func: Callable[..., Any], /, nin: int, nout: int, *, name: str | None = None, nargs: int | None = None,
        identity: Any = None, call: Callable[..., Any] | None = None, reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None, at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None, doc: str = "",
    ):  # fmt: skip
        self._function, self._nin, self._nout, self._identity = (
            func,
            operator.index(nin),
            operator.index(nout),
            identity,
        )
        self._call = vectorize(func) if call is None else call
        self._reduce, self._accumulate = reduce or self._fold, accumulate or self._running
        self._at, self._reduceat = at or self._one_by_one, reduceat or self._slices
        self._nargs = self.nin if nargs is None else operator.index(nargs)
        self.__name__: str = name or func.__name__
        example = (
            f"\n\n    >>> from tilewright import numpy as jnp\n    >>> jnp.{name}.nin\n    {nin}\n    " if doc else ""
        )
        self.__doc__ = (doc or func.__doc__ or "") + example

    @property
    def nin(self) -> int:
        return self._nin

    @property
    def nout(self) -> int:
        return self._nout

    @property
    def nargs(self) -> int:
        return self._nargs

    @property
    def identity(self) -> Any:
        return self._identity

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Array:
        if out is not None or where is not None:
            no_out(out, self.__name__)
            raise UnsupportedError(f"{self.__name__} takes no `where`", "use `numpy.where` on the result")
        if len(args) != self.nin:
            called = ", ".join(f"x{n + 1}" for n in range(self.nin))
            what = f"{self.__name__} takes {self.nin} arguments, got {len(args)}"
            raise ArgumentTypeError(what, f"call it as {self.__name__}({called})")
        return self._call(*args)

    def __repr__(self) -> str:
        return f"<tilewright.numpy.ufunc {self.__name__!r}>"

    def _key(self) -> tuple[Any, ...]:
        return self._function, self.__name__, self.identity, self.nin, self.nout, self.nargs

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key() == other._key()

    def _needs_two(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ArgumentError(f"{method} of {self!r}", "only functions of two arguments and one result have it")

    def _dtype(self, a: Array, dtype: DTypeLike) -> Any:
        """The dtype asked for, or that of the function of two elements."""
        one = ShapeDtypeStruct((), dtype_of(a))
        return eval_shape(self._call, one, one).dtype if dtype is None else dtype_argument(dtype)

    def reduce(
        self, a: ArrayLike, axis: Axis = 0, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = None,
    ) -> Array:  # fmt: skip
        """Combine the elements along one axis or several, those of the mask `where`, beginning with `initial`."""
        self._needs_two("reduce")
        no_out(out, "reduce")
        if where is not None and self.identity is None and initial is None:
            raise ArgumentError(f"{self!r} has no identity for elements left out", "give `initial`")
        return self._reduce(value(a), axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    def _fold(self, a: Array, axis: Axis, dtype: DTypeLike, keepdims: bool, initial: Any, where: Any) -> Array:
        dtype = self._dtype(a, dtype)
        shape = shape_of(a)
        axes = axes_of(axis, len(shape))
        kept = tuple(shape[d] for d in range(len(shape)) if d not in axes)

        def rows(x: Array) -> Array:
            return lax.reshape(moveaxis(x, axes, range(len(axes))), (math.prod(shape[d] for d in axes), *kept))

        elements, start = rows(astype(a, dtype)), self.identity if initial is None else initial
        if start is not None:
            first = broadcast_to_shape(_of_dtype(start, dtype), kept)
        elif not shape_of(elements)[0]:
            raise ArgumentError(f"{self!r} of nothing has no value", "give `initial`")
        else:
            first = lax.index_in_dim(elements, 0, 0, keepdims=False)
            elements = lax.slice_in_dim(elements, 1, None)
        mask = None if where is None else rows(broadcast_to_shape(as_boolean(value(where)), shape))

        def step(carry: Any, item: Any) -> Any:
            x, used = item
            found = astype(self._call(carry, x), dtype)
            return found if used is None else where3(used, found, carry), None

        result, _ = lax.scan(step, first, (elements, mask))
        return lax.expand_dims(result, tuple(sorted(axes))) if keepdims else result

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None) -> Array:
        """The running results of `reduce` along an axis."""
        self._needs_two("accumulate")
        no_out(out, "accumulate")
        return self._accumulate(value(a), axis=axis, dtype=dtype)

    def _running(self, a: Array, axis: int, dtype: DTypeLike) -> Array:
        dtype = self._dtype(a, dtype)
        a, number = astype(a, dtype), axis_of(axis, len(shape_of(a)))
        if shape_of(a)[number] == 0:
            return a

        moved = moveaxis(a, number, 0)
        first = lax.index_in_dim(moved, 0, 0, keepdims=False)

        def step(carry: Any, x: Any) -> Any:
            carry = astype(self._call(carry, x), dtype)
            return carry, carry

        _, rest = lax.scan(step, first, lax.slice_in_dim(moved, 1, None))
        return moveaxis(lax.concatenate([lax.expand_dims(first, (0,)), rest], 0), 0, number)

    def at(self, a: ArrayLike, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Array:
        """A copy of `a` with the function applied at indices, once for each time an index occurs."""
        if inplace:
            raise UnsupportedError(
                f"{self.__name__}.at cannot change its argument", "pass inplace=False and use the result"
            )
        return self._at(value(a), indices, *(() if b is None else (b,)))

    def _one_by_one(self, a: Array, indices: Any, *b: Any) -> Array:
        size = math.prod(shape_of(a))
        places = lax.reshape(arange(size), shape_of(a))[indices]
        count = math.prod(shape_of(places))
        updates = [lax.reshape(broadcast_to_shape(value(x), shape_of(places)), (count,)) for x in b]

        def step(carry: Any, item: Any) -> Any:
            place, *update = item
            return carry.at[place].set(astype(self._call(carry[place], *update), dtype_of(a))), None

        result, _ = lax.scan(step, lax.reshape(a, (size,)), (lax.reshape(places, (count,)), *updates))
        return lax.reshape(result, shape_of(a))

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array:
        """The function of every pair of elements."""
        self._needs_two("outer")
        A, B = value(A), value(B)
        left = lax.reshape(A, shape_of(A) + (1,) * len(shape_of(B)))
        return self._call(left, lax.reshape(B, (1,) * len(shape_of(A)) + shape_of(B)))

    def reduceat(self, a: ArrayLike, indices: Any, axis: int = 0, dtype: DTypeLike = None, out: None = None) -> Array:
        """`reduce` of consecutive slices that start at indices; of one element where the next start is not larger."""
        self._needs_two("reduceat")
        no_out(out, "reduceat")
        return self._reduceat(value(a), indices, axis=axis, dtype=dtype)

    def _slices(self, a: Array, indices: Any, axis: int, dtype: DTypeLike) -> Array:
        rank, number, starts = len(shape_of(a)), axis_of(axis, len(shape_of(a))), asarray(indices)
        dtype = eval_shape(lambda x: self.reduce(x, 0, dtype), ShapeDtypeStruct((1,), dtype_of(a))).dtype
        a, size = astype(a, dtype), shape_of(a)[number]
        ends = lax.concatenate([starts[1:], lax.full((min(1, len(starts)),), size, dtype_of(starts))], 0)
        first, end = (lax.expand_dims(x, [d for d in range(rank) if d != number]) for x in (starts, ends))

        def step(i: Any, out: Array) -> Array:
            inside = (i > first) & (i < end)
            return where3(inside, astype(self._call(out, lax.dynamic_index_in_dim(a, i, number)), dtype), out)

        return lax.fori_loop(0, size, step, take(a, starts, number))


def _of_dtype(number: Any, dtype: DTypeLike) -> ArrayLike:
    """A neutral element in a dtype: -1 is all bits of one that has no signs."""
    if isinstance(number, (bool, int, float, complex)):
        return np.asarray(number).astype(dtype)[()]
    return astype(value(number), dtype)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a function of scalars, vectorised.

    >>> from tilewright import numpy as jnp
    >>> jnp.frompyfunc(lambda x, y: x + 2 * y, 2, 1)(1, 2)
    Array(5, dtype=int32...)
    """
    return ufunc(func, nin, nout, identity=identity)


__all__ = [
    "frompyfunc", "ufunc",
]  # fmt: skip
