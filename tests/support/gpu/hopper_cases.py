"""Kernels that are for Hopper: products by blocks in many forms, attention, and functions of what is in registers."""

import functools
from dataclasses import replace

import numpy as np

from tests.support.traced import kernels_in
from tilewright import config, lax, vjp
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.kernels.fused.attention import dot_product_attention
from tilewright.kernels.fused.mlp import swiglu
from tilewright.lang.mosaic_gpu import CompilerParams

HALF, BRAIN, SINGLE, BYTES, WHOLE = (np.dtype(d) for d in ("float16", tnp.bfloat16, "float32", "int8", "int32"))
EIGHT, RANGE = np.dtype(tnp.float8_e4m3fn), np.dtype(tnp.float8_e5m2)


def product(m=128, n=128, k=256, rows=128, columns=128, depth=64, dtype=HALF, out=HALF, before=None, after=None,
            turned=(False, False), more=(), specs=(), sums=SINGLE, precision=None, **params):  # fmt: skip
    """A product of matrices by blocks; `before` is done to its operands, `after` to its sums and what more is read."""
    steps = k // depth

    def body(a, b, *rest):
        *extra, o, acc = rest

        @tl.when(tl.program_id(2) == 0)
        def _():
            acc[...] = tnp.zeros(acc.shape, acc.dtype)

        x, y = (a[...], b[...]) if before is None else before(a[...], b[...])
        dims = (((0 if turned[0] else 1,), (1 if turned[1] else 0,)), ((), ()))
        acc[...] += lax.dot_general(x, y, dims, precision, sums)

        @tl.when(tl.program_id(2) == steps - 1)
        def _():
            found = acc[...] if after is None else after(acc[...], *(e[...] for e in extra))
            o[...] = found.astype(o.dtype)

    def left(i, j, s):
        return (s, i) if turned[0] else (i, s)

    def right(i, j, s):
        return (j, s) if turned[1] else (s, j)

    call = tl.kernel_call(
        body, ArrayType((m, n), out), grid=(tl.cdiv(m, rows), tl.cdiv(n, columns), steps),
        in_specs=[
            tl.BlockSpec((depth, rows) if turned[0] else (rows, depth), left),
            tl.BlockSpec((columns, depth) if turned[1] else (depth, columns), right), *specs,
        ],
        out_specs=tl.BlockSpec((rows, columns), lambda i, j, s: (i, j)),
        scratch_shapes=[tl.VMEM((rows, columns), sums)], compiler_params=CompilerParams(**params), name="product",
    )  # fmt: skip
    kinds = dtype if isinstance(dtype, tuple) else (dtype, dtype)
    shapes = ((k, m) if turned[0] else (m, k)), ((n, k) if turned[1] else (k, n))
    (kernel,) = kernels_in(call, [*(ArrayType(s, d) for s, d in zip(shapes, kinds)), *more])
    return kernel


def operands(kernel, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-8, 8, t.shape).astype(t.dtype) if t.dtype.kind in "iu" else
        rng.standard_normal(t.shape).astype(t.dtype) for t in kernel.in_types
    ]  # fmt: skip


def row(n):
    return tl.BlockSpec((n,), lambda i, j, s: (j,))


def column(n):
    return tl.BlockSpec((n,), lambda i, j, s: (i,))


def tile(m, n):
    return tl.BlockSpec((m, n), lambda i, j, s: (i, j))


