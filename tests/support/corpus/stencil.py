"""The 5-point stencil of the Laplace operator: each cell sees its block and a rim of one element around it."""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def stencil(x, o):
    v = x[...]
    o[...] = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * v[1:-1, 1:-1]


def call(x, *, rows=4, columns=4, **changes):
    m, n = x.shape
    grid = (tl.cdiv(m, rows), tl.cdiv(n, columns))
    window = (
        tl.Element(rows + 2, padding=(1, 1 + grid[0] * rows - m)),
        tl.Element(columns + 2, padding=(1, 1 + grid[1] * columns - n)),
    )
    options = {
        "grid": grid,
        "in_specs": [tl.BlockSpec(window, lambda i, j: (i * rows, j * columns), fill=0)],
        "out_specs": tl.BlockSpec((rows, columns), lambda i, j: (i, j)),
    }
    return tl.kernel_call(stencil, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(x)


def reference(np, x):
    v = np.pad(x, 1)
    return v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * x


def make(rng, m, n):
    return (floats(rng, m, n),)


SIZES = [Size(8, 12), Size(7, 5), Size(1, 1), Size(3, 11, rows=8, columns=4)]
DIFFERENTIABLE = (0,)


def no_rim(x):
    return call(x, in_specs=[tl.BlockSpec((tl.Element(6), tl.Element(6)), lambda i, j: (i * 4, j * 4))])


def one_column(x):
    return call(x, out_specs=tl.BlockSpec((4, 4), lambda i, j: (i, 0)), dimension_semantics=["parallel"] * 2)


WRONG = [
    Wrong(OutOfBoundsError, no_rim, ("kernel stencil", "operand x", "cell (1, 0)", "elements 4 to 9", "has 8")),
    Wrong(RaceError, one_column, ("kernel stencil", "(0, 0) and (0, 1)", "block (0, 0)", "output o", "axis 1")),
]
