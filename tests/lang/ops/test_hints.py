"""What is said to some targets: memory orders, stages of loops, assembly, bounded slices, cores."""

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.support.compilers import needs
from tests.support.gpu.walker import check_all, check_mosaic, check_triton, kernels_of
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.emulator.calls import run_triton
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend.lower import triton_module

X = np.random.default_rng(0).standard_normal((8, 128)).astype("f")
WALKS = [(check_triton, "cuda:sm_90"), (check_triton, "rocm:gfx942"), (check_mosaic, "tpu:v5e")]


def same(call, *args):
    """The result, compiled and interpreted, and walked for each target."""
    found = np.asarray(call(False)(*args))
    np.testing.assert_allclose(np.asarray(call(True)(*args)), found, rtol=1e-6)
    for check, target in WALKS:
        assert check_all(check, call(False), *args, target=target) == 1
    return found


def ttir(call, *args, target="cuda:sm_90"):
    ((kernel, _),) = kernels_of(call, *args)
    return triton_module(kernel, target_of(target)).text


# ---------------------------------------------------------------------------- atomics


def counting(interpret=False, **sync):
    def body(x, start, o):
        tl.atomic_add(o, (0,), tnp.sum(x[...]), **sync)

    return tl.kernel_call(body, tw.ShapeDtypeStruct((1,), "float32"), grid=4, input_output_aliases={1: 0},
                          in_specs=[tl.BlockSpec((2, 128), lambda i: (i, 0)), tl.BlockSpec((1,), lambda i: (0,))],
                          out_specs=tl.BlockSpec((1,), lambda i: (0,)), interpret=interpret)  # fmt: skip


def test_orders_and_scopes_of_atomics():
    zero = np.zeros(1, "f")
    assert same(lambda i: counting(i, sem="release", scope="sys"), X, zero)[0] == pytest.approx(X.sum(), rel=1e-4)
    assert "fadd, release, sys" in ttir(counting(sem="release", scope="sys"), X, zero)
    assert "fadd, acq_rel, cta" in ttir(counting(scope="cta"), X, zero)
    assert "fadd, relaxed, gpu" in ttir(counting(), X, zero)
    with pytest.raises(errors.ArgumentError, match="sem is 'seq_cst'"):
        counting(sem="seq_cst")(X, zero)
    with pytest.raises(errors.ArgumentError, match="scope is 'warp'"):
        counting(scope="warp")(X, zero)


@pytest.mark.parametrize("space", [None, tl.ANY])
def test_what_is_atomic_within_a_program_is_not_so_between_parallel_cells(space):
    """A cell of a parallel axis is a program of its own on GPUs."""
    zero = np.zeros(1, "f")
    shared = tl.BlockSpec((1,), lambda i: (0,)) if space is None else tl.BlockSpec(memory_space=space)

    def counted(scope, interpret=False, semantics=("parallel",)):
        def body(x, start, o):
            tl.atomic_add(o, (0,), tnp.sum(x[...]), scope=scope)

        return tl.kernel_call(body, tw.ShapeDtypeStruct((1,), "float32"), grid=4, input_output_aliases={1: 0},
                              in_specs=[tl.BlockSpec((2, 128), lambda i: (i, 0)), shared], out_specs=shared,
                              dimension_semantics=semantics, interpret=interpret)  # fmt: skip

    watched = tl.InterpretParams(detect_races=True)
    same(lambda i: counted("gpu", i and watched), X, zero)
    assert same(lambda i: counted("cta", i, None), X, zero)[0] == pytest.approx(X.sum(), rel=1e-4)
    with pytest.raises(errors.RaceError, match="atomic operation.*gpu"):
        counted("cta", watched)(X, zero)
    ((kernel, operands),) = kernels_of(counted("gpu"), X, zero)
    module = triton_module(kernel, target_of("cuda:sm_90"))
    narrowed = replace(module, text=module.text.replace("acq_rel, gpu", "acq_rel, cta"))
    with pytest.raises(errors.RaceError, match="an atomic update within a program of element 0 .* by another program"):
        run_triton(narrowed, operands)


def test_the_order_of_an_exchange():
    def body(x, start, o):
        tl.atomic_cas(o.at[0], np.int32(0), np.int32(7), sem="acquire", scope="cta")

    call = tl.kernel_call(body, tw.ShapeDtypeStruct((1,), "int32"), input_output_aliases={1: 0})
    assert np.asarray(call(X, np.zeros(1, "i")))[0] == 7
    assert "tt.atomic_cas acquire, cta" in ttir(call, X, np.zeros(1, "i"))


