"""What a process of its own sees: forks, and the memory of large host arrays."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp

pytestmark = pytest.mark.machine
LINUX = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from /proc")


def run(code: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, env=env, timeout=120)


FORK = """
import os, sys
import tilewright as tw
if sys.argv[1:] == ["used"]: pass
{use}
pid = os.fork()
if pid == 0: os._exit(0)
os.waitpid(pid, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_after_the_first_computation_warns():
    done = run(FORK.format(use="tw.numpy.ones(3) + 1"))
    assert "ForkWarning" in done.stderr and "spawn" in done.stderr and "ForkError" in done.stderr
    assert "<string>:5" in done.stderr or "<string>:6" in done.stderr, "the line is the user's"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_before_it_and_a_new_program_do_not():
    assert "ForkWarning" not in run(FORK.format(use="")).stderr
    started = "import subprocess, tilewright as tw\ntw.numpy.ones(3) + 1\nsubprocess.run(['true'])"
    assert "ForkWarning" not in run(started).stderr


MEMORY = """
import gc
import numpy as np
import tilewright as tw
from tilewright import numpy as tnp
from tilewright.xla_backend.host import malloc_tuning as memory

def mib():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) // 1024

tnp.ones(3) + 1
start = mib()
a = {make}
a.block_until_ready()
print(mib() - start)
del a
gc.collect()
memory.trim()
print(mib() - start)
"""
MAKERS = {
    "ones": "tnp.ones((32, 1024, 1024))",
    "zeros": "tnp.zeros((32, 1024, 1024))",
    "asarray": "tnp.asarray(np.ones((32, 1024, 1024), np.float32))",
    "array of another dtype": "tnp.array(np.ones((32, 1024, 1024), np.int8), 'float32')",
    "device_put": "tw.device_put(np.ones((32, 1024, 1024), np.float32))",
    "arange": "tnp.arange(32 << 20)",
    "jit": "tw.jit(lambda x: x + 1)(np.ones((32, 1024, 1024), np.float32))",
}


@LINUX
@pytest.mark.parametrize("maker", MAKERS)
def test_a_large_host_array_is_held_once(maker):
    held, left = map(int, run(MEMORY.format(make=MAKERS[maker]), TILEWRIGHT_CPU_KEEP_MEMORY="0").stdout.split())
    assert 120 < held < 180 and left < 40, "of 128 MiB"


@pytest.mark.parametrize("size", [8, 1 << 18, 1 << 19])
def test_an_array_does_not_change_with_the_one_it_was_made_of(size):
    for make in (tnp.asarray, tnp.array, tw.device_put, lambda x: tnp.array(x, "float32"), lambda x: tnp.asarray(x.T)):
        source = np.zeros((size // 4, 4), np.float32)
        made = make(source)
        source[:] = 7
        assert float(made.max()) == 0


def test_large_arrays_of_one_value():
    for dtype in ("float32", "int8", "bool", "bfloat16", "complex64"):
        x = tnp.full((17 << 20,), 1, dtype)
        assert x.dtype == dtype and bool((x == 1).all())
    assert tnp.zeros((5 << 20,)).weak_type is tnp.zeros(3).weak_type
