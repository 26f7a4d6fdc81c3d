"""Runs the conformance suite of the Python array API standard against `tilewright.numpy`, from a checkout of it.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests
    python -m benchmarks.compatibility.array_api array-api-tests --examples 20

It needs pytest, pytest-json-report, hypothesis and ndindex. 64-bit types are on. What is expected to fail is listed in
`array_api_expected.json`, by reason and exact name; the exit status is 1 where anything else fails, or is skipped
without a reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Why tests fail that are expected to, by the tests' exact names.
EXPECTED: dict[str, str] = {
    name: why
    for why, names in json.loads(Path(__file__).with_name("array_api_expected.json").read_text()).items()
    for name in names
}


class Report:
    """A plugin of pytest: marks what is expected to fail, and counts outcomes by reason."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.expected: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.better: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for item in items:
            why = EXPECTED.get(item.name)
            if why is not None:
                item.add_marker(pytest.mark.xfail(reason=why))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.skipped and hasattr(report, "wasxfail"):
            self.expected[report.wasxfail] += 1
        elif report.skipped:
            self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
        elif report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call":
            self.passed += 1
            if hasattr(report, "wasxfail"):
                self.better.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def show(self) -> str:
        """The counts, and every reason with the number of tests that have it."""
        counts = (self.passed, len(self.failed), self.expected.total(), self.skipped.total())
        lines = ["{} passed, {} failed, {} fail as expected, {} skipped".format(*counts)]
        lines += [f"  failed: {name}" for name in self.failed]
        lines += [f"  passed although expected to fail: {name}" for name in self.better]
        lines += [f"  expected, {n}: {why}" for why, n in sorted(self.expected.items())]
        lines += [f"  skipped, {n}: {why or 'NO REASON'}" for why, n in sorted(self.skipped.items())]
        return "\n".join(lines)

    def good(self) -> bool:
        """Whether the suite ran, nothing failed, and every skip has a reason."""
        return self.passed > 0 and not self.failed and "" not in self.skipped


def run(checkout: Path, module: str, version: str | None, examples: int, rest: list[str]) -> Report:
    """Run the suite of a checkout in this process."""
    os.environ |= {"ARRAY_API_TESTS_MODULE": module, "TILEWRIGHT_ENABLE_X64": "1", "JAX_ENABLE_X64": "1"}
    if version is not None:
        os.environ["ARRAY_API_TESTS_VERSION"] = version
    sys.path[:0] = [str(ROOT / "src"), str(checkout)]
    os.chdir(checkout)
    report = Report()
    common = ["-q", "--tb=short", "-p", "no:cacheprovider", "--disable-deadline", f"--max-examples={examples}"]
    pytest.main([*common, *(rest or ["array_api_tests"])], plugins=[report])
    return report


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compatibility.array_api")
    parser.add_argument("checkout", type=Path, help="a checkout of data-apis/array-api-tests with its submodule")
    parser.add_argument("--module", default="tilewright.numpy", help="the namespace to test")
    parser.add_argument("--version", help="the version of the standard; by default the namespace's own")
    parser.add_argument("--examples", type=int, default=20, help="hypothesis' examples of each test")
    options, rest = parser.parse_known_args(argv)
    report = run(options.checkout.resolve(), options.module, options.version, options.examples, rest)
    print(report.show())
    return 0 if report.good() else 1


if __name__ == "__main__":
    sys.exit(main())
