"""The search itself: ask the model, compile, check, time, keep each result, and decide.

Configurations that XLA compiles to the same program are one trial. The fastest few are timed alternately with the
defaults, and the fastest of these once more, alone with them. It replaces the defaults if it is faster beyond noise: a
signed rank test of the ratios of neighbouring timings has p below 0.01 (`signed_rank.py`), and their median exceeds
1.01.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..core.jit.jit import jit
from ..core.support.errors import TilewrightError
from ..kernels.cost import bytes_moved
from ..lang.cost.roofline import roofline
from ..lang.kernel.kernel import UNBOUNDED
from ..lang.kernel.traverse import block_bytes, kernels_of
from ..lang.targets.target import target_of
from .bayesian_optimization import Search
from .report import Report, Trial
from .signed_rank import P, gain_of
from .space import Configuration

FINALISTS, WITHIN, ROUNDS = 5, 1.15, 7  # measured again, alternately: those within a factor of the best
PAIRS, LEAST = 15, 1.01  # timings of the winner beside the defaults, and the gain that counts
ENOUGH = 7  # pairs that can decide
DECIDING = 0.25  # of the budget, for the finals
TIMED, LONG = 4e-3, 0.05  # seconds that an alternating timing takes at least, and of a call that is made once in it
HOPELESS = 3.0  # what cannot come below so many times the best is not compiled
SLOW = 3.0  # a call that takes so many times the best is timed twice

Function = Callable[..., Any]


class Tuning:
    """One search: a function of each configuration, tried on some arguments."""

    name: str
    space: Sequence[Configuration] | list[Configuration]
    function: Callable[..., Function]
    arrays: Sequence[Any]
    default: Configuration
    trials: Any
    memory: int | None
    target: str | None
    keep: Callable[..., object]

    def __init__(
        self, name: str, space: Sequence[Configuration], function: Callable[[Configuration], Function],
        arrays: Sequence[Any], *, default: Configuration, trials: Any, known: Sequence[Configuration] = (),
        memory: int | None = None, target: str | None = None, keep: Callable[[Trial], object] = lambda trial: None,
        seed: int = 0,
    ):  # fmt: skip
        space = space if default in space else [default, *space]
        self.name, self.space, self.function, self.arrays = name, space, function, arrays
        self.default, self.trials, self.memory, self.target, self.keep = default, trials, memory, target, keep
        first = [i for c in (default, *known) for i, other in enumerate(space) if other == c]
        self.search: Search = Search(space, first, seed)
        self.found: dict[int, Trial] = {}
        self.least: dict[int, float] = {}  # seconds by the roofline
        self.held: set[int] = set()  # whose programs the trials still have
        self.programs: dict[str, int] = {}  # the first configuration of each program
        self.kept: int | None = None  # the choice
        self.why = ""  # of the choice

    def run(self, budget: float | None, progress: bool) -> Report:
        """Search for at most `budget` seconds; Ctrl-C ends it with what is known by then."""
        start, stopped = time.perf_counter(), False

        def over(share: float = 1.0) -> bool:
            return budget is not None and time.perf_counter() - start > share * budget

        def ended() -> bool:
            return bool(self.found) and over(1 - DECIDING)

        with _bar(self.name, self.search.most, budget, progress) as tell:
            try:
                while not self.search.done and not ended():
                    numbers = self.search.ask(self.trials.many)
                    if not numbers:
                        break
                    self._round(numbers, ended)
                    tell(len(self.found), self.best_seconds(), self._default_seconds())
                self._finals(over)
            except KeyboardInterrupt:
                stopped = True
            finally:
                self.trials.end()
        trials = sorted(self.found.values(), key=lambda t: (t.seconds is None, t.seconds or 0.0))
        kept = None if self.kept is None else self.space[self.kept]
        return Report(tuple(trials), self.default, time.perf_counter() - start, len(self.space), stopped, self.name,
                      kept, self.why)  # fmt: skip

    def best_seconds(self) -> float | None:
        """The least time so far."""
        return min((t.seconds for t in self.found.values() if t.seconds is not None), default=None)

    def _default_seconds(self) -> float | None:
        return next((t.seconds for t in self.found.values() if t.configuration == self.default), None)

    def _round(self, numbers: Sequence[int], over: Callable[[], bool]) -> None:
        """Compile some configurations side by side, then check and time one after the other."""
        functions = {}
        for number in numbers:
            function = self.function(self.space[number])
            why = self._pruned(number, function)
            if why is None:
                functions[number] = function
            else:
                self._record(number, None, None, why)
        for number, error in self.trials.compile(functions).items():
            if error is None and self.found and over():
                self.search.under_way.discard(number)
                continue
            self._measure(number, error)

    def _measure(self, number: int, error: str | None) -> None:
        if error is not None:
            return self._record(number, None, None, error)
        first = self.programs.setdefault(self.trials.programs[number], number)
        if first != number:
            self.trials.drop(number)
            known = self.found[first]
            return self._record(number, known.seconds, known.spread, known.why, self.space[first])
        error = self.trials.check(number)
        if error is not None:
            return self._record(number, None, None, error)
        best = self.best_seconds()
        try:
            seconds, spread = self.trials.time(number, SLOW * best if best else float("inf"))
        except TilewrightError as refused:
            return self._record(number, None, None, refused.what)
        self._record(number, seconds, spread, None)
        self.held.add(number)
        limit = WITHIN * (self.best_seconds() or seconds)
        for other in [i for i in self.held if (self.found[i].seconds or 0.0) > limit]:
            if self.found[other].configuration != self.default:  # these will not be measured again
                self.held.discard(other)
                self.trials.drop(other)

    def _record(
        self, number: int, seconds: float | None, spread: float | None, why: str | None, like: Any = None
    ) -> None:
        self.found[number] = Trial(self.space[number], seconds, spread, why, like)
        self.search.tell(number, seconds)
        self.keep(self.found[number])

    def _pruned(self, number: int, function: Function) -> str | None:
        """Why a configuration needs no trial: it does not trace, its cells hold too much, it cannot be fast enough."""
        try:
            program = jit(function).trace(*self.arrays).program
            kernels = list(kernels_of(program))
            for kernel in kernels:
                need = block_bytes(kernel)
                if self.memory is not None and need > self.memory:
                    return f"a cell of {kernel.name} holds {need} bytes, over {self.memory}"
            best = self.best_seconds() or float("inf")
            if self.target is None or any(UNBOUNDED in k.grid for k in kernels):
                return None
            least = sum(roofline(k, bytes_moved(k), target_of(self.target)).seconds for k in kernels)
            self.least[number] = least
            measured = [(t.seconds, self.least.get(i)) for i, t in self.found.items()]
            least *= min([1.0, *(s / r for s, r in measured if s and r)])  # this one may be faster than its description
            return f"it takes {least * 1e3:.3g} ms at least" if least > HOPELESS * best else None
        except TilewrightError as error:
            return error.what
        except Exception as error:  # the function may break in any way
            return f"{type(error).__name__}: {error}"

    def _finals(self, over: Callable[[], bool]) -> None:
        """Decide between the defaults and the fastest: chosen by alternating timings, then confirmed by others."""
        near = sorted(self.held, key=lambda i: self.found[i].seconds or 0.0)
        if not near:
            return
        default = next((i for i in near if self.found[i].configuration == self.default), None)
        try:
            self._choose(near, default, over)
        except TilewrightError as error:
            self.kept, self.why = default, f"the defaults stay: timing the fastest again failed: {error.what}"

    def _choose(self, near: Sequence[int], default: int | None, over: Callable[[], bool]) -> None:
        limit = WITHIN * (self.found[near[0]].seconds or 0.0)
        chosen = [i for i in near if (self.found[i].seconds or 0.0) <= limit][:FINALISTS]
        if len(chosen) > 1:
            times = self._in_turn(chosen, ROUNDS, over)
            if times[chosen[0]]:
                for i in chosen:
                    self._timed(i, times[i])
                chosen.sort(key=lambda i: statistics.median(times[i]))
        best = chosen[0]
        if default is None:
            self.kept, self.why = best, "the defaults do not work"
        elif best == default:
            self.kept, self.why = default, "nothing is faster than the defaults"
        else:
            self._decide(best, default, over)

    def _decide(self, best: int, default: int, over: Callable[[], bool]) -> None:
        """The defaults stay unless the best is faster than they are beyond noise."""
        self.trials.load((best, default))
        times = self._in_turn((best, default), PAIRS, over)
        gain, p = gain_of(times[default], times[best])
        if len(times[best]) >= ENOUGH:
            self._timed(best, times[best])
            self._timed(default, times[default])
        sure = len(times[best]) >= ENOUGH and p < P and gain > LEAST
        self.kept = best if sure else default
        told = f"{gain:.3f} times as fast in {len(times[best])} timings beside the defaults (p = {p:.2g})"
        if len(times[best]) < ENOUGH:
            self.why = f"the defaults stay: the time was over before {ENOUGH} timings beside them"
        else:
            small = f"a gain counts above {LEAST}" if gain <= LEAST else f"it may be noise, as p is not below {P}"
            self.why: str = told if sure else f"the defaults stay: the fastest was {told}, and {small}"

    def _timed(self, number: int, times: Sequence[float]) -> None:
        spread = max(times) - min(times)
        self.found[number] = replace(self.found[number], seconds=statistics.median(times), spread=spread)
        self.keep(self.found[number])

    def _in_turn(self, numbers: Sequence[int], rounds: int, over: Callable[[], bool]) -> dict[int, list[float]]:
        """The seconds of each in each round, one after the other, forwards and backwards; whole rounds only."""
        known = {i: self.found[i].seconds or 0.0 for i in numbers}
        counts = {i: max(int(TIMED / max(s, 1e-7)), 3 if s < LONG else 1) for i, s in known.items()}
        times: dict[int, list[float]] = {i: [] for i in numbers}
        for turn in range(rounds):
            if over():
                break
            for i in numbers if turn % 2 else reversed(numbers):
                times[i].append(self.trials.call(i, counts[i]))
        return times


@contextmanager
def _bar(name: str, total: int, budget: float | None, progress: bool) -> Iterator[Callable[..., None]]:
    """A live bar with trials done, the best so far, its gain and the time left; plain lines without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if not progress:
        yield lambda done, best, default: None
        return
    console, start = Console(stderr=True), time.perf_counter()

    def said(best: float | None, default: float | None) -> str:
        if best is None:
            return "-"
        gain = f", {default / best:.2f} times as fast as the defaults" if default else ""
        return f"{best * 1e3:.3f} ms{gain}"

    if not console.is_terminal:
        last = start

        def line(done: int, best: float | None, default: float | None) -> None:
            nonlocal last
            if time.perf_counter() - last > 5 or done == total:
                last = time.perf_counter()
                told = f"tuning {name}: {done} of at most {total} tried, best {said(best, default)}"
                console.print(told, soft_wrap=True)

        yield line
        return
    columns = (TextColumn("tuning {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[left]}best {task.fields[best]}"))  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=total, best="-", left="")

        def update(done: int, best: float | None, default: float | None) -> None:
            left = "" if budget is None else f"{max(budget - (time.perf_counter() - start), 0):.0f} s left, "
            bar.update(task, completed=done, best=said(best, default), left=left)

        yield update
