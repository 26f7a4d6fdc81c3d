"""The kernels of a program as something to tune: tiles of those that were generated, compiler parameters, routes.

    site ::= a kernel of the program after `fuse`, with what may be chosen for it
    configuration ::= {tiles, route, num_warps, num_stages, consumers, tile}      each only where there is a choice

A site's defaults are what the generator, the route's estimate and the compiler choose by themselves. What was decided
on is read again by the pass `fuse` of each later compilation, by device and a digest of the kernel at its defaults.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from .. import cutlass_backend
from ..compiler.backend_selection import CUTLASS, ROUTE, ROUTES, declined
from ..core.ir.passes import rewritten
from ..core.ir.program import Program
from ..core.support.errors import ArgumentError, UnsupportedError, VersionError
from ..core.support.version import JAXLIB, __version__
from ..kernels.fuse import plan
from ..kernels.fuse.fusion import FusedKernel, Fusion, machine_of
from ..kernels.generate.loops import Tiles
from ..kernels.generate.tiles import options
from ..lang import cutlass, mosaic_gpu, triton
from ..lang.call.primitive import kernel_call_p
from ..lang.kernel.kernel import Kernel
from ..lang.targets.compiler_params import Params, params_of, stated
from ..lang.targets.target import Target, target_of
from ..xla_backend.options.compile_options import Settings
from .measure import device_name, shapes_and_dtypes
from .space import Configuration
from .store import Problem, Store
from .tables import in_force, nearest, shipped

WARPS, STAGES, CONSUMERS = (None, 2, 4, 8), (None, 1, 2, 3, 4), (None, 1, 2)
PREFIX = "kernel."  # of the names that choices for kernels are kept by
CUTLASS_TILES = (None, (128, 128, 64))  # None: as the sizes suggest; a kernel takes a minute to compile
MOST = 4096  # tilings of a kernel that are looked at

# Whether programs use what was decided on; not while it is being searched for.
_used: ContextVar[bool] = ContextVar("tilewright_tuned_kernels", default=True)


@dataclass(frozen=True)
class Site:
    """A kernel of a program, how it was generated (None: somebody wrote it), and the machine it is for."""

    kernel: Kernel
    fused: FusedKernel | None
    program: Program  # before it was fused
    machine: Target

    @property
    def name(self) -> str:
        return self.kernel.name

    def space(self) -> list[Configuration]:
        """Every configuration, the defaults `{}` first."""
        tilings: list[Configuration] = [{}]
        if self.fused is not None:
            tilings += [{"tiles": t} for t in _tilings(self.fused, self.machine) if t != self.fused.tiles]
        both = [{**tiles, **params} for params in _told(self.kernel, self.machine) for tiles in tilings]
        return [*both, *_by_cutlass(self.kernel, self.machine)]

    def made(self, configuration: Configuration) -> Kernel:
        """The kernel at a configuration.

        Raises:
          ArgumentError: tiles that the target cannot hold.
        """
        kernel = self.kernel
        if "tiles" in configuration and self.fused is not None:
            tiles = {_key(self.fused): tuple(configuration["tiles"])}
            fusion = plan(self.program, self.machine, tiles, declined=declined)
            kernel = next(k.kernel for k in fusion.every_kernel if _key(k) == _key(self.fused))
        return with_settings(kernel, configuration)


def _key(fused: FusedKernel) -> tuple[str, tuple[int, ...]]:
    """What tiles are asked for by."""
    return fused.kernel.name, fused.loops.sizes


def _tilings(fused: FusedKernel, machine: Target) -> Iterator[Tiles]:
    """Tiles that the loops of a kernel may have, from the largest; which of them fit only the target can say."""
    sizes = [tuple(reversed(s)) for s in options(fused.loops, machine_of(machine))]
    count = math.prod(map(len, sizes))
    for number in range(0, count, -(-count // MOST)):
        tiles = []
        for s in reversed(sizes):
            number, place = divmod(number, len(s))
            tiles.append(s[place])
        yield tuple(reversed(tiles))


def _told(kernel: Kernel, machine: Target) -> Iterator[Configuration]:
    """Candidate compiler parameters that a kernel does not set itself; none first."""
    own = stated(kernel)
    free = _is_free(own)
    yield {}
    if not machine.gpu or kernel.interpret:
        return
    if free or isinstance(own, triton.CompilerParams):
        given = params_of(kernel, triton.CompilerParams)
        for warps in WARPS if free or given.num_warps is None else (None,):
            for stages in STAGES if free or given.num_stages is None else (None,):
                if warps or stages:
                    yield {"route": "triton", "num_warps": warps, "num_stages": stages}
    names = [route.name for route in ROUTES[machine.kind]]
    if free and "mosaic_gpu" in names:
        for stages in STAGES:
            for consumers in CONSUMERS:
                yield {"route": "mosaic_gpu", "num_stages": stages, "consumers": consumers}
        for persistent, cluster in itertools.product((True, False), (1, 2, 4)):
            yield {"route": "mosaic_gpu", "persistent": persistent, "cluster": cluster}
        for ping_pong in (True, False):
            yield {"route": "mosaic_gpu", "ping_pong": ping_pong}
    if free:
        yield {"route": "xla"}


def _is_free(params: Params | None) -> bool:
    """Whether a kernel's author leaves it open who compiles it."""
    return params is None or isinstance(params, triton.CompilerParams) and params.suggested


