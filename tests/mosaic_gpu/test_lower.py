"""Kernels as warp-specialised programs: walked, their values are the interpreter's, and what is left out is found."""

import functools
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus.runs import KERNELS
from tests.support.edits import every, without
from tests.support.gpu.hopper_cases import (
    COPIED,
    CORPUS,
    CORPUS_OF_BLACKWELL,
    EIGHT,
    HALF,
    LEFT,
    PRODUCTS,
    SINGLE,
    TOLERANCE,
    attention,
    attention_told,
    floats,
    integers,
    linear_cross_entropy,
    operands,
    paged,
    product,
    swiglu_kernels,
)
from tests.support.gpu.hopper_large import LARGE
from tests.support.gpu.walker import check_hopper, kernels_of
from tests.support.traced import kernels_in
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.core.support.errors import KernelError
from tilewright.lang.gpu.normalize import GPU_LIMITS
from tilewright.lang.loopnest.plan import plan
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_gpu import mosaic_gpu_module
from tilewright.mosaic_gpu.schedule import products, schedule

SM_90 = target_of("cuda:sm_90")


@pytest.mark.law
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_the_interpreter(name):
    kernel = product(**PRODUCTS[name])
    check_hopper(kernel, *operands(kernel), eager=len(name) % 2 == 0, rtol=TOLERANCE.get(name))


@pytest.mark.parametrize("name, options", [
    ("causal, grouped heads", dict(is_causal=True)), ("window", dict(local_window_size=(64, 0), kv_heads=2)),
    ("plain", dict(t=128)), ("heads of 80", dict(t=128, d=80, is_causal=True)),
])  # fmt: skip
def test_attention_forwards_and_backwards(name, options):
    kernels = attention(**options)
    assert len(kernels) == 3
    for kernel in kernels:
        rng = np.random.default_rng(1)
        values = [rng.standard_normal(t.shape).astype(t.dtype) for t in kernel.in_types]
        check_hopper(kernel, *values)


@pytest.mark.law
@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_100"])
@pytest.mark.parametrize("edit, said", [
    (without(r".*cp\.async\.bulk\.shared.*\n"), "all wait"),
    (every(r"(cp\.async\.bulk\.shared.*\], )\d+(, )", r"\g<1>16\g<2>"), "all wait"),
    (without(r".*L_\$.*\n", -1), "race"),
])  # fmt: skip
def test_numbers_of_rows_are_copied_with_the_tiles(target, edit, said):
    for kernel in attention(t=256, d=64)[1:]:
        text = mosaic_gpu_module(kernel, target_of(target)).text
        assert text.count("cp.async.bulk.shared") == 2 and "llvm.load" not in text.partition("setmaxnreg.inc")[2]
        with pytest.raises(KernelError, match=said):
            check_hopper(kernel, *operands(kernel), target=target, edit=edit)


def corpus_kernels(name, dims, blocks):
    """The kernels with products of a file of the corpus, with arrays of 16-bit floats."""
    module = KERNELS[name]
    arrays = [np.asarray(a) for a in module.make(np.random.default_rng(0), *dims)]
    arrays = [(a / 4).astype(HALF) if a.dtype == np.float32 else a for a in arrays]
    for mode in getattr(module, "MODES", ({},)):
        for kernel, given in kernels_of(functools.partial(module.call, **blocks, **mode), *arrays):
            if products(kernel.body):
                yield kernel, given


@pytest.mark.parametrize("name", CORPUS)
def test_kernels_of_the_corpus(name):
    found = [check_hopper(kernel, *given) for kernel, given in corpus_kernels(name, *CORPUS[name])]
    assert found


@pytest.mark.targets
@pytest.mark.parametrize("name", CORPUS_OF_BLACKWELL)
def test_kernels_of_the_corpus_on_blackwell(name):
    kernels = corpus_kernels(name, *CORPUS_OF_BLACKWELL[name])
    found = [check_hopper(kernel, *given, target="cuda:sm_100") for kernel, given in kernels]
    assert found


