"""The benchmark harness: a measurement in its own process, and what is made of the numbers."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import fusion, harness, spine


def a_case(ours="eager a + b"):
    return next(case for case in spine.CASES if case.name == ours)


def test_names_are_unique_and_every_case_has_a_bound():
    assert len({case.name for case in spine.CASES}) == len(spine.CASES)
    assert all(0 < case.wanted < 2 for case in spine.CASES)


def test_a_measurement_in_its_own_process(tmp_path):
    seconds = harness.measure("spine", a_case(), "ours", "measure", str(tmp_path), sys.executable)
    assert 0 < seconds < 0.1


def test_a_failing_measurement_is_reported_and_not_written(tmp_path):
    case = harness.Case("absent", a_case().ours, a_case().other, 1.0)
    pythons = {"tilewright": sys.executable, "jax": sys.executable}
    result = harness.run_case("spine", case, 1, pythons, str(tmp_path), int)
    assert not result.met and "KeyError" in result.error
    assert result.row()[3] == "failed"


def test_ratio_is_the_median_of_pairs():
    result = harness.Result(a_case(), [1.0, 8.0, 3.0], [2.0, 2.0, 2.0])
    assert result.ratio == 1.5 and not result.met
    assert result.row()[1:] == ["3 s", "2 s", "1.50", "<= 0.7", "0.50 to 4.00"]


def test_results_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    first, second = spine.CASES[:2]
    harness.write("spine", [harness.Result(second, [1.0], [2.0])], 1)
    harness.write("spine", [harness.Result(first, [1.0], [4.0])], 1)
    names = [r["case"] for r in json.loads((tmp_path / "spine.json").read_text())["results"]]
    assert names == [first.name, second.name]
    assert (tmp_path / "spine.md").read_text().count("\n| ") == 4


@pytest.mark.parametrize("seconds, text", [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.2e-5, "42 us"), (3e-9, "3 ns")])
def test_durations(seconds, text):
    assert harness.duration(seconds) == text


def test_the_machine_is_described():
    assert harness.machine()["cores"] == os.cpu_count()


def test_forty_operations_and_a_process_of_them(tmp_path):
    assert len(fusion.OPERATIONS) == 40
    names = ["sum", "softmax"]
    found = fusion.spawn("tilewright", "1e3", names, str(tmp_path), sys.executable)
    assert list(found) == [f"{name}, 1e3, {form}" for name in names for form in fusion.FORMS]
    assert all(0 < seconds < 0.1 for seconds in found.values())


def test_rows_and_means_of_fusion():
    found = {"a, 1e3, called": [(1.0, 2.0), (3.0, 2.0), (2.0, 2.0)], "b, 1e5, called": [(1.0, 4.0)]}
    a, b, mean, every = fusion.report(found)
    assert a[3:] == ["1.00", "<= 1.15", "yes", "0.50 to 1.50"] and b[3] == "0.25"
    assert mean[0] == "geometric mean, called" and mean[3] == "0.50" and mean[5] == "yes"
    assert every[0] == "geometric mean, all" and every[3:] == mean[3:]
    (step,) = fusion.report({fusion.GPT: [(1.0, 1.0)]})
    assert step[4:6] == ["<= 0.95", "no"] and fusion.table([step], "tilewright", "jax").count("\n") == 2


def test_what_was_compiled_is_forgotten():
    """In a process of its own, and of fewer functions than the script's 2,000."""
    command = [sys.executable, "-m", "benchmarks.forget", "--functions", "80", "--warm", "20"]
    path = os.pathsep.join([str(harness.ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, cwd=harness.ROOT, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path, "TILEWRIGHT_DEBUG_CHECKS": "0"})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("start ")
