"""Whether calls on the CPU run ahead of their programs: by setting, and by the number of processors."""

import os
import subprocess
import sys

import pytest

import tilewright as tw
from tests.support.paths import ROOT
from tilewright import errors
from tilewright.xla_backend.devices import client

pytestmark = pytest.mark.machine
SLOW = """
import threading
import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp

@tw.jit
def slow(x):
    return lax.fori_loop(0, 2000, lambda i, x: x @ x, x)

x = tnp.eye(128)
slow.lower(x).compile()
slow(x).block_until_ready()
beats, done = [], threading.Event()

def beat():
    while not done.wait(0.001):
        beats.append(None)

other = threading.Thread(target=beat)
other.start()
y = slow(x)
print("ready", y.is_ready())
y.block_until_ready()
done.set()
other.join()
print("beats", len(beats))
print("value", float(y[0, 0]))
"""


@pytest.mark.parametrize("ahead", [True, False])
def test_a_call_returns_before_its_program_has_run_where_that_is_asked_for(ahead):
    """Either way other threads of Python go on meanwhile."""
    environment = {**os.environ, "TILEWRIGHT_CPU_ENABLE_ASYNC_DISPATCH": str(int(ahead))}
    out = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, check=True, env=environment)
    found = dict(line.split(" ", 1) for line in out.stdout.splitlines())
    assert found["ready"] == str(not ahead)
    assert int(found["beats"]) > 5
    assert found["value"] == "1.0"


@pytest.mark.parametrize("count, asked, ahead", [
    (1, None, False), (2, None, False), (3, None, True), (64, None, True), (2, True, True), (64, False, False),
])  # fmt: skip
def test_two_processors_do_not_run_ahead(count, asked, ahead):
    assert client.runs_ahead_on(count, asked) is ahead
    if asked is not None:
        with tw.config(cpu_enable_async_dispatch=asked):
            assert client.runs_ahead() is asked


def test_the_processors_are_those_that_the_process_may_use():
    assert 1 <= client.processors() <= (os.cpu_count() or 1)


def test_a_setting_that_is_no_choice_is_refused():
    with pytest.raises(errors.ConfigError, match="cpu_enable_async_dispatch"):
        tw.config.update("jax_cpu_enable_async_dispatch", "often")


def test_the_tests_of_the_runtime_hold_the_other_way_too():
    names = "core/primitives/test_host_callback", "core/jit/test_jit", "xla_backend/test_array"
    modules = [f"tests/{name}.py" for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *modules]
    environment = {**os.environ, "TILEWRIGHT_CPU_ENABLE_ASYNC_DISPATCH": str(int(not client.runs_ahead()))}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-2000:]