def test_numbers_of_less_than_a_byte_are_left_to_others():
    def body(x, w, o):
        o[...] = tnp.dot(x[...], w[...].astype(HALF), preferred_element_type="float32")

    call = tl.kernel_call(body, ArrayType((64, 64), SINGLE))
    (kernel,) = kernels_in(call, [ArrayType((64, 64), HALF), ArrayType((64, 64), "int4")])
    with pytest.raises(errors.UnsupportedError, match="the least element that a GPU loads or stores is a byte"):
        mosaic_gpu_module(kernel, SM_90)


@pytest.mark.parametrize("name", LEFT)
def test_kernels_of_the_corpus_that_are_left_to_others(name):
    dims, blocks, why = LEFT[name]
    for kernel, _ in corpus_kernels(name, dims, blocks):
        with pytest.raises(errors.UnsupportedError, match=why):
            mosaic_gpu_module(kernel, SM_90)


def test_pages_that_a_table_names():
    kernel, arrays = paged()
    check_hopper(kernel, *arrays)


@pytest.mark.parametrize("m, target", [(256, "cuda:sm_90"), (128, "cuda:sm_100")])
def test_the_cross_entropy_of_a_linear_layer(m, target):
    kernel, rng = linear_cross_entropy(m), np.random.default_rng(0)
    x, w = (rng.standard_normal(t.shape).astype(HALF) for t in kernel.in_types[:2])
    check_hopper(kernel, x, w, rng.integers(0, w.shape[1], m).astype(np.int32), target=target)


# Of the kernels in large shapes those that are left to others, with the reason: on Hopper, on Blackwell.
UNFIT = {
    "matmul_loop": ("scan cannot run",) * 2, "int4_matmul": ("registers hold matrices",) * 2,
    "int8_matmul": ("summed along rows", None), "matmul_grid": (None, "a row of 256 numbers"),
    "block_sparse_matmul": (None, "a product in a branch"),
    "paged decoding, pages of 128, groups of 64": (None, "blocks of 64 rows"),
}  # fmt: skip


@pytest.mark.targets
@pytest.mark.parametrize("name", LARGE)
def test_kernels_in_large_shapes_are_lowered_or_refused_with_the_reason(name):
    for kernel in LARGE[name]():
        for target, why in zip(("cuda:sm_90", "cuda:sm_100"), UNFIT.get(name, (None, None)), strict=True):
            if why is None:
                assert mosaic_gpu_module(kernel, target_of(target)).text
            else:
                with pytest.raises(errors.UnsupportedError, match=why):
                    mosaic_gpu_module(kernel, target_of(target))


def test_a_gated_mlp_and_its_gradient():
    names = set()
    for kernel in swiglu_kernels():
        names.add(kernel.name)
        check_hopper(kernel, *operands(kernel), rtol=3e-2)
    assert names == {"swiglu", "swiglu_backward"}


# ---------------------------------------------------------------------------- what is left out is found


