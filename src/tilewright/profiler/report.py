"""`profile()`: which programs ran, for how long, and which of their parts took the time, by your names and lines."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..core.support.config import config
from ..core.support.html_table import html_table
from ..xla_backend.analysis.hlo_report import show_seconds
from ..xla_backend.analysis.instruction_origins import Origin, origins
from ..xla_backend.devices import client
from ..xla_backend.jaxlib import shim
from .session import begin, end

_WIDTH = 60


class Row(NamedTuple):
    """One part of a program: how often it ran, for how many seconds without what is within it, and its line."""

    program: str
    name: str
    calls: int
    seconds: float
    line: str


class Span(NamedTuple):
    """One run of a part of a program: its start and length in microseconds, on a thread or stream."""

    program: str
    part: str
    start: float
    length: float
    thread: str


@dataclass
class Profile:
    """What ran within `with profile() as found:`; prints as a table, the longest first, once the block has ended."""

    spans: list[Span] = field(default_factory=list)
    origins: dict[tuple[str, str], Origin] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """The parts of the programs that ran, the longest first."""
        found: dict[tuple[str, str], list[float]] = {}
        for span, own in zip(self.spans, _own(self.spans), strict=True):
            found.setdefault((span.program, span.part), []).append(own)
        rows = [
            Row(program, self._name(program, part), len(times), sum(times) / 1e6, self._line(program, part))
            for (program, part), times in found.items()
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def _line(self, program: str, part: str) -> str:
        known = self.origins.get((program, part))
        return known.line if known else ""

    def _name(self, program: str, part: str) -> str:
        known = self.origins.get((program, part))
        return known.name if known else part

    def __str__(self) -> str:
        rows = self.rows
        total = sum(row.seconds for row in rows)
        if not rows:
            return "nothing was computed on a device"
        count = len({row.program for row in rows})
        lines = [f"{show_seconds(total)} in {count} program{'' if count == 1 else 's'}"]
        for row in rows:
            share = f"{row.seconds / total:4.0%}" if total else "   -"
            where = f"  {row.line}" if row.line else ""
            name = row.name if len(row.name) <= _WIDTH else f"{row.name[: _WIDTH - 3]}..."
            lines.append(f"{share} {show_seconds(row.seconds):>9} {row.calls:>6}x  {row.program}: {name}{where}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Notebooks: the parts as a table, the longest first."""
        rows = self.rows
        total = sum(row.seconds for row in rows) or 1.0
        cells = [(f"{row.seconds / total:.0%}", show_seconds(row.seconds), row.calls, row.program, row.name, row.line)
                 for row in rows]  # fmt: skip
        return html_table(("share", "time", "runs", "program", "operations", "line"), cells, str(self).splitlines()[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the runs as a trace in Chrome's format, for Perfetto; compressed where the name ends in `.gz`."""
        threads = {name: i for i, name in enumerate(dict.fromkeys(s.thread for s in self.spans))}
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": i, "args": {"name": n}} for n, i in threads.items()
        ]
        for s in self.spans:
            told = {"program": s.program, "instruction": s.part, "line": self._line(s.program, s.part)}
            events.append({
                "ph": "X", "name": self._name(s.program, s.part), "cat": s.program, "ts": s.start, "dur": s.length,
                "pid": 0, "tid": threads[s.thread], "args": told,
            })  # fmt: skip
        data = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode()
        Path(path).write_bytes(gzip.compress(data) if os.fspath(path).endswith(".gz") else data)


@contextmanager
def profile(lines: bool = False) -> Iterator[Profile]:
    """Record what a `with` block computes; the value it gives tells it when the block has ended.

    With `lines` the programs used within are compiled so that they tell your lines and named scopes (`source_lines`),
    for which functions that were compiled before are compiled again: call them once with that setting beforehand if
    only later calls are to be seen.

    Raises:
      ProfilerError: a recording is under way.

    >>> from tilewright import jit, numpy as tnp
    >>> f = jit(lambda x: tnp.tanh(x @ x).sum())
    >>> with profile(lines=True) as found:
    ...     _ = f(tnp.ones((64, 64))).block_until_ready()
    >>> any("tanh" in row.name for row in found.rows)
    True
    """
    found = Profile()
    begin()
    try:
        with config(source_lines=True) if lines else config():
            yield found
    finally:
        _, data = end()
        found.spans = list(_spans(data))
        found.origins = _origins(found.spans)


def _own(spans: list[Span]) -> list[float]:
    """The length of each span without those within it on its thread."""
    own = [s.length for s in spans]
    open_: dict[str, list[int]] = {}
    for i in sorted(range(len(spans)), key=lambda i: (spans[i].start, -spans[i].length)):
        around = open_.setdefault(spans[i].thread, [])
        while around and spans[around[-1]].start + spans[around[-1]].length <= spans[i].start:
            around.pop()
        if around:
            own[around[-1]] -= spans[i].length
        around.append(i)
    return own


def _origins(spans: list[Span]) -> dict[tuple[str, str], Origin]:
    """What is known of the parts of programs: of those of one name, by the newest that has all the parts that ran."""
    parts: dict[str, set[str]] = {}
    for span in spans:
        parts.setdefault(span.program, set()).add(span.part)
    found: dict[tuple[str, str], Origin] = {}
    for name, text in _texts(set(parts)):
        if name in parts and all(f"%{part} = " in text for part in parts[name]):
            found.update({(name, part): origin for part, origin in origins(text).items()})
            del parts[name]
    return found


def _spans(data: bytes) -> Iterator[Span]:
    """What XLA's executables ran, of all that a recording holds."""
    for thread, (name, start, length, stats) in shim.recorded_events(data):
        if "hlo_op" in stats and "hlo_module" in stats and not name.startswith("end: "):
            yield Span(str(stats["hlo_module"]), str(stats["hlo_op"]), start / 1e3, length / 1e3, thread)


def _texts(programs: set[str]) -> Iterator[tuple[str, str]]:
    """The names and compiled texts of this process's programs of these names, the newest first."""
    platforms = {"cpu", client.default_device().platform}
    for platform in platforms if programs else ():
        for executable in client.client(platform).live_executables():
            for module in executable.hlo_modules():
                if module.name in programs:
                    yield module.name, module.to_string()
