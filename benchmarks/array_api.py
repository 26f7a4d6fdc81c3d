"""Runs the conformance suite of the Python array API standard against `tilewright.numpy`, from a checkout of it.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests
    python -m benchmarks.array_api array-api-tests --examples 20

It needs pytest, pytest-json-report, hypothesis and ndindex. 64-bit types are on. What is expected to fail is listed in
`EXPECTED`, each with its reason; the exit status is 1 where anything else fails, or is skipped without a reason.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
_FLOOR = r"test_(binary|iop)\[(floor_divide|__i?floordiv__)\("
_MOD = r"test_(binary|iop)\[(remainder|__i?mod__)\("
_NONFINITE = "XLA's complex {} has another pattern of NaN and infinity where a part of the operand is not finite"

# Regular expression of the test's name -> why it fails.
EXPECTED: dict[str, str] = {
    r"test_(setitem(_masking)?|asarray_arrays)$": "arrays do not change; x.at[i].set(v) gives the changed array",
    r"test_finfo\[(float32|complex64)\]$": "the limits are NumPy's numbers, of which float32 is no Python float",
    _FLOOR + r"x1_i is [+-]infinity": "an infinity has no remainder, so its floored quotient is NaN, as NumPy's",
    _FLOOR + r"isfinite\(x1_i\)": "quotients of unlike signs are rounded down to -1, as NumPy's; -1 // -inf is -0",
    _FLOOR + r"x1_i is -0": "a quotient that is zero has the sign of (x - x % y) / y, as JAX's",
    _MOD + r"x1_i is [+-]0": "a remainder that is zero has the sign of the dividend, as JAX's",
    r"test_cumulative_prod$": "a running product of small integers keeps their dtype, as JAX's",
    r"test_unary\[sign\(": "the sign of a negative zero is negative zero, as XLA's",
} | {
    rf"test_unary\[{name}\(.*(NaN|infinity)": _NONFINITE.format(name)
    for name in "acos acosh asinh atanh cosh exp expm1 log log1p sinh sqrt tanh".split()
}


def reason(name: str) -> str | None:
    """Why a test is expected to fail, None if it is not."""
    return next((why for pattern, why in EXPECTED.items() if re.match(pattern, name)), None)


class Report:
    """A plugin of pytest: marks what is expected to fail, and counts outcomes by reason."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.expected: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for item in items:
            why = reason(item.name)
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

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def show(self) -> str:
        """The counts, and every reason with the number of tests that have it."""
        counts = (self.passed, len(self.failed), self.expected.total(), self.skipped.total())
        lines = ["{} passed, {} failed, {} fail as expected, {} skipped".format(*counts)]
        lines += [f"  failed: {name}" for name in self.failed]
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.array_api")
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
