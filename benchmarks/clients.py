"""Libraries written for jax: their own tests on this package, and on the real jax.

    python -m benchmarks.clients --sources DIR --ours PYTHON --jax PYTHON [LIBRARY ...]

`--ours` is the Python of an environment with the libraries and without jax (see `tilewright clients`), `--jax` one with
both; below DIR are the libraries' sources, whose tests are run from there: `optax-0.2.8` and so on, or `equinox-repo`.
The files below are a sample: the whole suites take hours. What counts is what passes of the
tests that pass on jax. The results go to benchmarks/clients.json, and the table to clients.md beside it; a run
of some libraries leaves the others as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import xml.etree.ElementTree as xml
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "clients.json"
PAGE = RESULTS.with_suffix(".md")


class Suite(NamedTuple):
    """The tests of a library: the folder of its source (a pattern), and the files that are run of it."""

    folder: str
    files: tuple[str, ...]


def _named(pattern: str, names: str) -> tuple[str, ...]:
    return tuple(pattern.format(name) for name in names.split())


SUITES = {
    "optax": Suite("optax-*", (
        *_named("optax/_src/{}_test.py", "update base combine numerics lookahead"),
        *_named("optax/transforms/_{}_test.py", "accumulation adding clipping combining masking"),
        *_named("optax/tree_utils/_{}_test.py", "tree_math casting"),
        *_named("optax/losses/_{}_test.py", "regression smoothing"),
    )),
    "chex": Suite("chex-*", _named("chex/_src/{}_test.py", "dataclass variants fake warnings dimensions")),
    "equinox": Suite("equinox-repo", _named(
        "tests/test_{}.py",
        "filters module vmap primitive jit ad tree update make_jaxpr eval_shape enum nontraceable stateful "
        "closure_to_pytree scan shared abstract caches",
    )),
    "flax": Suite("flax-*", (
        *_named("tests/core/core_{}_test.py", "frozen_dict lift meta scope"),
        *_named("tests/linen/linen_{}_test.py", "activation module meta"),
        *_named("tests/nnx/{}_test.py", "module variable rngs optimizer metrics"),
        *_named("tests/{}_test.py", "struct traverse_util serialization"),
    )),
    "dm-haiku": Suite("dm_haiku-*", _named(
        "haiku/_src/{}_test.py", "base basic module transform stateful initializers filtering multi_transform",
    )),
    "lineax": Suite("lineax-repo", _named("tests/test_{}.py", "misc norm well_posed")),
    "optimistix": Suite("optimistix-repo", _named("tests/test_{}.py", "misc best_so_far cauchy_point")),
    "jaxopt": Suite("jaxopt-repo", _named("tests/{}_test.py", "base tree_util cond")),
    "distrax": Suite("distrax-*", (
        *_named("distrax/_src/bijectors/{}_test.py", "sigmoid tanh"),
        *_named("distrax/_src/utils/{}_test.py", "math jittable transformations"),
    )),
}  # fmt: skip

Outcomes = dict[str, tuple[str, str]]  # of each test: passed, failed or skipped; and the reason


def outcomes(python: str, ours: bool, folder: Path, files: Sequence[str], limit: float) -> Outcomes:
    """Run files of tests in one process; where it takes longer than the limit, that is one test that failed."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        command = [python, *(["-m", "tilewright.as_jax"] if ours else []), "-m", "pytest", *files, "-q", "--timeout=90",
                   "--timeout-method=signal", "-p", "no:cacheprovider", f"--junitxml={report}"]  # fmt: skip
        environment = os.environ | ({"PYTHONPATH": str(ROOT / "src")} if ours else {})
        try:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"all": ("failed", f"takes longer than {limit:.0f} s")}
        if not report.exists():
            return {"all": ("failed", _last(done.stdout + done.stderr))}
        return dict(map(_outcome, xml.parse(report).getroot().iter("testcase")))


def _outcome(case: xml.Element) -> tuple[str, tuple[str, str]]:
    name = f"{case.get('classname')}::{case.get('name')}"
    for child in case:
        if child.tag in ("failure", "error"):
            return name, ("failed", _last(child.get("message") or child.text or ""))
        if child.tag == "skipped":
            return name, ("skipped", "")
    return name, ("passed", "")


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[0][:160] if lines else ""


def run(name: str, sources: Path, ours: str, theirs: str, limit: float) -> dict[str, Any]:
    """Both runs of a library: counts on each, and what fails here of what passes on jax."""
    suite = SUITES[name]
    folder = next(iter(sorted(p for p in sources.glob(suite.folder) if p.is_dir())))
    with ThreadPoolExecutor(2) as pool:
        mine = pool.submit(outcomes, ours, True, folder, suite.files, limit)
        other = pool.submit(outcomes, theirs, False, folder, suite.files, limit)
        here, there = mine.result(), other.result()
    print(f"{name}: {_counted(here)} here, {_counted(there)} on jax", flush=True)
    wanted = [test for test, (state, _) in there.items() if state == "passed"]
    failed = {t: here.get(t, ("failed", "not run"))[1] for t in wanted
              if here.get(t, ("failed", ""))[0] != "passed"}  # fmt: skip
    return {
        "files": list(suite.files), "passed_on_jax": len(wanted),
        "passed_of_these": len(wanted) - len(failed), "jax": _counted(there), "ours": _counted(here), "failed": failed,
    }  # fmt: skip


def _counted(found: Outcomes) -> dict[str, int]:
    return dict(Counter(state for state, _ in found.values()))


def page(results: dict[str, Any]) -> str:
    """The table, and under it the tests that fail here."""
    lines = ["# Libraries written for jax", "",
             "Made by `python -m benchmarks.clients`: the libraries' own tests on this package, and on jax 0.11.2. A",
             "sample of each suite, the files that benchmarks/clients.py names.", "",
             "| library | version | pass on jax | of these pass here | share | here: passed, failed, skipped |",
             "| --- | --- | --: | --: | --: | --- |"]  # fmt: skip
    for name, found in results.items():
        total, passed = found["passed_on_jax"], found["passed_of_these"]
        counts = ", ".join(str(found["ours"].get(state, 0)) for state in ("passed", "failed", "skipped"))
        shown = f"{total} | {passed} | {100 * passed / total:.1f}%" if total else "not finished | | "
        lines.append(f"| {name} | {found['version']} | {shown} | {counts} |")
    for name, found in results.items():
        reasons = Counter(reason for reason in found["failed"].values())
        if reasons:
            lines += ["", f"## {name}", ""]
            lines += [f"- {count} × {_escaped(reason)}" for reason, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", help="all by default")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--jax", required=True)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for a library")
    options = parser.parse_args()
    for name in options.libraries or SUITES:
        found = run(name, options.sources, options.ours, options.jax, options.limit)
        asked = f"import importlib.metadata as m; print(m.version({name!r}))"
        found["version"] = subprocess.check_output([options.ours, "-c", asked], text=True).strip()
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results[name] = found
        results = {n: results[n] for n in SUITES if n in results}
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page({n: results[n] for n in SUITES if n in results}))


if __name__ == "__main__":
    main()
