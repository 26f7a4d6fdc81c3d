"""Making kernels from kernels: new grids for old index maps, bodies traced from functions, unused parts dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...core.ir.array import DTypeLike
from ...core.ir.types import ArrayType, MemorySpace, RefType
from ...core.primitives.refs.ref_views import view, write
from ...core.tracing.trace import eval_program, trace_program
from ...core.transforms.rule_helpers import zeros
from ..analysis.dead_stores import drop_local_writes, drop_overwritten, read_late
from ..kernel.canonicalize import normalize
from ..kernel.kernel import ID, Block, Kernel, full_block, trace_map
from ..targets.compiler_params import stated
from .code_sinking import forwarded, sunk

Ids = Callable[[Sequence[Any]], Sequence[Any]]
Settings = tuple[tuple[str, Any], ...]
INHERITED = "inherited"  # the setting that says that the parameters are those of the kernel that it was made from


def carried(kernel: Kernel, ahead: int = 0) -> Settings:
    """The parameters that derived kernels inherit; `ahead` axes come before the grid's."""
    told = dict(kernel.settings)
    cores = tuple(a + ahead for a in told.get("core_axes", ()))
    given = {"compiler_params": told.get("compiler_params"), "core_axes": cores or None}
    return tuple((key, value) for key, value in given.items() if value is not None)


def backwards(kernel: Kernel, made: Kernel, parallel: Sequence[bool]) -> Kernel:
    """A backward kernel with its author's parameters: `backward` of the parameters, or the parameters themselves.

    `parallel` says of each axis whether its cells may run at the same time.
    """
    params = stated(kernel)
    own = params.backward if params else None
    chosen = own or params
    semantics = tuple("parallel" if p else "arbitrary" for p in parallel)
    settings: Settings = () if chosen is None else (("compiler_params", chosen),)
    aliased = frozenset(made.body.inputs[made.splits[1] + i] for i, _ in made.aliases)
    return made.replace(semantics=semantics, settings=settings if own else (*settings, (INHERITED, True)),
                        body=read_late(made.body, aliased))  # fmt: skip


def remap(block: Block, prefetch: Sequence[ArrayType], grid: Sequence[int], ids: Ids, **changes: Any) -> Block:
    """A block under another grid: `ids` gives the old ids from the new ones."""
    index_map = block.index_map
    if index_map is not None:
        old, n = index_map, len(grid)
        index_map = trace_map(grid, prefetch, lambda *args: eval_program(old, *ids(args[:n]), *args[n:]))
    return replace(block, index_map=index_map, **changes)


def grid_block(name: str, shape: Sequence[int], dtype: DTypeLike, axes: Sequence[int], grid: Sequence[int],
               prefetch: Sequence[ArrayType]) -> Block:  # fmt: skip
    """A separate block per cell of some grid axes: an array with those axes leading."""
    return for_each(full_block(name, ArrayType(tuple(shape), dtype)), axes, grid, prefetch)


def for_each(block: Block, axes: Sequence[int], grid: Sequence[int], prefetch: Sequence[ArrayType]) -> Block:
    """A block once for every cell of some grid axes: of an array with those axes leading."""
    index_map = trace_map(grid, prefetch, lambda *args: [*(args[a] for a in axes), *block.index(*args)])
    return block.stacked([grid[a] for a in axes], index_map)


def trace_kernel(like: Kernel, body: Callable[..., None], **changes: Any) -> Kernel:
    """A kernel with some fields of another, whose body is traced: `body(ids, prefetched, inputs, outputs, scratch)`.

    What that one says of its grid (semantics, extents) and of its scratch is left out, where it is not given again.
    """
    fresh = {"semantics": None, "settings": carried(like), "extents": (), "scratch_names": ()}
    made = like.replace(**fresh | {k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()})
    return with_body(made, body)


def with_body(kernel: Kernel, body: Callable[..., None]) -> Kernel:
    """The kernel with another body, traced from `body(ids, prefetched, inputs, outputs, scratch)`."""
    types = [ID] * len(kernel.grid) + [RefType(t, MemorySpace.SMEM) for t in kernel.prefetch]
    types += [b.ref_type for b in kernel.blocks] + list(kernel.scratch)

    def fun(*values: Any) -> list[Any]:
        body(*kernel.parts(values))
        return []

    return kernel.replace(body=normalize(trace_program(fun, types, kernel.name)))


def blank(*refs: Any) -> None:
    """Store zeros to the whole of each Ref."""
    for ref in refs:
        write(view(ref), zeros(ref.aval.array))


def prune(kernel: Kernel) -> tuple[Kernel, list[int]]:
    """A kernel without the inputs and scratch that its body does not use; gives which inputs are left."""
    _, first_in, first_out, first_scratch, end = kernel.splits
    local = kernel.body.inputs[first_scratch:end]
    body = drop_local_writes(forwarded(kernel.body, local), local)
    body = sunk(drop_overwritten(body, local, all(n == 1 for n in kernel.grid)))
    used = {a for e in body.eqns for a in e.inputs}
    aliased = {i for i, _ in kernel.aliases}
    kept = [i for i in range(len(kernel.inputs)) if i in aliased or body.inputs[first_in + i] in used]
    scratch = [i for i in range(len(kernel.scratch)) if body.inputs[first_scratch + i] in used]
    variables = body.inputs
    inputs = [
        *variables[:first_in], *(variables[first_in + i] for i in kept), *variables[first_out:first_scratch],
        *(variables[first_scratch + i] for i in scratch),
    ]  # fmt: skip
    number = {i: k for k, i in enumerate(kept)}
    smaller = kernel.replace(
        inputs=tuple(kernel.inputs[i] for i in kept), scratch=tuple(kernel.scratch[i] for i in scratch),
        body=body.replace(inputs=inputs),
        aliases=tuple((number[i], o) for i, o in kernel.aliases),
    )  # fmt: skip
    return smaller, kept
