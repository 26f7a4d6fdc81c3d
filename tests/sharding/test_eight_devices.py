"""The tests in `eight`, each file in a process that has eight virtual CPU devices."""

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

FILES = sorted(p.stem for p in (ROOT / "tests/sharding/eight").glob("*.py"))


def run(name, marks):
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-o", "addopts=",
               "-m", marks, "--import-mode=importlib", f"tests/sharding/eight/{name}.py"]  # fmt: skip
    environment = os.environ | {"TILEWRIGHT_NUM_CPU_DEVICES": "8", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


@pytest.mark.parametrize("name", FILES)
def test_on_eight_devices(name):
    run(name, "not targets")


@pytest.mark.targets
def test_every_kernel_on_every_mesh():
    run("corpus", "targets")
