"""Kernels whose grid counts the tiles of a symbolic axis, exported and called with sizes of every remainder."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import export, lax
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.errors import KernelError, UnsupportedError

ROWS, WIDTH = 4, 6
W = np.random.default_rng(1).normal(size=(WIDTH, 4)).astype("f")
SIZES = (1, ROWS - 1, ROWS, 2 * ROWS + 1)


def struct(shape, dtype="float32"):
    return tw.ShapeDtypeStruct(shape, dtype)


def tiled(body, x, *whole, width=WIDTH, fill=None, **options):
    """A kernel over tiles of `ROWS` rows of `x`, of which the last may be ragged."""
    rows = tl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0), fill=fill)
    return tl.kernel_call(
        body, struct((x.shape[0], width), x.dtype), grid=tl.cdiv(x.shape[0], ROWS),
        in_specs=[rows, *(tl.BlockSpec() for _ in whole)], out_specs=tl.BlockSpec((ROWS, width), lambda i: (i, 0)),
        **options)(x, *whole)  # fmt: skip


def softmax(x, o):
    e = tnp.exp(x[...] - x[...].max(1, keepdims=True))
    o[...] = e / e.sum(1, keepdims=True)


def product(x, w, o):
    o[...] = tnp.log(tnp.square(x[...]) + 0.5) @ w[...]


def numbered(x, o):
    o[...] = x[...] + (tl.program_id(0) * ROWS + lax.broadcasted_iota("int32", x.shape, 0)).astype("float32")


def filled(x, o):
    o[...] = x[...] - x[...].sum(0, keepdims=True)


def through_scratch(x, o, held):
    held[...] = x[...] * 2
    o[...] = held[...] + 1


def two_axes(x):
    spec = tl.BlockSpec((ROWS, 2), lambda i, j: (i, j))
    grid = (tl.cdiv(x.shape[0], ROWS), tl.cdiv(x.shape[1], 2))
    return tl.kernel_call(softmax, struct(x.shape), grid=grid, in_specs=[spec], out_specs=spec)(x)


def slope(x):
    return tw.grad(lambda x: (tiled(softmax, x) ** 3).sum())(x)


KERNELS = {
    "rows": lambda x: tiled(softmax, x),
    "product": lambda x: tiled(product, x, W, width=4),
    "number of the tile": lambda x: tiled(numbered, x),
    "fill": lambda x: tiled(filled, x, fill=0),
    "scratch": lambda x: tiled(through_scratch, x, scratch_shapes=[tl.VMEM((ROWS, WIDTH), "float32")]),
    "known axes beside it": two_axes,
    "gradient": lambda x: tw.grad(lambda x, w: tnp.square(tiled(product, x, w, width=4)).sum(), (0, 1))(x, W),
    "jvp": lambda x: tw.jvp(lambda x: tiled(softmax, x), (x,), (x * x,)),
    "second derivative": lambda x: tw.grad(lambda x: tnp.square(slope(x)).sum())(x),
    "vmap": lambda x: tw.vmap(lambda x: tiled(numbered, x))(tnp.stack([x, -x])),
    "vmap of the gradient": lambda x: tw.vmap(tw.grad(lambda x: (tiled(softmax, x) ** 2).sum()))(tnp.stack([x, -x])),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("name", KERNELS)
def test_a_symbolic_number_of_tiles(name):
    (b,) = export.symbolic_shape("b")
    exported = export.deserialize(export.export(tw.jit(KERNELS[name]))(struct((b, WIDTH))).serialize())
    for size in SIZES:
        x = np.random.default_rng(size).normal(size=(size, WIDTH)).astype("f")
        found, expected = (tw.tree.leaves(f(x)) for f in (exported.call, tw.jit(KERNELS[name])))
        for one, known in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, known, rtol=1e-4, atol=1e-5)


def test_two_symbols():
    b, t = export.symbolic_shape("b, t")

    def add_one(x, o):
        o[...] = x[...] + 1

    def run(x):
        spec = tl.BlockSpec((ROWS, 2), lambda i, j: (j, i))
        grid = (tl.cdiv(x.shape[1], 2), tl.cdiv(x.shape[0], ROWS))
        return tl.kernel_call(add_one, struct(x.shape), grid=grid, in_specs=[spec], out_specs=spec)(x)

    exported = export.export(tw.jit(run))(struct((b, t)))
    for shape in ((1, 1), (4, 2), (5, 3), (9, 8)):
        x = np.random.default_rng(0).normal(size=shape).astype("f")
        np.testing.assert_array_equal(exported.call(x), x + 1)


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_export_for_other_platforms(platform):
    (b,) = export.symbolic_shape("b")
    exported = export.export(tw.jit(KERNELS["rows"]), platforms=[platform])(struct((b, WIDTH)))
    assert str(exported.out_avals[0].shape) == f"(b, {WIDTH})"


def test_tiles_that_depend_on_each_other_are_refused():
    (b,) = export.symbolic_shape("b")

    def running(x, o, total):
        @tl.when(tl.program_id(0) == 0)
        def _():
            total[...] = tnp.zeros_like(total)

        total[...] += x[...]
        o[...] = total[...]

    def summed(x, o):
        @tl.when(tl.program_id(0) == 0)
        def _():
            o[...] = tnp.zeros_like(o)

        o[...] += x[...].sum(0, keepdims=True)

    def reduced(x):
        rows = tl.BlockSpec((ROWS, WIDTH), lambda i: (i, 0), fill=0)
        out = tl.BlockSpec((1, WIDTH), lambda i: (0, 0))
        return tl.kernel_call(summed, struct((1, WIDTH)), grid=tl.cdiv(x.shape[0], ROWS), in_specs=[rows],
                              out_specs=out)(x)  # fmt: skip

    carried = [tl.VMEM((ROWS, WIDTH), "float32")]
    for run in (lambda x: tiled(running, x, fill=0, scratch_shapes=carried), reduced):
        with pytest.raises(UnsupportedError, match="cells along axis 0 of the grid, of symbolic size, depend on each"):
            export.export(tw.jit(run))(struct((b, WIDTH)))
    with pytest.raises(UnsupportedError, match="softmax with symbolic sizes"):
        export.export(tw.jit(lambda x: tl.kernel_call(softmax, struct(x.shape))(x)))(struct((b, WIDTH)))


def test_a_ragged_tail_is_verified():
    (b,) = export.symbolic_shape("b")
    with pytest.raises(KernelError, match="what lies past its end|unspecified|padding"):
        export.export(tw.jit(lambda x: tiled(filled, x)))(struct((b, WIDTH)))
