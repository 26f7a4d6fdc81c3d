"""The report on one kernel: what it moves and computes, what was proved of it, how its derivative is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.support.errors import ArgumentError
from ..core.support.html_table import html_text
from ..kernels.cost import bytes_moved
from ..kernels.fuse import FusedKernel, kernel_lines
from ..lang.analysis.facts import analyse
from ..lang.autodiff.jvp_vjp import OperandPlan, derivative_plan
from ..lang.cost.estimate import kernel_cost
from ..lang.cost.roofline import roofline
from ..lang.frontend.visualize import svg_of
from ..lang.gpu.code import SPILLS
from ..lang.kernel.kernel import UNBOUNDED, Kernel, show_size
from ..lang.kernel.traverse import block_bytes
from ..lang.targets.target import Resources, target_of
from ..lang.transforms.desugar import desugared
from ..lang.verify.verify import Finding, verify
from ..lang.warpgroups.specs import mesh_of
from ..xla_backend.analysis.hlo_report import show_seconds

# What is said before the plan of an operand's derivative, by its kind: see the glossary.
BEFORE = {"independent": "independent cells, ", "sweep": "", "scatter": "", "none": "none: "}


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
        if kernel.semantics is not None:
            out.append(f"  declared: {', '.join(kernel.semantics)}")
        for role, blocks in (("in ", kernel.inputs), ("out", kernel.outputs)):
            out += [f"  {role} {block.show()}" for block in blocks]
        out += [f"  scratch {scratch.show()}" for scratch in kernel.scratch]
        work = f"  {self.flops:,} flops, {self.transcendentals:,} transcendentals, {self.bytes_moved:,} bytes moved"
        out.append(f"{work}, {self.block_bytes:,} bytes per cell")
        if self.seconds is not None:
            out.append(f"  at least {show_seconds(self.seconds)}, bound by {self.bound}")
        if self.resources is not None:
            out += resource_lines(self.resources, self.target, self.seconds)
        proved = sum(f.verdict == "proved" for f in self.findings)
        out.append(f"  proved: {proved} of {len(self.findings)} checks")
        out += [f"  not proved: {f.operand}: {f.what} ({f.why})" for f in self.unknown]
        out += [f"  derivative of {p.operand}: {BEFORE[p.kind]}{p.how}" for p in self.derivatives]
        if self.fused is not None:
            out[1:1] = kernel_lines(self.fused)
        return out

    def _repr_html_(self) -> str:
        """Notebooks: the picture of the blocks, and the lines of the report."""
        try:
            picture = f"<div style='overflow-x:auto'>{svg_of(self.kernel)}</div>"
        except ArgumentError:  # too many cells, or maps that read values
            picture = ""
        return picture + html_text("\n".join(self.lines()))


def resource_lines(used: Resources, target: str | None, least: float | None) -> list[str]:
    """What a compiled kernel takes, and the compiler's estimate of its time against the least that it can take."""
    memory = "VMEM" if target_of(target or "tpu").kind == "tpu" else "shared memory"
    line = f"  compiled: {used.fast_bytes:,} of {used.fast_limit:,} bytes of {memory}"
    if used.resident:
        line += f", {used.resident:,} bytes of operands and results kept there"
    found = [line, *([f"  to make it fit: {used.note}"] if used.note else [])]
    parts = [
        f"{value:,} {what}" for value, what in (
            (used.registers, "registers"), (used.spills, "bytes spilled"), (used.bundles, "instruction words"),
            (used.cycles, "cycles"),
        ) if value is not None
    ]  # fmt: skip
    clock = target_of(target).clock if target else 0.0
    if used.cycles is not None and least and clock:
        parts[-1] += f" ({used.cycles / clock * 1e6:.3g} us, {used.cycles / clock / least:.2f} of the least)"
    found += [f"  {', '.join(parts)}"] if parts else []
    if (used.spills or 0) > SPILLS and memory != "VMEM":
        found.append(f"  SPILLS: each thread keeps {used.spills:,} bytes in memory: take smaller blocks, or more warps")
    return found


def kernel_report(
    kernel: Kernel, target: str | None, found: tuple[Finding, ...] = (), fused: FusedKernel | None = None
) -> KernelReport:
    """The report on a kernel; `found` is what the target was found to take of it."""
    cost, moved = kernel_cost(kernel), bytes_moved(kernel)
    least = None if target is None else roofline(kernel, moved, target)
    if mesh_of(kernel) is not None:  # warpgroup kernels have no proofs and no derivative
        return KernelReport(kernel, (), cost.flops, cost.transcendentals, moved, block_bytes(kernel), found, (), None,
                            None, fused, target)  # fmt: skip
    return KernelReport(
        kernel, analyse(desugared(kernel)).carry, cost.flops, cost.transcendentals, moved, block_bytes(kernel),
        (*verify(kernel), *found), tuple(derivative_plan(kernel)) if fused is None else (),
        None if least is None else least.seconds, None if least is None else least.by, fused, target,
    )  # fmt: skip
