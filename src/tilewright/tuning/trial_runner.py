"""Where configurations are tried: in worker processes that compile side by side, or in this process.

A crash, a time-out or a wrong answer of a configuration is its error; the next ones are tried in a new worker.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.ir.types import ArrayType
from ..core.jit.jit import jit
from ..core.support import forks
from ..core.support.errors import TilewrightError
from ..core.support.runtime import runtime
from ..cpu_backend.runtime.library import objects_in
from ..xla_backend.analysis.fingerprint import fingerprint
from . import measure
from .worker import receive, send

START_SECONDS = 60.0  # for a worker to import the package
_COMMAND = "from tilewright.tuning.worker import main; main()"


class Failed(TilewrightError):
    """A configuration that cannot be used, and why."""


class _Idle:
    """Workers that wait for another problem."""

    def __init__(self) -> None:
        self.processes: list[_Process] = []
        self.lock = threading.Lock()
        forks.at_exit(self.end)

    def take(self) -> _Process:
        with self.lock:
            return self.processes.pop() if self.processes else _Process()

    def give(self, process: _Process) -> None:
        with self.lock:
            self.processes.append(process)

    def end(self) -> None:
        with self.lock:
            processes = self.processes[:]
            self.processes.clear()
        for process in processes:
            process.end()


_idle = runtime.part("tuning.workers", _Idle())


class Here:
    """Trials in this process: for GPUs, whose memory one process has, and for programs with callbacks into Python."""

    many = 1

    arrays: Sequence[Any]
    wanted: Any
    tolerance: float | None

    def __init__(self, arrays: Sequence[Any], wanted: Any, tolerance: float | None):
        self.arrays, self.wanted, self.tolerance = arrays, wanted, tolerance
        self.calls: dict[int, Callable[[], Any]] = {}
        self.programs: dict[int, str] = {}  # the identity of each program

    def compile(self, functions: Mapping[int, Callable[..., Any]]) -> dict[int, str | None]:
        """Compile functions; what went wrong with each."""
        found: dict[int, str | None] = {}
        for number, function in functions.items():
            compiled = jit(function)
            self.calls[number] = lambda compiled=compiled: compiled(*self.arrays)
            try:
                self.calls[number]()
                self.programs[number] = fingerprint(compiled.lower(*self.arrays).compile().runtime_executable())
                found[number] = None
            except Exception as error:  # a configuration may break in any way; the search goes on
                found[number] = measure.said(error)
        return found

    def check(self, number: int) -> str | None:
        """What is wrong with a result."""
        return measure.wrong(self.calls[number](), self.wanted, self.tolerance)

    def time(self, number: int, stop: float) -> tuple[float, float]:
        """Median seconds and their spread.

        Raises:
          Failed: it does not run.
        """
        try:
            return measure.seconds_of(self.calls[number], stop)[:2]
        except Exception as error:
            raise Failed(measure.said(error), "") from None

    def call(self, number: int, count: int) -> float:
        """Seconds of a call, in the fastest batch of so many calls.

        Raises:
          Failed: it does not run.
        """
        try:
            return measure.fastest(self.calls[number], count)
        except Exception as error:
            raise Failed(measure.said(error), "") from None

    def load(self, numbers: Sequence[int]) -> None:
        """All of them are in this process."""

    def drop(self, number: int) -> None:
        """Forget a function."""
        self.calls.pop(number, None)

    def end(self) -> None:
        """Nothing is left over."""


class Isolated:
    """Trials in worker processes: programs are traced and printed here, and compiled, checked and timed there."""

    arrays: Sequence[Any]
    seconds: float
    problem: tuple[str, list[Any], list[np.ndarray], list[np.ndarray], float | None]

    def __init__(
        self, arrays: Sequence[Any], wanted: Sequence[Any], tolerance: float | None, seconds: float,
        many: int | None = None,
    ):  # fmt: skip
        self.arrays, self.seconds = arrays, seconds
        self.many: int = many or min(os.cpu_count() or 1, 8)
        types = [x.aval for x in arrays]
        self.problem = ("problem", types, [np.asarray(x) for x in arrays], [np.asarray(x) for x in wanted], tolerance)
        self.workers: list[_Process | None] = [None] * self.many
        self.place: dict[int, int] = {}
        self.modules: dict[int, Any] = {}
        self.programs: dict[int, str] = {}  # the identity of each program

    def compile(self, functions: Mapping[int, Callable[..., Any]]) -> dict[int, str | None]:
        """Trace functions, and compile them side by side; what went wrong with each."""
        found: dict[int, str | None] = {}
        rest = list(functions.items())
        while rest:
            begun = []
            for slot, (number, function) in zip(range(self.many), rest, strict=False):
                try:
                    module = jit(function).lower(*self.arrays)._module
                    if module.callbacks:
                        raise Failed("it calls back into Python", "pass isolate=False")
                    self.modules[number] = replace(module, again=None, reports={})
                    self._ask_to_compile(slot, number)
                    begun.append((slot, number))
                except Exception as error:
                    found[number] = measure.said(error)
            for slot, number in begun:
                found[number] = self._begun(slot, number)
            del rest[: self.many]
        return found

    def _ask_to_compile(self, slot: int, number: int) -> None:
        module = self.modules[number]
        self._worker(slot).ask(("compile", number, module, objects_in(module.text)))

    def _begun(self, slot: int, number: int) -> str | None:
        """Wait for a program that a worker compiles; what went wrong."""
        self.place[number] = slot
        value, error = self._answer(slot)
        if error is None:
            self.programs[number] = value
        return error

    def load(self, numbers: Sequence[int]) -> None:
        """Have one worker run programs: two processes may differ in more than the program."""
        slot = self.place[numbers[0]]
        for number in numbers:
            if self.place[number] != slot:
                self.drop(number)
                self._ask_to_compile(slot, number)
                self._begun(slot, number)

    def check(self, number: int) -> str | None:
        """What is wrong with a result."""
        value, error = self._request(number, ("check", number))
        return error or value

    def time(self, number: int, stop: float) -> tuple[float, float]:
        """Median seconds and their spread.

        Raises:
          Failed: it does not run, or takes too long.
        """
        return self._required(number, ("time", number, stop))

    def call(self, number: int, count: int) -> float:
        """Seconds of a call, in the fastest batch of so many calls.

        Raises:
          Failed: it does not run, or takes too long.
        """
        return self._required(number, ("call", number, count))

    def _required(self, number: int, request: tuple[Any, ...]) -> Any:
        value, error = self._request(number, request)
        if error:
            raise Failed(error, "")
        return value

    def drop(self, number: int) -> None:
        """Let a worker forget a program."""
        if self.workers[self.place[number]] is not None:
            self._request(number, ("drop", number))

    def end(self) -> None:
        """Let go of the workers, which may serve another search; of one that is at work, for good."""
        for worker in self.workers:
            if worker is not None and worker.asked:
                worker.end()
            elif worker is not None:
                _idle.give(worker)

    def _worker(self, slot: int) -> _Process:
        worker = self.workers[slot]
        if worker is None:
            worker = self.workers[slot] = _idle.take()
            worker.ask(self.problem)
            _, error = worker.answer(START_SECONDS + self.seconds)
            if error:
                self.workers[slot] = None
                raise Failed(error, "")
        return worker

    def _request(self, number: int, request: tuple[Any, ...]) -> tuple[Any, str | None]:
        worker = self.workers[self.place[number]]
        if worker is None:
            return None, "its worker has ended"
        worker.ask(request)
        return self._answer(self.place[number])

    def _answer(self, slot: int) -> tuple[Any, str | None]:
        worker = self.workers[slot]
        assert worker is not None
        found = worker.answer(self.seconds)
        if not worker.alive:
            self.workers[slot] = None
        return found


class _Process:
    """One worker."""

    def __init__(self) -> None:
        self.log = tempfile.TemporaryFile()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen([sys.executable, "-P", "-c", _COMMAND], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, env=environment)  # fmt: skip
        self.alive, self.asked = True, False

    def ask(self, request: Any) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        self.asked = True
        try:
            send(self.process.stdin, request)  # type: ignore[arg-type]
        except OSError:
            pass  # the answer says how it ended

    def answer(self, seconds: float) -> tuple[Any, str | None]:
        """The answer and None, or None and what went wrong; after a crash or a time-out the process is gone."""
        pipe = self.process.stdout
        assert pipe is not None
        until = time.monotonic() + seconds
        while not select.select([pipe], [], [], min(max(until - time.monotonic(), 0), 1.0))[0]:
            if time.monotonic() >= until:
                self.end()
                return None, f"stopped after {seconds:.0f} s"
        found = receive(pipe)  # type: ignore[arg-type]
        if found is None:
            code = self.process.wait()
            self.log.seek(0)
            last = "".join(f": {line}" for line in self.log.read().decode(errors="replace").splitlines()[-1:])
            self.end()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return None, f"its process ended with {how}{last}"
        self.asked = False
        right, value = found
        return (value, None) if right else (None, value)

    def end(self) -> None:
        """End the process at once."""
        self.alive = False
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                pass
        self.log.close()


def isolable(leaves: Sequence[Any]) -> bool:
    """Whether arguments can be sent to a worker: arrays of numbers, on this machine's processor."""
    return all(type(x.aval) is ArrayType and isinstance(x.aval.dtype, np.dtype) for x in leaves)
