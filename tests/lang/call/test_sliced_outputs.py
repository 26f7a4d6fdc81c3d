"""Outputs with axes of `BoundedSlice`: jagged rows, stored at offsets from a prefetched table."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp

ROWS, WIDTH, TILE = 40, 4, 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, WIDTH)).astype("f")
W = RNG.normal(size=(4, WIDTH, 3)).astype("f")
OFFSETS = np.int32([0, 5, 22, 22, 40])


def rows(batch, tile, offsets):
    start = tnp.minimum(offsets[batch] + tile * TILE, ROWS)
    return tl.ds(start, tnp.clip(offsets[batch + 1] - start, 0, TILE))


def whole(offsets, x, w, o):
    o[...] = x[...] @ w[...]


def added(offsets, x, w, o):
    @tl.when(tl.program_id(2) == 0)
    def _():
        o[...] = tnp.zeros_like(o)

    o[...] += x[...] @ w[...]


def product(split, **options):
    """Each batch's rows times its matrix; in one step, or `WIDTH // 2` steps that add up in a block of four columns."""
    depth, columns = (2, 4) if split else (WIDTH, 3)
    grid = tl.PrefetchScalarGridSpec(
        1, (4, 3, WIDTH // depth),
        [tl.BlockSpec((tl.BoundedSlice(TILE), depth), lambda b, j, k, offsets: (rows(b, j, offsets), k)),
         tl.BlockSpec((None, depth, columns), lambda b, j, k, offsets: (b, k, 0))],
        tl.BlockSpec((tl.BoundedSlice(TILE), columns), lambda b, j, k, offsets: (rows(b, j, offsets), 0)),
    )  # fmt: skip
    out = tw.ShapeDtypeStruct((ROWS, 3), "float32")
    return tl.kernel_call(added if split else whole, out, grid_spec=grid, **options)


def reference(offsets, x, w):
    return tnp.concatenate([x[a:b] @ w[i] for i, (a, b) in enumerate(zip(offsets, offsets[1:]))])


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("options", [
    {}, {"interpret": True}, {"dimension_semantics": ("parallel", "parallel", "arbitrary")},
    *({"compiler_params": tl.cpu.CompilerParams(route=route)} for route in ("machine_code", "xla")),
])  # fmt: skip
def test_jagged_rows_are_stored(split, options):
    found = tw.jit(product(split, **options))(OFFSETS, X, W)
    np.testing.assert_allclose(found, reference(OFFSETS, X, W), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942", "tpu:v5e"])
def test_on_devices(split, target):
    found = tw.emulate(product(split), OFFSETS, X, W, target=target)  # products in TF32 on GPUs
    np.testing.assert_allclose(found, reference(OFFSETS, X, W), rtol=1e-2, atol=5e-3)


@pytest.mark.parametrize("split", [False, True])
def test_derivatives_and_batches(split):
    call = product(split)

    def loss(f):
        return lambda x, w: tnp.sum(tnp.square(f(OFFSETS, x, w)))

    expected = tw.grad(loss(reference), (0, 1))(X, W)
    for found, known in zip(tw.grad(loss(call), (0, 1))(X, W), expected, strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-4, atol=1e-5)
    batched = tw.vmap(tw.grad(loss(call), (0, 1)), (0, None))(np.stack([X, X]), W)
    for found, known in zip(batched, expected, strict=True):
        np.testing.assert_allclose(found, np.stack([known, known]), rtol=1e-4, atol=1e-5)
    others = np.int32([0, 20, 20, 31, 40])
    found = tw.vmap(call, (0, None, None))(np.stack([OFFSETS, others]), X, W)
    np.testing.assert_allclose(found, [reference(OFFSETS, X, W), reference(others, X, W)], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("interpret", [False, True])
def test_an_output_that_starts_as_an_operand_keeps_the_other_rows(interpret):
    def plus(offsets, x, o):
        o[...] += 1

    spec = tl.BlockSpec((tl.BoundedSlice(TILE), WIDTH), lambda b, j, offsets: (rows(b, j, offsets), 0))
    grid = tl.PrefetchScalarGridSpec(1, (2, 3), [tl.BlockSpec(memory_space=tl.ANY)], spec)
    call = tl.kernel_call(plus, tw.ShapeDtypeStruct(X.shape, X.dtype), grid_spec=grid, input_output_aliases={1: 0},
                          interpret=interpret)  # fmt: skip
    expected = X.copy()
    expected[3:22] += 1
    np.testing.assert_array_equal(call(np.int32([3, 5, 22]), X), expected)


def test_a_slice_longer_than_the_output():
    def copy(where, x, o):
        o[...] = x[...]

    spec = tl.BlockSpec((tl.BoundedSlice(8),), lambda i, where: (tl.ds(where[0], where[1]),))
    grid = tl.PrefetchScalarGridSpec(1, (1,), [spec], spec)
    call = tl.kernel_call(copy, tw.ShapeDtypeStruct((5,), "float32"), grid_spec=grid)
    np.testing.assert_array_equal(call(np.int32([1, 4]), np.arange(5, dtype="f"))[1:], [1, 2, 3, 4])


@pytest.mark.parametrize(("spec", "error", "words"), [
    (tl.BlockSpec((tl.BoundedSlice(4),), lambda i: (i,)), errors.BlockRankError, "give `ds"),
    (tl.BlockSpec((tl.BoundedSlice(4),)), errors.BlockRankError, "give `ds"),
    (tl.BlockSpec((tl.BoundedSlice(4), 1), lambda i: (i, 0)), errors.BlockRankError, "rank 1, its block shape"),
    (tl.BlockSpec((tl.BoundedSlice(4),), lambda i: (tl.ds(0, 9),)), errors.ArgumentError, "at most 4 elements"),
    (tl.BlockSpec((tl.BoundedSlice(4),), lambda: (tl.ds(0, 4),)), errors.BlockRankError, "its index map takes"),
])  # fmt: skip
def test_errors_name_the_output(spec, error, words):
    def ones(o):
        o[...] = tnp.ones_like(o)

    with pytest.raises(error, match="(?s)output o of f32.*" + words):
        tl.kernel_call(ones, tw.ShapeDtypeStruct((6,), "float32"), grid=(2,), out_specs=spec)()
