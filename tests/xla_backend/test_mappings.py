"""The memory mappings of a process: compiled programs are forgotten, or refused by name, before there are too many."""

import subprocess
import sys

import pytest

from tilewright.xla_backend.host import mmap_watch

PROGRAM = """
import ctypes
import numpy as np
import tilewright as tw
from tilewright.xla_backend.host import mmap_watch

x, kept = np.ones(8, np.float32), []

def program(number):
    f = tw.jit(lambda x: x * number)
    f(x)
    return f

program(-1)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

def fill(up_to):  # every second page has other rights, so that each is a mapping
    pages = up_to - mmap_watch.mapped()
    start = libc.mmap(None, 4096 * pages, 3, 0x22, -1, 0)
    for page in range(0, pages, 2):
        libc.mprotect(start + 4096 * page, 4096, 1)

most = mmap_watch.allowed()
fill(int(mmap_watch.REFUSE_AT * most) - 300)
before = mmap_watch.mapped()
for number in range(70):  # more than are compiled from one count to the next
    program(number)
print("grew", mmap_watch.mapped() - before)
try:
    for number in range(1000, 2000):
        kept.append(program(number))
except tw.errors.CompileError as error:
    print(error)
kept.clear()
tw.clear_caches()
print("again", float(program(3)(x)[0]))
"""


@pytest.mark.skipif(not 0 < mmap_watch.allowed() < 300_000, reason="needs a system with a limit that is soon reached")
def test_programs_are_forgotten_and_then_refused():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    first, *error, last = done.stdout.splitlines()
    assert int(first.split()[1]) < 150  # 70 programs take 210 when nothing is forgotten
    assert "memory mappings of the" in error[0] and "vm.max_map_count" in error[-1]
    assert last == "again 3.0"
