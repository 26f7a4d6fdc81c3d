"""The passes over kernels: `fuse`, `verify`, `split`, `legalize`, `emit`, each with its report.

Loaded by the first program that has any.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ..core.ir.passes import primitives_of, rewritten
from ..core.ir.program import Eqn, Program, subprograms
from ..core.ir.verifier import check_program
from ..core.sharding.shard_map import shard_map_p
from ..core.support.config import current
from ..core.support.errors import ArgumentError, CompileError, MeshError, TilewrightError, VersionError
from ..kernels.fuse import Fusion, plan
from ..lang.call.custom_partition import partitioned_p
from ..lang.call.primitive import kernel_call_p
from ..lang.cost.occupancy import Divided, divided
from ..lang.kernel.kernel import Kernel
from ..lang.kernel.traverse import kernels_of
from ..lang.legalize import Legal, stages
from ..lang.ops.mesh_axes import mesh_of
from ..lang.targets.target import CustomCall
from ..lang.transforms.dynamic_grid import static
from ..lang.verify.communication import communicates
from ..lang.verify.target_limits import check_target, left_to_collectives
from ..lang.verify.verify import Finding
from ..xla_backend.options.compile_options import Place, Settings, Unit
from ..xla_backend.pipeline.emit_kernels import emitted
from ..xla_backend.pipeline.expand_primitives import in_place
from . import backend_selection as routes
from . import lazy_layers
from .backend_selection import FAILURES, REFUSALS, Passed, Route
from .cpu_route_policy import candidates
from .kernel_report import KernelReport, kernel_report
from .pass_manager import Reports, show


def has_kernels(program: Program) -> bool:
    """Whether a Program, or one within it, calls a kernel."""
    return kernel_call_p in primitives_of(program)


def has_rules(program: Program) -> bool:
    """Whether a Program, or one within it, has a kernel or a function with a rule of its author's."""
    return not primitives_of(program).isdisjoint((kernel_call_p, partitioned_p))


def made_on_mesh(program: Program, count: int, settings: Settings) -> Any:
    """The kernels of a program on a mesh of so many devices, of standard operations too, to be split.

    Those of standard operations that cannot follow how XLA would split the operations are put back.
    """
    fusion = plan(program, settings.target, settings.tiles, declined=routes.declined, parts=count)
    made = {one.kernel: one.plain for one in fusion.every_kernel}
    return lazy_layers.partition_kernels.Calls(fusion.program, made)


# ---------------------------------------------------------------------------- fuse


@dataclass(frozen=True)
class Fused:
    """What `fuse` made, and which kernels were there before: those that somebody wrote.

    `plain` is what XLA computes in place of each kernel that was made because machine code of it is faster.
    """

    fusion: Fusion | None
    written: frozenset[Kernel]
    plain: Mapping[Kernel, Program] = MappingProxyType({})


def fuse(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Fused]:
    """Standard operations as kernels of the target's, on the CPU those that are faster so.

    For kernels that were tuned, what was decided on.
    """
    unit = replace(unit, program=_without_rules(unit.program))
    written, fusion, program = frozenset(kernels_of(unit.program)), None, unit.program
    plain: dict[Kernel, Program] = {}
    if settings.tiled:
        fusion = plan(program, settings.target, settings.tiles, explained=settings.explained, declined=routes.declined)
        program = fusion.program
    elif settings.by_cost:
        fusion = lazy_layers.cpu_fusion.faster(program, settings.off, settings.checked)
        if fusion is not None:
            program, plain = fusion.program, {one.kernel: one.plain for one in fusion.kernels}
    if settings.tiles is None and (settings.tiled or settings.target != "cpu"):
        fusion, program, changed = lazy_layers.tuned_kernels.tuned(unit.program, fusion, program, settings)
        written = frozenset(changed.get(kernel, kernel) for kernel in written)
    return replace(unit, program=program), Fused(fusion, written, plain)


