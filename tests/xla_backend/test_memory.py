"""The allocator's settings: what they do to a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.core.support.config import from_environment
from tilewright.xla_backend.host import malloc_tuning
from tilewright.xla_backend.host import memory_limit as limits

pytestmark = pytest.mark.machine
glibc = pytest.mark.skipif(malloc_tuning._glibc() is None, reason="the settings are glibc's")
FAULTS = """
import resource
import numpy as np
import tilewright as tw
from tilewright.xla_backend.host import malloc_tuning

f = tw.jit(lambda x: x + 1)
x = tw.numpy.zeros((4 << 20,), "float32")
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
f(x).block_until_ready()
before = faults()
for _ in range(32):
    f(x).block_until_ready()
print("faults", faults() - before)
print("trimmed", malloc_tuning.trim(), float(f(x)[0]))
print("status", malloc_tuning.status())
"""


def run(**environment: str) -> dict[str, str]:
    out = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True,
                         env={**os.environ, **environment})  # fmt: skip
    return dict(line.split(" ", 1) for line in out.stdout.splitlines())


@glibc
def test_arrays_of_sixteen_megabytes_reuse_the_pages_of_those_before():
    found = run(TILEWRIGHT_CPU_KEEP_MEMORY="1")
    assert found["status"] == f"on (up to {limits.available() // 4 >> 20:,} MiB of freed memory are kept for reuse)"
    assert int(found["faults"]) < 2048, "half the pages of one array, of the 32 that were made"
    assert found["trimmed"] == "True 1.0"


@glibc
def test_without_the_setting_freed_memory_goes_back():
    found = run(TILEWRIGHT_CPU_KEEP_MEMORY="0")
    assert found["status"] == "off (cpu_keep_memory is False)"
    assert int(found["faults"]) > 2048
    assert found["trimmed"].endswith("1.0")


@glibc
def test_a_limit_of_address_space_is_respected():
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)){FAULTS}"
    out = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=True)
    assert "status on (up to 2,048 MiB of freed memory are kept for reuse)" in out.stdout


def test_without_glibc_there_is_no_setting_and_the_status_says_so(monkeypatch):
    monkeypatch.setattr(malloc_tuning, "_glibc", lambda: None)
    monkeypatch.setattr(malloc_tuning, "_kept", malloc_tuning._FreeMemory())
    assert not malloc_tuning.keep_freed_memory() and not malloc_tuning.trim()
    assert malloc_tuning.status() == "off (the C library is not glibc, 2.33 or later)"
    malloc_tuning.about_to_use(1 << 40)  # does nothing


MEASURED = """
import gc, os, sys
import tilewright as tw
from tilewright import numpy as tnp

def mib(what):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) >> 10

(tnp.ones(3) + 1).block_until_ready()
tnp.ones((1 << 18,)) + 1
start, size = mib("VmRSS"), mib("VmSize")
"""
CHURN = """
import random
draw, live, total = random.Random(0), [], 0
for n in range(150):
    s = draw.choice([1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
    live.append((s, tnp.ones((s << 18,)) + float(n % 3)))
    total += s
    while total > 280:
        total -= live.pop(draw.randrange(len(live)))[0]
"""


def measured(code: str, **environment: str) -> list[int]:
    out = subprocess.run([sys.executable, "-c", MEASURED + code], capture_output=True, text=True, timeout=300,
                         env={**os.environ, **environment})  # fmt: skip
    assert out.returncode == 0, (out.returncode, out.stderr[-1000:])
    return list(map(int, out.stdout.split()))


@glibc
def test_address_space_is_not_taken_before_it_is_needed():
    (size,) = measured("print(size)")
    assert size < 3000, "MiB, of which the libraries are most"


@glibc
def test_no_more_is_kept_than_the_share():
    share = 200 / (limits.available() >> 20)
    code = "xs = [tnp.ones((16 << 18,)) + k for k in range(60)]\ndel xs\n"
    code += "for _ in range(30): y = tnp.ones((8 << 18,)) + 1\nprint(mib('VmRSS') - start)"
    (kept,) = measured(code, TILEWRIGHT_CPU_KEEP_SHARE=f"{share:.6f}")
    assert kept < 400, "of 960 MiB freed, about 200 may be kept"
    (kept,) = measured(code, TILEWRIGHT_CPU_KEEP_SHARE="1")
    assert kept > 700


@glibc
def test_arrays_made_in_turn_peak_near_what_is_alive():
    code = "for _ in range(10): x = tnp.ones((128 << 18,)); x.block_until_ready()\nprint(mib('VmHWM') - start)"
    (peak,) = measured(code)
    assert peak < 5 * 128, "two are alive at a time, and freed blocks that others have nibbled at are kept for a while"


def test_the_share_is_a_number_from_0_to_1():
    for wrong in (2, -0.1, "much", True):
        with pytest.raises(tw.errors.ConfigError, match="cpu_keep_share"):
            tw.config.update("cpu_keep_share", wrong)
    with pytest.raises(tw.errors.ConfigError, match="CPU_KEEP_SHARE"):
        from_environment({"TILEWRIGHT_CPU_KEEP_SHARE": "much"})
    assert from_environment({"TILEWRIGHT_CPU_KEEP_SHARE": "0.5"}).cpu_keep_share == 0.5


# ---------------------------------------------------------------------------- limits


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2 = "30 23 0:26 {top} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "35 31 0:32 {top} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": V2.format(top="/"),
          "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000\n"}, 1000),
        ({"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": V2.format(top="/"),
          "sys/fs/cgroup/a/b/memory.max": "700\n", "sys/fs/cgroup/a/b/memory.high": "600\n",
          "sys/fs/cgroup/a/memory.max": "1000\n"}, 600),
        ({"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": V2.format(top="/"),
          "sys/fs/cgroup/memory.max": "500\n"}, 500),
        ({"proc/self/cgroup": "4:memory:/docker/x\n0::/\n", "proc/self/mountinfo": V1.format(top="/docker/x"),
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "734003200\n"}, 734003200),
        ({"proc/self/cgroup": "5:cpu,memory:/a\n", "proc/self/mountinfo": V1.format(top="/"),
          "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({"proc/self/cgroup": "nonsense\n", "proc/self/mountinfo": "short line\n"}, None),
    ],
    ids=["none", "v2 outer", "v2 high", "v2 container", "v1 container", "v1 unlimited", "damaged"],
)  # fmt: skip
def test_limits_of_control_groups(tmp_path, files, limit):
    assert limits.group_limit(tree(tmp_path, files)) == limit


GROUPS = Path("/sys/fs/cgroup/memory")


@glibc
@pytest.mark.skipif(not os.access(GROUPS / "cgroup.procs", os.W_OK), reason="control groups cannot be made here")
def test_churn_of_arrays_in_a_small_control_group_ends():
    group = GROUPS / f"tilewright-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(700 << 20))
    except OSError:
        pytest.skip("control groups cannot be made here")
    try:
        enter = f"import os; open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        out = subprocess.run([sys.executable, "-c", enter + MEASURED + CHURN + "print(mib('VmRSS'))"],
                             capture_output=True, text=True, timeout=300)  # fmt: skip
        assert out.returncode == 0, (out.returncode, out.stderr[-500:])
        assert int(out.stdout) < 700
    finally:
        group.rmdir()
