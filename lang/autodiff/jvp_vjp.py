"""Derivatives of kernels, which are kernels again.

jvp: one kernel, the body's jvp over doubled Refs. Reverse mode: the primal kernel (with what it must save), and
`kernel_linear_p` (`lang/call/primitive.py`), the linear map of tangents, whose transpose is the backward kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.ir.array import Array
from ...core.ir.passes import primitives_of
from ...core.ir.primitive import Zero
from ...core.ir.types import is_inexact
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.custom.checkpoint import optimization_barrier_p
from ...core.support.memo import cached
from ...core.tracing.trace import eval_program
from ...core.transforms.jvp import jvp_flat
from ...core.transforms.rule_helpers import instantiate, zeros
from ...core.transforms.structural_primitives import add_tangents
from ..analysis.facts import analyse
from ..kernel.kernel import UNBOUNDED, Block, Kernel
from ..transforms.desugar import desugared, in_order
from ..transforms.dynamic_grid import static
from ..transforms.rebuild import trace_kernel
from ..transforms.windows import scatter_blocks
from .adjoint import is_active, kept_states
from .checkpointing import budgeted, reverse_sweep
from .functionalize_control import flatten_control
from .reduction_kernels import Backward, Cells, independent_cells, pieces, route_of
from .scan_kernels import Sweep, assemble

Call = Callable[..., list[Any]]  # a kernel applied to operands

# ---------------------------------------------------------------------------- forward mode


def active_inputs(kernel: Kernel, nonzero: Sequence[bool]) -> tuple[int, ...]:
    """The inputs (without prefetched ones) that carry a tangent; one whose output is aliased to it always does."""
    n = len(kernel.prefetch)
    aliased = {i for i, _ in kernel.aliases}
    return tuple(
        i for i, b in enumerate(kernel.inputs)
        if is_inexact(b.array.dtype) and (nonzero[n + i] or i in aliased)
    )  # fmt: skip


@cached(512)
def jvp_kernel(kernel: Kernel, active: tuple[int, ...]) -> Kernel:
    """The kernel with tangents of the `active` inputs after its inputs, and of the float outputs after its outputs."""
    float_outs = [o for o, b in enumerate(kernel.outputs) if is_inexact(b.array.dtype)]
    float_scratch = [s for s, t in enumerate(kernel.scratch) if is_inexact(t.dtype)]
    n_in, n_out, n_scratch = len(kernel.inputs), len(kernel.outputs), len(kernel.scratch)

    def tangent(block: Block) -> Block:
        fill = None if block.fill is None else block.array.dtype.type(0)
        return replace(block, name=f"{block.name}_dot", fill=fill)

    def body(
        ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        primals = [*ids, *prefetched, *inputs[:n_in], *outputs[:n_out], *scratch[:n_scratch]]
        start = len(ids) + len(prefetched)
        given = dict(zip((start + i for i in active), inputs[n_in:], strict=True))
        given |= dict(zip((start + n_in + o for o in float_outs), outputs[n_out:], strict=True))
        given |= dict(zip((start + n_in + n_out + s for s in float_scratch), scratch[n_scratch:], strict=True))
        tangents = [given.get(k, Zero(v.type.tangent())) for k, v in enumerate(kernel.body.inputs)]
        jvp_flat(functools.partial(eval_program, kernel.body), primals, tangents)

    where = {i: n_in + k for k, i in enumerate(active)}
    out_where = {o: n_out + k for k, o in enumerate(float_outs)}
    aliases = [*kernel.aliases, *((where[i], out_where[o]) for i, o in kernel.aliases if i in where)]
    return trace_kernel(
        kernel, body, name=f"{kernel.name}_jvp", semantics=kernel.semantics, extents=kernel.extents, aliases=aliases,
        inputs=[*kernel.inputs, *(tangent(kernel.inputs[i]) for i in active)],
        outputs=[*kernel.outputs, *(tangent(kernel.outputs[o]) for o in float_outs)],
        scratch=[*kernel.scratch, *(kernel.scratch[s] for s in float_scratch)],
    )  # fmt: skip


# ---------------------------------------------------------------------------- reverse mode


@cached(512)
def strategy(kernel: Kernel, active: tuple[int, ...]) -> Backward | Sweep:
    """How the reverse-mode derivative of a kernel is made: independent cells where its carries add up, else a sweep.

    What is derived is the kernel in plain accesses. The forward kernel keeps atomic updates, unless the derivative
    needs what an output holds between two of them.
    """
    made = in_order(kernel)
    parts = analyse(made).phases
    positions = tuple(kernel.splits[1] + i for i in active)
    if parts is None:
        return reverse_sweep(made, positions, kernel)
    found = independent_cells(made, parts, positions)
    return found if found.saved else replace(found, forward=kernel)


def _operands(kernel: Kernel, keys: Sequence[tuple[str, int]], known: Mapping[str, Mapping[int, Any]]) -> list[Any]:
    """The operands of a backward kernel, by what they are: `known` values by their position, or zeros."""
    return [
        instantiate(known[kind][p]) if kind in known else zeros(block.array)
        for (kind, p), block in zip(keys, kernel.inputs, strict=True)
    ]


def run_sweep(
    call: Call, sweep: Sweep, active: tuple[int, ...], primals: Sequence[Any], saved: Sequence[Any], cts: Sequence[Any]
) -> list[Any]:
    """The cotangents of the active inputs of a kernel that is differentiated by a sweep."""
    kernel = sweep.kernel
    first_in, first_out = kernel.splits[1:3]
    prefetched, arrays = primals[: len(kernel.prefetch)], primals[len(kernel.prefetch) :]
    operands = _operands(sweep.backward, sweep.operands, {
        "in": dict(enumerate(arrays, first_in)), "entry": dict(zip(sweep.saved, saved, strict=True)),
        "ct": dict(enumerate(cts, first_out))})  # fmt: skip
    results = call(sweep.backward, *prefetched, *operands)
    total: dict[int, Any] = {first_in + i: None for i in active}
    for part, value in zip(sweep.parts, results, strict=False):
        total[part.position] = assemble(sweep, part, value, prefetched)
    starts = dict(zip(sweep.starts, results[len(sweep.parts) :], strict=True))
    for i, o in kernel.aliases:
        start = starts.get(first_out + o, cts[o] if not sweep.starts else None)
        if i in active and start is not None and type(start) is not Zero:
            total[first_in + i] = add_tangents(total[first_in + i], start)
    return [total[first_in + i] for i in active]


def run_backward(call: Call, kernel: Kernel, active: tuple[int, ...], primals: Sequence[Any], saved: Sequence[Any],
                 cts: Sequence[Any]) -> list[Any]:  # fmt: skip
    """The cotangents of the active inputs (None where zero), given those of the outputs (Zero where zero).

    `call` applies a kernel to operands.
    """
    backward = strategy(kernel, active)
    if isinstance(backward, Sweep):
        return run_sweep(call, backward, active, primals, saved, cts)
    return _Stages(call, backward, active, primals, saved).run(cts)


class _Stages:
    """Reverse mode of a kernel whose cells are independent: its stages, last first, and what they give the operands."""

    def __init__(
        self, call: Call, backward: Backward, active: tuple[int, ...], primals: Sequence[Any], saved: Sequence[Any]
    ):
        kernel = backward.kernel
        self.call, self.kernel, self.stages, self.active = call, kernel, backward.stages, active
        self.first_in, self.first_out = kernel.splits[1:3]
        self.prefetched, self.arrays = primals[: len(kernel.prefetch)], primals[len(kernel.prefetch) :]
        starts = {self.first_out + o: self.arrays[i] for i, o in kernel.aliases}
        self.held = starts | dict(zip(backward.saved, saved, strict=True))
        self.total: dict[int, Any] = dict.fromkeys(self.first_in + i for i in active)

    def run(self, cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the active inputs, given those of the outputs."""
        final, main, init = self.stages
        states = init.given
        out_cts = {self.first_out + o: ct for o, ct in enumerate(cts) if type(ct) is not Zero}
        state_cts = {p: ct for p, ct in out_cts.items() if p in states}
        state_cts = {p: ct for p, ct in state_cts.items() if p not in final.held} | self.stage(final, state_cts)
        kept = self.stage(main, state_cts | {p: ct for p, ct in out_cts.items() if p not in states})
        self.stage(init, state_cts)
        for i, o in self.kernel.aliases:
            p = self.first_out + o
            start = state_cts.get(p) if p in states and not init.linear.uses(p) else None
            if p not in states:
                start = kept[p] if p in kept else None if p in main.held else out_cts.get(p)
            if i in self.active and start is not None:
                self.add(self.first_in + i, start)
        return list(self.total.values())

    def add(self, position: int, value: Array) -> None:
        self.total[position] = add_tangents(self.total[position], value)

    def stage(self, cells: Cells, cotangents: dict[int, Any]) -> dict[int, Any]:
        """Add what one stage gives to the operands; gives the cotangents of what it held at first."""
        given = tuple(p for p in cells.given if p in cotangents)
        kept: dict[int, Any] = {}
        if not given or not cells.linear.eqns:
            return kept
        # What a cell holds is given back even where no cotangent of it came in.
        for number, piece in enumerate(pieces(replace(cells, given=given), tuple(self.total))):
            known = {"in": dict(enumerate(self.arrays, self.first_in)), "held": self.held, "ct": cotangents}
            operands = _operands(piece.kernel, piece.operands, known)
            if number:  # a compiler that sees two kernels compute the same would write and read what they can make
                operands = optimization_barrier_p.bind(*operands)
            for p, value in zip(piece.outputs, self.call(piece.kernel, *self.prefetched, *operands), strict=True):
                if p in cells.held:
                    kept[p] = value
                    continue
                if p in piece.scattered:
                    block = self.kernel.inputs[p - self.first_in]
                    value = scatter_blocks(self.kernel, block, value, self.prefetched, piece.axes, dict(cells.fixed))
                self.add(p, value)
        return kept