def _without_rules(program: Program) -> Program:
    """The Program with what a rule would split over a mesh in place of the rules: there is no mesh to split it over."""
    return rewritten(program, lambda p: p is partitioned_p, lambda eqn: in_place(eqn, eqn.params["program"]), {})


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
    """The same unit, each kernel checked against the target's limits; warns where XLA does a kernel's communication.

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
            if (why := left_to_collectives(kernel, settings.target)) is not None:
                refused[kernel] = Refused(kernel, settings.name, why)
                warnings.warn(refused[kernel].line(), RuntimeWarning, stacklevel=2)
        except REFUSALS as error:
            written = kernel in _written(reports)
            if written and not settings.explained:
                raise
            refused[kernel] = Refused(kernel, settings.name, error.with_traceback(None), written)
            findings[kernel] = (Finding(f"runs on {settings.name}", kernel.name, "unknown", error.what),)
    kernel_reports = tuple(_reports(unit.program, settings, reports, findings)) if settings.explained else ()
    return unit, Verified(tuple(refused.values()), kernel_reports)


def _reports(
    program: Program, settings: Settings, reports: Reports, findings: Mapping[Kernel, tuple[Finding, ...]]
) -> Iterator[KernelReport]:
    fusion = reports["fuse"].fusion if "fuse" in reports else None
    made = {} if fusion is None else {k.kernel: k for k in fusion.every_kernel}
    for kernel in kernels_of(program):
        yield kernel_report(kernel, settings.asked, findings.get(kernel, ()), made.get(kernel))


def _written(reports: Reports) -> frozenset[Kernel]:
    """The kernels that somebody wrote, and those that they were split in."""
    written = reports["fuse"].written if "fuse" in reports else frozenset()
    split = reports["split"].kernels if "split" in reports else {}
    return written.union(*(made.kernels for kernel, made in split.items() if kernel in written))


# ---------------------------------------------------------------------------- split


@dataclass(frozen=True)
class Split:
    """The kernels of sums that became two, with what they became."""

    kernels: Mapping[Kernel, Divided]


def split(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Split | None]:
    """The unit with the sums that would leave multiprocessors of a GPU idle as partial sums and their total."""
    if not settings.gpu or settings.by_xla:
        return unit, None
    refused = {r.kernel for r in reports["verify"].refused} if "verify" in reports else frozenset()
    kernels = [k for k in dict.fromkeys(kernels_of(unit.program)) if k not in refused]
    found = {kernel: made for kernel in kernels if (made := divided(kernel, settings.target)) is not None}
    if not found:
        return unit, None

    def changed(eqn: Eqn) -> Eqn:
        made = found.get(eqn.params["kernel"])
        return eqn if made is None else in_place(eqn, made.program)

    program = rewritten(unit.program, lambda primitive: primitive is kernel_call_p, changed, {})
    return replace(unit, program=program), Split(found)


# ---------------------------------------------------------------------------- legalize


@dataclass(frozen=True)
class Way:
    """How a kernel may run on a device: as it was written, and for each of its routes in what that one has rules for.

    `asked`: the kernel itself names its one route.
    """

    kernel: Kernel
    routes: tuple[tuple[Route, Legal], ...]
    asked: bool = False


@dataclass(frozen=True)
class Legalized:
    """The kernels that no route has rules for, and the routes that do not take one that others take."""

    refused: tuple[Refused, ...] = ()
    passed: tuple[Passed, ...] = ()


def legalize(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Legalized | None]:
    """The unit with each kernel in what its first route has rules for; `ways` has what the others take.

    Raises:
      UnsupportedError: a kernel that somebody wrote, with an operation that no route takes.
    """
    if settings.target == "cpu" or settings.by_xla:
        return unit, None
    machine, written = settings.target, _written(reports)
    refused = {r.kernel: r for r in reports["verify"].refused}
    known: dict[Kernel, Kernel] = {}
    ways: dict[Kernel, Way] = {}
    passed: list[Passed] = []
    left: list[Refused] = []

    def made(kernel: Kernel) -> Kernel:
        if kernel.interpret or kernel in refused:
            return kernel
        whole = static(kernel, f"{settings.platform}, where the full grid is launched, needs")
        found, taken = routes.choice(whole, machine), []
        if found.routes and (settings.shown or settings.kernel_stop):
            stopped = _stages_shown(whole, found.routes[0], settings)
            if settings.kernel_stop:
                return stopped
        passed.extend(found.passed)
        for route in found.routes:
            try:
                one = route.legal(whole, machine)
                one.check()
                taken.append((route, one))
            except REFUSALS as error:
                if taken or route is not found.routes[-1]:
                    passed.append(Passed(kernel, route.name, error.what))
                elif settings.explained and (found.asked or kernel in written):
                    left.append(Refused(kernel, settings.name, error.with_traceback(None), True))
                else:
                    left.append(_left(kernel, error, found.asked, settings, written))
        if not taken:
            return kernel
        first = taken[0][1].kernel
        ways[first] = Way(kernel, tuple(taken), found.asked)
        return first

    def change(kernel: Kernel) -> Kernel:
        if kernel not in known:
            known[kernel] = made(kernel)
        return known[kernel]

    unit = replace(unit, program=_each(unit.program, change), ways=ways)
    return unit, Legalized(tuple(left), tuple(passed))


def _stages_shown(kernel: Kernel, route: Route, settings: Settings) -> Kernel:
    """The kernel after the pass `settings.kernel_stop` of its route, or after all; each is printed where asked for."""
    names, text = [], ""
    for one, made in stages(kernel, route.backend.BACKEND, settings.target):
        names.append(one.name)
        if settings.shown:
            text = show(f"kernel {kernel.name} after {route.name}/{one.name}: {one.level}", made, text)
        if one.name == settings.kernel_stop:
            return made
    if settings.kernel_stop:
        raise ArgumentError(f"kernel {kernel.name}: {route.name} has no pass named {settings.kernel_stop!r}",
                            f"one of {', '.join(names)}")  # fmt: skip
    return made


def _each(program: Program, change: Callable[[Kernel], Kernel]) -> Program:
    """The Program with other kernels in its calls."""

    def changed(eqn: Eqn) -> Eqn:
        return eqn.replace(params=eqn.params | {"kernel": change(eqn.params["kernel"])})

    return rewritten(program, lambda primitive: primitive is kernel_call_p, changed, {})


def _left(
    kernel: Kernel, error: TilewrightError, asked: bool, settings: Settings, written: frozenset[Kernel]
) -> Refused:  # fmt: skip
    """A kernel that no route takes, as XLA's; raises the error where that is not what its author wants."""
    strict = current().strict_kernels or not isinstance(error, CompileError)
    if isinstance(error, VersionError) or asked or kernel in written and strict:
        raise error
    one = Refused(kernel, f"the compiler for {settings.name}", error.with_traceback(None))
    if kernel in written:
        warnings.warn(one.line(), RuntimeWarning, stacklevel=2)
    return one


