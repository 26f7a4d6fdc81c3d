"""Sums in two kernels: partial sums side by side, and their total; when a GPU is better with two."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.corpus.runs import close
from tests.support.random_kernels import Draw, judged
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.tracing.trace import as_type, eval_program
from tilewright.lang.cost.occupancy import divided, in_two
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.targets.target import target_of
from tilewright.lang.transforms.split_sums import addends, partial_kernel, total_kernel

H100 = target_of("cuda:sm_90")


def only_kernel(function, *arrays):
    (kernel,) = kernels_in(function, list(map(as_type, arrays)))
    return kernel


def in_stretches(kernel, stretches, arrays, blocks=4):
    """The results of a kernel in two, interpreted, and the two kernels."""
    found = addends(kernel)
    partial = partial_kernel(found, stretches)
    total = total_kernel(found, int(np.prod([n for _, n in stretches])), blocks)
    program = in_two(found, partial.replace(interpret=True), _interpreted(total))
    return [np.asarray(x) for x in eval_program(program, *arrays)], partial, total.kernel


def _interpreted(total):
    return type(total)(total.kernel.replace(interpret=True), total.inputs)


def scaled_sums(x, scale, *, rows=4, **options):
    """Sums of rows in scratch, and what is made of them and of an operand in the last cell."""
    n, d = x.shape

    def body(x, scale, o, total):
        @tl.when(tl.program_id(0) == 0)
        def _():
            total[...] = tnp.zeros(total.shape, total.dtype)

        total[...] += (x[...] * x[...]).sum(0)

        @tl.when(tl.program_id(0) == tl.num_programs(0) - 1)
        def _():
            o[...] = tnp.sqrt(total[...]) * scale[...]

    return tl.kernel_call(
        body, tw.ShapeDtypeStruct((d,), x.dtype), grid=tl.cdiv(n, rows),
        in_specs=[tl.BlockSpec((rows, d), lambda i: (i, 0), fill=0), tl.BlockSpec((d,), lambda i: (0,))],
        out_specs=tl.BlockSpec((d,), lambda i: (0,)), scratch_shapes=[tl.VMEM((d,), "float32")], **options,
    )(x, scale)  # fmt: skip


@pytest.mark.parametrize("rows", [48, 50])
@pytest.mark.parametrize("parts", [2, 3, 5, 12])
def test_a_sum_with_an_epilogue_in_stretches_of_any_length(rows, parts):
    rng = np.random.default_rng(0)
    x, scale = rng.standard_normal((rows, 64), "float32"), rng.standard_normal(64, "float32")
    kernel = only_kernel(scaled_sums, x, scale)
    (got,), partial, _ = in_stretches(kernel, ((0, parts),), (x, scale))
    np.testing.assert_allclose(got, np.sqrt((x * x).sum(0)) * scale, rtol=1e-5)
    assert partial.grid == (parts, -(-kernel.grid[0] // parts)) and partial.out_types[0].shape == (parts, 64)


def test_the_total_is_cut_into_blocks_of_columns():
    x, scale = np.ones((64, 256), "float32"), np.ones(256, "float32")
    (got,), _, total = in_stretches(only_kernel(scaled_sums, x, scale), ((0, 8),), (x, scale), blocks=8)
    np.testing.assert_allclose(got, np.full(256, 8.0))
    assert total.grid[0] == 8 and {b.shape[-1] for b in total.blocks} == {32}


def test_several_carried_axes_with_a_parallel_one():
    x = np.random.default_rng(1).standard_normal((4, 8, 6, 32), "float32")

    def sums(x):
        def body(x, o):
            @tl.when((tl.program_id(1) == 0) & (tl.program_id(2) == 0))
            def _():
                o[...] = tnp.zeros(o.shape, o.dtype)

            o[...] += x[...].sum((0, 2))

        return tl.kernel_call(
            body, tw.ShapeDtypeStruct((8, 32), x.dtype), grid=(4, 4, 3),
            in_specs=[tl.BlockSpec((1, 2, 2, 32), lambda j, i, k: (i, j, k, 0))],
            out_specs=tl.BlockSpec((2, 32), lambda j, i, k: (j, 0)),
        )(x)  # fmt: skip

    kernel = only_kernel(sums, x)
    for stretches in (((1, 2),), ((2, 3),), ((1, 4), (2, 2))):
        (got,), partial, _ = in_stretches(kernel, stretches, (x,))
        np.testing.assert_allclose(got, x.sum((0, 2)), rtol=1e-5, atol=1e-5)
        assert partial.semantics == ("parallel",) * len(stretches) + ("parallel", "arbitrary", "arbitrary")


def test_what_each_cell_emits_beside_its_sums_is_emitted_once():
    x = np.random.default_rng(2).standard_normal((16, 32), "float32")

    def both(x):
        def body(x, o, doubled):
            @tl.when(tl.program_id(0) == 0)
            def _():
                o[...] = tnp.zeros(o.shape, o.dtype)

            doubled[...] = x[...] * 2
            o[...] += x[...].sum(0)

        rows = tl.BlockSpec((2, 32), lambda i: (i, 0))
        return tl.kernel_call(
            body, [tw.ShapeDtypeStruct((32,), x.dtype), tw.ShapeDtypeStruct(x.shape, x.dtype)], grid=8, in_specs=[rows],
            out_specs=[tl.BlockSpec((32,), lambda i: (0,)), rows],
        )(x)  # fmt: skip

    (total, doubled), _, _ = in_stretches(only_kernel(both, x), ((0, 4),), (x,))
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(doubled, x * 2)


def test_sums_of_narrow_floats_are_kept_in_float32():
    x = np.ones((4096, 32), "float32")

    def narrow(x):
        def body(x, o):
            @tl.when(tl.program_id(0) == 0)
            def _():
                o[...] = tnp.zeros(o.shape, o.dtype)

            o[...] += x[...].sum(0).astype("bfloat16")

        return tl.kernel_call(
            body, tw.ShapeDtypeStruct((32,), "bfloat16"), grid=4096, in_specs=[tl.BlockSpec((1, 32), lambda i: (i, 0))],
            out_specs=tl.BlockSpec((32,), lambda i: (0,)),
        )(x)  # fmt: skip

    (got,), partial, _ = in_stretches(only_kernel(narrow, x), ((0, 4),), (x,))
    assert str(partial.out_types[0].dtype) == "float32"
    np.testing.assert_array_equal(got.astype("float32"), np.full(32, 4096.0))  # in bfloat16 it stays at 256


@pytest.mark.parametrize(("name", "start"), [("maximum", -np.inf), ("minimum", np.inf), ("multiply", 1.0)])
def test_other_monoids(name, start):
    x = np.random.default_rng(3).uniform(0.5, 1.5, (24, 32)).astype("float32")

    def combined(x):
        def body(x, o):
            @tl.when(tl.program_id(0) == 0)
            def _():
                o[...] = tnp.full(o.shape, start, o.dtype)

            o[...] = getattr(tnp, name)(o[...], x[0])

        return tl.kernel_call(
            body, tw.ShapeDtypeStruct((32,), x.dtype), grid=24, in_specs=[tl.BlockSpec((1, 32), lambda i: (i, 0))],
            out_specs=tl.BlockSpec((32,), lambda i: (0,)),
        )(x)  # fmt: skip

    for parts in (3, 5):
        (got,), _, _ = in_stretches(only_kernel(combined, x), ((0, parts),), (x,))
        np.testing.assert_allclose(got, getattr(np, name).reduce(x, 0), rtol=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_drawn_kernels_of_sums_give_what_they_give_in_one(seed, parts):
    with tw.config(debug_checks=False):
        drawn = Draw(seed).kernel()
        raised, findings = judged(drawn)
        found = addends(drawn.kernel)
        if raised is not None or found is None or any(f.verdict != "proved" for f in findings):
            return
        axis = max(found.carry, key=lambda a: drawn.kernel.grid[a])
        size = drawn.kernel.grid[axis]
        parts = -(-size // -(-size // min(parts, size)))
        if size % parts and found.emitted:
            return
        got, _, _ = in_stretches(drawn.kernel, ((axis, parts),), drawn.arrays)
        close(got, interpret(drawn.kernel, *drawn.arrays, params=InterpretParams()), 2e-5)


def test_what_must_run_in_order_is_not_split():
    x = np.ones((8, 32), "float32")

    def prefix(x):
        def body(x, o, total):
            @tl.when(tl.program_id(0) == 0)
            def _():
                total[...] = tnp.zeros(total.shape, total.dtype)

            total[...] += x[0]
            o[0] = total[...]

        rows = tl.BlockSpec((1, 32), lambda i: (i, 0))
        scratch = [tl.VMEM((32,), "float32")]
        return tl.kernel_call(body, x, grid=8, in_specs=[rows], out_specs=rows, scratch_shapes=scratch)(x)

    def offset(x):
        def body(x, o):
            @tl.when(tl.program_id(0) == 0)
            def _():
                o[...] = tnp.ones(o.shape, o.dtype)

            o[...] += x[0]

        return tl.kernel_call(body, tw.ShapeDtypeStruct((32,), x.dtype), grid=8,
                              in_specs=[tl.BlockSpec((1, 32), lambda i: (i, 0))],
                              out_specs=tl.BlockSpec((32,), lambda i: (0,)))(x)  # fmt: skip

    assert addends(only_kernel(prefix, x)) is None
    assert addends(only_kernel(offset, x)) is None  # each stretch would add the start again


# ---------------------------------------------------------------------------- when


def rows_of(n, d=4096):
    return [tw.ShapeDtypeStruct((n, d), "float32"), tw.ShapeDtypeStruct((d,), "float32")]


def test_a_gpu_splits_large_sums_of_few_blocks_alone():
    large, small = (only_kernel(scaled_sums, *rows_of(n)) for n in (16384, 8))
    found = divided(large, H100)
    partial, total = found.kernels
    assert partial.grid[0] >= H100.units and total.grid[0] * 32 == 4096
    assert divided(small, H100) is None and divided(large, target_of("tpu:v5e")) is None
    assert divided(partial, H100) is None


def test_the_pass_and_its_report():
    args = rows_of(16384)
    before, after = (tw.compile(scaled_sums, *args, target="cuda:sm_90", stop=s) for s in ("verify", "split"))
    assert [str(p).count("kernel_call[") for p in (before, after)] == [1, 2]
    assert str(tw.compile(scaled_sums, *args, target="tpu:v5e", stop="split")).count("kernel_call[") == 1
    found = tw.explain(scaled_sums, *args, target="cuda:sm_90")
    assert "adds up in stretches" in str(found) and found.kernels[0].kernel.name == "body"


def test_values_of_the_emitted_programs():
    pytest.importorskip("triton", reason="kernels are compiled by it")
    x = np.random.default_rng(4).standard_normal((3000, 1024), "float32")

    def both(x):
        return x.sum(0), x.max()

    total, most = tw.emulate(both, x, target="cuda:sm_90")
    assert str(tw.compile(both, x, target="cuda:sm_90", stop="split")).count("kernel_call[") == 4
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-4, atol=1e-3)
    assert most == x.max()
