"""Matmul with a prologue and an epilogue: `gelu(silu(x) * scale @ y + bias)` in one kernel.

The sum is kept in float32 scratch, which no cell but those of one output block shares; the prologue acts on each
block of `x` as it comes, the epilogue on the last cell along `k`.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def prologue(np, x, scale):
    return x / (1 + np.exp(-x)) * scale


def epilogue(np, total, bias):
    v = total + bias
    return 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))


def fused_matmul(x, scale, y, bias, o, total):
    k = tl.program_id(2)

    @tl.when(k == 0)
    def _():
        total[...] = tnp.zeros(total.shape, total.dtype)

    total[...] += tnp.dot(prologue(tnp, x[...], scale[...]), y[...], preferred_element_type=total.dtype)

    @tl.when(k == tl.num_programs(2) - 1)
    def _():
        o[...] = epilogue(tnp, total[...], bias[...]).astype(o.dtype)


def call(x, scale, y, bias, *, rows=4, columns=4, depth=4, **changes):
    (m, k), n = x.shape, y.shape[1]
    options = {
        "grid": (tl.cdiv(m, rows), tl.cdiv(n, columns), tl.cdiv(k, depth)),
        "in_specs": [
            tl.BlockSpec((rows, depth), lambda i, j, k: (i, k), fill=0),
            tl.BlockSpec((depth,), lambda i, j, k: k, fill=0),
            tl.BlockSpec((depth, columns), lambda i, j, k: (k, j), fill=0),
            tl.BlockSpec((columns,), lambda i, j, k: j),
        ],
        "out_specs": tl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        "scratch_shapes": [tl.VMEM((rows, columns), tnp.float32)],
    }
    return tl.kernel_call(fused_matmul, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(x, scale, y, bias)


def reference(np, x, scale, y, bias):
    return epilogue(np, prologue(np, x, scale) @ y, bias)


def make(rng, m, k, n):
    return floats(rng, m, k), floats(rng, k), floats(rng, k, n), floats(rng, n)


SIZES = [Size(8, 8, 8), Size(7, 11, 5), Size(1, 1, 1)]
DIFFERENTIABLE = (0, 1, 2, 3)
SECOND = True


def long_bias(x, scale, y, bias):
    return call(x, scale, y, bias, grid=(2, 3, 2))


def all_parallel(*arrays):
    return call(*arrays, dimension_semantics=["parallel"] * 3)


WRONG = [
    Wrong(OutOfBoundsError, long_bias, ("kernel fused_matmul", "operand y", "cell (0, 2, 0)", "8 to 11", "has 8")),
    Wrong(RaceError, all_parallel, ("kernel fused_matmul", "(0, 0, 0) and (0, 0, 1)", "output o", "axis 2")),
]
