"""Blocks and grids as machine code, against the interpreter: padded, jagged, overlapping, and of computed sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.support.machine_code import called, machine_code, needs_llvm
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.tracing.trace import trace_program, typeof
from tilewright.cpu_backend.lowering.kernel import code_of
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.targets.target import CPU

pytestmark = needs_llvm


def kernel_of(call, *arrays):
    program = trace_program(lambda *xs: tw.tree.leaves(call(*xs)), [typeof(a) for a in arrays])
    return next(e.params["kernel"] for e in program.eqns if "kernel" in e.params)


def check(call, *arrays):
    kernel = kernel_of(call, *arrays)
    wanted = interpret(kernel, *arrays)
    for high in (False, True):
        for found, expected in zip(machine_code(kernel, *arrays, high=high), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)
    return wanted


@pytest.mark.parametrize("fill", [0.0, 7.0, None])
@pytest.mark.parametrize("shape", [(12, 20), (13, 33)])
def test_padded_blocks(shape, fill):
    def body(x_ref, o_ref):
        x = x_ref[...]
        inside = x[1:-1, 2:-1]
        o_ref[...] = inside if fill is None else inside + x[:-2, 1:-2] + 2 * x[2:, 3:]

    rows, columns = shape
    window = tl.BlockSpec((tl.Element(6, (1, 1 + -rows % 4)), tl.Element(columns + 3, (2, 1))), lambda i: (i * 4, 0),
                          fill=fill)  # fmt: skip
    call = tl.kernel_call(body, tw.ShapeDtypeStruct(shape, "float32"), grid=tl.cdiv(rows, 4), in_specs=[window],
                          out_specs=tl.BlockSpec((4, columns), lambda i: (i, 0)))  # fmt: skip
    check(call, np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32))


def test_bounded_slices():
    starts, rows = np.array([0, 8, 11, 19], np.int32), np.arange(20 * 24, dtype=np.float32).reshape(20, 24)

    def body(starts, x, o):
        i = tl.program_id(0)
        here = tnp.arange(8)[:, None] < starts[i + 1] - starts[i]
        o[...] = tnp.sum(tnp.where(here, x[...], 0), axis=0, keepdims=True)

    grid = tl.PrefetchScalarGridSpec(
        1, (3,), [tl.BlockSpec((tl.BoundedSlice(8), 24), lambda i, s: (tl.ds(s[i], s[i + 1] - s[i]), 0))],
        tl.BlockSpec((None, 1, 24), lambda i, s: (i, 0, 0)))  # fmt: skip
    (found,) = check(tl.kernel_call(body, tw.ShapeDtypeStruct((3, 1, 24), "float32"), grid_spec=grid), starts, rows)
    np.testing.assert_array_equal(found[2, 0], rows[11:19].sum(0))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_grids_of_computed_sizes(size):
    """Cells past the size do nothing, also along an axis that carries sums."""
    x = np.arange(4 * 8 * 3, dtype=np.float32).reshape(4 * 8, 3)

    def call(count, x):
        def body(x_ref, o_ref):
            @tl.when(tl.program_id(0) == 0)
            def _():
                o_ref[...] = tnp.zeros_like(o_ref)

            o_ref[...] += x_ref[...]

        blocks, all_sums = (tl.BlockSpec((8, 3), at) for at in (lambda k: (k, 0), lambda k: (0, 0)))
        return tl.kernel_call(body, tw.ShapeDtypeStruct((8, 3), "float32"), grid=(tl.dynamic(count, 4),),
                              in_specs=[blocks], out_specs=all_sums)(x)  # fmt: skip

    program = trace_program(lambda n, x: [call(n, x)], [typeof(np.int32(0)), typeof(x)])
    kernel = next(e.params["kernel"] for e in program.eqns if "kernel" in e.params)
    arrays = [np.full(kernel.prefetch[0].shape, size, kernel.prefetch[0].dtype), x]
    (found,) = machine_code(kernel, *arrays)
    if size:
        np.testing.assert_array_equal(found, interpret(kernel, *arrays)[0])


def test_an_output_read_past_its_end():
    """Sums that a ragged output block keeps from cell to cell, shifted through its out-of-bounds elements."""

    def body(x_ref, o_ref):
        @tl.when(tl.program_id(1) == 0)
        def _():
            o_ref[...] = tnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] + tnp.flip(o_ref[...], 0)

    call = tl.kernel_call(
        body, tw.ShapeDtypeStruct((10, 21), "float32"), grid=(3, 4),
        in_specs=[tl.BlockSpec((None, 4, 21), lambda i, k: (k, i, 0), fill=1)],
        out_specs=tl.BlockSpec((4, 21), lambda i, k: (i, 0)))  # fmt: skip
    check(call, np.random.default_rng(0).integers(-3, 4, (4, 10, 21)).astype(np.float32))


def updated(read_late):
    """A kernel that replaces its first operand; with `read_late` it reads that after it has stored the result."""

    def body(x_ref, y_ref, o_ref, p_ref):
        x = x_ref[...]
        o_ref[...] = x * 2 + tnp.flip(x, 1) + y_ref[...]
        p_ref[...] = (x_ref[...] if read_late else x) - y_ref[...]

    spec = tl.BlockSpec((2, 40), lambda i: (i, 0))
    return tl.kernel_call(body, (tw.ShapeDtypeStruct((7, 40), "float32"),) * 2, grid=4, in_specs=[spec, spec],
                          out_specs=(spec, spec), input_output_aliases={0: 0})  # fmt: skip


@pytest.mark.parametrize("read_late", [False, True])
def test_results_in_an_operands_place(read_late):
    arrays = [np.random.default_rng(k).integers(-9, 9, (7, 40)).astype(np.float32) for k in range(2)]
    kernel = kernel_of(updated(read_late), *arrays)
    code = code_of(kernel, CPU, threads=1)
    assert code.aliases == (() if read_late else ((0, 0),))
    for found, wanted in zip(called(code, arrays), interpret(kernel, *arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_an_operand_that_is_read_in_several_cells_is_copied():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + tl.program_id(1)

    spec = tl.BlockSpec((2, 16), lambda i, k: (i, 0))
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((8, 16), "float32"), grid=(4, 3), in_specs=[spec], out_specs=spec,
                          input_output_aliases={0: 0})  # fmt: skip
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    assert code_of(kernel_of(call, x), CPU, threads=1).aliases == ()
    check(call, x)