# ---------------------------------------------------------------------------- loops


def looped(interpret=False, stages=3):
    def body(x, o):
        @tl.loop(0, 8, init_carry=tnp.zeros((1, 128)), num_stages=stages)
        def total(i, carry):
            return carry + x[tl.ds(i, 1), :] * tnp.sin(x[tl.ds(i, 1), :])

        o[...] = total

    return tl.kernel_call(body, tw.ShapeDtypeStruct((1, 128), "float32"), interpret=interpret)


def test_stages_of_one_loop():
    found = same(looped, X)
    np.testing.assert_allclose(found[0], (X * np.sin(X)).sum(0), rtol=1e-5, atol=1e-5)
    assert "{tt.num_stages = 3 : i32}" in ttir(looped(), X)
    assert "num_stages" not in ttir(looped(stages=None), X)
    gradient = tw.grad(lambda x: tnp.sum(looped()(x)))(X)
    np.testing.assert_allclose(gradient, np.sin(X) + X * np.cos(X), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tw.vmap(looped())(np.stack([X, -X])), np.stack([found, looped()(-X)]), rtol=1e-6)
    with pytest.raises(errors.ArgumentError, match="buffer_count is 0"):
        looped(stages=0)(X)


# ---------------------------------------------------------------------------- assembly


def assembled(interpret=False, meaning=tnp.exp2, **options):
    asm = {"constraints": "=f,f", "result_dtypes": "float32", "meaning": meaning} | options

    def body(x, o):
        o[...] = tl.triton.inline_asm("ex2.approx.f32 $0, $1;", x[...], **asm)

    return tl.kernel_call(body, tw.ShapeDtypeStruct((8, 128), "float32"), interpret=interpret)


def test_assembly_means_what_its_author_says():
    np.testing.assert_allclose(assembled()(X), np.exp2(X), rtol=1e-6)
    np.testing.assert_allclose(assembled(True)(X), np.exp2(X), rtol=1e-6)
    assert check_all(check_mosaic, assembled(), X) == 1
    assert check_all(check_triton, assembled(), X, target="rocm:gfx942") == 1
    gradient = tw.grad(lambda x: tnp.sum(assembled()(x)))(X)
    np.testing.assert_allclose(gradient, np.exp2(X) * np.log(2), rtol=1e-5)
    np.testing.assert_allclose(tw.vmap(assembled())(X[None]), np.exp2(X)[None], rtol=1e-6)
    text = ttir(assembled(pack=2), X)
    assert 'tt.elementwise_inline_asm "ex2.approx.f32 $0, $1;" {constraints = "=f,f", packed_element = 2' in text
    assert "inline_asm" in ttir(assembled(dialect="amdgcn"), X, target="rocm:gfx942")
    needs("cuda")
    assert tw.compile(assembled(), X, target="cuda:sm_90").resources


def test_several_results_of_assembly():
    def body(x, y, o, p):
        o[...], p[...] = tl.triton.inline_asm(
            "min.s32 $0, $2, $3; max.s32 $1, $2, $3;", x[...], y[...], constraints="=&r,=r,r,r",
            result_dtypes=("int32", "int32"), meaning=lambda x, y: (tnp.minimum(x, y), tnp.maximum(x, y)),
        )  # fmt: skip

    shape = tw.ShapeDtypeStruct((128,), "int32")
    x, y = np.random.default_rng(1).integers(-9, 9, (2, 128), dtype=np.int32)
    call = tl.kernel_call(body, (shape, shape))
    least, most = call(x, y)
    np.testing.assert_array_equal(least, np.minimum(x, y))
    np.testing.assert_array_equal(most, np.maximum(x, y))
    needs("cuda")
    assert tw.compile(call, x, y, target="cuda:sm_90").resources


def test_assembly_without_a_meaning_runs_on_its_gpus_alone():
    call = assembled(meaning=None)
    for run in (call, assembled(True, meaning=None), lambda x: tw.compile(call, x, target="tpu:v5e"),
                lambda x: tw.compile(call, x, target="rocm:gfx942")):  # fmt: skip
        with pytest.raises(errors.UnsupportedError, match="runs only on the GPUs whose instructions it names"):
            run(X)
    with pytest.raises(errors.NoDerivativeError, match="inline_asm"):
        tw.make_jaxpr(tw.grad(lambda x: tnp.sum(call(x))))(X)
    with pytest.raises(errors.ArgumentTypeError, match="its meaning gives"):
        assembled(meaning=lambda x: x > 0)(X)
    with pytest.raises(errors.ArgumentError, match="dialect 'sass'"):
        assembled(dialect="sass")(X)
    needs("cuda")
    assert tw.compile(call, X, target="cuda:sm_90").resources


