"""Kernels that a user wrote take elementwise neighbours in, and keep their own body."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.fusing import check_fused, close, names, ones, traced
from tests.support.programs import matmul_kernel
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.tracing.trace import eval_program
from tilewright.kernels.fuse import plan
from tilewright.lang.kernel.traverse import kernels_of

X, W, BIAS = ones(8, 16), ones(16, 6), ones(6)


def matmul(x, y):
    """A product whose blocks are added up in the output; ragged columns."""
    return tl.kernel_call(
        matmul_kernel, tw.ShapeDtypeStruct((8, 6), "float32"), grid=(2, 2, 2),
        in_specs=[tl.BlockSpec((4, 8), lambda i, j, k: (i, k)), tl.BlockSpec((8, 4), lambda i, j, k: (k, j))],
        out_specs=tl.BlockSpec((4, 4), lambda i, j, k: (i, j)),
    )(x, y)  # fmt: skip


def rows(body, x, **options):
    spec = tl.BlockSpec((None, 16), lambda i: (i, 0))
    struct = tw.ShapeDtypeStruct((8, 16), "float32")
    return tl.kernel_call(body, struct, grid=8, in_specs=[spec], out_specs=spec, **options)(x)


def doubled(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def by_halves(x_ref, o_ref):
    """Reads and writes its block in two pieces."""
    for k in range(2):
        o_ref[tl.ds(8 * k, 8)] = x_ref[tl.ds(8 * k, 8)] + k


def embed(ids, table):
    def copy(ids_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = tl.PrefetchScalarGridSpec(
        1, (3,), [tl.BlockSpec((1, 16), lambda i, ids: (ids[i], 0))], tl.BlockSpec((1, 16), lambda i, ids: (i, 0))
    )
    return tl.kernel_call(copy, tw.ShapeDtypeStruct((3, 16), "float32"), grid_spec=spec)(ids, table)


def two_results(x):
    """Exponentials and their sums along rows."""
    def both(x_ref, o_ref, sum_ref):
        o_ref[...] = tnp.exp(x_ref[...])
        sum_ref[...] = tnp.sum(tnp.exp(x_ref[...]), 1)

    spec = tl.BlockSpec((4, 16), lambda i: (i, 0))
    struct = [tw.ShapeDtypeStruct((8, 16), "float32"), tw.ShapeDtypeStruct((8,), "float32")]
    specs = [spec, tl.BlockSpec((4,), lambda i: (i,))]
    return tl.kernel_call(both, struct, grid=2, in_specs=[spec], out_specs=specs)(x)


def turned(x):
    """Two results whose blocks are the same ones, in another order."""
    def both(x_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...] * 2
        p_ref[...] = x_ref[...] + 1

    specs = [tl.BlockSpec((4, 16), lambda i: (i, 0)), tl.BlockSpec((4, 16), lambda i: (1 - i, 0))]
    struct = [tw.ShapeDtypeStruct((8, 16), "float32")] * 2
    return tl.kernel_call(both, struct, grid=2, in_specs=specs[:1], out_specs=specs)(x)


IDS = np.array([5, 0, 5], np.int32)
INSIDE = {  # everything becomes the one kernel
    "epilogue of a sum": (lambda x, w, b: tnp.tanh(matmul(x, w) + b) * 2, (X, W, BIAS)),
    "prologue of one operand": (lambda x, w: matmul(tnp.exp(x) * 0.5, w), (X, W)),
    "prologue of both": (lambda x, w, b: matmul(x * 2 + 1, w * b), (X, W, BIAS)),
    "both ends": (lambda x, w, b: tnp.maximum(matmul(tnp.tanh(x), w), b), (X, W, BIAS)),
    "result kept too": (lambda x, w: (lambda y: (y, tnp.tanh(y)))(matmul(x, w)), (X, W)),
    "residual": (lambda x: x + rows(doubled, x), (X,)),
    "squeezed axes": (lambda x, c: tnp.sin(rows(doubled, tnp.cos(x) * c)) - c, (X, ones(16))),
    "columns": (lambda x, r: rows(doubled, x * r[:, None]) + r[:, None], (X, ones(8))),
    "another dtype": (lambda x: rows(doubled, x.astype("float32")).astype("bfloat16"), (X.astype("bfloat16"),)),
    "operand read in pieces": (lambda x: rows(by_halves, tnp.tanh(x)), (X,)),
    "blocks placed by data": (lambda i, t, s: embed(i, t * 2) * s, (IDS, X, ones(16))),
    "two results": (lambda x: (lambda y, z: y / z[:, None])(*two_results(x)), (X,)),
    "two results, one kept": (lambda x: (lambda y, z: (y / z[:, None], z))(*two_results(x)), (X,)),
    "two kernels": (lambda x: rows(doubled, tnp.tanh(rows(doubled, x)) + 1) * 3, (X,)),
}
OUTSIDE = {  # what stays beside the kernel, and why
    "a reduction": (lambda x: tnp.sum(rows(doubled, x), -1), "loops of its own"),
    "a transposition": (lambda x: tnp.tanh(rows(doubled, x).T), "transpose"),
    "a wider result": (lambda x: rows(doubled, x)[:, :, None] * ones(16, 3), "axes that the kernel's block lacks"),
    "several readers": (lambda x: (lambda y: (rows(doubled, y), tnp.sum(y * x)))(tnp.tanh(x)), "other consumers"),
    "an aliased operand": (
        lambda x: rows(doubled, tnp.tanh(x), input_output_aliases={0: 0}), "writes its result over it"),
    "a block written in pieces": (lambda x: tnp.tanh(rows(by_halves, x)), "piece by piece"),
    "results in another order": (lambda x: (lambda y, z: y * z)(*turned(x)), "which have different blocks"),
    "a detour": (lambda x: (lambda y: y + lax.sort(y))(rows(doubled, x)), "in neither"),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_neighbours_go_in(name):
    function, args = INSIDE[name]
    program = traced(function, *args)
    fusion = plan(program, "tpu:v5e")
    assert set(names(fusion.program)) == {"kernel_call"}
    assert len(list(kernels_of(fusion.program))) == len(list(kernels_of(program)))
    check_fused(program, args, kernels=False)


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_cannot_go_in_stays_outside(name):
    function, words = OUTSIDE[name]
    program = traced(function, X)
    fusion = plan(program, "tpu:v5e", explained=True)
    assert any(words in b.reason for b in fusion.boundaries), [b.reason for b in fusion.boundaries]
    check_fused(program, (X,), kernels=False)


def test_ragged_blocks_with_a_fill_keep_it():
    def sums(x_ref, o_ref):
        @tl.when(tl.program_id(0) == 0)
        def _():
            o_ref[...] = tnp.zeros_like(o_ref)

        o_ref[...] += tnp.sum(x_ref[...], 0)

    def function(x):
        spec = tl.BlockSpec((3, 16), lambda i: (i, 0), fill=0)
        call = tl.kernel_call(sums, tw.ShapeDtypeStruct((16,), "float32"), grid=3, in_specs=[spec])
        return call(tnp.exp(x)) * 2

    program = traced(function, X)
    fusion = plan(program, "tpu:v5e", explained=True)
    assert any("fills out-of-bounds elements" in b.reason for b in fusion.boundaries)
    check_fused(program, (X,), kernels=False)


def test_the_gradient_of_a_kernel_takes_neighbours_in():
    def loss(x, w, b):
        return tnp.sum(tnp.tanh(matmul(x, w) + b) ** 2)

    program = traced(tw.grad(loss, (0, 1, 2)), X, W, BIAS)
    check_fused(program, (X, W, BIAS), kernels=False)


def test_the_settings_of_the_kernel_stay():
    spec = tl.BlockSpec((4, 16), lambda i: (i, 0))
    call = tl.kernel_call(doubled, tw.ShapeDtypeStruct((8, 16), "float32"), grid=2, in_specs=[spec], out_specs=spec,
                          dimension_semantics=("parallel",), name="mine")  # fmt: skip
    program = plan(traced(lambda x: tnp.tanh(call(x)), X), "tpu:v5e").program
    (kernel,) = kernels_of(program)
    assert kernel.name == "mine_tanh" and kernel.semantics == ("parallel",) and kernel.grid == (2,)
    close(tw.jit(lambda x: eval_program(program, x))(X), [np.tanh(X * 2)])
