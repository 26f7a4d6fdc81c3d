"""Kernels as warp-specialised programs: walked, their values are the interpreter's, and what is left out is found."""

import functools
import re

import numpy as np
import pytest

from tests.support.gpu_cases import kernels_in
from tests.support.walker.check import check_hopper
from tests.support.walker.error import WalkError
from tilewright import config, errors, lax, vjp
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.types import ArrayType
from tilewright.kernels.fused.attention import dot_product_attention
from tilewright.lang.mosaic_gpu import CompilerParams
from tilewright.lang.target import target_of
from tilewright.mosaic_gpu import mosaic_gpu_module

HALF, BRAIN, SINGLE, BYTES, WORD = (np.dtype(d) for d in ("float16", tnp.bfloat16, "float32", "int8", "int32"))
SM_90 = target_of("cuda:sm_90")


def product(m=128, n=128, k=256, rows=128, columns=128, depth=64, dtype=HALF, out=HALF, before=None, after=None,
            turned=(False, False), more=(), specs=(), **params):  # fmt: skip
    """A product of matrices by blocks; `before` is done to its operands, `after` to its sums and what more is read."""
    steps = k // depth

    def body(a, b, *rest):
        *extra, o, acc = rest

        @tl.when(tl.program_id(2) == 0)
        def _():
            acc[...] = tnp.zeros(acc.shape, acc.dtype)

        x, y = (a[...], b[...]) if before is None else before(a[...], b[...])
        dims = (((0 if turned[0] else 1,), (1 if turned[1] else 0,)), ((), ()))
        acc[...] += lax.dot_general(x, y, dims, preferred_element_type="float32")

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
        scratch_shapes=[tl.VMEM((rows, columns), "float32")], compiler_params=CompilerParams(**params), name="product",
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
    "softmax": dict(after=lambda x: tnp.exp(x - x.max(1, keepdims=True)), out=SINGLE, columns=64),
    "a mask": dict(after=lambda x: tnp.where(
        tnp.arange(128)[:, None] >= tnp.arange(64)[None, :], x, 0), columns=64),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_the_interpreter(name):
    kernel = product(**PRODUCTS[name])
    check_hopper(kernel, *operands(kernel), eager=len(name) % 2 == 0)


def attention(kv_heads=1, t=256, d=64, grad=True, **options):
    """The kernels of attention and its gradient."""
    q, kv = ArrayType((1, t, 2, d), HALF), ArrayType((1, t, kv_heads, d), HALF)

    def run(q, k, v, ct):
        out, pull = vjp(functools.partial(dot_product_attention, **options), q, k, v)
        return out, pull(ct)

    with config(kernel_target="cuda:sm_90"):
        return [k for k in kernels_in(run, [q, kv, kv, q]) if k.name.startswith("attention")]


@pytest.mark.parametrize("name, options", [
    ("causal, grouped heads", dict(is_causal=True)), ("window", dict(local_window_size=(64, 0), kv_heads=2)),
    ("plain", dict(t=128)),
])  # fmt: skip
def test_attention_forwards_and_backwards(name, options):
    kernels = attention(**options)
    assert len(kernels) == 3
    for kernel in kernels:
        rng = np.random.default_rng(1)
        values = [rng.standard_normal(t.shape).astype(t.dtype) for t in kernel.in_types]
        check_hopper(kernel, *values)


# ---------------------------------------------------------------------------- what is left out is found


def without(pattern, which=0, put="", count=1):
    """The text with one line that matches replaced."""

    def edit(text):
        found = [m for m in re.finditer(pattern, text)]
        assert found, pattern
        at = found[which]
        return text[: at.start()] + at.expand(put) + text[at.end() :]

    return edit


def every(pattern, put):
    def edit(text):
        assert re.search(pattern, text), pattern
        return re.sub(pattern, put, text)

    return edit


ASM = r"llvm\.inline_asm has_side_effects asm_dialect = att "
FAULTS = {
    "too few bytes are expected": (
        without(r"(expect_tx\S* _, \[\$0\], )16384;", 0, r"\g<1>8192;"), "all wait: .*mbarrier|race"),
    "too many bytes are expected": (
        without(r"(expect_tx\S* _, \[\$0\], )16384;", 0, r"\g<1>20480;"), "all wait: .*bytes short"),
    "no wait for a tile": (without(r".*L_\$.*\n", 1), "race: a product reads shared memory"),
    "a stage is freed before its products": (
        every(r"wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;"), "race: a copy writes|read before"),
    "the producer does not wait": (without(r".*L_\$.*\n", 0), "race: a copy writes|more arrivals"),
    "no proxy fence": (without(r".*fence\.proxy\.async\.shared.*\n"), "without fence.proxy.async"),
    "no barrier in the warpgroup": (without(r".*bar\.sync \$0, 128.*\n"), "race: a store of the copy engine"),
    "no barrier before the stages are used again": (without(r".*bar\.sync 1, 256.*\n"), "race: stmatrix writes"),
    "no fence of products": (without(r".*wgmma\.fence.*\n"), "without wgmma.fence"),
    "results are read too early": (
        every(r"wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;"), "read before wgmma.wait_group"),
    "the wrong phase": (
        every(r"arith.xori (%v\d+), (%v\d+) : i32", r"arith.ori \1, \2 : i32"), "all wait|race|more arrivals"),
    "a barrier of too few": (every(r"(mbarrier.init\S* \[\$0\], )8;", r"\g<1>4;"), "more arrivals|race|all wait"),
    "descriptors are not acquired": (without(r".*fence\.proxy\.tensormap.*\n"), "before fence.proxy.tensormap"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_walker_finds(name):
    edit, said = FAULTS[name]
    kernel = product(k=512, num_stages=2)
    with pytest.raises(WalkError, match=said):
        check_hopper(kernel, *operands(kernel), edit=edit)


# ---------------------------------------------------------------------------- what is refused


REFUSED = {
    "no product": (lambda: kernels_in(tl.kernel_call(
        lambda a, o: o.__setitem__(..., a[...] * 2), ArrayType((64, 64), HALF)), [ArrayType((64, 64), HALF)])[0],
        "no product of matrices"),
    "float32": (lambda: product(dtype=SINGLE), "product of float32 and float32"),
    "few rows": (lambda: product(m=32, rows=32), "a multiple of 64"),
    "too much memory": (lambda: product(
        k=1024, depth=1024, columns=128), "bytes of shared memory, and there are"),
    "a sort": (lambda: product(after=lambda x: tnp.sort(x, 1), columns=64), "cannot run in a Mosaic GPU kernel"),
    "another target": (lambda: product(), "it is for Hopper"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name):
    make, said = REFUSED[name]
    target = target_of("cuda:sm_80") if name == "another target" else SM_90
    with pytest.raises(errors.UnsupportedError, match=said):
        mosaic_gpu_module(make(), target)
