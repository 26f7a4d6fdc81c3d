"""The variants of a kernel for a TPU: explicit copies between HBM and VMEM, or direct accesses.

Direct accesses are to VMEM or, where the operands do not fit there, to HBM through the tiles around them.
"""

from __future__ import annotations

from ..core.ir.program import Program, Var
from ..core.ir.types import FAR
from ..lang.kernel.kernel import Kernel, full_block
from ..lang.legalize import KernelPass, KernelPasses
from ..lang.ops.dma import dma_start_p, dma_wait_p, semaphore_read_p, semaphore_signal_p, semaphore_wait_p
from ..lang.targets.target import Target
from ..lang.transforms.desugar import desugared, uses
from ..lang.transforms.dynamic_grid import by_ids, guarded
from ..lang.verify.communication import COMMUNICATION, communicates
from .contiguous_indices import with_spans
from .transpose_lanes import transpose_lanes
from .whole_ref_accesses import on_entire_refs

COPIES = frozenset({dma_start_p, dma_wait_p, semaphore_signal_p, semaphore_wait_p, semaphore_read_p}) | COMMUNICATION


def hbm_bytes(kernel: Kernel) -> int:
    """The bytes of its operands and results in HBM."""
    return sum(b.array.nbytes for b in kernel.blocks if b.space in FAR)


def needs_hbm(kernel: Kernel, target: Target) -> bool:
    """Whether a kernel has explicit copies, or more data in HBM than VMEM holds."""
    return bool(kernel.cells) and (hbm_bytes(kernel) > target.block_bytes or uses(kernel.body, COPIES))


def in_windows(kernel: Kernel, target: Target) -> bool:
    """Whether parts of tiles are reached by the tiles around them: VMEM does not hold what is far, and no two cores
    write to one tile."""
    alone = target.units == 1 or "parallel" not in (kernel.semantics or ())
    return alone and not communicates(kernel) and hbm_bytes(kernel) > target.fast_bytes


def passes(kernel: Kernel, target: Target) -> tuple[KernelPasses, ...]:
    """With its copies, where it reaches far; desugared, where what is far can be kept in VMEM."""
    if not kernel.cells:
        return ((GUARD, IDLE),)
    if not needs_hbm(kernel, target):
        return ((GUARD, *NEAR),)
    if communicates(kernel):
        return ((GUARD, WHOLE_FAR),)
    return (GUARD, WHOLE_FAR), (GUARD, DESUGAR, WHOLE_FAR) if in_windows(kernel, target) else (GUARD, *NEAR)


def _guarded(kernel: Kernel) -> Kernel:
    """A kernel over a static grid, where ids alone give the sizes that are computed."""
    return guarded(kernel, tuple(a for a, p in kernel.extents if by_ids(kernel, p)))


def _idle(kernel: Kernel) -> Kernel:
    """A kernel of no cells as one of a cell that does nothing: aliased outputs are what they were."""
    inputs = tuple(full_block(b.name, b.array) for b in kernel.inputs)
    outputs = tuple(full_block(b.name, b.array) for b in kernel.outputs)
    body = kernel.body
    kept = body.inputs[: kernel.splits[1]]
    refs = [Var(b.ref_type) for b in (*inputs, *outputs)]
    body = Program([*kept[len(kernel.grid) :], *refs], (), (), (), (), body.name)
    return kernel.replace(grid=(), inputs=inputs, outputs=outputs, scratch=(), body=body, semantics=None)


GUARD = KernelPass("guard-grid", "guarded", lambda kernel, target: _guarded(kernel))
IDLE = KernelPass("empty-grid", "idle", lambda kernel, target: _idle(kernel))
DESUGAR = KernelPass("desugar", "desugared", lambda kernel, target: desugared(kernel))
WHOLE_FAR = KernelPass("whole-refs", "whole", lambda kernel, target: on_entire_refs(kernel, FAR))
NEAR: KernelPasses = (  # copies are plain ones, the body as VMEM and registers like it
    DESUGAR, KernelPass("index-spans", "spans", lambda kernel, target: with_spans(kernel)),
    KernelPass("transpose-lanes", "sublanes", lambda kernel, target: transpose_lanes(kernel)),
    KernelPass("whole-refs", "whole", lambda kernel, target: on_entire_refs(kernel)),
)  # fmt: skip
