"""A Program compiled for a device that need not be here: kernels by the device's backend, the rest by XLA."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.support.config import config
from ..core.support.errors import CompileError, UnsupportedError
from ..lang.targets.target import CPU, KIB, TARGETS, Resources, Target, target_of
from ..mosaic_tpu.resources import resources
from ..xla_backend.analysis.tpu_cost_model import estimates
from ..xla_backend.devices import cuda_plugin as cuda
from ..xla_backend.devices import tpu_plugin as tpu
from ..xla_backend.devices.client import default_device, of_platform, present
from ..xla_backend.options.compile_options import Settings
from ..xla_backend.pipeline.expand_primitives import require_rules
from ..xla_backend.pipeline.stablehlo_module import Module, printed
from .backend_selection import ROUTES
from .kernel_passes import left_to_xla, refusals

# What compiles the programs of a family.
COMPILERS = {"cuda": cuda, "rocm": cuda, "tpu": tpu}

# What a program may have of shared memory, in KiB, on GPUs that are in no table of their own; CUDA programming guide,
# table of compute capabilities.
SHARED = {(8, 6): 99, (8, 7): 163, (8, 9): 99, (10, 3): 227, (11, 0): 227, (12, 0): 99, (12, 1): 99}


def machine_for(capability: tuple[int, int], name: str = "the GPU") -> Target:
    """The target of a GPU that is here: its own, or that of sm_80, whose code runs on all that came later.

    Raises:
      UnsupportedError: an architecture older than sm_80, or one that is not known.

    >>> machine_for((8, 9)).fast_bytes // 1024
    99
    """
    own = TARGETS.get(f"cuda:sm_{capability[0]}{capability[1]}")
    if own is not None:
        return own
    if capability not in SHARED:
        raise UnsupportedError(
            f"{name} has compute capability {capability[0]}.{capability[1]}; kernels are compiled for "
            f"{', '.join(f'{a}.{b}' for a, b in sorted({(8, 0), (9, 0), (10, 0), *SHARED}))}",
            "a GPU of one of these, or `with default_device('cpu')`",
        )
    shared = SHARED[capability] * KIB
    return replace(TARGETS["cuda:sm_80"], fast_bytes=shared, block_bytes=shared // 2)


def machine_of(device: Any) -> Target:
    """The target of a GPU or TPU of this process.

    Raises:
      UnsupportedError: a device that no target describes.
    """
    if device.platform == "tpu":
        if device.device_kind not in tpu.KINDS:
            raise UnsupportedError(
                f"{device.device_kind} is a TPU that kernels are not compiled for",
                f"one of {', '.join(sorted(tpu.KINDS))}, or `with default_device('cpu')`",
            )
        return target_of(tpu.KINDS[device.device_kind])
    return machine_for(cuda.capability(device.raw), device.device_kind)


def device_for(target: str) -> Any:
    """A device of this process that programs for a target run on, None if there is none."""
    machine = target_of(target)
    platform = {"tpu": "tpu", "cuda": "gpu"}.get(machine.kind)
    if platform not in present():
        return None
    for device in of_platform(platform):
        with contextlib.suppress(UnsupportedError):
            if machine_of(device).name == machine.name:
                return device
    return None


def running_here(binary: Any, lower: Callable[[], Any]) -> Any:
    """A compiled program that runs where this process has a device of its target, compiled there by `lower()`."""

    def load() -> Callable[..., Any] | None:
        device = device_for(binary.target)
        if device is None:
            return None
        with config(default_device=device):
            return lower().compile()

    return replace(binary, here=load)


def here() -> Target:
    """The target that the default device of this process is."""
    device = default_device()
    return CPU if device.platform == "cpu" else machine_of(device)


def compile_ahead(module: Module, settings: Settings) -> Any:
    """What the compiler of a device, which need not be here, makes of a module.

    Where it fails on a program with kernels, XLA computes them, and the report of `emit` says so.

    Raises:
      CompileError: it fails on a program without kernels, or without them too.
    """
    try:
        return _compiled(module, settings)
    except CompileError as error:
        unit = left_to_xla(settings, module.reports, error)
        if unit is None:
            raise
    require_rules(unit.program)
    return _compiled(replace(printed(unit, settings), reports=module.reports), settings)


def _compiled(module: Module, settings: Settings) -> Any:
    emitted, found = module.reports.get("emit"), None
    made = () if emitted is None else tuple(zip(emitted.kernels, emitted.compiled, strict=True))
    for route in ROUTES[settings.target.kind]:
        mine = [kernel for kernel, name in made if name == route.name]
        if found is None:
            build = COMPILERS[settings.target.kind].compile
            if module.place is not None:
                build = functools.partial(build, count=module.place.count)
            found = route.ready.compile(module.text, module.name, settings.name, mine, build)
        elif mine:
            more = route.ready.compile(module.text, module.name, settings.name, mine, lambda *_, made=found: made)
            both = {name: (*getattr(found, name), *getattr(more, name)) for name in ("resources", "kernels")}
            found = replace(found, **both)
    limit = settings.target.fast_bytes
    left = tuple(Resources(r.kernel.name, 0, limit, left_to_xla=r.why) for r in refusals(module.reports))
    return found if found is None or not left else replace(found, resources=(*found.resources, *left))


def estimated(binary: Any) -> Any:
    """A compiled program whose resources have the compiler's estimates too: cycles, instruction words, spills.

    libtpu makes them while it compiles the program once more, in a process of its own; the compilers for GPUs have told
    all they know.

    Raises:
      CompileError: the other process fails.
    """
    machine = target_of(binary.target)
    if machine.kind != "tpu":
        return binary
    found = resources(binary.as_text(), machine, estimates(binary.module, binary.target))
    left = [used for used in binary.resources if used.left_to_xla]
    noted = zip(found, [used for used in binary.resources if not used.left_to_xla], strict=True)
    return replace(binary, resources=(*(replace(used, note=old.note) for used, old in noted), *left))
