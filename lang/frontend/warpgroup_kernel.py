"""`kernel` of Mosaic GPU: a body that every warpgroup of every block runs, over whole operands in global memory."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.types import MemorySpace
from ...core.support import pytree
from ...core.support.errors import ArgumentError, KernelBodyError
from ...core.tracing.trace import extended_axes
from ..call.kernel_call import kernel_call
from ..kernel.block_spec import BlockSpec
from ..ops.basic import current_cell
from ..ops.run_scoped import undefine_p
from ..warpgroups.barriers import define
from ..warpgroups.specs import Barrier, Mesh, MeshSpec

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef

_FAR = BlockSpec(memory_space=MemorySpace.HBM)


class _Scope:
    """What a body of a mesh allocates."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh

    def allocated(self, what: str, scratch: Any, ref: AnyRef, axes: str | Sequence[str] | None) -> None:
        """A Ref is made: a barrier learns its arrivals, an accumulator is zeros."""
        if ref.aval.space is MemorySpace.REGS:
            undefine_p.bind(ref, zero=True)
            return
        named = axes if isinstance(axes, (tuple, list)) else (axes,)
        if self.mesh.threads > 1 and self.mesh.thread_name not in named:
            raise KernelBodyError(
                f"{what} of {ref.aval.show()} in a kernel of {self.mesh.threads} warpgroups, which share memory",
                f"say that they do: `run_scoped(..., collective_axes={self.mesh.thread_name!r})`")  # fmt: skip
        if isinstance(scratch, Barrier):
            define(ref, scratch)


def kernel(
    body: Callable[..., None] | None = None, *, out_type: Any = None, scratch_types: Any = (),
    out_shape: Any = None, scratch_shapes: Any = (), compiler_params: Any = None, grid: Sequence[Any] = (),
    grid_names: Sequence[str] = (), cluster: Sequence[int] = (), cluster_names: Sequence[str] = (),
    num_threads: int | None = None, thread_name: str | None = None, mesh: Mesh | None = None, interpret: Any = False,
    name: str | None = None, debug: bool = False, cost_estimate: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function of arrays that runs `body` once on each of `num_threads` warpgroups of every block of a grid.

    `body(*in_refs, *out_refs, *scratch_refs)` sees whole operands and outputs in global memory (GMEM); `out_type` is a
    pytree of `ShapeDtypeStruct` (also as `out_shape`), `scratch_types` one of memory and barriers that the warpgroups
    of a block share (also as `scratch_shapes`; a dict is given by name). A body finds its place by
    `lax.axis_index(name)`, for names of `grid_names` and `thread_name`. Without `body` it is a decorator. Compiled it
    runs on Hopper and Blackwell GPUs; with `interpret=True` anywhere, with races and deadlocks found and named.

    Blocks of one `cluster` reach each other's shared memory. Raises what `kernel_call` raises, an `ArgumentError` for a
    mesh that is no mesh, and an `UnsupportedError` for clusters of more than 8 blocks and devices without warpgroups.

    >>> import numpy as np
    >>> from tilewright import lax
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def double(x, o, tile, arrived):
    ...     i = lax.axis_index("i")
    ...     plgpu.copy_gmem_to_smem(x.at[i], tile, arrived)
    ...     plgpu.barrier_wait(arrived)
    ...     o[i, :] = tile[...] * 2
    >>> scratch = [plgpu.SMEM((4,), "float32"), plgpu.Barrier()]
    >>> call = kernel(double, out_type=tw.ShapeDtypeStruct((2, 4), "float32"), scratch_types=scratch, grid=(2,),
    ...               grid_names=("i",), interpret=True)
    >>> print(np.asarray(call(np.ones((2, 4), np.float32))))
    [[2. 2. 2. 2.]
     [2. 2. 2. 2.]]
    """
    given = {"compiler_params": compiler_params, "interpret": interpret, "name": name, "debug": debug,
             "cost_estimate": cost_estimate}  # fmt: skip
    if mesh is None:
        mesh = Mesh(grid=grid, grid_names=grid_names, cluster=cluster, cluster_names=cluster_names,
                    num_threads=num_threads, thread_name=thread_name)  # fmt: skip
    elif grid or cluster or num_threads:
        raise ArgumentError("kernel is given a mesh, and also a grid or warpgroups", "give one or the others")
    if out_type is None:
        out_type = out_shape
    if out_type is None:
        raise ArgumentError("kernel without out_type", "say what it gives: `out_type=ShapeDtypeStruct(...)`")
    scratch = scratch_types if scratch_shapes == () else scratch_shapes
    if body is None:
        return lambda body: _made(body, mesh, out_type, scratch, given)
    return _made(body, mesh, out_type, scratch, given)


def _without_none(
    body: Callable[..., None], out_type: Sequence[Any], scratch: Sequence[Any]
) -> tuple[Callable[..., None], Any]:
    """A body, and the results it has, without those that are None, which it is given as None."""
    types, structure = pytree.flatten(out_type)
    after = 0 if isinstance(scratch, dict) else len(scratch) if isinstance(scratch, (tuple, list)) else 1

    def within(*refs: Any, **keywords: Any) -> None:
        end = len(refs) - after
        outs = structure.unflatten(refs[end - len(types) : end])
        outs = outs if isinstance(outs, (tuple, list)) else (outs,)
        body(*refs[: end - len(types)], *outs, *refs[end:], **keywords)

    within.__name__ = getattr(body, "__name__", "kernel")
    return within, types


def _made(body: Callable[..., None], mesh: Mesh, out_type: Any, scratch: Sequence[Any], given: dict[str, Any]) -> Any:
    if any(x is None for x in pytree.leaves(out_type, is_leaf=lambda x: x is None)):
        inner, types = _without_none(body, out_type, scratch)
        run = _made(inner, mesh, types, scratch, given)
        return functools.wraps(body)(lambda *args: pytree.structure(out_type).unflatten(run(*args)))
    leaves = pytree.leaves(scratch, is_leaf=lambda x: hasattr(x, "shape"))
    count = len(scratch) if isinstance(scratch, (tuple, list)) else 1

    @functools.wraps(body)
    def within(*refs: Any, **keywords: Any) -> None:
        cell = current_cell("kernel")
        scope = cell.made["mesh"] = _Scope(mesh)
        own = keywords or list(refs[len(refs) - count :])
        for leaf, ref in zip(leaves, pytree.leaves(own), strict=True):
            scope.allocated("kernel", leaf, ref, mesh.thread_name)
        with contextlib.ExitStack() as stack:
            for label, size, place in zip(mesh.names, mesh.sizes, cell.ids, strict=False):
                stack.enter_context(extended_axes(label, size, lambda place=place: place))
            body(*refs, **keywords)

    @functools.wraps(body)
    def call(*args: Any) -> Any:
        specs = [pytree.map(lambda _: _FAR, x) for x in (args, out_type)]
        spec = MeshSpec(mesh.sizes, specs[0], specs[1], scratch, mesh=mesh)
        return kernel_call(within, out_type, grid_spec=spec, **given)(*args)

    return call
