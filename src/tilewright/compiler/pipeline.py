"""The walk from a Python function to something that runs: a list of passes, and what runs it.

function -trace-> program -transform-> program -partition-> program -fuse-> kernels -expand-> expanded
         -verify-> expanded -split-> expanded -legalize-> legal -emit-> emitted -print-> module -compile-> executable
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.ir.backend import Interceptors
from ..core.ir.binding import is_evaluating
from ..core.ir.extension_types import opaque_types
from ..core.ir.passes import eliminate_dead
from ..core.ir.program import Program
from ..core.ir.types import ArrayType
from ..core.ir.verifier import check_program
from ..core.jit import jit
from ..core.primitives.spmd import varying_axes
from ..core.random import key_lowering
from ..core.random.key_lowering import physicalize
from ..core.support import compile_events
from ..core.support.compile_events import recorded
from ..core.support.config import config, current
from ..core.support.errors import ArgumentError, NonFiniteError
from ..core.support.lazy_imports import is_loaded
from ..core.support.runtime import runtime
from ..xla_backend.arrays.array import Array, from_host
from ..xla_backend.cpu_passes.options import ZEROS, switched_off
from ..xla_backend.devices.client import Device, as_device, default_device, of_platform
from ..xla_backend.execution.backend import XlaBackend, with_flags
from ..xla_backend.execution.executable import compile_module
from ..xla_backend.options.compile_options import Call, Place, Settings, Unit
from ..xla_backend.pipeline.expand_primitives import check_expanded, expand, expand_sweeps, require_rules
from ..xla_backend.pipeline.stablehlo_module import Module, check_module, printed
from . import lazy_layers
from .large_reductions import has_large_reduction
from .pass_manager import Level, Pass, Reports, up_to, walk

if TYPE_CHECKING:
    from ..lang.targets.target import Target

# ---------------------------------------------------------------------------- passes


class Request(NamedTuple):
    """A function, and the arguments (arrays or structs) that it is compiled for."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _trace(request: Request, settings: Settings, reports: Reports) -> tuple[Unit, Any]:
    """The report is the `Traced`, which knows how the function is called."""
    function = request.function if hasattr(request.function, "__jit__") else jit.jit(request.function)
    with config(kernel_target=settings.asked or current().kernel_target):
        traced = function.trace(*request.args, **request.kwargs)
    place = None if traced.place is None else Place(*traced.place)
    return Unit(traced.program, Call(*traced.call), place=place), traced


def _transform(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, None]:
    program = physicalize(unit.program, keys=False) if opaque_types else unit.program
    return replace(unit, program=expand_sweeps(eliminate_dead(program)[0])), None


def _partition(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Any]:
    """What runs on a mesh, with what it communicates where that is asked for; other programs are left as they are."""
    here = settings.device is not None
    if unit.place is None and not (is_loaded(lazy_layers.mesh) and lazy_layers.partition.on_mesh(unit.program, here)):
        inspected = is_loaded(lazy_layers.visualize)
        return lazy_layers.inspect_sharding.inspected_on_one_device(unit, settings.device) if inspected else unit, None
    unit, told = lazy_layers.partition.partition(unit, settings, _text, lazy_layers.shardy, _kernels(unit, settings))
    refused = current().communication == "error"
    if not (settings.explained or refused):
        return unit, None
    found = lazy_layers.collective_report.communication(_text(unit, replace(settings, located=True)), settings.name)
    if refused:
        found.refuse(unit.call.name)
    return unit, found if told is None else replace(found, split=told.split, whole=told.whole, left=told.left)


def _kernels(unit: Unit, settings: Settings) -> Any:
    """What finds the kernels of a program on a mesh of some size; standard operations become kernels first."""
    if settings.tiled:
        return functools.partial(lazy_layers.kernel_passes.made_on_mesh, settings=settings)
    ruled = is_loaded(lazy_layers.lang) and lazy_layers.kernel_passes.has_rules(unit.program)
    if ruled or lazy_layers.partition_operations.has_operations(unit.program):
        return lambda program, count: lazy_layers.partition_kernels.Calls(program)
    return None


