"""A plugin of pytest: a line of JSON for each test, written as it ends, and no test of a file after the file's time.

It runs in the environments of the libraries, where pytest is and this repository is not. The file that CLIENT_TESTS
names says what to do: {"report": a file, "limit": seconds for a file, "files": {file: {"from": n} or {"only": names}}}.
With a "share" beside "from", tests are drawn by their names.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

LEFT = "the time of its file is over"


class Lines:
    """What the tests of a run came to, line by line."""

    def __init__(self, report: str, limit: float, files: dict[str, dict[str, Any]]) -> None:
        self.report, self.limit, self.files = Path(report), limit, files
        self.began: dict[str, float] = {}
        self.states: dict[str, tuple[str, str]] = {}

    def write(self, node: str, **found: Any) -> None:
        file, _, test = node.partition("::")
        with self.report.open("a") as lines:
            lines.write(json.dumps({"file": file, "test": test, **found}) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are asked for; how many a file has is told for all of them."""
        seen: Counter[str] = Counter()
        kept = []
        for item in items:
            file, _, test = item.nodeid.partition("::")
            asked = self.files[file]
            if crc32(test.encode()) % 1000 >= 1000 * asked.get("share", 1.0):
                continue
            if test in asked["only"] if "only" in asked else seen[file] >= asked["from"]:
                kept.append(item)
            seen[file] += 1
        for file, count in seen.items():
            self.write(file, tests=count)
        items[:] = kept

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
            self.write(report.nodeid.partition("::")[0], state="failed",
                       message=(lines or [report.longreprtext])[0])  # fmt: skip

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        file = item.nodeid.partition("::")[0]
        if time.monotonic() - self.began.setdefault(file, time.monotonic()) > self.limit:
            pytest.skip(LEFT)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.states[nodeid] = ("", "")
        self.write(nodeid, state="running")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of the phases of a test, and of its parts, the first that does not pass says what it came to."""
        if report.outcome != "passed" and self.states[report.nodeid][0] != "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else str(report.longrepr).strip().rpartition("\n")[2]
            self.states[report.nodeid] = ("left" if LEFT in message else report.outcome, message)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        state, message = self.states.pop(nodeid)
        self.write(nodeid, state=state or "passed", message=message)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Lines(**json.loads(Path(os.environ["CLIENT_TESTS"]).read_text())))
