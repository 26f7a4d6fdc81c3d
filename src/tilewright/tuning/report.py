"""What a search found: each configuration tried, with its time or the reason that it was refused."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from ..core.support.html_table import html_table, html_text
from .space import Configuration

LINES = 20  # of a report as text


def shown(configuration: Configuration) -> str:
    """A configuration as text."""
    return " ".join(f"{k}={_value(v)}" for k, v in configuration.items()) or "-"


def _value(x: Any) -> str:
    """A value as text; of a compiler's parameters those that are not the defaults."""
    if not is_dataclass(x) or isinstance(x, type):
        return str(x)
    given = (f"{f.name}={getattr(x, f.name)!r}" for f in fields(x) if getattr(x, f.name) != f.default)
    return f"{type(x).__module__.rpartition('.')[2]}.{type(x).__name__}({', '.join(given)})"


@dataclass(frozen=True)
class Trial:
    """One configuration and what became of it; `seconds` is None where it was refused, and `why` says so.

    `like`: the configuration that was compiled to the same program, and was tried for both.
    """

    configuration: Configuration
    seconds: float | None
    spread: float | None
    why: str | None
    like: Configuration | None = None


@dataclass(frozen=True)
class Report:
    """What `tune` found: the trials, fastest first, of a space of so many configurations; `stopped`: by Ctrl-C.

    `kept` is the choice: the fastest if it is faster than the defaults beyond noise, else these. None: none was made.
    """

    trials: tuple[Trial, ...]
    default: Configuration
    elapsed: float
    space: int = 0
    stopped: bool = False
    name: str = ""
    kept: Configuration | None = None
    why: str = ""

    @property
    def best(self) -> Trial:
        """The trial of the choice; of the fastest where none was made."""
        return next((t for t in self.trials if t.configuration == self.kept), self.trials[0])

    @property
    def programs(self) -> int:
        """How many different programs were timed."""
        return sum(t.like is None and t.seconds is not None for t in self.trials)

    @property
    def gain(self) -> float | None:
        """How many times faster the choice is than the defaults; None where these were not measured."""
        found = [t.seconds for t in self.trials if t.configuration == self.default and t.seconds is not None]
        return found[0] / self.best.seconds if found and self.best.seconds else None

    def __str__(self) -> str:
        of = f" of {self.space}" if self.space > len(self.trials) else ""
        gain = "" if self.gain is None else f", {self.gain:.2f} times as fast as the defaults"
        ended = ", stopped" if self.stopped else ""
        count = len(self.trials)
        prefix = f"{self.name}: " if self.name else ""
        tried = f"{count}{of} configurations" if of else _count(count, "configuration")
        same = "" if all(t.like is None for t in self.trials) else f", {_count(self.programs, 'program')}"
        lines = [f"{prefix}{tried}{same} in {self.elapsed:.1f} s{gain}{ended}"]
        distinct = [t for t in self.trials if t.like is None]
        for trial in distinct[:LINES]:
            result = f"{trial.seconds * 1e3:10.3f} ms" if trial.seconds is not None else f"    refused: {trial.why}"
            others = sum(t.like == trial.configuration for t in self.trials)
            like = f"  and {_count(others, 'other')} compiled to the same program" if others else ""
            lines.append(f"  {shown(trial.configuration):<32} {result}{like}")
        lines += ["  ..."] if len(distinct) > LINES else []
        return "\n".join(lines + ([f"  kept: {shown(self.kept)} ({self.why})"] if self.kept is not None else []))

    def _repr_html_(self) -> str:
        """Notebooks: the trials as a table, under the first line of the text."""
        first, *rest = str(self).splitlines()
        rows = [(shown(t.configuration), "-" if t.seconds is None else f"{t.seconds * 1e3:.3f}", t.why or "")
                for t in self.trials if t.like is None]  # fmt: skip
        note = html_text(rest[-1].strip()) if self.kept is not None else ""
        return html_table(("configuration", "ms", "refused"), rows[:LINES], first) + note


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
