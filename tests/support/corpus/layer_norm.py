"""Layer norm: rows are normalised, then scaled and shifted by vectors that every cell shares.

The derivative of a shared operand is a sum over the cells: its index map ignores the grid axis, and that is all
that the compiler needs to know.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError

EPSILON = 1e-5


def layer_norm(x, scale, shift, o):
    v = x[...]
    centred = v - v.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    o[...] = centred / tnp.sqrt(variance + EPSILON) * scale[...] + shift[...]


def call(x, scale, shift, *, rows=4, **changes):
    m, n = x.shape
    block = tl.BlockSpec((rows, n), lambda i: (i, 0))
    shared = tl.BlockSpec((n,), lambda i: 0)
    options = {"grid": tl.cdiv(m, rows), "in_specs": [block, shared, shared], "out_specs": block}
    return tl.kernel_call(layer_norm, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(x, scale, shift)


def reference(np, x, scale, shift):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + EPSILON) * scale + shift


def make(rng, m, n):
    return floats(rng, m, n), floats(rng, n), floats(rng, n)


SIZES = [Size(8, 6, rows=4), Size(7, 5, rows=2), Size(1, 3, rows=4)]
DIFFERENTIABLE = (0, 1, 2)
SECOND = True


def moving_scale(x, scale, shift, rows):
    block, moving = tl.BlockSpec((rows, 6), lambda i: (i, 0)), tl.BlockSpec((6,), lambda i: i)
    return call(x, scale, shift, rows=rows, in_specs=[block, moving, moving])


def same_rows(x, scale, shift, rows):
    return call(x, scale, shift, rows=rows, out_specs=tl.BlockSpec((rows, 6), lambda i: (0, 0)),
                dimension_semantics=["parallel"])  # fmt: skip


WRONG = [
    Wrong(OutOfBoundsError, moving_scale, ("kernel layer_norm", "operand scale", "cell (1,)", "6 to 11", "has 6")),
    Wrong(RaceError, same_rows, ("kernel layer_norm", "(0,) and (1,)", "output o", "axis 0")),
]
