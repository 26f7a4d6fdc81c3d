"""What NVRTC and XLA make of the sources, with no GPU: resources and instructions. Minutes, unless kept on disk."""

import time

import pytest

import tilewright as tw
from docs import routes
from tests.support.gpu.cutlass_cases import kernel_of
from tilewright import errors
from tilewright.compiler.backend_selection import CUTLASS
from tilewright.cutlass_backend import check_installed
from tilewright.lang.gpu.code import resources
from tilewright.lang.targets.target import target_of


def missing():
    try:
        check_installed()
    except errors.VersionError:
        return True
    return False


pytestmark = [pytest.mark.targets, pytest.mark.skipif(missing(), reason="needs tilewright[cutlass]")]


# Each ending and each dtype once: a kernel takes a minute.
ENDED = "product, bias, gelu, float16", "product, residual, bfloat16", "product, scale per row, float8_e4m3fn"


@pytest.mark.parametrize("target", routes.CUTLASS)
def test_products_do_not_spill_and_take_what_there_is(target):
    machine = target_of(target)
    kernels = [kernel for name in ENDED for kernel in routes.kernels(name)]
    kernels += [kernel_of("everything")] if target == "cuda:sm_90" else []
    backend = CUTLASS.ready
    backend.start(kernels, machine)
    for kernel in kernels:
        module, compiled = backend.compiled_kernel(kernel, machine)
        used = resources(compiled, machine)
        assert used.spills == 0 and (used.registers or 256) <= 255 and used.fast_bytes <= machine.fast_bytes
        assert module.stages >= 4 and module.threads in (256, 384) and compiled.binary[:4] == b"\x7fELF"
        assert ("tcgen05.mma" if target == "cuda:sm_100" else "wgmma.mma_async") in compiled.assembly
        assert "cp.async.bulk.tensor" in compiled.assembly and "tensormap.replace" in compiled.assembly


def test_a_program_of_xla_holds_it_and_the_next_one_has_it_from_the_disk():
    function, types = routes.CASES["product, bias, gelu, float16"]
    with tw.config(kernel_route="cutlass"):
        first = tw.compile(function, *types, target="cuda:sm_90")
        tw.clear_caches()
        begun = time.perf_counter()
        again = tw.compile(function, *types, target="cuda:sm_90")
        seconds = time.perf_counter() - begun
        told = str(tw.explain(function, *types, target="cuda:sm_90", compile=True))
    assert first.executable is not None and again.kernels[0].binary == first.kernels[0].binary
    assert again.resources[0].spills == 0 and "is compiled by cutlass" in told
    assert seconds < 10
