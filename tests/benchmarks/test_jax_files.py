"""The suite of jax's own test files: private imports answered, reasons, and the page made of the results."""

import json
import subprocess
import sys

import pytest

from benchmarks.compatibility.jax_files.page import PAGE, RESULTS, page, row
from benchmarks.compatibility.jax_files.reasons import REASONS, UNKNOWN, reason
from tests.support.paths import ROOT

TESTS = """
from jax._src import config, core, test_util
from jax._src.lax import lax as lax_internal
from jax._src.interpreters import nothing_here
from jax.experimental.pallas import no_such_name
import jax

def test_public_name():
    assert core.ShapedArray is jax.core.ShapedArray and lax_internal.sin_p is jax.lax.sin_p

def test_checkout():
    assert test_util.NUMBER == 3

def test_config():
    assert not config.enable_x64.value
    with config.enable_x64(True):
        assert config.enable_x64.value and jax.numpy.zeros(()).dtype == "float64"

@nothing_here.decorator
def test_decorated():
    pass

def test_insides():
    nothing_here.f(1)

def test_absent():
    no_such_name()
"""


def test_private_names_are_public_ones_or_raise_in_their_test(tmp_path):
    pytest.importorskip("ml_dtypes")
    (tmp_path / "jax" / "_src" / "interpreters").mkdir(parents=True)
    (tmp_path / "jax" / "_src" / "test_util.py").write_text("NUMBER = 3")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "some_test.py").write_text(TESTS)
    paths = [str(ROOT / "src"), str(ROOT / "benchmarks" / "compatibility")]
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.as_jax", "-m", "pytest", "-q", "-rA", "-p", "jax_files.plugin", "-p",
         "no:cacheprovider", "--rootdir=.", "some_test.py"],
        cwd=tmp_path / "tests", capture_output=True, text=True, timeout=120,
        env={"PYTHONPATH": ":".join(paths), "PATH": "/usr/bin:/bin", "JAX_CHECKOUT": str(tmp_path)},
    )  # fmt: skip
    for test in ("public_name", "checkout", "config"):
        assert f"PASSED some_test.py::test_{test}" in done.stdout, done.stdout
    for test in ("decorated", "insides", "absent"):
        assert f"FAILED some_test.py::test_{test} - NotImplementedError" in done.stdout, done.stdout


def test_rows_count_wording_and_insides_apart():
    failed = {"a": "NotImplementedError: jax._src.core.thing is not here", "b": '"x" does not match "y"',
              "c": "assert 1 == 2"}  # fmt: skip
    cells = row("some_test.py", {"counted": 10, "failed": failed, "share": 0.5})
    assert cells == ("some_test.py", "50%", "10", "7", "70.0%", "1", "1", "87.5%")
    assert reason("f", "t", "assert 1 == 2")[0] == UNKNOWN


def test_the_page_is_made_of_the_results():
    results = json.loads(RESULTS.read_text())
    assert PAGE.read_text() == page(results)
    for kind, why in REASONS.values():
        assert kind in ("wording", "insides", "different", "absent") and why
