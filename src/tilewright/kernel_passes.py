"""The passes over kernels: `fuse`, `verify`, `emit`, each with its report. Loaded by the first program that has any."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import routes
from .core.check import check_program
from .core.errors import CompileError, MeshError, TilewrightError, VersionError
from .core.ir import Program, subprograms
from .core.rewrite import primitives_of
from .core.shard_map import shard_map_p
from .kernel_report import KernelReport, kernel_report
from .kernels.fuse import Fusion, plan
from .lang.alone import communicates
from .lang.devices import mesh_of
from .lang.kernel import Kernel
from .lang.legality import check_target
from .lang.partition import splits
from .lang.primitive import kernel_call_p
from .lang.target import CustomCall
from .lang.verify import Finding
from .lang.visit import kernels_of
from .loader import part
from .passes import Reports
from .routes import FAILURES, REFUSALS, Passed
from .xla_backend.emission import emitted
from .xla_backend.settings import Place, Settings, Unit


def has_kernels(program: Program) -> bool:
    """Whether a Program, or one within it, calls a kernel."""
    return kernel_call_p in primitives_of(program)


def whole_on_mesh(program: Program) -> tuple[tuple[str, str], ...]:
    """The kernels of a program on a mesh that are called on whole arrays, and why."""
    kernels = dict.fromkeys(e.params["kernel"] for e in part("partition").whole_calls(program, kernel_call_p))
    unsplit = "what it is given is not split along axes of its grid, or not into whole blocks"
    return tuple((k.name, found if isinstance(found := splits(k), str) else unsplit) for k in kernels)


# ---------------------------------------------------------------------------- fuse


@dataclass(frozen=True)
class Fused:
    """What `fuse` made, and which kernels were there before: those that somebody wrote."""

    fusion: Fusion | None
    written: frozenset[Kernel]


def fuse(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Fused]:
    """Standard operations as kernels of the target's; for kernels that were tuned, what was decided on."""
    written, fusion, program = frozenset(kernels_of(unit.program)), None, unit.program
    if settings.tiled:
        fusion = plan(program, settings.target, settings.tiles, explained=settings.explained, declined=routes.declined)
        program = fusion.program
    if settings.tiles is None and (settings.tiled or settings.target != "cpu"):
        fusion, program, changed = part("tuned kernels").tuned(unit.program, fusion, program, settings)
        written = frozenset(changed.get(kernel, kernel) for kernel in written)
    return replace(unit, program=program), Fused(fusion, written)


def check_bodies(program: Program) -> None:
    """Raise `ProgramError` unless the body and the index maps of each kernel are well-typed Programs."""
    for kernel in kernels_of(program):
        for inner in (kernel.body, *(b.index_map for b in kernel.blocks if b.index_map is not None)):
            check_program(inner)


# ---------------------------------------------------------------------------- verify


@dataclass(frozen=True)
class Refused:
    """A kernel that a target or its compiler did not take. XLA computes it instead, unless somebody wrote it so."""

    kernel: Kernel
    by: str
    error: TilewrightError
    written: bool = False

    @property
    def why(self) -> str:
        return self.error.what

    def line(self) -> str:
        what = "cannot run" if self.written else "is computed by XLA"
        return f"kernel {self.kernel.name} {what}: {self.by} refused it: {self.why}"


@dataclass(frozen=True)
class Verified:
    """Those kernels that a target cannot take, and with `explained` the report on each kernel."""

    refused: tuple[Refused, ...] = ()
    kernels: tuple[KernelReport, ...] = ()


def verify(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Verified]:
    """The same unit, each kernel held against what the target has.

    Raises:
      DtypeError, ResourceError, UnsupportedError: a kernel that the user wrote, and that the target cannot take.
    """
    refused: dict[Kernel, Refused] = {}
    findings: dict[Kernel, tuple[Finding, ...]] = {}
    for kernel in dict.fromkeys(kernels_of(unit.program)):
        if settings.target == "cpu" or settings.by_xla or kernel.interpret:
            continue
        try:
            findings[kernel] = tuple(check_target(kernel, settings.target))
        except REFUSALS as error:
            written = kernel in _written(reports)
            if written and not settings.explained:
                raise
            refused[kernel] = Refused(kernel, settings.name, error.with_traceback(None), written)
            findings[kernel] = (Finding(f"runs on {settings.name}", kernel.name, "unknown", error.what),)
    told = tuple(_reports(unit.program, settings, reports, findings)) if settings.explained else ()
    return unit, Verified(tuple(refused.values()), told)


def _reports(
    program: Program, settings: Settings, reports: Reports, findings: Mapping[Kernel, tuple[Finding, ...]]
) -> Iterator[KernelReport]:
    fusion = reports["fuse"].fusion if "fuse" in reports else None
    made = {} if fusion is None else {k.kernel: k for k in fusion.every_kernel}
    for kernel in kernels_of(program):
        yield kernel_report(kernel, settings.asked, findings.get(kernel, ()), made.get(kernel))


def _written(reports: Reports) -> frozenset[Kernel]:
    """The kernels that somebody wrote."""
    return reports["fuse"].written if "fuse" in reports else frozenset()


