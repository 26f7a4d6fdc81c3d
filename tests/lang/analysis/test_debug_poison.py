"""With `debug_poison`, what nothing has written is seen in compiled kernels as the interpreter shows it."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tests.support.corpus.runs import KERNELS, Split, close, tolerance
from tilewright import lang as tl
from tilewright import numpy as tnp

X = np.arange(40, dtype="f").reshape(10, 4)


def unwritten_scratch(x, o, s):
    @tl.when(tl.program_id(0) < tnp.max(x[...]).astype("int32") - 1000)  # by data, and never
    def _():
        s[...] = x[...]

    o[...] = s[...]


def unwritten_output(x, o, s):
    o[:2] = x[:2]


def past_the_end(x, o, s):
    s[...] = x[...]
    o[...] = s[...]


def scoped(x, o, s):
    tl.run_scoped(lambda t: o.__setitem__(..., tnp.where(x[...] < 1000, t[...], 0)), tl.VMEM((4, 4), x.dtype))


def accumulated(x, o, s):
    @tl.when(tnp.sum(x[...]) * 0 != 0)  # true where x holds poison, which is not known here
    def _():
        s[...] = x[...] * 0

    s[...] += x[...]
    o[...] = s[...]


def call(body, dtype, interpret):
    spec = tl.BlockSpec((4, 4), lambda i: (i, 0))
    return tl.kernel_call(body, tw.ShapeDtypeStruct((12, 4), dtype), grid=3, in_specs=[spec], out_specs=spec,
                          scratch_shapes=[tl.VMEM((4, 4), dtype)], interpret=interpret)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("body", [unwritten_scratch, unwritten_output, past_the_end, scoped, accumulated])
def test_compiled_poison_is_the_interpreters(body, dtype):
    x = X.astype(dtype)
    expected = np.asarray(call(body, dtype, True)(x)).astype("f")
    plain = np.asarray(call(body, dtype, False)(x)).astype("f")
    with tw.config(debug_poison=True):
        found = np.asarray(call(body, dtype, False)(x)).astype("f")
    np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(plain, expected)


def test_right_kernels_compute_the_same():
    def summed(x, o):
        @tl.when(tl.program_id(0) == 0)
        def _():
            o[...] = tnp.zeros_like(o)

        o[...] += tnp.sum(x[...], axis=0, keepdims=True)

    made = tl.kernel_call(summed, tw.ShapeDtypeStruct((1, 4), "float32"), grid=3,
                          in_specs=[tl.BlockSpec((4, 4), lambda i: (i, 0), fill=0)],
                          out_specs=tl.BlockSpec((1, 4), lambda i: (0, 0)))  # fmt: skip
    gradient = tw.grad(lambda x: tnp.sum(tnp.sin(made(x) / 100)))
    plain = made(X), gradient(X)
    with tw.config(debug_poison=True):
        poisoned = made(X), gradient(X)
    for one, two in zip(plain, poisoned, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-6)


@pytest.mark.parametrize("name", ["flash_attention", "grouped_matmul", "block_sparse_matmul"])
def test_gradients_see_nothing_of_what_lies_past_the_end(name):
    """Ragged operands without a fill: what a cell saves, and the cotangents that it reads, are numbers there."""
    kernel = KERNELS[name]
    split = Split(kernel, kernel.SIZES[1], {})
    expected = by_numpy(tw.grad(split.reference_loss, split.every), *split.xs)
    with tw.config(debug_poison=True):
        close(tw.jit(tw.grad(split.loss, split.every))(*split.xs), expected, 10 * tolerance(kernel))
    if name != "block_sparse_matmul":  # which is much to interpret
        split.mode = {"interpret": True}
        close(tw.grad(lambda *xs: split.weighted(split.call(*xs)), split.every)(*split.xs), expected,
              10 * tolerance(kernel))  # fmt: skip
