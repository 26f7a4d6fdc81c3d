"""Matmul with the sum inside the body: a cell has all of `k` in reach and loops over pieces of it.

The block of `k` is rounded up to whole pieces, and `fill=0` makes what is past the end add nothing.
"""

import functools

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def matmul_loop(x, y, o, *, piece):
    def step(k, total):
        part = tl.ds(k * piece, piece)
        return total + x[:, part] @ y[part, :]

    o[...] = lax.fori_loop(0, x.shape[1] // piece, step, tnp.zeros(o.shape, o.dtype))


def call(x, y, *, rows=4, columns=4, piece=4, **changes):
    (m, k), n = x.shape, y.shape[1]
    whole = tl.align_to(k, piece)
    options = {
        "grid": (tl.cdiv(m, rows), tl.cdiv(n, columns)),
        "in_specs": [
            tl.BlockSpec((rows, whole), lambda i, j: (i, 0), fill=0),
            tl.BlockSpec((whole, columns), lambda i, j: (0, j), fill=0),
        ],
        "out_specs": tl.BlockSpec((rows, columns), lambda i, j: (i, j)),
        "name": "matmul_loop",
    }
    body = functools.partial(matmul_loop, piece=piece)
    return tl.kernel_call(body, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(x, y)


def reference(np, x, y):
    return x @ y


def make(rng, m, k, n):
    return floats(rng, m, k), floats(rng, k, n)


SIZES = [Size(8, 12, 8), Size(7, 11, 5), Size(1, 1, 1), Size(3, 2, 13, rows=8, columns=8, piece=4)]
DIFFERENTIABLE = (0, 1)


def rows_by_column(x, y):
    blocks = [tl.BlockSpec((4, 12), lambda i, j: (i + j, 0)), tl.BlockSpec((12, 4), lambda i, j: (0, j))]
    return call(x, y, in_specs=blocks)


def one_column(x, y):
    return call(x, y, out_specs=tl.BlockSpec((4, 4), lambda i, j: (i, 0)), dimension_semantics=["parallel"] * 2)


WRONG = [
    Wrong(OutOfBoundsError, rows_by_column, ("kernel matmul_loop", "cell (1, 1)", "block (2, 0)", "8 to 11", "has 8")),
    Wrong(RaceError, one_column, ("kernel matmul_loop", "(0, 0) and (0, 1)", "block (0, 0)", "axis 1")),
]
