"""Pipelines of a kernel for warpgroups: blocks of operands are copied to shared memory some steps ahead.

`emit_pipeline` copies and computes in one warpgroup; `emit_pipeline_warp_specialized` has one that copies, by itself,
and others that compute. Stage `t % stages` holds the blocks of step t. A barrier per stage signals that its blocks
have arrived; where warpgroups are specialised, another signals that all have used them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array, ArrayLike
from ...core.ir.types import RefType
from ...core.primitives.control_flow.while_loop import fori_loop
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.ref_indexing import dslice
from ...core.primitives.spmd.collective import axis_index
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, BlockRankError, UnsupportedError
from ...core.tracing.trace import typeof
from ..kernel.block_spec import BlockAxis, BlockSpec, BoundedSlice, block_index, no_block_spec
from ..ops.basic import unravel, when
from ..ops.run_scoped import allocate
from .barriers import barrier_arrive, barrier_wait, set_max_registers
from .common import GLOBAL, thread_cell
from .specs import SMEM, Barrier, ClusterBarrier
from .specs import MemorySpace as Spaces
from .transfers import commit_smem, copy_gmem_to_smem, copy_smem_to_gmem, wait_smem_to_gmem

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef
    from ...core.support.pytree import PyTree

_FAR = (*GLOBAL, Spaces.GMEM)


class _Operand:
    """One Ref of a pipeline, its spec, and the stages that hold its blocks."""

    buffers: Any = None

    def __init__(
        self, what: str, number: int, ref: AnyRef, spec: BlockSpec | None, stages: int, rank: int,
        out: bool,
    ):  # fmt: skip
        self.ref, self.spec = refs.view(ref), spec or no_block_spec
        shape = self.ref.shape
        given = tuple(shape if self.spec.block_shape is None else self.spec.block_shape)
        self.where = f"{what}: operand {number} of shape {shape}"
        if len(given) != len(shape):
            raise BlockRankError(f"{self.where}: its block shape is {given}", "give one entry per axis of the operand")
        if any(isinstance(s, BoundedSlice) for s in given):
            raise UnsupportedError(f"{self.where}: its block shape {given} has a BoundedSlice",
                                   "blocks of a pipeline of warpgroups have one size")  # fmt: skip
        self.cut = list(map(BlockAxis.of, given))
        self.delay = getattr(self.spec, "delay_release", 0)
        if self.delay >= stages and not out:
            raise ArgumentError(f"{self.where}: delay_release is {self.delay}, of {stages} stages",
                                "give more `max_concurrent_steps`")  # fmt: skip
        self.axes = getattr(self.spec, "collective_axes", None)  # along which blocks read the same
        self.far = self.spec.memory_space in _FAR
        self.fixed = out and self._same(rank)
        self.stages = 1 if self.fixed else stages
        self.memory = SMEM((self.stages, *(a.size for a in self.cut if not a.squeezed)), self.ref.dtype)

    def index(self, ids: Sequence[Any]) -> list[Any]:
        return block_index(self.spec, ids, len(self.cut), self.where)

    def _same(self, rank: int) -> bool:
        """Whether all steps surely have the same block."""
        first = self.index([np.int32(0)] * rank)
        for axis in range(rank):
            for a, b in zip(first, self.index([np.int32(a == axis) for a in range(rank)]), strict=True):
                if not (a is b or isinstance(a, np.integer) and isinstance(b, np.integer) and a == b):
                    return False
        return True

    def part(self, ids: Sequence[Any]) -> Any:
        """The block of a step in global memory."""
        entries = []
        for i, axis in zip(self.index(ids), self.cut, strict=True):
            start = i if axis.element else i * np.int32(axis.size)
            entries.append(start if axis.squeezed else dslice(start, axis.size))
        return refs.view(self.ref, tuple(entries))

    def block(self, step: ArrayLike, ids: Sequence[Any]) -> Any:
        """The block of a step as the body sees it."""
        if self.far:
            return self.part(ids)
        return refs.view(self.buffers, 0 if self.stages == 1 else step % np.int32(self.stages))


class _Pipeline:
    """The operands of a pipeline, and its barriers."""

    full: Sequence[Any] = ()
    empty: Sequence[Any] = ()
    meeting: Any = None

    def __init__(
        self, what: str, args: Sequence[Any], grid: Sequence[Any], in_specs: Sequence[Any], out_specs: Sequence[Any],
        stages: int, users: int = 0, apart: bool = False,
    ):  # fmt: skip
        ins, outs = list(in_specs), list(out_specs)
        if len(args) != len(ins) + len(outs):
            raise ArgumentError(f"{what}: {len(args)} Refs for {len(ins)} in_specs and {len(outs)} out_specs",
                                "give one Ref per spec")  # fmt: skip
        if not isinstance(stages, int) or stages < 1:
            raise ArgumentError(f"{what}: max_concurrent_steps is {stages!r}", "give 1 or more")
        self.what, self.grid, self.stages = what, tuple(grid), stages
        made = [_Operand(what, n, ref, spec, stages, len(self.grid), n >= len(ins))
                for n, (ref, spec) in enumerate(zip(args, [*ins, *outs], strict=True))]  # fmt: skip
        self.inputs, self.outputs = made[: len(ins)], made[len(ins) :]
        self.copied = [o for o in self.inputs if not o.far]
        self.stored = [o for o in self.outputs if not o.far]
        self.delay = max([o.delay for o in self.copied], default=0)
        self.total: Any = 1
        for n in self.grid:
            self.total = self.total * n
        # The inputs that share a barrier: all, or each its own.
        self.groups = [[o] for o in self.copied] if apart else [self.copied] if self.copied else []
        self.users = users  # warpgroups that compute, beside one that copies

    def needs(self) -> dict[str, Any]:
        """The memory and the barriers of the pipeline."""
        users = range(len(self.groups) if self.users else 0)
        return {
            "buffers": [o.memory for o in (*self.copied, *self.stored)],
            "full": [Barrier(num_arrivals=len(g), num_barriers=self.stages) for g in self.groups],
            "empty": [self._freed(self.groups[n]) for n in users],
            "meeting": Barrier(num_arrivals=self.users) if self.users and self.stored else None,
        }

    def _freed(self, group: Sequence[_Operand]) -> Barrier:
        """The barriers that tell that all have used the blocks of some operands, in every block that is copied to."""
        names = [n for o in group if o.axes for n in (o.axes if isinstance(o.axes, (tuple, list)) else (o.axes,))]
        given: dict[str, Any] = {"num_arrivals": self.users, "num_barriers": self.stages}
        return ClusterBarrier(collective_axes=tuple(dict.fromkeys(names)), **given) if names else Barrier(**given)

    def take(self, given: Any, axes: str | Sequence[str]) -> None:
        """Use memory and barriers that were given, or new ones."""
        found = given or pytree.map(lambda one: allocate(self.what, one, axes), self.needs(),
                                  is_leaf=lambda x: hasattr(x, "shape"))  # fmt: skip
        for operand, buffers in zip((*self.copied, *self.stored), found["buffers"], strict=True):
            operand.buffers = buffers
        self.full, self.empty, self.meeting = found["full"], found["empty"], found["meeting"]

    def ids(self, step: ArrayLike) -> tuple[Any, ...]:
        found = unravel(step, range(len(self.grid)), self.grid)
        return tuple(found[axis] for axis in range(len(self.grid)))

    def stage(self, step: ArrayLike) -> Any:
        return step % np.int32(self.stages)

    def load(self, step: ArrayLike) -> None:
        """Start the copies of a step's blocks."""
        ids, stage = self.ids(step), self.stage(step)
        for group, full in zip(self.groups, self.full, strict=True):
            for operand in group:
                copy_gmem_to_smem(operand.part(ids), operand.block(step, ids), refs.view(full, stage),
                                  collective_axes=operand.axes)  # fmt: skip

    def wait(self, step: Array) -> None:
        for full in self.full:
            barrier_wait(refs.view(full, self.stage(step)))

    def blocks(self, step: Array, ids: Sequence[Any]) -> list[Any]:
        return [o.block(step, ids) for o in (*self.inputs, *self.outputs)]

    def store(self, step: ArrayLike, ids: Sequence[Any], fixed: bool) -> None:
        """Start the copies of results, as one group."""
        stored = [o for o in self.stored if o.fixed is fixed]
        for n, operand in enumerate(stored, 1):
            copy_smem_to_gmem(operand.block(step, ids), operand.part(ids), commit_group=n == len(stored))

    @property
    def moving(self) -> bool:
        """Whether results are stored step by step."""
        return any(not o.fixed for o in self.stored)


