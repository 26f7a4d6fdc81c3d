"""`pmap`: a function mapped over an axis of its arguments, each element on a device of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.jit.jit import jit
from ..core.jit.stages import Wrapped
from ..core.primitives.movement.shape import expand_dims, squeeze
from ..core.sharding.mesh import Mesh, PartitionSpec
from ..core.sharding.shard_map import shard_map
from ..core.support import pytree as tree
from ..core.support.errors import ArgumentError, BatchAxisError, MeshError, TreeError
from ..core.tracing.trace import shape_of
from ..devices import devices as all_devices

UNNAMED = "pmap"


def pmap[**P, R](
    fun: Callable[P, R], axis_name: Any = None, *, in_axes: Any = 0, out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Any] | None = None,
    backend: str | None = None, axis_size: int | None = None, donate_argnums: int | Sequence[int] = (),
) -> Wrapped[P, R]:  # fmt: skip
    """A compiled function that maps `fun` over an axis of its arguments, each element on a device of its own.

    The axis is as long as there are devices to use, of `devices` or of the platform `backend`; `in_axes` and `out_axes`
    are as those of `vmap`, and `axis_name` names the axis for collectives. It is `shard_map` over a mesh of one axis,
    which says more, and is for new code.

    Raises:
      ArgumentError: both `devices` and `backend`.
      BatchAxisError: mapped axes of unequal size, none at all.
      MeshError: fewer devices than the axis is long.

    >>> import tilewright as tw
    >>> f = pmap(lambda x: x / tw.lax.psum(x, "i"), axis_name="i")
    >>> print(f(tw.numpy.ones((1, 2))))
    [[1. 1.]]
    """
    static = (static_broadcasted_argnums,) if isinstance(static_broadcasted_argnums, int) \
        else tuple(static_broadcasted_argnums)  # fmt: skip
    name = UNNAMED if axis_name is None else axis_name
    if devices is not None and backend is not None:
        raise ArgumentError(f"pmap with devices and backend={backend!r}", "pass one of them")

    function: Callable[..., Any] = fun

    def run(*args: Any, **kwargs: Any) -> Any:  # arguments by keyword are mapped along their first axis
        fixed = {i % len(args): args[i % len(args)] for i in static if -len(args) <= i < len(args)}
        moving = [a for i, a in enumerate(args) if i not in fixed]
        axes = in_axes
        if isinstance(in_axes, (tuple, list)):
            axes = tuple(a for i, a in enumerate(in_axes) if i not in fixed)
        leaves, in_tree = tree.flatten((tuple(moving), kwargs))
        places = _places((axes, 0), (tuple(moving), kwargs), "in_axes")
        dims = [None if a is None else _dim(a, shape_of(x)) for a, x in zip(places, leaves, strict=True)]
        size = _size(leaves, dims, axis_size)
        mesh = Mesh(_chosen(all_devices(backend) if devices is None else devices, size), (name,))
        found: dict[str, Any] = {}

        def part(*parts: Any) -> list[Any]:
            inner = [x if d is None else squeeze(x, (d,)) for x, d in zip(parts, dims, strict=True)]
            positional, named = in_tree.unflatten(inner)
            given = iter(positional)
            out = function(*[fixed[i] if i in fixed else next(given) for i in range(len(args))], **named)
            flat, found["tree"] = tree.flatten(out)
            found["dims"] = _places(out_axes, out, "out_axes")
            return [x if d is None else expand_dims(x, (d % (len(shape_of(x)) + 1),))
                    for x, d in zip(flat, found["dims"], strict=True)]  # fmt: skip

        mapped = shard_map(part, mesh=mesh, in_specs=tuple(_spec(d, name) for d in dims), check_vma=False,
                           out_specs=lambda: [_spec(d, name) for d in found["dims"]])  # fmt: skip
        outs = mapped(*leaves)
        return found["tree"].unflatten(outs)

    compiled = jit(run, static_argnums=static or None, donate_argnums=donate_argnums or None)
    functools.update_wrapper(compiled, fun)
    return compiled


def _spec(d: int | None, name: Any) -> PartitionSpec:
    return PartitionSpec() if d is None else PartitionSpec(*(None,) * d, name)


def _places(axes: Any, values: Any, what: str) -> list[Any]:
    try:
        return tree.broadcast_prefix(axes, values)
    except TreeError as error:
        raise BatchAxisError(f"pmap {what}={axes!r} is not a prefix of the values' structure", error.what) from None


def _dim(axis: int, shape: Sequence[int]) -> int:
    if not -len(shape) <= axis < len(shape):
        raise BatchAxisError(f"pmap over axis {axis} of an argument of shape {tuple(shape)}", "map an axis that it has")
    return axis % len(shape)


def _size(leaves: Sequence[Any], dims: Sequence[int | None], given: int | None) -> int:
    sizes = {shape_of(x)[d] for x, d in zip(leaves, dims, strict=True) if d is not None}
    sizes |= {given} if given is not None else set()
    if len(sizes) != 1:
        raise BatchAxisError(f"pmap over axes of sizes {sorted(sizes)}", "map at least one axis, all of one size")
    return sizes.pop()


def _chosen(devices: Sequence[Any], size: int) -> list[Any]:
    found = list(devices)
    if size > len(found):
        raise MeshError(f"pmap over an axis of size {size}, and there are {len(found)} devices", "map fewer at once")
    return found[:size]
