"""Forked, spawned and interrupted processes: a named error at the first use, and no wait without an end."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}



def run(code):
    return subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


CHILDREN = """
import os, sys
import numpy as np
import tilewright as tw
from tilewright import numpy as tnp

x = tnp.arange(5.0)
double, other = tw.jit(lambda x: x * 2), tw.jit(lambda x: x * 3)
sum, compiled = (x + x).block_until_ready(), tw.compile(lambda x: x * 4, x, stop="executable")
double(x), compiled(x)
uses = {
    "a call": lambda: double(x), "an operator": lambda: x + x, "a new call": lambda: other(x),
    "other shapes": lambda: double(tnp.ones(7)), "an executable": lambda: compiled(x),
    "a key": lambda: tw.random.key(0), "device_put": lambda: tw.device_put(np.ones(3)),
    "grad": lambda: tw.grad(lambda x: (x * x).sum())(x),
    "reading": lambda: np.asarray(sum).tolist(), "printing": lambda: str(sum),
    "waiting": lambda: sum.block_until_ready(),
}
for name, use in uses.items():
    child = os.fork()
    if not child:
        try:
            use()
            print(f"{name}: works", flush=True)
        except tw.errors.ForkError as error:
            assert "spawn" in error.remedy
            print(f"{name}: ForkError", flush=True)
        sys.exit(0)  # with the handlers of the end, which are the parent's
    os.waitpid(child, 0)
assert double(x).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
print("the parent: works")
"""


def test_a_forked_child_gets_a_named_error_at_its_first_use():
    done = run(CHILDREN)
    found = dict(line.split(": ") for line in done.stdout.splitlines())
    works = {"reading", "printing", "waiting", "the parent"}
    refused = {"a call", "an operator", "a new call", "other shapes", "an executable", "a key", "device_put", "grad"}
    assert found == dict.fromkeys(works, "works") | dict.fromkeys(refused, "ForkError"), done


def test_a_child_forked_before_the_first_use_computes():
    done = run("import os\nfrom tilewright import numpy as tnp\nchild = os.fork()\n"
               "assert float((tnp.ones(3) * 2).sum()) == 6.0\n"
               "print(child and os.waitpid(child, 0)[1])")  # fmt: skip
    assert sorted(done.stdout.split()) == ["0", "0"], done


STARTED = """
import multiprocessing, sys
import numpy as np
import tilewright as tw

def total(n):
    return float(tw.jit(lambda x: (x * 2).sum())(np.ones(n, np.float32)))

if __name__ == "__main__":
    assert total(3) == 6.0  # used in the parent
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(total, [1, 2, 3]))
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_started_anew_compute(method, tmp_path):
    script = tmp_path / "started.py"
    script.write_text(STARTED)
    done = subprocess.run([sys.executable, str(script), method], env=ENVIRONMENT, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.stdout == "[2.0, 4.0, 6.0]\n", done


INTERRUPTED = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
from tilewright.xla_backend.jaxlib.interruptible import interruptible

def compile():
    os.kill(os.getpid(), 2)  # as Ctrl-C does
    threading.Event().wait()  # never done

try:
    interruptible("the compilation", compile)
except KeyboardInterrupt as error:
    print(*error.__notes__)
"""


def test_an_interrupt_ends_the_wait_for_a_compilation():
    done = run(INTERRUPTED)
    assert done.stdout.startswith("the compilation goes on in a thread of its own until it is done; its result"), done


LONG = """
import tilewright as tw
from tilewright import numpy as tnp

def f(x):
    for i in range(1500):
        x = tnp.sin(x) * (i + 0.5) + tnp.sort(x)[::-1]
    return x

lowered = tw.jit(f).lower(tnp.ones(64))
lowered.as_text()
print("compiling", flush=True)
try:
    lowered.compile()
    print("compiled")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.targets
def test_an_interrupt_reaches_a_program_while_xla_compiles():
    environment = ENVIRONMENT | {"TILEWRIGHT_CACHE_DIR": "", "TILEWRIGHT_DEBUG_CHECKS": "0"}
    with subprocess.Popen([sys.executable, "-c", LONG], env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "compiling\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == "interrupted\n"