FAULTS = {
    "too few bytes are expected": (
        without(r"(expect_tx\S* _, \[\$0\], )16384;", 0, r"\g<1>8192;"), "8192 bytes more are copied"),
    "too many bytes are expected": (
        without(r"(expect_tx\S* _, \[\$0\], )16384;", 0, r"\g<1>20480;"), "all wait: .*bytes short"),
    "no wait for a tile": (without(r".*L_\$.*\n", 1), "race: a product reads shared memory"),
    "a stage is freed before its products": (
        every(r"wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;"), "race: a copy writes|read before"),
    "the producer does not wait": (without(r".*L_\$.*\n", 0), "race: a copy writes|more arrivals"),
    "no proxy fence": (without(r".*fence\.proxy\.async\.shared.*\n"), "without fence.proxy.async"),
    "no barrier in the warpgroup": (without(r".*bar\.sync \$0, 128.*\n"), "race: a store of the copy engine"),
    "no barrier before the stages are used again": (without(r".*bar\.sync 1, 256.*\n"), "race: stmatrix writes"),
    "no fence of products": (without(r".*wgmma\.fence.*\n"), "without wgmma.fence"),
    "results are read too early": (
        every(r"wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;"), "read before wgmma.wait_group"),
    "the wrong phase": (
        every(r"arith.xori (%v\d+), (%v\d+) : i32", r"arith.ori \1, \2 : i32"), "all wait|race|more arrivals"),
    "a barrier of too few": (every(r"(mbarrier.init\S* \[\$0\], )8;", r"\g<1>4;"), "more arrivals|race|all wait"),
    "descriptors are not acquired": (without(r".*fence\.proxy\.tensormap.*\n"), "before fence.proxy.tensormap"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_walker_finds(name):
    edit, said = FAULTS[name]
    kernel = product(k=512, num_stages=2)
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *operands(kernel), edit=edit)


# ---------------------------------------------------------------------------- Blackwell


BLACKWELL = [
    "plain", "left turned", "both turned, wide", "ragged", "bias and gelu", "row scale and residual", "normal rows",
    "column sums", "sums of rows in columns", "float32 out", *COPIED,
]  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("name", BLACKWELL)
def test_products_in_tensor_memory(name):
    kernel = product(**PRODUCTS[name])
    check_hopper(kernel, *operands(kernel), target="cuda:sm_100", eager=len(name) % 2 == 0, rtol=TOLERANCE.get(name))


TENSOR_FAULTS = {
    "sums are loaded too early": (without(r".*L_\$.*\n", -1), "race: a load reads tensor memory"),
    "no fence after the barrier": (
        every(r".*tcgen05\.fence::after_thread_sync.*\n", ""), "without tcgen05.fence::after_thread_sync"),
    "loads are not waited for": (without(r".*tcgen05\.wait::ld.*\n"), "read before tcgen05.wait::ld"),
    "a stage is never freed": (without(r".*tcgen05\.commit.*\n"), "all wait"),
    "no wait for a tile": (without(r".*L_\$.*\n", 1), "race: a product reads"),
    "tensor memory is not given back": (without(r".*tcgen05\.dealloc.*\n"), "columns of tensor memory"),
    "a wrong place of rows": (every(r"= arith.shli (%v\d+), (%v\d+) : i32", r"= arith.addi \1, \2 : i32"), "loads row"),
}  # fmt: skip


@pytest.mark.parametrize("name", TENSOR_FAULTS)
def test_the_walker_finds_in_tensor_memory(name):
    edit, said = TENSOR_FAULTS[name]
    kernel = product(k=512, num_stages=2)
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *operands(kernel), target="cuda:sm_100", edit=edit)


# ---------------------------------------------------------------------------- products that are read, on Blackwell


@pytest.mark.parametrize("name", ["int8 weights", "computed left", "float8 left", "256 rows"])
def test_products_of_what_is_computed_in_tensor_memory(name):
    kernel = product(**PRODUCTS.get(name, dict(rows=256, m=256, columns=64, k=128)))
    check_hopper(kernel, *operands(kernel), target="cuda:sm_100", eager=len(name) % 2 == 0)


@functools.cache
def chained():
    return [(k, operands(k, 1)) for k in attention(d=64, t=256, is_causal=True)]


def scratch_used_after_it_is_stored(a, b, o, acc):
    acc[...] = tnp.dot(a[...], b[...], preferred_element_type="float32")
    before = acc[...]

    @tl.when(tl.program_id(0) > 0)
    def _():
        acc[...] = before * 2 + 1

    o[...] = (acc[...] - before).astype(o.dtype)


