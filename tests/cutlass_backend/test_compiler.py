"""The way of a source through the worker, its cache and its errors, into XLA's modules and launches.

The compiler is a stand-in (`tests/support/gpu/nvrtc_stand_in.py`), which is run as NVRTC is.
"""

import logging

import numpy as np
import pytest

import tilewright as tw
from tests.support.compilers import needs
from tests.support.gpu import host_gpu as host
from tests.support.gpu.cutlass_cases import CASES, kernel_of, struct
from tests.support.gpu.nvrtc_stand_in import forget, installed
from tilewright import cutlass_backend, errors
from tilewright.compiler.backend_selection import choice
from tilewright.cutlass_backend import compiler
from tilewright.interop import arrays, cutlass, driver
from tilewright.lang.cutlass import CompilerParams
from tilewright.lang.gpu.code import resources
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.targets.target import target_of
from tilewright.tuning.program import kernel_sites

SM_90 = target_of("cuda:sm_90")


class Kept(dict):
    """A disk cache in memory."""

    load = dict.get

    def store(self, name, data):
        self[name] = data


@pytest.fixture
def sources(monkeypatch, tmp_path):
    """NVRTC stands in; where the sources lie that it was given."""
    with tw.config(cache_dir=""):
        yield installed(monkeypatch, tmp_path)
    forget()
    cutlass_backend.set_cache(lambda: None)


def count(sources):
    return len(list(sources.iterdir())) if sources.exists() else 0


def test_a_source_becomes_machine_code_and_tells_what_it_takes(sources):
    module, compiled = cutlass_backend.compiled_kernel(kernel_of("residual"), SM_90)
    assert compiled.binary == b"ELF of product" and (module.threads, module.shared, module.stages) == (384, 200000, 4)
    assert compiled.scratch_bytes == module.scratch == 2048 * 4
    used = resources(compiled, SM_90)
    assert (used.registers, used.spills, used.fast_bytes) == (168, 0, 200000)
    assert ".version 8.7\n.target sm_90a\n" in compiled.assembly and "product_layout" not in compiled.assembly
    assert "_ZN4cute" not in compiled.assembly and ".visible .entry product()" in compiled.assembly
    assert "100a" in cutlass_backend.compiled_kernel(kernel_of("plain"), target_of("cuda:sm_100"))[1].assembly


def test_what_was_compiled_is_kept_for_other_processes(sources):
    kept = Kept()
    cutlass_backend.set_cache(lambda: kept)
    cutlass_backend.compiled_kernel(kernel_of("plain"), SM_90)
    assert count(sources) == len(kept) == 1
    forget()  # as in another process
    cutlass_backend.compiled_kernel(kernel_of("plain"), SM_90)
    assert count(sources) == 1


def test_what_is_missing_is_named_with_the_line_of_pip(monkeypatch, tmp_path):
    for number, (changes, what) in enumerate({
        "nvidia_cutlass": "3.9.0", "nvidia_cuda_nvrtc": "12.8.0", "nvidia_cuda_cccl": "13.5.1",
    }.items()):  # fmt: skip
        (tmp_path / str(number)).mkdir()
        installed(monkeypatch, tmp_path / str(number), **{changes: what})
        with pytest.raises(errors.VersionError, match=rf"{changes.replace('_', '-')} {what} is installed") as error:
            cutlass_backend.compiled_kernel(kernel_of("plain"), SM_90)
        assert error.value.remedy == "pip install 'tilewright[cutlass]'"
        monkeypatch.undo()
    forget()
    monkeypatch.setattr(compiler.metadata, "version", lambda name: raised(compiler.metadata.PackageNotFoundError(name)))
    with pytest.raises(errors.VersionError, match="CUTLASS's kernels need nvidia-cutlass, nvidia-cuda-nvrtc, "):
        cutlass_backend.compiled_kernel(kernel_of("plain"), SM_90)
    monkeypatch.undo()
    forget()


def raised(error):
    raise error


