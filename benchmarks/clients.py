"""Libraries written for jax: their own tests on this package, and on the real jax.

    python -m benchmarks.clients --sources DIR --ours PYTHON --jax PYTHON [LIBRARY ...]

`--ours` is the Python of an environment with the libraries and without jax (see `tilewright clients`), `--jax` one with
both; below DIR are the libraries' sources, whose tests are run from there: `optax-0.2.8` and so on, or `equinox-repo`.
Each file of tests runs here first, in a process of its own. Where all of it passes, it is counted as it is; where
something fails, the file runs on jax too, and what counts is what passes of the tests that pass there. The results go
to benchmarks/clients.json after each file, and `benchmarks/client_pages.py` makes the pages of them. A file that has
its results already is not run again but by `--again` (all) or `--failing` (the tests that failed, here alone). Two of
these may run side by side.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import tempfile
import time
import xml.etree.ElementTree as xml
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.client_pages import RESULTS, ROOT, page, write_pages

FOLDERS = re.compile(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-])")  # of a file that is told by its whole path


class Suite(NamedTuple):
    """The tests of a library: the folder of its source and its files (patterns), and the environment they run in."""

    folder: str
    files: tuple[str, ...]
    environment: Mapping[str, str] = {}


SUITES = {
    "flax": Suite(
        "flax-*", ("tests/**/*_test.py",), environment={"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    ),
    "optax": Suite("optax-*", ("optax/**/*_test.py",)),
    "equinox": Suite("equinox-repo", ("tests/test_*.py",)),
    "numpyro": Suite("numpyro-*", ("test/**/test_*.py",)),
    "distrax": Suite("distrax-*", ("distrax/**/*_test.py",)),
    "dm-haiku": Suite("dm_haiku-*", ("haiku/**/*_test.py",)),
    "chex": Suite("chex-*", ("chex/**/*_test.py",)),
    "blackjax": Suite("blackjax-*", ("tests/**/test_*.py",)),
    "diffrax": Suite("diffrax-repo", ("test/test_*.py",)),
    "lineax": Suite("lineax-repo", ("tests/test_*.py",)),
    "optimistix": Suite("optimistix-repo", ("tests/test_*.py",)),
    "jaxopt": Suite("jaxopt-repo", ("tests/*_test.py",)),
}

Outcomes = dict[str, tuple[str, str]]  # of each test: passed, failed or skipped; and the reason


class Runner(NamedTuple):
    """How tests are run: the two Pythons, and the seconds for a file."""

    ours: str
    jax: str
    limit: float

    def outcomes(self, here: bool, folder: Path, file: str, environment: Mapping[str, str],
                 tests: Sequence[str] = ()) -> Outcomes:  # fmt: skip
        """Run a file, or tests of it. After the limit no further test starts; long after it, the file has failed."""
        with tempfile.TemporaryDirectory() as place:
            report = Path(place) / "report.xml"
            command = [self.ours, "-m", "tilewright.as_jax"] if here else [self.jax]
            command += ["-m", "pytest", *(tests or [file]), "-q", "-p", "no:cacheprovider", "--timeout=240",
                        "--timeout-method=signal", f"--session-timeout={self.limit}",
                        f"--junitxml={report}"]  # fmt: skip
            env = {**os.environ, **environment, **({"PYTHONPATH": str(ROOT / "src")} if here else {})}
            try:
                done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True,
                                      timeout=2 * self.limit + 90)  # fmt: skip
            except subprocess.TimeoutExpired:
                return {file: ("failed", f"takes longer than {2 * self.limit + 90:.0f} s")}
            if not report.exists():
                return {file: ("failed", _first(done.stdout + done.stderr))}
            return dict(map(_outcome, xml.parse(report).getroot().iter("testcase")))

    def file(self, folder: Path, file: str, environment: Mapping[str, str]) -> dict[str, Any]:
        """The results of a file: what counts, what passes of it here, and what fails."""
        began = time.monotonic()
        here = self.outcomes(True, folder, file, environment)
        seconds = time.monotonic() - began
        found: dict[str, Any] = {"ours": _counted(here), "seconds": round(seconds, 1)}
        if seconds > self.limit:
            found["cut"] = True
        if not found["ours"].get("failed"):
            return found | {"counted": found["ours"].get("passed", 0), "failed": {}}
        there = self.outcomes(False, folder, file, environment)
        ran = there if file in here or "cut" not in found else {test: there[test] for test in there if test in here}
        wanted = [test for test, (state, _) in ran.items() if state == "passed"]
        return found | {"jax": _counted(there), "counted": len(wanted), "failed": _failed(wanted, here)}

    def failing(self, folder: Path, file: str, environment: Mapping[str, str], found: dict[str, Any]) -> dict[str, Any]:
        """The results of a file after the tests that failed were run once more, here alone."""
        began = time.monotonic()
        here = self.outcomes(True, folder, file, environment, [_node(file, test) for test in found["failed"]])
        failed = _failed(found["failed"], here) if time.monotonic() - began < self.limit else {
            test: here.get(test, ("", reason))[1] for test, reason in found["failed"].items()
            if here.get(test, ("failed", ""))[0] != "passed"}  # fmt: skip
        return {key: value for key, value in found.items() if key not in ("ours", "jax")} | {"failed": failed}


def _node(file: str, test: str) -> str:
    """What pytest calls a test of a report: classes are after the file's name."""
    place, _, name = test.partition("::")
    classes = place.partition(Path(file).stem)[2].strip(".").split(".")
    return "::".join([file, *filter(None, classes), name])


