"""Kernels at the corners of the rules: states that start from operands, temporaries, maps that turn round."""

import numpy as np

from tests.support.corpus.small import F32, B, Example, out, rand
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp


def first(axis):
    return tl.when(tl.program_id(axis) == 0)


def last(axis):
    return tl.when(tl.program_id(axis) == tl.num_programs(axis) - 1)


def start_from_operand(x, y, b, o):
    @first(2)
    def _():
        o[...] = tnp.sin(b[...]) + tnp.zeros(o.shape, o.dtype)

    o[...] += x[...] @ y[...]


def epilogue_reads_operands(x, y, o, acc):
    @first(1)
    def _():
        acc[...] = tnp.zeros(acc.shape, acc.dtype)

    acc[...] += (x[...] * y[...]).sum(axis=1, keepdims=True)

    @last(1)
    def _():
        o[...] = tnp.exp(-acc[...]) * x[...] + y[...] ** 2


def output_is_state_and_rewritten(x, o):
    @first(0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    o[...] += x[...] ** 2

    @last(0)
    def _():
        o[...] = tnp.sqrt(o[...] + 1.0)


def written_twice(x, o):
    o[...] = tnp.sin(x[...])
    o[0] = o[1] * o[2]
    o[...] = o[...] * 2.0 + x[...]


def temporary(x, o, t):
    t[...] = tnp.cos(x[...])
    t[1:] = t[:-1] * x[1:]
    o[...] = t[...] * t[...]


def swapped(x, o, t):
    t[...] = x[...]
    old = tl.swap(t, (0,), x[1] * 2.0)
    o[...] = t[...] * old


def alias_accumulates(s, x, y, o):
    o[...] += x[...] @ y[...]


def alias_overwrites(s, x, o):
    o[...] = s[...] * x[...]


def causal_sum(x, o):
    i, j = tl.program_id(0), tl.program_id(1)

    @tl.when(j == 0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    @tl.when(j <= i)
    def _():
        o[...] += tnp.sin(x[...])


def either_branch(x, o):
    i = tl.program_id(0)

    def even():
        o[...] = x[...] * 2.0

    def odd():
        o[...] = -(x[...] ** 2)

    lax.cond(i % 2 == 0, even, odd)


def branch_value(x, o):
    scale = lax.cond(tl.program_id(0) > 1, lambda: x[0] * 1.0, lambda: x[1] * 2.0)
    o[...] = x[...] * scale


def depends_on_ids(x, o, acc):
    i, k = tl.program_id(0), tl.program_id(1)

    @tl.when(k == 0)
    def _():
        acc[...] = tnp.zeros(acc.shape, acc.dtype) + i

    acc[...] += x[...] * (k + 1).astype(np.float32)

    @tl.when(k == tl.num_programs(1) - 1)
    def _():
        o[...] = acc[...] ** 2 * (i + k).astype(np.float32)


def counter(x, o, n, s):
    @first(0)
    def _():
        n[...] = tnp.zeros(n.shape, n.dtype)
        s[...] = tnp.ones(s.shape, s.dtype)

    n[...] = n[...] + 1
    s[...] = s[...] * x[...]
    o[...] = s[...] / n[...].astype(np.float32)


def last_store_wins(x, o):
    o[...] = tnp.exp(x[...])


def partial_update(x, o):
    @first(0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    i = tl.program_id(0)
    o[tl.ds(i * 2, 2)] += tnp.sin(x[...])


def while_inside(x, o):
    def step(c):
        n, v = c
        return n + 1, tnp.sin(v) + x[...]

    o[...] = lax.fori_loop(0, 3, lambda n, v: step((n, v))[1], x[...] * 0.5)


x, y = rand(8, 12), rand(12, 6)
mm = [B((4, 4), lambda i, j, k: (i, k)), B((4, 3), lambda i, j, k: (k, j))]
a, b = rand(6, 8), rand(6, 8, seed=3)
rows = {"grid": 3, "in_specs": [B((2, 8), lambda i: (i, 0))], "out_specs": B((2, 8), lambda i: (i, 0))}


def two(x):
    z = np.sin(x)
    z = np.concatenate([z[1:2] * z[2:3], z[1:]])
    return z * 2 + x


def temporary_reference(x):
    t = np.cos(x)
    t = np.concatenate([t[:1], t[:-1] * x[1:]])
    return t * t


def depends_reference(x):
    total = np.zeros((2, 4), F32)
    for i in range(2):
        acc = np.full(4, i, F32)
        for k in range(3):
            acc = acc + x[i, 4 * k : 4 * k + 4] * (k + 1)
        total[i] = acc**2 * (i + 2)
    return total


def loop_reference(x):
    v = x * 0.5
    for _ in range(3):
        v = np.sin(v) + x
    return v


CORNERS = [
    Example("start_from_operand", start_from_operand, out(8, 6), [x, y, rand(1, 6)], lambda x, y, b: x @ y + np.sin(b),
            {"grid": (2, 2, 3), "in_specs": [*mm, B((1, 3), lambda i, j, k: (0, j))],
             "out_specs": B((4, 3), lambda i, j, k: (i, j))}),
    Example("epilogue_reads_operands", epilogue_reads_operands, out(6, 4), [a, b],
            lambda a, b: np.exp(-(a * b).sum(1, keepdims=True)) * a[:, 4:] + b[:, 4:] ** 2,
            {"grid": (3, 2), "in_specs": [B((2, 4), lambda i, k: (i, k))] * 2,
             "out_specs": B((2, 4), lambda i, k: (i, 0)), "scratch_shapes": [tl.VMEM((2, 1), F32)]}),
    Example("output_is_state_and_rewritten", output_is_state_and_rewritten, out(2, 8), [a],
            lambda a: np.sqrt((a.reshape(3, 2, 8) ** 2).sum(0) + 1),
            {"grid": 3, "in_specs": [B((2, 8), lambda i: (i, 0))]}),
    Example("written_twice", written_twice, out(5), [rand(5)], two),
    Example("temporary", temporary, out(5), [rand(5)], temporary_reference, {"scratch_shapes": [tl.VMEM((5,), F32)]}),
    Example("swapped", swapped, out(4), [rand(4)], lambda x: np.concatenate([2 * x[1:2], x[1:]]) * x[0],
            {"scratch_shapes": [tl.VMEM((4,), F32)]}),
    Example("alias_accumulates", alias_accumulates, out(8, 6), [rand(8, 6), x, y], lambda s, x, y: s + x @ y,
            {"grid": (2, 2, 3), "in_specs": [B((4, 3), lambda i, j, k: (i, j)), *mm],
             "out_specs": B((4, 3), lambda i, j, k: (i, j)), "input_output_aliases": {0: 0}}),
    Example("alias_overwrites", alias_overwrites, out(6, 8), [a, b], lambda s, x: s * x,
            {"grid": 3, "in_specs": [B((2, 8), lambda i: (i, 0))] * 2, "out_specs": B((2, 8), lambda i: (i, 0)),
             "input_output_aliases": {0: 0}}),
    Example("causal_sum", causal_sum, out(6, 2), [rand(6, 6)],
            lambda x: np.stack([sum((np.sin(x[i, 2 * j : 2 * j + 2]) for j in range(i // 2 + 1)), np.zeros(2, F32))
                                for i in range(6)]),
            {"grid": (3, 3), "in_specs": [B((2, 2), lambda i, j: (i, j))],
             "out_specs": B((2, 2), lambda i, j: (i, 0))}),
    Example("either_branch", either_branch, out(6, 8), [a],
            lambda a: np.where((np.arange(6) // 2 % 2 == 0)[:, None], 2 * a, -(a**2)), rows),
    Example("branch_value", branch_value, out(6, 8), [a],
            lambda a: a * np.repeat(np.where((np.arange(3) > 1)[:, None], a[::2], 2 * a[1::2]), 2, 0), rows),
    Example("depends_on_ids", depends_on_ids, out(2, 4), [rand(2, 12)], depends_reference,
            {"grid": (2, 3), "in_specs": [B((None, 4), lambda i, k: (i, k))],
             "out_specs": B((None, 4), lambda i, k: (i, 0)), "scratch_shapes": [tl.VMEM((4,), F32)]}),
    Example("counter", counter, out(3, 4), [rand(3, 4)],
            lambda x: np.cumprod(x, 0) / np.arange(1, 4, dtype=F32)[:, None],
            {"grid": 3, "in_specs": [B((None, 4), lambda i: (i, 0))], "out_specs": B((None, 4), lambda i: (i, 0)),
             "scratch_shapes": [tl.SMEM((1,), np.int32), tl.VMEM((4,), F32)]}),
    Example("last_store_wins", last_store_wins, out(2, 8), [a], lambda a: np.exp(a[4:]),
            {"grid": 3, "in_specs": [B((2, 8), lambda i: (i, 0))]}),
    Example("partial_update", partial_update, out(6), [rand(6)], np.sin,
            {"grid": 3, "in_specs": [B((2,), lambda i: i)]}),
    Example("loop_on_values", while_inside, out(6, 8), [a], loop_reference, rows),
    Example("turned_round", last_store_wins, out(6, 8), [a], lambda a: np.exp(a.reshape(3, 2, 8)[::-1].reshape(6, 8)),
            {"grid": 3, "in_specs": [B((2, 8), lambda i: (i, 0))], "out_specs": B((2, 8), lambda i: (2 - i, 0))}),
]  # fmt: skip
