"""Attention with grouped heads, a causal mask and a window; with pages by a table of blocks; a ring cache by copies."""

import functools

import tilewright as tw
from tests.support.authors.kit import BF16, F32, I32, Case, floats
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp

LOW = -1e30


def start(top, norm, total):
    top[...], norm[...], total[...] = tnp.full(top.shape, LOW), tnp.zeros(norm.shape), tnp.zeros(total.shape)


def online(scores, seen, v, top, norm, total):
    """One block of keys and values: softmax so far, rescaled as larger scores come."""
    scores = tnp.where(seen, scores, LOW)
    largest = tnp.maximum(top[...], scores.max(axis=1, keepdims=True))
    weights = tnp.where(seen, tnp.exp(scores - largest), 0)
    scale = tnp.exp(top[...] - largest)
    norm[...] = norm[...] * scale + weights.sum(axis=1, keepdims=True)
    total[...] = total[...] * scale + tnp.dot(weights.astype(v.dtype), v[...], preferred_element_type="float32")
    top[...] = largest


def product(a, b):
    return lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type="float32")


def state(rows, width):
    return [tl.VMEM((rows, 1), "float32"), tl.VMEM((rows, 1), "float32"), tl.VMEM((rows, width), "float32")]


def windowed(q, k, v, o, top, norm, total, *, keys, window):
    i, j = tl.program_id(2), tl.program_id(3)
    rows, columns = q.shape[0], k.shape[0]
    tl.when(j == 0)(functools.partial(start, top, norm, total))

    @tl.when((j * columns <= i * rows + rows - 1) & (j * columns + columns - 1 >= i * rows - window + 1))
    def _():
        row = i * rows + lax.broadcasted_iota("int32", (rows, columns), 0)
        column = j * columns + lax.broadcasted_iota("int32", (rows, columns), 1)
        seen = (row >= column) & (row - column < window) & (column < keys)
        online(product(q[...], k[...]) * q.shape[1] ** -0.5, seen, v, top, norm, total)

    @tl.when(j == tl.num_programs(3) - 1)
    def _():
        o[...] = (total[...] / norm[...]).astype(o.dtype)