# ---------------------------------------------------------------------------- bounded slices

STARTS = np.array([0, 8, 11, 19], "i")
ROWS = np.arange(20 * 128, dtype="f").reshape(20, 128)


def jagged(interpret=False, index_map=lambda i, s: (tl.ds(s[i], s[i + 1] - s[i]), 0), out=None):
    def body(starts, x, o):
        i = tl.program_id(0)
        here = tnp.arange(8)[:, None] < starts[i + 1] - starts[i]
        o[...] = tnp.sum(tnp.where(here, x[...], 0), axis=0, keepdims=True)

    grid = tl.PrefetchScalarGridSpec(
        1, (3,), [tl.BlockSpec((tl.BoundedSlice(8), 128), index_map)],
        tl.BlockSpec((None, 1, 128) if out is None else out, lambda i, s: (i, 0, 0)),
    )  # fmt: skip
    return tl.kernel_call(body, tw.ShapeDtypeStruct((3, 1, 128), "float32"), grid_spec=grid, interpret=interpret)


def test_bounded_slices_of_jagged_rows():
    expected = np.stack([ROWS[a:b].sum(0, keepdims=True) for a, b in zip(STARTS, STARTS[1:])])
    np.testing.assert_array_equal(same(jagged, STARTS, ROWS), expected)
    gradient = tw.grad(lambda x: tnp.sum(tnp.square(jagged()(STARTS, x))))(ROWS)
    np.testing.assert_allclose(gradient[:19], 2 * np.repeat(expected[:, 0], np.diff(STARTS), 0), rtol=1e-6)
    np.testing.assert_array_equal(gradient[19], 0)
    batched = tw.vmap(jagged(), in_axes=(None, 0))(STARTS, np.stack([ROWS, -ROWS]))
    np.testing.assert_array_equal(batched, np.stack([expected, -expected]))


def test_what_bounded_slices_refuse():
    with pytest.raises(errors.ArgumentError, match="at most 8 elements"):
        jagged(index_map=lambda i, s: (tl.ds(s[i], 9), 0))(STARTS, ROWS)
    with pytest.raises(errors.BlockRankError, match=r"give `ds\(start, size\)` for axes of BoundedSlice"):
        jagged(index_map=lambda i, s: (s[i], 0))(STARTS, ROWS)
    with pytest.raises(errors.BlockRankError, match=r"(?s)output o .*give `ds\(start, size\)` for axes"):
        jagged(out=(None, tl.BoundedSlice(1), 128))(STARTS, ROWS)
    with pytest.raises(errors.ArgumentTypeError, match="has a traced size"):
        tl.kernel_call(lambda n, x, o: o.__setitem__(..., x[tl.ds(0, n[0]), :]),
                       tw.ShapeDtypeStruct((8, 128), "float32"))(np.array([8]), X)  # fmt: skip


# ---------------------------------------------------------------------------- cores


def test_a_body_for_each_core():
    def halves(cores, interpret=False):
        @tl.core_map(tl.CoreMesh(cores), out_shape=tw.ShapeDtypeStruct((2, 8, 128), "float32"), interpret=interpret,
                     scratch_shapes=[tl.VMEM((8, 128), "float32"), tl.SemaphoreType.DMA])  # fmt: skip
        def double(x, o, held, done):
            for k in range(2 // cores):
                place = tl.program_id(0) * (2 // cores) + k
                copy = tl.make_async_copy(x.at[place], held, done)
                copy.start()
                copy.wait()
                held[...] *= 2
                back = tl.make_async_copy(held, o.at[place], done)
                back.start()
                back.wait()

        return double

    x = np.stack([X, X + 1])
    for cores in (1, 2):
        np.testing.assert_array_equal(halves(cores)(x), 2 * x)
        np.testing.assert_array_equal(halves(cores, interpret=True)(x), 2 * x)
    assert check_all(check_mosaic, halves(1), x) == 1
    assert check_all(check_triton, halves(2), x) == 1
    with pytest.raises(errors.UnsupportedError, match="one TensorCore"):
        tw.compile(halves(2), x, target="tpu:v5e")
