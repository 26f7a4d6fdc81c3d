"""Benchmarks: rows in turn, results that are kept, and what got slower found beyond the noise."""

import csv
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import bench, errors
from tilewright import numpy as tnp
from tilewright.bench.child import timed
from tilewright.bench.result import Result, Row
from tilewright.bench.run import row_of
from tilewright.cli.main import main

X = tnp.ones((64, 64))
NOISE = json.loads((Path(__file__).parents[1] / "support" / "data" / "noise.json").read_text())


@pytest.fixture(scope="module")
def found():
    return tw.benchmark(lambda x: x @ x, X, against={"twice": lambda x: (x @ x) @ x}, rounds=3, name="once")


def test_rows_know_what_they_cost(found):
    once, twice = found.rows
    assert once.flops >= 2 * 64**3 and twice.flops > 1.9 * once.flops and once.bytes >= 2 * X.nbytes
    assert len(once.seconds) == len(found.yardstick) == 3 and min(once.seconds) > 0 and once.compile > 0
    low, high = once.quartiles
    assert low <= once.median <= high and once.peak >= 2 * X.nbytes
    ratio, low, high = found.ratio("twice")
    assert low <= ratio <= high and found.ratio("once") == (1, 1, 1)
    assert "Gflop/s" in str(found) and "twice" in str(found)


def test_functions_of_another_library_are_called_as_they_are():
    def plain(x):
        assert type(x) is np.ndarray
        return x @ x

    plain.library = "numpy"
    found = tw.benchmark(plain, np.ones((8, 8)), rounds=2)
    assert found.rows[0].flops is None and found.rows[0].median > 0


@pytest.mark.parametrize("given, what", [
    ({"rounds": 1}, "1 rounds"),
    ({"against": {"f": lambda x: x}, "name": "f"}, "two functions are named 'f'"),
])  # fmt: skip
def test_bad_requests(given, what):
    with pytest.raises(errors.ArgumentError, match=what):
        tw.benchmark(lambda x: x, X, **given)


@pytest.mark.parametrize("wrong, what", [
    (lambda: tw.benchmark(3, X), "function is 3"),
    (lambda: tw.benchmark(tnp.sin, X, against=[tnp.cos]), "against is"),
    (lambda: bench.scaling(lambda n: 3, [8]), r"make\(8\) gives 3"),
])  # fmt: skip
def test_what_is_no_function_is_told(wrong, what):
    with pytest.raises(errors.ArgumentTypeError, match=what):
        wrong()


def test_results_are_kept(found, tmp_path):
    for suffix in ("json", "csv", "txt"):
        found.save(tmp_path / f"r.{suffix}")
    assert bench.load(tmp_path / "r.json") == found
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    assert [row["name"] for row in rows] == ["once", "twice"] and float(rows[0]["median"]) == found.rows[0].median
    with pytest.raises(errors.ArgumentError, match="r.doc"):
        found.save(tmp_path / "r.doc")
    (tmp_path / "bad.json").write_text('{"format": "other"}')
    for name in ("bad.json", "r.csv", "absent.json"):
        with pytest.raises(errors.BenchmarkError, match=name):
            bench.load(tmp_path / name)


@pytest.mark.parametrize("kind", ["bars", "roofline", "scaling"])
def test_pictures(kind, tmp_path):
    pytest.importorskip("matplotlib")
    found = bench.scaling(lambda n: (lambda x: x * 2 + x, tnp.ones(n)), [8, 64], rounds=2, name="f")
    found.save(tmp_path / "p.png", kind)
    assert (tmp_path / "p.png").stat().st_size > 5000
    with pytest.raises(errors.ArgumentError, match="no picture of kind"):
        found.save(tmp_path / "p.png", "pie")
    if kind != "bars":
        with pytest.raises(errors.ArgumentError):
            Result((Row("f", (1.0, 2.0)),)).save(tmp_path / "p.png", kind)


def drawn(seed, slowdown=1.0, drift=1.0):
    """A result of 15 rounds with noise of four percent, on a machine whose speed has changed by `drift`."""
    draw = np.random.default_rng(seed)
    noise = np.exp(0.04 * draw.standard_normal(15)) * drift
    own = np.exp(0.02 * draw.standard_normal(15))
    return Result((Row("f", tuple(1e-3 * slowdown * noise * own)),), tuple(5e-4 * noise))


def test_a_slowdown_of_ten_percent_is_found_and_noise_is_not():
    flagged = [bench.compare(drawn(i), drawn(100 + i, 1.1))[0].verdict == "slower" for i in range(20)]
    quiet = [bench.compare(drawn(i), drawn(200 + i, drift=1.3))[0].verdict == "same" for i in range(20)]
    faster = bench.compare(drawn(1, 1.3), drawn(2))[0]
    assert sum(flagged) >= 19 and sum(quiet) >= 19 and faster.verdict == "faster"


def recorded(which, window):
    """A result of 15 of the rounds that were recorded on a machine where other programs ran."""
    part = slice(15 * window, 15 * window + 15)
    times = 1e-9 * np.asarray(NOISE[which][part])
    yardstick = tuple(1e-9 * np.asarray(NOISE["yardstick"][part]))
    return Result((row_of("f", [tuple(map(float, t)) for t in times]),), yardstick)


