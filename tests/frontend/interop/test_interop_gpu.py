"""Launches on arrays of other libraries, with a driver that walks kernels on host memory in place of a GPU's."""

import contextlib
import sys
import types

import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus import flash_attention, in_place, matmul_grid, saxpy, softmax
from tests.support.gpu import torch_stand_in
from tests.support.gpu.host_gpu import CudaArray, aligned, host_gpu, read
from tilewright import lang as tl
from tilewright import nn
from tilewright import numpy as tnp
from tilewright.interop import arrays, driver
from tilewright.interop import cupy as tcp
from tilewright.interop import torch as tt

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


gpu = pytest.fixture(host_gpu)


@pytest.mark.parametrize("kernel", [saxpy, softmax, flash_attention], ids=lambda k: k.__name__.rpartition(".")[2])
def test_a_kernel_is_one_launch_without_a_copy(gpu, kernel):
    size = kernel.SIZES[0]
    operands = kernel.make(RNG, *size.dims)
    mode = getattr(kernel, "MODES", ({},))[0]
    given = [CudaArray(x) for x in operands]
    call = arrays.call(lambda *xs: kernel.call(*xs, **size.blocks, **mode), stream=77)
    got = call(*given)
    np.testing.assert_allclose(read(got), kernel.reference(np, *operands, **mode), rtol=5e-3, atol=2e-3)
    launches = gpu.asked("launch")
    assert len(launches) == 1 and launches[0][-1] == 77
    assert gpu.asked("copy") == gpu.asked("upload") == []
    gpu.log.clear()
    call(*given)
    assert [entry[0] for entry in gpu.log if entry[0] != "free"] == ["enter", "allocate", "launch"]


def halves(*shape):
    return RNG.standard_normal(shape).astype(np.float16)


def product(x, y):
    return matmul_grid.call(x, y, rows=16, columns=32, depth=16)


def test_descriptors_are_given_scratch_memory(gpu):
    """128 bytes for each of two, for each of four programs."""
    x, y = halves(32, 64), halves(64, 64)
    got = arrays.call(product)(CudaArray(x), CudaArray(y))
    np.testing.assert_allclose(read(got), x.astype(np.float32) @ y, rtol=2e-2, atol=2e-2)
    assert sorted(nbytes for _, nbytes, _ in gpu.asked("allocate")) == [4 * 2 * 128, 32 * 64 * 2]
    assert len(gpu.memory) == 1


