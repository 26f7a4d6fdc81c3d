"""What a function's kernels are, do and cost: the reports of the passes, as a table or as text."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..bench.machine import ceilings
from ..compiler import lazy_layers
from ..compiler.backend_selection import ROUTES, Passed
from ..compiler.kernel_passes import Refused, Split, refusals
from ..compiler.kernel_report import KernelReport, resource_lines
from ..compiler.pass_manager import Reports, up_to, walk
from ..compiler.pipeline import PIPELINE, Request, settings_ahead, settings_for
from ..core.ir.program import Program
from ..core.jit.jit import jit
from ..core.support.config import config
from ..core.support.errors import ArgumentError
from ..core.support.lazy_imports import is_loaded
from ..core.tracing.trace import trace_program
from ..devices import block_until_ready
from ..kernels.fuse import Fusion, plan_lines
from ..lang.call.primitive import kernel_call_p
from ..lang.cost.roofline import roofline
from ..lang.kernel.kernel import Kernel
from ..lang.targets.target import CPU, Resources, Target, target_of
from ..profiler import profile
from ..xla_backend.analysis.hlo_report import XlaReport
from ..xla_backend.devices.client import default_device
from ..xla_backend.options.compile_options import Call, Settings, Unit
from .html import fragment, page
from .loops import LoopSweep, loop_sweeps


@dataclass(frozen=True)
class Explanation:
    """The kernels of a function, in order, how they were fused, and what XLA computes; prints as text."""

    name: str
    target: str | None
    kernels: tuple[KernelReport, ...]
    fusion: Fusion | None = None
    refused: tuple[Refused, ...] = ()
    xla: XlaReport | None = None
    routes: tuple[tuple[Kernel, str], ...] = ()
    nests: tuple[tuple[Kernel, str], ...] = ()  # loops of those that are machine code
    assembly: tuple[tuple[Kernel, str], ...] = ()
    compiled: tuple[tuple[Kernel, str], ...] = ()
    passed: tuple[Passed, ...] = ()
    program: Program | None = None
    machine: Target | None = None
    profile: Any = None
    communication: Any = None  # of programs on a mesh
    split: Split | None = None
    resources: tuple[Resources, ...] = ()  # of the kernels that others were split in
    loops: tuple[LoopSweep, ...] = ()

    def __str__(self) -> str:
        where = f" on {self.target}" if self.target else ""
        lines = [f"{self.name}: {self.counts()}{where}"]
        lines += [] if self.fusion is None else plan_lines(self.fusion)
        lines += [f"  {r.line()}" for r in self.refused]
        lines += [line for k in self.kernels for line in k.lines()]
        lines += self._split_lines()
        lines += [f"kernel {kernel.name} is computed by {route}" for kernel, route in self.routes]
        lines += [line for kernel, nest in self.nests for line in [f"loops of kernel {kernel.name}:", *_indented(nest)]]
        if self.target is not None and len(ROUTES.get(self.target.partition(":")[0], ())) > 1:
            lines += [f"kernel {kernel.name} is compiled by {name}" for kernel, name in self.compiled]
        lines += [p.line() for p in self.passed]
        lines += [loop.line() for loop in self.loops]
        lines += [] if self.communication is None else self.communication.lines()
        lines += [] if self.xla is None else self.xla.lines()
        return "\n".join([*lines, *(f"assembly of kernel {kernel.name}:\n{text}" for kernel, text in self.assembly)])

    def _split_lines(self) -> list[str]:
        """The kernels that were split in two, and what these take."""
        found = [] if self.split is None else [made.line(kernel) for kernel, made in self.split.kernels.items()]
        for used in self.resources:
            found += [f"kernel {used.kernel}:", *resource_lines(used, self.target, None)]
        return found

    def counts(self) -> str:
        """How many kernels, fusions and other operations there are."""
        count = len(self.kernels)
        kernels = f"{count} kernel{'' if count == 1 else 's'}"
        if self.xla is None:
            return kernels
        return f"{kernels}, {self.xla.counts()}" if count else self.xla.counts()

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each kernel: name, operations, loops, tiles, cells, bytes, flops, transcendentals, bound."""
        return [k.row() for k in self.kernels]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return fragment(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file: one page that needs nothing else where the name ends in `.html`, or `.txt`.

        Raises:
          ArgumentError: another ending.
        """
        suffix = Path(path).suffix
        if suffix not in (".html", ".txt"):
            raise ArgumentError(f"explanations are not saved as {os.fspath(path)!r}", "end the name in .html or .txt")
        Path(path).write_text(page(self) if suffix == ".html" else f"{self}\n")


def explain(
    function: Kernel | Callable[..., Any], *args: Any, target: str | None = None, tiles: Any = None,
    compile: bool = False, measure: bool = False, assembly: bool = False, mesh: Any = None,
    communication: str | None = None, print_passes: bool | None = None, **kwargs: Any,
) -> Explanation:  # fmt: skip
    """What the kernels of a function are at some arguments (arrays or structs): blocks, cost, proofs, derivatives.

    With a `target` (`"tpu:v5e"`, `"cuda:sm_90"`, ...) also the least time by that machine's roofline, and the kernels
    that standard operations become there: what was fused into each and what was not, with the reason, the bytes and
    flops before and after, and the kernels that the target cannot take, which XLA computes. On the CPU there are
    such kernels where machine code is estimated to be faster than XLA, or `tiles` are asked for (see `compile`); a
    function without kernels of its author's is compiled, and XLA's fusions are reported, with the bytes that each
    moves. `function` may be a Kernel.

    With `compile=True` it is compiled for the target, which need not be here, and each kernel has what it takes there:
    VMEM or shared memory, registers, spills, and the compiler's estimate of cycles where there is one; a kernel that
    the device's compiler refused is reported with its reason, and each with its route. On the CPU, XLA's
    fusions are reported beside the kernels, and the loop nest of each kernel that is machine code; with
    `assembly=True`, which implies `compile`, its assembly too. With `measure=True` the function also runs here, on
    arguments that are arrays: `profile` has what took the time, and on the CPU the least times are by what this
    machine was measured to reach. `explain(...).save("report.html")` writes it all as a page with pictures. `target`,
    `tiles` and `print_passes` are those of `compile`.

    For a program on a mesh each collective is reported: its kind and axes, its bytes, your line, and the
    least time that the target's links take. The mesh may be an `AbstractMesh` of any size: `mesh` is the one in force
    meanwhile, arguments may be structs with shardings over it, and no device is needed. `communication="error"` refuses
    what the program does not write itself.

    Raises:
      ArgumentError: an unknown target, `assembly` of another than the CPU.
      CommunicationError: as said.
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
      4 flops, 0 transcendentals, 32 bytes moved, 32 bytes per cell
      proved: 4 of 4 checks
      derivative of x: independent cells, grid axes (0,) parallel
    """
    asked: dict[str, Any] = {} if print_passes is None else {"print_passes": print_passes}
    asked |= {"mesh": mesh} if mesh is not None else {}
    if communication is not None:
        asked["communication"] = communication
    with config(**asked):
        return _explained(function, args, kwargs, target, tiles, compile or assembly, measure, assembly)


def _explained(
    function: Any, args: Any, kwargs: Any, target: str | None, tiles: Any, compile: bool, measure: bool, assembly: bool,
) -> Explanation:  # fmt: skip
    settings = settings_for(default_device(), True, tiles) if target is None else settings_ahead(target, tiles)
    if assembly and settings.target != "cpu":
        raise ArgumentError(f"assembly of kernels for {settings.target}", "leave out target, which is for this CPU")
    unit, name, reports = _begun(function, args, kwargs, settings)
    # For a mesh, which may have no devices, it is planned and not compiled.
    if unit.place is not None or (is_loaded(lazy_layers.mesh) and lazy_layers.partition.on_mesh(unit.program)):
        settings = replace(settings, device=None)
    # Every called kernel is reported, also one whose results are unused.
    first = up_to(PIPELINE, "legalize", {})
    passes = [one for one in first[1:] if settings.tiled or one.name != "transform"]
    settings = replace(settings, explained=True)
    walked = walk(passes, unit, settings, reports)
    reports, fused, verified = walked.reports, walked.reports.get("fuse"), walked.reports.get("verify")
    found = Explanation(
        name, target, () if verified is None else verified.kernels, None if fused is None else fused.fusion,
        tuple(refusals(reports)), split=reports.get("split"), program=walked.value.program,
        machine=target_of(settings.target), profile=_measured(function, args, kwargs) if measure else None,
        loops=loop_sweeps(unit.program),
    )  # fmt: skip
    if reports.get("partition") is not None:
        found = replace(found, communication=reports["partition"])
    chosen = settings.by_cost and found.fusion is not None  # the rest is XLA's, and is of interest too
    told = found.kernels and not chosen or settings.target != "cpu" or found.communication is not None
    if told and not (compile or measure):
        return found
    done = walk(PIPELINE[len(first) :], walked.value, settings, reports)
    if settings.device is None:
        found = _with_resources(found, done.value.resources)
    emitted = done.reports.get("emit")
    if emitted is not None:
        compiled = tuple((k.given, name) for k, name in zip(emitted.kernels, emitted.compiled, strict=True))
        nests = tuple((kernel, "\n".join(code.nest)) for kernel, code in emitted.codes)
        texts = tuple((k, lazy_layers.cpu_kernel_selection.assembly_of(code)) for k, code in emitted.codes if assembly)
        found = replace(found, routes=emitted.routes, nests=nests, assembly=texts, compiled=compiled,
                        passed=emitted.passed)  # fmt: skip
    if found.communication is not None and done.value.executable is not None:
        counted = lazy_layers.collective_report.compiled_collectives(done.value.as_text())
        found = replace(found, communication=replace(found.communication, compiled=counted))
    found = replace(found, refused=tuple(refusals(done.reports)), xla=done.reports.get("compile"))
    return _against(found, _this_machine()) if measure and settings.target == "cpu" else found


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _measured(function: Any, args: Any, kwargs: Any) -> Any:
    """What a call of a function runs, compiled before."""
    call = jit(functools.partial(kernel_call_p.bind, kernel=function) if isinstance(function, Kernel) else function)
    with config(source_lines=True):
        block_until_ready(call(*args, **kwargs))
        with profile() as found:
            block_until_ready(call(*args, **kwargs))
    return found


def _this_machine() -> Target:
    """The CPU as it was measured: its products of float32 and its memory's bandwidth."""
    top = ceilings()
    return replace(CPU, peak=(("float32", top.flops), ("float64", top.flops / 2)), bandwidth=top.bandwidth)


def _against(found: Explanation, machine: Target) -> Explanation:
    """An explanation with the least times that its kernels, and the whole, can take on a machine."""
    least = [roofline(k.kernel, k.bytes_moved, machine) for k in found.kernels]
    kernels = (replace(k, seconds=r.seconds, bound=r.by) for k, r in zip(found.kernels, least, strict=True))
    xla = found.xla and replace(found.xla, machine=machine)
    return replace(found, machine=machine, kernels=tuple(kernels), xla=xla)


def _begun(function: Any, args: Any, kwargs: Any, settings: Settings) -> tuple[Unit, str, Reports]:
    """The first level of a function or a Kernel, with its name."""
    if isinstance(function, Kernel):
        types = function.in_types
        program = trace_program(lambda *xs: kernel_call_p.bind(*xs, kernel=function), types, function.name)
        return Unit(program, Call(function.name)), function.name, {}
    traced = walk(PIPELINE[:1], Request(function, args, kwargs), settings)
    return traced.value, getattr(function, "__name__", "function"), traced.reports


def _with_resources(found: Explanation, resources: Any) -> Explanation:
    """An explanation with what each kernel takes once it is compiled; without it where no call was made of a kernel."""
    left, kernels = [r for r in resources if not r.left_to_xla], []
    for report in found.kernels:
        used = next((r for r in left if r.kernel == report.kernel.name), None)
        if used is not None:
            left.remove(used)
        kernels.append(replace(report, resources=used))
    parts = {} if found.split is None else {k.name for made in found.split.kernels.values() for k in made.kernels}
    return replace(found, kernels=tuple(kernels), resources=tuple(r for r in left if r.kernel in parts))
