"""Libraries written for jax: their own tests on this package, and on the real jax.

    python -m benchmarks.compatibility.clients --sources DIR --ours PYTHON --jax PYTHON [LIBRARY ...]

`--ours` is the Python of an environment with the libraries and without jax (see `tilewright clients`), `--jax` one with
both; below DIR are the libraries' sources, whose tests are run from there: `optax-0.2.8` and so on, or `equinox-repo`.
Some files of tests run in one process, the smallest files first. What fails here runs on jax too, and a test counts if
it passes here or on jax. The results go to benchmarks/compatibility/clients.json after each process, and
`benchmarks/compatibility/client_pages.py` makes the pages of them. A file whose time is over keeps how many of its
tests ran, and `--further` goes on from there. A file that has its results already is not run again but by `--again`
(all) or `--failing` (what failed, here alone). Two of these may run side by side.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.compatibility.client_pages import RESULTS, ROOT, page, write_pages

ERROR = re.compile(r"^[\w.]*(Error|Exception|Interrupt|Exit)\b|\berror: ")  # of a traceback, or of a command line
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
    "dm-pix": Suite("dm_pix-*", ("dm_pix/**/*_test.py",)),
    "e3nn-jax": Suite("e3nn_jax-*", ("tests/**/*_test.py",)),
    "flowjax": Suite("flowjax-*", ("tests/**/test_*.py",)),
    "evosax": Suite("evosax-repo", ("tests/**/test_*.py",)),
    "jaxlie": Suite("jaxlie-repo", ("tests/test_*.py",)),
    "kfac-jax": Suite("kfac-repo", ("tests/test_*.py",)),
    "jmp": Suite("jmp-*", ("jmp/**/*_test.py",)),
    "jraph": Suite("jraph-*", ("jraph/_src/*_test.py", "jraph/experimental/*_test.py")),
    "mctx": Suite("mctx-*", ("mctx/**/*_test.py",)),
    "ott-jax": Suite("ott-repo", ("tests/**/*_test.py",)),
    "penzai": Suite(
        "penzai-*", ("tests/**/*_test.py",), environment={"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    ),
    "rlax": Suite("rlax-*", ("rlax/**/*_test.py",)),
    "tinygp": Suite("tinygp-*", ("tests/**/test_*.py",)),
}

# Of each file, what is asked of it: {"from": number} or {"only": names}, and of these a {"share": number}.
Tests = Mapping[str, Mapping[str, Any]]
Results = Mapping[str, Any]  # of a file: counted, failed (why, by the tests' names), seconds, and cut (tests that ran)


class Ran(NamedTuple):
    """What a file's tests came to: passed, failed, skipped or left, with the message; how many there are."""

    found: dict[str, tuple[str, str]]
    tests: int

    def of(self, *states: str) -> dict[str, str]:
        """The messages of the tests that came to one of these."""
        return {test: message for test, (state, message) in self.found.items() if state in states}


class Runner(NamedTuple):
    """How tests are run: the two Pythons, the seconds for a file, and a plugin of this folder's, for ours alone."""

    ours: str
    jax: str
    limit: float
    plugin: str = ""

    def run(self, here: bool, folder: Path, environment: Mapping[str, str], asked: Tests) -> dict[str, Ran]:
        """Run tests of some files in one process. After a file's time none of its tests starts."""
        with tempfile.TemporaryDirectory() as place:
            report, told = Path(place) / "report", Path(place) / "asked.json"
            told.write_text(json.dumps({"report": str(report), "limit": self.limit, "files": asked}))
            shutil.copy(ROOT / "benchmarks" / "compatibility" / "client_plugin.py", place)
            command = [self.ours, "-m", "tilewright.as_jax"] if here else [self.jax]
            command += ["-m", "pytest", *asked, "-q", "-p", "client_plugin", "-p", "no:cacheprovider",
                        f"--rootdir={folder}", f"--timeout={max(self.limit, 120):.0f}", "--timeout-method=signal",
                        "--continue-on-collection-errors"]  # fmt: skip
            paths = [place, str(ROOT / "src")] if here else [place]
            if here and self.plugin:
                command += ["-p", self.plugin]
                paths.append(str(ROOT / "benchmarks" / "compatibility"))
            env = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(paths), "CLIENT_TESTS": str(told)}
            ends, found = "the process ended", {}
            try:
                done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True,
                                      timeout=2 * self.limit * len(asked) + 90)  # fmt: skip
            except subprocess.TimeoutExpired:
                ends = "takes longer than the time for all files"
            else:
                if not report.exists():
                    return {file: Ran({"": ("failed", _first(_error(done.stdout + done.stderr)))}, 0) for file in asked}
                found = dict.fromkeys(asked, Ran({}, 0))
            return found | ran(report.read_text().splitlines() if report.exists() else [], ends)

    def files(self, folder: Path, environment: Mapping[str, str], asked: Tests,
              known: Mapping[str, Results]) -> Iterator[tuple[str, Results]]:  # fmt: skip
        """The results of files: those of the tests that are asked for, here and on jax, added to what is known."""
        began = time.monotonic()
        here = self.run(True, folder, environment, asked)
        seconds = (time.monotonic() - began) / max(len(here), 1)
        failed = {file: found.of("failed") for file, found in here.items()}
        again = {
            file: {**asked[file], "from": 0} if "" in tests else {"only": list(tests)}
            for file, tests in failed.items() if tests
        }  # fmt: skip
        there = self.run(False, folder, environment, again) if again else {}
        for file, found in here.items():
            if found.tests and not found.found:  # its turn did not come
                continue
            start = asked[file]["from"]
            wrong = wanted(failed[file], there.get(file))
            result = {"counted": len(found.of("passed")) + len(wrong), "failed": wrong, "seconds": round(seconds, 1)}
            if start:
                result = joined(known[file], result)
            ends = start + len(found.of("passed", "failed", "skipped"))
            yield file, result | ({"cut": ends} if ends < found.tests else {})

    def failing(self, folder: Path, environment: Mapping[str, str],
                known: Mapping[str, Results]) -> Iterator[tuple[str, Results]]:  # fmt: skip
        """The results of files after the tests that failed were run once more, here alone."""
        asked = {file: {"only": list(found["failed"])} for file, found in known.items()}
        for file, ran in self.run(True, folder, environment, asked).items():
            whole = ran.of("failed").get("")
            failed = {test: whole or ran.found.get(test, ("", reason))[1] or reason
                      for test, reason in known[file]["failed"].items() if test not in ran.of("passed")}  # fmt: skip
            yield file, {**known[file], "failed": failed}


