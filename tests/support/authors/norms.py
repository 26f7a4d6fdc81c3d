"""Dropout by random bits, a residual and an RMS norm in one kernel; cross entropy over blocks of the vocabulary."""

import tilewright as tw
from tests.support.authors.kit import BF16, I32, Case, floats
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp

KEPT, LOW = 0.75, -1e30


def fused(seed, x, residual, w, o, total):
    bits = tl.counter_uniform(x.shape, seed[0], tl.program_id(0))
    h = tnp.where(bits < KEPT, x[...].astype("float32") / KEPT, 0) + residual[...].astype("float32")
    total[...] = h.astype(total.dtype)
    scale = lax.rsqrt(tnp.mean(h * h, axis=1, keepdims=True) + 1e-5)
    o[...] = (h * scale * w[...].astype("float32")).astype(o.dtype)


def norm_dropout(seed, x, residual, w, *, rows=4, **options):
    n, d = x.shape
    block = tl.BlockSpec((rows, d), lambda i: (i, 0))
    shape = tw.ShapeDtypeStruct(x.shape, x.dtype)
    return tl.kernel_call(
        fused, (shape, shape), grid=(n // rows,), name="norm_dropout", out_specs=(block, block),
        in_specs=[tl.BlockSpec(memory_space=tl.SMEM), block, block, tl.BlockSpec((1, d), lambda i: (0, 0))], **options,
    )(seed, x, residual, w)  # fmt: skip


def norm_dropout_plain(np, seed, x, residual, w, rows=4):
    bits = tnp.concatenate([tl.counter_uniform((rows, x.shape[1]), seed[0], i) for i in range(x.shape[0] // rows)])
    h = np.where(np.asarray(bits) < KEPT, x / KEPT, 0) + residual
    return h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-5) * w, h


def entropy(logits, labels, loss, top, norm, picked, *, vocabulary):
    j = tl.program_id(1)

    @tl.when(j == 0)
    def _():
        top[...], norm[...], picked[...] = tnp.full(top.shape, LOW), tnp.zeros(norm.shape), tnp.zeros(picked.shape)

    column = j * logits.shape[1] + lax.broadcasted_iota("int32", logits.shape, 1)
    x = tnp.where(column < vocabulary, logits[...].astype("float32"), LOW)
    largest = tnp.maximum(top[...], x.max(axis=1, keepdims=True))
    weights = tnp.where(column < vocabulary, tnp.exp(x - largest), 0)
    norm[...] = norm[...] * tnp.exp(top[...] - largest) + weights.sum(axis=1, keepdims=True)
    top[...] = largest
    picked[...] += tnp.where(column == labels[...], x, 0).sum(axis=1, keepdims=True)

    @tl.when(j == tl.num_programs(1) - 1)
    def _():
        loss[...] = top[...] + tnp.log(norm[...]) - picked[...]


def cross_entropy(logits, labels, *, rows=4, columns=8, **options):
    n, v = logits.shape
    one = tl.BlockSpec((rows, 1), lambda i, j: (i, 0))
    return tl.kernel_call(
        lambda *refs: entropy(*refs, vocabulary=v), tw.ShapeDtypeStruct((n, 1), "float32"), name="cross_entropy",
        grid=(tl.cdiv(n, rows), tl.cdiv(v, columns)), out_specs=one, scratch_shapes=[tl.VMEM((rows, 1), "float32")] * 3,
        in_specs=[tl.BlockSpec((rows, columns), lambda i, j: (i, j)), one],
        dimension_semantics=("parallel", "arbitrary"), **options,
    )(logits, labels)  # fmt: skip


def cross_entropy_plain(np, logits, labels):
    top = logits.max(1, keepdims=True)
    rows = np.take_along_axis(logits, labels, 1)
    return top + np.log(np.exp(logits - top).sum(1, keepdims=True)) - rows


CASES = (
    Case("norm_dropout", norm_dropout, norm_dropout_plain,
         lambda rng: (rng.integers(0, 99, 1, "int32"), floats(rng, 8, 16), floats(rng, 8, 16), floats(rng, 1, 16)),
         (I32(1), BF16(512, 1024), BF16(512, 1024), BF16(1, 1024)), (1, 2, 3), (None, 0, 0, None), {"rows": 8}),
    Case("cross_entropy", cross_entropy, cross_entropy_plain,
         lambda rng: (3 * floats(rng, 6, 20), rng.integers(0, 20, (6, 1), "int32")),
         (BF16(256, 50257), I32(256, 1)), (0,), None, {"rows": 16, "columns": 2048}),
)  # fmt: skip
