"""The process that compiles, checks and times configurations, so that what goes wrong in one ends only this process.

It answers requests on standard input, one after the other, on standard output: each a length and a pickled value. What
programs print goes to the standard error.
"""

from __future__ import annotations

import itertools
import os
import pickle
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from ..compiler import lazy_layers
from ..core.support.runtime import runtime
from ..xla_backend.analysis.fingerprint import fingerprint
from ..xla_backend.arrays.transfer import host_buffer
from ..xla_backend.pipeline.stablehlo_module import Module
from . import measure

HEAD = struct.Struct("<Q")
RING = 2**30  # bytes that copies of the inputs may take


def send(pipe: BinaryIO, value: Any) -> None:
    """Write one value."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(HEAD.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Read one value; None at the end of the pipe."""
    head = pipe.read(HEAD.size)
    size = HEAD.unpack(head)[0] if len(head) == HEAD.size else 0
    data = pipe.read(size)
    return pickle.loads(data) if data and len(data) == size else None


def cache_bytes() -> int:
    """The bytes of the processor's last cache; 32 MiB where the system does not say."""
    try:
        return os.sysconf("SC_LEVEL3_CACHE_SIZE") or 2**25
    except (ValueError, OSError, AttributeError):
        return 2**25


class Worker:
    """What a worker knows: the problem's inputs and result, and the programs compiled so far."""

    def __init__(self) -> None:
        self.programs: dict[int, Callable[[], Any]] = {}
        self.types: list[Any] = []
        self.rings: list[list[Any]] = []
        self.wanted: list[np.ndarray] = []
        self.tolerance: float | None = None

    def problem(self, types: list[Any], inputs: list[np.ndarray], wanted: list[np.ndarray], tolerance: Any) -> None:
        """Take the arguments, copied up to 16 times so that they outgrow the cache, and the right result."""
        self.types, self.wanted, self.tolerance = types, wanted, tolerance
        size = max(sum(x.nbytes for x in inputs), 1)
        self.programs.clear()
        copies = min(max(2 * cache_bytes() // size, 1), 16, max(RING // size, 1))
        self.rings = [[host_buffer(x.copy(), t) for x, t in zip(inputs, types, strict=True)] for _ in range(copies)]

    def compile(self, number: int, module: Module, objects: Mapping[str, bytes]) -> str:
        """Compile a program, which calls machine code by the names of `objects`; returns its identity."""
        if objects:
            lazy_layers.cpu_kernel_selection.register(objects)
        executable = runtime.backend.compile(module, None)
        run = runtime.backend.runner(executable, "list", None)
        ring = itertools.cycle(self.rings)
        self.programs[number] = lambda: run(*next(ring))
        return fingerprint(executable)

    def check(self, number: int) -> str | None:
        """What is wrong with a program's result."""
        return measure.wrong(self.programs[number](), self.wanted, self.tolerance)

    def time(self, number: int, stop: float) -> tuple[float, float]:
        """Median seconds of a program, and their spread."""
        return measure.seconds_of(self.programs[number], stop)[:2]

    def call(self, number: int, count: int) -> float:
        """Seconds of a call of a program, in the fastest batch of so many calls."""
        return measure.fastest(self.programs[number], count)

    def drop(self, number: int) -> None:
        """Forget a program."""
        self.programs.pop(number, None)


def main() -> None:
    """Answer until the pipe ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = Worker()
    while (request := receive(sys.stdin.buffer)) is not None:
        name, *arguments = request
        try:
            send(answers, (True, getattr(worker, name)(*arguments)))
        except Exception as error:  # whatever a configuration does wrong refuses it alone
            send(answers, (False, measure.said(error)))


if __name__ == "__main__":
    main()