def _text(unit: Unit, settings: Settings) -> str:
    """The text of a unit that is partitioned, as far as it is."""
    return walk(PARTITIONED, unit, replace(settings, shown=False)).value.text


def _fuse(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Any]:
    # Operations on whole arrays of a mesh are left to XLA, which would gather the operands of a kernel.
    tiled, by_cost = settings.tiled and unit.place is None, settings.by_cost and unit.place is None
    if not (tiled or by_cost and has_large_reduction(unit.program) or _has_kernels(unit)):
        return unit, None
    return lazy_layers.kernel_passes.fuse(unit, replace(settings, tiled=tiled, by_cost=by_cost), reports)


def _expand(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, None]:
    return expand(unit, windows=settings.target == "cpu" and "scan_windows" not in settings.off), None


def _verify(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Any]:
    return lazy_layers.kernel_passes.verify(unit, settings, reports) if _has_kernels(unit) else (unit, None)


def _split(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Any]:
    return lazy_layers.kernel_passes.split(unit, settings, reports) if _has_kernels(unit) else (unit, None)


def _legalize(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Any]:
    return lazy_layers.kernel_passes.legalize(unit, settings, reports) if _has_kernels(unit) else (unit, None)


def _emit(unit: Unit, settings: Settings, reports: Reports) -> tuple[Unit, Any]:
    report = None
    if _has_kernels(unit):
        unit, report = lazy_layers.kernel_passes.emit(unit, settings, reports)
    require_rules(unit.program)
    return unit, report


def _has_kernels(unit: Unit) -> bool:
    """Whether there are kernels in a unit; none where nothing has loaded the kernel language yet."""
    return is_loaded(lazy_layers.lang) and lazy_layers.kernel_passes.has_kernels(unit.program)


def _print(unit: Unit, settings: Settings, reports: Reports) -> tuple[Module, None]:
    return replace(printed(unit, settings), reports=reports), None


def _compile(module: Module, settings: Settings, reports: Reports) -> tuple[Any, Any]:
    if settings.device is None:
        binary = lazy_layers.ahead_of_time.compile_ahead(module, settings)
        alone = module.place is None or module.place.count == 1  # libtpu's estimate of several devices ends its process
        return lazy_layers.ahead_of_time.estimated(binary) if settings.explained and alone else binary, None
    executable = compile_module(module, settings.device)
    if not settings.explained:
        return executable, None
    return executable, lazy_layers.hlo_report.xla_report(executable, lazy_layers.target.target_of(settings.target))


def _check_kernels(unit: Unit) -> None:
    check_program(unit.program)
    if _has_kernels(unit):
        lazy_layers.kernel_passes.check_bodies(unit.program)


def _check_legal(unit: Unit) -> None:
    check_expanded(unit)
    if _has_kernels(unit):
        lazy_layers.kernel_passes.check_ways(unit)


FUNCTION = Level("function")
PROGRAM = Level("program", lambda unit: check_program(unit.program))
KERNELS = Level("kernels", _check_kernels)
EXPANDED = Level("expanded", lambda unit: check_expanded(unit))
LEGAL = Level("legal", _check_legal)
EMITTED = Level("emitted", lambda unit: check_expanded(unit, emitted=True))
MODULE = Level("module", check_module)
EXECUTABLE = Level("executable")

PIPELINE = (
    Pass("trace", FUNCTION, PROGRAM, _trace),
    Pass("transform", PROGRAM, PROGRAM, _transform),
    Pass("partition", PROGRAM, PROGRAM, _partition),
    Pass("fuse", PROGRAM, KERNELS, _fuse),
    Pass("expand", KERNELS, EXPANDED, _expand),
    Pass("verify", EXPANDED, EXPANDED, _verify),
    Pass("split", EXPANDED, EXPANDED, _split),
    Pass("legalize", EXPANDED, LEGAL, _legalize),
    Pass("emit", LEGAL, EMITTED, _emit),
    Pass("print", EMITTED, MODULE, _print),
    Pass("compile", MODULE, EXECUTABLE, _compile),
)
LOWER, PARTITIONED = PIPELINE[1:-1], PIPELINE[3:-1]
# Names of stages that are not their pass's own.
STAGES = {
    "program": "trace", "transformed": "transform", "kernels": "fuse", "module": "print", "executable": "compile",
}  # fmt: skip

