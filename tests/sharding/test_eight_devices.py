"""The tests in `eight`, some files at a time in a process that has eight virtual CPU devices."""

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

# A process takes seconds to start, and several run side by side.
TOGETHER = (
    ("remote", "checked", "saved", "drawn", "ruled", "types_of_clients", "exported"),
    ("laws", "arrays", "effects", "explicit", "summed"),
    ("mapped", "kernels", "corpus", "operations", "named", "convolutions"),
    ("gradients",),
)  # fmt: skip


def run(names, marks, options=()):
    files = [f"tests/sharding/eight/{name}.py" for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-o", "addopts=",
               "-m", marks, "--import-mode=importlib", *options, *files]  # fmt: skip
    environment = os.environ | {"TILEWRIGHT_NUM_CPU_DEVICES": "8", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


def test_every_file_is_run():
    files = [p.stem for p in (ROOT / "tests/sharding/eight").glob("*.py")]
    assert sorted(files) == sorted(name for names in TOGETHER for name in names)


@pytest.mark.parametrize("names", TOGETHER, ids="-".join)
def test_on_eight_devices(names, law_options):
    run(names, "not targets", law_options)


@pytest.mark.targets
@pytest.mark.parametrize("name", ["corpus", "laws"])
def test_every_kernel_on_every_mesh_and_every_primitive(name):
    run([name], "targets")