# ---------------------------------------------------------------------------- what is done


@dataclass(frozen=True)
class OperandPlan:
    """How reverse mode treats one operand: independent cells, a sweep, a scatter or none, with details in words."""

    operand: str
    kind: str
    how: str


def _saved(kernel: Kernel) -> str:
    """What the sweep stores of the carries, in words."""
    active = tuple(i for i, b in enumerate(kernel.inputs) if is_inexact(b.array.dtype))
    sweep = strategy(budgeted(kernel), active)
    assert isinstance(sweep, Sweep)
    if not sweep.saved:
        return "no carry stored"
    how = "one for each cell" if sweep.every == 1 else f"every {sweep.every} cells, computed again in between"
    return f"{sweep.saved_bytes:,} bytes of carries stored, {how}"


def _stated(kernel: Kernel, carry: Sequence[int]) -> str:
    """What it means for a sweep that some of its axes are declared parallel, in words."""
    axes = tuple(a for a in carry if kernel.semantics and kernel.semantics[a] == "parallel")
    return f" (on GPUs cells along {axes}, declared parallel, run concurrently)" if axes else ""


def _loops(kernel: Kernel) -> str:
    """What is kept of the loops with computed bounds, in words."""
    if while_p not in primitives_of(kernel.body):
        return ""
    program = flatten_control(kernel.body, range(kernel.splits[0], kernel.splits[2]))
    found = kept_states(program, [i for i, v in enumerate(program.inputs) if is_active(v.type)])
    words = [f"{count} states of {size:,} bytes" if count else "no state" for count, size in found]
    return f"; loops with computed bounds keep {', '.join(words)}" if words else ""


