"""The kernels that come with jax run here unmodified; skipped where jax is not installed."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax's own files")


# A gradient runs what is without it, too. All of them are behind the mark.
SOME = r"tpu\..*(gradient|matmul|paged|local)|gpu\.(layer_norm|paged)"


@pytest.mark.parametrize("kernels,count", [
    pytest.param(SOME, 11, id="some"),
    pytest.param(r"tpu\.|gpu\.(layer_norm|paged)", 14, marks=pytest.mark.targets, id="all"),
])  # fmt: skip
def test_values(kernels, count):
    script = "-m", "tilewright.as_jax", "benchmarks/compatibility/pallas_ops.py", "--here", "--only", kernels
    environment = os.environ | {"PYTHONPATH": "src:."}
    found = subprocess.run([sys.executable, *script], cwd=ROOT, env=environment, capture_output=True, text=True)
    errors = re.findall(r"\| (\d)e([+-]\d+) \|", found.stdout)
    assert found.returncode == 0 and len(errors) == count, found.stdout + found.stderr
    assert all(int(power) <= -2 or digit == "0" for digit, power in errors), found.stdout
