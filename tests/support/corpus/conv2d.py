"""2-D convolution of an image with many channels: windows that overlap in both directions.

The body is a sum over the taps of the filter, each a matmul of the shifted window with that tap's weights.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def conv2d(x, w, o):
    rows, columns, outs = o.shape
    total = tnp.zeros((rows * columns, outs), o.dtype)
    for a in range(w.shape[0]):
        for b in range(w.shape[1]):
            part = x[a : a + rows, b : b + columns, :]
            total += part.reshape(rows * columns, -1) @ w[a, b]
    o[...] = total.reshape(o.shape)


def call(x, w, *, rows=4, columns=4, **changes):
    height, width, channels = x.shape
    a, b, _, outs = w.shape
    grid = (tl.cdiv(height, rows), tl.cdiv(width, columns))

    def window(block, taps, cells, n):
        return tl.Element(block + taps - 1, padding=((taps - 1) // 2, taps // 2 + cells * block - n))

    sizes = (window(rows, a, grid[0], height), window(columns, b, grid[1], width), channels)
    options = {
        "grid": grid,
        "in_specs": [
            tl.BlockSpec(sizes, lambda i, j: (i * rows, j * columns, 0), fill=0),
            tl.BlockSpec(w.shape, lambda i, j: (0, 0, 0, 0)),
        ],
        "out_specs": tl.BlockSpec((rows, columns, outs), lambda i, j: (i, j, 0)),
    }
    return tl.kernel_call(conv2d, tw.ShapeDtypeStruct((height, width, outs), x.dtype), **options | changes)(x, w)


def reference(np, x, w):
    height, width, _ = x.shape
    a, b = w.shape[:2]
    padded = np.pad(x, [((a - 1) // 2, a // 2), ((b - 1) // 2, b // 2), (0, 0)])
    return sum(padded[i : i + height, j : j + width] @ w[i, j] for i in range(a) for j in range(b))


def make(rng, height, width, a, b, channels, outs):
    return floats(rng, height, width, channels), floats(rng, a, b, channels, outs)


SIZES = [Size(8, 8, 3, 3, 2, 2), Size(5, 7, 2, 3, 1, 3), Size(1, 1, 3, 3, 1, 1)]
DIFFERENTIABLE = (0, 1)


def too_far(x, w):
    window = tl.BlockSpec((tl.Element(6, (1, 1)), tl.Element(6, (1, 1)), 2), lambda i, j: (i * 4, j * 5, 0), fill=0)
    return call(x, w, in_specs=[window, None])


def one_row(x, w):
    return call(x, w, out_specs=tl.BlockSpec((4, 4, 2), lambda i, j: (0, j, 0)), dimension_semantics=["parallel"] * 2)


WRONG = [
    Wrong(OutOfBoundsError, too_far, ("kernel conv2d", "operand x", "cell (0, 1)", "axis 1", "has 8")),
    Wrong(RaceError, one_row, ("kernel conv2d", "(0, 0) and (1, 0)", "block (0, 0, 0)", "output o", "axis 0")),
]
