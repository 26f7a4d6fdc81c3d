"""What the benchmark of libraries' suites makes of their tests: messages, parts of files, what counts."""

import json
import os
import subprocess
import sys

from benchmarks.compatibility.client_plugin import LEFT
from benchmarks.compatibility.clients import ROOT, Ran, _error, _first, joined, ran, wanted

SUITE = """
import time
import unittest
import pytest

@pytest.mark.parametrize("n", [0, 1])
def test_first(n):
    assert n == 0, "one is too many"

class Group(unittest.TestCase):
    def test_skipped(self):
        self.skipTest("not here")

def test_slow():
    time.sleep(0.3)

def test_last():
    pass
"""


def results(folder, limit, **asked):
    """What the plugin and the command make of a run of tests."""
    files = {f"{name}.py": what for name, what in asked.items()}
    (folder / "suite.py").write_text(SUITE)
    (folder / "broken.py").write_text("import nowhere_at_all")
    told = {"report": str(folder / "report"), "limit": limit, "files": files}
    (folder / "told").write_text(json.dumps(told))
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "client_plugin", "-p", "no:cacheprovider", *files,
                    f"--rootdir={folder}", "--continue-on-collection-errors"], cwd=folder, capture_output=True,
                   env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks" / "compatibility"),
                        "CLIENT_TESTS": str(folder / "told")},
                   check=False)  # fmt: skip
    return ran((folder / "report").read_text().splitlines(), "ended")


def test_each_test_has_its_result(tmp_path):
    found = results(tmp_path, 60, suite={"from": 1}, broken={"from": 0})
    assert found["suite.py"].tests == 5
    states = {test: state for test, (state, _) in found["suite.py"].found.items()}
    assert states == {"test_first[1]": "failed", "Group::test_skipped": "skipped", "test_slow": "passed",
                      "test_last": "passed"}  # fmt: skip
    assert "one is too many" in found["suite.py"].of("failed")["test_first[1]"]
    assert "nowhere_at_all" in found["broken.py"].of("failed")[""]


def test_no_test_starts_after_the_time_of_its_file(tmp_path):
    found = results(tmp_path, 0.2, suite={"only": ["test_slow", "test_last"]})["suite.py"]
    assert found.found == {"test_slow": ("passed", ""), "test_last": ("left", found.of("left")["test_last"])}
    assert LEFT in found.of("left")["test_last"]


def test_a_test_without_an_end_failed_as_its_process_did():
    lines = [{"file": "a", "test": "t", "state": "running"}, {"file": "a", "test": "", "tests": 2}]
    assert ran(map(json.dumps, lines), "killed") == {"a": Ran({"t": ("failed", "killed")}, 2)}


def test_what_counts_passes_here_or_on_jax():
    there = Ran({"a": ("passed", ""), "b": ("failed", ""), "c": ("skipped", "")}, 4)
    assert wanted(dict.fromkeys("abcd", "why"), there) == {"a": "why", "d": "why"}
    assert wanted({"": "unreadable"}, there) == {"a": "unreadable"}
    assert wanted({"a": "why"}, None) == {"a": "why"}


def test_the_parts_of_a_file_add_up():
    first = {"counted": 3, "failed": {"a": "x"}, "seconds": 1.0, "cut": 5}
    more = {"counted": 2, "failed": {"b": "y"}, "seconds": 2.0}
    assert joined(first, more) == {"counted": 5, "failed": {"a": "x", "b": "y"}, "seconds": 3.0}


def test_files_are_told_without_the_folders_of_a_machine():
    assert _first("\nAssertionError: made at /some/where-else/lib-1.2/a_test.py:3 (f)\nmore") == (
        "AssertionError: made at a_test.py:3 (f)"
    )
    assert _first("1/2 is no place, nor is a/b/c") == "1/2 is no place, nor is a/b/c"


def test_the_error_of_a_process_that_ended_is_told():
    notice = "tilewright 0.2.0 is `jax` 0.11.2 in this process\n"
    trace = "Traceback (most recent call last):\n  File 'errors.py'\nModuleNotFoundError: No module named 'absl'\n"
    usage = "ERROR: usage: pytest\npytest: error: unrecognized arguments: --timeout=120\n  rootdir: /tmp\n"
    assert _error(notice + trace) == "ModuleNotFoundError: No module named 'absl'"
    assert _error(notice + usage) == "pytest: error: unrecognized arguments: --timeout=120"
    assert (_error(notice + "killed\n"), _error("")) == ("killed", "")
