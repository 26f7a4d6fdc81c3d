"""`pmap`: a function mapped over an axis of its arguments, each element on a device of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ..core.jit.jit import jit
from ..core.jit.stages import Wrapped
from ..core.primitives.movement.shape import expand_dims, squeeze
from ..core.sharding.mesh import Mesh, PartitionSpec
from ..core.sharding.shard_map import shard_map
from ..core.support import pytree as tree
from ..core.support.errors import ArgumentError, BatchAxisError, MeshError, TreeError, UnsupportedError, plural
from ..core.support.runtime import runtime
from ..core.tracing.trace import Tracer, shape_of
from ..devices import devices as all_devices
from .host_local import global_array_to_host_local_array, host_local_array_to_global_array, is_global

UNNAMED = "pmap"


def pmap[**P, R](
    fun: Callable[P, R], axis_name: Hashable | None = None, *, in_axes: Any = 0, out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Any] | None = None,
    backend: str | None = None, axis_size: int | None = None, donate_argnums: int | Sequence[int] = (),
) -> Wrapped[P, R]:  # fmt: skip
    """A compiled function that maps `fun` over an axis of its arguments, each element on a device of its own.

    The axis is as long as there are devices to use, of `devices` or of the platform `backend`; `in_axes` and `out_axes`
    are as those of `vmap`, and `axis_name` names the axis for collectives. It is `shard_map` over a mesh of one axis,
    which says more, and is for new code.

    With several processes each passes the elements for its own devices, and gets their results: the axis is as long as
    these together, in the order of the processes. Arguments that are not mapped must be equal in all.

    Raises:
      ArgumentError: both `devices` and `backend`.
      BatchAxisError: mapped axes of unequal size, none at all.
      MeshError: fewer devices than the axis is long.
      UnsupportedError: with several processes, a call within a transformation or a traced function.

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

    def parted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[int, Any], list[Any], Any, list[Any]]:
        """The static arguments, the leaves of the others, their structure, and the mapped axis of each leaf."""
        fixed = {i % len(args): args[i % len(args)] for i in static if -len(args) <= i < len(args)}
        moving = tuple(a for i, a in enumerate(args) if i not in fixed)
        axes = in_axes
        if isinstance(in_axes, (tuple, list)):
            axes = tuple(a for i, a in enumerate(in_axes) if i not in fixed)
        leaves, in_tree = tree.flatten((moving, kwargs))
        places = _places((axes, 0), (moving, kwargs), "in_axes")  # those by keyword are mapped along their first axis
        dims = [None if a is None else _dim(a, shape_of(x)) for a, x in zip(places, leaves, strict=True)]
        return fixed, leaves, in_tree, dims

    def mesh_of(size: int) -> Mesh:
        return Mesh(_chosen(all_devices(backend) if devices is None else devices, size, devices is None), (name,))

    def run(*args: Any, **kwargs: Any) -> Any:
        fixed, leaves, in_tree, dims = parted(args, kwargs)
        mesh = mesh_of(_size(leaves, dims, axis_size))
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

    compiled: Any = functools.wraps(fun)(jit(run, static_argnums=static or None, donate_argnums=donate_argnums or None))

    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        if runtime.process_count == 1:
            return compiled(*args, **kwargs)
        fixed, leaves, in_tree, dims = parted(args, kwargs)
        if any(isinstance(x, Tracer) for x in leaves):
            raise UnsupportedError("pmap of several processes within a transformation or a traced function",
                                   "use `shard_map` over a mesh of all devices, or transform the mapped function")
        local = {shape_of(x)[d] for x, d in zip(leaves, dims, strict=True) if d is not None and not is_global(x)}
        mesh = mesh_of(_global_size(local, axis_size, devices))
        leaves = [x if d is None else host_local_array_to_global_array(x, mesh, _spec(d, name))
                  for x, d in zip(leaves, dims, strict=True)]  # fmt: skip
        positional, named = in_tree.unflatten(leaves)
        given = iter(positional)
        outs = compiled(*[fixed[i] if i in fixed else next(given) for i in range(len(args))], **named)
        return tree.map(lambda x: global_array_to_host_local_array(x, mesh, x.sharding.spec), outs)

    made: Any = call
    return made


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


def _global_size(local: set[int], given: int | None, devices: Sequence[Any] | None) -> int:
    """The length of the axis over all processes, of which each passes `local` elements."""
    if len(local) > 1 or not local and given is None:
        raise BatchAxisError(f"pmap over axes of sizes {sorted(local)}", "map at least one axis, all of one size")
    if not local:
        return given or 0
    count = runtime.process_count if devices is None else len({d.process_index for d in devices})
    mine = local.pop()
    size = count * mine
    if given not in (None, size):
        what = f"pmap with axis_size={given} of {mine} elements in each of {plural(count, 'process')}"
        raise BatchAxisError(what, f"the axis is {size} long")
    return size


def _chosen(devices: Sequence[Any], size: int, shared: bool) -> list[Any]:
    """The first devices, or as many of each process where these share the axis."""
    found = list(devices)
    if size > len(found):
        raise MeshError(f"pmap over an axis of size {size}, and there are {plural(len(found), 'device')}",
                        "map fewer at once")  # fmt: skip
    if not shared or runtime.process_count == 1:
        return found[:size]
    share, rest = divmod(size, runtime.process_count)
    each = [[d for d in found if d.process_index == p][:share] for p in range(runtime.process_count)]
    if rest or any(len(ds) < share for ds in each):
        raise MeshError(f"pmap over an axis of size {size} in {len(each)} processes of {len(found)} devices",
                        "pass as many elements in each process, at most one for each of its devices")  # fmt: skip
    return [d for ds in each for d in ds]