def test_scratch_that_is_used_after_it_is_stored_again():
    types, rows = [ArrayType((256, 64), HALF), ArrayType((64, 64), HALF)], tl.BlockSpec((128, 64), lambda i: (i, 0))
    call = tl.kernel_call(
        scratch_used_after_it_is_stored, ArrayType((256, 64), HALF), grid=2, out_specs=rows,
        in_specs=[rows, tl.BlockSpec((64, 64), lambda i: (0, 0))], scratch_shapes=[tl.VMEM((128, 64), SINGLE)],
    )  # fmt: skip
    (kernel,) = kernels_in(call, types)
    check_hopper(kernel, *operands(kernel), target="cuda:sm_100")


@pytest.mark.parametrize("which", range(3))
def test_attention_in_tensor_memory(which):
    kernel, values = chained()[which]
    check_hopper(kernel, *values, target="cuda:sm_100", eager=which == 1)


CHAINED_FAULTS = {
    "stores are not waited for": (every(r".*tcgen05\.wait::st.*\n", ""), "without tcgen05.wait::st"),
    "stores are not fenced": (every(r".*tcgen05\.fence::before.*\n", ""), "without tcgen05.fence::before_thread_sync"),
    "no barrier before a product": (every(r".*bar\.sync \$0, 128.*\n", ""), "race: a (product|store)"),
    "no fence after the barrier": (
        every(r".*tcgen05\.fence::after_thread_sync.*\n", ""), "without tcgen05.fence::after_thread_sync"),
    "a product is not waited for": (without(r".*L_\$.*\n", -1), "race: a (load|store|product)|all wait"),
    "the wrong phase": (
        without(r'(.*L_\$.*"r,r" %v\d+, )%v\d+( : .*\n)', -1, r"%wrong = arith.constant 1 : i32\n\1%wrong\2"),
        "race: a (load|store|product)"),
    "too few columns": (every(r"(tcgen05\.(alloc|dealloc)\S* \S+ )256;", r"\g<1>128;"), "columns .* of tensor memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINED_FAULTS)
def test_the_walker_finds_in_chained_products(name):
    edit, said = CHAINED_FAULTS[name]
    kernel, values = chained()[0]
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *values, target="cuda:sm_100", edit=edit)


def test_blocks_of_few_rows_are_not_for_tensor_memory():
    with pytest.raises(errors.UnsupportedError, match="on Blackwell take 128, or 256"):
        mosaic_gpu_module(product(**PRODUCTS["one warpgroup, bfloat16"]), target_of("cuda:sm_100"))


# ---------------------------------------------------------------------------- blocks that make many tiles of results


MANY = dict(m=128, n=320, k=192, columns=64, num_stages=3)


@pytest.mark.law
@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_100"])
@pytest.mark.parametrize("options", [dict(MANY), dict(MANY, out=SINGLE, num_stages=1), dict(MANY, turned=(True, True))])
def test_blocks_that_make_many_tiles(target, options):
    kernel = product(**options)
    assert mosaic_gpu_module(kernel, replace(target_of(target), units=2)).grid == (2, 1, 1)
    check_hopper(kernel, *operands(kernel), target=target, units=2, eager="out" in options)


def test_one_stage_is_released_before_it_is_waited_for():
    kernel = product(k=256, num_stages=1)
    check_hopper(kernel, *operands(kernel))


MANY_FAULTS = {
    "results are written over": (
        "cuda:sm_90", every(r".*cp\.async\.bulk\.wait_group\.read.*\n", ""), "race: stmatrix writes"),
    "no barrier after results are read": (
        "cuda:sm_90", without(r".*bar\.sync \$0, 128.*\n", 0), "race: stmatrix writes"),
    "stages of the next tile are not waited for": (
        "cuda:sm_90", without(r".*L_\$.*\n", 0), "race: a copy|more arrivals"),
    "sums are made before they are free": ("cuda:sm_100", without(r".*L_\$.*\n", 1), "race: a product writes"),
    "sums are never freed": (
        "cuda:sm_100", without(r".*mbarrier\.arrive\.release.*\n", -1), "all wait"),
    "results are read before the products of their tile": (
        "cuda:sm_100", without(r".*L_\$.*\n", -1), "race: a (load|thread|product)"),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY_FAULTS)
def test_the_walker_finds_in_blocks_of_many_tiles(name):
    target, edit, said = MANY_FAULTS[name]
    kernel = product(**MANY)
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *operands(kernel), target=target, edit=edit, units=2)