PRODUCTS = {
    "plain": dict(),
    "one warpgroup, bfloat16": dict(rows=64, columns=64, dtype=BRAIN, out=BRAIN, m=64),
    "three stages": dict(num_stages=3, k=512, m=64, rows=64, columns=64),
    "left turned": dict(turned=(True, False), columns=64),
    "right turned": dict(turned=(False, True), depth=128),
    "both turned, wide": dict(turned=(True, True), columns=256, n=256),
    "float32 out": dict(out=SINGLE, columns=64),
    "ragged": dict(m=192, n=200, k=128, columns=64, rows=128),
    "bias and gelu": dict(
        after=lambda x, b: x * 0.5 * (1 + tnp.tanh(0.79788456 * (x + b))), more=[ArrayType((128,), SINGLE)],
        specs=[row(64)], columns=64),
    "row scale and residual": dict(
        after=lambda x, s, r: x * s[:, None] + r.astype("float32"), columns=64,
        more=[ArrayType((128,), HALF), ArrayType((128, 128), HALF)], specs=[column(128), tile(128, 64)]),
    "int8 weights": dict(dtype=(HALF, BYTES), before=lambda a, b: (a, b.astype("float16")), columns=128),
    "computed left": dict(before=lambda a, b: (tnp.maximum(a, 0) * 2, b), columns=64),
    "normal rows": dict(after=lambda x: x / tnp.sqrt((x * x).sum(-1, keepdims=True) + 1), columns=128),
    "column sums": dict(after=lambda x: x - x.sum(0, keepdims=True) / 64, columns=64),
    "sums of rows in columns": dict(after=lambda x: x - x.sum(1)[None, :] / 64),
    "softmax": dict(after=lambda x: tnp.exp(x - x.max(1, keepdims=True)), out=SINGLE, columns=64),
    "a mask": dict(after=lambda x: tnp.where(
        tnp.arange(128)[:, None] >= tnp.arange(64)[None, :], x, 0), columns=64),
    **{f"float8, {name}": dict(dtype=dtype, depth=128, columns=64, turned=(False, True), **more)
       for name, dtype, more in (
           ("plain", EIGHT, {}), ("two kinds", (EIGHT, RANGE), {}), ("as a result", RANGE, dict(out=EIGHT)),
           ("computed", (SINGLE, EIGHT), dict(before=lambda a, b: ((a * 2).astype(EIGHT), b))))},
    "float8 weights": dict(dtype=(HALF, EIGHT), before=lambda a, b: (a, b.astype("float16"))),
    "float8 left": dict(dtype=(EIGHT, HALF), before=lambda a, b: (a.astype("float16"), b), columns=64),
    "8-bit integers": dict(dtype=BYTES, depth=128, columns=64, turned=(False, True), sums=WHOLE, out=WHOLE),
    "8-bit integers, scaled": dict(
        dtype=(BYTES, np.dtype("uint8")), depth=128, turned=(False, True), sums=WHOLE, more=[ArrayType((128,), SINGLE)],
        specs=[row(128)], after=lambda x, s: x.astype("float32") * s * 1e-3),
    "80 columns": dict(columns=80, n=160, depth=80, k=160),
    "the last of 96 columns": dict(columns=96, n=96, depth=96, k=192, turned=(False, True)),
    "float8, short rows": dict(dtype=EIGHT, depth=64, k=128, columns=64, turned=(False, True)),
    "tf32": dict(dtype=SINGLE, columns=64, turned=(False, True), out=SINGLE),
    "tf32, computed": dict(dtype=SINGLE, columns=64, turned=(False, True), before=lambda a, b: (a * 2, b), out=SINGLE),
}  # fmt: skip
TOLERANCE = {"tf32": 5e-3, "tf32, computed": 5e-3}  # the interpreter multiplies float32
# Operands as the engine copies them.
COPIED = [
    "80 columns",
    "the last of 96 columns",
    "float8, short rows",
    "float8, plain",
    "float8, two kinds",
    "8-bit integers",
    "8-bit integers, scaled",
    "tf32",
]


def attention(kv_heads=1, t=256, d=64, grad=True, **options):
    """The kernels of attention and its gradient."""
    q, kv = ArrayType((1, t, 2, d), HALF), ArrayType((1, t, kv_heads, d), HALF)

    def run(q, k, v, ct):
        out, pull = vjp(functools.partial(dot_product_attention, **options), q, k, v)
        return out, pull(ct)

    with config(kernel_target="cuda:sm_90"):
        return [k for k in kernels_in(run, [q, kv, kv, q]) if k.name.startswith("attention")]


def attention_told(which=0, **params):
    """The kernel of attention, or of its gradient for queries (1) or keys (2), told something of its compilation."""
    kernel = attention(t=256, is_causal=True)[which]
    settings = {**dict(kernel.settings), "compiler_params": CompilerParams(**params)}
    return replace(kernel, settings=tuple(settings.items()))


