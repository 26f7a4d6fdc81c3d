"""What the compilers make of the programs for Hopper, with no GPU: resources and instructions."""

import importlib.util
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import tilewright as tw
from tests.support.gpu.hopper_cases import COPIED, HALF, PRODUCTS, SINGLE, attention, floats, integers, product
from tests.support.gpu.hopper_large import LARGE
from tilewright import errors
from tilewright.compiler import backend_selection
from tilewright.lang.gpu.code import resources
from tilewright.lang.targets.target import target_of
from tilewright.lang.toolchain.pool import Workers
from tilewright.mosaic_gpu import compiled_kernel, compiler, mosaic_gpu_module, start

SM_90 = target_of("cuda:sm_90")
pytestmark = [
    pytest.mark.targets, pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]"),
]  # fmt: skip


def sass(compiled, folder):
    """The instructions of a cubin."""
    found = importlib.util.find_spec("triton")
    tool = Path(found.submodule_search_locations[0]) / "backends" / "nvidia" / "bin" / "nvdisasm"
    path = folder / "kernel.cubin"
    path.write_bytes(compiled.binary)
    return subprocess.run([tool, path], capture_output=True, text=True, check=True).stdout


def test_kernels_take_what_there_is_and_do_not_spill(tmp_path):
    kernels = {name: product(**options) for name, options in PRODUCTS.items()}
    for functions in (floats, integers):
        kernels[functions.__name__] = product(
            m=64, n=64, k=64, rows=64, columns=64, after=lambda x, f=functions: f(x / 8), out=SINGLE
        )
    for d in (64, 80, 128):
        for kernel in attention(d=d, t=512, is_causal=True):
            kernels[f"{kernel.name} {d}"] = kernel
    start(list(kernels.values()), SM_90)
    for name, kernel in kernels.items():
        module, compiled = compiled_kernel(kernel, SM_90)
        used = resources(compiled, SM_90)
        held = name not in ("floats", "integers")  # which keep thirty results of each number at once
        assert (used.spills == 0 or not held) and (used.registers or 0) <= 255 and used.fast_bytes <= used.fast_limit, (
            name,
            used,
        )
        assert module.stages or not module.text.count("remui")
        assert ".extern .shared .align 1024" in compiled.assembly and ".align 256" not in compiled.assembly
    text = sass(compiled_kernel(kernels["plain"], SM_90)[1], tmp_path)
    for instruction in ("HGMMA", "UTMALDG", "UTMASTG", "STSM", "USETMAXREG", "SYNCS"):
        assert re.search(rf"\b{instruction}\b", text), instruction
    text = sass(compiled_kernel(kernels["attention 128"], SM_90)[1], tmp_path)
    assert text.count("BAR.ARV") >= 3 and re.search(r"BAR\.SYNC\S* R\d+, 0x100", text)  # turns of two warpgroups


def test_products_in_tensor_memory(tmp_path):
    blackwell = target_of("cuda:sm_100")
    for name in ("plain", "both turned, wide", "bias and gelu", "normal rows", "float32 out", *COPIED):
        _, compiled = compiled_kernel(product(**PRODUCTS[name]), blackwell)
        assert resources(compiled, blackwell).spills == 0, name
    text = sass(compiled_kernel(product(**PRODUCTS["plain"]), blackwell)[1], tmp_path)
    for instruction in ("UTCHMMA", "UTMALDG", "UTMASTG", "LDTM", "SYNCS"):
        assert re.search(rf"\b{instruction}\b", text), instruction


def test_attention_in_tensor_memory(tmp_path):
    blackwell = target_of("cuda:sm_100")
    kernels = [kernel for d in (80, 128) for kernel in attention(d=d, t=512, is_causal=True)]
    start(kernels, blackwell)
    for kernel in kernels:
        _, compiled = compiled_kernel(kernel, blackwell)
        assert resources(compiled, blackwell).spills == 0, kernel.name
    text = sass(compiled_kernel(kernels[0], blackwell)[1], tmp_path)
    for instruction in ("UTCHMMA", "UTMALDG", "LDTM", "STTM"):
        assert re.search(rf"\b{instruction}\b", text), instruction


