"""What a function's kernels are, do and cost: as a table, or as text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .core.api import program_of
from .core.ir import Program
from .kernels.cost import bytes_moved
from .kernels.fuse import FusedKernel, Fusion, plan
from .lang.cost import kernel_cost
from .lang.differentiate import OperandPlan, derivative_plan
from .lang.kernel import UNBOUNDED, Kernel, show_size
from .lang.phases import carry_axes
from .lang.plain import plain
from .lang.target import target_of
from .lang.verify import Finding, verify
from .lang.visit import block_bytes, kernels_of

WIDTH = 116  # columns of a line


@dataclass(frozen=True)
class KernelReport:
    """One kernel: what it moves and computes, what was proved of it, and how its derivative is made."""

    kernel: Kernel
    carry_axes: tuple[int, ...]
    flops: int
    transcendentals: int
    bytes_moved: int
    block_bytes: int
    findings: tuple[Finding, ...]
    derivatives: tuple[OperandPlan, ...]
    seconds: float | None
    bound: str | None
    fused: FusedKernel | None = None

    @property
    def unknown(self) -> tuple[Finding, ...]:
        """What is neither proved nor refuted."""
        return tuple(f for f in self.findings if f.verdict == "unknown")

    def row(self) -> dict[str, Any]:
        """The numbers, by name."""
        fused = self.fused
        return {
            "kernel": self.kernel.name, "operations": fused.operations if fused else (),
            "loops": fused.loops.sizes if fused else (), "tiles": fused.tiles if fused else (),
            "cells": self.kernel.cells, "bytes": self.bytes_moved, "flops": self.flops,
            "transcendentals": self.transcendentals, "seconds": self.seconds, "bound": self.bound,
        }  # fmt: skip

    def lines(self) -> list[str]:
        kernel = self.kernel
        axes = ", ".join(
            f"{show_size(kernel, axis)} {'in order' if axis in self.carry_axes else 'parallel'}"
            for axis in range(len(kernel.grid))
        )
        most = "at most " if kernel.extents else ""
        count = "any number of" if UNBOUNDED in kernel.grid else f"{most}{kernel.cells}"
        out = [f"kernel {kernel.name}: {count} cells ({axes})"]
        for role, blocks in (("in ", kernel.inputs), ("out", kernel.outputs)):
            out += [f"  {role} {block.show()}" for block in blocks]
        out += [f"  scratch {scratch.show()}" for scratch in kernel.scratch]
        work = f"  {self.flops:,} flops, {self.transcendentals:,} transcendentals, {self.bytes_moved:,} bytes moved"
        out.append(f"{work}, {self.block_bytes:,} bytes held by a cell")
        if self.seconds is not None:
            out.append(f"  at least {self.seconds * 1e6:.3g} us, bound by {self.bound}")
        proved = sum(f.verdict == "proved" for f in self.findings)
        out.append(f"  proved: {proved} of {len(self.findings)} checks")
        out += [f"  unknown: {f.what} of {f.operand}: {f.why}" for f in self.unknown]
        out += [f"  derivative of {p.operand}: class {p.kind}, {p.how}" for p in self.derivatives]
        if self.fused is not None:
            out[1:1] = fused_lines(self.fused)
        return out


def fused_lines(fused: FusedKernel) -> list[str]:
    """What was fused into a kernel, and how its loops are cut."""
    names = [f"{n} {name}" if n > 1 else name for name, n in Counter(fused.operations).items()]
    loops = []
    for i, (size, tile) in enumerate(zip(fused.loops.sizes, fused.tiles, strict=True)):
        kind = " whole" if i in fused.loops.whole else " summed" if i in fused.loops.carry else ""
        loops.append(f"{size}{kind}" if tile >= size else f"{size}{kind} by {tile}")
    lines = textwrap.wrap(f"fuses {', '.join(names)}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    return [*lines, f"  loops {', '.join(loops)}", "  derivative: of the operations, taken before they were fused"]


def fusion_lines(fusion: Fusion) -> list[str]:
    """What a fused plan moves and computes, what stays outside of its kernels, and what lies between them."""
    account, lines = fusion.account, []
    if account is not None:
        share = account.bytes_after / account.bytes_before if account.bytes_before else 1.0
        apart, flops = f"{account.bytes_before:,}", f"{account.flops_after:,} flops, were {account.flops_before:,}"
        lines.append(
            f"  {account.bytes_after:,} bytes moved, {share:.2f} of the {apart} of a kernel for each operation"
        )
        lines.append(f"  {flops}")
    for (name, reason), n in Counter(fusion.glue).items():
        lines.append(f"  outside: {name}{f' ({n} times)' if n > 1 else ''}: {reason}")
    between: dict[tuple[str, str, str], list[str]] = {}
    for b in fusion.boundaries:
        between.setdefault((b.producer, b.consumer, b.reason), []).append(b.value)
    for (producer, consumer, reason), values in between.items():
        lines.append(f"  apart: {producer}, {consumer} ({', '.join(values)}): {reason}")
    for inner in fusion.inner:
        lines += [f"  in {inner.program.name}:", *(f"  {line}" for line in fusion_lines(inner))]
    return lines


@dataclass(frozen=True)
class Explanation:
    """The kernels of a function, in order, and how they were fused; prints as text."""

    name: str
    target: str | None
    kernels: tuple[KernelReport, ...]
    fusion: Fusion | None = None

    def __str__(self) -> str:
        count = len(self.kernels)
        head = f"{self.name}: {count} kernel{'' if count == 1 else 's'}" + (f" on {self.target}" if self.target else "")
        plan = [] if self.fusion is None else fusion_lines(self.fusion)
        return "\n".join([head, *plan, *(line for k in self.kernels for line in k.lines())])

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each kernel: name, operations, loops, tiles, cells, bytes, flops, transcendentals, bound."""
        return [k.row() for k in self.kernels]

    __repr__ = __str__


