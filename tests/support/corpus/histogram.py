"""Histogram by atomics: parallel cells count their part of the values into one array of bins.

Without the atomic, two cells that meet the same bin would lose a count; the interpreter finds that race.
"""

import functools

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError

BINS = 7


def histogram(x, start, o, *, n, block):
    place = tl.program_id(0) * block + tnp.arange(block, dtype=tnp.int32)
    tl.atomic_add(o, (x[...],), tnp.ones(x.shape, o.dtype), mask=place < n)


def plain_add(x, start, o, *, n, block):
    for k in range(block):
        o[x[k]] += 1


def call(x, *, block=4, body=histogram, **changes):
    n = x.shape[0]
    bins = tl.BlockSpec(memory_space=tl.ANY)
    options = {
        "grid": tl.cdiv(n, block),
        "in_specs": [tl.BlockSpec((block,), lambda i: i, fill=0), bins],
        "out_specs": bins,
        "input_output_aliases": {1: 0},
        "dimension_semantics": ["parallel"],
        "name": body.__name__,
    }
    zeros = tnp.zeros((BINS,), tnp.int32)
    one = functools.partial(body, n=n, block=block)
    return tl.kernel_call(one, tw.ShapeDtypeStruct((BINS,), tnp.int32), **options | changes)(x, zeros)


def reference(np, x):
    return (x[:, None] == np.arange(BINS)).sum(axis=0).astype(np.int32)


def make(rng, n):
    return (rng.integers(0, BINS, n, "int32"),)


SIZES = [Size(12, block=4), Size(13, block=4), Size(1, block=4), Size(3, block=8)]
DIFFERENTIABLE = ()


def one_block_too_many(x, block):
    return call(x, block=block, grid=4)


def without_atomics(x, block):
    return call(x * 0, block=block, body=plain_add, interpret=tl.InterpretParams(detect_races=True))


WRONG = [
    Wrong(OutOfBoundsError, one_block_too_many, ("kernel histogram", "operand x", "cell (3,)", "12 to 15", "has 12")),
    Wrong(RaceError, without_atomics, ("kernel plain_add", "cell (1,)", "cell (0,)", "element (0,) of o", "atomic")),
]