def _by_cutlass(kernel: Kernel, machine: Target) -> Iterator[Configuration]:
    """CUTLASS's tiles, where it is installed and takes the kernel; the kernel's own blocks are no matter to it."""
    if machine.kind != "cuda" or kernel.interpret or not _is_free(stated(kernel)):
        return
    for tile in CUTLASS_TILES:
        configuration: Configuration = {"route": "cutlass", "tile": tile}
        try:
            cutlass_backend.check_installed()
            CUTLASS.module(with_settings(kernel, configuration), machine)
        except (VersionError, UnsupportedError):
            continue
        yield configuration


def with_settings(kernel: Kernel, configuration: Configuration) -> Kernel:
    """The kernel with the route and the parameters of its compiler that a configuration has."""
    route = configuration.get("route")
    if route is None:
        return kernel
    settings = dict(kernel.settings)
    known = stated(kernel)
    backward = known.backward if known else None
    if route == "triton":
        changed = {n: configuration[n] for n in ("num_warps", "num_stages") if configuration.get(n) is not None}
        settings["compiler_params"] = replace(params_of(kernel, triton.CompilerParams), **changed)
    elif route == "mosaic_gpu":
        names = ("num_stages", "consumers", "persistent", "cluster", "ping_pong")
        given: dict[str, Any] = {n: configuration.get(n) for n in names}
        settings["compiler_params"] = mosaic_gpu.CompilerParams(**given, backward=backward)
    elif route == "cutlass":
        tile = configuration.get("tile")
        settings["compiler_params"] = cutlass.CompilerParams(tile and tuple(tile), backward=backward)
    settings[ROUTE] = route
    return kernel.replace(settings=tuple(settings.items()))


# ---------------------------------------------------------------------------- found in programs


def sites_in(program: Program, fusion: Fusion | None, fused: Program, machine: Target) -> list[Site]:
    """The kernels of a fused program for which there is a choice, each once."""
    made = {} if fusion is None else {k.kernel: k for k in fusion.every_kernel}
    kernels = dict.fromkeys(k for k in _kernels(fused) if not k.computed)
    found = [Site(kernel, made.get(kernel), program, machine) for kernel in kernels]
    return [site for site in found if len(site.space()) > 1]


def _kernels(program: Program) -> list[Kernel]:
    found: list[Kernel] = []

    def note(eqn: Any) -> Any:
        found.append(eqn.params["kernel"])
        return eqn

    _over_kernels(program, note)
    return found


def _over_kernels(program: Program, change: Callable[[Any], Any]) -> Program:
    return rewritten(program, lambda primitive: primitive is kernel_call_p, change, {})


# ---------------------------------------------------------------------------- decided on


def problem_of(kernel: Kernel, device: str, fused: FusedKernel | None = None) -> Problem:
    """What the choice for a kernel is kept by: a digest of it, and of a generated one the operations in it too."""
    digest = _digest((kernel, kernel.settings))
    shapes, dtypes = shapes_and_dtypes(kernel.in_types)
    if fused is None:
        return Problem(device, f"{PREFIX}{kernel.name}:{digest}", f"{__version__}/{JAXLIB}", dtypes, shapes)
    family = _digest((fused.operations, len(fused.loops.sizes), kernel.settings))
    return Problem(device, f"{PREFIX}{kernel.name}/{family}", f"{__version__}/{JAXLIB}", dtypes, shapes, digest)


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


Decided = dict[tuple[str, str, str], list[tuple[Problem, Configuration]]]


def decided(device: str, store: Store) -> Decided:
    """What was decided on for kernels on a device, by function, versions and dtypes: of tables that came with the
    package, of the store, and of tables in force, the last first to count."""
    found: Decided = {}
    shipped_ones, given = [[(p, c) for p, c, _ in table] for table in (shipped(), tuple(reversed(in_force())))]
    for p, chosen in (*shipped_ones, *store.decided(device, f"{__version__}/{JAXLIB}", PREFIX), *given):
        if p.device == device and p.function.startswith(PREFIX):
            found.setdefault((p.function, p.versions, p.dtypes), []).append((p, chosen))
    return found


def choice_for(known: Decided, problem: Problem) -> tuple[Configuration, bool] | None:
    """What was decided on for a kernel, else for that of the nearest shapes; and whether it is for this very kernel."""
    alike = known.get((problem.function, problem.versions, problem.dtypes), ())
    own = [chosen for p, chosen in alike if p.key == problem.key]
    if own:
        return own[-1], True
    near = nearest(((replace(p, key=problem.key), chosen, 0.0) for p, chosen in reversed(alike)), problem)
    return None if near is None else (near[0], False)


