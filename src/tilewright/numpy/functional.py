"""Functions of functions: applied along axes, over coordinates, piece by piece, or vectorised by a signature."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from .. import lax
from ..core.api.transformations import vmap
from ..core.arrays.operators import check_ranks
from ..core.ir.types import ArrayType
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, ArgumentTypeError, ShapeError, plural
from .create import arange, asarray
from .select import select
from .shape import broadcast_to, expand_dims
from .util import Array, ArrayLike, DTypeLike, axis_of, dtype_of, shape_argument, shape_of, value


@public
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """Apply a function of vectors to every vector along an axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.apply_along_axis(jnp.sum, 1, jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """

    a = value(arr, "apply_along_axis")
    rank = len(shape_of(a))
    axis = axis_of(axis, rank)

    def function(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    for i in range(1, rank - axis):
        function = vmap(function, in_axes=i, out_axes=-1)
    for _ in range(axis):
        function = vmap(function, in_axes=0, out_axes=0)
    return function(a)


@public
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: Any) -> Array:
    """Apply a reducing function over axes one after another, keeping them.

    >>> from tilewright import numpy as jnp
    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), (0, 1)).shape
    (1, 1)
    """
    a = value(a, "apply_over_axes")
    for axis in (axes,) if isinstance(axes, int) else axes:
        number = axis_of(axis, len(shape_of(a)))
        result: Array = func(a, axis=number)
        if len(shape_of(result)) == len(shape_of(a)) - 1:
            result = expand_dims(result, number)
        if len(shape_of(result)) != len(shape_of(a)):
            raise ShapeError(
                f"the function made shape {shape_of(result)} of {shape_of(a)}", "it must keep or drop one axis"
            )
        a = result
    return a


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """The values of a function at every index of a grid; the function sees one index at a time.

    >>> from tilewright import numpy as jnp
    >>> jnp.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """

    sizes = shape_argument(shape)
    call: Callable[..., Any] = functools.partial(function, **kwargs)
    for d in range(len(sizes)):
        call = vmap(call, in_axes=tuple(0 if i == len(sizes) - 1 - d else None for i in range(len(sizes))))
    return call(*(arange(n, dtype=dtype) for n in sizes))


@public
def piecewise(x: ArrayLike, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """A function defined by pieces: the function or number of the last condition that holds.

    One more function than conditions is the default; without it, 0. An array of conditions is one for each row, or one
    condition where that many functions are not given.

    >>> from tilewright import numpy as jnp
    >>> jnp.piecewise(jnp.array([-1., 1.]), [jnp.array([True, False])], [0., 5.])
    Array([0., 5.], dtype=float32)
    """
    x = value(x, "piecewise")
    rows = isinstance(condlist, (list, tuple)) or len(funclist) - shape_of(condlist)[0] in (0, 1)
    conditions = list(condlist) if rows else [condlist]
    if len(funclist) == len(conditions) + 1:
        *pieces, default = funclist
    elif len(funclist) == len(conditions):
        pieces, default = list(funclist), 0
    else:
        raise ArgumentError(f"{len(conditions)} conditions for {len(funclist)} functions", "give as many, or one more")

    def result(piece: Any) -> Array:
        made = asarray(piece(x, *args, **kw) if callable(piece) else piece)
        return lax.convert_element_type(made, x.dtype)

    options = [broadcast_to(result(p), shape_of(x)) for p in pieces]
    return select([asarray(c) for c in reversed(conditions)], options[::-1], broadcast_to(result(default), shape_of(x)))


# ---------------------------------------------------------------------------- vectorize

_NAME = r"\w+"
_TERM = rf"\((?:{_NAME}(?:,{_NAME})*)?\)"
_SIGNATURE = re.compile(rf"^{_TERM}(?:,{_TERM})*->{_TERM}(?:,{_TERM})*$")


def _terms(text: str) -> list[tuple[str, ...]]:
    return [tuple(re.findall(_NAME, term)) for term in re.findall(_TERM, text)]


def _parse(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ArgumentError(f"signature {signature!r} is not of the form '(n),(n,m)->(m)'", "write it like that")
    before, after = text.split("->")
    return _terms(before), _terms(after)


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """A function of scalars, or of arrays by a signature such as '(n,m),(m)->(n)', made to broadcast.

    `excluded` are positions and names of arguments passed on as they are.

    >>> from tilewright import numpy as jnp
    >>> jnp.vectorize(lambda a, b: a @ b, signature='(n),(n)->()')(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    left_out = frozenset(excluded)
    if not all(isinstance(e, (int, str)) for e in left_out):
        raise ArgumentTypeError(f"excluded={excluded!r}", "name arguments by their position or their name")
    if any(isinstance(e, int) and e < 0 for e in left_out):
        raise ArgumentError(f"excluded={excluded!r} counts from the end", "give positions from 0 on")
    parsed = None if signature is None else _parse(signature)

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        moving_names = [n for n in kwargs if n not in left_out]
        if moving_names and any(isinstance(e, str) for e in left_out):
            raise ArgumentError(f"arguments {moving_names} by name in a vectorized function", "pass them by position")
        absent = [i for i, x in enumerate(args) if x is None and i not in left_out]
        if absent and parsed is not None:
            raise ArgumentError(f"None at positions {absent} for signature {signature!r}", "name them in `excluded`")
        positions = [i for i in range(len(args)) if i not in left_out and i not in absent]
        names = [] if any(isinstance(e, str) for e in left_out) else moving_names

        def call(*arrays: Any) -> Any:
            full = list(args)
            for i, x in zip(positions, arrays, strict=False):
                full[i] = x
            given = dict(zip(names, arrays[len(positions) :], strict=True))
            return pyfunc(*full, **{**kwargs, **given})

        arrays = [asarray(args[i]) for i in positions] + [asarray(kwargs[n]) for n in names]
        ins, outs = parsed if parsed is not None else ([()] * len(arrays), None)
        if len(ins) != len(arrays):
            raise ArgumentTypeError(
                f"signature {signature!r} has {plural(len(ins), 'input')}, the call {len(arrays)}", "they must agree"
            )
        return _broadcasting(call, arrays, ins, outs, signature)

    return wrapped


def _broadcasting(
    call: Any, arrays: list[Array], ins: Sequence[tuple[str, ...]], outs: Any, signature: str | None
) -> Any:
    sizes: dict[str, int] = {}
    outer = []
    for x, names in zip(arrays, ins, strict=True):
        shape = shape_of(x)
        if len(shape) < len(names):
            raise ShapeError(f"an argument of shape {shape} for the dimensions {names}", "it has too few dimensions")
        core = shape[len(shape) - len(names) :]
        for name, n in zip(names, core, strict=True):
            if sizes.setdefault(name, n) != n:
                raise ShapeError(
                    f"dimension {name} of signature {signature!r} is {sizes[name]} and {n}", "sizes must agree"
                )
        outer.append(shape[: len(shape) - len(names)])
    check_ranks([ArrayType(s, dtype_of(x)) for x, s in zip(arrays, outer, strict=True)])
    batch = lax.broadcast_shapes(*outer) if outer else ()

    def checked(*xs: Any) -> Any:
        result = call(*xs)
        if outs is not None:
            _check_outputs(result, outs, sizes, signature)
        return result

    function = checked
    # The innermost batch dimension is mapped first; arguments that lack it, or have it as 1, are repeated.
    squeezed = [
        lax.squeeze(x, tuple(d for d, n in enumerate(shape) if n == 1 and batch[len(batch) - len(shape) + d] != 1))
        for x, shape in zip(arrays, outer, strict=True)
    ]
    for d in range(1, len(batch) + 1):
        present = [len(s) >= d and (s[-d] != 1 or batch[-d] == 1) for s in outer]
        function = vmap(function, in_axes=tuple(0 if p else None for p in present), axis_size=batch[-d])
    return function(*squeezed)


def _check_outputs(result: Any, outs: Sequence[tuple[str, ...]], sizes: dict[str, int], signature: str | None) -> None:
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(outs):
        raise ArgumentTypeError(
            f"signature {signature!r} has {plural(len(outs), 'output')}, the function {len(results)}", "they must agree"
        )
    for x, names in zip(results, outs, strict=True):
        if len(shape_of(x)) != len(names):
            raise ShapeError(f"an output of shape {shape_of(x)} for the dimensions {names}", "ranks must agree")
        for name, n in zip(names, shape_of(x), strict=True):
            if sizes.setdefault(name, n) != n:
                raise ShapeError(
                    f"output dimension {name} of {signature!r} is {n}, not {sizes[name]}", "sizes must agree"
                )


__all__ = [
    "apply_along_axis", "apply_over_axes", "fromfunction", "piecewise", "vectorize",
]  # fmt: skip