# ---------------------------------------------------------------------------- what passes are given


def settings_for(device: Device, tiled: bool = False, tiles: Any = None, print_passes: bool | None = None) -> Settings:
    """How programs are lowered for a device of this process; `tiled`, and on the CPU also asked for: with kernels."""
    now = current()
    shown = now.print_passes if print_passes is None else print_passes
    target = "cpu" if device.platform == "cpu" else lazy_layers.ahead_of_time.machine_of(device)
    off, by_cost = frozenset[str](), False
    if target == "cpu":
        off = switched_off()
        by_cost = tiled and tiles is None and now.cpu_tiles is None and now.cpu_route is None and ZEROS not in off
        tiled = tiled and bool(tiles or now.cpu_tiles)
    tiles = None if tiles is True else tiles
    return Settings(target, tiled, tiles, by_cost, device=device, off=off, checked=now.debug_checks,
                    shown=shown, located=now.source_lines)  # fmt: skip


# A target in place of a platform: XLA computes the kernels, so that any device of the platform can run them.
_ANY = {"cuda": "cuda:sm_90", "rocm": "rocm:gfx942", "tpu": "tpu:v5e"}
PLATFORMS = ("cpu", *_ANY)


def settings_of_platform(name: str) -> tuple[str, Settings]:
    """The platform of a platform's or target's name, and how programs for it are lowered.

    Raises:
      ArgumentError: an unknown name.
    """
    if name == "cpu":
        return name, settings_for(of_platform("cpu")[0])
    if name in _ANY:
        return name, replace(settings_ahead(_ANY[name]), tiled=False, by_xla=True)
    if name.partition(":")[0] in _ANY:
        found = settings_ahead(name)
        return found.platform, found
    known = ", ".join((*PLATFORMS, *lazy_layers.target.TARGETS))
    raise ArgumentError(f"there is no platform {name!r}", f"one of {known}")


def settings_ahead(target: str, tiles: Any = None, print_passes: bool | None = None) -> Settings:
    """How programs are lowered for a target that need not be here.

    Raises:
      ArgumentError: an unknown target.
    """
    machine, now = lazy_layers.target.target_of(target), current()
    shown = now.print_passes if print_passes is None else print_passes
    if machine.kind == "cpu":
        found = settings_for(of_platform("cpu")[0], True, tiles, print_passes)
        return replace(found, asked=target)
    return Settings(machine, True, None if tiles is True else tiles, asked=target, checked=now.debug_checks,
                    shown=shown, located=now.source_lines)  # fmt: skip


# ---------------------------------------------------------------------------- running them


def lower(unit: Unit, device: Device, tiled: bool = False, tiles: Any = None) -> Module:
    """The module of a Program for a device of this process; `tiled`: its standard operations may become kernels."""
    if unit.place is not None:
        device = next((s.mesh.flat[0] for s in (*unit.place.ins, *unit.place.outs) if hasattr(s, "mesh")), device)
    with recorded(compile_events.LOWER, unit.call.name):
        module = walk(LOWER, unit, settings_for(device, tiled, tiles)).value
    return replace(module, again=functools.partial(lower, unit, tiled=tiled, tiles=tiles))