def flash_window(q, k, v, *, rows=4, columns=4, window=5, **options):
    (b, heads, n, d), shared = q.shape, q.shape[1] // k.shape[1]
    mine = tl.BlockSpec((None, None, rows, d), lambda b, h, i, j: (b, h, i, 0))
    other = tl.BlockSpec((None, None, columns, d), lambda b, h, i, j: (b, h // shared, j, 0), fill=0)
    return tl.kernel_call(
        functools.partial(windowed, keys=n, window=window), tw.ShapeDtypeStruct(q.shape, q.dtype), name="flash_window",
        grid=(b, heads, tl.cdiv(n, rows), tl.cdiv(n, columns)), in_specs=[mine, other, other], out_specs=mine,
        scratch_shapes=state(rows, d), dimension_semantics=("parallel",) * 3 + ("arbitrary",), **options,
    )(q, k, v)  # fmt: skip


def flash_window_plain(np, q, k, v, window=5):
    shared, n = q.shape[1] // k.shape[1], q.shape[2]
    k, v = np.repeat(k, shared, 1), np.repeat(v, shared, 1)
    row, column = np.arange(n)[:, None], np.arange(n)[None]
    seen = (row >= column) & (row - column < window)
    scores = np.where(seen, np.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[3] ** -0.5, LOW)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", e / e.sum(-1, keepdims=True), v)


def paged(table, lengths, q, k, v, o, top, norm, total):
    b, j, page = tl.program_id(0), tl.program_id(2), k.shape[0]
    tl.when(j == 0)(functools.partial(start, top, norm, total))

    @tl.when(j * page < lengths[b])
    def _():
        place = j * page + lax.broadcasted_iota("int32", (q.shape[0], page), 1)
        online(product(q[...], k[...]) * q.shape[1] ** -0.5, place < lengths[b], v, top, norm, total)

    @tl.when(j == tl.num_programs(2) - 1)
    def _():
        o[...] = (total[...] / norm[...]).astype(o.dtype)


def paged_attention(table, lengths, q, k, v, **options):
    b, heads, group, d = q.shape
    pages = tl.BlockSpec((None, None, k.shape[2], d), lambda b, h, j, table, lengths: (h, table[b, j], 0, 0))
    mine = tl.BlockSpec((None, None, group, d), lambda b, h, j, *_: (b, h, 0, 0))
    return tl.kernel_call(
        paged, tw.ShapeDtypeStruct(q.shape, q.dtype), name="paged_attention",
        grid_spec=tl.PrefetchScalarGridSpec(2, (b, heads, table.shape[1]), [mine, pages, pages], mine, state(group, d)),
        dimension_semantics=("parallel", "parallel", "arbitrary"), **options)(table, lengths, q, k, v)  # fmt: skip


def paged_plain(np, table, lengths, q, k, v):
    def rows(pages):  # the pages of each sequence, side by side
        picked = np.stack([np.concatenate([pages[:, t] for t in row], 1) for row in table])
        return picked

    keys, values = rows(k), rows(v)
    seen = np.arange(keys.shape[2]) < lengths[:, None, None, None]
    scores = np.where(seen, np.einsum("bhgd,bhkd->bhgk", q, keys) * q.shape[3] ** -0.5, LOW)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhgk,bhkd->bhgd", e / e.sum(-1, keepdims=True), values)


def ring(at, new, old, cache, sem):
    """Each sequence's newest rows to its place in the ring, by a copy: the rest of the cache stays where it is."""
    b = tl.program_id(0)
    copy = tl.make_async_copy(new.at[b], cache.at[b, tl.ds(tl.multiple_of(at[b], new.shape[1]), new.shape[1])], sem)
    copy.start()
    copy.wait()


def ring_cache(at, new, cache, **options):
    far = tl.BlockSpec(memory_space=tl.ANY)
    return tl.kernel_call(
        ring, tw.ShapeDtypeStruct(cache.shape, cache.dtype), name="ring_cache", input_output_aliases={2: 0},
        grid_spec=tl.PrefetchScalarGridSpec(1, (new.shape[0],), [far, far], far, [tl.SemaphoreType.DMA]),
        **options)(at, new, cache)  # fmt: skip


def ring_plain(np, at, new, cache):
    place = np.arange(cache.shape[1])[None] - at[:, None]
    inside = (place >= 0) & (place < new.shape[1])
    picked = np.take_along_axis(new, np.clip(place, 0, new.shape[1] - 1)[..., None], 1)
    return np.where(inside[..., None], picked, cache)


def tables(rng, b, pages, each, size):
    table = rng.permutation(pages)[: b * each].reshape(b, each).astype("int32")
    return table, rng.integers(1, each * size + 1, b).astype("int32")


CASES = (
    Case("flash_window", flash_window, flash_window_plain,
         lambda rng: (floats(rng, 1, 4, 10, 4), floats(rng, 1, 2, 10, 4), floats(rng, 1, 2, 10, 4)),
         (BF16(2, 8, 1024, 64), BF16(2, 2, 1024, 64), BF16(2, 2, 1024, 64)), (0, 1, 2), None,
         {"rows": 64, "columns": 64, "window": 512}),
    Case("paged_attention", paged_attention, paged_plain,
         lambda rng: (*tables(rng, 2, 6, 3, 4), floats(rng, 2, 2, 3, 4), *floats(rng, 2, 2, 6, 4, 4)),
         (I32(8, 16), I32(8), BF16(8, 4, 16, 128), BF16(4, 256, 64, 128), BF16(4, 256, 64, 128)), (2, 3, 4),
         (None, None, 0, 0, 0)),
    Case("ring_cache", ring_cache, ring_plain,
         lambda rng: (4 * rng.integers(0, 3, 2).astype("int32"), floats(rng, 2, 4, 8), floats(rng, 2, 12, 8)),
         (I32(8), F32(8, 8, 128), F32(8, 1024, 128)), (1, 2), (None, 0, 0)),
)  # fmt: skip
