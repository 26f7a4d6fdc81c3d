"""`tune` of any function: the autotuned functions that it calls, each tuned by its share of the time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import tree
from ..core.api import vjp
from ..core.errors import ArgumentError
from ..core.jit import jit
from ..core.trace import is_evaluating, typeof
from ..core.types import is_inexact
from . import measure
from .autotuned import Autotuned, watching
from .report import Report

ROUNDS = 3  # of measurements in turn


@dataclass(frozen=True)
class Site:
    """A call of an autotuned function in a program: the types of its arguments, and whether it is differentiated."""

    function: Autotuned
    arguments: Any  # a pytree (positional, named) of types and of values that are no arrays
    differentiated: bool


@dataclass(frozen=True)
class ProgramReport:
    """What `tune` found for a function: a report for each autotuned call, and its own time before and after."""

    reports: tuple[Report, ...]
    before: float
    after: float

    @property
    def gain(self) -> float:
        """How many times faster the function is than before."""
        return self.before / self.after

    def __str__(self) -> str:
        total = f"{self.before * 1e3:.3f} ms before, {self.after * 1e3:.3f} ms after: {self.gain:.2f} times as fast"
        return "\n".join([total, *(str(r) for r in self.reports)])


def sites(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Site]:
    """The calls of autotuned functions in a function, traced for these arguments, each kind once."""
    found: dict[Any, Site] = {}

    def note(function: Autotuned, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, structure = tree.flatten((args, kwargs))
        types = [_type(x) for x in leaves]
        kinds = {type(getattr(x, "_trace", None)).__name__ for x in leaves}
        site = Site(function, structure.unflatten(types), bool(kinds & {"JVPTrace", "LinearizeTrace"}))
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
        return out, pull(tree.map(lambda x: x * 0 + 1, out))

    return both


def _call(f: Callable[..., Any], arrays: Sequence[Any]) -> Callable[[], Any]:
    """A call of a function with the choices that hold now: one that was traced before keeps its own."""
    compiled = jit(lambda *arrays: f(*arrays))
    measure.wait(compiled(*arrays))
    return lambda: compiled(*arrays)


def _seconds(*calls: Callable[[], Any]) -> list[float]:
    """The median time of each call, measured in turn."""
    times = [[measure.seconds_of(call, float("inf"), 3)[0] for call in calls] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def tune(
    f: Callable[..., Any], *args: Any, budget: float | None = None, progress: bool = True, isolate: bool | None = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Tune a function: an autotuned one on these arguments, or those that any function calls, by share of the time.

    `budget` is in seconds, for all of it. The calls are found by tracing the function, those in its gradients too
    (which are then timed with their derivative), and are timed on arguments of the same types, drawn at random; their
    results are kept as by `f.tune`. Gives the `Report` of an autotuned function, else a `ProgramReport`.

    Raises:
      ArgumentError: nothing that it calls is autotuned, or it is called within a transformation.
      TuningError: no configuration of some function works.
    """
    if isinstance(f, Autotuned):
        return f.tune(*args, budget=budget, progress=progress, isolate=isolate, **kwargs)
    if not callable(f):
        raise ArgumentError(f"tune takes a function, got {f!r}", "one made by `autotune`, or one that calls such")
    if not is_evaluating():
        raise ArgumentError("tune was called inside a transformation", "tune on arrays, outside `jit`")
    found = sites(f, args, kwargs)
    if not found:
        name = getattr(f, "__name__", repr(f))
        raise ArgumentError(f"{name} calls no function made by `autotune`", "decorate it, or one that it calls")
    arrays, of = measure.closed(args, kwargs)
    start, before = time.perf_counter(), _call(of(f), arrays)
    work = [_arguments(site) for site in found]
    shares = [_share(site, *given) for site, given in zip(found, work, strict=True)]
    reports = []
    for place, (site, (given, named)) in enumerate(zip(found, work, strict=True)):
        left = None if budget is None else max(budget - (time.perf_counter() - start), 0.0)
        part = None if left is None else left * shares[place] / sum(shares[place:])
        around = _forward_and_back if site.differentiated else None
        reports.append(site.function.tune(
            *given, budget=part, progress=progress, isolate=isolate, around=around, **named))  # fmt: skip
    return ProgramReport(tuple(reports), *_seconds(before, _call(of(f), arrays)))


def _arguments(site: Site) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw = np.random.default_rng(0)
    return tree.map(lambda t: example(t, draw), site.arguments)


def _share(site: Site, args: Sequence[Any], kwargs: dict[str, Any]) -> float:
    arrays, of = measure.closed(args, kwargs)
    function = of(site.function)
    return _seconds(_call(_forward_and_back(function) if site.differentiated else function, arrays))[0]