class Backend(XlaBackend):
    """XLA behind the pipeline: its compilations are printed as a pass where that is asked for."""

    def lower(
        self, program: Program, name: str, donated: Sequence[int] = (), keep_unused: bool = False, place: Any = None,
        tiled: bool = True, platform: str | None = None,
    ) -> Module:  # fmt: skip
        """The module of a Program; `place` gives the shardings of its inputs and of its results."""
        where = None if place is None else Place(*place)
        unit = Unit(program, Call(name, tuple(donated), keep_unused), place=where)
        if platform is None:
            return lower(unit, default_device(), tiled)
        return walk(LOWER, unit, replace(settings_of_platform(platform)[1], device=None)).value

    def array(self, array: np.ndarray, type: ArrayType, owned: bool) -> Array:
        """An Array of a NumPy array; under a mesh with devices it is on all of them."""
        if current().mesh is not None and is_evaluating():
            found = lazy_layers.sharded_execution.put_everywhere(array, type)
            if found is not None:
                return found
        return from_host(array, type, owned)

    def platform(self) -> str:
        """The platform of the default device: `cpu`, `cuda`, `rocm` or `tpu`."""
        found = default_device().platform
        return {"gpu": "cuda"}.get(found, found)

    def target(self) -> Target:
        """The target that the default device is."""
        return lazy_layers.ahead_of_time.here()

    def located(self, program: Program, values: Sequence[Any], error: NonFiniteError) -> NonFiniteError:
        """The error that a Program's result is not finite, with the equation that first gave such a value."""
        now = current()
        return lazy_layers.nan_locator.located(program, values, now.debug_nans, now.debug_infs, error)

    def compile(self, module: Module, device: Any = None, flags: Sequence[tuple[str, Any]] = ()) -> Any:
        """The executable of a module, on the default device unless one is named, with flags of XLA's."""
        if not current().print_passes:
            return super().compile(module, device, flags)
        module = with_flags(module, flags)
        where = default_device() if device is None else as_device(device)
        return walk(PIPELINE[-1:], module, settings_for(where)).value


def compile(
    f: Any, *args: Any, target: str | None = None, stop: str = "executable", tiles: Any = None,
    print_passes: bool | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """A function at one stage of compilation, for arguments given as arrays or by shape and dtype.

    `stop` is the last pass that is run: `trace` (derivatives and batching are done in it), `transform` (dead code
    goes), `fuse` (kernel calls and glue; on the CPU kernels that are faster than XLA, or all if `tiles` are asked for),
    `expand` (what XLA lacks, in what it has), `verify` (kernels against the target), `split` (sums that would leave
    multiprocessors of a GPU idle, in two kernels), `legalize` (what a kernel's backend lacks, in what that one has;
    `legalize/NAME` ends with one pass of the kernels' backend), `emit` (no kernels, but what runs them), `print` (the
    text given to the target's compiler) or `compile` (what can be called). What they give may be asked for by its own
    name: `program`, `transformed`, `kernels`, `module`, `executable`. Every stage prints as text.

    `target` is a device that need not be here. `tiles` is True for the target's own, a function from a kernel's `Loops`
    to its tiles, or a mapping from kernel names to tiles. `print_passes` prints the program after each pass, and its
    time, to the standard error; the setting of that name does so for every program.

    Raises:
      ArgumentError: an unknown stage or target; tiles that do not fit a kernel's loops or the target.

    >>> from tilewright import ShapeDtypeStruct
    >>> print(compile(lambda x: x + 1.0, ShapeDtypeStruct((3,), "float32"), stop="module").count("stablehlo.add"))
    1
    """
    stop, _, kernel_stop = stop.partition("/")
    passes = up_to(PIPELINE, stop, STAGES)
    if kernel_stop and stop != "legalize":
        raise ArgumentError(f"{stop} has no passes of its own", "ask for `legalize/NAME`, a pass over kernels")
    if target is None:
        settings = settings_for(default_device(), True, tiles, print_passes)
    else:
        settings = settings_ahead(target, tiles, print_passes)
    begun = walk(passes[:1], Request(f, args, kwargs), settings)
    unit, traced = begun.value, begun.reports["trace"]
    if len(passes) == 1:
        return unit.program
    if settings.device is not None and traced.device is not None:
        settings = replace(settings_for(as_device(traced.device), True, tiles, print_passes), asked=target)
    walked = walk(passes[1:], unit, replace(settings, kernel_stop=kernel_stop), begun.reports)
    if isinstance(walked.value, Unit):
        return walked.value.program
    if isinstance(walked.value, Module):
        return walked.value.text
    if settings.device is None:
        return lazy_layers.ahead_of_time.running_here(walked.value, traced.lower)
    return traced.compiled(walked.value)


def install() -> None:
    """Hand the backend and the interceptors of binds to the runtime."""
    interceptors = Interceptors(
        mutable_refs=lazy_layers.mutable_arrays, opaque_values=key_lowering, varying_axes=varying_axes,
        sharded_types=lazy_layers.sharding_in_types,
    )  # fmt: skip
    runtime.install(Backend(), interceptors)