def ran(lines: Iterable[str], ends: str) -> dict[str, Ran]:
    """What the lines of the plugin say of each file; a test without an end failed as the process did."""
    files: dict[str, Ran] = {}
    for found in map(json.loads, lines):
        known = files.setdefault(found["file"], Ran({}, 0))
        if "tests" in found:
            files[found["file"]] = known._replace(tests=found["tests"])
        elif found["state"] == "running":
            known.found[found["test"]] = ("failed", ends)
        else:
            known.found[found["test"]] = (found["state"], _first(found["message"]))
    return files


def wanted(failed: Mapping[str, str], jax: Ran | None) -> dict[str, str]:
    """Of tests that fail here those that count: all but the ones that do not pass on jax either."""
    if jax is None:
        return dict(failed)
    if "" in failed:  # the file could not be read here
        return dict.fromkeys(jax.of("passed"), failed[""])
    return {test: why for test, why in failed.items() if test not in jax.of("failed", "skipped")}


def joined(known: Results, more: Results) -> dict[str, Any]:
    """The results of a file whose tests ran in two parts."""
    return {"counted": known["counted"] + more["counted"], "failed": {**known["failed"], **more["failed"]},
            "seconds": round(known["seconds"] + more["seconds"], 1)}  # fmt: skip


def _error(text: str) -> str:
    """The last line that names an error in what an ended process printed, or the last line."""
    lines = text.strip().splitlines()
    return next((line for line in reversed(lines) if ERROR.search(line)), lines[-1] if lines else "")


def _first(text: str) -> str:
    """The first line of a message, files without the folders of this machine."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return FOLDERS.sub("", lines[0])[:160] if lines else ""


def files_of(suite: Suite, folder: Path) -> Iterator[str]:
    """The files of tests of a suite."""
    for pattern in suite.files:
        for path in sorted(folder.glob(pattern)):
            yield path.relative_to(folder).as_posix()


def write(place: Path, name: str, version: str, suite: int, found: Mapping[str, Results]) -> None:
    """Add the results of files, and write the page beside them; of this repository's, also what is made of them."""
    with place.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = read(place)
        library = results.setdefault(name, {"files": {}}) | {"version": version, "suite": suite}
        library["files"].update(found)
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
    parser.add_argument("--together", type=int, default=6, help="files of one process")
    parser.add_argument("--match", default="", help="only the files whose names have this regular expression")
    parser.add_argument("--again", action="store_true", help="also the files that have results")
    parser.add_argument("--further", action="store_true", help="also the files that were cut short, from there")
    parser.add_argument("--failing", action="store_true", help="only the tests that failed, here alone")
    options = parser.parse_args()
    runner = Runner(options.ours, options.jax, options.limit)
    for name in options.libraries or SUITES:
        suite = SUITES[name]
        folder = next(p for p in sorted(options.sources.glob(suite.folder)) if p.is_dir())
        asked = f"import importlib.metadata as m; print(m.version({name!r}))"
        version = subprocess.check_output([options.ours, "-c", asked], text=True).strip()
        names = list(files_of(suite, folder))
        known = read(options.results).get(name, {"files": {}})["files"]
        matching = sorted((f for f in names if re.search(options.match, f)), key=lambda f: (folder / f).stat().st_size)
        asked = {file: start for file in matching if (start := _start(known.get(file), options)) is not None}
        for batch in itertools.batched(asked, options.together):
            some = {file: known[file] for file in batch if file in known}
            found = (
                runner.failing(folder, suite.environment, some) if options.failing else
                runner.files(folder, suite.environment, {file: {"from": asked[file]} for file in batch}, some)
            )  # fmt: skip
            for file, result in (done := dict(found)).items():
                print(f"{name} {file}: {result['counted']} count, {len(result['failed'])} fail", flush=True)
            write(options.results, name, version, len(names), done)


def _start(known: Results | None, options: argparse.Namespace) -> int | None:
    """The test of a file to begin with; None where nothing of it is to be run."""
    if options.failing:
        return 0 if known and known["failed"] else None
    if options.further and known and "cut" in known:
        return known["cut"]
    return 0 if known is None or options.again else None


if __name__ == "__main__":
    main()