def check_ways(unit: Unit) -> None:
    """Raise an error unless each kernel is well-typed, and in what its first route has rules for."""
    check_bodies(unit.program)
    for way in unit.ways.values():
        way.routes[0][1].check()


def as_written(unit: Unit) -> Unit:
    """The unit with its kernels as they were before `legalize`."""
    program = _each(unit.program, lambda kernel: unit.ways[kernel].kernel if kernel in unit.ways else kernel)
    return replace(unit, program=program, ways={})


# ---------------------------------------------------------------------------- emit


@dataclass(frozen=True)
class Emitted:
    """The kernels that are custom calls now, those that XLA computes because they were refused, and each one's way.

    `codes` are those that are machine code of this CPU; `compiled` are the names of the routes that took `kernels`;
    `passed` are the rejections by routes; `before` is the unit with its kernels, as they were written.
    """

    kernels: tuple[Legal, ...] = ()
    refused: tuple[Refused, ...] = ()
    routes: tuple[tuple[Kernel, str], ...] = ()
    compiled: tuple[str, ...] = ()
    passed: tuple[Passed, ...] = ()
    before: Unit | None = None
    codes: tuple[tuple[Kernel, Any], ...] = ()


def emit(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Emitted]:
    """The unit without kernels: custom calls of the device's, or the array operations that XLA computes.

    A route that does not take a kernel, or whose compiler fails, leaves it to the next one, at last to XLA. What
    somebody wrote is left to XLA only where a compiler fails, with a warning, and with `strict_kernels` never.

    Raises:
      DtypeError, ResourceError, UnsupportedError: as `verify`, where only lowering the kernel can tell.
      VersionError: a compiler is missing. CompileError: of the one compiler that a kernel asks for.
    """
    if settings.target == "cpu" or settings.by_xla:
        calls = None
        if not settings.by_xla and candidates(unit.program, settings.off):
            taken = {i + len(unit.constants) for i in unit.call.donated}
            kept = [v for i, v in enumerate(unit.program.inputs) if i not in taken]
            calls = lazy_layers.cpu_kernel_selection.Calls(unit.program, settings.off, settings.checked, kept)
        plain = reports["fuse"].plain if "fuse" in reports else {}
        program, ways = emitted(unit.program, calls, settings.off, plain)
        if calls is not None:
            ways = tuple((kernel, calls.told(kernel, way)) for kernel, way in ways)
        codes = () if calls is None else tuple(calls.codes.items())
        return replace(unit, program=program), Emitted(routes=ways, codes=codes)
    before, machine, written = as_written(unit), settings.target, _written(reports)
    _check_devices(before.program, unit.place)
    legal: Legalized = reports["legalize"]
    refused = {r.kernel: r for r in (*reports["verify"].refused, *legal.refused)}
    made: list[tuple[Legal, str]] = []
    passed = [*legal.passed]
    routes.start([way.routes[0] for way in unit.ways.values()], machine)

    def call(kernel: Kernel) -> CustomCall | Kernel:
        if kernel in refused and refused[kernel].written:
            raise refused[kernel].error
        way = unit.ways.get(kernel, Way(kernel, ()))
        for number, (route, one) in enumerate(way.routes, 1):
            try:
                found = route.ready.emit(one, machine)
            except (*FAILURES, VersionError) as error:
                if number < len(way.routes):
                    passed.append(Passed(way.kernel, route.name, error.what))
                else:
                    refused[way.kernel] = _left(way.kernel, error, way.asked, settings, written)
                continue
            made.append((one, route.name))
            return found
        return way.kernel

    program, ways = emitted(unit.program, call)
    kernels, names = zip(*made, strict=True) if made else ((), ())
    routed = tuple((unit.ways[kernel].kernel if kernel in unit.ways else kernel, way) for kernel, way in ways)
    unit = replace(unit, program=program, ways={})
    return unit, Emitted(kernels, tuple(refused.values()), routed, names, tuple(passed), before)


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

    Raises:
      CompileError: the given one, for what somebody wrote with `strict_kernels`.
    """
    found = reports.get("emit")
    if found is None or found.before is None or not found.kernels:
        return None
    unit, done = emit(found.before, replace(settings, by_xla=True), reports)
    by, written = f"the compiler for {settings.name}", _written(reports)
    failed = [Refused(kernel.given, by, error.with_traceback(None)) for kernel in found.kernels]
    for one in failed:
        if one.kernel in written:
            if current().strict_kernels:
                raise error
            warnings.warn(one.line(), RuntimeWarning, stacklevel=2)
    reports["emit"] = replace(done, refused=(*found.refused, *failed))
    return unit


def refusals(reports: Reports) -> Iterator[Refused]:
    """The kernels that XLA computes because the target or its compiler refused them, each once."""
    for found in [reports["emit"]] if "emit" in reports else [reports.get("verify"), reports.get("legalize")]:
        yield from found.refused if found is not None else ()
