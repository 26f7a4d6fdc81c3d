"""Random testing: fixed seeds of every suite find nothing, findings are made small, and their scripts run."""

import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from benchmarks import fuzz
from benchmarks.fuzzing import calls, programs, specs
from benchmarks.fuzzing.expressions import Draw, Program, Statement, function, operands, smaller, source
from benchmarks.fuzzing.finding import minimized


@pytest.mark.parametrize("seed", range(6))
def test_programs_agree_eagerly_and_compiled(seed):
    assert programs.Programs(None).run(seed) is None


def test_wrong_arguments_of_kernels_are_refused_by_named_errors():
    suite = specs.Specs()
    assert [f for seed in range(200) if (f := suite.run(seed))] == []


@pytest.mark.parametrize("seed", (1, 2))
def test_kernels_agree_with_brute_force_and_differences(seed):
    assert fuzz.suite("kernels", None).run(seed) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_program_is_data_and_a_script(seed, tmp_path):
    with tw.config(enable_x64=True):
        program = Draw(seed, programs.shape_of, programs.REFUSALS).program(length=3, depth=1)
        again = Program.of(program.data())
        assert source(again) == source(program)
        wanted = np.asarray(function(program, tw)(*operands(program, seed)))
    path = tmp_path / "finding.py"
    path.write_text(programs.script(program, seed))
    printed = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, cwd=".").stdout
    numbers = np.fromstring(printed.translate({ord(c): " " for c in "[]\n"}), sep=" ")
    assert np.allclose(numbers, np.tile(wanted.ravel(), 2), atol=1e-6, rtol=1e-4)


def test_a_finding_is_made_small():
    inner = Program([(3,)], [Statement("sin", [0]), Statement("square", [1])], 2)
    program = Program([(3,), (3,)], [Statement("add", [0, 1]), Statement("vmap", [2], {}, [inner]),
                                     Statement("cos", [3])], 4)  # fmt: skip

    def fails(p):
        return any(s.op == "square" or any(t.op == "square" for q in s.programs for t in q.statements)
                   for s in p.statements)  # fmt: skip

    least = minimized(program, smaller, fails)
    ((statement,), result) = least.statements, least.result
    assert result == 2 and [s.op for s in statement.programs[0].statements] == ["square"]


def test_a_wrong_result_is_a_finding(monkeypatch):
    monkeypatch.setattr(programs, "answers", lambda program, seed: {"eager": np.ones(3), "jit": np.zeros(3)})
    finding = programs.Programs(None).run(0)
    assert "jit differs by 0.5" in finding.what and "print(lib.jit(f)(*arrays))" in finding.script


def test_errors_outside_of_the_catalogue_are_findings_of_programs(monkeypatch):
    found = {"eager": programs.OUTSIDE + "KeyError: 1", "jit": "ShapeError: x"}
    assert "eager raises outside" in programs.difference(found, "the baseline refuses it")
    assert programs.difference({"eager": "ShapeError: x", "jit": "ShapeError: x"}, "the baseline refuses it") is None

    def breaks(program):
        raise KeyError("inside")

    monkeypatch.setattr(programs, "shape_of", breaks)
    finding = programs.Programs(None).run(0)
    assert "KeyError" in finding.what and "drawn(0)" in finding.script


def test_an_error_outside_of_the_catalogue_is_a_finding(monkeypatch):
    def breaks(text):
        raise KeyError("inside")

    monkeypatch.setattr(specs, "_evaluated", breaks)
    assert "KeyError" in specs.Specs().run(0).what


def test_calls_are_drawn_and_compared():
    assert len(calls.DRAWABLE) > 600
    call = calls.Call("numpy.add", ({"shape": [2], "dtype": "int8", "seed": 0}, 1), {})
    found = calls.answered(lambda c: calls.call_by(tw, c.data(), calls.array), call, tw.tree.leaves)
    assert found[0]["dtype"] == "int8" and found[0]["shape"] == [2]
    leaf = found[0] | {"values": calls.unpacked(found[0])}
    assert calls.difference([leaf], [leaf]) is None
    assert "dtype int8, wanted int32" in calls.difference([leaf], [leaf | {"dtype": "int32"}])
    assert "values" in calls.difference([leaf], [leaf | {"values": leaf["values"] + 1}])
    refused = calls.Call("scipy.stats.multinomial.pmf", (), {})
    assert calls.listed(refused, "raises") and calls.listed(refused) and not calls.listed(call)


def test_the_command_counts(tmp_path, capsys):
    assert fuzz.run("specs", None, 0, lambda n: n < 3, tmp_path) == (3, 0)
