"""The examples of several devices, each on eight virtual devices and on two processes: they check their own results."""

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

LAUNCH = ["-m", "tilewright.cli.main", "launch", "-n", "2", "--devices", "2"]
COLLECTIVES = {"cnn_sharded": "all-reduce", "decode_sharded": "all-reduce", "kernel_ring": "permute"}


@pytest.mark.parametrize("how", [[], LAUNCH], ids=["eight devices", "two processes"])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_an_example_of_several_devices(name, how):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    environment.pop("TILEWRIGHT_NUM_CPU_DEVICES", None)
    command = [sys.executable, *how, f"examples/{name}.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if " devices" in line]
    assert len(said) == (2 if how else 1) and all(line.endswith(f"collectives: {COLLECTIVES[name]}") for line in said)
    assert all(f"{4 if how else 8} devices" in line for line in said)
