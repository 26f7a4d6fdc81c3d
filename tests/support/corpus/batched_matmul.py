"""Batched matmul: the batch is a grid axis, squeezed out of the blocks by `None`, so the body is that of a matmul."""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def batched_matmul(x, y, o):
    @tl.when(tl.program_id(3) == 0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    o[...] += x[...] @ y[...]


def call(x, y, *, rows=4, columns=4, depth=4, **changes):
    (b, m, k), n = x.shape, y.shape[2]
    options = {
        "grid": (b, tl.cdiv(m, rows), tl.cdiv(n, columns), tl.cdiv(k, depth)),
        "in_specs": [
            tl.BlockSpec((None, rows, depth), lambda b, i, j, k: (b, i, k), fill=0),
            tl.BlockSpec((None, depth, columns), lambda b, i, j, k: (b, k, j), fill=0),
        ],
        "out_specs": tl.BlockSpec((None, rows, columns), lambda b, i, j, k: (b, i, j)),
    }
    return tl.kernel_call(batched_matmul, tw.ShapeDtypeStruct((b, m, n), x.dtype), **options | changes)(x, y)


def reference(np, x, y):
    return x @ y


def make(rng, b, m, k, n):
    return floats(rng, b, m, k), floats(rng, b, k, n)


SIZES = [Size(3, 8, 8, 4), Size(2, 5, 7, 3), Size(1, 1, 1, 1)]
DIFFERENTIABLE = (0, 1)


def next_batch(x, y):
    specs = [
        tl.BlockSpec((None, 4, 4), lambda b, i, j, k: (b, i, k)),
        tl.BlockSpec((None, 4, 4), lambda b, i, j, k: (b + 1, k, j)),
    ]
    return call(x, y, in_specs=specs)


def one_batch(x, y):
    return call(x, y, out_specs=tl.BlockSpec((None, 4, 4), lambda b, i, j, k: (0, i, j)),
                dimension_semantics=["parallel"] * 3 + ["arbitrary"])  # fmt: skip


WRONG = [
    Wrong(OutOfBoundsError, next_batch,
          ("kernel batched_matmul", "operand y", "cell (2, 0, 0, 0)", "block (3, 0, 0)", "axis 0", "has 3")),
    Wrong(RaceError, one_batch, ("kernel batched_matmul", "(0, 0, 0, 0) and (1, 0, 0, 0)", "output o", "axis 0")),
]  # fmt: skip
