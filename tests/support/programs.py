"""Small functions and kernels, which tests print and draw."""

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp

VECTOR = tw.ShapeDtypeStruct((4,), "float32")

MATRIX = tw.ShapeDtypeStruct((8, 16), "float32")
WEIGHTS = tw.ShapeDtypeStruct((16, 4), "float32")


def mlp(w, x):
    return tnp.sum(tnp.tanh(x @ w))


def softmax(x):
    e = tnp.exp(x - tnp.max(x, -1, keepdims=True))
    return e / tnp.sum(e, -1, keepdims=True)


def loop(x):
    return lax.scan(lambda c, t: (c * t, c), x, tnp.arange(3.0))


def scale_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0


def scale(x):
    spec = tl.BlockSpec((2,), lambda i: (i,))
    return tl.kernel_call(scale_kernel, out_shape=VECTOR, grid=2, in_specs=[spec], out_specs=spec)(x)


def matmul_kernel(x_ref, y_ref, o_ref):
    @tl.when(tl.program_id(2) == 0)
    def _():
        o_ref[...] = tnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] @ y_ref[...]


def matmul(x, y):
    return tl.kernel_call(
        matmul_kernel,
        out_shape=tw.ShapeDtypeStruct((8, 4), "float32"),
        grid=(2, 1, 2),
        in_specs=[tl.BlockSpec((4, 8), lambda i, j, k: (i, k)), tl.BlockSpec((8, 4), lambda i, j, k: (k, j))],
        out_specs=tl.BlockSpec((4, 4), lambda i, j, k: (i, j)),
    )(x, y)
