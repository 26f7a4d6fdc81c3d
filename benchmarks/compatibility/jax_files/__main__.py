"""jax's own test files, run on this package under the name `jax`, and what fails here on the real jax too.

    python -m benchmarks.compatibility.jax_files --jax-tests DIR --ours PYTHON --jax PYTHON [FILE ...]

DIR is a checkout of jax's repository, from which nothing is copied. `--ours` is the Python of an environment that has
the dependencies of this package, absl-py, hypothesis, pytest and pytest-timeout, and no jax; `--jax` one with these and
jax. Each file runs in processes of its own, on eight virtual CPU devices. jax's generated tests are drawn once each
(`--cases`), and of a file a share of the tests (`--share`), drawn by their names; both sides run the same. A test
counts if it passes here or on jax. The results go to results.json beside this file after each file, from which
docs/jax_tests.md is made (`--pages` only makes it).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.compatibility.clients import Runner
from benchmarks.compatibility.jax_files.page import RESULTS, write_page

# Files for devices that are not here, of jax's own compilers' insides, and of several processes.
NOT_RUN = re.compile(r"gpu|mosaic|cuda|rocm|multiprocess|back_compat|sparsecore|torch|pgle|/tpu_(?!pallas_test)")


def files_in(tests: Path) -> list[str]:
    """The files of tests that can run on CPUs."""
    found = [*tests.glob("*_test.py"), *tests.glob("pallas/*_test.py")]
    return sorted(name for path in found if not NOT_RUN.search(name := path.relative_to(tests).as_posix()))


def keep(file: str, result: dict[str, Any]) -> None:
    """Add the results of a file, and make the page anew."""
    with RESULTS.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = json.loads(RESULTS.read_text() or "{}")
        RESULTS.write_text(json.dumps({**known, file: result}, indent=1, sort_keys=True) + "\n")
        write_page()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="below DIR/tests; all by default")
    parser.add_argument("--jax-tests", type=Path, help="a checkout of jax's repository")
    parser.add_argument("--ours")
    parser.add_argument("--jax")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a file")
    parser.add_argument("--cases", type=int, default=1, help="drawn of each generated test")
    parser.add_argument("--share", type=float, default=1.0, help="of the tests of a file")
    parser.add_argument("--failing", action="store_true", help="only the tests that failed, here alone")
    parser.add_argument("--pages", action="store_true", help="only make the page")
    options = parser.parse_args()
    if options.pages:
        write_page()
        return
    runner = Runner(options.ours, options.jax, options.limit, "jax_files.plugin")
    tests = options.jax_tests.resolve() / "tests"
    environment = {"JAX_CHECKOUT": str(tests.parent), "JAX_NUM_GENERATED_CASES": str(options.cases),
                   "JAX_NUM_CPU_DEVICES": "8", "JAX_SKIP_SLOW_TESTS": "1"}  # fmt: skip
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for file in options.files or files_in(tests):
        asked = {file: {"from": 0, "share": options.share}}
        if options.failing:
            found = runner.failing(tests, environment, {file: known[file]}) if known[file]["failed"] else ()
        else:
            found = runner.files(tests, environment, asked, {})
        for name, result in found:
            result = {**result, "share": known[file]["share"] if options.failing else options.share}
            keep(name, result)
            print(f"{name}: {result['counted']} count, {len(result['failed'])} fail", flush=True)


if __name__ == "__main__":
    main()
