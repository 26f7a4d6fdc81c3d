"""The draw of `make test`: which cases of laws it takes, what it leaves to `make test-rest`, and what is skipped."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.draw_laws import drawn, words
from tests.support.laws import CASES
from tests.support.paths import ROOT

LAWS = [f"laws.py::{law}[{case}]" for law in ("test_values", "test_derivatives", "test_batches") for case in CASES]

SUITE = """
import pytest

TABLE = [f"{name}-{n}" for name in ("sin", "cos", "exp") for n in range(20)]

@pytest.mark.law
@pytest.mark.parametrize("case", TABLE)
def test_law(case):
    pass

@pytest.mark.law
@pytest.mark.parametrize("case", TABLE)
def test_skipped_law(case):
    if case.startswith("cos"):
        pytest.skip("needs a compiler")

@pytest.mark.parametrize("n", range(3))
def test_by_hand(n):
    if n == 1:
        pytest.skip("needs a compiler")

def test_process(law_options):
    assert len(law_options) in (2, 3)
"""


@pytest.fixture
def run(tmp_path):
    """Runs pytest on `SUITE` with some options: its exit code, the ids of the tests that it ran, and its output."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = law: a law\n")
    plugins = "-p", "tests.support.selection", "-p", "no:hypothesispytest"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def run(*options, processes="0"):
        command = [sys.executable, "-m", "pytest", *plugins, "-v", "-n", processes, *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if re.search(r"\b(PASSED|SKIPPED)\b", line)]
        ids = re.findall(r"test_suite.py::\S+", "\n".join(lines))
        return done.returncode, sorted(ids), done.stdout + done.stderr

    return run


def test_words_are_names_not_shapes_and_numbers():
    assert words("f.py::test[scatter-f32[4,3]-i32[3,1]-(1, (2, x))-13x7-0-clip]") == {"scatter", "f32", "i32", "clip"}
    assert words("f.py::test[numpy-norm--1-float32]") == {"numpy", "norm", "float32"}
    assert words("f.py::test") == set()


@pytest.mark.parametrize("seed", range(3))
def test_every_primitive_and_dtype_is_drawn_and_about_a_tenth(seed):
    found = drawn(LAWS, 0.1, seed)
    assert found <= set(LAWS) and len(found) < 0.25 * len(set(LAWS))
    assert set().union(*map(words, found)) == set().union(*map(words, LAWS)) >= {c.primitive.name for c in CASES}
    for law in ("test_values", "test_derivatives", "test_batches"):
        assert sum(f"::{law}[" in test for test in found) >= 0.1 * len(CASES)


def test_a_draw_depends_on_its_seed_and_share_alone():
    found = drawn(LAWS, 0.1, 0)
    assert drawn(reversed(LAWS), 0.1, 0) == found != drawn(LAWS, 0.1, 1)
    assert found < drawn(LAWS, 0.5, 0) < drawn(LAWS, 1, 0) == set(LAWS)


def test_a_draw_and_its_rest_are_the_whole(run):
    """In one process and in two, in which each collects and draws for itself."""
    _, everything, _ = run()
    code, part, output = run("--law-share=0.1", "--law-seed=7")
    assert code == 0 and "laws: a share of 0.1 of each, drawn with --law-seed 7" in output
    code, rest, output = run("--law-share=0.1", "--law-seed=7", "--law-rest")
    assert code == 0 and "laws: all but a share of 0.1 of each, drawn with --law-seed 7" in output
    assert set(part) & set(rest) == {"test_suite.py::test_process"} and set(part) | set(rest) == set(everything)
    assert len(part) == 2 * 6 + 4 and len(everything) == 2 * 60 + 4
    assert run("--law-share=0.1", "--law-seed=7", processes="2")[1] == part
    assert run("--law-share=0.1", "--law-seed=8")[1] != part


def test_what_both_parts_skip_is_left_to_the_compilers(run):
    code, _, output = run("--skipped")
    assert code == pytest.ExitCode.USAGE_ERROR and "no run of the tests is recorded" in output
    skipped = [f"test_suite.py::test_skipped_law[cos-{n}]" for n in range(20)] + ["test_suite.py::test_by_hand[1]"]
    run("--law-share=0.1", processes="2")
    code, found, _ = run("--skipped")
    assert code == 0 and set(found) < set(skipped)
    run("--law-share=0.1", "--law-rest")
    for processes in ("0", "2"):  # and again: such a run leaves the record as it is
        assert run("--skipped", processes=processes)[:2] == (0, sorted(skipped))


def test_nothing_left_is_no_failure(run):
    assert run("--law-rest", "--deselect=test_suite.py::test_process")[:2] == (0, [])
    run("-k", "test_law")
    for processes in ("0", "2"):
        assert run("--skipped", processes=processes)[:2] == (0, [])
    assert run("-k", "nothing")[0] == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("share", ["0", "1.5", "some"])
def test_shares_that_are_none(run, share):
    code, _, output = run(f"--law-share={share}")
    assert code == pytest.ExitCode.USAGE_ERROR and "--law-share" in output