# ---------------------------------------------------------------------------- emit


@dataclass(frozen=True)
class Emitted:
    """The kernels that are custom calls now, those that XLA computes because they were refused, and each one's way.

    `compiled` are the names of the routes that took `kernels`; `passed` tells of routes that did not take one;
    `before` is the unit with its kernels.
    """

    kernels: tuple[Kernel, ...] = ()
    refused: tuple[Refused, ...] = ()
    routes: tuple[tuple[Kernel, str], ...] = ()
    compiled: tuple[str, ...] = ()
    passed: tuple[Passed, ...] = ()
    before: Unit | None = None


def emit(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Emitted]:
    """The unit without kernels: custom calls of the device's, or the array operations that XLA computes.

    A route that does not take a kernel, or whose compiler fails, leaves it to the next one, at last to XLA. What
    somebody wrote is left to XLA only where a compiler fails, with a warning.

    Raises:
      DtypeError, ResourceError, UnsupportedError: as `verify`, where only lowering the kernel can tell.
      VersionError: a compiler is missing. CompileError: of the one compiler that a kernel asks for.
    """
    if settings.target == "cpu" or settings.by_xla:
        program, ways = emitted(unit.program, settings.platform, off=settings.off)
        return replace(unit, program=program), Emitted(routes=ways)
    _check_devices(unit.program, unit.place)
    machine, written = settings.target, _written(reports)
    refused = {r.kernel: r for r in reports["verify"].refused}
    made: list[tuple[Kernel, str]] = []
    passed: list[Passed] = []
    routes.start([k for k in kernels_of(unit.program) if not k.interpret and k not in refused], machine)

    def call(kernel: Kernel) -> CustomCall | None:
        if kernel in refused:
            if refused[kernel].written:
                raise refused[kernel].error
            return None
        found = routes.choice(kernel, machine)
        passed.extend(found.passed)
        for route in found.routes:
            try:
                one = route.ready.emit(kernel, machine)
            except (*FAILURES, VersionError) as error:
                if route is not found.routes[-1]:
                    passed.append(Passed(kernel, route.name, error.what))
                    continue
                failed = isinstance(error, CompileError)
                if isinstance(error, VersionError) or found.asked or kernel in written and not failed:
                    raise
                refused[kernel] = Refused(kernel, f"the compiler for {settings.name}", error.with_traceback(None))
                if kernel in written:
                    warnings.warn(refused[kernel].line(), RuntimeWarning, stacklevel=2)
                return None
            if one is not None:
                made.append((kernel, route.name))
            return one
        return None

    program, ways = emitted(unit.program, settings.platform, call)
    kernels, names = zip(*made, strict=True) if made else ((), ())
    return replace(unit, program=program), Emitted(kernels, tuple(refused.values()), ways, names, tuple(passed), unit)


def _check_devices(program: Program, place: Place | None) -> None:
    """Devices have the numbers by which kernels name them: raise a `MeshError` where they are not those of the program.

    XLA, which computes such a kernel otherwise, goes by names of axes.
    """
    for eqn in program.eqns:
        mesh: Any = eqn.params.get("mesh") if eqn.primitive is shard_map_p else None
        for _, inner in subprograms(eqn):
            if mesh is None:
                _check_devices(inner, place)
                continue
            axes = tuple(mesh.shape.items())
            for kernel in filter(communicates, kernels_of(inner)):
                found = mesh_of(kernel.body)
                if found != axes:
                    raise MeshError(
                        f"kernel {kernel.name}, which names other devices, knows the axes {dict(found)} of {mesh}",
                        "call it in one `shard_map` over all axes of the mesh", kernel.source)  # fmt: skip
                devices = None if place is None else place.devices
                if devices is not None and tuple(getattr(mesh, "flat", devices)) != tuple(devices):
                    raise MeshError(
                        f"kernel {kernel.name}, which names other devices, is called on {mesh}, whose devices are in "
                        "another order than those of the program", "use one mesh", kernel.source)  # fmt: skip


def left_to_xla(settings: Settings, reports: Reports, error: CompileError) -> Unit | None:
    """The unit again, with XLA in place of the kernels of a program that the device's compiler failed on.

    None where there were no kernels. The report of `emit` is the new one; what somebody wrote is warned of.
    """
    found = reports.get("emit")
    if found is None or found.before is None or not found.kernels:
        return None
    unit, done = emit(found.before, replace(settings, by_xla=True), reports)
    by, written = f"the compiler for {settings.name}", _written(reports)
    failed = [Refused(kernel, by, error.with_traceback(None)) for kernel in found.kernels]
    for one in failed:
        if one.kernel in written:
            warnings.warn(one.line(), RuntimeWarning, stacklevel=2)
    reports["emit"] = replace(done, refused=(*found.refused, *failed))
    return unit


def refusals(reports: Reports) -> Iterator[Refused]:
    """The kernels that XLA computes because the target or its compiler refused them, each once."""
    found = reports["emit"] if "emit" in reports else reports.get("verify")
    yield from found.refused if found is not None else ()
