"""Grids within bodies, the namespaces of Pallas's targets, buffering and cost."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    BlockRankError,
    KernelBodyError,
    UnsupportedError,
)
from tilewright.lang import tpu, triton
from tilewright.lang.cost.estimate import kernel_cost
from tilewright.lang.kernel.traverse import block_bytes, kernels_of

F32, I32 = np.float32, np.int32
rng = np.random.default_rng(0)
FAR = tl.BlockSpec(memory_space=tl.ANY)
both = pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])


def shape(*sizes, dtype=F32):
    return tw.ShapeDtypeStruct(sizes, dtype)


def rand(*sizes):
    return rng.standard_normal(sizes).astype(F32)


# ---------------------------------------------------------------------------- emit_pipeline


def add_blocks(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


@both
@pytest.mark.parametrize("rows, columns", [(8, 16), (7, 13), (1, 1), (3, 16)])
def test_elementwise(rows, columns, interpret):
    def body(x_ref, y_ref, o_ref):
        spec = tl.BlockSpec((4, 8), lambda i, j: (i, j))
        grid = (tl.cdiv(rows, 4), tl.cdiv(columns, 8))
        tpu.emit_pipeline(add_blocks, grid=grid, in_specs=[spec, spec], out_specs=[spec])(x_ref, y_ref, o_ref)

    x, y = rand(rows, columns), rand(rows, columns)
    call = tl.kernel_call(body, shape(rows, columns), in_specs=[FAR, FAR], out_specs=FAR, interpret=interpret)
    np.testing.assert_allclose(call(x, y), x + y)


def matmul(x_ref, y_ref, o_ref):
    def inner(a_ref, b_ref, c_ref):
        @tl.when(tl.program_id(2) == 0)
        def _():
            c_ref[...] = tnp.zeros_like(c_ref[...])

        c_ref[...] += a_ref[...] @ b_ref[...]

    tpu.emit_pipeline(
        inner, grid=(2, 2, 3),
        in_specs=[tl.BlockSpec((4, 4), lambda i, j, k: (i, k)), tl.BlockSpec((4, 4), lambda i, j, k: (k, j))],
        out_specs=tl.BlockSpec((4, 4), lambda i, j, k: (i, j)),
    )(x_ref, y_ref, o_ref)  # fmt: skip


@both
def test_matmul_adds_up_in_an_output_block(interpret):
    x, y = rand(8, 12), rand(12, 8)
    call = tl.kernel_call(matmul, shape(8, 8), in_specs=[FAR, FAR], out_specs=FAR, interpret=interpret)
    np.testing.assert_allclose(call(x, y), x @ y, rtol=1e-4, atol=1e-5)


def test_derivative_and_batch_of_a_pipeline():
    x, y = rand(8, 12), rand(12, 8)
    call = tl.kernel_call(matmul, shape(8, 8), in_specs=[FAR, FAR], out_specs=FAR)
    tangent = tw.jvp(call, (x, y), (x, y))[1]
    np.testing.assert_allclose(tangent, 2 * x @ y, rtol=1e-4, atol=1e-4)
    batched = tw.vmap(call, in_axes=(0, None))(np.stack([x, 2 * x]), y)
    np.testing.assert_allclose(batched[1], 2 * x @ y, rtol=1e-4, atol=1e-4)


@both
def test_a_pipeline_within_a_pipeline(interpret):
    """Strips of rows by the outer one, products of blocks added up by the inner one, with buffers of each."""
    row = tl.BlockSpec((4, 12), lambda i: (i, 0), pipeline_mode=tl.Buffered(3))

    def strip(x_strip, y_ref, o_strip):
        def inner(a_ref, b_ref, c_ref):
            @tl.when(tl.program_id(1) == 0)
            def _():
                c_ref[...] = tnp.zeros_like(c_ref[...])

            c_ref[...] += a_ref[...] @ b_ref[...]

        tpu.emit_pipeline(
            inner, grid=(2, 3), num_stages=2,
            in_specs=[tl.BlockSpec((4, 4), lambda j, k: (0, k)), tl.BlockSpec((4, 4), lambda j, k: (k, j))],
            out_specs=tl.BlockSpec((4, 4), lambda j, k: (0, j)),
        )(x_strip, y_ref, o_strip)  # fmt: skip

    def body(x_ref, y_ref, o_ref):
        tpu.emit_pipeline(
            lambda x, o: strip(x, y_ref, o), grid=(2,), in_specs=[row], out_specs=tl.BlockSpec((4, 8), lambda i: (i, 0))
        )(x_ref, o_ref)

    x, y = rand(8, 12), rand(12, 8)
    call = tl.kernel_call(body, shape(8, 8), in_specs=[FAR, FAR], out_specs=FAR, interpret=interpret)
    np.testing.assert_allclose(call(x, y), x @ y, rtol=1e-4, atol=1e-5)


def test_gradient_of_a_pipeline_and_its_batch():
    x, y, w = rand(8, 12), rand(12, 8), rand(8, 8)
    call = tl.kernel_call(matmul, shape(8, 8), in_specs=[FAR, FAR], out_specs=FAR)
    gradient = tw.grad(lambda x, y: (w * call(x, y)).sum(), (0, 1))
    for got, expected in zip(tw.jit(gradient)(x, y), (w @ y.T, x.T @ w), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    batched = tw.jit(tw.vmap(gradient, in_axes=(0, None)))(np.stack([x, 2 * x]), y)
    np.testing.assert_allclose(batched[1][1], 2 * x.T @ w, rtol=1e-4, atol=1e-4)


def test_stages_that_are_none():
    with pytest.raises(ArgumentError, match="buffer_count is 0"):
        tpu.emit_pipeline(add_blocks, grid=2, num_stages=0)


@both
def test_blocks_squeezed_and_scratch_and_traced_grid(interpret):
    def body(n_ref, x_ref, o_ref, total_ref):
        def inner(row_ref, out_ref, total_ref):
            total_ref[...] += row_ref[...]
            out_ref[...] = total_ref[...]

        total_ref[...] = tnp.zeros(4, F32)
        o_ref[...] = tnp.zeros((6, 4), F32)
        spec = tl.BlockSpec((None, 4), lambda i: (i, 0))
        tpu.emit_pipeline(inner, grid=(n_ref[0],), in_specs=[spec], out_specs=[spec])(
            x_ref, o_ref, scratches=[total_ref]
        )

    x = rand(6, 4)
    call = tl.kernel_call(
        body, shape(6, 4), in_specs=[None, FAR], out_specs=FAR, scratch_shapes=[tl.VMEM((4,), F32)],
        interpret=interpret)  # fmt: skip
    expected = np.cumsum(x, 0)
    expected[4:] = 0
    np.testing.assert_allclose(call(np.array([4], I32), x), expected, rtol=1e-5)


@both
def test_overlapping_windows(interpret):
    def body(x_ref, o_ref):
        def inner(window_ref, out_ref):
            out_ref[...] = window_ref[:4] + window_ref[1:5] + window_ref[2:]

        tpu.emit_pipeline(
            inner, grid=(3,), in_specs=[tl.BlockSpec((tl.Element(6, (1, 1)),), lambda i: (4 * i,), fill=0)],
            out_specs=[tl.BlockSpec((4,), lambda i: (i,))])(x_ref, o_ref)  # fmt: skip

    x = rand(12)
    call = tl.kernel_call(body, shape(12), in_specs=[FAR], out_specs=FAR, interpret=interpret)
    np.testing.assert_allclose(call(x), np.convolve(x, np.ones(3), "same"), rtol=1e-4, atol=1e-5)


@both
def test_pipeline_in_every_cell(interpret):
    def body(x_ref, o_ref):
        i = tl.program_id(0)

        def inner(a_ref, b_ref):
            b_ref[...] = a_ref[...] * (10 * i + tl.program_id(0))

        part = tl.BlockSpec((1, 4), lambda j: (i, j))
        tpu.emit_pipeline(inner, grid=(2,), in_specs=[part], out_specs=[part])(x_ref, o_ref)

    x = np.ones((3, 8), F32)
    call = tl.kernel_call(body, shape(3, 8), grid=3, in_specs=[FAR], out_specs=FAR, interpret=interpret)
    np.testing.assert_array_equal(call(x), np.repeat(10 * np.arange(3)[:, None] + np.arange(2), 4, axis=1))


def test_an_output_block_that_comes_into_reach_is_undefined():
    def body(x_ref, o_ref):
        def inner(a_ref, b_ref):
            b_ref[...] += a_ref[...]

        part = tl.BlockSpec((4,), lambda j: (j,))
        tpu.emit_pipeline(inner, grid=(2,), in_specs=[part], out_specs=[part])(x_ref, o_ref)

    assert np.isnan(tl.kernel_call(body, shape(8), in_specs=[FAR], out_specs=FAR, interpret=True)(rand(8))).all()


@pytest.mark.parametrize("specs, error, words", [
    ([tl.BlockSpec((4, 1), lambda i: (i, 0))], BlockRankError, r"f32\[8\] has rank 1, its block shape \(4, 1\)"),
    ([tl.BlockSpec((4,), lambda i: (i, 0))], BlockRankError, "gives 2 indices"),
    ([], ArgumentError, "2 Refs for 0 in_specs"),
    (["x"], ArgumentError, "in_specs hold 'x'"),
])  # fmt: skip
def test_wrong_pipelines(specs, error, words):
    def body(x_ref, o_ref):
        out = tl.BlockSpec((4,), lambda i: (i,))
        tpu.emit_pipeline(add_blocks, grid=(2,), in_specs=specs, out_specs=[out])(x_ref, o_ref)

    with pytest.raises(error, match=words):
        tl.kernel_call(body, shape(8), in_specs=[FAR], out_specs=FAR)(rand(8))


def test_pipeline_outside_a_kernel():
    with pytest.raises(KernelBodyError, match="emit_pipeline was called outside a kernel"):
        tpu.emit_pipeline(add_blocks, grid=(1,))()


@both
def test_loop(interpret):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]

        @tl.loop(1, 6, step=2)
        def _(i):
            o_ref[i] = -x_ref[i]

        @tl.loop(0, 3, init_carry=np.float32(0))
        def total(i, carry):
            return carry + x_ref[i]

        o_ref[0] = total

    x = rand(8)
    expected = x * np.where(np.isin(np.arange(8), (1, 3, 5)), -1, 1)
    expected[0] = x[:3].sum()
    np.testing.assert_allclose(tl.kernel_call(body, shape(8), interpret=interpret)(x), expected, rtol=1e-5)


# ---------------------------------------------------------------------------- namespaces


@both
def test_triton_names(interpret):
    """Vector addition as written for GPUs: pointers to the whole array, masks at its end."""

    def body(x_ref, y_ref, o_ref):
        at = tl.program_id(0) * 8 + tnp.arange(8)
        mask = at < 13
        x = triton.load(x_ref.at[at], mask=mask, other=0.0)
        y = triton.load(y_ref.at[at], mask=mask, other=0.0, eviction_policy="evict_last")
        triton.store(o_ref.at[at], triton.approx_tanh(x) + y, mask=mask)

    x, y = rand(13), rand(13)
    call = tl.kernel_call(body, shape(13), grid=2, interpret=interpret,
                          compiler_params=triton.CompilerParams(num_warps=4, num_stages=2))  # fmt: skip
    np.testing.assert_allclose(call(x, y), np.tanh(x) + y, rtol=1e-5, atol=1e-6)


@both
def test_tpu_names(interpret):
    def body(x_ref, o_ref):
        x = x_ref[...]
        rolled = tpu.roll(x, 1, 0) + tpu.roll(x, tl.program_id(0) - 2, 1)
        bits = tpu.bitcast(tpu.bitcast(rolled, I32), F32)
        o_ref[...] = bits * tpu.reciprocal(2 * tnp.ones_like(x), approx=True)

    x = rand(4, 6)
    expected = (np.roll(x, 1, 0) + np.roll(x, -2, 1)) / 2
    call = tl.kernel_call(body, shape(4, 6), grid=(1,), interpret=interpret)
    np.testing.assert_allclose(call(x), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype, out", [("bfloat16", "float32"), ("int8", "int32"), ("float32", "float32")])
def test_triton_dot(dtype, out):
    def body(x_ref, y_ref, o_ref):
        o_ref[...] = triton.dot(x_ref[...], y_ref[...])

    x, y = (tnp.asarray(rng.integers(-5, 5, (4, 4)), dtype) for _ in range(2))
    got = tl.kernel_call(body, shape(4, 4, dtype=out))(x, y)
    np.testing.assert_array_equal(got, np.asarray(x, F32) @ np.asarray(y, F32))


def kernel_of(call, *args):
    return next(kernels_of(tw.make_jaxpr(call)(*args)))


def test_settings_reach_the_kernel():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = tl.BlockSpec((2,), lambda i: (i,), pipeline_mode=tl.Buffered(3))
    params = tpu.CompilerParams(dimension_semantics=(tpu.PARALLEL,), vmem_limit_bytes=2**20, flags={"a": 1})
    cost = tl.CostEstimate(flops=5, transcendentals=0, bytes_accessed=64)
    call = tl.pallas_call(body, shape(8), grid=4, in_specs=[spec], out_specs=tl.BlockSpec((2,), lambda i: (i,)),
                          compiler_params=params, cost_estimate=cost, debug=False, metadata={"a": "b"})  # fmt: skip
    x = rand(8)
    np.testing.assert_array_equal(call(x), x)
    kernel = kernel_of(call, x)
    assert kernel.semantics == ("parallel",)
    assert dict(kernel.settings) == {"compiler_params": params, "cost_estimate": cost}
    assert kernel.inputs[0].buffers == 3 and kernel.outputs[0].buffers is None
    assert block_bytes(kernel) == 3 * 8 + 2 * 8
    assert kernel_cost(kernel) is cost


def test_counted_cost():
    x, y = rand(8, 12), rand(12, 4)
    cost = tl.estimate_cost(lambda x, y: tnp.exp(x @ y), x, y)
    assert cost == tl.CostEstimate(2 * 8 * 12 * 4, 8 * 4, 4 * (8 * 12 + 12 * 4 + 8 * 4))

    def body(x_ref, o_ref):
        o_ref[...] = tnp.exp(x_ref[...]) + 1

    spec = tl.BlockSpec((2,), lambda i: (i,))
    kernel = kernel_of(tl.kernel_call(body, shape(8), grid=4, in_specs=[spec], out_specs=spec), rand(8))
    assert kernel_cost(kernel) == tl.CostEstimate(8, 8, 64)


def test_wrong_settings():
    for params in ({"mosaic": {}}, "fast", tl.tpu.CompilerParams):
        with pytest.raises(ArgumentTypeError, match="compiler_params"):
            tl.kernel_call(add_blocks, shape(8), compiler_params=params)
    with pytest.raises(ArgumentError, match="buffer_count is 0"):
        tl.Buffered(0)
    with pytest.raises(ArgumentTypeError, match="pipeline_mode is 3"):
        tl.BlockSpec((4,), lambda i: i, pipeline_mode=3)


@both
def test_slices_of_a_pipeline(interpret):
    """Blocks of traced places and sizes: what lies past the size of one is neither read nor stored."""
    starts, most = np.array([0, 3, 4, 10], I32), 6
    spec = [tl.BoundedSlice(most), 4]

    def body(at, x_ref, _, o_ref):
        def index(i):
            return tl.ds(at[i], at[i + 1] - at[i]), 0

        def double(x, o):
            o[...] = x[...] * 2

        blocks = tl.BlockSpec(spec, index)
        tpu.emit_pipeline(double, grid=3, in_specs=[blocks], out_specs=[blocks])(x_ref, o_ref)

    x, before = rand(12, 4), rand(12, 4)
    table = tl.BlockSpec(memory_space=tl.SMEM)
    call = tl.kernel_call(body, shape(12, 4), in_specs=[table, FAR, FAR], out_specs=FAR, interpret=interpret,
                          input_output_aliases={2: 0})  # fmt: skip
    np.testing.assert_allclose(call(starts, x, before), np.concatenate([x[:10] * 2, before[10:]]))


@both
def test_a_block_that_a_slice_does_not_fill_may_be_read(interpret):
    def body(x_ref, o_ref):
        def copy(x, o):
            o[...] = x[...]

        ins = tl.BlockSpec((tl.BoundedSlice(4), 4), lambda i: (tl.ds(3 * i, 3), 0))
        outs = tl.BlockSpec((4, 4), lambda i: (i, 0))
        tpu.emit_pipeline(copy, grid=2, in_specs=[ins], out_specs=[outs])(x_ref, o_ref)

    x = rand(6, 4)
    got = tl.kernel_call(body, shape(8, 4), in_specs=[FAR], out_specs=FAR, interpret=interpret)(x)
    np.testing.assert_array_equal(np.asarray(got).reshape(2, 4, 4)[:, :3], x.reshape(2, 3, 4))


@both
def test_pytrees_of_refs(interpret):
    def body(x_ref, y_ref, a_ref, b_ref):
        def inner(ins, extra, outs):
            assert extra == ()
            outs["a"][...] = ins[0][...] + ins[1][...]
            outs["b"][...] = ins[1][...]

        spec = tl.BlockSpec((4, 4), lambda i: (i, 0))
        run = tpu.emit_pipeline(inner, grid=2, in_specs=[(spec, spec), ()], out_specs=[{"a": spec, "b": spec}])
        run((x_ref, y_ref), (), {"a": a_ref, "b": b_ref})

    x, y = rand(8, 4), rand(8, 4)
    call = tl.kernel_call(body, [shape(8, 4)] * 2, in_specs=[FAR] * 2, out_specs=[FAR] * 2, interpret=interpret)
    a, b = call(x, y)
    np.testing.assert_array_equal(a, x + y)
    np.testing.assert_array_equal(b, y)


def test_slices_of_a_pipeline_that_do_not_fit():
    def run(spec, index):
        blocks = tl.BlockSpec(spec, index)

        def body(*refs):
            tpu.emit_pipeline(lambda x, o: o.__setitem__(..., x[...]), grid=2, in_specs=[blocks], out_specs=[blocks])(
                *refs)  # fmt: skip

        tl.kernel_call(body, shape(4, 4), in_specs=[FAR], out_specs=FAR)(rand(4, 4))

    with pytest.raises(BlockRankError, match="for an axis of BoundedSlice"):
        run((tl.BoundedSlice(2), 4), lambda i: (2 * i, 0))
    with pytest.raises(BlockRankError, match="for an axis of 2"):
        run((2, 4), lambda i: (tl.ds(2 * i, 2), 0))
    with pytest.raises(ArgumentError, match="at most 2 elements"):
        run((tl.BoundedSlice(2), 4), lambda i: (tl.ds(i, 3), 0))
    with pytest.raises(UnsupportedError, match="along axis 1 reach past the end"):
        run((tl.BoundedSlice(2), 3), lambda i: (tl.ds(i, 2), 0))


@pytest.mark.parametrize("compiler", [tl.cpu, tl.cutlass, tl.mosaic_gpu, tl.tpu, tl.triton])
def test_a_kernel_takes_the_parameters_of_every_compiler(compiler):
    def double(x, o):
        o[...] = x[...] * 2

    x = tnp.arange(4.0)
    params = compiler.CompilerParams(backward=compiler.CompilerParams())
    assert tw.vjp(tl.kernel_call(double, x, compiler_params=params), x)[1](x)[0].tolist() == [0, 2, 4, 6]
