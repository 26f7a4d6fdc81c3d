"""Several platforms in one process: a second CPU client stands in for GPUs."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from tilewright.compiler import ahead_of_time
from tilewright.experimental.layout import Format

TWO = """
import numpy as np
from tilewright.xla_backend.devices import client, cuda_plugin as cuda; from tilewright.xla_backend.jaxlib import shim
from tilewright import triton_backend
import tilewright as tw

gpus = shim.make_cpu_client(2)
shim._beyond_host.append(gpus)
client._gpu = lambda: (gpus, None)
cuda.capability = lambda device: (9, 0)


def options(device_id, blackwell):
    found = shim.CompileOptions()
    found.device_assignment = shim.assigned(device_id)
    return found


cuda.options = options
made = []
triton_backend.start = lambda kernels, machine: None
def emit(kernel, machine):
    made.append((kernel.name, machine.name))
    return kernel.given  # itself: XLA computes it
triton_backend.emit = emit
from tilewright import numpy as tnp

one, two = tw.devices()
(cpu,) = tw.devices("cpu")
assert tw.devices("cuda") == tw.devices("gpu") == [one, two] and tw.default_backend() == "gpu" == one.platform
x = tnp.arange(6.0).reshape(2, 3)
f = tw.jit(lambda x: (x * 2).sum())
assert x.device == one and f(x) == 30 and f(x).device == one
assert made == [("reduce_mul_sum", "cuda:sm_90")], made
np.testing.assert_array_equal(x + 1, np.arange(1.0, 7.0).reshape(2, 3))
for device in (cpu, two):
    moved = tw.device_put(x, device)
    made.clear()
    assert moved.device == device and f(moved).device == device and f(moved) == 30
    assert made == []  # the CPU fuses itself; a program is printed once for all devices of a platform
    assert (moved + x).device == device  # what is on the default device follows
    assert moved.__dlpack_device__() == (1, 0) if device is cpu else (2, 1)
assert tw.device_put(moved, "cpu").device == cpu and tw.device_put(moved, "gpu").device == one
try:
    tw.device_put(x, cpu) + tw.device_put(x, two)
except tw.errors.ArgumentError as error:
    assert "several devices" in str(error)
else:
    raise AssertionError
with tw.default_device("cpu"):
    assert tnp.ones(3).device == cpu and tw.jit(lambda y: y + 1)(tnp.ones(3)).device == cpu
seen = []
with tw.default_device("cpu"):
    tw.jit(lambda x: tw.debug.callback(lambda v: seen.append(float(v)), x.sum()))(tw.device_put(x, cpu))
    tw.effects_barrier()
assert seen == [15.0]
assert tw.device_put(x, two).copy().device == two
made.clear()
shown = tw.compile(lambda x: (x * 2).sum(), x, stop="kernels")
assert "kernel reduce_mul_sum" in str(shown)
assert tw.compile(lambda x: (x * 2).sum(), x, tiles=lambda loops: (2, 2))(x) == 30 and len(made) == 1
step = tw.jit(tw.value_and_grad(lambda x: tnp.sum(tw.nn.softmax(x * 2) ** 2)), donate_argnums=0)
made.clear()
with tw.default_device("cpu"):
    value, grad = tw.value_and_grad(lambda x: tnp.sum(tw.nn.softmax(x * 2) ** 2))(tw.device_put(x, "cpu"))
    assert not made
found, slope = step(x)
assert len(made) == 1 and found.device == one
np.testing.assert_allclose([found, *np.ravel(slope)], [value, *np.ravel(grad)], rtol=1e-5, atol=1e-6)
"""


def test_a_program_runs_on_the_platform_of_its_arguments():
    done = subprocess.run([sys.executable, "-c", TWO], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


WRONG = """
import warnings
from tilewright.xla_backend.devices import client, cuda_plugin as cuda
from tilewright.core.support.errors import DriverError
import tilewright as tw

def fails():
    raise DriverError("the plugin finds no GPU that it can use: no CUDA-capable device", "a driver for CUDA 13")

