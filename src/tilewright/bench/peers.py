"""One function of a file in several libraries, each in a process of its own, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ..core.errors import ArgumentError, BenchmarkError
from .child import NAMESPACES
from .machine import description, yardstick
from .result import Result, Row
from .run import ROUND

_CHILD = Path(__file__).parent / "child.py"


class _Peer:
    """The process of one library."""

    def __init__(self, file: str, name: str, library: str):
        self.library = library
        self.log = tempfile.TemporaryFile("w+")
        path = os.pathsep.join(p for p in sys.path if p)
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD), file, name, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.log.close()

    def ask(self, calls: int | None = None) -> float:
        """The seconds of a call; without a number of calls those of the first one."""
        assert self.process.stdin is not None and self.process.stdout is not None
        if calls is not None:
            self.process.stdin.write(f"{calls}\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        found = json.loads(line) if line else {"error": self._last_line()}
        if "error" in found:
            raise BenchmarkError(f"{self.library}: {found['error']}", "run the function by itself in that library")
        return float(found["seconds"])

    def _last_line(self) -> str:
        self.log.seek(0)
        return (self.log.read().strip().splitlines() or ["its process ended"])[-1]


def installed() -> list[str]:
    """The libraries that are here, this one first."""
    return [name for name in NAMESPACES if find_spec(name) is not None]


def benchmark_file(what: str, libraries: Sequence[str] | None = None, rounds: int = 15) -> Result:
    """Time `FILE::NAME`: a function that takes an array namespace and gives a function and its arguments.

    Raises:
      ArgumentError: no such file, an unknown library. BenchmarkError: the function fails in some library.
    """
    file, _, name = what.partition("::")
    if not name or not os.path.isfile(file):
        raise ArgumentError(f"{what!r} names no function of a file", "give FILE::NAME")
    chosen = list(libraries or installed())
    for library in chosen:
        if library not in NAMESPACES:
            raise ArgumentError(f"there is no library {library!r} to compare with", f"one of {', '.join(NAMESPACES)}")
    times: dict[str, list[float]] = {library: [] for library in chosen}
    first, counts, speed, peers = {}, {}, [], {}
    try:
        for library in chosen:
            peers[library] = _Peer(file, name, library)
            first[library] = peers[library].ask()
            counts[library] = max(1, int(ROUND / max(peers[library].ask(1), 1e-8)))
        for number in range(rounds):
            for library in chosen if number % 2 else reversed(chosen):
                times[library].append(peers[library].ask(counts[library]))
            speed.append(yardstick())
    finally:
        for peer in peers.values():
            peer.end()
    rows = tuple(Row(library, tuple(times[library]), compile=first[library]) for library in chosen)
    return Result(rows, tuple(speed), None, description())
