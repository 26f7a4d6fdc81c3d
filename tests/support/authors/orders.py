"""Order and distance: top-k by rounds, a bitonic sort, k-means, Sinkhorn, a Fourier transform, AdamW in place."""

import tilewright as tw
from tests.support.authors.kit import F32, Case, floats
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp


def largest(x, values, places):
    """One maximum after the other, each struck out."""
    column = lax.broadcasted_iota("int32", x.shape, 1)
    left = x[...]
    for k in range(values.shape[1]):
        top = left.max(axis=1, keepdims=True)
        place = tnp.where(left == top, column, x.shape[1]).min(axis=1, keepdims=True)
        values[:, k : k + 1], places[:, k : k + 1] = top, place
        left = tnp.where(column == place, -tnp.inf, left)


def top_k(x, *, rows=4, count=3, **options):
    n, d = x.shape
    out = tl.BlockSpec((rows, count), lambda i: (i, 0))
    shapes = tw.ShapeDtypeStruct((n, count), x.dtype), tw.ShapeDtypeStruct((n, count), "int32")
    return tl.kernel_call(largest, shapes, grid=(n // rows,), in_specs=[tl.BlockSpec((rows, d), lambda i: (i, 0))],
                          out_specs=(out, out), name="top_k", **options)(x)  # fmt: skip


def top_k_plain(np, x, count=3):
    places = np.argsort(-x, axis=1)[:, :count]
    return np.take_along_axis(x, places, 1), places.astype("int32")


def bitonic(x, o):
    """Pairs at distance `j` exchanged, in runs of `k` that rise and fall in turn."""
    a, (m, n), k = x[...], x.shape, 2
    while k <= n:
        j = k // 2
        while j:
            pairs = a.reshape(m, n // (2 * j), 2, j)
            low, high = pairs[:, :, 0, :], pairs[:, :, 1, :]
            up = (lax.broadcasted_iota("int32", low.shape, 1) * (2 * j) & k) == 0
            small, large = tnp.minimum(low, high), tnp.maximum(low, high)
            a = tnp.stack([tnp.where(up, small, large), tnp.where(up, large, small)], axis=2).reshape(m, n)
            j //= 2
        k *= 2
    o[...] = a


def by_rows(body, name):
    def call(x, *, rows=4, **options):
        block = tl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
        return tl.kernel_call(body, x, grid=(x.shape[0] // rows,), in_specs=[block], out_specs=block, name=name,
                              **options)(x)  # fmt: skip
    return call


def means(x, centres, sums, counts):
    """Each point to the nearest centre: the sum and the number of the points of each."""
    @tl.when(tl.program_id(0) == 0)
    def _():
        sums[...], counts[...] = tnp.zeros_like(sums), tnp.zeros_like(counts)

    points = x[...]
    cross = lax.dot_general(points, centres[...], (((1,), (1,)), ((), ())), preferred_element_type="float32")
    distance = (centres[...] ** 2).sum(axis=1)[None, :] - 2 * cross
    nearest = distance == distance.min(axis=1, keepdims=True)
    mine = nearest.astype("float32")
    sums[...] += lax.dot_general(mine, points, (((0,), (0,)), ((), ())), preferred_element_type="float32")
    counts[...] += mine.sum(axis=0, keepdims=True)


def k_means(x, centres, *, rows=4, **options):
    (n, d), k = x.shape, centres.shape[0]
    whole = [tl.BlockSpec(s, lambda i: (0, 0)) for s in ((k, d), (1, k))]
    shapes = tw.ShapeDtypeStruct((k, d), "float32"), tw.ShapeDtypeStruct((1, k), "float32")
    return tl.kernel_call(means, shapes, grid=(n // rows,), out_specs=tuple(whole), name="k_means",
                          in_specs=[tl.BlockSpec((rows, d), lambda i: (i, 0)), whole[0]],
                          **options)(x, centres)  # fmt: skip


def k_means_plain(np, x, centres):
    distance = ((x[:, None] - centres[None]) ** 2).sum(-1)
    mine = (distance == distance.min(1, keepdims=True)).astype("float32")
    return mine.T @ x, mine.sum(0, keepdims=True)


def balanced(x, o, *, turns):
    """Rows and columns scaled in turn until both sum to one, in logarithms."""
    def logsum(a, axis):
        top = a.max(axis=axis, keepdims=True)
        return top + tnp.log(tnp.exp(a - top).sum(axis=axis, keepdims=True))

    def turn(_, c):
        u, v = c
        u = -logsum(x[...] + v, 1)
        return u, -logsum(x[...] + u, 0)

    u, v = lax.fori_loop(0, turns, turn, (tnp.zeros((x.shape[0], 1)), tnp.zeros((1, x.shape[1]))))
    o[...] = tnp.exp(x[...] + u + v)


def sinkhorn(x, *, turns=4, **options):
    block = tl.BlockSpec((None, *x.shape[1:]), lambda i: (i, 0, 0))
    return tl.kernel_call(lambda *refs: balanced(*refs, turns=turns), x, grid=(x.shape[0],), in_specs=[block],
                          out_specs=block, name="sinkhorn", **options)(x)  # fmt: skip


def sinkhorn_plain(np, x, turns=4):
    u, v = np.zeros((*x.shape[:2], 1)), np.zeros((x.shape[0], 1, x.shape[2]))
    for _ in range(turns):
        u = -np.log(np.exp(x + v).sum(2, keepdims=True))
        v = -np.log(np.exp(x + u).sum(1, keepdims=True))
    return np.exp(x + u + v)


def stages(real, imaginary, cosines, sines, re, im, *, n):
    """Stockham's radix-2 transform, its roots of unity given."""
    a, b, half, stride = real[...], imaginary[...], n // 2, 1
    rows = a.shape[0]
    while half:
        a2, b2 = a.reshape(rows, 2, half, stride), b.reshape(rows, 2, half, stride)
        c = cosines[0, : n // 2].reshape(half, stride)[None, :, :1]
        s = sines[0, : n // 2].reshape(half, stride)[None, :, :1]
        sum_a, sum_b = a2[:, 0] + a2[:, 1], b2[:, 0] + b2[:, 1]
        dif_a, dif_b = a2[:, 0] - a2[:, 1], b2[:, 0] - b2[:, 1]
        a = tnp.stack([sum_a, dif_a * c + dif_b * s], axis=2).reshape(rows, n)
        b = tnp.stack([sum_b, dif_b * c - dif_a * s], axis=2).reshape(rows, n)
        half, stride = half // 2, stride * 2
    re[...], im[...] = a, b


def fourier(real, imaginary, *, rows=2, **options):
    n = real.shape[1]
    angle = 2 * tnp.pi * tnp.arange(n // 2, dtype="float32")[None] / n
    block, root = tl.BlockSpec((rows, n), lambda i: (i, 0)), tl.BlockSpec((1, n // 2), lambda i: (0, 0))
    return tl.kernel_call(
        lambda *refs: stages(*refs, n=n), (real, imaginary), grid=(real.shape[0] // rows,), name="fourier",
        in_specs=[block, block, root, root], out_specs=(block, block), **options,
    )(real, imaginary, tnp.cos(angle), tnp.sin(angle))  # fmt: skip


def fourier_plain(np, real, imaginary):
    angle = -2 * np.pi * np.arange(real.shape[1])[:, None] * np.arange(real.shape[1])[None] / real.shape[1]
    c, s = np.cos(angle), np.sin(angle)
    return real @ c - imaginary @ s, real @ s + imaginary @ c


def update(p, m, v, g, new_p, new_m, new_v):
    new_m[...] = 0.9 * m[...] + 0.1 * g[...]
    new_v[...] = 0.99 * v[...] + 0.01 * g[...] * g[...]
    new_p[...] = p[...] - 0.1 * (new_m[...] / (tnp.sqrt(new_v[...]) + 1e-4) + 0.01 * p[...])


def adamw(p, m, v, g, *, rows=4, **options):
    block = tl.BlockSpec((rows, p.shape[1]), lambda i: (i, 0))
    return tl.kernel_call(update, (p, m, v), grid=(p.shape[0] // rows,), in_specs=[block] * 4, out_specs=(block,) * 3,
                          input_output_aliases={0: 0, 1: 1, 2: 2}, name="adamw", **options)(p, m, v, g)  # fmt: skip


def adamw_plain(np, p, m, v, g):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 0.1 * (m / (np.sqrt(v) + 1e-4) + 0.01 * p), m, v


def moments(rng):
    return floats(rng, 8, 8), floats(rng, 8, 8), abs(floats(rng, 8, 8)) + 0.1, floats(rng, 8, 8)


CASES = (
    Case("top_k", top_k, top_k_plain, lambda rng: (floats(rng, 8, 10),), (F32(256, 512),), (0,), None,
         {"rows": 8, "count": 8}),
    Case("bitonic_sort", by_rows(bitonic, "bitonic_sort"), lambda np, x: np.sort(x, 1),
         lambda rng: (floats(rng, 8, 16),), (F32(64, 32),), (0,), None, {"rows": 8}),
    Case("k_means", k_means, k_means_plain, lambda rng: (floats(rng, 12, 4), floats(rng, 3, 4)),
         (F32(4096, 64), F32(32, 64)), (0,), (0, None), {"rows": 256}),
    Case("sinkhorn", sinkhorn, sinkhorn_plain, lambda rng: (floats(rng, 2, 5, 6),), (F32(8, 64, 128),), (0,), None,
         {"turns": 20}, 1e-4),
    Case("fourier", fourier, fourier_plain, lambda rng: (floats(rng, 4, 8), floats(rng, 4, 8)),
         (F32(64, 128), F32(64, 128)), (0, 1), None, {"rows": 8}, 1e-4),
    Case("adamw", adamw, adamw_plain, moments, (F32(2048, 1024),) * 4, (0, 1, 2, 3), None, {"rows": 8}, 1e-4),
)  # fmt: skip
