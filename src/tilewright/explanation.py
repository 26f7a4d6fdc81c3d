"""What a function's kernels are, do and cost: as a table, or as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .core.api import program_of
from .core.config import config, current
from .core.errors import ArgumentError, DtypeError, ResourceError, UnsupportedError
from .core.ir import Program
from .core.trace import trace_program
from .kernels.cost import bytes_moved
from .kernels.fuse import FusedKernel, Fusion, kernel_lines, plan, plan_lines
from .lang.analysis import analyse
from .lang.cost import kernel_cost
from .lang.differentiate import OperandPlan, derivative_plan
from .lang.kernel import UNBOUNDED, Kernel, show_size
from .lang.legality import check_target
from .lang.plain import plain
from .lang.primitive import kernel_call_p
from .lang.roofline import roofline
from .lang.target import Resources, target_of
from .lang.verify import Finding, verify
from .lang.visit import block_bytes, kernels_of


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
    target: str | None = None
    resources: Resources | None = None

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
        out = [f"kernel {kernel.name}: {count} cell{'' if count == '1' else 's'}" + (f" ({axes})" if axes else "")]
        for role, blocks in (("in ", kernel.inputs), ("out", kernel.outputs)):
            out += [f"  {role} {block.show()}" for block in blocks]
        out += [f"  scratch {scratch.show()}" for scratch in kernel.scratch]
        work = f"  {self.flops:,} flops, {self.transcendentals:,} transcendentals, {self.bytes_moved:,} bytes moved"
        out.append(f"{work}, {self.block_bytes:,} bytes held by a cell")
        if self.seconds is not None:
            out.append(f"  at least {self.seconds * 1e6:.3g} us, bound by {self.bound}")
        if self.resources is not None:
            out += resource_lines(self.resources, self.target, self.seconds)
        proved = sum(f.verdict == "proved" for f in self.findings)
        out.append(f"  proved: {proved} of {len(self.findings)} checks")
        out += [f"  unknown: {f.what} of {f.operand}: {f.why}" for f in self.unknown]
        out += [f"  derivative of {p.operand}: class {p.kind}, {p.how}" for p in self.derivatives]
        if self.fused is not None:
            out[1:1] = kernel_lines(self.fused)
        return out


def resource_lines(used: Resources, target: str | None, least: float | None) -> list[str]:
    """What a compiled kernel takes, and the compiler's estimate of its time against the least that it can take."""
    memory = "VMEM" if target_of(target or "tpu").kind == "tpu" else "shared memory"
    line = f"  compiled: {used.fast_bytes:,} of {used.fast_limit:,} bytes of {memory}"
    if used.resident:
        line += f", {used.resident:,} bytes of operands and results kept there"
    found = [line]
    parts = [
        f"{value:,} {what}" for value, what in (
            (used.registers, "registers"), (used.spills, "bytes spilled"), (used.bundles, "instruction words"),
            (used.cycles, "cycles"),
        ) if value is not None
    ]  # fmt: skip
    clock = target_of(target).clock if target else 0.0
    if used.cycles is not None and least and clock:
        parts[-1] += f" ({used.cycles / clock * 1e6:.3g} us, {used.cycles / clock / least:.2f} of the least)"
    return [*found, *([f"  {', '.join(parts)}"] if parts else [])]


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
        plan = [] if self.fusion is None else plan_lines(self.fusion)
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
    findings = verify(kernel)
    if target is not None:
        least = roofline(kernel, moved, target)
        seconds, bound = least.seconds, least.by
        findings = [*findings, *_on_target(kernel, target)]
    return KernelReport(
        kernel, analyse(plain(kernel)).carry, cost.flops, cost.transcendentals, moved, block_bytes(kernel),
        tuple(findings), tuple(derivative_plan(kernel)) if derivatives else (), seconds, bound, target=target,
    )  # fmt: skip


def _on_target(kernel: Kernel, target: str) -> list[Finding]:
    """What a target can take of a kernel; one that it cannot take at all is left to XLA if nobody wrote it."""
    try:
        return check_target(kernel, target)
    except (DtypeError, ResourceError, UnsupportedError) as error:
        return [Finding(f"runs on {target}", kernel.name, "unknown", error.what)]


def explain(
    function: Kernel | Callable[..., Any], *args: Any, target: str | None = None, tiles: Any = None,
    compile: bool = False, **kwargs: Any,
) -> Explanation:  # fmt: skip
    """What the kernels of a function are at some arguments (arrays or structs): blocks, cost, proofs, derivatives.

    With a `target` (`"tpu:v5e"`, `"cuda:sm_90"`, ...) also the least time by that machine's roofline, and the kernels
    that standard operations become there: what was fused into each and what was not, with the reason, and the bytes
    and flops before and after. On the CPU, where XLA fuses, only if `tiles` are asked for (see `compile`). `function`
    may be a Kernel. With `compile=True` it is compiled for the target, which need not be here, and each kernel has what
    it takes there: VMEM or shared memory, registers, spills, and the compiler's estimate of cycles where there is one.

    Raises:
      ArgumentError: an unknown target, or `compile` without one.
      CompileError, VersionError: as compiling.

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
        name, types = function.name, function.in_types
        program = trace_program(lambda *xs: kernel_call_p.bind(*xs, kernel=function), types, name)
        explained = Explanation(name, target, (explain_kernel(function, target),))
    else:
        with config(kernel_target=target or current().kernel_target):
            program, _ = program_of(function, args, kwargs)
        explained = _explained(getattr(function, "__name__", "function"), program, target, tiles)
    return _compiled(explained, program, target, tiles) if compile else explained


def _explained(name: str, program: Program, target: str | None, tiles: Any) -> Explanation:
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


def _compiled(explained: Explanation, program: Program, target: str | None, tiles: Any) -> Explanation:
    """An explanation with what each kernel takes once it is compiled; without it where no call was made of a kernel."""
    from .targets import compile_for, estimated

    if target is None or target_of(target).whole_arrays:
        raise ArgumentError("explain: compile=True without a device's target", 'add `target="tpu:v5e"` or another')
    binary = estimated(compile_for(target, program, tiles=None if tiles is True else tiles))
    left, reports = list(binary.resources), []
    for report in explained.kernels:
        found = next((r for r in left if r.kernel == report.kernel.name), None)
        if found is not None:
            left.remove(found)
        reports.append(replace(report, resources=found))
    return replace(explained, kernels=tuple(reports))
