"""`a x + y`: the simplest kernel. One grid axis, one block of each operand per cell.

The last block is ragged when the length is no multiple of the block: what lies past the end is computed from
unspecified values and never stored.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright.core.support.errors import OutOfBoundsError, RaceError

A = 2.5


def saxpy(x, y, o):
    o[...] = A * x[...] + y[...]


def call(x, y, *, block=4, **changes):
    spec = tl.BlockSpec((block,), lambda i: i)
    options = {"grid": tl.cdiv(x.shape[0], block), "in_specs": [spec, spec], "out_specs": spec}
    return tl.kernel_call(saxpy, tw.ShapeDtypeStruct(x.shape, x.dtype), **options | changes)(x, y)


def reference(np, x, y):
    return A * x + y


def make(rng, n):
    return floats(rng, n), floats(rng, n)


SIZES = [Size(12, block=4), Size(13, block=4), Size(1, block=4), Size(3, block=8)]
DIFFERENTIABLE = (0, 1)
SECOND = True


def past_the_end(x, y, block):
    return call(
        x, y, block=block, in_specs=[tl.BlockSpec((block,), lambda i: i), tl.BlockSpec((block,), lambda i: i + 1)]
    )


def half_the_blocks(x, y, block):
    return call(x, y, block=block, out_specs=tl.BlockSpec((block,), lambda i: i // 2), dimension_semantics=["parallel"])


WRONG = [
    Wrong(
        OutOfBoundsError, past_the_end, ("kernel saxpy", "operand y", "cell (2,)", "block (3,)", "12 to 15", "has 12")
    ),
    Wrong(RaceError, half_the_blocks, ("kernel saxpy", "output o", "(0,)", "(1,)", "block (0,)", "parallel")),
]
