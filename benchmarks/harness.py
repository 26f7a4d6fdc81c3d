"""Runs benchmark cases against a peer: each measurement in a process of its own, the two sides in turn.

    python -m benchmarks.harness spine --rounds 5 --only "eager a + b"

A suite is a module of this folder with `CASES`. Every case is written once, against `Api`, whose members have the
same names in tilewright and in jax. One number is the median within a process; the table shows the median over
rounds of each side, the median of the rounds' ratios, and their spread. Results go to `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
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


def per_call(f: Callable[[], Any], wait: Callable[[Any], Any], calls: int, samples: int = 15) -> float:
    """Median seconds of a call, over samples of `calls` calls each that are waited for at the end; five warm up."""
    for _ in range(5):
        wait(f())
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(calls):
            result = f()
        wait(result)
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


# ------------------------------------------------------------------------------------- one measurement's process


def child(suite: str, case_name: str, side: str, phase: str) -> None:
    """Measure one side of one case and print the seconds; nothing heavy is imported before the case asks."""
    cases = {case.name: case for case in importlib.import_module(f"benchmarks.{suite}").CASES}
    chosen: Side = getattr(cases[case_name], side)
    f = chosen.prepare if phase == "prepare" else chosen.measure
    assert f is not None
    print(json.dumps({"seconds": f(chosen.library)}))


def measure(suite: str, case: Case, side: str, phase: str, cache: str, python: str) -> float:
    """Run `child` in a new process and read its number."""
    command = [python, "-m", "benchmarks.harness", "--child", suite, case.name, side, phase]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{case.name}, {getattr(case, side).library}:\n{done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])["seconds"]


# ------------------------------------------------------------------------------------------------- the parent


@dataclass
class Result:
    """What the rounds of a case gave."""

    case: Case
    ours: list[float]
    other: list[float]
    error: str = ""

    @property
    def ratio(self) -> float:
        # Of pairs measured one after the other, so that a machine that slows down slows both.
        return statistics.median(a / b for a, b in zip(self.ours, self.other))

    @property
    def met(self) -> bool:
        return not self.error and self.ratio <= self.case.wanted

    def row(self) -> list[str]:
        labels = [side.label for side in (self.case.ours, self.case.other)]
        if self.error:
            return [self.case.name, "", "", "failed", f"<= {self.case.wanted:g}", self.error.splitlines()[-1]]
        pairs = [a / b for a, b in zip(self.ours, self.other)]
        show = duration if self.case.unit == "seconds" else mebibytes
        medians = [f"{show(statistics.median(t))} {n}".strip() for t, n in zip((self.ours, self.other), labels)]
        spread = f"{min(pairs):.2f} to {max(pairs):.2f}"
        return [self.case.name, *medians, f"{self.ratio:.2f}", f"<= {self.case.wanted:g}", spread]


HEADINGS = ("case", "tilewright", "jax", "ratio", "wanted", "ratio over rounds")


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def mebibytes(n: float) -> str:
    return f"{n / 2**20:.3g} MiB"


def run_case(
    suite: str, case: Case, rounds: int, pythons: dict[str, str], cache: str, tick: Callable[[], None]
) -> Result:
    """All rounds of a case, the sides in turn and the order of the two swapped each round."""
    result = Result(case, [], [])
    sides = {"ours": result.ours, "other": result.other}
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
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        result.error = str(error)
    return result


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    model = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def write(suite: str, results: Sequence[Result], rounds: int) -> None:
    """The table as Markdown and everything as JSON; a partial run keeps the other cases of an earlier one."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{suite}.json"
    known = {r["case"]: r for r in json.loads(file.read_text())["results"]} if file.exists() else {}
    for result in results:
        if not result.error:
            known[result.case.name] = {
                "case": result.case.name,
                "row": result.row(),
                "seconds": result.ours,
                "against_seconds": result.other,
                "wanted": result.case.wanted,
                "rounds": rounds,
            }
    order = [case.name for case in importlib.import_module(f"benchmarks.{suite}").CASES]
    rows = [known[name] for name in order if name in known]
    where = machine()
    file.write_text(json.dumps({"machine": where, "results": rows}, indent=1) + "\n")
    table = [HEADINGS, ["---"] * len(HEADINGS), *[r["row"] for r in rows]]
    text = "\n".join("| " + " | ".join(row) + " |" for row in table)
    about = ", ".join(f"{k} {v}" for k, v in where.items())
    head = f"# {suite}\n\n`python -m benchmarks.harness {suite}`; {about}; medians of {rounds} rounds."
    (RESULTS / f"{suite}.md").write_text(f"{head}\n\n{text}\n")


def show(results: Sequence[Result], console: Any) -> None:
    from rich.table import Table

    table = Table(*HEADINGS)
    for result in results:
        table.add_row(*result.row(), style="green" if result.met else "red")
    console.print(table)
    for result in results:
        if result.error:
            console.print(f"[red]{result.case.name}[/]")
            console.print(result.error, markup=False)


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--child"]:
        child(*arguments[1:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harness", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", nargs="?", default="spine")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="cases whose name contains this")
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has jax")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a wanted ratio is missed")
    options = parser.parse_args(arguments)

    from rich.console import Console
    from rich.progress import Progress

    cases = importlib.import_module(f"benchmarks.{options.suite}").CASES
    cases = [c for c in cases if not options.only or any(text in c.name for text in options.only)]
    pythons = {"tilewright": sys.executable, "jax": options.peer_python}
    console, results = Console(), []
    with tempfile.TemporaryDirectory() as cache, Progress(console=console) as progress:
        task = progress.add_task("", total=2 * options.rounds * len(cases))
        for n, case in enumerate(cases, 1):
            progress.update(task, description=case.name)
            tick = lambda: progress.advance(task)  # noqa: E731
            results.append(run_case(options.suite, case, options.rounds, pythons, cache, tick))
            progress.update(task, completed=2 * options.rounds * n)
    show(results, console)
    if any(not result.error for result in results):
        write(options.suite, results, options.rounds)
    if any(result.error for result in results):
        return 2
    return 1 if options.check and not all(result.met for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