def _failed(wanted: Iterable[str], here: Outcomes) -> dict[str, str]:
    """Why each of these tests does not pass here; one that did not run: why its file could not be read."""
    whole = next((reason for test, (_, reason) in here.items() if _is_file(test)), "no test of this name here")
    found = {test: here.get(test, ("failed", whole)) for test in wanted}
    return {test: reason or state for test, (state, reason) in found.items() if state != "passed"}


def _is_file(name: str) -> bool:
    """Whether what is reported is a file that could not be read, rather than a test."""
    return name.startswith("::") or "::" not in name


def _outcome(case: xml.Element) -> tuple[str, tuple[str, str]]:
    name = f"{case.get('classname')}::{case.get('name')}"
    for child in case:
        if child.tag in ("failure", "error"):
            message = child.get("message") or ""
            if message == "collection failure":
                message = "\n".join(line[1:] for line in (child.text or "").splitlines() if line.startswith("E "))
            return name, ("failed", _first(message or child.text or ""))
        if child.tag == "skipped":
            return name, ("skipped", "")
    return name, ("passed", "")


def _first(text: str) -> str:
    """The first line of a message, files without the folders of this machine."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return FOLDERS.sub("", lines[0])[:160] if lines else ""


def _counted(found: Outcomes) -> dict[str, int]:
    return dict(Counter(state for state, _ in found.values()))


def files_of(suite: Suite, folder: Path) -> Iterator[str]:
    """The files of tests of a suite."""
    for pattern in suite.files:
        for path in sorted(folder.glob(pattern)):
            yield path.relative_to(folder).as_posix()


def write(place: Path, name: str, version: str, suite: int, file: str, found: dict[str, Any]) -> None:
    """Add the results of a file, and write the page beside them; of this repository's, also what is made of them."""
    with place.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = read(place)
        library = results.setdefault(name, {"files": {}}) | {"version": version, "suite": suite}
        library["files"][file] = found
        results[name] = library
        place.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        place.with_suffix(".md").write_text(page(results))
        if place == RESULTS:
            write_pages()


def read(place: Path) -> dict[str, Any]:
    """What was found until now."""
    return json.loads(place.read_text() or "{}") if place.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", help="all by default")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--jax", required=True)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where they are kept")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a file")
    parser.add_argument("--again", action="store_true", help="also the files that have results")
    parser.add_argument("--match", default="", help="only the files whose names have this regular expression")
    parser.add_argument("--failing", action="store_true", help="also the tests that failed")
    options = parser.parse_args()
    runner = Runner(options.ours, options.jax, options.limit)
    for name in options.libraries or SUITES:
        suite = SUITES[name]
        folder = next(p for p in sorted(options.sources.glob(suite.folder)) if p.is_dir())
        asked = f"import importlib.metadata as m; print(m.version({name!r}))"
        version = subprocess.check_output([options.ours, "-c", asked], text=True).strip()
        names = list(files_of(suite, folder))
        for file in names:
            found = read(options.results).get(name, {"files": {}})["files"].get(file)
            if not re.search(options.match, file):
                continue
            if found is None or options.again:
                found = runner.file(folder, file, suite.environment)
            elif options.failing and found["failed"]:
                found = runner.failing(folder, file, suite.environment, found)
            else:
                continue
            write(options.results, name, version, len(names), file, found)
            print(f"{name} {file}: {found['counted']} count, {len(found['failed'])} fail", flush=True)


if __name__ == "__main__":
    main()