def own(text="#error", **options):
    source = 'extern "C" __global__ void twice(In0 const* x, Out0* y) {\n' + text + "\n}"
    return cutlass.kernel(source, lambda x: x, entry="twice", grid=lambda x: x.shape[0] // 128, threads=128, **options)


def test_what_nvrtc_refuses_is_told(sources):
    with pytest.raises(errors.CompileError, match="kernel twice for cuda:sm_90: NVRTC refused it: .*#error directive"):
        tw.compile(own(), struct((256,)), target="cuda:sm_90", stop="emit")


def test_a_wait_is_told_of(sources, monkeypatch, caplog):
    monkeypatch.setattr(compiler, "PATIENCE", 0.0)
    with caplog.at_level(logging.WARNING, "tilewright"):
        cutlass_backend.compiled_kernel(kernel_of("scale per row"), SM_90)
    assert "kernel product for cuda:sm_90 is compiled by NVRTC, for 0 s until now" in caplog.text
    assert "is compiled, in" in caplog.text


def test_a_program_of_xla_calls_it(sources):
    case = CASES["residual"]

    def call(*operands):
        return case.call(*operands, compiler_params=CompilerParams()) * 2

    text = str(tw.compile(call, *case.types, target="cuda:sm_90", stop="module"))
    line = next(line for line in text.splitlines() if "__gpu$xla.gpu.ptx" in line)
    assert 'name = "product_mul"' in line and "grid_x = 4 : i32" in line and "block_x = 384 : i32" in line
    assert "shared_mem_bytes = 200000 : i32" in line and "tensor<8192xui8>" in line  # scratch, dropped
    with tw.config(kernel_route="cutlass"):
        found = tw.compile(case.call, *case.types, target="cuda:sm_90", stop="module")
    assert "__gpu$xla.gpu.ptx" in str(found) and 'name = "product"' in str(found)


def test_the_route_is_chosen_by_setting_and_by_parameters():
    kernel = kernel_of("plain")
    assert "cutlass" not in [r.name for r in choice(kernel, SM_90).routes]
    with tw.config(kernel_route="cutlass"):
        assert choice(kernel, SM_90).routes[0].name == "cutlass" and len(choice(kernel, SM_90).routes) > 1
        assert [r.name for r in choice(kernel, target_of("rocm")).routes] == ["triton"]
    asked = kernel.replace(settings=(("compiler_params", CompilerParams()),))
    found = choice(asked, SM_90)
    assert found.asked and [r.name for r in found.routes] == ["cutlass"]
    with tw.config(kernel_route="triton"):
        assert "cutlass" not in [r.name for r in choice(kernel, SM_90).routes]


def test_the_tuner_may_choose_it_where_it_is_installed(sources):
    half = struct((2048, 2048))
    (site,), _ = kernel_sites(lambda a, b: a @ b, (half, half), {}, "cuda:sm_90")
    mine = [c for c in site.space() if c.get("route") == "cutlass"]
    assert [c["tile"] for c in mine] == [None, (128, 128, 64)]
    for configuration in mine:
        made = site.made(configuration)
        assert [r.name for r in choice(made, SM_90).routes][0] == "cutlass"
    assert "Shape<Int<128>, Int<128>, Int<64>>" in cutlass_backend.cutlass_module(made, SM_90).text
    (site,), _ = kernel_sites(lambda a: a.astype("float32") * 2, (half,), {}, "cuda:sm_90")
    assert not any(c.get("route") == "cutlass" for c in site.space())


# ---------------------------------------------------------------------------- launches


class Interpreted(host.HostDriver):
    """A GPU whose kernels are the interpreter's; `launches` is what each was given besides its operands."""

    def __init__(self, kernel):
        super().__init__()
        self.kernel, self.launches = kernel, []

    def function(self, image, name, shared, device):
        assert image == b"ELF of " + name.encode()
        return name

    def launch(self, function, grid, threads, shared, stream, pointers):
        types = (*self.kernel.in_types, *self.kernel.out_types)
        views = [host.at(p, t.shape, t.dtype) for p, t in zip(pointers, types)]
        n = len(self.kernel.in_types)
        for view, found in zip(views[n:], interpret(self.kernel, *(v.copy() for v in views[:n])), strict=True):
            view[...] = found
        scratch = pointers[len(types)]
        self.launches.append((function, grid, threads, shared, bool(scratch) and scratch % 128 == 0))


def test_it_is_launched_on_arrays_of_other_libraries(sources):
    case, kernel = CASES["residual"], kernel_of("residual")
    gpu = Interpreted(kernel)
    before = driver.set_driver(gpu)
    try:
        draw = np.random.default_rng(0)
        operands = [draw.standard_normal(t.shape).astype(t.dtype) for t in case.types]
        call = arrays.call(lambda *xs: case.call(*xs, compiler_params=CompilerParams()))
        found = host.read(call(*map(host.CudaArray, operands)))
    finally:
        driver.set_driver(before)
    np.testing.assert_array_equal(found, interpret(kernel, *operands)[0])
    assert gpu.launches == [("product", (4, 1, 1), 384, 200000, True)]


# ---------------------------------------------------------------------------- C++ of one's own

DOUBLE = "  y[blockIdx.x * 128 + threadIdx.x] = Out0(2) * x[blockIdx.x * 128 + threadIdx.x];"


def test_own_source_is_a_call_in_a_program(sources):
    needs("cuda")
    fresh = own(f"{DOUBLE}  // {sources}")  # on no disk yet
    found = str(tw.compile(lambda x: fresh(x) + 1, struct((512,)), target="cuda:sm_90", stop="module"))
    line = next(line for line in found.splitlines() if "__gpu$xla.gpu.ptx" in line)
    assert 'name = "twice"' in line and "grid_x = 4 : i32" in line and "block_x = 128 : i32" in line
    (text,) = (p.read_text() for p in sources.iterdir())
    assert "using In0 = cutlass::half_t;" in text and "constexpr long long out0_shape[] = {512};" in text
    with tw.config(kernel_route="xla"):  # nothing else can compile it
        assert "__gpu$xla.gpu.ptx" in str(tw.compile(own(DOUBLE), struct((512,)), target="cuda:sm_90", stop="module"))


def test_own_source_is_launched_once_for_each_element_of_a_batch(sources):
    batched = tw.compile(tw.vmap(own(DOUBLE)), struct((3, 256)), target="cuda:sm_90", stop="module")
    assert str(batched).count("__gpu$xla.gpu.ptx") == 1 and "stablehlo.while" in str(batched)
    at_once = own(DOUBLE, vmap=lambda size, batched, x: (own(DOUBLE)(x.reshape(-1)).reshape(x.shape), True))
    batched = str(tw.compile(tw.vmap(at_once), struct((3, 256)), target="cuda:sm_90", stop="module"))
    assert "grid_x = 6 : i32" in batched and "stablehlo.while" not in batched


def test_own_source_has_the_derivative_that_it_is_given(sources):
    x = np.arange(256, dtype="float32")
    known = own(DOUBLE, meaning=lambda x: x + x)
    np.testing.assert_array_equal(tw.jit(known)(x), 2 * x)
    np.testing.assert_array_equal(tw.vmap(known)(np.stack([x, -x])), np.stack([2 * x, -2 * x]))
    np.testing.assert_array_equal(tw.grad(lambda x: known(x).sum())(x), np.full(256, 2))
    with pytest.raises(errors.NoDerivativeError, match="twice has no derivative"):
        tw.grad(lambda x: own(DOUBLE)(x).sum())(x)

    @tw.custom_vjp
    def doubled(x):
        return own(DOUBLE)(x)

    doubled.defvjp(lambda x: (own(DOUBLE)(x), None), lambda _, ct: (2 * ct,))
    text = str(tw.compile(tw.grad(lambda x: doubled(x).sum()), struct((256,)), target="cuda:sm_90", stop="module"))
    assert "stablehlo.constant" in text


def test_own_source_is_refused_elsewhere_by_name(sources):
    x = np.arange(256, dtype="float32")
    with pytest.raises(errors.ExecutionError, match="twice is CUDA C\\+\\+, which runs on NVIDIA GPUs alone"):
        tw.jit(own(DOUBLE))(x)
    for wrong in ({"entry": "none"}, {"threads": 100}, {"vmap": "sideways"}):
        given = {"entry": "twice", "grid": 1, "threads": 128} | wrong
        with pytest.raises(errors.ArgumentError):
            cutlass.kernel('extern "C" __global__ void twice(In0 const* x) {}', lambda x: x, **given)
    with pytest.raises(errors.ArgumentError, match="its grid is"):
        cutlass.kernel("__global__ void k() {}", lambda x: x, entry="k", grid=(1, 0), threads=32)(x)
