"""Softmax of each row, a few rows per cell, a whole row in reach: three passes over memory become one."""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def softmax(x, o):
    v = x[...]
    e = tnp.exp(v - v.max(axis=-1, keepdims=True))
    o[...] = e / e.sum(axis=-1, keepdims=True)


def call(x, *, rows=4, **changes):
    m, n = x.shape
    spec = tl.BlockSpec((rows, n), lambda i: (i, 0))
    options = {"grid": tl.cdiv(m, rows), "in_specs": [spec], "out_specs": spec}
    return tl.kernel_call(softmax, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(x)


def reference(np, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def make(rng, m, n):
    return (3 * floats(rng, m, n),)


SIZES = [Size(8, 6, rows=4), Size(7, 5, rows=2), Size(1, 1, rows=4), Size(3, 11, rows=8)]
DIFFERENTIABLE = (0,)
SECOND = True


def one_row_block_too_many(x, rows):
    return call(x, rows=rows, grid=3)


def same_rows(x, rows):
    return call(x, rows=rows, out_specs=tl.BlockSpec((rows, 6), lambda i: (0, 0)), dimension_semantics=["parallel"])


WRONG = [
    Wrong(OutOfBoundsError, one_row_block_too_many,
          ("kernel softmax", "operand x", "cell (2,)", "block (2, 0)", "elements 8 to 11", "has 8", "from 0 to 1")),
    Wrong(RaceError, same_rows, ("kernel softmax", "(0,) and (1,)", "block (0, 0)", "output o", "axis 0")),
]  # fmt: skip
