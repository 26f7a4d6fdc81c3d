"""`tune` of any function: the autotuned functions that it calls and its kernels, each by its share of the time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..compiler.pass_manager import walk
from ..compiler.pipeline import PIPELINE, Request, settings_ahead, settings_for
from ..core.api.transformations import vjp
from ..core.ir.binding import is_evaluating
from ..core.ir.types import is_inexact
from ..core.jit.jit import jit
from ..core.support import pytree
from ..core.support.errors import ArgumentError
from ..core.support.html_table import html_text
from ..core.tracing.trace import typeof
from ..core.transforms.jvp import DualTracer
from ..devices import clear_caches
from ..lang.call.primitive import kernel_call_p
from ..lang.targets.target import target_of
from ..xla_backend.devices.client import default_device
from . import kernels, measure
from .autotuned import Autotuned, watching
from .report import Report
from .session import searched
from .signed_rank import P, gain_of
from .space import Configuration
from .store import Store

ROUNDS = 9  # of alternating measurements


@dataclass(frozen=True)
class Site:
    """A call of an autotuned function in a program: the types of its arguments, and whether it is differentiated."""

    function: Autotuned[..., Any]
    arguments: Any  # a pytree (positional, named) of types and of values that are no arrays
    differentiated: bool


@dataclass(frozen=True)
class ProgramReport:
    """What `tune` found for a function: a report for each autotuned call and each kernel, and its own time before and
    after. `reverted`: the choices combined made it slower, so that the earlier ones stay."""

    reports: tuple[Report, ...]
    before: float
    after: float
    reverted: bool = False

    @property
    def gain(self) -> float:
        """How many times faster the function is than before."""
        return self.before / self.after

    def __str__(self) -> str:
        total = f"{self.before * 1e3:.3f} ms before, {self.after * 1e3:.3f} ms after: {self.gain:.2f} times as fast"
        note = ["the choices combined made it slower: the earlier ones stay"] if self.reverted else []
        return "\n".join([total, *note, *(str(r) for r in self.reports)])

    def _repr_html_(self) -> str:
        lines = str(ProgramReport((), self.before, self.after, self.reverted))
        return html_text(lines) + "".join(r._repr_html_() for r in self.reports)


def sites(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Site]:
    """The calls of autotuned functions in a function, traced for these arguments, each kind once."""
    found: dict[Any, Site] = {}

    def note(function: Autotuned[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, structure = pytree.flatten((args, kwargs))
        types = [_type(x) for x in leaves]
        site = Site(function, structure.unflatten(types), any(isinstance(x, DualTracer) for x in leaves))
        found.setdefault((function, structure, tuple(map(repr, types)), site.differentiated), site)

    arrays, of = measure.closed(args, kwargs)
    function = of(f)
    token = watching.set(note)
    try:
        jit(lambda *arrays: function(*arrays)).trace(*arrays)
    finally:
        watching.reset(token)
    return list(found.values())


def _type(x: Any) -> Any:
    return typeof(x) if hasattr(x, "shape") else x


def example(t: Any, draw: np.random.Generator) -> Any:
    """An array of a type to time a function on: numbers from a normal distribution, zeros for integers."""
    if not hasattr(t, "shape"):
        return t
    if is_inexact(t.dtype):
        return jit(lambda x: x.astype(t.dtype))(draw.standard_normal(t.shape))
    return np.zeros(t.shape, t.dtype)


def _forward_and_back(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays with its derivative: results, and the cotangents of its inexact arguments for ones."""

    def both(*arrays: Any) -> Any:
        places = [i for i, x in enumerate(arrays) if is_inexact(typeof(x).dtype)]

        def of(*chosen: Any) -> Any:
            given = dict(zip(places, chosen, strict=True))
            return f(*[given.get(i, x) for i, x in enumerate(arrays)])

        out, pull = vjp(of, *(arrays[i] for i in places))
        return out, pull(pytree.map(lambda x: x * 0 + 1, out))

    return both


def _call(f: Callable[..., Any], arrays: Sequence[Any]) -> Callable[[], Any]:
    """A call of a function compiled with the choices that hold now."""
    compiled = jit(lambda *arrays: f(*arrays)).lower(*arrays).compile()
    measure.wait(compiled(*arrays))
    return lambda: compiled(*arrays)


