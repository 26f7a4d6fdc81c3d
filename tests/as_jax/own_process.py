"""Code run in a process of its own in which this package is `jax`."""

import subprocess
import sys

from tests.support.paths import ROOT


def run(*arguments, folder=None):
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.as_jax", *arguments], capture_output=True, text=True, timeout=120,
        cwd=folder or ROOT, env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    return done


def check(code):
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].endswith("is `jax` 0.11.2 in this process")
    assert len(done.stderr.splitlines()) == 1
    return done.stdout
