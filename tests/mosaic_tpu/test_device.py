"""A TPU in this process: a second CPU client, which computes the kernels by XLA, stands in for one."""

import subprocess
import sys

import pytest

PRELUDE = """
from tilewright.xla_backend.devices import client, tpu_plugin as tpu; from tilewright.xla_backend.jaxlib import shim
from tilewright import mosaic_tpu
import numpy as np
import tilewright as tw

chips = shim.make_cpu_client(2)
shim._beyond_host.append(chips)
client._tpu = lambda: (chips, None)
found = tuple(client.Device(p, d.id, "TPU v6 lite" if p == "tpu" else "cpu")
              for p in ("tpu", "cpu") for d in client._raw_devices(p))
client.all_devices = lambda: found
made = []
def emit(kernel, machine):
    made.append((kernel.name, machine.name))
    return kernel.given  # itself: XLA computes it
mosaic_tpu.emit = emit
"""

USE = """
one, two = tw.devices()
assert tw.devices("tpu") == [one, two] and one.platform == "tpu" == tw.default_backend() and len(tw.devices("cpu")) == 1
x = tw.numpy.arange(6.0).reshape(2, 3)
f = tw.jit(lambda x: (x * 2).sum())
assert x.device == one and f(x) == 30 and f(x).device == one
assert len(made) == 1 and made[0][1] == "tpu:v6e", made
np.testing.assert_array_equal(x + 1, np.arange(1.0, 7.0).reshape(2, 3))
moved = tw.device_put(x, two)
assert f(moved).device == two and f(tw.device_put(x, "cpu")).device.platform == "cpu"
from tilewright.lang.targets.target import current_target
assert current_target().name == "tpu:v6e"
"""

# What libtpu compiled cannot run on a stand-in: its place is taken by a program of no code.
BINARY = """
from tilewright.compiler import ahead_of_time as targets
from tilewright.xla_backend.devices.aot_executable import Binary
mosaic_tpu.compile = lambda text, name, target, kernels, build: Binary(name, target, text, None)
x = np.arange(6.0, dtype=np.float32)
program = tw.compile(lambda t: {"twice": t["x"] * 2}, {"x": x}, target="tpu:v6e")
assert isinstance(program, Binary)
got = program({"x": x})["twice"]
assert got.device == tw.devices("tpu")[0]
np.testing.assert_array_equal(got, x * 2)
with tw.default_device("cpu"):
    assert program({"x": tw.device_put(x, "tpu")})["twice"].device.platform == "tpu"
try:
    tw.compile(lambda t: t, x, target="tpu:v5e")(x)
except tw.errors.UnsupportedError as error:
    assert "tpu:v5e" in str(error)
else:
    raise AssertionError
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr


def test_programs_run_on_the_tpu_by_default():
    run(PRELUDE + USE)


def test_what_is_compiled_for_a_tpu_runs_where_one_is():
    run(PRELUDE + BINARY)


def test_no_tpu_is_looked_for_where_its_driver_is_not():
    run("""
import sys
import tilewright as tw
assert [d.platform for d in tw.devices("cpu")] == ["cpu"] and "tpu" not in {d.platform for d in tw.devices()}
assert "tilewright.xla_backend.devices.tpu_plugin" not in sys.modules
try:
    tw.devices("tpu")
except tw.errors.DriverError as error:
    assert "no TPU" in str(error)
else:
    raise AssertionError
""")


def test_chips_are_counted_by_their_identifiers(tmp_path):
    from tilewright.xla_backend.devices.tpu_plugin import chips

    for name, vendor, device in [("a", "0x1ae0", "0x0063"), ("b", "0x1ae0", "0x0042"), ("c", "0x10de", "0x0063")]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
        (tmp_path / name / "device").write_text(device + "\n")
    (tmp_path / "d").mkdir()
    assert chips(str(tmp_path)) == 1


@pytest.mark.parametrize("installed", [True, False])
def test_a_tpu_that_cannot_be_used_is_told_of(installed):
    from tilewright.core.support.errors import DriverError
    from tilewright.xla_backend.devices import client

    def refuse():
        raise DriverError("libtpu finds no TPU that it can use: busy")

    if installed:
        with pytest.warns(client.DeviceWarning, match="busy"):
            found, problem = client.client_or_reason(1, refuse, installed)
    else:
        found, problem = client.client_or_reason(1, refuse, installed)
    assert found is None and "busy" in str(problem)