def explain_kernel(kernel: Kernel, target: str | None = None, derivatives: bool = True) -> KernelReport:
    """The report on one kernel."""
    cost, moved = kernel_cost(kernel), bytes_moved(kernel)
    seconds = bound = None
    if target is not None:
        machine = target_of(target)
        dtype = kernel.outputs[0].array.dtype if kernel.outputs else "float32"
        arithmetic, traffic = machine.seconds(cost.flops, 0, dtype), machine.seconds(0, moved, dtype)
        seconds, bound = max(arithmetic, traffic), "arithmetic" if arithmetic > traffic else "memory"
    return KernelReport(
        kernel, carry_axes(plain(kernel)), cost.flops, cost.transcendentals, moved, block_bytes(kernel),
        tuple(verify(kernel)), tuple(derivative_plan(kernel)) if derivatives else (), seconds, bound,
    )  # fmt: skip


def explain(
    function: Kernel | Callable[..., Any], *args: Any, target: str | None = None, tiles: Any = None, **kwargs: Any
) -> Explanation:
    """What the kernels of a function are at some arguments (arrays or structs): blocks, cost, proofs, derivatives.

    With a `target` (`"tpu:v5e"`, `"cuda:sm_90"`, ...) also the least time by that machine's roofline, and the kernels
    that standard operations become there: what was fused into each and what was not, with the reason, and the bytes
    and flops before and after. On the CPU, where XLA fuses, only if `tiles` are asked for (see `compile`). `function`
    may be a Kernel. Raises an `ArgumentError` for an unknown target.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def double(x, o):
    ...     o[...] = x[...] * 2
    >>> spec = tl.BlockSpec((2,), lambda i: (i,))
    >>> struct = tw.ShapeDtypeStruct((4,), "float32")
    >>> print(explain(tl.kernel_call(double, struct, grid=2, in_specs=[spec], out_specs=spec), struct))
    double: 1 kernel
    kernel double: 2 cells (2 parallel)
      in  x: f32[4] block (2) vmem
      out o: f32[4] block (2) vmem
      4 flops, 0 transcendentals, 32 bytes moved, 32 bytes held by a cell
      proved: 4 of 4 checks
      derivative of x: class A, grid axes (0,) parallel
    """
    if isinstance(function, Kernel):
        return Explanation(function.name, target, (explain_kernel(function, target),))
    program, _ = program_of(function, args, kwargs)
    name = getattr(function, "__name__", "function")
    if tiles or (target is not None and not target_of(target).whole_arrays):
        return _explain_fused(name, program, target or "cpu", None if tiles is True else tiles)
    return Explanation(name, target, tuple(explain_kernel(k, target) for k in kernels_of(program)))


def _explain_fused(name: str, program: Program, target: str, tiles: Any) -> Explanation:
    fusion = plan(program, target, tiles, explained=True)
    made = {k.kernel: k for k in fusion.every_kernel}
    reports = []
    for kernel in kernels_of(fusion.program):
        report = explain_kernel(kernel, target, derivatives=kernel not in made)
        reports.append(replace(report, fused=made.get(kernel)))
    return Explanation(name, target, tuple(reports), fusion)