def test_a_function_of_array_operations_is_fused_into_launches(gpu):
    x, w = floats(8, 16), floats(16, 4)
    weights = tnp.asarray(w)  # closed over: put on the device once

    def layer(x, scale):
        return nn.softmax(tnp.tanh(x @ weights) * scale), x.reshape(4, 32)

    call = arrays.call(layer)
    got, same = call(CudaArray(x), 2.0)
    expected = np.tanh(x @ w) * 2
    expected = np.exp(expected - expected.max(-1, keepdims=True))
    np.testing.assert_allclose(read(got), expected / expected.sum(-1, keepdims=True), rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(read(same), x.reshape(4, 32))
    loads = len(gpu.asked("load"))
    call(CudaArray(x), 3.0)
    assert len(gpu.asked("load")) == loads


def test_a_result_may_take_the_memory_of_a_donated_argument(gpu):
    size = in_place.SIZES[1]
    operands = in_place.make(RNG, *size.dims)
    expected = in_place.reference(np, *operands)
    kept = [CudaArray(x) for x in operands]
    for g, e in zip(arrays.call(in_place.call)(*kept), expected):
        np.testing.assert_allclose(read(g), e, rtol=1e-6)
    np.testing.assert_array_equal(kept[0].array, operands[0])
    assert len(gpu.asked("copy")) == 2
    gpu.log.clear()
    given = [CudaArray(x) for x in operands]
    got = arrays.call(in_place.call, donate=(0, 1))(*given)
    assert gpu.asked("copy") == []
    for i, (g, e) in enumerate(zip(got, expected)):
        assert g is given[i]
        np.testing.assert_allclose(read(g), e, rtol=1e-6)


def test_memory_is_given_back(gpu):
    call = arrays.call(lambda x: tnp.cumsum(x * 2) + x.sum())
    got = call(CudaArray(floats(33)))
    assert len(gpu.memory) >= 1
    constants = len(gpu.memory) - 1
    del got
    assert len(gpu.memory) == constants


def test_an_older_device_gets_text_for_its_driver_to_compile(monkeypatch, gpu):
    gpu.own = (12, 0)
    x = floats(40)
    loaded = []
    monkeypatch.setattr(gpu, "function", lambda image, *rest: (loaded.append(image), gpu.modules[image])[1])
    np.testing.assert_allclose(read(arrays.call(lambda x: x + 1)(CudaArray(x))), x + 1)
    assert loaded and all(b".target sm_80" in image and image.endswith(b"\0") for image in loaded)


class Strided:
    """Rows of a larger array."""

    def __init__(self, strides):
        base = CudaArray(np.zeros((64, 64), np.float32))
        self.base, self.__cuda_array_interface__ = base, {**base.__cuda_array_interface__, "shape": (8, 8),
                                                          "strides": strides}  # fmt: skip


def wrong():
    """What is wrong with an argument: the error, words of it, and the arguments given a driver."""
    x = np.zeros((8, 8), np.float32)
    base = CudaArray(np.zeros((9, 8), np.float32))

    def elsewhere(gpu):
        a, b = CudaArray(x), CudaArray(x)
        gpu.devices[b.pointer] = 1
        return a, b

    def on_host(gpu):
        a = CudaArray(x)
        gpu.host.add(a.pointer)
        return a, a

    yield "numpy", tw.errors.HostArrayError, ("ndarray", "(8, 8)", "host memory"), lambda gpu: (x, x)
    yield "host pointer", tw.errors.HostArrayError, ("host memory",), on_host
    yield "two devices", tw.errors.DeviceMismatchError, ("several devices: GPU 0, GPU 1",), elsewhere
    yield "gaps", tw.errors.StridesError, ("(256, 4)", "(32, 4)", "contiguous"), lambda gpu: (Strided((256, 4)),) * 2
    yield "negative", tw.errors.StridesError, ("negative strides",), lambda gpu: (Strided((-32, 4)),) * 2
    shifted = CudaArray(x, data=(base.pointer + 4, False))
    yield "misaligned", tw.errors.AlignmentError, ("multiple of 16",), lambda gpu: (shifted, shifted)
    freed = CudaArray(x, data=(0, False))
    yield "freed", tw.errors.FreedArrayError, ("no memory", "freed"), lambda gpu: (freed, freed)
    yield "no array", tw.errors.ArgumentTypeError, ("'seven'",), lambda gpu: (CudaArray(x), "seven")
    yield "numbers alone", tw.errors.HostArrayError, ("no GPU array",), lambda gpu: (1.0, 2.0)


@pytest.mark.parametrize(("error", "words", "make"), [pytest.param(*w[1:], id=w[0]) for w in wrong()])
def test_what_no_kernel_can_take_is_named(gpu, error, words, make):
    with pytest.raises(error) as caught:
        arrays.call(lambda x, y: x + y)(*make(gpu))
    assert all(word in str(caught.value) for word in words), caught.value
    assert gpu.asked("launch") == []


def test_what_is_no_launch_is_named(gpu):
    x = CudaArray(floats(4))
    called = lambda x: tw.pure_callback(np.sin, tw.ShapeDtypeStruct((4,), "float32"), x)  # noqa: E731
    with pytest.raises(tw.errors.UnsupportedError, match="pure_callback"):
        arrays.call(called)(x)
    spec = tl.BlockSpec((4,), lambda i: (i,))
    kernel = tl.kernel_call(lambda a, o: o.__setitem__(..., a[...]), tw.ShapeDtypeStruct((4,), "float32"), grid=1,
                            in_specs=[spec], out_specs=spec, interpret=True)  # fmt: skip
    with pytest.raises(tw.errors.UnsupportedError, match="interpret"):
        arrays.call(kernel)(x)
    with pytest.raises(tw.errors.ArgumentError, match="donate"):
        arrays.call(lambda x: x + 1, donate=3)(x)


# ------------------------------------------------------------------------------------------------ torch and CuPy


@pytest.fixture
def torch(gpu, monkeypatch):
    found = torch_stand_in.module()
    monkeypatch.setitem(sys.modules, "torch", found)
    monkeypatch.setattr(tt, "_LIBRARY", tt.TorchLibrary())
    tt._autograd.cache_clear()
    yield found
    tt._autograd.cache_clear()


def tensors(torch, *arrays, requires_grad=False):
    return [torch.Tensor(a, requires_grad) for a in arrays]


def softmax_of_product(x, w):
    return nn.softmax(x @ w)


def by_numpy(x, w, ct):
    """The function above and its derivative."""
    e = np.exp(x @ w - (x @ w).max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    g = y * (ct - (ct * y).sum(-1, keepdims=True))
    return y, g @ w.T, x.T @ g


def test_torch_runs_on_its_stream_and_its_autograd_takes_our_derivative(gpu, torch):
    x, w, ct = floats(8, 16), floats(16, 4), floats(8, 4)
    y, dx, dw = by_numpy(x, w, ct)
    call = tt.call(softmax_of_product)
    plain = call(*tensors(torch, x, w))
    np.testing.assert_allclose(plain.array, y, rtol=1e-2, atol=2e-3)
    assert not plain.requires_grad and {entry[-1] for entry in gpu.asked("launch")} == {5}
    a, b = tensors(torch, x, w, requires_grad=True)
    got = call(a, b)
    np.testing.assert_allclose(got.array, y, rtol=1e-2, atol=2e-3)
    got.backward(torch.Tensor(ct))
    np.testing.assert_allclose(a.grad.array, dx, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(b.grad.array, dw, rtol=1e-2, atol=1e-2)


def test_a_call_that_is_one_launch_is_short(gpu, torch, monkeypatch):
    x = torch.Tensor(floats(8, 16))
    call = tt.call(lambda x, y: (x + y, x - y))
    first = call(x, x)
    general = []
    monkeypatch.setattr(call, "general", lambda args, kwargs: general.append(args))
    gpu.log.clear()
    added, nothing = call(x, x)
    np.testing.assert_array_equal(added.array, first[0].array)
    np.testing.assert_array_equal(nothing.array, 0 * x.array)
    assert [entry[0] for entry in gpu.log] == ["enter", "launch"] and not general
    for other in (
        (x, 2.0),
        (torch.Tensor(x.array, requires_grad=True), x),
        (torch.Tensor(aligned(floats(16, 8)).T), x),
    ):
        call(*other)
    assert len(general) == 3
    call.single.clear()
    with tw.enable_x64(True):
        call(x, x)
    assert len(general) == 4


def test_a_short_call_has_scratch_memory_too(gpu, torch, monkeypatch):
    x = torch.Tensor(aligned(halves(32, 32)))
    call = tt.call(product)
    first = call(x, x)
    monkeypatch.setattr(call, "general", lambda args, kwargs: pytest.fail("the general call"))
    np.testing.assert_array_equal(call(x, x).array, first.array)


def test_outputs_that_do_not_move_have_no_gradient(torch):
    (x,) = tensors(torch, floats(5, 7), requires_grad=True)
    largest, where = tt.call(lambda x, scale: (tnp.max(x, 1) * scale, tnp.argmax(x, 1)))(x, 3.0)
    assert largest.requires_grad and not where.requires_grad
    np.testing.assert_array_equal(where.array, x.array.argmax(1))
    largest.backward(torch.Tensor(np.ones(5, np.float32)))
    np.testing.assert_allclose(x.grad.array.sum(1), 3.0)


def test_a_custom_operator_has_shapes_and_a_derivative(torch):
    x, w, ct = floats(8, 16), floats(16, 4), floats(8, 4)
    y, dx, dw = by_numpy(x, w, ct)
    call = tt.call(softmax_of_product)
    operators = call.operators
    assert operators.plain.name.startswith("tilewright::softmax_of_product_")
    operands = tensors(torch, x, w)
    (fake,) = operators.plain.fake(operands)
    assert fake.shape == (8, 4) and fake.dtype == "torch.float32"
    torch.compiler.is_compiling = lambda: True
    np.testing.assert_allclose(call(*operands).array, y, rtol=1e-2, atol=2e-3)
    results = operators.forward(operands, [True, False])
    shapes = [r.shape for r in operators.forward.fake(operands, [True, False])]
    assert shapes == [r.shape for r in results]
    context = torch_stand_in.Context()
    operators.forward.setup(context, (operands, [True, False]), results)
    cotangents = [torch.Tensor(ct), *[None] * (len(results) - 1)]
    (got, nothing), _ = operators.forward.derivative(context, cotangents)
    assert nothing is None
    np.testing.assert_allclose(got.array, dx, rtol=1e-2, atol=1e-2)
    closed = tt.call(lambda x: x + tnp.asarray(w))
    with pytest.raises(tw.errors.UnsupportedError, match="closes over arrays"):
        closed(torch.Tensor(w))


def test_tensors_in_this_machines_memory_are_the_cpus(torch, gpu):
    x, w, ct = floats(8, 16), floats(16, 4), floats(8, 4)
    y, dx, dw = by_numpy(x, w, ct)
    call = tt.call(softmax_of_product)
    for _ in range(2):
        got = call(torch.Tensor(x, index=None), torch.Tensor(w, index=None))
        np.testing.assert_allclose(got.array, y, rtol=1e-5)
    a, b = (torch.Tensor(v, True, index=None) for v in (x, w))
    call(a, b).backward(torch.Tensor(ct, index=None))
    np.testing.assert_allclose(a.grad.array, dx, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(b.grad.array, dw, rtol=1e-4, atol=1e-6)
    same = tt.call(lambda x: x)(a)
    assert same.data_ptr() != a.data_ptr(), "a result is no second name of an operand"
    assert tt.call(lambda x: x * 2)(torch.Tensor(np.arange(3.0), index=None)).dtype == "torch.float64"
    assert not gpu.asked("launch")
    on_gpu = call(*tensors(torch, x, w))
    np.testing.assert_allclose(on_gpu.array, y, rtol=1e-2, atol=2e-3)
    with pytest.raises(tw.errors.DeviceMismatchError):
        call(torch.Tensor(x, index=None), torch.Tensor(w))


def test_what_is_wrong_with_a_tensor_is_named(torch):
    x = floats(8, 8)
    call = tt.call(lambda x: x + 1)
    shifted = np.frombuffer(bytearray(4 * 65), np.float32)[1:].reshape(8, 8)
    elsewhere = torch.Tensor(x)
    elsewhere.device.type = "mps"
    wrong = {
        tw.errors.HostArrayError: elsewhere,
        tw.errors.StridesError: torch.Tensor(aligned(x).T),
        tw.errors.AlignmentError: torch.Tensor(shifted),
        tw.errors.DtypeError: torch.Tensor(x.astype("complex128")),
        tw.errors.ArgumentTypeError: "eight",
    }
    for error, given in wrong.items():
        with pytest.raises(error):
            call(given)
    freed = torch.Tensor(x)
    freed.data_ptr = lambda: 0
    with pytest.raises(tw.errors.FreedArrayError):
        call(freed)


def test_torch_and_cupy_that_are_missing_are_named(gpu, monkeypatch):
    for library in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(tt, "_LIBRARY", type("Absent", (tt.TorchLibrary,), {"installed": False})())
    with pytest.raises(tw.errors.VersionError, match="pip install torch"):
        tt.call(lambda x: x)(1.0)
    with pytest.raises(tw.errors.VersionError, match="pip install cupy"):
        tcp.call(lambda x: x)(CudaArray(floats(4)))


class CupyArray:
    """CuPy's array, over host memory."""

    def __init__(self, array):
        self.array = array if array.base is not None else aligned(array)
        self.shape, self.strides, self.dtype = self.array.shape, self.array.strides, self.array.dtype
        self.data, self.device = types.SimpleNamespace(ptr=self.array.ctypes.data), types.SimpleNamespace(id=0)

    def reshape(self, shape):
        return CupyArray(self.array.reshape(shape))


def test_cupy_runs_on_its_stream(gpu, monkeypatch):
    cupy = types.ModuleType("cupy")
    cupy.ndarray = CupyArray
    cupy.empty = lambda shape, dtype: CupyArray(np.zeros(shape, dtype))
    cupy.cuda = types.SimpleNamespace(Device=lambda device: contextlib.nullcontext(),
                                      get_current_stream=lambda: types.SimpleNamespace(ptr=9))  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    x = floats(6, 10)
    got, flat = tcp.call(lambda x: (x * 2, x.reshape(-1)))(CupyArray(x))
    assert isinstance(got, CupyArray)
    np.testing.assert_allclose(got.array, x * 2)
    np.testing.assert_array_equal(flat.array, x.reshape(-1))
    assert gpu.asked("launch")[0][-1] == 9
    with pytest.raises(tw.errors.StridesError):
        tcp.call(lambda x: x + 1)(CupyArray(aligned(x).T))
    with pytest.raises(tw.errors.HostArrayError):
        tcp.call(lambda x: x + 1)(x)


# ------------------------------------------------------------------------------------------------ the driver


class Bindings:
    """`cuda.bindings.driver` that writes down its calls; `failing` calls give error 999."""

    CUdevice_attribute = CUpointer_attribute = CUfunction_attribute = type(
        "names", (), {"__getattr__": lambda self, name: name}
    )()
    CUfunction = staticmethod(lambda handle: ("function", handle))

    def __init__(self, failing=()):
        self.calls, self.failing = [], failing

    def __getattr__(self, name):
        values = {
            "cuCtxGetCurrent": 0, "cuDevicePrimaryCtxRetain": 5, "cuDeviceGetAttribute": 9, "cuLibraryLoadData": 11,
            "cuLibraryGetKernel": 13, "cuGetErrorName": b"CUDA_ERROR_UNKNOWN", "cuPointerGetAttribute": 2,
            "cuMemAllocAsync": 4096,
        }  # fmt: skip

        def call(*args):
            self.calls.append((name, *args))
            if name in self.failing:
                return (999,)
            return (0, values[name]) if name in values else (0,)

        return call


def test_the_driver_loads_and_launches():
    bindings = Bindings()
    found = driver.Driver(bindings)
    assert found.capability(0) == (9, 9) and found.device_of(64) == 2
    found.enter(0)
    assert ("cuCtxSetCurrent", 5) in bindings.calls
    small, large = (found.function(b"cubin", "k", shared, 0) for shared in (1024, 100_000))
    assert small == large == ("function", 13)
    limits = [c for c in bindings.calls if c[0] == "cuKernelSetAttribute"]
    assert limits == [("cuKernelSetAttribute", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 100_000, 13, 0)]
    found.launch(small, (4, 2, 1), 128, 1024, 77, [16, 32, 0, 0])
    name, function, *sizes, params, extra = bindings.calls[-1]
    assert (name, function, sizes, extra) == ("cuLaunchKernel", small, [4, 2, 1, 128, 1, 1, 1024, 77], 0)
    assert isinstance(params, int)


@pytest.mark.parametrize("call", ["cuInit", "cuLaunchKernel", "cuLibraryLoadData"])
def test_an_error_of_the_driver_is_named(call):
    with pytest.raises(tw.errors.DriverError, match=f"{call}.*CUDA_ERROR_UNKNOWN"):
        found = driver.Driver(Bindings({call}))
        found.launch(found.function(b"", "k", 0, 0), (1, 1, 1), 32, 0, 0, [0])


def test_without_driver_or_cuda_python_the_error_says_so(monkeypatch):
    before = driver.set_driver(None)
    try:

        def missing(name):
            raise ImportError(name)

        monkeypatch.setattr(driver, "importlib", types.SimpleNamespace(import_module=missing))
        with pytest.raises(tw.errors.VersionError, match=r"pip install 'tilewright\[cuda\]'"):
            arrays.call(lambda x: x)(CudaArray(floats(4)))
        absent = Bindings()
        absent.cuInit = lambda flags: (_ for _ in ()).throw(RuntimeError("Failure finding libcuda.so"))
        monkeypatch.setattr(driver, "importlib", types.SimpleNamespace(import_module=lambda name: absent))
        with pytest.raises(tw.errors.DriverError, match="no NVIDIA driver here"):
            arrays.call(lambda x: x)(CudaArray(floats(4)))
    finally:
        driver.set_driver(before)
