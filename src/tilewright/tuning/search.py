"""`autotune` and `tune`: try the configurations of a space, keep the fastest that is right."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import os
import statistics
import time
import tokenize
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import tree
from ..core.errors import ArgumentError, NotTunedError, TilewrightError, TuningError
from ..core.jit import jit
from ..core.trace import is_evaluating, typeof
from ..core.version import JAXLIB, __version__
from ..lang.visit import block_bytes, kernels_of
from ..runtime import devices
from . import measure
from .store import Configuration, Problem, Store, as_text

Space = Mapping[str, Sequence[Any]] | Sequence[Configuration] | Callable[..., Any]


@dataclass(frozen=True)
class Trial:
    """One configuration and what became of it; `seconds` is None where it was refused, and `why` says so."""

    configuration: Configuration
    seconds: float | None
    spread: float | None
    why: str | None


@dataclass(frozen=True)
class Report:
    """What `tune` found: the trials, fastest first, and the best configuration."""

    trials: tuple[Trial, ...]
    default: Configuration
    elapsed: float

    @property
    def best(self) -> Trial:
        return self.trials[0]

    def __str__(self) -> str:
        lines = [f"{len(self.trials)} configurations in {self.elapsed:.1f} s"]
        for trial in self.trials:
            shown = " ".join(f"{k}={v}" for k, v in trial.configuration.items())
            result = f"{trial.seconds * 1e3:10.3f} ms" if trial.seconds is not None else f"    refused: {trial.why}"
            lines.append(f"  {shown:<32} {result}")
        return "\n".join(lines)


def configurations(space: Space, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Configuration]:
    """Every configuration of a space: a dict of lists (their product), a list of dicts, or a function giving either."""
    given = space(*args, **kwargs) if callable(space) else space
    if isinstance(given, Mapping):
        found = [dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())]
    else:
        found = [dict(c) for c in given]
    if not found:
        raise ArgumentError(f"autotune: the space {given!r} is empty", "give at least one configuration")
    return found


def _check_names(fun: Callable[..., Any], space: Space) -> None:
    """What a space chooses are parameters of the function."""
    parameters = inspect.signature(fun).parameters
    if callable(space) or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in [n for one in ([space] if isinstance(space, Mapping) else space) for n in one]:
        if name not in parameters:
            raise ArgumentError(
                f"autotune: the space has {name!r}, which {fun.__name__} does not take",
                f"its parameters are {', '.join(parameters)}")  # fmt: skip


class Autotuned:
    """A function whose keyword configuration is chosen from what was measured; made by `autotune`."""

    def __init__(self, fun: Callable[..., Any], space: Space, key: Any, reference: Any, tolerance: float | None,
                 memory: int | None, required: bool, store: Store | None):  # fmt: skip
        self.fun, self.space, self.key, self.reference = fun, space, key, reference
        self.tolerance, self.memory, self.required, self._store = tolerance, memory, required, store
        self.chosen: dict[Problem, Configuration] = {}
        functools.update_wrapper(self, fun)
        _check_names(fun, space)

    @property
    def store(self) -> Store:
        return self._store or Store()

    def defaults(self) -> Configuration:
        """The configuration that the function's own defaults give."""
        names = inspect.signature(self.fun).parameters
        given = self.space if isinstance(self.space, Mapping) else {}
        return {n: names[n].default for n in given if n in names and names[n].default is not inspect.Parameter.empty}

    def problem(self, *args: Any, **kwargs: Any) -> Problem:
        """What the arguments are to the tuner: device, function, versions, dtypes and shapes."""
        types = [typeof(x) for x in tree.leaves((args, kwargs))]
        shapes, dtypes = measure.shapes_and_dtypes(types)
        device = devices()[0]
        extra = "" if self.key is None else repr(self.key(*args, **kwargs))
        return Problem(f"{device.platform}:{device.device_kind}:{os.cpu_count()}", _identity(self.fun),
                       f"{__version__}/{JAXLIB}", dtypes, shapes, extra)  # fmt: skip

    def best(self, *args: Any, **kwargs: Any) -> Configuration:
        """The configuration a call with these arguments uses."""
        problem = self.problem(*args, **kwargs)
        found = self.chosen.get(problem)
        if found is None:
            known = self.store.best(problem, self._fits)
            if self.required and (known is None or not known[1]):
                raise NotTunedError(
                    f"{self.fun.__name__} has no measurements for shapes {problem.shapes} ({problem.dtypes})",
                    f"call `{self.fun.__name__}.tune(...)` with such arguments first, or drop `required=True`",
                )
            found = self.chosen[problem] = self.defaults() if known is None else self._as_given(known[0])
        return found

    def _listed(self) -> dict[str, Configuration] | None:
        """The configurations of the space by their texts; None if it depends on the arguments."""
        return None if callable(self.space) else {as_text(c): c for c in configurations(self.space, (), {})}

    def _fits(self, configuration: Configuration) -> bool:
        """Whether a configuration read from the store is one that the function takes."""
        listed = self._listed()
        if listed is not None:
            return as_text(configuration) in listed
        parameters = inspect.signature(self.fun).parameters
        return any(p.kind is p.VAR_KEYWORD for p in parameters.values()) or parameters.keys() >= configuration.keys()

    def _as_given(self, configuration: Configuration) -> Configuration:
        """A configuration with its values as they are in the space: JSON has no tuples."""
        return (self._listed() or {}).get(as_text(configuration), configuration)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **{**self.best(*args, **kwargs), **kwargs})

    def tune(self, *args: Any, budget: float | None = None, progress: bool = True, **kwargs: Any) -> Report:
        """Measure the space on these arguments, for at most `budget` seconds, and keep every result.

        Raises `TuningError` where no configuration works, and says why each failed.
        """
        if not is_evaluating():
            raise ArgumentError(
                f"{self.fun.__name__}.tune was called inside a transformation", "tune on arrays, outside `jit`"
            )
        problem = self.problem(*args, **kwargs)
        reference = self.reference or functools.partial(self.fun, **self.defaults())
        report = _search(self, configurations(self.space, args, kwargs), reference, args, kwargs, budget, progress)
        kept = self.store.record(problem, [(t.configuration, t.seconds, t.spread, t.why) for t in report.trials])
        self.chosen.clear()
        if not kept and report.best.seconds is not None:  # a store that cannot be written: for this process at least
            self.chosen[problem] = report.best.configuration
        if report.best.seconds is None:
            why = "; ".join(f"{t.configuration}: {t.why}" for t in report.trials[:4])
            raise TuningError(
                f"no configuration of {self.fun.__name__} works: {why}", "widen the space, or check the reference"
            )
        return report


