"""Dropout with random bits made in the kernel: no mask is ever in memory.

The bits are a function of the seed and the cell alone, so the backward pass makes the same ones again.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError

KEPT = 0.75


def dropout(seed, x, o):
    bits = tl.counter_uniform(x.shape, seed[0], tl.program_id(0))
    o[...] = tnp.where(bits < KEPT, x[...] / KEPT, 0)


def call(seed, x, *, block=8, **changes):
    spec = tl.BlockSpec((block,), lambda i: i)
    options = {
        "grid": tl.cdiv(x.shape[0], block),
        "in_specs": [tl.BlockSpec(memory_space=tl.SMEM), spec],
        "out_specs": spec,
    }
    return tl.kernel_call(dropout, tw.ShapeDtypeStruct(x.shape, x.dtype), **options | changes)(seed, x)


def reference(np, seed, x, *, block=8):
    """The same bits, asked for outside of a kernel."""
    cells = range(-(-x.shape[0] // block))
    bits = tnp.concatenate([tl.counter_uniform((block,), seed[0], i) for i in cells])
    kept = (np.asarray(bits) < KEPT)[: x.shape[0]]
    return np.where(kept, x / KEPT, 0)


def make(rng, n):
    return rng.integers(0, 1000, 1, "int32"), floats(rng, n)


SIZES = [Size(64), Size(37), Size(1)]
DIFFERENTIABLE = (1,)


def one_block_too_many(seed, x):
    return call(seed, x, grid=9)


def one_block(seed, x):
    return call(seed, x, out_specs=tl.BlockSpec((8,), lambda i: 0), dimension_semantics=["parallel"])


WRONG = [
    Wrong(OutOfBoundsError, one_block_too_many, ("kernel dropout", "operand x", "cell (8,)", "64 to 71", "has 64")),
    Wrong(RaceError, one_block, ("kernel dropout", "(0,) and (1,)", "block (0,)", "output o", "axis 0")),
]