@dataclass(frozen=True)
class Pipeline:
    """What `emit_pipeline` gives: call it with Refs in GMEM, inputs first.

    `get_allocations` gives the scratch that it needs for such Refs, for a `run_scoped` around loops that call it with
    `allocations=`; otherwise it allocates its own scratch.
    """

    make: Callable[[Sequence[Any]], _Pipeline]
    run: Callable[[_Pipeline], Any]
    axes: Any = ()

    def get_allocations(self, *refs: Any) -> Any:
        """The memory and barriers that a call needs, a pytree as `run_scoped` takes it."""
        return self.make(refs).needs()

    def __call__(self, *refs: Any, allocations: Any = None) -> Any:
        made = self.make(refs)
        made.take(allocations, self.axes)
        return self.run(made)


def _grid(what: str, grid: Sequence[int]) -> tuple[Any, ...]:
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    for n in sizes:
        if not isinstance(n, (int, np.integer)) and typeof(n).shape:
            raise ArgumentError(f"{what}: the grid is {sizes}", "give integers")
    return sizes


@public
def emit_pipeline(
    body: Callable[..., Any], *, grid: Sequence[Any], in_specs: Sequence[BlockSpec] = (),
    out_specs: Sequence[BlockSpec] = (), max_concurrent_steps: int = 1, init_carry: Any = None,
) -> Pipeline:  # fmt: skip
    """A function of Refs in GMEM that runs `body` over a grid of their blocks, which are copied through SMEM.

    `body(indices, *in_blocks, *out_blocks)` sees blocks in shared memory; with `init_carry` it takes the carry last and
    gives the next one, and the function gives the last. `max_concurrent_steps` blocks of each operand are buffered.
    A result's block whose index map gives the same for all steps stays in shared memory to the end. Raises an
    `ArgumentError` in kernels of several warpgroups, and for numbers of Refs or stages that do not fit.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def double(x, o):
    ...     def step(indices, x_block, o_block):
    ...         o_block[...] = x_block[...] * 2
    ...     row = plgpu.BlockSpec((1, 4), lambda i: (i, 0))
    ...     plgpu.emit_pipeline(step, grid=(3,), in_specs=[row], out_specs=[row], max_concurrent_steps=2)(x, o)
    >>> call = plgpu.kernel(double, out_type=tw.ShapeDtypeStruct((3, 4), "float32"), interpret=True)
    >>> call(np.ones((3, 4), "float32"))[2].tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    sizes = _grid("emit_pipeline", grid)

    def make(args: Sequence[Any]) -> _Pipeline:
        mesh = thread_cell("emit_pipeline").made["mesh"].mesh
        if mesh.threads > 1:
            raise ArgumentError(f"emit_pipeline in a kernel of {mesh.threads} warpgroups",
                                "use `emit_pipeline_warp_specialized`")  # fmt: skip
        if any(getattr(spec, "collective_axes", None) for spec in in_specs):
            raise ArgumentError("emit_pipeline with collective_axes, whose blocks do not wait for each other",
                                "use `emit_pipeline_warp_specialized`")  # fmt: skip
        return _Pipeline("emit_pipeline", args, sizes, in_specs, out_specs, max_concurrent_steps)

    def run(p: _Pipeline) -> Any:
        stages, ahead, carried = np.int32(p.stages), p.stages - p.delay, init_carry is not None
        start, back, out = _without_refs(init_carry if carried else ())

        def step(t: Array, values: Sequence[Any]) -> Any:
            ids = p.ids(t)
            p.wait(t)
            if p.moving:
                when(t >= stages)(lambda: wait_smem_to_gmem(p.stages - 1, wait_read_only=True))
            carry = body(ids, *p.blocks(t, ids), *((back(values),) if carried else ()))
            if p.moving:
                commit_smem()
                p.store(t, ids, False)
            if p.copied:
                next_ = t + np.int32(ahead)
                when((t >= np.int32(p.delay)) & (next_ < p.total))(lambda: p.load(next_))
            return out(carry) if carried else ()

        for n in range(p.stages if p.copied else 0):
            when(n < p.total)(lambda n=n: p.load(np.int32(n)))
        values = fori_loop(0, p.total, step, start)
        _last(p)
        return back(values) if carried else None

    return Pipeline(make, run)


def _without_refs(start: Sequence[Any]) -> tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]:
    """A carry without its Refs, which stay what they are; what puts them back, and what takes them out."""
    leaves, structure = pytree.flatten(start)
    fixed = [isinstance(getattr(x, "aval", None), RefType) for x in leaves]

    def out(carry: PyTree) -> tuple[Any, ...]:
        return tuple(x for x, f in zip(pytree.leaves(carry), fixed, strict=True) if not f)

    def back(values: Sequence[Any]) -> Any:
        given = iter(values)
        return structure.unflatten([x if f else next(given) for x, f in zip(leaves, fixed, strict=True)])

    return out(start), back, out


def _last(p: _Pipeline) -> None:
    """Store the results that stayed, and wait for all."""
    if any(o.fixed for o in p.stored):
        commit_smem()
        p.store(np.int32(0), p.ids(np.int32(0)), True)
    if p.stored:
        wait_smem_to_gmem(0)


@public
def emit_pipeline_warp_specialized(
    body: Callable[..., Any], *, grid: Sequence[Any], memory_registers: int, in_specs: Sequence[BlockSpec] = (),
    out_specs: Sequence[BlockSpec] = (), max_concurrent_steps: int = 2, wg_axis: str, num_compute_wgs: int,
    pipeline_state: Any = None, manual_produced_barriers: bool = False, manual_consumed_barriers: bool = False,
    compute_context: Callable[..., None] | None = None, memory_thread_idx: int | None = None,
) -> Pipeline:  # fmt: skip
    """As `emit_pipeline`, with a warpgroup that copies (the last, or `memory_thread_idx`) and others that compute.

    `body(indices, *in_blocks, *out_blocks)` runs on each of `num_compute_wgs` warpgroups along `wg_axis`. Results of
    a step are stored when all have left its body. `compute_context(pipeline)` runs on these, and calls
    `pipeline(carry)` once: then `body` takes the carry last and gives the next. With `manual_produced_barriers` the
    body is given a barrier of each input's arrival, after the blocks, to wait at; with `manual_consumed_barriers` one
    at which it arrives when it has used an input (with `delay_release`, that of so many steps before, from then on).
    `memory_registers` is for each thread of the warpgroup that copies.
    Raises an `ArgumentError` for a mesh of another number of warpgroups.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def double(x, o):
    ...     def step(indices, x_block, o_block):  # on warpgroups 0 and 1, each of which computes two columns
    ...         mine = (0, tl.ds(2 * lax.axis_index("wg"), 2))
    ...         o_block[mine] = x_block[mine] * 2
    ...     row = plgpu.BlockSpec((1, 4), lambda i: (i, 0))
    ...     run = plgpu.emit_pipeline_warp_specialized(
    ...         step, grid=(3,), in_specs=[row], out_specs=[row], wg_axis="wg", num_compute_wgs=2, memory_registers=40)
    ...     run(x, o)
    >>> call = plgpu.kernel(double, out_type=tw.ShapeDtypeStruct((3, 4), "float32"), interpret=True,
    ...                     num_threads=3, thread_name="wg")
    >>> call(np.ones((3, 4), "float32"))[2].tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    what, sizes = "emit_pipeline_warp_specialized", _grid("emit_pipeline_warp_specialized", grid)
    if pipeline_state is not None:
        raise ArgumentError(f"{what} with pipeline_state", "call the pipeline as a whole")

    producer = num_compute_wgs if memory_thread_idx is None else memory_thread_idx

    def make(args: Sequence[Any]) -> _Pipeline:
        mesh = thread_cell(what).made["mesh"].mesh
        if wg_axis != mesh.thread_name or mesh.threads != num_compute_wgs + 1 or not 0 <= producer < mesh.threads:
            raise ArgumentError(
                f"{what}: {num_compute_wgs} warpgroups along {wg_axis!r} compute, in a kernel of {mesh.threads} along "
                f"{mesh.thread_name!r}", "give the mesh one more, which copies")  # fmt: skip
        apart = manual_produced_barriers or manual_consumed_barriers
        return _Pipeline(what, args, sizes, in_specs, out_specs, max_concurrent_steps, num_compute_wgs, apart)

    roles = _Roles(body, wg_axis, producer, num_compute_wgs, memory_registers, manual_produced_barriers,
                   manual_consumed_barriers, compute_context)  # fmt: skip
    return Pipeline(make, roles.run, wg_axis)