@pytest.mark.parametrize("make, said", [
    (lambda: product(persistent=True), "each makes one at most"),
    (lambda: attention_told(persistent=True), "copies what it reads turn by turn"),
])  # fmt: skip
def test_why_blocks_make_one_tile(make, said):
    with pytest.raises(errors.UnsupportedError, match=said):
        mosaic_gpu_module(make(), replace(SM_90, units=1) if "copies" in said else SM_90)


# ---------------------------------------------------------------------------- what is refused


REFUSED = {
    "no product": (lambda: kernels_in(tl.kernel_call(
        lambda a, o: o.__setitem__(..., a[...] * 2), ArrayType((64, 64), HALF)), [ArrayType((64, 64), HALF)])[0],
        "no product of matrices"),
    "two types": (lambda: product(dtype=(HALF, SINGLE)), "product of float16 and float32|product of float32"),
    "float32, summed along rows": (lambda: product(dtype=SINGLE), "float32 that is summed along rows"),
    "float8, summed along rows": (lambda: product(dtype=EIGHT, depth=128), "float8_e4m3fn that is summed along rows"),
    "exact float32": (lambda: product(dtype=SINGLE, turned=(False, True), precision="highest"),
                      "precision highest: the tensor cores round its operands to TF32"),
    "few rows": (lambda: product(m=32, rows=32), "a multiple of 64"),
    "too much memory": (lambda: product(
        k=1024, depth=1024, columns=128), "bytes of shared memory, and there are"),
    "a sort": (lambda: product(after=lambda x: tnp.sort(x, 1), columns=64), "cannot run in a Mosaic GPU kernel"),
    "another target": (lambda: product(), "it is for Hopper"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name):
    make, said = REFUSED[name]
    target = target_of("cuda:sm_80") if name == "another target" else SM_90
    with pytest.raises(errors.UnsupportedError, match=said):
        mosaic_gpu_module(make(), target)


# ---------------------------------------------------------------------------- functions of numbers


@pytest.mark.parametrize("functions", [floats, integers])
def test_functions_of_numbers(functions):
    def after(x):
        return functions(x / 8)

    kernel = product(m=64, n=64, k=64, rows=64, columns=64, after=after, out=SINGLE)
    check_hopper(kernel, *operands(kernel), rtol=2e-4)


def test_a_branch_within_a_branch():
    def body(x, o, sums):
        sums[...] = tnp.zeros(sums.shape, sums.dtype)
        sums[...] += tl.triton.dot(x[...], x[...])

        @tl.when(tl.program_id(0) > 0)
        def _():
            @tl.when(tl.program_id(0) > 1)
            def _():
                sums[...] = sums[...] * 2

        o[...] = sums[...].astype(o.dtype)

    def f(x):
        return tl.kernel_call(
            body, tw.ShapeDtypeStruct((192, 64), "float16"), grid=3, scratch_shapes=[tl.VMEM((64, 64), "float32")],
            in_specs=[tl.BlockSpec((64, 64), lambda i: (0, 0))], out_specs=tl.BlockSpec((64, 64), lambda i: (i, 0)),
            compiler_params=tl.mosaic_gpu.CompilerParams(),
        )(x)  # fmt: skip

    x = np.random.default_rng(0).integers(-2, 3, (64, 64)).astype("float16")
    np.testing.assert_array_equal(tw.emulate(f, x, target="cuda:sm_90"), np.asarray(f(x)))


def test_what_turns_do_not_change_is_copied_once():
    planned = plan(attention(t=256, is_causal=True, grad=False)[0], GPU_LIMITS)
    assert schedule(planned, SM_90, None, None).fixed == (0,)  # the queries, which a branch reads