def floats(x):
    """Every function of floats that has a rule, summed."""
    y = tnp.abs(x) + 0.5
    parts = [
        tnp.exp(-y), tnp.exp2(-y), tnp.expm1(-y), tnp.log(y), tnp.log1p(y), tnp.sqrt(y), lax.rsqrt(y), tnp.tanh(x),
        lax.logistic(x), tnp.sin(x), tnp.cos(x), tnp.tan(x / 8), lax.erf(x), tnp.floor(x), tnp.ceil(x), tnp.round(x),
        lax.round(x), tnp.sign(x), -x, x * x, tnp.minimum(x, 1) - tnp.maximum(x, 2), lax.clamp(-1.0, x, 1.0),
        tnp.arctan2(x, y), tnp.where(tnp.isfinite(x) & (x != 2), 1.0, 0.0), x / y,
        tnp.arcsin(x / 64), tnp.cbrt(x), lax.bitcast_convert_type(lax.bitcast_convert_type(x, "int32"), "float32"),
    ]  # fmt: skip
    return sum(parts[1:], parts[0])


def integers(x):
    """Every operation on integers that has a rule."""
    i = (x * 4).astype("int32")
    u, b = lax.bitcast_convert_type(i, "uint32"), x > 0
    parts = [
        i + 3, i - 7, i * 5, i // 3, i % 5, lax.div(i, tnp.int32(3)), lax.rem(i, tnp.int32(4)), i & 12, i | 3, i ^ 5,
        ~i, i << 2, i >> 1, lax.shift_right_logical(u, tnp.uint32(4)).astype("int32"), abs(i), tnp.sign(i), -i,
        tnp.maximum(i, 2), tnp.minimum(i, 2), (u // tnp.uint32(3)).astype("int32"), tnp.maximum(u, 9).astype("int32"),
        (b & (i < 3) | (i == 4) ^ (i >= 7)).astype("int32"), (~b).astype("int32"), i.astype("int8").astype("int32"),
        i.astype("uint8").astype("int32"), (i <= 2).astype("int32"), x.astype("int8").astype("int32"),
        tnp.where(b, i, 0), (u > 4).astype("int32"),
    ]  # fmt: skip
    return sum((p % 64 for p in parts[1:]), parts[0] % 64).astype("float32")


def paged(batch=2, pages=3, page=64, d=64, group=64):
    """A step of decoding: each of `group` queries of a sequence against keys and values on pages that a table names."""

    def body(table, length, q, k, v, o, top, total, acc):
        b, p = tl.program_id(0), tl.program_id(1)

        @tl.when(p == 0)
        def _():
            top[...] = tnp.full(top.shape, -1e30, "float32")
            total[...] = tnp.zeros(total.shape, "float32")
            acc[...] = tnp.zeros(acc.shape, "float32")

        s = lax.dot_general(q[...], k[...], (((1,), (1,)), ((), ())), preferred_element_type="float32") * 0.125
        place = p * page + lax.broadcasted_iota("int32", (group, page), 1)
        s = tnp.where(place < length[b], s, -1e30)
        old = top[...]
        new = tnp.maximum(old, s.max(-1, keepdims=True))
        share, shrink = tnp.exp(s - new), tnp.exp(old - new)
        top[...] = new
        total[...] = total[...] * shrink + share.sum(-1, keepdims=True)
        acc[...] = acc[...] * shrink + tnp.dot(share.astype(v.dtype), v[...], preferred_element_type="float32")

        @tl.when(p == pages - 1)
        def _():
            o[...] = (acc[...] / total[...]).astype(o.dtype)

    def at(b, p, table, length):
        return table[b, p], 0, 0

    spec = tl.BlockSpec((None, group, d), lambda b, p, *_: (b, 0, 0))
    call = tl.kernel_call(
        body, ArrayType((batch, group, d), HALF), name="paged",
        grid_spec=tl.PrefetchScalarGridSpec(
            2, (batch, pages), [spec, *(tl.BlockSpec((None, page, d), at),) * 2], spec,
            [tl.VMEM((group, 1), "float32"), tl.VMEM((group, 1), "float32"), tl.VMEM((group, d), "float32")]),
    )  # fmt: skip
    held = 2 * batch * pages
    types = [ArrayType((batch, pages), "int32"), ArrayType((batch,), "int32"), ArrayType((batch, group, d), HALF)]
    (kernel,) = kernels_in(call, [*types, *(ArrayType((held, page, d), HALF),) * 2])
    rng = np.random.default_rng(0)
    table = rng.permutation(held)[: batch * pages].reshape(batch, pages).astype(np.int32)
    length = np.asarray([pages * page - 7, page + 5] * batch, np.int32)[:batch]
    return kernel, [table, length, *(rng.standard_normal(t.shape).astype(t.dtype) for t in kernel.in_types[2:])]


def swiglu_kernels():
    """The kernel of a gated MLP, and that of its gradient."""

    def run(x, a, b, c, ct):
        out, pull = vjp(swiglu, x, a, b, c)
        return out, pull(ct)

    shapes = (128, 64), (64, 128), (64, 128), (128, 64), (128, 64)
    with config(kernel_target="cuda:sm_90"):
        found = kernels_in(run, [ArrayType(s, HALF) for s in shapes])
    return [kernel for kernel in found if kernel.name.startswith("swiglu")]


def linear_cross_entropy(m=128, v=256, d=128, rows=128, columns=128, depth=64):
    """The losses of rows of a linear layer: logits by blocks, which are never held, a running maximum and sum."""
    blocks, steps = v // columns, d // depth

    def body(x, w, labels, loss, logits, top, total, chosen):
        j, s = tl.program_id(1), tl.program_id(2)

        @tl.when((j == 0) & (s == 0))
        def _():
            top[...] = tnp.full(top.shape, -1e30, "float32")
            total[...] = tnp.zeros(total.shape, "float32")
            chosen[...] = tnp.zeros(chosen.shape, "float32")

        @tl.when(s == 0)
        def _():
            logits[...] = tnp.zeros(logits.shape, "float32")

        logits[...] += tnp.dot(x[...], w[...], preferred_element_type="float32")

        @tl.when(s == steps - 1)
        def _():
            z = logits[...]
            hit = lax.broadcasted_iota("int32", z.shape, 1) + j * columns == labels[...][:, None]
            old = top[...]
            new = tnp.maximum(old, z.max(-1))
            total[...] = total[...] * tnp.exp(old - new) + tnp.exp(z - new[:, None]).sum(-1)
            chosen[...] += tnp.where(hit, z, 0).sum(-1)
            top[...] = new

        @tl.when((j == blocks - 1) & (s == steps - 1))
        def _():
            loss[...] = tnp.log(total[...]) + top[...] - chosen[...]

    row = tl.BlockSpec((rows,), lambda i, j, s: (i,))
    call = tl.kernel_call(
        body, ArrayType((m,), SINGLE), grid=(m // rows, blocks, steps),
        in_specs=[tl.BlockSpec((rows, depth), lambda i, j, s: (i, s)),
                  tl.BlockSpec((depth, columns), lambda i, j, s: (s, j)), row],
        out_specs=row, name="linear_cross_entropy",
        scratch_shapes=[tl.VMEM((rows, columns), "float32"), *(tl.VMEM((rows,), "float32"),) * 3],
    )  # fmt: skip
    (kernel,) = kernels_in(call, [ArrayType((m, d), HALF), ArrayType((d, v), HALF), ArrayType((m,), "int32")])
    return kernel


# Kernels of the corpus at sizes for this machine: what `make` is given, and the blocks.
CORPUS = {
    "grouped_matmul": ((256, 3, 64, 64), dict(rows=64, columns=64)),
    "block_sparse_matmul": ((2, 4, 64, 64, 128, 0.6), dict(width=128)),
    "matmul_grid": ((128, 128, 128), dict(rows=128, columns=128, depth=64)),
    "batched_matmul": ((2, 64, 64, 64), dict(rows=64, columns=64, depth=64)),
    "fused_matmul": ((64, 128, 128), dict(rows=64, columns=64, depth=64)),
    "flash_attention": ((1, 128, 128, 64), dict(rows=64, columns=64)),
}
# The same in blocks for Blackwell.
CORPUS_OF_BLACKWELL = {
    "grouped_matmul": ((256, 2, 64, 64), dict(rows=128, columns=64)),
    "batched_matmul": ((2, 128, 64, 128), dict(rows=128, columns=64, depth=64)),
    "fused_matmul": ((128, 128, 128), dict(rows=128, columns=64, depth=64)),
    "flash_attention": ((1, 256, 256, 64), dict(rows=128, columns=64)),
    "int8_matmul": ((128, 64, 128), dict(rows=128, columns=64, depth=128)),
}
# Those that are left to others, with the reason.
LEFT = {
    "matmul_loop": ((128, 128, 128), dict(rows=64, columns=128, piece=64), "scan cannot run"),
    "int8_matmul": ((64, 64, 128), dict(rows=64, columns=64, depth=128), "int8 that is summed along rows"),
    "int4_matmul": ((64, 64, 128, 1), {}, "its products have 8 rows"),
}
