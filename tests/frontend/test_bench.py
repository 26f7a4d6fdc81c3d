"""Benchmarks: rows in turn, results that are kept, and what got slower found beyond the noise."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright import bench, errors
from tilewright import numpy as tnp
from tilewright.bench.result import Result, Row
from tilewright.cli import main

X = tnp.ones((64, 64))


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
    slow = tuple(replace(r, seconds=tuple(3 * s for s in r.seconds * 10)) for r in rows.rows)
    fast = replace(rows, rows=tuple(replace(r, seconds=r.seconds * 10) for r in rows.rows), yardstick=())
    fast.save(old), replace(rows, rows=slow, yardstick=()).save(new)
    assert main(["bench", "compare", str(old), str(new)]) == 1
    assert "slower" in capsys.readouterr().out
    assert main(["bench", f"{tmp_path}/mine.py::broken", "--peers", "numpy"]) == 2
    assert "RuntimeError: no" in capsys.readouterr().out
    assert main(["bench", f"{tmp_path}/absent.py::f"]) == 2 and main(["bench", what, "--peers", "cobol"]) == 2


def test_a_peer_imports_nothing_of_ours(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import sys\ndef names(np):\n    assert not any(m.startswith('tilewright') for m in sys.modules)\n"
        "    return (lambda: np.ones(2)),\n"
    )
    what = f"{tmp_path}/mine.py::names"
    command = [sys.executable, "-m", "tilewright.cli", "bench", what, "--peers", "numpy", "--rounds", "2"]
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stdout + done.stderr


def test_json_is_plain(found):
    assert json.loads(json.dumps(found.as_json()))["rows"][0]["name"] == "once"