@dataclass(frozen=True)
class _Roles:
    """The bodies of the copying warpgroup (`producer`) and the computing `workers`; the rest is unchanged."""

    body: Callable[..., Any]
    axis: Any
    producer: int
    workers: int
    registers: int
    produced: bool
    consumed: bool
    context: Callable[..., None] | None

    def run(self, p: _Pipeline) -> None:
        place = axis_index(self.axis)
        when(place == self.producer)(lambda: self.copy(p))
        when(place != self.producer)(lambda: self.work(p, place == (1 if self.producer == 0 else 0)))

    def copy(self, p: _Pipeline) -> None:
        """Load the blocks of each step, once there is room for them."""
        set_max_registers(self.registers, action="decrease")

        def freed(t: ArrayLike) -> None:
            for empty in p.empty:
                barrier_wait(refs.view(empty, p.stage(t)))

        def step(t: Array, carry: PyTree) -> Any:
            when(t >= np.int32(p.stages))(lambda: freed(t))
            p.load(t)
            return carry

        if p.copied:
            fori_loop(0, p.total, step, ())
            for n in range(p.stages):  # so that the barriers return to their initial phase
                when(n < p.total)(lambda n=n: freed(np.int32(n)))

    def work(self, p: _Pipeline, leader: Array) -> None:
        """Compute on the blocks of all steps; the leader stores what comes of it."""
        more = (512 - self.registers) // self.workers // 8 * 8
        set_max_registers(min(more, 240), action="increase")

        def compute(*given: Any) -> Any:
            start, back, out = _without_refs(given)

            def step(t: Array, values: Sequence[Any]) -> Any:
                carry = self.step(p, leader, t, back(values))
                return out((carry,)) if given else ()

            values = fori_loop(0, p.total, step, start)
            for n in range(p.delay, 0, -1):
                when(n <= p.total)(lambda n=n: _used(p, p.total - np.int32(n)))
            if any(o.fixed for o in p.stored):
                commit_smem()
                _meet(p)
            when(leader)(lambda: _last(p))
            return back(values)[0] if given else None

        compute() if self.context is None else self.context(compute)

    def step(self, p: _Pipeline, leader: Array, t: Array, held: Sequence[Any]) -> Any:
        """The body on the blocks of a step; gives what it carries."""
        ids, stage = p.ids(t), p.stage(t)
        if not self.produced:
            p.wait(t)
        if p.moving:

            @when(t >= np.int32(p.stages))
            def _() -> None:
                when(leader)(lambda: wait_smem_to_gmem(p.stages - 1, wait_read_only=True))
                _meet(p)

        told = [refs.view(b, stage) for b in (p.full if self.produced else ())]
        told += [refs.view(b, p.stage(t + np.int32(p.stages - p.delay))) for b in (p.empty if self.consumed else ())]
        carry = self.body(ids, *p.blocks(t, ids), *told, *held)
        if p.moving:
            commit_smem()
            _meet(p)
            when(leader)(lambda: p.store(t, ids, False))
        if not self.consumed:
            when(t >= np.int32(p.delay))(lambda: _used(p, t - np.int32(p.delay)))
        return carry


def _used(p: _Pipeline, t: Array) -> None:
    """Say that the blocks of a step may be overwritten."""
    for empty in p.empty:
        barrier_arrive(refs.view(empty, p.stage(t)))


def _meet(p: _Pipeline) -> None:
    """Wait until all that compute are here."""
    barrier_arrive(p.meeting)
    barrier_wait(p.meeting)
