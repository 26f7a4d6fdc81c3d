"""What a walk is made of: passes from value to value, the levels between them, and the function that runs them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.support.errors import ArgumentError
from ..xla_backend.options.compile_options import Settings

Reports = dict[str, Any]  # what the passes that have run decided, by their names


class Level(NamedTuple):
    """What a pass takes or gives: a name, and the check that a value must pass to be of this level."""

    name: str
    check: Callable[[Any], object] = lambda value: None


class Pass(NamedTuple):
    """A step from value to value.

    `run(value, settings, reports)` returns the new value and its report, or None.
    """

    name: str
    takes: Level
    gives: Level
    run: Callable[[Any, Settings, Reports], tuple[Any, Any]]


class Walked(NamedTuple):
    """Where a walk came to: the value, its level, and what each pass reported and took, in seconds."""

    value: Any
    level: Level
    reports: Reports
    seconds: dict[str, float]


def show(title: str, value: Any, before: str) -> str:
    """Print a value and its title to the standard error, unless its text is that before; gives the text."""
    text = str(value)
    print(f"-- {title}", "   (the same)" if text == before else text.rstrip(), sep="\n", file=sys.stderr)
    return text


def walk(passes: Sequence[Pass], value: Any, settings: Settings, reports: Reports | None = None) -> Walked:
    """Run passes one after the other: the one function that checks levels and prints them.

    Raises:
      ProgramError: a value is not what its level asks for, with `debug_checks`.
    """
    reports, seconds = dict(reports or {}), {}
    level, shown = passes[0].takes, ""
    for one in passes:
        start = time.perf_counter()
        value, report = one.run(value, settings, reports)
        seconds[one.name] = time.perf_counter() - start
        level = one.gives
        if report is not None:
            reports[one.name] = report
        if settings.checked:
            level.check(value)
        if settings.shown:
            shown = show(f"after {one.name}: {level.name}, {seconds[one.name] * 1e3:.2f} ms", value, shown)
    return Walked(value, level, reports, seconds)


def up_to(passes: Sequence[Pass], stop: str, names: dict[str, str]) -> Sequence[Pass]:
    """The passes up to the one of a name, or of an old name for it.

    Raises:
      ArgumentError: there is no such pass.
    """
    last = names.get(stop, stop)
    for i, one in enumerate(passes):
        if one.name == last:
            return passes[: i + 1]
    known = ", ".join(dict.fromkeys((*(p.name for p in passes), *names)))
    raise ArgumentError(f"there is no stage named {stop!r}", f"one of {known}")
