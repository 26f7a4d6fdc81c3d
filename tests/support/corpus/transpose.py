"""Transpose: cell (i, j) reads block (i, j) and writes block (j, i), so the index maps do half of the work."""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def transpose(x, o):
    o[...] = x[...].T


def call(x, *, rows=4, columns=4, **changes):
    m, n = x.shape
    options = {
        "grid": (tl.cdiv(m, rows), tl.cdiv(n, columns)),
        "in_specs": [tl.BlockSpec((rows, columns), lambda i, j: (i, j))],
        "out_specs": tl.BlockSpec((columns, rows), lambda i, j: (j, i)),
    }
    return tl.kernel_call(transpose, tw.ShapeDtypeStruct((n, m), x.dtype), **options | changes)(x)


def reference(np, x):
    return x.T


def make(rng, m, n):
    return (floats(rng, m, n),)


SIZES = [Size(8, 12, rows=4, columns=4), Size(7, 11, rows=2, columns=4), Size(1, 5, rows=2, columns=8)]
DIFFERENTIABLE = (0,)


def not_swapped(x, **blocks):
    return call(x, **blocks, out_specs=tl.BlockSpec((4, 4), lambda i, j: (i, j)))


def one_column(x, **blocks):
    return call(x, **blocks, out_specs=tl.BlockSpec((4, 4), lambda i, j: (0, i)), dimension_semantics=["parallel"] * 2)


WRONG = [
    Wrong(
        OutOfBoundsError, not_swapped, ("kernel transpose", "operand o", "f32[12,8]", "cell (0, 2)", "8 to 11", "has 8")
    ),
    Wrong(RaceError, one_column, ("kernel transpose", "output o", "(0, 0) and (0, 1)", "block (0, 0)", "axis 1")),
]
