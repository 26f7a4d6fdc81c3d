"""What cases against a baseline are written with, and the process of one measurement: `SUITE CASE SIDE PHASE`.

A suite is a module of this folder with `CASES`; `python -m benchmarks SUITE` runs it (`rounds.py`). Every case is
written once, against `Api`, whose members have the same names in tilewright and in jax. Nothing heavy is imported here,
since the import of a library may be what is measured.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
LANG = {"tilewright": "tilewright.lang", "jax": "jax.experimental.pallas"}


class Api:
    """One library under the names that both have: `Api("jax").np` is `jax.numpy`; top-level names are attributes."""

    def __init__(self, name: str):
        self.name = name
        self.top: ModuleType = importlib.import_module(name)

    def __getattr__(self, name: str) -> Any:
        if name == "np":
            return importlib.import_module(f"{self.name}.numpy")
        if name == "lang":
            return importlib.import_module(LANG[self.name])
        if name in ("nn", "lax", "random"):
            return importlib.import_module(f"{self.name}.{name}")
        return getattr(self.top, name)


@dataclass(frozen=True)
class Side:
    """A library's name and the function that gives the seconds of one measurement; `prepare` runs before, apart."""

    library: str
    measure: Callable[[str], float]
    prepare: Callable[[str], float] | None = None
    label: str = ""  # shown beside the time where the library's name does not say enough


@dataclass(frozen=True)
class Case:
    """Two sides and the ratio wanted of the first to the second."""

    name: str
    ours: Side
    other: Side
    wanted: float
    unit: str = "seconds"  # or "bytes"


def versus(name: str, measure: Callable[[Api], float], wanted: float) -> Case:
    """A case measured by one function in tilewright and in jax."""

    def with_api(library: str) -> float:
        return measure(Api(library))

    return Case(name, Side("tilewright", with_api), Side("jax", with_api), wanted)


def per_call(
    f: Callable[[], Any], wait: Callable[[Any], Any], calls: int, samples: int = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> float:  # fmt: skip
    """Median seconds of a call, over samples of `calls` calls each that are waited for at the end; five warm up."""
    for _ in range(5):
        wait(f())
    times = []
    for _ in range(samples):
        start = clock()
        for _ in range(calls):
            result = f()
        wait(result)
        times.append((clock() - start) / calls)
    return statistics.median(times)


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def mebibytes(n: float) -> str:
    return f"{n / 2**20:.3g} MiB"


# ------------------------------------------------------------------------------------- one measurement's process


def child(suite: str, case_name: str, side: str, phase: str) -> None:
    """Measure one side of one case and print the seconds; nothing heavy is imported before the case asks."""
    cases = {case.name: case for case in importlib.import_module(f"benchmarks.{suite}").CASES}
    chosen: Side = getattr(cases[case_name], side)
    f = chosen.prepare if phase == "prepare" else chosen.measure
    assert f is not None
    print(json.dumps({"seconds": f(chosen.library)}))


if __name__ == "__main__":
    child(*sys.argv[1:])