def derivative_plan(kernel: Kernel) -> list[OperandPlan]:
    """The kind of the reverse-mode derivative of a kernel, operand by operand."""
    if any(kernel.grid[axis] == UNBOUNDED for axis in kernel.computed):
        return [OperandPlan(b.name, "none", "a traced size of the grid has no bound") for b in kernel.inputs]
    kernel = desugared(static(kernel, ""))
    parts = analyse(kernel).phases
    carry = analyse(kernel).carry
    loops = _loops(kernel)
    plans = []
    for block in kernel.inputs:
        if not is_inexact(block.array.dtype):
            plans.append(OperandPlan(block.name, "none", f"{block.array.show()} has no derivative"))
            continue
        route = route_of(kernel, block)
        ignored = tuple(a for a in kernel.long_axes if a not in route.axes)
        told = [f"grid axes {route.axes} parallel"] * bool(route.axes) + [f"summed over {ignored}"] * bool(ignored)
        over = ", ".join(told) or "one program instance"
        if parts is None:
            over = f"a reverse sweep over the carry axes {carry}{_stated(kernel, carry)}; blocks of axes {route.axes}"
            over += f", summed over {ignored}; {_saved(kernel)}"
        over += loops
        if not route.exact:
            how = f"its blocks overlap or depend on data: cotangents are scattered; {over}"
            plans.append(OperandPlan(block.name, "scatter", how))
        else:
            plans.append(OperandPlan(block.name, "independent" if parts is not None else "sweep", over))
    return plans
