"""Semaphores that are surely misused: found before a kernel runs, compiled or not.

Cells start with every semaphore at zero. So a first use that waits, in every cell, waits for what nothing started or
signalled; and a copy that is started in every cell, and never waited for, is under way when the kernel ends. What a
branch or loop does to a semaphore is left to the interpreter, which sees every run.
"""

from __future__ import annotations

from ...core.ir.program import Eqn
from ...core.ir.types import MemorySpace, RefType
from ...core.support.errors import SemaphoreError
from ..kernel.kernel import Kernel
from ..ops.dma import dma_start_p, dma_wait_p, semaphore_wait_p
from ..ops.run_scoped import undefine_p


def check_semaphores(kernel: Kernel) -> None:
    """Raise a `SemaphoreError` for a semaphore whose misuse the body alone shows."""
    if kernel.interpret:  # says more: which cell, and how many bytes
        return
    start = kernel.splits[3]
    for position in range(start, len(kernel.body.inputs)):
        ref = kernel.body.inputs[position]
        if isinstance(ref.type, RefType) and ref.type.space is MemorySpace.SEMAPHORE:
            uses = [e for e in kernel.body.eqns if ref in e.inputs and e.primitive is not undefine_p]
            _check(kernel, kernel.scratch_name(position), uses)


def _check(kernel: Kernel, name: str, uses: list[Eqn]) -> None:
    if not uses:
        return
    if uses[0].primitive in (dma_wait_p, semaphore_wait_p):
        raise kernel.error(SemaphoreError, f"the first use of semaphore {name} waits, and nothing was started on it "
                           "before", "start the copy, or signal, before it is waited for", uses[0].source)  # fmt: skip
    if all(e.primitive is dma_start_p for e in uses):
        raise kernel.error(SemaphoreError, f"a copy is started on semaphore {name}, and nothing waits for it",
                           "call `.wait()` on what `make_async_copy` gave", uses[0].source)  # fmt: skip
