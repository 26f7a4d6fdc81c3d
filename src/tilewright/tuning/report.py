"""What a search found: each configuration tried, with its time or the reason that it was refused."""

from __future__ import annotations

from dataclasses import dataclass

from .space import Configuration

LINES = 20  # of a report as text


def shown(configuration: Configuration) -> str:
    """A configuration as text."""
    return " ".join(f"{k}={v}" for k, v in configuration.items()) or "-"


@dataclass(frozen=True)
class Trial:
    """One configuration and what became of it; `seconds` is None where it was refused, and `why` says so."""

    configuration: Configuration
    seconds: float | None
    spread: float | None
    why: str | None


@dataclass(frozen=True)
class Report:
    """What `tune` found: the trials, fastest first, of a space of so many configurations; `stopped`: by Ctrl-C."""

    trials: tuple[Trial, ...]
    default: Configuration
    elapsed: float
    space: int = 0
    stopped: bool = False
    name: str = ""

    @property
    def best(self) -> Trial:
        return self.trials[0]

    @property
    def gain(self) -> float | None:
        """How many times faster the best is than the defaults; None where these were not measured."""
        found = [t.seconds for t in self.trials if t.configuration == self.default and t.seconds is not None]
        return found[0] / self.best.seconds if found and self.best.seconds else None

    def __str__(self) -> str:
        of = f" of {self.space}" if self.space > len(self.trials) else ""
        gain = "" if self.gain is None else f", {self.gain:.2f} times as fast as the defaults"
        ended = ", stopped" if self.stopped else ""
        count = len(self.trials)
        what = f"{self.name}: " if self.name else ""
        lines = [f"{what}{count}{of} configuration{'' if count == 1 else 's'} in {self.elapsed:.1f} s{gain}{ended}"]
        for trial in self.trials[:LINES]:
            result = f"{trial.seconds * 1e3:10.3f} ms" if trial.seconds is not None else f"    refused: {trial.why}"
            lines.append(f"  {shown(trial.configuration):<32} {result}")
        return "\n".join(lines + (["  ..."] if len(self.trials) > LINES else []))
