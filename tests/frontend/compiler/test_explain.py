"""`explain` counts what the index maps say, names what was proved, and the class of each derivative."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.programs import MATRIX, WEIGHTS, matmul
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.bench.machine import ceilings
from tilewright.compiler.kernel_report import resource_lines
from tilewright.lang.cost.roofline import roofline
from tilewright.lang.targets.target import Resources


def test_matmul_is_counted_exactly():
    (report,) = tw.explain(matmul, MATRIX, WEIGHTS).kernels
    assert report.carry_axes == (2,)
    # x moves once per column of blocks (1), y once per row of blocks (2), the output once.
    assert report.bytes_moved == 4 * (8 * 16 * 1 + 16 * 4 * 2 + 8 * 4)
    assert report.flops >= 2 * 8 * 16 * 4 and report.unknown == ()
    assert [p.kind for p in report.derivatives] == ["independent"] * 2


def test_the_gradient_has_kernels_of_its_own():
    text = str(tw.explain(tw.grad(lambda x, y: tnp.sum(matmul(x, y)), (0, 1)), MATRIX, WEIGHTS))
    for name in ("matmul_kernel", "matmul_kernel_bwd_x_ref", "matmul_kernel_bwd_y_ref"):
        assert f"kernel {name}:" in text


@pytest.mark.parametrize("spills, lines", [(1024, 0), (1028, 1)])
def test_many_spills_have_a_line(spills, lines):
    text = resource_lines(Resources("k", 0, 227 * 1024, registers=255, spills=spills), "cuda:sm_90", None)
    assert sum(f"SPILLS: each thread keeps {spills:,} bytes" in line for line in text) == lines


def test_a_roofline_for_a_machine_that_is_not_here():
    (report,) = tw.explain(matmul, MATRIX, WEIGHTS, target="tpu:v5e").kernels
    assert report.seconds is not None and report.seconds > 0
    assert report.bound == "matrix units"  # 4 x 16 x 2 numbers take as long as 128 x 128 x 2
    with pytest.raises(errors.ArgumentError):
        tw.explain(matmul, MATRIX, WEIGHTS, target="nowhere")


def test_a_product_takes_as_long_as_one_that_fills_the_matrix_unit():
    def seconds(m, k, n, target):
        def body(x, y, o):
            o[...] = tnp.dot(x[...], y[...]).sum(0, keepdims=True)

        operands = tw.ShapeDtypeStruct((m, k), "bfloat16"), tw.ShapeDtypeStruct((k, n), "bfloat16")
        call = tl.kernel_call(body, tw.ShapeDtypeStruct((1, n), "bfloat16"))
        (report,) = tw.explain(call, *operands, target=target).kernels
        return roofline(report.kernel, 0, target).matrix

    shapes = (4096, 128, 4096), (4096, 256, 4096), (4096, 384, 4096)
    short, full, long = (seconds(*shape, "tpu:v6e") for shape in shapes)
    assert short == pytest.approx(full) and long == pytest.approx(2 * full)
    assert seconds(*shapes[1], "tpu:v5e") == pytest.approx(2 * seconds(*shapes[0], "tpu:v5e"))
    # Either operand may be the one that stays in the unit: rows of the other stream through at their own number.
    assert seconds(128, 4096, 4096, "tpu:v6e") == pytest.approx(full * 128 / 256)


def test_products_with_one_right_side_fill_the_matrix_unit_together():
    def cut(runs):
        def body(x, y, o):
            size = 256 // runs
            for i in range(runs):
                o[tl.ds(i * size, size)] = tnp.dot(x[tl.ds(i * size, size)], y[...])

        operands = tw.ShapeDtypeStruct((256, 512), "float32"), tw.ShapeDtypeStruct((512, 128), "float32")
        call = tl.kernel_call(body, tw.ShapeDtypeStruct((256, 128), "float32"))
        (report,) = tw.explain(call, *operands, target="tpu:v6e").kernels
        return roofline(report.kernel, 0, "tpu:v6e").matrix

    assert cut(1) == pytest.approx(cut(2))


def test_a_carry_is_class_b_and_data_dependent_blocks_class_c():
    def running(x, o, c):
        @tl.when(tl.program_id(0) == 0)
        def _():
            c[...] = tnp.ones_like(c[...])

        c[...] = c[...] * x[...]
        o[...] = c[...]

    spec = tl.BlockSpec((2,), lambda i: (i,))
    struct = tw.ShapeDtypeStruct((6,), "float32")
    call = tl.kernel_call(
        running, struct, grid=3, in_specs=[spec], out_specs=spec, scratch_shapes=[tl.VMEM((2,), "float32")]
    )
    assert [p.kind for p in tw.explain(call, struct).kernels[0].derivatives] == ["sweep"]

    def copy(ids, x, o):
        o[...] = x[...]

    spec = tl.PrefetchScalarGridSpec(
        1, (3,), [tl.BlockSpec((1, 4), lambda i, ids: (ids[i], 0))], tl.BlockSpec((1, 4), lambda i, ids: (i, 0))
    )
    call = tl.kernel_call(copy, tw.ShapeDtypeStruct((3, 4), "float32"), grid_spec=spec)
    (report,) = tw.explain(call, tw.ShapeDtypeStruct((3,), "int32"), tw.ShapeDtypeStruct((9, 4), "float32")).kernels
    assert [p.kind for p in report.derivatives] == ["scatter"] and [f.operand for f in report.unknown] == ["x"]


def test_a_kernel_of_one_cell_has_no_axes():
    def double(x, o):
        o[...] = x[...] * 2

    struct = tw.ShapeDtypeStruct((4,), "float32")
    assert "kernel double: 1 cell\n" in str(tw.explain(tl.kernel_call(double, struct), struct))


def test_far_operands_count_what_the_body_reaches_and_declared_axes_are_told():
    def body(table, x, o, row, done):
        copy = tl.make_async_copy(x.at[table[tl.program_id(0)]], row, done)
        copy.start()
        copy.wait()
        o[...] = row[...][None]

    grid = tl.PrefetchScalarGridSpec(
        1, (4,), [tl.BlockSpec(memory_space=tl.ANY)], tl.BlockSpec((1, 128), lambda i, table: (i, 0)),
        [tl.VMEM((128,), "float32"), tl.SemaphoreType.DMA],
    )  # fmt: skip
    call = tl.kernel_call(
        body, tw.ShapeDtypeStruct((4, 128), "float32"), grid_spec=grid, dimension_semantics=("parallel",)
    )
    report = tw.explain(call, np.zeros(4, "int32"), np.zeros((4096, 128), "float32"))
    (kernel,) = report.kernels
    assert kernel.bytes_moved == 4 * 4 + 2 * 4 * 128 * 4 and kernel.block_bytes < 4096
    types = tw.ShapeDtypeStruct((4,), "int32"), tw.ShapeDtypeStruct((3, 4096, 128), "float32")
    (several,) = tw.explain(tw.vmap(call, in_axes=(None, 0)), *types).kernels
    assert several.bytes_moved == 4 * 4 + 3 * 2 * 4 * 128 * 4 and several.block_bytes == kernel.block_bytes
    assert "  declared: parallel" in str(report).splitlines()


def test_a_program_of_an_authors_kernel_alone_says_nothing_of_fusion():
    text = str(tw.explain(matmul, MATRIX, WEIGHTS, target="tpu:v5e"))
    assert " unfused" not in text and "user's kernel is kept" not in text
    text = str(tw.explain(lambda x, w: tnp.exp(matmul(x, w)), MATRIX, WEIGHTS, target="tpu:v5e"))
    assert " unfused" in text, "and where something is fused it does"


def test_measured_kernels_and_programs_are_held_against_what_this_machine_reaches():
    found = tw.explain(matmul, np.ones(MATRIX.shape, np.float32), np.ones(WEIGHTS.shape, np.float32), measure=True)
    (report,), top = found.kernels, ceilings()
    assert (found.machine.rate("float32"), found.machine.bandwidth) == top
    assert report.seconds is not None and report.seconds >= report.bytes_moved / top.bandwidth
    assert found.xla.machine is found.machine
