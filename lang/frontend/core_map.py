"""Bodies that run once on each core of a mesh, over unblocked operands in HBM: `core_map`, and `kernel`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...core.ir.types import MemorySpace
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError
from ..call.kernel_call import kernel_call
from ..kernel.block_spec import BlockSpec
from ..targets.tpu_info import CoreMesh
from ..warpgroups.specs import Mesh
from . import warpgroup_kernel


@public
def core_map(
    mesh: CoreMesh | int, *, out_shape: Any = None, **options: Any
) -> Callable[[Callable[..., None]], Callable[..., Any]]:
    """Decorator: run a body once on each core of a mesh, over unblocked operands in HBM.

    `body(*in_refs, *out_refs, *scratch_refs)` finds its core by `program_id(0)`, or by the name of the mesh's axis, and
    copies, or reads and writes, the parts of the operands that are that core's; each core has its own scratch. It is a
    `kernel_call` of a grid of cores, "core_parallel", whose `options` it takes. Raises what `kernel_call` raises, an
    `ArgumentError` without `out_shape`, and a target with fewer cores refuses.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import program_id
    >>> @core_map(CoreMesh(2), out_shape=tw.ShapeDtypeStruct((2, 4), "float32"))
    ... def double(x, o):
    ...     core = program_id(0)
    ...     o[core, :] = x[core, :] * 2
    >>> print(double(np.ones((2, 4), np.float32)))
    [[2. 2. 2. 2.]
     [2. 2. 2. 2.]]
    """
    if out_shape is None:
        raise ArgumentError("core_map without out_shape",
                            "say what the kernel gives; its body takes the Refs as parameters")  # fmt: skip
    mesh = CoreMesh(mesh) if isinstance(mesh, int) else mesh
    cores = mesh.count
    far = BlockSpec(memory_space=MemorySpace.ANY)
    semantics = ("core_parallel",) if cores > 1 else None
    given = {"in_specs": far, "out_specs": far, "dimension_semantics": semantics} | options

    def decorate(body: Callable[..., None]) -> Callable[..., Any]:
        @functools.wraps(body)
        def call(*args: Any) -> Any:
            specs = {k: pytree.map(lambda _, s=given[k]: s, v) if given[k] is far else given[k]
                     for k, v in (("in_specs", args), ("out_specs", out_shape))}  # fmt: skip
            return kernel_call(body, out_shape, grid=((mesh.axis_name, cores),), **given | specs)(*args)

        return call

    return decorate


@public
def kernel(
    body: Callable[..., None] | None = None, out_type: Any = None, *, mesh: Any = None, scratch_types: Any = (),
    **options: Any,
) -> Callable[..., Any]:  # fmt: skip
    """A kernel from its body; without a body, a decorator. With a `mesh` the body runs once on each of its places.

    A `CoreMesh` makes it a `core_map`, a mesh of warpgroups a `mosaic_gpu.kernel`; without one it is a `kernel_call`.
    `out_type` and `scratch_types` are their `out_shape` and `scratch_shapes`, `options` what else they take. Raises
    what these raise.

    >>> import numpy as np
    >>> from tilewright import lax
    >>> import tilewright as tw
    >>> @kernel(out_type=tw.ShapeDtypeStruct((2, 3), "int32"), mesh=CoreMesh(2, "half"))
    ... def triple(x, o):
    ...     half = lax.axis_index("half")
    ...     o[half, :] = x[half, :] * 3
    >>> print(triple(np.ones((2, 3), np.int32)))
    [[3 3 3]
     [3 3 3]]
    """
    if body is None:
        return lambda body: kernel(body, out_type, mesh=mesh, scratch_types=scratch_types, **options)
    if isinstance(mesh, Mesh):
        return warpgroup_kernel.kernel(body, out_type=out_type, mesh=mesh, scratch_types=scratch_types, **options)
    given = {"out_shape": out_type} | ({} if scratch_types == () else {"scratch_shapes": scratch_types}) | options
    return kernel_call(body, **given) if mesh is None else core_map(mesh, **given)(body)