client.DRIVER_FILES = ("/dev/null",)
cuda.make_client, cuda.installed = fails, lambda: True
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert tw.devices()[0].platform == "cpu"
assert [w.category for w in caught] == [client.DeviceWarning] and "no CUDA-capable device" in str(caught[0].message)
try:
    tw.devices("gpu")
except tw.errors.DriverError as error:
    assert "no CUDA-capable device" in str(error)
else:
    raise AssertionError
"""


def test_a_gpu_that_cannot_be_used_is_told_of_and_the_cpu_computes():
    done = subprocess.run([sys.executable, "-c", WRONG], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_real_plugin_without_a_driver():
    cuda = pytest.importorskip("tilewright.xla_backend.devices.cuda_plugin")
    if not cuda.installed() or cuda.importlib.util.find_spec("triton") is None:
        pytest.skip("needs tilewright[cuda]")
    code = ("from tilewright.xla_backend.devices import cuda_plugin as cuda\n"
            "from tilewright.core.support.errors import DriverError\n"
            "try:\n    cuda.make_client()\nexcept DriverError as error:\n    print(error.what)\n"
            "else:\n    print('there is a GPU that it can use')\n")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "GPU that it can use" in done.stdout


@pytest.mark.parametrize(
    ("capability", "name", "shared"),
    [
        ((8, 0), "cuda:sm_80", 163),
        ((8, 9), "cuda:sm_80", 99),
        ((9, 0), "cuda:sm_90", 227),
        ((10, 0), "cuda:sm_100", 227),
        ((12, 0), "cuda:sm_80", 99),
    ],
)
def test_the_target_of_a_gpu(capability, name, shared):
    machine = ahead_of_time.machine_for(capability)
    assert (machine.name, machine.fast_bytes) == (name, shared * 1024)
    assert machine.block_bytes <= machine.fast_bytes


@pytest.mark.parametrize("capability", [(7, 5), (6, 1), (13, 0)])
def test_a_gpu_of_another_architecture_is_named(capability):
    with pytest.raises(tw.errors.UnsupportedError, match=f"{capability[0]}.{capability[1]}; kernels are compiled for"):
        ahead_of_time.machine_for(capability, "Tesla")


def test_an_array_that_lies_on_one_device_is_made_of_its_only_part():
    (device,) = tw.devices()
    lies = tw.sharding.SingleDeviceSharding(device, memory_kind="device")
    assert lies == tw.sharding.SingleDeviceSharding(device) and lies.memory_kind == "device"
    assert lies.num_devices == 1 and lies.addressable_devices == {device} and lies.shard_shape((3, 2)) == (3, 2)
    assert lies.addressable_devices_indices_map((3, 2)) == {device: (slice(None), slice(None))}
    x = tw.make_array_from_callback((3,), lies, lambda index: np.arange(3)[index])
    assert x.tolist() == [0, 1, 2] and x.sharding == lies
    assert tw.make_array_from_single_device_arrays((3,), lies, [x]) is x
    assert tw.device_put(np.arange(3), Format(None, lies)).sharding == lies
    assert copy.copy(lies) == lies


def test_an_array_in_the_hosts_memory_on_one_device():
    (device,) = tw.devices()
    x = np.arange(4, dtype=np.float32)
    host = tw.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    assert host.memory_kind == "pinned_host" and host.device_set == {device}
    kept = tw.device_put(x, host)
    assert kept.sharding == host and np.array_equal(kept, x)
    assert np.array_equal(tw.jit(lambda v: v * 2, in_shardings=host)(kept), x * 2)
    back = tw.device_put(kept, tw.sharding.SingleDeviceSharding(device))
    assert back.sharding.memory_kind == "device" and np.array_equal(back, x)
    with pytest.raises(tw.errors.ArgumentError, match="'vram'"):
        tw.sharding.SingleDeviceSharding(device, memory_kind="vram")


def test_a_device_tells_of_its_memories_and_of_its_client():
    (device,) = tw.devices()
    assert device.default_memory().kind in [m.kind for m in device.addressable_memories()]
    assert device.client.platform == "cpu"
