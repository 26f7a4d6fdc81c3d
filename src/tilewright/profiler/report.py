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
from ..core.support.errors import ProfilerError
from ..core.support.html_table import html_table, html_text
from ..xla_backend.analysis.hlo_report import show_seconds
from ..xla_backend.analysis.instruction_origins import Origin, origins
from ..xla_backend.jaxlib import shim
from .recorded_modules import recorded_modules
from .session import ProfileOptions, begin, end

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
    recording: bool = False

    @property
    def rows(self) -> list[Row]:
        """The parts of the programs that ran, the longest first.

        Raises:
          ProfilerError: the block has not ended.
        """
        self._check_ended()
        found: dict[tuple[str, str], list[float]] = {}
        for span, own in zip(self.spans, _own(self.spans), strict=True):
            found.setdefault((span.program, span.part), []).append(own)
        rows = [Row(_shown(key[0]), self._origin(*key).name, len(times), sum(times) / 1e6, self._origin(*key).line)
                for key, times in found.items()]  # fmt: skip
        return sorted(rows, key=lambda row: -row.seconds)

    def _origin(self, program: str, part: str) -> Origin:
        return self.origins.get((program, part), Origin((part,), ""))

    def _check_ended(self) -> None:
        if self.recording:
            raise ProfilerError("a profile has no rows within its `with` block", "read it after the block")

    def __str__(self) -> str:
        if self.recording:
            return "recording: the rows are known after the `with` block"
        rows = self.rows
        total = sum(row.seconds for row in rows)
        if not rows:
            return "nothing was computed on a device"
        count = len({span.program for span in self.spans})
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
        if self.recording:
            return html_text(str(self))
        rows = self.rows
        total = sum(row.seconds for row in rows) or 1.0
        cells = [(f"{row.seconds / total:.0%}", show_seconds(row.seconds), row.calls, row.program, row.name, row.line)
                 for row in rows]  # fmt: skip
        return html_table(("share", "time", "runs", "program", "operations", "line"), cells, str(self).splitlines()[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the runs as a trace in Chrome's format, for Perfetto; compressed where the name ends in `.gz`.

        Raises:
          ProfilerError: the block has not ended.
        """
        self._check_ended()
        threads = {name: i for i, name in enumerate(dict.fromkeys(s.thread for s in self.spans))}
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": i, "args": {"name": n}} for n, i in threads.items()
        ]
        for s in self.spans:
            origin = self._origin(s.program, s.part)
            args = {"program": _shown(s.program), "instruction": s.part, "line": origin.line}
            events.append({
                "ph": "X", "name": origin.name, "cat": _shown(s.program), "ts": s.start, "dur": s.length,
                "pid": 0, "tid": threads[s.thread], "args": args,
            })  # fmt: skip
        data = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode()
        Path(path).write_bytes(gzip.compress(data) if os.fspath(path).endswith(".gz") else data)


@contextmanager
def profile(lines: bool = False) -> Iterator[Profile]:
    """Record what a `with` block computes; the value it gives tells it when the block has ended.

    With `lines` the programs used within are compiled with your lines and named scopes (the setting `source_lines`),
    so functions that were compiled before are compiled again: call them once with that setting beforehand if only
    later calls are to be seen. What runs outside `jit` is compiled once, with the line of its first call.

    Raises:
      ProfilerError: a recording is under way, or the rows are read within the block.

    >>> from tilewright import jit, numpy as tnp
    >>> f = jit(lambda x: tnp.tanh(x @ x).sum())
    >>> with profile(lines=True) as found:
    ...     _ = f(tnp.ones((64, 64))).block_until_ready()
    >>> any("tanh" in row.name for row in found.rows)
    True
    """
    found, options = Profile(recording=True), ProfileOptions()
    options.python_tracer_level = 0  # its events are not in the rows, and would slow down what is measured
    begin(options)
    try:
        with config(source_lines=True) if lines else config():
            yield found
    finally:
        found.recording = False
        _, data = end()
        found.spans = list(_spans(data))
        found.origins = _origins(found.spans, data)


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


def _shown(program: str) -> str:
    """A module's name without the digest that it has where it is compiled with lines."""
    return program.partition(".")[0]


def _origins(spans: list[Span], data: bytes) -> dict[tuple[str, str], Origin]:
    """What is known of the parts of the programs that ran, from their modules in the recording."""
    modules = recorded_modules(data, {span.program for span in spans})
    return {(name, part): origin for name, text in modules for part, origin in origins(text).items()}


def _spans(data: bytes) -> Iterator[Span]:
    """What XLA's executables ran, of all that a recording holds."""
    for thread, (name, start, length, stats) in shim.recorded_events(data):
        if "hlo_op" in stats and "hlo_module" in stats and not name.startswith("end: "):
            yield Span(str(stats["hlo_module"]), str(stats["hlo_op"]), start / 1e3, length / 1e3, thread)
