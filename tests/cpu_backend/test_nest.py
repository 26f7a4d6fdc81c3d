"""The loop nest that explains a kernel's machine code."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus.runs import KERNELS
from tests.support.machine_code import needs_llvm
from tests.support.paths import GOLDEN
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.core.tracing.trace import trace_program
from tilewright.cpu_backend.lowering.kernel import code_of
from tilewright.cpu_backend.machine.features import Features
from tilewright.errors import ArgumentError
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import CPU

F32 = np.float32
AVX2 = Features("x86-64", frozenset({"avx2", "fma", "f16c", "bmi2"}))
AVX512 = Features("x86-64", AVX2.names | {"avx512f", "avx512bw", "avx512dq", "avx512vl"})
NEVER = 2**62  # bytes from which stores bypass the caches


def softmax(shape, block, machine_code=True):
    def body(x_ref, o_ref):
        e = tnp.exp(x_ref[...] - tnp.max(x_ref[...], axis=1, keepdims=True))
        o_ref[...] = e / tnp.sum(e, axis=1, keepdims=True)

    spec = tl.BlockSpec((block, shape[1]), lambda i: (i, 0))
    params = tl.cpu.CompilerParams(route="machine_code" if machine_code else "xla")
    return tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct(shape, F32), grid=tl.cdiv(shape[0], block),
                          in_specs=[spec], out_specs=spec, compiler_params=params)  # fmt: skip


def nest(call, *shapes, machine=AVX512, threads=2, stream_from=NEVER):
    types = [ArrayType(s, np.dtype(F32)) for s in shapes]
    (kernel,) = set(kernels_of(trace_program(lambda *xs: [call(*xs)], types)))
    return "\n".join(code_of(kernel, CPU, machine, threads, stream_from).nest) + "\n"


def matmul(x, y):
    return KERNELS["matmul_grid"].call(x, y, rows=64, columns=64, depth=32)


GOLDENS = {
    "nest_softmax": lambda: nest(softmax((1024, 1000), 8), (1024, 1000)),
    "nest_softmax_avx2": lambda: nest(softmax((1024, 1000), 8), (1024, 1000), machine=AVX2),
    "nest_ragged": lambda: nest(softmax((1001, 100), 8), (1001, 100), threads=1),
    "nest_matmul": lambda: nest(matmul, (256, 128), (128, 192)),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name, request):
    text, path = GOLDENS[name](), GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert text == path.read_text(), f"{name} prints differently; read the difference, then --update-golden"


def test_stores_past_the_caches_are_named():
    call = softmax((64, 256), 8)
    assert "o_ref stored past the caches" in nest(call, (64, 256), stream_from=1)
    assert "caches" not in nest(call, (64, 256))


@pytest.mark.parametrize(("columns", "fetched"), [(1024, True), (2**16, False)])
def test_later_passes_over_a_row_fetch_the_next_one(columns, fetched):
    types = [ArrayType((64, columns), np.dtype(F32))]
    (kernel,) = set(kernels_of(trace_program(lambda *xs: [softmax((64, columns), 8)(*xs)], types)))
    assert ("@llvm.prefetch" in code_of(kernel, CPU, AVX512, 1, NEVER).text) == fetched


@needs_llvm
def test_explain_prints_loops_and_on_request_the_assembly():
    x = np.ones((16, 64), F32)
    explained = tw.explain(softmax(x.shape, 8), x, compile=True)
    assert "loops of kernel body:\n  parallel, axis 0 of 2" in str(explained)
    assert explained.assembly == () and "assembly of" not in str(explained)
    ((kernel, text),) = tw.explain(softmax(x.shape, 8), x, assembly=True).assembly
    assert kernel.name == "body"
    assert "handler:" in text and "ret" in text


def test_kernels_of_xla_have_neither():
    x = np.ones((16, 64), F32)
    explained = tw.explain(softmax(x.shape, 8, machine_code=False), x, assembly=True)
    assert explained.routes and explained.nests == explained.assembly == ()


def test_assembly_of_another_target_is_an_error():
    with pytest.raises(ArgumentError, match="cuda"):
        tw.explain(softmax((16, 64), 8), np.ones((16, 64), F32), target="cuda:sm_90", assembly=True)
