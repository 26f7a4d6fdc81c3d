"""Matmul with the sum as the last grid axis: an output block stays in reach while the cells along `k` add to it.

`k` is a carry axis: the output's index map ignores it. Declared parallel, its cells would race.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def matmul(x, y, o):
    @tl.when(tl.program_id(2) == 0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    o[...] += x[...] @ y[...]


def call(x, y, *, rows=4, columns=4, depth=4, **changes):
    (m, k), n = x.shape, y.shape[1]
    options = {
        "grid": (tl.cdiv(m, rows), tl.cdiv(n, columns), tl.cdiv(k, depth)),
        "in_specs": [
            tl.BlockSpec((rows, depth), lambda i, j, k: (i, k), fill=0),
            tl.BlockSpec((depth, columns), lambda i, j, k: (k, j), fill=0),
        ],
        "out_specs": tl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        "dimension_semantics": ("parallel", "parallel", "arbitrary"),
    }
    return tl.kernel_call(matmul, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(x, y)


def reference(np, x, y):
    return x @ y


def make(rng, m, k, n):
    return floats(rng, m, k), floats(rng, k, n)


SIZES = [Size(8, 12, 8), Size(7, 11, 5), Size(1, 1, 1), Size(3, 13, 2, rows=8, columns=8, depth=8)]
DIFFERENTIABLE = (0, 1)
SECOND = True


def not_transposed(x, y):
    return call(
        x, y, in_specs=[tl.BlockSpec((4, 4), lambda i, j, k: (k, i)), tl.BlockSpec((4, 4), lambda i, j, k: (k, j))]
    )


def all_parallel(x, y):
    return call(x, y, dimension_semantics=["parallel"] * 3)


def sum_first(x, y):
    options = {
        "grid": (3, 2, 2),
        "in_specs": [tl.BlockSpec((4, 4), lambda k, i, j: (i, k)), tl.BlockSpec((4, 4), lambda k, i, j: (k, j))],
        "out_specs": tl.BlockSpec((4, 4), lambda k, i, j: (i, j)),
        "dimension_semantics": None,
    }
    return call(x, y, **options)


WRONG = [
    Wrong(OutOfBoundsError, not_transposed, ("kernel matmul", "operand x", "cell (0, 0, 2)", "block (2, 0)", "has 8")),
    Wrong(RaceError, all_parallel, ("kernel matmul", "(0, 0, 0) and (0, 0, 1)", "block (0, 0)", "output o", "axis 2")),
    Wrong(RaceError, sum_first, ("kernel matmul", "cell (1, 0, 0)", "output o", "earlier cells have left")),
]
