"""1-D convolution along time, many channels to many: windows of `Element` blocks that overlap.

An `Element` axis counts elements, so the windows of two cells share what they need of each other's; its `padding`
says how far a window may reach past either end, and `fill=0` what is there.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def conv1d(x, w, o):
    steps = o.shape[0]
    total = tnp.zeros(o.shape, o.dtype)
    for tap in range(w.shape[0]):
        total += x[tap : tap + steps, :] @ w[tap]
    o[...] = total


def call(x, w, *, block=4, **changes):
    n, channels = x.shape
    taps, _, outs = w.shape
    cells = tl.cdiv(n, block)
    before, after = (taps - 1) // 2, taps // 2
    window = tl.Element(block + taps - 1, padding=(before, after + cells * block - n))
    options = {
        "grid": cells,
        "in_specs": [
            tl.BlockSpec((window, channels), lambda i: (i * block, 0), fill=0),
            tl.BlockSpec((taps, channels, outs), lambda i: (0, 0, 0)),
        ],
        "out_specs": tl.BlockSpec((block, outs), lambda i: (i, 0)),
    }
    return tl.kernel_call(conv1d, tw.ShapeDtypeStruct((n, outs), x.dtype), **options | changes)(x, w)


def reference(np, x, w):
    taps = w.shape[0]
    padded = np.pad(x, [((taps - 1) // 2, taps // 2), (0, 0)])
    return sum(padded[tap : tap + x.shape[0]] @ w[tap] for tap in range(taps))


def make(rng, n, taps, channels, outs):
    return floats(rng, n, channels), floats(rng, taps, channels, outs)


SIZES = [Size(12, 3, 2, 3), Size(13, 4, 3, 2), Size(1, 3, 1, 1), Size(5, 5, 2, 2, block=8)]
DIFFERENTIABLE = (0, 1)


def not_padded(x, w):
    window, taps = tl.BlockSpec((tl.Element(6), 2), lambda i: (i * 4, 0)), tl.BlockSpec((3, 2, 3), lambda i: (0, 0, 0))
    return call(x, w, in_specs=[window, taps])


def every_second(x, w):
    return call(x, w, out_specs=tl.BlockSpec((4, 3), lambda i: (i // 2, 0)), dimension_semantics=["parallel"])


WRONG = [
    Wrong(OutOfBoundsError, not_padded, ("kernel conv1d", "operand x", "cell (2,)", "elements 8 to 13", "has 12")),
    Wrong(RaceError, every_second, ("kernel conv1d", "output o", "(0,)", "(1,)", "block (0, 0)", "parallel")),
]
