"""What a function's kernels are, do and cost: as a table, or as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .core.api import program_of
from .kernels.cost import bytes_moved
from .lang.cost import kernel_cost
from .lang.differentiate import OperandPlan, derivative_plan
from .lang.kernel import UNBOUNDED, Kernel, show_size
from .lang.phases import carry_axes
from .lang.plain import plain
from .lang.target import target_of
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

    @property
    def unknown(self) -> tuple[Finding, ...]:
        """What is neither proved nor refuted."""
        return tuple(f for f in self.findings if f.verdict == "unknown")

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
        return out


@dataclass(frozen=True)
class Explanation:
    """The kernels of a function, in order; prints as text."""

    name: str
    target: str | None
    kernels: tuple[KernelReport, ...]

    def __str__(self) -> str:
        count = len(self.kernels)
        head = f"{self.name}: {count} kernel{'' if count == 1 else 's'}" + (f" on {self.target}" if self.target else "")
        return "\n".join([head, *(line for k in self.kernels for line in k.lines())])

    __repr__ = __str__


def explain_kernel(kernel: Kernel, target: str | None = None) -> KernelReport:
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
        tuple(verify(kernel)), tuple(derivative_plan(kernel)), seconds, bound,
    )  # fmt: skip


def explain(function: Kernel | Callable[..., Any], *args: Any, target: str | None = None, **kwargs: Any) -> Explanation:
    """What the kernels of a function are at some arguments (arrays or structs): blocks, cost, proofs, derivatives.

    With a `target` (`"tpu:v5e"`, `"cuda:sm_90"`, ...) also the least time by that machine's roofline. `function` may
    be a Kernel. Raises an `ArgumentError` for an unknown target.

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
    return Explanation(name, target, tuple(explain_kernel(k, target) for k in kernels_of(program)))
