"""Inputs that are loaded once before a loop, and inputs that aliasing forces to be copied."""

from __future__ import annotations

from ...core.ir.program import Var
from ...core.ir.types import FAR
from ...core.primitives.refs.state_primitives import get_p
from ..analysis.affine import needs_of
from ..kernel.kernel import Kernel
from .accesses import Access


def staged_before(
    kernel: Kernel, number: int, used: dict[Var, list[Access]], carry: tuple[int, ...]
) -> int | None:
    """The loop before which an input's block is loaded once: every cell reads all of it, and it is loop-invariant."""
    block, ref = kernel.inputs[number], kernel.body.inputs[kernel.splits[1] + number]
    whole = any(
        a.primitive is get_p and a.always and not a.params.get("masked") and a.index.is_whole(block.shape)
        for a in used[ref]
    )
    if not carry or not whole or any(i == number for i, _ in kernel.aliases):
        return None
    if block.index_map is None:
        return 0
    wanted = needs_of(block.index_map, len(kernel.grid))
    if "data" in wanted:
        return None
    level = max((k for k, axis in enumerate(carry) if axis in wanted), default=-1) + 1
    return level if level < len(carry) else None


def copied_inputs(kernel: Kernel, used: dict[Var, list[Access]], homes: tuple[int | None, ...]) -> tuple[int, ...]:
    """Inputs that may be read after their aliased output is written (a write-after-read hazard)."""
    _, first_in, first_out, _, _ = kernel.splits
    found = []
    for i, o in kernel.aliases:
        reads = [a for a in used[kernel.body.inputs[first_in + i]] if a.reads]
        writes = [a for a in used[kernel.body.inputs[first_out + o]] if a.writes]
        if not reads:
            continue
        far = kernel.inputs[i].space in FAR or kernel.outputs[o].space in FAR
        late = any(r.number > w.number or r.loop is not None and r.loop == w.loop for r in reads for w in writes)
        if far or homes[o] is None and late:
            found.append(i)
    return tuple(found)