def test_a_slowdown_of_ten_percent_is_found_in_recorded_noise():
    pairs = [(i, j) for i in range(len(NOISE["yardstick"]) // 15) for j in range(i)]
    found = [bench.compare(recorded("plain", i), recorded("slowed", j))[0].verdict == "slower" for i, j in pairs]
    quiet = [bench.compare(recorded("plain", i), recorded("plain", j))[0].verdict == "same" for i, j in pairs]
    assert len(pairs) > 400 and np.mean(found) >= 0.95 and np.mean(quiet) >= 0.95


def test_rows_have_the_fastest_batch_of_each_round(found):
    for row in found.rows:
        assert len(row.least) == len(row.seconds) and all(a <= b for a, b in zip(row.least, row.seconds, strict=True))


def test_times_of_a_call_are_those_of_its_batches():
    mean, least = timed(lambda: time.sleep(2e-3), 2, 2e-2, lambda out: None)
    assert 2e-3 <= least <= mean
    assert timed(lambda: time.sleep(2e-3), 1, 0.0, lambda out: None)[1] >= 2e-3, "one batch at least"


def test_the_command(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "def product(np):\n    a = np.ones((16, 16))\n    return (lambda a: a @ a), a\n"
        "def broken(np):\n    raise RuntimeError('no')\n"
    )
    what, old, new = f"{tmp_path}/mine.py::product", tmp_path / "old.json", tmp_path / "new.json"
    assert main(["bench", what, "--peers", "tilewright,numpy", "--rounds", "2", "--save", str(old)]) == 0
    shown = capsys.readouterr().out
    assert "tilewright" in shown and "numpy" in shown
    assert main(["bench", "compare", str(old), str(old)]) == 0
    rows = bench.load(old)
    assert all(row.least for row in rows.rows)
    slow = tuple(replace(r, seconds=tuple(3 * s for s in r.seconds * 10), least=()) for r in rows.rows)
    fast = replace(rows, rows=tuple(replace(r, seconds=r.seconds * 10) for r in rows.rows))
    fast.save(old), replace(rows, rows=slow).save(new)  # of rows without the fastest batches the means are compared
    assert main(["bench", "compare", str(old), str(new)]) == 1
    shown = capsys.readouterr().out
    assert "slower" in shown and "not the same" not in shown
    replace(rows, rows=slow, machine={**(rows.machine or {}), "processor": "another"}).save(new)
    assert main(["bench", "compare", str(old), str(new)]) == 1
    shown = capsys.readouterr().out
    assert "not the same processor" in shown.replace("\n", " ") and "now another" in shown.replace("\n", " ")
    replace(rows, rows=(replace(rows.rows[0], name="g"),)).save(new)
    assert main(["bench", "compare", str(old), str(new)]) == 0
    assert "no row in common" in capsys.readouterr().out
    assert main(["bench", f"{tmp_path}/mine.py::broken", "--peers", "numpy"]) == 2
    assert "RuntimeError: no" in capsys.readouterr().out
    assert main(["bench", f"{tmp_path}/absent.py::f"]) == 2 and main(["bench", what, "--peers", "cobol"]) == 2
    row = rows["tilewright"]
    assert row.flops and row.flops >= 2 * 16**3 and row.bytes and row.peak and rows["numpy"].flops is None
    assert rows.ceilings is not None and rows.name == "product"


@pytest.mark.parametrize("arguments, told", [
    (["mine.py::nothing"], r"no function 'nothing'\n?.*it has alone"),
    (["mine.py::alone"], "alone gives function, not a function and its arguments"),
    (["mine.py::alone", "--save", "x.doc"], "'x.doc'"),
    (["mine.py::alone", "--save", "absent/x.json"], "no folder absent"),
    (["mine.py::alone", "--rounds", "1"], "a benchmark of 1 rounds"),
    (["compare", "x.json"], "takes two files, got 1"),
])  # fmt: skip
def test_commands_that_are_wrong(arguments, told, tmp_path, capsys, monkeypatch):
    (tmp_path / "mine.py").write_text("def alone(np):\n    return lambda: 1\n")
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *arguments, "--peers", "numpy"]) == 2
    assert re.search(told, capsys.readouterr().out, re.DOTALL)


def test_arguments_of_other_dtypes_are_told(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def double(np):\n    return (lambda a: a * 2), np.ones(8)\n")
    what = ["bench", f"{tmp_path}/mine.py::double", "--peers", "tilewright,numpy", "--rounds", "2"]
    assert main(what) == 0 and "float32[8]; numpy: float64[8]" in capsys.readouterr().out.replace("\n", " ")


def test_results_of_different_functions_are_not_compared(found):
    with pytest.raises(errors.BenchmarkError, match="one result is of f, the other of g"):
        bench.compare(replace(found, name="f"), replace(found, name="g"))


def test_ratios_of_sizes_are_to_the_first():
    found = Result((Row("f", (1.0, 1.0), size=8), Row("f", (4.0, 4.0), size=16)))
    assert [row["ratio"] for row in found.table] == [1.0, 4.0]


def test_a_peer_imports_nothing_of_ours(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import sys\ndef names(np):\n    assert not any(m.startswith('tilewright') for m in sys.modules)\n"
        "    return (lambda: np.ones(2)),\n"
    )
    what = f"{tmp_path}/mine.py::names"
    command = [sys.executable, "-m", "tilewright.cli.main", "bench", what, "--peers", "numpy", "--rounds", "2"]
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stdout + done.stderr


def test_json_is_plain(found):
    assert json.loads(json.dumps(found.as_json()))["rows"][0]["name"] == "once"
