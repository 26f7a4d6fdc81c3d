"""Which kernels are CUTLASS's, what it is told of them, and that its epilogue computes what the body does."""

import re

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.cutlass_cases import CASES, HALF, computed, kernel_of, struct
from tests.support.gpu.hopper_cases import product
from tilewright import cutlass_backend, errors, nn
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.cutlass_backend import cutlass_module
from tilewright.cutlass_backend.gemm_match import contraction
from tilewright.lang.cutlass import CompilerParams
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.legalize import legal
from tilewright.lang.targets.target import target_of

A, B = struct((256, 128)), struct((128, 192))
SM_90, SM_100 = target_of("cuda:sm_90"), target_of("cuda:sm_100")


def drawn(kernel: Kernel) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [
        draw.integers(-8, 8, t.shape).astype(t.dtype) if t.dtype.kind == "i" else
        np.asarray(draw.standard_normal(t.shape) / 4).astype(t.dtype) for t in kernel.in_types
    ]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_epilogue_computes_what_the_kernel_does(name):
    kernel = kernel_of(name)
    operands = drawn(kernel)
    results = computed(contraction(legal(kernel, cutlass_backend.BACKEND, SM_90).kernel), operands)
    for found, wanted in zip(results, interpret(kernel, *operands), strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        tolerance = {4: 2e-5, 2: 2e-2, 1: 0.13}[found.dtype.itemsize]
        np.testing.assert_allclose(found.astype("float32"), wanted.astype("float32"), rtol=tolerance, atol=tolerance)


def strides(text: str) -> dict[str, list[str]]:
    return {d: re.findall(rf"get<(\d)>\(args\.\w+\.d{d}\) = (\d+)", text) for d in "ABCD"}


def test_what_is_summed_and_stored_is_of_the_factors_kind():
    text = cutlass_module(kernel_of("8-bit integers, scaled"), SM_90).text
    assert "int32_t, Tile, Cluster" in text and "int8_t, cutlass::layout::RowMajor, Line<int8_t>" in text
    text = cutlass_module(kernel_of("tf32"), SM_90).text
    assert "float, cutlass::layout::RowMajor, Line<float>" in text and "Int<32>>" in text
    text = cutlass_module(kernel_of("three results of some products"), SM_90).text
    assert "Result0* out0, Result1* out1, Result2* out2, char* scratch" in text
    assert [f"Sm90AuxStore<0, void, Result{n}," in text for n in range(4)] == [False, True, True, False]
    assert text.count("{192ll, Int<1>{}, 49152ll}") == 2 and "Elements0, Result0" in text


@pytest.mark.parametrize("target", (SM_90, SM_100), ids=("hopper", "blackwell"))
def test_layouts_are_those_of_the_arrays(target):
    text = cutlass_module(kernel_of("plain"), target).text
    assert strides(text) == {"A": [("0", "128"), ("2", "0")], "B": [("1", "192"), ("2", "0")], "C": [],
                             "D": [("0", "192"), ("2", "0")]}  # fmt: skip
    assert "make_shape(256, 192, 128, 1)" in text
    text = cutlass_module(kernel_of("the left transposed"), target).text
    assert strides(text)["A"] == [("1", "256"), ("2", "0")]
    tags = re.findall(r"cutlass::half_t, cutlass::layout::(\w+), Line<cutlass::half_t>,", text)
    assert tags == ["ColumnMajor", "RowMajor"]
    text = cutlass_module(kernel_of("float8"), target).text
    assert strides(text)["B"] == [("0", "128"), ("2", "0")]
    text = cutlass_module(kernel_of("batched"), target).text
    assert strides(text)["A"] == [("0", "128"), ("2", "32768")] and "kBatched" in text
    assert "typename Leaf_x0::Arguments{in2, cutlass::half_t(0), {Int<0>{}, Int<1>{}, 0ll}}" in text
    assert strides(text)["C"] == [("0", "192"), ("2", "49152")]


def test_the_tree_has_a_node_for_each_operand():
    nodes = {
        "bias and gelu": ["Sm90RowBroadcast<0, Block, float"], "scale per row": ["Sm90ColBroadcast<0, Block, float"],
        "residual": ["Sm90SrcFetch<Fetched>"], "scale of everything": ["Sm90ScalarBroadcast<float"],
        "two residuals": ["Sm90SrcFetch<Fetched>", "Sm90AuxLoad<0, void, cutlass::bfloat16_t"],
    }  # fmt: skip
    for name, wanted in nodes.items():
        text = cutlass_module(kernel_of(name), SM_90).text
        found = re.findall(r"using Leaf_x\d = fusion::([^;]*);", text)
        assert len(found) == len(wanted) and all(f.startswith(w) for f, w in zip(found, wanted)), (name, found)
        assert ("tma_load_c" in text) == ("Sm90SrcFetch<Fetched>" in wanted)


def large(n, target, **options):
    def body(a, b, o):
        o[...] = tnp.dot(a[...], b[...], preferred_element_type="float32").astype(HALF)

    grid, k = (n // 128, n // 128), 64
    call = tl.kernel_call(
        body, struct((n, n)), grid=grid, name="product", compiler_params=CompilerParams(**options),
        in_specs=[tl.BlockSpec((128, k), lambda i, j: (i, 0)), tl.BlockSpec((k, 128), lambda i, j: (0, j))],
        out_specs=tl.BlockSpec((128, 128), lambda i, j: (i, j)))  # fmt: skip
    found = tw.compile(call, struct((n, k)), struct((k, n)), target=target.name, stop="fuse")
    (kernel,) = kernels_of(getattr(found, "program", found))
    return cutlass_module(kernel, target)


def test_blocks_are_launched_for_all_tiles():
    assert large(4096, SM_90).grid == (132, 1, 1)  # as many as run at once
    assert large(256, SM_90).grid == (4, 1, 1)
    assert large(4096, SM_90, tile=(128, 128, 64), cluster=(1, 2)).grid == (66, 2, 1)
    assert large(4096, SM_100).grid == (32, 16, 1)  # pairs of blocks
    assert large(256, SM_100).grid == (2, 2, 1)
    assert "StageCount<3>" in large(4096, SM_90, stages=3).text
    assert "Pingpong" in large(4096, SM_90, tile=(64, 128, 64)).text
    for module in (large(4096, SM_90), large(4096, SM_100)):
        assert module.scratch == 2048 * np.prod(module.grid)


def refused(function, *types, target=SM_90):
    found = tw.compile(function, *types, target=target.name, stop="fuse")
    kernel = next(k for k in kernels_of(getattr(found, "program", found)) if "dot_general" in repr(k))
    with pytest.raises(errors.UnsupportedError, match=f"kernel {kernel.name} is not for CUTLASS: ") as error:
        cutlass_module(kernel, target)
    return error.value.what.partition("CUTLASS: ")[2]


def test_what_is_no_such_product_is_refused_with_its_reason():
    weights = struct((128, 192), "int8")
    assert "computed in the kernel" in refused(lambda a, w: a @ w.astype(HALF), A, weights)
    single, bytes = ([struct(x.shape, dtype) for x in (A, B)] for dtype in ("float32", "float8_e4m3fn"))
    assert "as the tensor cores ask" in refused(lambda a, b: a @ b, *single)
    turned = single[0], struct((192, 128), "float32")
    assert "round its factors to TF32" in refused(lambda a, b: tnp.matmul(a, b.T, precision="highest"), *turned)
    short = [struct(x.shape, "int16") for x in (A, B)]
    assert "convert it before to one of float16" in refused(lambda a, b: a @ b, *short)
    assert "not a multiple of 16 bytes" in refused(lambda a, b: a @ b, A, struct((128, 190)))
    assert "as Hopper asks" in refused(lambda a, b: tnp.matmul(a, b, preferred_element_type="float32"), *bytes)
    assert "not for cuda:sm_80" in refused(lambda a, b: a @ b, A, B, target=target_of("cuda:sm_80"))
    summed = product(after=lambda x: x / x.sum(1, keepdims=True))
    with pytest.raises(errors.UnsupportedError, match=r"reduce_sum is in its epilogue: .*\n.*test_source\.py"):
        cutlass_module(summed, SM_90)
    query = struct((1, 256, 2, 64))
    assert refused(nn.fused.dot_product_attention, query, query, query)


def test_a_tile_that_there_is_not_is_refused():
    wrong = {"a tile of": [{"tile": (96, 128, 64)}, {"tile": (128, 264, 64)}], "a cluster": [{"cluster": (3, 1)}]}
    for why, options in ((why, options) for why, found in wrong.items() for options in found):
        with pytest.raises(errors.UnsupportedError, match=why):
            large(4096, SM_90, **options)
    with pytest.raises(errors.UnsupportedError, match="two blocks of a cluster make 256 rows"):
        large(4096, SM_100, tile=(256, 128, 64), cluster=(1, 1))
