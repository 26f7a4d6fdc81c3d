"""Sums and sums of squares of columns: two outputs that stay in reach along the whole grid.

Their index maps ignore the axis of rows, which is therefore a carry axis. `fill=0` makes the rows past the end
add nothing.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def reduction(x, total, squares):
    @tl.when(tl.program_id(1) == 0)
    def _():
        total[...] = tnp.zeros(total.shape, total.dtype)
        squares[...] = tnp.zeros(squares.shape, squares.dtype)

    v = x[...]
    total[...] += v.sum(axis=0)
    squares[...] += (v * v).sum(axis=0)


def call(x, *, rows=4, columns=4, **changes):
    m, n = x.shape
    spec = tl.BlockSpec((columns,), lambda j, i: j)
    options = {
        "grid": (tl.cdiv(n, columns), tl.cdiv(m, rows)),
        "in_specs": [tl.BlockSpec((rows, columns), lambda j, i: (i, j), fill=0)],
        "out_specs": (spec, spec),
    }
    shape = tw.ShapeDtypeStruct((n,), x.dtype)
    return tl.kernel_call(reduction, (shape, shape), **options | changes)(x)


def reference(np, x):
    return x.sum(axis=0), (x * x).sum(axis=0)


def make(rng, m, n):
    return (floats(rng, m, n),)


SIZES = [Size(12, 8), Size(13, 7), Size(1, 1), Size(3, 17, rows=8, columns=4)]
DIFFERENTIABLE = (0,)
SECOND = True


def swapped(x):
    return call(x, in_specs=[tl.BlockSpec((4, 4), lambda j, i: (j, i))])


def all_parallel(x):
    return call(x, dimension_semantics=["parallel"] * 2)


WRONG = [
    Wrong(
        OutOfBoundsError, swapped, ("kernel reduction", "operand x", "cell (0, 2)", "block (0, 2)", "8 to 11", "has 8")
    ),
    Wrong(RaceError, all_parallel, ("kernel reduction", "(0, 0) and (0, 1)", "output total", "axis 1")),
]
