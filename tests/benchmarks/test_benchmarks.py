"""The benchmark harness: a measurement in its own process, and what is made of the numbers."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import fusion, harness, rounds, spine
from benchmarks.cpu import compiling
from tests.support.machine_code import needs_llvm
from tilewright import errors


def a_case(ours="eager a + b"):
    return next(case for case in spine.CASES if case.name == ours)


def test_names_are_unique_and_every_case_has_a_bound():
    assert len({case.name for case in spine.CASES}) == len(spine.CASES)
    assert all(0 < case.wanted < 2 for case in spine.CASES)


def test_a_measurement_in_its_own_process(tmp_path):
    seconds = rounds.measure("spine", a_case(), "ours", "measure", str(tmp_path), sys.executable)
    assert 0 < seconds < 0.1


def test_a_failing_measurement_is_reported_and_not_written(tmp_path):
    case = harness.Case("absent", a_case().ours, a_case().other, 1.0)
    pythons = {"tilewright": sys.executable, "jax": sys.executable}
    result = rounds.run_case("spine", case, 1, pythons, str(tmp_path), int)
    assert not result.met and "KeyError" in result.error
    assert result.row()[3] == "failed"


def test_ratio_is_the_median_of_pairs():
    result = rounds.outcome(a_case(), [1.0, 8.0, 3.0], [2.0, 2.0, 2.0])
    assert result.ratio == 1.5 and not result.met
    assert result.row()[1:] == ["3 s", "2 s", "1.50", "<= 0.7", "0.50 to 4.00"]


def test_results_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "RESULTS", tmp_path)
    first, second = spine.CASES[:2]
    rounds.write("spine", [rounds.outcome(second, [1.0], [2.0])])
    rounds.write("spine", [rounds.outcome(first, [1.0], [4.0])])
    found = rounds.kept(tmp_path / "spine.json")
    assert list(found) == [first.name, second.name] and found[first.name].ratio("tilewright")[0] == 0.25
    assert found[first.name].machine["processors"] == str(os.cpu_count())
    assert (tmp_path / "spine.md").read_text().count("\n| ") == 4


def test_a_case_is_shown_and_kept_when_it_is_measured(tmp_path, monkeypatch, capsys):
    first, second = spine.CASES[:2]

    def measured(suite, case, *_):
        if case is second:
            raise KeyboardInterrupt
        return rounds.outcome(case, [1.0], [2.0])

    monkeypatch.setattr(rounds, "RESULTS", tmp_path)
    monkeypatch.setattr(rounds, "run_case", measured)
    with pytest.raises(KeyboardInterrupt):
        command.main(["spine", "--only", first.name, "--only", second.name])
    assert list(rounds.kept(tmp_path / "spine.json")) == [first.name]
    assert first.name in capsys.readouterr().out


@pytest.mark.parametrize("seconds, text", [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.2e-5, "42 us"), (3e-9, "3 ns")])
def test_durations(seconds, text):
    assert harness.duration(seconds) == text


def test_the_machine_is_described():
    assert rounds.machine()["processors"] == str(os.cpu_count())


def test_one_command_for_all(capsys):
    assert command.main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{listed}" for name in ("spine", "fft", "tuning", "kernels", "recorded", "forget"))
    with pytest.raises(SystemExit):
        command.main(["nothing"])
    assert "no suite of cases" in capsys.readouterr().err


def test_kept_results_are_compared(tmp_path, monkeypatch, capsys):
    case = spine.CASES[0]
    draw = np.random.default_rng(0)
    for name, factor in (("old", 1.0), ("same", 1.0), ("slow", 1.2)):
        times = [(s * factor * (1 + 0.01 * draw.standard_normal(12))).tolist() for s in (1.0, 2.0)]
        monkeypatch.setattr(rounds, "RESULTS", tmp_path / name)
        rounds.write("spine", [rounds.outcome(case, *times)])
    files = {name: str(tmp_path / name / "spine.json") for name in ("old", "same", "slow")}
    assert command.main(["compare", files["old"], files["same"]]) == 0
    assert command.main(["compare", files["old"], files["slow"]]) == 1
    assert "slower" in capsys.readouterr().out
    with pytest.raises(errors.BenchmarkError, match="no results of a suite"):
        (tmp_path / "none.json").write_text("{}")
        rounds.kept(tmp_path / "none.json")


def test_committed_results_can_be_read():
    for path in rounds.RESULTS.glob("*.json"):
        assert rounds.kept(path)


def test_a_measurements_process_imports_no_library():
    """An import may be what is measured."""
    code = "import sys, benchmarks.spine, benchmarks.fusion; print({'tilewright', 'jax', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=harness.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


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


@needs_llvm
def test_the_time_to_compile_kernels_and_to_load_them():
    times = list(itertools.islice(compiling.measured(), 2))
    for one in times:
        assert one.lines > 0 < one.size and 0 < one.from_disk < one.compiled
    table = compiling.table(times).splitlines()
    assert "2 kernels" in table[2] and [line.split(" | ")[0][2:] for line in table[-2:]] == [t.name for t in times]
