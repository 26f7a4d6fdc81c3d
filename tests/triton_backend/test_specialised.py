"""Warps that copy beside warps that compute, by Triton's own passes."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend import compiled_kernel, triton_module

HALF = np.dtype("float16")
PARAMS = tl.triton.CompilerParams(num_stages=3, tensor_descriptors=True, warp_specialize=True)


def product(batch=None, n=512, params=PARAMS):
    """A product of matrices; with a batch of them a block has an axis of size 1, which the pass fails on."""

    def body(a, b, o, acc):
        @tl.when(tl.program_id(3) == 0)
        def _():
            acc[...] = tnp.zeros(acc.shape, acc.dtype)

        acc[...] += tl.triton.dot(a[...], b[...])

        @tl.when(tl.program_id(3) == n // 64 - 1)
        def _():
            o[...] = acc[...].astype(o.dtype)

    lead = () if batch is None else (batch,)
    size = () if batch is None else (None,)

    def spec(shape, which):
        return tl.BlockSpec((*size, *shape), lambda g, i, j, k: (*(g,) * len(lead), *((i, j, k)[d] for d in which)))

    return tl.kernel_call(
        body, ArrayType((*lead, n, n), HALF), grid=(batch or 1, n // 128, n // 128, n // 64),
        in_specs=[spec((128, 64), (0, 2)), spec((64, 128), (2, 1))], out_specs=spec((128, 128), (0, 1)),
        scratch_shapes=[tl.VMEM((128, 128), "float32")], compiler_params=params, name="product",
    ), [ArrayType((*lead, n, n), HALF)] * 2  # fmt: skip


def text(target, **options):
    (kernel,) = kernels_in(*product(**options))
    return triton_module(kernel, target_of(target)).text


def test_the_innermost_loop_asks_for_it():
    assert text("cuda:sm_90").count("tt.warp_specialize") == 1
    assert "warp_specialize" not in text("cuda:sm_80")  # without the engine that copies
    assert "warp_specialize" not in text("cuda:sm_90", params=None)


@pytest.mark.targets
def test_warps_are_specialised_or_the_reason_is_told():
    pytest.importorskip("triton")
    (kernel,) = kernels_in(*product())
    _, compiled = compiled_kernel(kernel, target_of("cuda:sm_90"))
    assert "setmaxnreg" in compiled.assembly and compiled.num_warps > 4
    call, types = product(batch=2)
    found = tw.explain(call, *(tw.ShapeDtypeStruct(t.shape, t.dtype) for t in types), target="cuda:sm_90", compile=True)
    assert "its warps are not specialised: " in str(found)
    assert not found.kernels[0].resources.spills
