"""Cumulative sum down the rows: each cell sums its block and adds the carry that the cells before it left in scratch.

The output's index map uses every grid axis, so it is the scratch, live from cell to cell, that orders the rows.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def cumsum(x, o, carry):
    @tl.when(tl.program_id(1) == 0)
    def _():
        carry[...] = tnp.zeros(carry.shape, carry.dtype)

    part = tnp.cumsum(x[...], axis=0) + carry[...]
    o[...] = part
    carry[...] = part[-1:]


def call(x, *, rows=4, columns=4, **changes):
    m, n = x.shape
    spec = tl.BlockSpec((rows, columns), lambda j, i: (i, j))
    options = {
        "grid": (tl.cdiv(n, columns), tl.cdiv(m, rows)),
        "in_specs": [spec],
        "out_specs": spec,
        "scratch_shapes": [tl.VMEM((1, columns), x.dtype)],
    }
    return tl.kernel_call(cumsum, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(x)


def reference(np, x):
    return np.cumsum(x, axis=0)


def make(rng, m, n):
    return (floats(rng, m, n),)


SIZES = [Size(12, 8), Size(13, 3), Size(1, 1), Size(3, 5, rows=8, columns=4)]
DIFFERENTIABLE = (0,)


def beyond(x):
    return call(x, in_specs=[tl.BlockSpec((4, 4), lambda j, i: (i + 1, j))])


def all_parallel(x):
    return call(x, dimension_semantics=["parallel"] * 2)


WRONG = [
    Wrong(
        OutOfBoundsError, beyond, ("kernel cumsum", "operand x", "cell (0, 2)", "block (3, 0)", "12 to 15", "has 12")
    ),
    Wrong(RaceError, all_parallel, ("kernel cumsum", "scratch", "axis 1", "parallel")),
]
