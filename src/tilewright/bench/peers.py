"""One function of a file in several libraries, each in a process of its own, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.support.errors import ArgumentError, BenchmarkError
from ..export.command import file_and_name
from .child import NAMESPACES
from .machine import ceilings, clock, description
from .result import Result
from .run import ROUND, batch, check_rounds, row_of

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

    def ask(self, count: int, seconds: float) -> tuple[float, float]:
        """The mean and the least seconds of a call, in a round of batches of `count` calls."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count} {seconds}\n")
        self.process.stdin.flush()
        mean, least = self.answer()["seconds"]
        return mean, least

    def answer(self) -> dict[str, Any]:
        """The next answer; the first one is of the first call, and has what is known of the program."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = json.loads(line) if line else {"error": self._last_line()}
        if "error" in found:
            remedy = found.get("remedy", "run the function by itself in that library")
            raise BenchmarkError(f"{self.library}: {found['error']}", remedy)
        return found

    def _last_line(self) -> str:
        self.log.seek(0)
        return (self.log.read().strip().splitlines() or ["its process ended"])[-1]


def installed() -> list[str]:
    """The libraries that are here, this one first."""
    return [name for name in NAMESPACES if find_spec(name) is not None]


def benchmark_file(what: str, libraries: Sequence[str] | None = None, rounds: int = 15) -> Result:
    """Time `FILE::NAME`: a function that takes an array namespace and gives a function and its arguments.

    Raises:
      ArgumentError: no such file, an unknown library, fewer than two rounds.
      BenchmarkError: the function fails in some library.
    """
    check_rounds(rounds)
    path, name = file_and_name(what)
    file = str(path)
    chosen = list(libraries or installed())
    for library in chosen:
        if library not in NAMESPACES:
            raise ArgumentError(f"there is no library {library!r} to compare with", f"one of {', '.join(NAMESPACES)}")
    times: dict[str, list[tuple[float, float]]] = {library: [] for library in chosen}
    known: dict[str, dict[str, Any]] = {}
    counts, speed, peers = {}, [], {}
    try:
        for library in chosen:
            peers[library] = _Peer(file, name, library)
            known[library] = peers[library].answer()
            counts[library] = batch(peers[library].ask(1, 0.0)[0])
        for number in range(rounds):
            for library in chosen if number % 2 else reversed(chosen):
                times[library].append(peers[library].ask(counts[library], ROUND))
            speed.append(clock())
    finally:
        for peer in peers.values():
            peer.end()
    _warn_of_types({library: known[library].pop("types") for library in chosen})
    rows = tuple(
        row_of(library, times[library], compile=known[library].pop("seconds"), **known[library])
        for library in chosen
    )
    return Result(rows, tuple(speed), ceilings(), description(), name)


def _warn_of_types(types: dict[str, str]) -> None:
    """Libraries make other dtypes of the same words: a comparison of these says little."""
    if len(set(types.values())) > 1:
        told = "; ".join(f"{library}: {text}" for library, text in types.items())
        warnings.warn(f"the libraries' arguments differ ({told}): give a dtype, np.float32 say", stacklevel=3)