def _in_turn(*calls: Callable[[], Any]) -> list[list[float]]:
    """The seconds of each call in each round, measured alternately."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(ROUNDS):
        for i in range(len(calls)) if turn % 2 else reversed(range(len(calls))):
            times[i].append(measure.seconds_of(calls[i], float("inf"), 2)[0])
    return times


@dataclass(frozen=True)
class Work:
    """Something to tune within a program: its share of the time, its configuration before the search, the search for at
    most so many seconds, and how to choose a configuration."""

    share: float
    earlier: Configuration
    search: Callable[[float | None], Report]
    keep: Callable[[Configuration], object]


def _call_work(site: Site, options: dict[str, Any]) -> Work:
    """An autotuned call."""
    draw = np.random.default_rng(0)
    args, kwargs = pytree.map(lambda t: example(t, draw), site.arguments)
    arrays, of = measure.closed(args, kwargs)
    function, around = of(site.function), _forward_and_back if site.differentiated else None
    share = measure.seconds_of(_call(around(function) if around else function, arrays), float("inf"), 3)[0]
    return Work(
        share, site.function.best(*args, **kwargs),
        lambda budget: site.function.tune(*args, budget=budget, around=around, **options, **kwargs),
        lambda configuration: site.function.keep(configuration, *args, **kwargs),
    )  # fmt: skip


def _kernel_work(site: kernels.Site, device: str, options: dict[str, Any]) -> Work:
    """A kernel."""
    draw = np.random.default_rng(0)
    arrays = [example(t, draw) for t in site.kernel.in_types]
    problem, store = kernels.problem_of(site.kernel, device, site.fused), Store()

    def function(configuration: Configuration) -> Callable[..., Any]:
        return lambda *arrays: kernel_call_p.bind(*arrays, kernel=site.made(configuration))

    def search(budget: float | None) -> Report:
        with kernels.by_default():
            wanted = jit(function({}))(*arrays)
            return searched(f"kernel {site.name}", problem, store, site.space(), function, arrays, wanted, default={},
                            budget=budget, **options)[0]  # fmt: skip

    with kernels.by_default():
        share = measure.seconds_of(_call(function({}), arrays), float("inf"), 3)[0]
    own, is_own = kernels.choice_for(kernels.decided(device, store), problem) or ({}, True)
    return Work(share, own if is_own else {}, search, lambda configuration: store.decide(problem, configuration))


def kernel_sites(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], target: str | None = None
) -> tuple[list[kernels.Site], str]:
    """The kernels of a function's program for which there is a choice, and the device that choices are kept by."""
    settings = settings_for(default_device(), True) if target is None else settings_ahead(target)
    settings = replace(settings, by_cost=False)  # there is no choice of tiles in what is machine code of this CPU
    arrays, of = measure.closed(args, kwargs)
    with kernels.by_default():
        unit = walk(PIPELINE[:2], Request(of(f), tuple(arrays), {}), settings).value
        walked = walk(PIPELINE[2:4], unit, settings)
    found = walked.reports.get("fuse")
    fusion = None if found is None else found.fusion
    machine = target_of(settings.target)
    return kernels.sites_in(unit.program, fusion, walked.value.program, machine), kernels.device_of(settings)


def tune(
    f: Callable[..., Any], *args: Any, budget: float | None = None, progress: bool = True, isolate: bool | None = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Tune a function: an autotuned one on these arguments, or all that any function calls, by share of the time.

    `budget` is in seconds, for all of it. Autotuned calls are found by tracing the function, those in its gradients too
    (which are then timed with their derivative). Then come the kernels of its compiled program: the tiles of generated
    ones, and on GPUs their compiler parameters and the compiler. Everything is timed on arguments of
    the same types, drawn at random. Later compilations use what was decided on; programs that this process has compiled
    are forgotten, so that they do too. If the choices combined make the function slower, the earlier ones stay. Gives
    the `Report` of an autotuned function, else a `ProgramReport`.

    Raises:
      ArgumentError: there is nothing to choose, or it is called within a transformation.
      TuningError: no configuration of some function works.

    >>> import tempfile
    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.tuning import Store
    >>> store = Store(tempfile.mkdtemp() + '/tuned.sqlite')
    >>> f = tw.autotune(space={'n': [1, 2]}, store=store)(lambda x, n=1: x * n / n)
    >>> report = tw.tune(f, np.ones(8, np.float32), progress=False, isolate=False)
    >>> len(report.trials), report.best.configuration['n'] in (1, 2)
    (2, True)
    """
    if isinstance(f, Autotuned):
        return f.tune(*args, budget=budget, progress=progress, isolate=isolate, **kwargs)
    if not callable(f):
        raise ArgumentError(f"tune takes a function, got {f!r}", "one made by `autotune`, or one that calls such")
    if not is_evaluating():
        raise ArgumentError("tune was called inside a transformation", "tune on arrays, outside `jit`")
    measure.check_budget(budget)
    options: dict[str, Any] = {"progress": progress, "isolate": isolate}
    arrays, of = measure.closed(args, kwargs)
    clear_caches()  # what was traced before would not be looked through
    start, found_calls = time.perf_counter(), sites(f, args, kwargs)
    before = _call(of(f), arrays)
    work, reports = [_call_work(site, options) for site in found_calls], []
    _search(work, reports, budget, start)
    found, device = kernel_sites(f, args, kwargs)
    if not found and not work:
        name = getattr(f, "__name__", repr(f))
        raise ArgumentError(
            f"{name} calls no function made by `autotune`, and its program has no kernels with a choice on {device}",
            "decorate it, or one that it calls; `cpu_tiles=True` has operations become kernels on the CPU")  # fmt: skip
    work += [_kernel_work(site, device, options) for site in found]
    _search(work[len(reports) :], reports, budget, start)
    if all(r.kept == w.earlier for r, w in zip(reports, work, strict=True)):  # nothing is different
        same = statistics.median(_in_turn(before)[0])
        return ProgramReport(tuple(reports), same, same)
    clear_caches()  # what was traced before has the earlier choices
    times = _in_turn(before, _call(of(f), arrays))
    slower, p = gain_of(times[1], times[0])
    reverted = slower > 1 and p < P
    if reverted:
        for one in work:
            one.keep(one.earlier)
        clear_caches()
        times[1] = times[0]
    return ProgramReport(tuple(reports), statistics.median(times[0]), statistics.median(times[1]), reverted)


def _search(work: Sequence[Work], reports: list[Report], budget: float | None, start: float) -> None:
    """Search one after the other, each for its share of the time that is left."""
    for place, one in enumerate(work):
        left = None if budget is None else max(budget - (time.perf_counter() - start), 0.0)
        reports.append(one.search(None if left is None else left * one.share / sum(w.share for w in work[place:])))