@pytest.mark.parametrize("target, wanted, blocks", [
    ("cuda:sm_90", (r"UTMALDG\S*\.MULTICAST", "UCGABAR_ARV", r"HGMMA\S*64x256"), 132),
    ("cuda:sm_90", (r"UTMALDG\S*\.MULTICAST", "UCGABAR_ARV", r"HGMMA\S*64x256"), 128),
    ("cuda:sm_100", (r"UTCHMMA\.2CTA", r"UTMALDG\S*\.2CTA", r"UTCBAR\.2CTA\.MULTICAST", "LDTM"), 148),
])  # fmt: skip
def test_clusters_of_blocks_that_make_many_tiles(target, wanted, blocks, tmp_path):
    kernel = product(m=4096, n=4096, k=4096, columns=256, cluster=4 if blocks == 128 else None)
    module, compiled = compiled_kernel(kernel, target_of(target))
    assert module.grid == (blocks, 1, 1) and resources(compiled, target_of(target)).spills == 0
    text = sass(compiled, tmp_path)
    for instruction in wanted:
        assert re.search(instruction, text), instruction


@pytest.mark.parametrize("target, name, instruction", [
    ("cuda:sm_90", "float8, two kinds", r"QGMMA\S*\.E4M3\.E5M2"), ("cuda:sm_90", "8-bit integers", r"IGMMA\S*\.S8\.S8"),
    ("cuda:sm_90", "tf32", r"HGMMA\S*\.TF32"), ("cuda:sm_100", "float8, two kinds", "UTCQMMA"),
    ("cuda:sm_100", "8-bit integers", "UTCIMMA"), ("cuda:sm_100", "tf32", "UTCHMMA"),
])  # fmt: skip
def test_operand_types_have_their_instructions(target, name, instruction, tmp_path):
    _, compiled = compiled_kernel(product(**PRODUCTS[name]), target_of(target))
    assert resources(compiled, target_of(target)).spills == 0
    assert re.search(instruction, sass(compiled, tmp_path))


def test_a_program_takes_the_kernel():
    struct = tw.ShapeDtypeStruct((256, 256), HALF)
    with tw.config(kernel_route="mosaic_gpu"):
        binary = tw.compile(lambda a, b: a @ b, struct, struct, target="cuda:sm_90")
    assert binary.executable is not None
    assert "wgmma" in binary.kernels[0].assembly and binary.kernels[0].scratch % 128 == 0


def test_what_the_estimate_chooses_on_blackwell_is_told():
    struct = tw.ShapeDtypeStruct((4096, 4096), HALF)
    told = str(tw.explain(lambda a, b: a @ b, struct, struct, target="cuda:sm_100", compile=True))
    assert "is compiled by mosaic_gpu" in told


def test_kernels_that_load_some_columns_at_a_time_do_not_spill():
    blackwell = target_of("cuda:sm_100")
    kernels = [*LARGE["fused_matmul"](), *LARGE["paged decoding, pages of 128, groups of 128"]()]
    start(kernels, blackwell)
    for kernel in kernels:
        assert resources(compiled_kernel(kernel, blackwell)[1], blackwell).spills == 0, kernel.name


def test_a_fault_of_the_compiler_is_told_and_the_next_module_compiled():
    module = mosaic_gpu_module(product(m=64, n=64, k=64, rows=64, columns=64), SM_90)
    workers = Workers("Mosaic GPU's compiler", "test", Path(compiler.__file__).with_name("worker.py"))
    try:
        bad = replace(module, text=module.text.replace("wgmma.fence", "wgmma.bogus"))
        with pytest.raises(errors.CompileError, match="(?s)Mosaic GPU's compiler.*kernel_route"):
            compiler.machine_code(bad, SM_90, None, workers)
        assert compiler.machine_code(module, SM_90, None, workers).binary[:4] == b"\x7fELF"
    finally:
        workers.end()


def test_launches_on_arrays_of_other_libraries_take_it():
    kernel = product(m=128, n=128, k=128)
    module, compiled = backend_selection.compiled_kernel(kernel, SM_90)
    assert compiled.threads == module.threads and compiled.scratch_bytes == module.scratch
    assert compiled.binary[:4] == b"\x7fELF"