def _identity(fun: Callable[..., Any]) -> str:
    """The function's name and a digest of its source, so that measurements of another version are not used."""
    try:
        text = inspect.getsource(fun)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # no file, or one that is not of this code
        text = fun.__code__.co_code.hex()
    return f"{fun.__module__}.{fun.__qualname__}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _search(tuned: Autotuned, space: list[Configuration], reference: Callable[..., Any], args: Sequence[Any],
            kwargs: Mapping[str, Any], budget: float | None, progress: bool) -> Report:  # fmt: skip
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    start = time.perf_counter()
    wanted = jit(reference)(*args, **kwargs)
    trials: list[Trial] = []
    columns = (TextColumn("tuning {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("best {task.fields[best]}"))  # fmt: skip
    with Progress(*columns, disable=not progress, transient=True) as bar:
        task = bar.add_task(tuned.fun.__name__, total=len(space), best="-")
        for configuration in space:
            if trials and budget is not None and time.perf_counter() - start > budget:
                break
            times = [t.seconds for t in trials if t.seconds is not None]
            trials.append(_try(tuned, configuration, wanted, args, kwargs, times))
            times = [t.seconds for t in trials if t.seconds is not None]
            bar.update(task, advance=1, best=f"{min(times) * 1e3:.3f} ms" if times else "-")
    trials.sort(key=lambda t: (t.seconds is None, t.seconds or 0.0))
    return Report(tuple(trials), tuned.defaults(), time.perf_counter() - start)


def _try(tuned: Autotuned, configuration: Configuration, wanted: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
         times: Sequence[float]) -> Trial:  # fmt: skip
    """Compile, check and time one configuration; whatever goes wrong in it refuses it alone."""
    try:
        compiled = jit(functools.partial(tuned.fun, **configuration))
        if tuned.memory is not None:
            program = compiled.trace(*args, **kwargs).program
            for kernel in kernels_of(program):
                need = block_bytes(kernel)
                if need > tuned.memory:
                    return Trial(
                        configuration, None, None, f"a cell of {kernel.name} holds {need} bytes, over {tuned.memory}"
                    )
        problem = measure.wrong(compiled(*args, **kwargs), wanted, tuned.tolerance)
        if problem is not None:
            return Trial(configuration, None, None, problem)
        stop = 3 * statistics.median(times) if times else float("inf")
        seconds, spread, _ = measure.seconds_of(lambda: compiled(*args, **kwargs), stop)
        return Trial(configuration, seconds, spread, None)
    except TilewrightError as error:
        return Trial(configuration, None, None, error.what)
    except Exception as error:  # a configuration may break in any way; the search goes on
        return Trial(
            configuration, None, None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )


def autotune(space: Space, *, key: Callable[..., Any] | None = None, reference: Callable[..., Any] | None = None,
             tolerance: float | None = None, memory: int | None = None, required: bool = False,
             store: Store | None = None) -> Callable[[Callable[..., Any]], Autotuned]:  # fmt: skip
    """A decorator that chooses a function's keyword configuration (block sizes, say) from measurements.

    `space` gives the values to try: a dict of lists, a list of dicts, or a function of the arguments that
    gives either. `key(*args)` adds what the best choice depends on beyond dtypes and shapes. Results are
    compared with `reference(*args)` (by default the function at its own defaults), to within `tolerance`
    of the largest element. Configurations whose kernels hold more than `memory` bytes a cell are refused.
    Nothing is measured until `.tune(*args)` is called; `required=True` makes a call without measurements
    a `NotTunedError`.

    >>> import tilewright as tw
    >>> @autotune(space={"block": [2, 4]})
    ... def double(x, *, block=2):
    ...     return x * 2
    >>> print(double(tw.numpy.ones((4,))), double.defaults())
    [2. 2. 2. 2.] {'block': 2}
    """
    return lambda fun: Autotuned(fun, space, key, reference, tolerance, memory, required, store)


def tune(fun: Autotuned, *args: Any, budget: float | None = None, progress: bool = True, **kwargs: Any) -> Report:
    """`fun.tune(*args, **kwargs)` of a function made by `autotune`; an `ArgumentError` for any other."""
    if not isinstance(fun, Autotuned):
        raise ArgumentError(
            f"tune takes a function made by `autotune`, got {fun!r}", "decorate it: @autotune(space=...)"
        )
    return fun.tune(*args, budget=budget, progress=progress, **kwargs)
