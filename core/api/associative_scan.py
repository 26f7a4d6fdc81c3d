"""`map` and `associative_scan`: functions composed of `scan`, `vmap` and slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.array import Array, Operand
from ..primitives.control_flow.scan import scan
from ..primitives.movement.shape import concatenate, expand_dims, reshape_to, rev, slice_in_dim
from ..support import pytree
from ..support.errors import ArgumentError, ArgumentTypeError, ShapeError
from ..tracing.trace import shape_of, typeof
from .transformations import vmap

if TYPE_CHECKING:
    from ..support.pytree import PyTree


def map(f: Callable[[Any], Any], xs: PyTree, *, batch_size: int | None = None) -> Any:  # noqa: A001
    """Apply a function to each element along the leading axis of arrays, one after another.

    With `batch_size` that many elements at a time are mapped together by `vmap`.

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.map(lambda x: x * x, jnp.arange(4.0)))
    [0. 1. 4. 9.]
    """
    if batch_size is None:

        def one(_: object, x: Any) -> tuple[Any, Any]:
            return (), f(x)

        one.traces_for, one.loop = (f, "map"), "map"
        return scan(one, (), xs)[1]

    leaves, structure = pytree.flatten(xs)
    if not leaves:
        raise ArgumentError(
            "map with a batch_size needs xs with at least one array", "pass arrays, or drop `batch_size`"
        )
    if batch_size < 1:
        raise ArgumentError(f"the batch_size of map is {batch_size}", "pass a positive integer")
    n = shape_of(leaves[0])[0]
    whole = n - n % batch_size
    parts = []
    if whole:

        def rows(x: Operand) -> Any:
            shape = shape_of(x)
            return reshape_to(slice_in_dim(x, 0, whole), (whole // batch_size, batch_size, *shape[1:]))

        chunks = map(vmap(f), structure.unflatten([rows(x) for x in leaves]))
        parts.append(pytree.map(lambda y: reshape_to(y, (whole, *shape_of(y)[2:])), chunks))
    if whole < n or not n:
        parts.append(vmap(f)(structure.unflatten([slice_in_dim(x, whole, n) for x in leaves])))
    return parts[0] if len(parts) == 1 else pytree.map(lambda a, b: concatenate([a, b], 0), *parts)


def _interleave(even: Array, odd: Array, axis: int) -> Any:
    """Interleave two arrays; `even` has as many elements as `odd`, or one more."""
    n = shape_of(odd)[axis]
    pairs = concatenate(
        [expand_dims(slice_in_dim(even, 0, n, axis=axis), (axis + 1,)), expand_dims(odd, (axis + 1,))], axis + 1
    )
    shape = list(shape_of(odd))
    shape[axis] = 2 * n
    mixed = reshape_to(pairs, tuple(shape))
    m = shape_of(even)[axis]
    return mixed if m == n else concatenate([mixed, slice_in_dim(even, n, m, axis=axis)], axis)


def _axes(leaves: Sequence[Any], axis: int) -> list[int]:
    """The axis of each array, counted from its front; all have the same size there."""
    if not leaves or not all(-len(shape_of(x)) <= axis < len(shape_of(x)) for x in leaves):
        raise ArgumentError(
            f"associative_scan along axis {axis} of arrays {[typeof(x).show() for x in leaves]}",
            "pass an axis that every array has",
        )
    axes = [axis % len(shape_of(x)) for x in leaves]
    sizes = {shape_of(x)[a] for x, a in zip(leaves, axes, strict=True)}
    if len(sizes) > 1:
        raise ShapeError(
            f"associative_scan along axis {axis} of arrays of sizes {sorted(sizes)}", "give them equal axes"
        )
    return axes


def _cut(xs: Sequence[Any], axes: Sequence[int], start: int, stop: int | None, step: int = 1) -> list[Any]:
    return [
        slice_in_dim(x, start, shape_of(x)[a] if stop is None else stop, step, a) for x, a in zip(xs, axes, strict=True)
    ]


def _prefixes(combine: Callable[..., list[Any]], xs: list[Any], axes: Sequence[int]) -> list[Any]:
    """All prefixes: those of odd places from the prefixes of pairs, those of even places by one step more."""
    n = shape_of(xs[0])[axes[0]]
    if n < 2:
        return xs
    odd = _prefixes(combine, combine(_cut(xs, axes, 0, n - n % 2, 2), _cut(xs, axes, 1, None, 2)), axes)
    first, rest = _cut(xs, axes, 0, 1), _cut(xs, axes, 2, None, 2)
    if shape_of(rest[0])[axes[0]]:
        tail = combine(odd if n % 2 else _cut(odd, axes, 0, n // 2 - 1), rest)
        first = [concatenate([x, t], a) for x, t, a in zip(first, tail, axes, strict=True)]
    return [_interleave(e, o, a) for e, o, a in zip(first, odd, axes, strict=True)]


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes combined by an associative function, in a number of steps that is the logarithm of the length.

    `fn(a, b)` takes and gives pytrees like `elems`, elements batched along `axis`. Source: Blelloch,
    "Prefix sums and their applications" (1990).

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.associative_scan(jnp.add, jnp.arange(5.0)))
    [ 0.  1.  3.  6. 10.]
    """
    if not callable(fn):
        raise ArgumentTypeError(f"associative_scan takes a function, got {fn!r}", "pass fn(a, b)")
    leaves, structure = pytree.flatten(elems)
    axes = _axes(leaves, axis)

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out, out_tree = pytree.flatten(fn(structure.unflatten(a), structure.unflatten(b)))
        if out_tree != structure:
            raise ArgumentTypeError(
                f"the function of associative_scan returns {out_tree}, not {structure}",
                "return a tree like its arguments",
            )
        return out

    def turned(xs: Sequence[Any]) -> list[Any]:
        return [rev(x, (a,)) if reverse else x for x, a in zip(xs, axes, strict=True)]

    return structure.unflatten(turned(_prefixes(combine, turned(leaves), axes)))


__all__ = [
    "associative_scan", "map",
]  # fmt: skip
