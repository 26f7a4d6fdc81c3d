"""The routes of a kernel on a device: which backend compiles it, and which takes it where that one does not.

On Hopper GPUs a kernel has three: Mosaic GPU's, for products of matrices, Triton's, for everything, and CUTLASS's, for
one product with an elementwise epilogue. The class of `compiler_params` asks for one, the setting `kernel_route` puts
one first; else it is the one of the first two that is estimated to give the faster code. CUTLASS's compiler takes a
minute a kernel, so it is never taken unasked. A backend that refuses a kernel, or whose compiler fails, leaves it to
the next route, at last to XLA, and the reason is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .. import cutlass_backend, mosaic_gpu, mosaic_tpu, triton_backend
from ..core.support.config import current
from ..core.support.errors import (
    CompileError,
    DtypeError,
    ResourceError,
    TilewrightError,
    UnsupportedError,
    VersionError,
)
from ..lang import cutlass as cutlass_names
from ..lang import mosaic_gpu as mosaic_gpu_names
from ..lang import triton
from ..lang.gpu.code import Compiled
from ..lang.kernel.kernel import Kernel
from ..lang.legalize import Legal, legal
from ..lang.targets.target import Target
from ..lang.transforms.rebuild import INHERITED
from ..lang.warpgroups.specs import mesh_of
from ..xla_backend.host.disk_cache import disk_cache

ROUTE = "route"  # the setting of a kernel that puts one first, where a measurement decided so
REFUSALS = (DtypeError, ResourceError, UnsupportedError)
FAILURES = (*REFUSALS, CompileError)


@dataclass(frozen=True)
class Route:
    """A backend, by the name that settings and reports have for it; `prints` is its function from kernel to module."""

    name: str
    backend: ModuleType
    prints: str

    def legal(self, kernel: Kernel, machine: Target) -> Legal:
        """A kernel in what the backend has rules for."""
        return legal(kernel, self.backend.BACKEND, machine)

    def module(self, kernel: Kernel | Legal, machine: Target) -> Any:
        """What the backend prints of a kernel."""
        return getattr(self.backend, self.prints)(kernel, machine)

    @property
    def ready(self) -> Any:
        """The backend, its compiler's answers kept on disk."""
        if hasattr(self.backend, "set_cache"):
            self.backend.set_cache(disk_cache)
        return self.backend


MOSAIC_GPU = Route("mosaic_gpu", mosaic_gpu, "mosaic_gpu_module")
TRITON, CUTLASS = (
    Route("triton", triton_backend, "triton_module"), Route("cutlass", cutlass_backend, "cutlass_module")
)  # fmt: skip
MOSAIC_TPU = Route("mosaic_tpu", mosaic_tpu, "mosaic_module")
# What asks for a route by the class of its parameters.
ASKED = (
    (mosaic_gpu_names.CompilerParams, MOSAIC_GPU), ((cutlass_names.CompilerParams, cutlass_names.Source), CUTLASS),
)  # fmt: skip
# Who compiles the kernels of a family of devices. The first takes what is no kernel of its own too.
ROUTES = {"cuda": (TRITON, MOSAIC_GPU, CUTLASS), "rocm": (TRITON,), "tpu": (MOSAIC_TPU,)}


@dataclass(frozen=True)
class Passed:
    """A kernel that a route did not take, with the reason."""

    kernel: Kernel
    route: str
    why: str

    def line(self) -> str:
        return f"kernel {self.kernel.name} is not compiled by {self.route}: {self.why}"


@dataclass(frozen=True)
class Choice:
    """The routes of a kernel in the order that they are tried, and those that were left out, with reasons.

    `asked`: the kernel itself names its one route; then nothing else takes it.
    """

    routes: tuple[Route, ...]
    passed: tuple[Passed, ...] = ()
    asked: bool = False


def choice(kernel: Kernel, machine: Target) -> Choice:
    """The routes of a kernel on a target."""
    known, settings = ROUTES[machine.kind], dict(kernel.settings)
    if mesh_of(kernel) is not None:  # it is written for one backend
        return Choice((MOSAIC_GPU,), asked=True)
    wanted = current().kernel_route or settings.get(ROUTE) if machine.gpu else None
    stated = settings.get("compiler_params")
    own = isinstance(stated, cutlass_names.Source)  # it is C++, which nothing else compiles
    if wanted == "xla" and not own:
        return Choice(())
    for params, route in ASKED if wanted is None or own else ():
        if isinstance(stated, params) and route in known:
            if settings.get(INHERITED) and not own:  # derived kernels may need another route
                return Choice((route, TRITON))
            return Choice((route,), asked=True)
    if wanted in (MOSAIC_GPU.name, TRITON.name):
        quick = [route for route in known if route is not CUTLASS]
        return Choice(tuple(sorted(quick, key=lambda route: route.name != wanted)))
    suggested = not isinstance(stated, triton.CompilerParams) or stated.suggested
    found = _estimated(kernel, machine) if MOSAIC_GPU in known and suggested else Choice(known[:1])
    return Choice((CUTLASS, *found.routes)) if wanted == CUTLASS.name and CUTLASS in known else found


def declined(kernel: Kernel, machine: Target) -> str | None:
    """Why the route that a kernel's own parameters ask for does not take it; None where it does, or none is asked for.

    It goes by the kernel alone, not by settings: plans of fusion, which ask it, are kept.
    """
    settings = dict(kernel.settings)
    for params, route in () if settings.get(INHERITED) else ASKED:  # others take what only inherits its parameters
        if isinstance(settings.get("compiler_params"), params) and route in ROUTES.get(machine.kind, ()):
            try:
                route.module(kernel, machine)
            except REFUSALS as error:
                return f"{route.name}, which the kernel asks for, does not take both: {_reason(error)}"
    return None


def _estimated(kernel: Kernel, machine: Target) -> Choice:
    """Mosaic GPU and Triton, or Triton alone, by which is estimated to give the faster code."""
    try:
        found = mosaic_gpu.estimate(kernel, machine)
    except FAILURES as error:
        return Choice((TRITON,), (Passed(kernel, MOSAIC_GPU.name, _reason(error)),))
    if found.better:
        return Choice((MOSAIC_GPU, TRITON))
    return Choice((TRITON,), (Passed(kernel, MOSAIC_GPU.name, found.line()),))


def _reason(error: TilewrightError) -> str:
    """Why a route does not take a kernel: what the error says, without the kernel's name."""
    return error.what.partition("is not for Mosaic GPU: ")[2] or error.what


def start(kernels: Iterable[tuple[Route, Legal]], machine: Target) -> None:
    """Begin to compile several kernels side by side."""
    mine: dict[Route, list[Legal]] = {}
    for route, kernel in kernels:
        mine.setdefault(route, []).append(kernel)
    for route, found in mine.items():
        if hasattr(route.backend, "start"):
            route.ready.start(found, machine)


def compiled_kernel(kernel: Kernel, machine: Target) -> tuple[Any, Compiled]:
    """A kernel's module and machine code, by the first route that takes it.

    Raises:
      UnsupportedError, CompileError, ...: as the last route.
    """
    found = choice(kernel, machine)
    *others, last = found.routes or ROUTES[machine.kind][:1]
    for route in others:
        try:
            return route.ready.compiled_kernel(kernel, machine)
        except (*FAILURES, VersionError):
            continue
    return last.ready.compiled_kernel(kernel, machine)
