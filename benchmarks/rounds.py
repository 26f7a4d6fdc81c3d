"""Runs cases against a baseline: each measurement in a process of its own, the two sides in turn.

One number is the median within a process. A case's result is a `tilewright.bench.Result`, of a row for each side with a
time for each round. The table shows the median of each side, the median of the rounds' ratios, and their spread.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.bench.machine import description, yardstick
from tilewright.bench.result import Result, Row, of_json
from tilewright.errors import BenchmarkError

from .harness import RESULTS, ROOT, Case, duration, mebibytes

FORMAT = "tilewright-benchmarks"  # of files of results


def measure(suite: str, case: Case, side: str, phase: str, cache: str, python: str) -> float:
    """Run one measurement in a new process and read its number."""
    command = [python, "-m", "benchmarks.harness", suite, case.name, side, phase]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{case.name}, {getattr(case, side).library}:\n{done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])["seconds"]


@dataclass
class Outcome:
    """What the rounds of a case gave: a result whose first row is the other side, or an error."""

    case: Case
    result: Result | None = None
    error: str = ""

    @property
    def pairs(self) -> list[float]:
        """The ratio in each round, of measurements next to each other, so that what slows one slows both."""
        if self.result is None:
            return []
        other, ours = (row.seconds for row in self.result.rows)
        return [a / b for a, b in zip(ours, other, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.pairs)

    @property
    def met(self) -> bool:
        return not self.error and self.ratio <= self.case.wanted

    def row(self) -> list[str]:
        if self.result is None:
            return [self.case.name, "", "", "failed", f"<= {self.case.wanted:g}", self.error.splitlines()[-1]]
        show = duration if self.case.unit == "seconds" else mebibytes
        sides = ((self.result.rows[1], self.case.ours), (self.result.rows[0], self.case.other))
        medians = [f"{show(row.median)} {side.label}".strip() for row, side in sides]
        spread = f"{min(self.pairs):.2f} to {max(self.pairs):.2f}"
        return [self.case.name, *medians, f"{self.ratio:.2f}", f"<= {self.case.wanted:g}", spread]


def outcome(case: Case, ours: Sequence[float], other: Sequence[float], speed: Sequence[float] = ()) -> Outcome:
    """What was measured of a case in each round, the machine's speed in it too."""
    first, second = (f"{side.library} {side.label}".strip() for side in (case.other, case.ours))
    rows = (Row(first, tuple(other)), Row(second if second != first else f"{second}, ours", tuple(ours)))
    return Outcome(case, Result(rows, tuple(speed), None, machine()))


HEADINGS = ("case", "tilewright", "jax", "ratio", "wanted", "ratio over rounds")


def run_case(
    suite: str, case: Case, rounds: int, pythons: dict[str, str], cache: str, tick: Callable[[], None]
) -> Outcome:
    """All rounds of a case, the sides in turn and the order of the two swapped each round."""
    sides: dict[str, list[float]] = {"ours": [], "other": []}
    speed = []
    try:
        for side in sides:
            chosen = getattr(case, side)
            if chosen.prepare is not None:
                measure(suite, case, side, "prepare", cache, pythons[chosen.library])
        for n in range(rounds):
            for side in sorted(sides, reverse=bool(n % 2)):
                python = pythons[getattr(case, side).library]
                sides[side].append(measure(suite, case, side, "measure", cache, python))
                tick()
            speed.append(yardstick())
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return Outcome(case, error=str(error))
    return outcome(case, sides["ours"], sides["other"], speed)


def machine() -> dict[str, str]:
    """What the numbers were measured on, and when."""
    return {**description(), "date": time.strftime("%Y-%m-%d")}


def write(suite: str, outcomes: Sequence[Outcome]) -> None:
    """The table as Markdown and everything as JSON; a partial run keeps the other cases of an earlier one."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{suite}.json"
    known = kept(file) if file.exists() else {}
    known.update({o.case.name: o.result for o in outcomes if o.result is not None})
    cases = [case for case in importlib.import_module(f"benchmarks.{suite}").CASES if case.name in known]
    found = {case.name: known[case.name].as_json() for case in cases}
    file.write_text(json.dumps({"format": FORMAT, "results": found}, indent=1) + "\n")
    rows = [Outcome(case, known[case.name]).row() for case in cases]
    text = "\n".join("| " + " | ".join(row) + " |" for row in [HEADINGS, ["---"] * len(HEADINGS), *rows])
    rounds = statistics.mode(len(known[case.name].rows[0].seconds) for case in cases)
    about = ", ".join(f"{k} {v}" for k, v in (known[cases[-1].name].machine or {}).items())
    head = f"# {suite}\n\n`python -m benchmarks {suite}`; {about}; medians of {rounds} rounds."
    (RESULTS / f"{suite}.md").write_text(f"{head}\n\n{text}\n")


def kept(path: str | os.PathLike[str]) -> dict[str, Result]:
    """The results in a file that `write` made, by the names of cases.

    Raises:
      BenchmarkError: it is none.
    """
    found = json.loads(Path(path).read_text())
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BenchmarkError(f"{os.fspath(path)} has no results of a suite", "one that `python -m benchmarks` wrote")
    return {name: of_json(one, f"{name} in {os.fspath(path)}") for name, one in found["results"].items()}


def show(one: Outcome, console: Any, width: int) -> None:
    """A line of what was measured of a case, its name in `width` letters, and the whole of an error."""
    name, ours, other, ratio, wanted, spread = one.row()
    line = f"{name:<{width}}  {ours:>9}  {other:>9}  {ratio:>6}  {wanted:<8}  {spread}"
    console.print(line, style="green" if one.met else "red", markup=False, highlight=False, soft_wrap=True)
    if one.error:
        console.print(one.error, markup=False)
