"""The allocator's settings: what they do to a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.xla_backend import memory

glibc = pytest.mark.skipif(memory._glibc() is None, reason="the settings are glibc's")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage").exists()

FAULTS = """
import resource
import numpy as np
import tilewright as tw
from tilewright.xla_backend import memory

f = tw.jit(lambda x: x + 1)
x = tw.numpy.zeros((4 << 20,), "float32")
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
f(x).block_until_ready()
before = faults()
for _ in range(8):
    f(x).block_until_ready()
print("faults", faults() - before)
print("trimmed", memory.trim(), float(f(x)[0]))
print("status", memory.status())
"""


def run(**environment: str) -> dict[str, str]:
    out = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True,
                         env={**os.environ, **environment})  # fmt: skip
    return dict(line.split(" ", 1) for line in out.stdout.splitlines())


@glibc
def test_arrays_of_sixteen_megabytes_reuse_the_pages_of_those_before():
    found = run(TILEWRIGHT_CPU_KEEP_MEMORY="1")
    pages = ", in huge pages" if HUGE_PAGES and memory._reserved() else ""
    assert found["status"] == f"on (freed memory is kept for reuse{pages})"
    assert int(found["faults"]) < 1000  # of 8 times 4096 pages
    assert found["trimmed"] == "True 1.0"


@glibc
def test_without_the_setting_freed_memory_goes_back():
    found = run(TILEWRIGHT_CPU_KEEP_MEMORY="0")
    assert found["status"] == "off (cpu_keep_memory is False)"
    assert int(found["faults"]) > 1000
    assert found["trimmed"].endswith("1.0")


@glibc
def test_a_limit_of_address_space_is_respected():
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)){FAULTS}"
    out = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=True)
    assert "status on (freed memory is kept for reuse)" in out.stdout


def test_without_glibc_there_is_no_setting_and_the_status_says_so(monkeypatch):
    monkeypatch.setattr(memory, "_glibc", lambda: None)
    monkeypatch.setattr(memory, "_status", memory.status())
    assert not memory.keep_freed_memory() and not memory.trim()
    assert memory.status() == "off (the C library is not glibc)"
