"""Attention with online softmax, causal or not: the matrix of scores is never whole in memory.

For a block of queries the cells along the last axis see one block of keys and values each. Scratch holds what is
known so far: the largest score of each row, the sum of the exponentials relative to it, and the weighted sum of
the values; both sums are rescaled when a larger score comes. Causal, blocks above the diagonal are skipped.
"""

import functools

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def flash_attention(q, k, v, o, top, norm, total, *, keys, causal):
    i, j = tl.program_id(1), tl.program_id(2)
    rows, columns = q.shape[0], k.shape[0]
    low = float(tnp.finfo(top.dtype).min) / 2  # finite in any dtype, and so are its differences from scores

    @tl.when(j == 0)
    def _():
        top[...] = tnp.full(top.shape, low, top.dtype)
        norm[...] = tnp.zeros(norm.shape, norm.dtype)
        total[...] = tnp.zeros(total.shape, total.dtype)

    @tl.when(j * columns < (i + 1) * rows if causal else True)
    def _():
        scores = q[...] @ k[...].T * q.shape[1] ** -0.5
        row = i * rows + tnp.arange(rows)[:, None]
        column = j * columns + tnp.arange(columns)[None, :]
        seen = (column < keys) & (column <= row) if causal else column < keys
        scores = tnp.where(seen, scores, low)
        largest = tnp.maximum(top[...], scores.max(axis=-1, keepdims=True))
        weights = tnp.exp(scores - largest)
        scale = tnp.exp(top[...] - largest)
        norm[...] = norm[...] * scale + weights.sum(axis=-1, keepdims=True)
        total[...] = total[...] * scale + weights @ v[...]
        top[...] = largest

    @tl.when(j == tl.num_programs(2) - 1)
    def _():
        o[...] = total[...] / norm[...]


def call(q, k, v, *, rows=4, columns=4, causal=False, **changes):
    (b, n, d), keys = q.shape, k.shape[1]
    block = tl.BlockSpec((None, rows, d), lambda b, i, j: (b, i, 0))
    other = tl.BlockSpec((None, columns, d), lambda b, i, j: (b, j, 0), fill=0)
    options = {
        "grid": (b, tl.cdiv(n, rows), tl.cdiv(keys, columns)),
        "in_specs": [block, other, other],
        "out_specs": block,
        "scratch_shapes": [tl.VMEM(s, q.dtype) for s in ((rows, 1), (rows, 1), (rows, d))],
        "dimension_semantics": ["parallel", "parallel", "arbitrary"],
        "name": "flash_attention",
    }
    body = functools.partial(flash_attention, keys=keys, causal=causal)
    return tl.kernel_call(body, tw.ShapeDtypeStruct(q.shape, q.dtype), **options | changes)(q, k, v)


def reference(np, q, k, v, *, causal=False):
    scores = np.einsum("bqd,bkd->bqk", q, k) * q.shape[2] ** -0.5
    if causal:
        scores = np.where(np.tri(q.shape[1], k.shape[1], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bqk,bkd->bqd", e / e.sum(axis=-1, keepdims=True), v)


def make(rng, b, n, keys, d):
    return floats(rng, b, n, d), floats(rng, b, keys, d), floats(rng, b, keys, d)


SIZES = [Size(2, 8, 8, 4), Size(1, 7, 11, 3), Size(1, 1, 1, 1), Size(1, 5, 3, 2, rows=8, columns=2)]
MODES = ({"causal": False}, {"causal": True})
DIFFERENTIABLE = (0, 1, 2)
TOLERANCE = 2e-5


def too_many_keys(q, k, v):
    return call(q, k, v, grid=(2, 2, 3))


def all_parallel(q, k, v):
    return call(q, k, v, dimension_semantics=["parallel"] * 3)


WRONG = [
    Wrong(
        OutOfBoundsError, too_many_keys, ("kernel flash_attention", "operand k", "cell (0, 0, 2)", "8 to 11", "has 8")
    ),
    Wrong(RaceError, all_parallel, ("kernel flash_attention", "axis 2", "declared parallel")),
]
