"""Splits a reduction across devices: the kernel of one device's partial sums, and the one that takes their total.

The devices add up the partial sums in between. `split_sums.py` splits a reduction within one device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.program import Literal, Program, Var
from ...core.primitives.elementwise.comparison import eq_p
from ...core.primitives.movement.shape import broadcast_in_dim_p
from ...core.primitives.refs.ref_views import read, view, write
from ...core.primitives.refs.state_primitives import swap_p
from ...core.support.memo import cached
from ...core.tracing.trace import eval_program
from ..analysis.facts import analyse
from ..analysis.reductions import Phases
from ..kernel.kernel import Block, Kernel
from ..ops.basic import when_all
from .desugar import desugared
from .rebuild import blank, grid_block, prune, remap, trace_kernel


@dataclass(frozen=True)
class Sums:
    """`partial` gives the sums of its cells; `final` takes what is prefetched, the kernel's inputs of numbers `inputs`,
    then the sums, and gives the kernel's outputs. It is None where those are the sums."""

    partial: Kernel
    body: Callable[..., None]  # that of `partial`, as `part.local` takes it
    final: Kernel | None
    inputs: tuple[int, ...] = ()


@cached(512)
def sums(kernel: Kernel) -> Sums | str:
    """A kernel of sums in two, or why it is none."""
    kernel = desugared(kernel)
    phases = analyse(kernel).phases
    if phases is None:
        return "what it carries is no sum"
    first_out, first_scratch = kernel.splits[2:4]
    if any(p not in phases.states for p in range(first_out, first_scratch)):
        return "an output is no sum"
    added = [p for p in phases.states if any(e.operand == p for e in phases.main.effects)]
    if not added:
        return "nothing is added up along it"
    if not all(_starts_at_zero(phases.init, phases.init.inputs[p]) for p in added):
        return "its sums do not start at zero"
    states = [_block(kernel, phases, p) for p in added]
    partial, body = _partial(kernel, phases, added, states)
    if not any(e.effects for e in phases.final.eqns):
        if added != list(range(first_out, first_scratch)):
            return "an output is no sum"
        return Sums(partial, body, None)
    final, inputs = _final(kernel, phases, added, states)
    if any(_follows(kernel.inputs[i], phases.carry) for i in inputs):
        return "what is made of the sums takes an operand that follows it"
    return Sums(partial, body, final, inputs)


def reset_value(init: Program, ref: Var) -> Any:
    """The literal that the first step of a run resets a state to, in one store; None where it is anything else."""
    stores = [e for e in init.eqns if ref in e.inputs]
    if len(stores) != 1 or stores[0].primitive is not swap_p:
        return None
    value = stores[0].inputs[1]
    made = next((e for e in init.eqns if value in e.outputs), None)
    if made is not None and made.primitive is broadcast_in_dim_p:
        value = made.inputs[0]
    return value.value if type(value) is Literal else None


def _starts_at_zero(init: Program, ref: Var) -> bool:
    value = reset_value(init, ref)
    return value is not None and bool(np.all(value == 0))


def _follows(block: Block, axes: Sequence[int]) -> bool:
    if block.index_map is None:
        return False
    used = {x for e in block.index_map.eqns for x in e.inputs} | {*block.index_map.outputs}
    return any(block.index_map.inputs[a] in used for a in axes)


def _block(kernel: Kernel, phases: Phases, position: int) -> Block:
    """The array in which a state is handed from device to device: a block for each cell of the other axes."""
    first_out, first_scratch = kernel.splits[2:4]
    if position < first_scratch:
        return kernel.outputs[position - first_out]
    type: Any = kernel.body.inputs[position].type
    rest = [a for a in range(len(kernel.grid)) if a not in phases.carry]
    return grid_block(f"sum{position}", type.shape, type.dtype, rest, kernel.grid, kernel.prefetch)


def _partial(
    kernel: Kernel, phases: Phases, added: Sequence[int], states: Sequence[Block]
) -> tuple[Kernel, Callable[..., None]]:
    first_out, first_scratch, end = kernel.splits[2:5]
    local = [p for p in range(first_scratch, end) if p not in added]

    def body(
        ids: Sequence[Any], whole: Sequence[Any], valid: Any, prefetch: Sequence[Any], ins: Sequence[Any],
        outs: Sequence[Any], scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        when_all((eq_p.bind(ids[a], np.int32(0)) for a in phases.carry), lambda: blank(*outs))
        held = dict(zip(added, outs, strict=True)) | dict(zip(local, scratch, strict=True))
        unused = iter(outs)  # an output that main does not touch: any Ref stands for it
        refs = [held[p] if p in held else next(unused, outs[0]) for p in range(first_out, end)]
        main = functools.partial(eval_program, phases.main, *whole, *prefetch, *ins, *refs)
        when_all([] if valid is None else [valid], main)

    kept = [kernel.scratch[p - first_scratch] for p in local]
    return trace_kernel(kernel, lambda ids, *refs: body(ids, ids, None, *refs), name=f"{kernel.name}_part",
                        outputs=list(states), scratch=kept, aliases=()), body  # fmt: skip


def _final(kernel: Kernel, phases: Phases, added: Sequence[int], states: Sequence[Block]) -> Any:
    first_out, first_scratch, end = kernel.splits[2:5]
    n = len(kernel.inputs)
    grid = tuple(1 if a in phases.carry else size for a, size in enumerate(kernel.grid))

    def ids_of(ids: Sequence[Any]) -> list[Any]:
        return [np.int32(kernel.grid[a] - 1) if a in phases.carry else i for a, i in enumerate(ids)]

    def body(
        ids: Sequence[Any], prefetch: Sequence[Any], ins: Sequence[Any], outs: Sequence[Any], scratch: Sequence[Any]
    ) -> None:
        refs = dict(zip(range(first_out, end), [*outs, *scratch], strict=True))
        for p, given in zip(added, ins[n:], strict=True):
            write(view(refs[p]), read(view(given)))
        eval_program(phases.final, *ids_of(ids), *prefetch, *ins[:n], *refs.values())

    ins = [remap(b, kernel.prefetch, grid, ids_of) for b in (*kernel.inputs, *states)]
    outs = [remap(b, kernel.prefetch, grid, ids_of) for b in kernel.outputs]
    made = trace_kernel(kernel, body, name=f"{kernel.name}_end", grid=grid, inputs=ins, outputs=outs, aliases=())
    final, taken = prune(made)
    return final, tuple(i for i in taken if i < n)
