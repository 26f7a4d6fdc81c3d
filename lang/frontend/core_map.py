"""Bodies that run once on each core of a mesh, over unblocked operands in HBM: `core_map`, and `kernel`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
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
from .mutable_arrays import Ref


@public
def core_map(mesh: CoreMesh | int, *, out_shape: Any = None, **options: Any) -> Callable[[Callable[..., None]], Any]:
    """Decorator: run a body once on each core of a mesh, over unblocked operands in HBM.

    `body(*in_refs, *out_refs, *scratch_refs)` finds its core by `program_id(0)`, or by the name of the mesh's axis, and
    copies, or reads and writes, the parts of the operands that are that core's; each core has its own scratch. It is a
    `kernel_call` of a grid of cores, "core_parallel", whose `options` it takes. Without `out_shape` the body runs at
    once, and its operands are the Refs of `new_ref` that it closes over, which it may write. Raises what `kernel_call`
    raises, and a target with fewer cores refuses.

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
    mesh = CoreMesh(mesh) if isinstance(mesh, int) else mesh
    if out_shape is None:
        return lambda body: _run_on_refs(body, mesh, options)
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


def _run_on_refs(body: Callable[..., None], mesh: CoreMesh, options: dict[str, Any]) -> None:
    """Run a body on the cores of a mesh, over the memory of the Refs that it closes over."""
    refs = list({id(ref): ref for ref in _closed_over(body)}.values())
    if not refs:
        raise ArgumentError("core_map without out_shape, of a body that closes over no Ref",
                            "say what the kernel gives, or make Refs of its operands and results")  # fmt: skip
    n = len(refs)

    def over_outputs(*args: Any) -> None:  # which are the inputs' memory
        for ref, output in zip(refs, args[n : 2 * n], strict=True):
            ref.stand_in = output
        try:
            body(*args[2 * n :])
        finally:
            for ref in refs:
                ref.stand_in = None

    values = [ref[...] for ref in refs]
    call = core_map(mesh, out_shape=values, input_output_aliases={i: i for i in range(n)}, **options)(over_outputs)
    for ref, value in zip(refs, call(*values), strict=True):
        ref[...] = value


def _closed_over(value: Any, seen: set[int] | None = None) -> Iterator[Ref]:
    """The Refs outside of kernels that a function closes over, itself or by functions, partials and pytrees."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, functools.partial):
        yield from _closed_over((value.func, value.args, value.keywords), seen)
    elif isinstance(value, FunctionType):
        closed = inspect.getclosurevars(value)
        found = [x for x in closed.globals.values() if isinstance(x, Ref | FunctionType)]
        for inner in (*closed.nonlocals.values(), *found, *(value.__defaults__ or ())):
            yield from _closed_over(inner, seen)
    elif isinstance(value, tuple | list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _closed_over(inner, seen)


@public
def kernel(
    body: Callable[..., None] | None = None, out_type: Any = None, *, mesh: Any = None,
    scratch_types: Any = (), **options: Any,
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