def _legal(configuration: Configuration, fused: FusedKernel, machine: Target) -> Configuration:
    """A configuration of a kernel of other sizes with tiles that this one may have: the largest that are no larger."""
    if "tiles" not in configuration:
        return configuration
    allowed = options(fused.loops, machine_of(machine))
    tiles = [max((s for s in sizes if s <= t), default=sizes[0]) for t, sizes in zip(configuration["tiles"], allowed)]
    return {**configuration, "tiles": tiles}


def device_of(settings: Settings) -> str:
    """What choices are kept by: this machine's device, or the name of a target that need not be here."""
    return settings.name if settings.device is None else device_name()


def tuned(
    program: Program, fusion: Fusion | None, fused: Program, settings: Settings
) -> tuple[Fusion | None, Program, Mapping[Kernel, Kernel]]:
    """The fusion and the fused program with what was decided on, and which kernel became which."""
    device = device_of(settings)
    store = Store()
    known = decided(device, store) if _used.get() else {}
    if not known:
        return fusion, fused, {}
    made = {} if fusion is None else {k.kernel: k for k in fusion.every_kernel}
    own, near = _choices(dict.fromkeys(_kernels(fused)), made, known, device, store, target_of(settings.target))
    try:
        fusion, fused, told, made = _planned(program, fusion, fused, {**near, **own}, made, settings)
    except ArgumentError:
        try:  # sizes that are near need not fit
            fusion, fused, told, made = _planned(program, fusion, fused, own, made, settings)
        except ArgumentError:
            store.warn("have tiles that a kernel cannot have")
            return fusion, fused, {}
    changed: dict[Kernel, Kernel] = {}

    def change(eqn: Any) -> Any:
        kernel = eqn.params["kernel"]
        configuration = told.get(_key(made[kernel]) if kernel in made else kernel)
        if configuration is None or "route" not in configuration:
            return eqn
        changed[kernel] = with_settings(kernel, configuration)
        return eqn.replace(params={**eqn.params, "kernel": changed[kernel]})

    fused = _over_kernels(fused, change)
    if fusion is not None and changed:
        fusion = replace(_with(fusion, changed), program=fused)
    return fusion, fused, changed


def _choices(
    kernels: Iterable[Kernel], made: Mapping[Kernel, FusedKernel], known: Decided, device: str, store: Store,
    machine: Target,
) -> tuple[dict[Kernel, Configuration], dict[Kernel, Configuration]]:  # fmt: skip
    """What was decided on for kernels of a program, and what for kernels of the same operations in other sizes."""
    own: dict[Kernel, Configuration] = {}
    near: dict[Kernel, Configuration] = {}
    for kernel in kernels:
        found = choice_for(known, problem_of(kernel, device, made.get(kernel)))
        if found is None or not found[0]:
            continue
        if not _sound(found[0]):
            store.warn("have a choice for a kernel that it does not have")
        elif found[1]:
            own[kernel] = found[0]
        else:
            near[kernel] = _legal(found[0], made[kernel], machine)
    return own, near


def _planned(
    program: Program, fusion: Fusion | None, fused: Program, chosen: Mapping[Kernel, Configuration],
    made: Mapping[Kernel, FusedKernel], settings: Settings,
) -> tuple[Fusion | None, Program, dict[Any, Configuration], Mapping[Kernel, FusedKernel]]:  # fmt: skip
    """The fusion with the tiles that were chosen, the choices by what tiles are asked for by, and how it was made."""
    tiles = {_key(made[k]): tuple(c["tiles"]) for k, c in chosen.items() if k in made and c.get("tiles")}
    told = {_key(made[k]) if k in made else k: c for k, c in chosen.items()}
    if tiles:
        fusion = plan(program, settings.target, tiles, settings.explained, declined)
        fused, made = fusion.program, {k.kernel: k for k in fusion.every_kernel}
    return fusion, fused, told, made


def _sound(configuration: Configuration) -> bool:
    """Whether a configuration that was read is one of a kernel."""
    tiles = configuration.get("tiles", ())
    values = {"num_warps": WARPS, "num_stages": STAGES, "consumers": CONSUMERS}
    return (
        isinstance(tiles, (list, tuple)) and all(type(t) is int and t > 0 for t in tiles)
        and configuration.get("route", "xla") in ("triton", "mosaic_gpu", "cutlass", "xla")
        and all(configuration.get(name) in known for name, known in values.items())
    )  # fmt: skip


def _with(fusion: Fusion, changed: Mapping[Kernel, Kernel]) -> Fusion:
    """The account of a fusion with kernels changed."""
    made = tuple(replace(k, kernel=changed.get(k.kernel, k.kernel)) for k in fusion.kernels)
    return replace(fusion, kernels=made, inner=tuple(_with(one, changed) for one in fusion.inner))


@contextmanager
def by_default() -> Iterator[None]:
    """Within a `with` block programs are compiled with the defaults of kernels, whatever was decided on."""
    token = _used.set(False)
    try:
        yield
    finally:
        _used.reset(token)
