"""Small kernels of every kind, each with operands and the plain NumPy function it computes."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType

F32 = np.dtype(np.float32)


def out(*shape: int, dtype: Any = F32) -> ArrayType:
    return ArrayType(shape, dtype)


@dataclass
class Example:
    """A kernel with operands and the plain function it computes."""

    name: str
    body: Callable[..., None]
    out_shape: Any
    operands: list[Any]
    reference: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-5

    def call(self, **more: Any) -> Callable[..., Any]:
        return tl.kernel_call(self.body, self.out_shape, name=self.name, **(self.options | more))


def rand(*shape: int, seed: int = 0, dtype: Any = F32) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------------------- bodies


def saxpy(x, y, o):
    o[...] = 2.0 * x[...] + y[...]


def transposed(x, o):
    o[...] = x[...].T


def row_softmax(x, o):
    v = x[...]
    e = tnp.exp(v - v.max(axis=-1, keepdims=True))
    o[...] = e / e.sum(axis=-1, keepdims=True)


def matmul(x, y, o, axis=2):
    @tl.when(tl.program_id(axis) == 0)
    def _():
        o[...] = tnp.zeros_like(o[...])

    o[...] += x[...] @ y[...]


def matmul_scratch(x, y, b, o, acc):
    k = tl.program_id(2)

    @tl.when(k == 0)
    def _():
        acc[...] = tnp.zeros(acc.shape, acc.dtype)

    acc[...] += tnp.dot(x[...], y[...], preferred_element_type=np.float32)

    @tl.when(k == tl.num_programs(2) - 1)
    def _():
        o[...] = tnp.tanh(acc[...] + b[...])


def matmul_loop(x, y, o):
    def step(k, acc):
        return acc + x[:, tl.ds(k * 4, 4)] @ y[tl.ds(k * 4, 4), :]

    o[...] = lax.fori_loop(0, 3, step, tnp.zeros(o.shape, o.dtype))


def loop_into_ref(x, o):
    o[...] = tnp.zeros(o.shape, o.dtype)

    def step(i, _):
        o[...] += x[i] * (i + 1)
        return 0

    lax.fori_loop(0, 4, step, 0)


def column_sum(x, o):
    @tl.when(tl.program_id(0) == 0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    o[...] += x[...].sum(axis=0)


def masked_sum(x, o, *, n, block):
    i = tl.program_id(0)

    @tl.when(i == 0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    rows = i * block + tnp.arange(block)
    o[...] += tnp.where((rows < n)[:, None], x[...], 0.0).sum(axis=0)


def blocked_cumsum(x, o, carry):
    @tl.when(tl.program_id(0) == 0)
    def _():
        carry[...] = tnp.zeros(carry.shape, carry.dtype)

    part = tnp.cumsum(x[...], axis=0) + carry[...]
    o[...] = part
    carry[...] = part[-1:]


def online_softmax(q, k, v, o, m, s, acc):
    j = tl.program_id(2)

    @tl.when(j == 0)
    def _():
        m[...] = tnp.full(m.shape, -1e30, m.dtype)
        s[...] = tnp.zeros(s.shape, s.dtype)
        acc[...] = tnp.zeros(acc.shape, acc.dtype)

    scores = q[...] @ k[...].T * 0.5
    new = tnp.maximum(m[...], scores.max(axis=-1, keepdims=True))
    p = tnp.exp(scores - new)
    alpha = tnp.exp(m[...] - new)
    s[...] = s[...] * alpha + p.sum(axis=-1, keepdims=True)
    acc[...] = acc[...] * alpha + p @ v[...]
    m[...] = new

    @tl.when(j == tl.num_programs(2) - 1)
    def _():
        o[...] = acc[...] / s[...]


def attention(q, k, v):
    s = np.einsum("bqd,bkd->bqk", q, k) * 0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bqk,bkd->bqd", e / e.sum(-1, keepdims=True), v)


def two_outputs(x, sums, doubled):
    doubled[...] = x[...] * 2.0

    @tl.when(tl.program_id(1) == 0)
    def _():
        sums[...] = tnp.zeros(sums.shape, sums.dtype)

    sums[...] += x[...].sum(axis=1, keepdims=True)


def tree_body(pair, o):
    o["sum"][...] = pair["a"][...] + pair["b"][0][...]


def add_in_place(x, delta, o):
    o[...] += delta[...]


def embed(ids, table, o):
    o[...] = table[...]


def ids_table(o):
    o[...] = tnp.full(o.shape, 10 * tl.program_id(0) + tl.program_id(1), o.dtype)


def window_sum(x, o):
    v = x[...]
    o[...] = v[:-2] + v[1:-1] + v[2:]


def vector_load(x, o):
    i = tl.program_id(0)
    at = tl.ds(i * 4, 4)
    mask = i * 4 + tnp.arange(4) < 10
    o[...] = tl.load(x, (at,), mask=mask, other=0.0)


def vector_store(x, o):
    i = tl.program_id(0)

    @tl.when(i == 0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    tl.store(o, (tl.ds(i * 4, 4),), x[...], mask=i * 4 + tnp.arange(4) < 10)


def take_rows(x, idx, o):
    o[...] = x[idx[...]]


def histogram(x, o):
    @tl.when(tl.program_id(0) == 0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    tl.addupdate(o, (x[...],), tnp.ones(x.shape, o.dtype))


def diagonal(x, o):
    o[...] = x[...] * 3.0


def reversed_blocks(x, o):
    o[...] = x[...]


def padded_max(x, o):
    o[...] = x[...].max(axis=0, keepdims=True)


def strided(x, o):
    o[...] = x[tl.ds(0, 4, 2)] + x[1::2]


def layer_norm(x, g, b, o):
    v = x[...]
    c = v - v.mean(axis=-1, keepdims=True)
    o[...] = c / tnp.sqrt((c * c).mean(axis=-1, keepdims=True) + 1e-5) * g[...] + b[...]


def layer_norm_reference(x, g, b):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g + b


def conv1d(x, w, o):
    v = x[...]
    o[...] = sum(v[t : t + o.shape[0]] * w[t] for t in range(w.shape[0]))


def linear_recurrence(a, b, o, h):
    """h[t] = a[t] h[t-1] + b[t], a block of steps at a time."""

    @tl.when(tl.program_id(1) == 0)
    def _():
        h[...] = tnp.zeros(h.shape, h.dtype)

    def step(t, _):
        h[...] = a[t] * h[...] + b[t]
        o[t] = h[...]
        return 0

    lax.fori_loop(0, a.shape[0], step, 0)


def recurrence_reference(a, b):
    h, out = np.zeros_like(a[0]), []
    for t in range(len(a)):
        h = a[t] * h + b[t]
        out.append(h)
    return np.stack(out)


def running_max(x, o, m):
    @tl.when(tl.program_id(0) == 0)
    def _():
        m[...] = tnp.full(m.shape, -np.inf, m.dtype)

    m[...] = tnp.maximum(m[...], x[...].max(axis=0, keepdims=True))
    o[...] = m[...]


def distances(x, y, o):
    d = x[...][:, None, :] - y[...][None, :, :]
    o[...] = (d * d).sum(axis=-1)


def several_states(x, mean, square, total):
    @tl.when(tl.program_id(1) == 0)
    def _():
        mean[...] = tnp.zeros(mean.shape, mean.dtype)
        square[...] = tnp.zeros(square.shape, square.dtype)

    @tl.when((tl.program_id(0) == 0) & (tl.program_id(1) == 0))
    def _():
        total[...] = tnp.zeros(total.shape, total.dtype)

    v = x[...]
    mean[...] += v.sum(axis=1, keepdims=True)
    square[...] = square[...] + (v * v).sum(axis=1, keepdims=True)
    total[...] += v.sum()

    @tl.when(tl.program_id(1) == tl.num_programs(1) - 1)
    def _():
        mean[...] = mean[...] / 12.0
        square[...] = square[...] / 12.0 - mean[...] ** 2


B = tl.BlockSpec
x16, y16 = rand(16, 16), rand(16, 16, seed=5)
mm_specs = [B((4, 8), lambda i, j, k: (i, k)), B((8, 4), lambda i, j, k: (k, j))]
q, k, v = (rand(2, 16, 4, seed=s) for s in range(3))
flash = {
    "grid": (2, 4, 4),
    "in_specs": [B((None, 4, 4), lambda b, i, j: (b, i, 0)), *[B((None, 4, 4), lambda b, i, j: (b, j, 0))] * 2],
    "out_specs": B((None, 4, 4), lambda b, i, j: (b, i, 0)),
    "scratch_shapes": [tl.VMEM((4, 1), F32), tl.VMEM((4, 1), F32), tl.VMEM((4, 4), F32)],
}
ids = np.array([3, 0, 3, 1, 7], np.int32)
bins = np.random.default_rng(0).integers(0, 5, 12).astype(np.int32)

EXAMPLES = [
    Example("saxpy_whole", saxpy, out(5), [rand(5), rand(5, seed=1)], lambda x, y: 2 * x + y),
    Example("saxpy_ragged", saxpy, out(10), [rand(10), rand(10, seed=1)], lambda x, y: 2 * x + y,
            {"grid": 3, "in_specs": [B((4,), lambda i: i)] * 2, "out_specs": B((4,), lambda i: (i,))}),
    Example("saxpy_short", saxpy, out(3), [rand(3), rand(3, seed=1)], lambda x, y: 2 * x + y,
            {"grid": (1,), "in_specs": B((8,), lambda i: i), "out_specs": B((8,), lambda i: (i,))}),
    Example("transpose", transposed, out(12, 8), [rand(8, 12)], lambda x: x.T,
            {"grid": (2, 3), "in_specs": [B((4, 4), lambda i, j: (i, j))],
             "out_specs": B((4, 4), lambda i, j: (j, i))}),
    Example("row_softmax", row_softmax, out(7, 6), [rand(7, 6)],
            lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
            {"grid": 4, "in_specs": [B((2, 6), lambda i: (i, 0))], "out_specs": B((2, 6), lambda i: (i, 0))}),
    Example("matmul", matmul, out(16, 16), [x16, y16], lambda x, y: x @ y,
            {"grid": (4, 4, 2), "in_specs": mm_specs, "out_specs": B((4, 4), lambda i, j, k: (i, j))}),
    Example("matmul_batched", functools.partial(matmul, axis=3), out(3, 16, 16),
            [rand(3, 16, 16), rand(3, 16, 16, seed=9)], lambda x, y: x @ y,
            {"grid": (3, 4, 4, 2),
             "in_specs": [B((None, 4, 8), lambda b, i, j, k: (b, i, k)), B((None, 8, 4), lambda b, i, j, k: (b, k, j))],
             "out_specs": B((None, 4, 4), lambda b, i, j, k: (b, i, j))}),
    Example("matmul_fused", matmul_scratch, out(16, 16), [x16, y16, rand(1, 16)], lambda x, y, b: np.tanh(x @ y + b),
            {"grid": (4, 4, 2), "in_specs": [*mm_specs, B((1, 4), lambda i, j, k: (0, j))],
             "out_specs": B((4, 4), lambda i, j, k: (i, j)), "scratch_shapes": [tl.VMEM((4, 4), F32)]}),
    Example("matmul_loop", matmul_loop, out(8, 8), [rand(8, 12), rand(12, 8)], lambda x, y: x @ y,
            {"grid": (2, 2), "in_specs": [B((4, 12), lambda i, j: (i, 0)), B((12, 4), lambda i, j: (0, j))],
             "out_specs": B((4, 4), lambda i, j: (i, j))}),
    Example("loop_into_ref", loop_into_ref, out(2, 3), [rand(2, 4, 3)],
            lambda x: (x * np.arange(1, 5)[None, :, None]).sum(1),
            {"grid": 2, "in_specs": [B((None, 4, 3), lambda b: (b, 0, 0))],
             "out_specs": B((None, 3), lambda b: (b, 0))}),
    Example("column_sum", column_sum, out(6), [rand(8, 6)], lambda x: x.sum(0),
            {"grid": 4, "in_specs": [B((2, 6), lambda i: (i, 0))]}),
    Example("masked_sum", lambda x, o: masked_sum(x, o, n=7, block=2), out(6), [rand(7, 6)], lambda x: x.sum(0),
            {"grid": 4, "in_specs": [B((2, 6), lambda i: (i, 0))]}),
    Example("fill_sum", column_sum, out(6), [rand(7, 6)], lambda x: x.sum(0),
            {"grid": 4, "in_specs": [B((2, 6), lambda i: (i, 0), fill=0)]}),
    Example("blocked_cumsum", blocked_cumsum, out(12, 3), [rand(12, 3)], lambda x: np.cumsum(x, 0),
            {"grid": 3, "in_specs": [B((4, 3), lambda i: (i, 0))], "out_specs": B((4, 3), lambda i: (i, 0)),
             "scratch_shapes": [tl.VMEM((1, 3), F32)]}),
    Example("flash_attention", online_softmax, out(2, 16, 4), [q, k, v], attention, flash),
    Example("two_outputs", two_outputs, (out(8, 1), out(8, 6)), [rand(8, 6)],
            lambda x: (x.sum(1, keepdims=True), 2 * x),
            {"grid": (2, 3), "in_specs": [B((4, 2), lambda i, j: (i, j))],
             "out_specs": (B((4, 1), lambda i, j: (i, 0)), B((4, 2), lambda i, j: (i, j)))}),
    Example("pytrees", tree_body, {"sum": out(4)}, [{"a": rand(4), "b": [rand(4, seed=3)]}],
            lambda p: {"sum": p["a"] + p["b"][0]}),
    Example("alias", add_in_place, out(8), [rand(8), rand(8, seed=2)], lambda x, d: x + d,
            {"grid": 2, "in_specs": [B((4,), lambda i: i)] * 2, "out_specs": B((4,), lambda i: i),
             "input_output_aliases": {0: 0}}),
    Example("alias_part", add_in_place, out(8), [rand(8), rand(8, seed=2)],
            lambda x, d: np.concatenate([x[:4], x[4:] + d[4:]]),
            {"grid": 1, "in_specs": [B((4,), lambda i: i + 1)] * 2, "out_specs": B((4,), lambda i: i + 1),
             "input_output_aliases": {0: 0}}),
    Example("embedding", embed, out(5, 4), [ids, rand(8, 4)], lambda i, t: t[i],
            {"grid_spec": tl.PrefetchScalarGridSpec(1, (5,), [B((1, 4), lambda i, ids: (ids[i], 0))],
                                                    B((1, 4), lambda i, ids: (i, 0)))}),
    Example("scatter_rows", embed, out(8, 4), [np.array([2, 0, 3, 1], np.int32), rand(8, 4)],
            lambda i, t: t.reshape(4, 2, 4)[np.argsort(i)].reshape(8, 4),
            {"grid_spec": tl.PrefetchScalarGridSpec(1, (4,), [B((2, 4), lambda i, ids: (i, 0))],
                                                    B((2, 4), lambda i, ids: (ids[i], 0)))}),
    Example("program_ids", ids_table, out(6, 6, dtype=np.int32), [],
            lambda: np.add.outer(10 * np.repeat(np.arange(3), 2), np.repeat(np.arange(2), 3)).astype(np.int32),
            {"grid": (3, 2), "out_specs": B((2, 3), lambda i, j: (i, j))}),
    Example("windows", window_sum, out(8), [rand(10)], lambda x: x[:-2] + x[1:-1] + x[2:],
            {"grid": 2, "in_specs": [B((tl.Element(6),), lambda i: i * 4)], "out_specs": B((4,), lambda i: i)}),
    Example("masked_load", vector_load, out(12), [rand(10)], lambda x: np.concatenate([x, [0, 0]]).astype(F32),
            {"grid": 3, "out_specs": B((4,), lambda i: i)}),
    Example("masked_store", vector_store, out(10), [rand(12)], lambda x: x[:10],
            {"grid": 3, "in_specs": [B((4,), lambda i: i)]}),
    Example("take_rows", take_rows, out(5, 4), [rand(8, 4), ids], lambda x, i: x[i]),
    Example("histogram", histogram, out(5), [bins], lambda x: np.bincount(x, minlength=5).astype(F32),
            {"grid": 3, "in_specs": [B((4,), lambda i: i)]}),
    Example("diagonal", diagonal, out(4, 3), [rand(4, 9)],
            lambda x: 3 * np.stack([x[i, (i % 3) * 3 : (i % 3) * 3 + 3] for i in range(4)]),
            {"grid": 4, "in_specs": [B((1, 3), lambda i: (i, i % 3))], "out_specs": B((1, 3), lambda i: (i, 0))}),
    Example("reversed", reversed_blocks, out(8), [rand(8)], lambda x: x.reshape(4, 2)[::-1].reshape(8),
            {"grid": 4, "in_specs": [B((2,), lambda i: 3 - i)], "out_specs": B((2,), lambda i: i)}),
    Example("flat_grid", saxpy, out(4, 6), [rand(4, 6), rand(4, 6, seed=4)], lambda x, y: 2 * x + y,
            {"grid": 6, "in_specs": [B((2, 2), lambda i: (i // 3, i % 3))] * 2,
             "out_specs": B((2, 2), lambda i: (i // 3, i % 3))}),
    Example("fill_max", padded_max, out(2, 3), [-np.abs(rand(7, 3))], lambda x: np.stack([x[:4].max(0), x[4:].max(0)]),
            {"grid": 2, "in_specs": [B((4, 3), lambda i: (i, 0), fill=-np.inf)],
             "out_specs": B((1, 3), lambda i: (i, 0))}),
    Example("matmul_ragged", matmul, out(13, 5), [rand(13, 7), rand(7, 5)], lambda x, y: x @ y,
            {"grid": (4, 2, 2),
             "in_specs": [B((4, 4), lambda i, j, k: (i, k), fill=0), B((4, 4), lambda i, j, k: (k, j), fill=0)],
             "out_specs": B((4, 4), lambda i, j, k: (i, j))}),
    Example("layer_norm", layer_norm, out(7, 6), [rand(7, 6), rand(1, 6), rand(1, 6, seed=8)], layer_norm_reference,
            {"grid": 4, "in_specs": [B((2, 6), lambda i: (i, 0)), B(), B()], "out_specs": B((2, 6), lambda i: (i, 0))}),
    Example("conv1d", conv1d, out(11), [rand(11), rand(3)], lambda x, w: np.correlate(x, w, "same").astype(F32),
            {"grid": 3, "in_specs": [B((tl.Element(6, (1, 2)),), lambda i: i * 4, fill=0), B()],
             "out_specs": B((4,), lambda i: i)}),
    Example("linear_recurrence", linear_recurrence, out(8, 6), [rand(8, 6), rand(8, 6, seed=2)], recurrence_reference,
            {"grid": (2, 4), "in_specs": [B((2, 3), lambda i, t: (t, i))] * 2,
             "out_specs": B((2, 3), lambda i, t: (t, i)), "scratch_shapes": [tl.VMEM((3,), F32)]}),
    Example("running_max", running_max, out(4, 3), [rand(8, 3)],
            lambda x: np.maximum.accumulate(x.reshape(4, 2, 3).max(1), 0),
            {"grid": 4, "in_specs": [B((2, 3), lambda i: (i, 0))], "out_specs": B((1, 3), lambda i: (i, 0)),
             "scratch_shapes": [tl.VMEM((1, 3), F32)]}),
    Example("distances", distances, out(6, 4), [rand(6, 3), rand(4, 3)],
            lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
            {"grid": (3, 2), "in_specs": [B((2, 3), lambda i, j: (i, 0)), B((2, 3), lambda i, j: (j, 0))],
             "out_specs": B((2, 2), lambda i, j: (i, j))}),
    Example("several_states", several_states, (out(4, 1), out(4, 1), out(1, 1)), [rand(4, 12)],
            lambda x: (x.mean(1, keepdims=True), x.var(1, keepdims=True), x.sum(keepdims=True)),
            {"grid": (2, 3), "in_specs": [B((2, 4), lambda i, j: (i, j))],
             "out_specs": (*[B((2, 1), lambda i, j: (i, 0))] * 2, B((1, 1), lambda i, j: (0, 0)))}),
    Example("strided", strided, out(4), [rand(8)], lambda x: x[::2] + x[1::2]),
]  # fmt: skip
