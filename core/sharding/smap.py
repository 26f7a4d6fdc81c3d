"""`smap`: `shard_map` over one axis of a mesh, with numbers of dimensions in place of specs, as `vmap` has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

from ..support import pytree
from ..support.errors import ArgumentTypeError, AxisError
from ..tracing.trace import shape_of
from .mesh import PartitionSpec
from .shard_map import INFER, shard_map


def smap(
    f: Callable[..., Any] | None = None, /, *, in_axes: Any = INFER, out_axes: Any, axis_name: Hashable
) -> Any:  # fmt: skip
    """A function that runs `f` along one axis of the mesh in force, on parts of its arguments.

    `in_axes` and `out_axes` are prefixes of the trees of arguments and results, whose leaves say which dimension the
    axis `axis_name` splits (from the end, if negative), or None for none. Without `in_axes` the types of the arguments
    tell, along an axis of the type `Explicit`. Along the other axes of the mesh all stays as it was, so that `smap`s
    over several axes nest.

    Raises:
      AxisError: a dimension that an argument or a result has not.
      ArgumentTypeError: a leaf that is neither an int nor None; several names of axes.
      Others: those of `shard_map`.

    >>> import tilewright as tw
    >>> total = smap(lambda x: tw.lax.psum(x.sum(), "x"), in_axes=0, out_axes=None, axis_name="x")
    >>> with tw.set_mesh(tw.make_mesh((1,), ("x",))):
    ...     float(total(tw.numpy.arange(4.0)))
    6.0
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if isinstance(axis_name, (list, tuple)):
        raise ArgumentTypeError(f"smap over {axis_name!r}", "name one axis; `shard_map` takes several")

    @functools.wraps(f)
    def run(*args: Any) -> Any:
        ranks: Any = None

        def body(*parts: Any) -> Any:
            nonlocal ranks
            results = f(*parts)
            ranks = pytree.map(lambda x: len(shape_of(x)), results)
            return results

        ins = INFER
        if in_axes is not INFER:
            ins = _specs(in_axes, pytree.map(lambda x: len(shape_of(x)), args), axis_name, "in_axes")
        mapped = shard_map(body, in_specs=ins, out_specs=lambda: _specs(out_axes, ranks, axis_name, "out_axes"),
                           axis_names={axis_name})  # fmt: skip
        return mapped(*args)

    return run


def _specs(axes: pytree.PyTree, ranks: pytree.PyTree, name: Hashable, what: str) -> Any:
    """The spec of each value whose number of dimensions is given."""
    flat, structure = pytree.flatten(ranks)
    return structure.unflatten(
        _spec(axis, ndim, name, what) for axis, ndim in zip(pytree.broadcast_prefix(axes, ranks), flat, strict=True)
    )


def _spec(axis: int | None, ndim: int, name: Hashable, what: str) -> PartitionSpec:
    if axis is None:
        return PartitionSpec()
    if not isinstance(axis, int):
        raise ArgumentTypeError(f"{what} of smap hold {axis!r}", "use integers, or None where nothing is split")
    if not -ndim <= axis < ndim:
        raise AxisError(f"{what} of smap name dimension {axis} of a value of {ndim}", "name one that it has")
    return PartitionSpec(*[None] * (axis % ndim), name)
