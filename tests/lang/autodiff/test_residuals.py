"""What reverse mode of a kernel with any carry saves: gradients under every budget, and the memory that they take."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus.directions import floats, weights
from tests.support.corpus.small import EXAMPLES
from tests.support.laws import numpy_meaning
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import ConfigError
from tilewright.lang.autodiff.checkpointing import budgeted
from tilewright.lang.autodiff.jvp_vjp import derivative_plan, strategy
from tilewright.lang.autodiff.scan_kernels import Sweep
from tilewright.lang.kernel.traverse import kernels_of

F32 = np.float32


def scan(x, w, block=4, **options):
    """h = tanh(h @ w + x[t]) over blocks of rows; two operands, one seen again in every cell."""
    n, d = x.shape[-2:]

    def body(x_ref, w_ref, o_ref, h):
        @tl.when(tl.program_id(1) == 0)
        def _():
            h[...] = tnp.zeros((1, d), F32)

        for t in range(block):
            h[...] = tnp.tanh(h[...] @ w_ref[...] + x_ref[t : t + 1])
        o_ref[...] = h[...]

    specs = [tl.BlockSpec((None, block, d), lambda b, t: (b, t, 0)), tl.BlockSpec((d, d), lambda b, t: (0, 0))]
    out = tl.BlockSpec((None, 1, d), lambda b, t: (b, t, 0))
    shape = tw.ShapeDtypeStruct((x.shape[0], n // block, d), F32)
    return tl.kernel_call(body, shape, grid=(x.shape[0], n // block), in_specs=specs, out_specs=out,
                          scratch_shapes=[tl.VMEM((1, d), F32)], **options)(x, w)  # fmt: skip


def whole(x, w, block=4):
    h, outs = tnp.zeros((x.shape[0], x.shape[2])), []
    for t in range(x.shape[1]):
        h = tnp.tanh(h @ w + x[:, t])
        if t % block == block - 1:
            outs.append(h)
    return tnp.stack(outs, 1)


def operands(batch=2, n=20, d=3):
    rng = np.random.default_rng(5)
    return rng.standard_normal((batch, n, d)).astype(F32), rng.standard_normal((d, d)).astype(F32)


def gradient(f, budget, *args):
    with tw.config(residual_bytes=budget):
        return tw.jit(tw.grad(lambda *xs: tnp.sin(f(*xs)).sum(), tuple(range(len(args)))))(*args)


@pytest.mark.law
@pytest.mark.parametrize("n", [4, 12, 20, 40])  # 1, 3, 5 and 10 cells
def test_gradients_under_every_budget_are_those_of_the_reference(n):
    args = operands(n=n)
    with numpy_meaning():
        expected = tw.grad(lambda *xs: tnp.sin(whole(*xs)).sum(), (0, 1))(*args)
    for budget in (0, 60, 2**40):
        for got, want in zip(gradient(scan, budget, *args), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


CARRIES = []
for example in EXAMPLES:
    f, xs, _ = floats(example)
    for kernel in kernels_of(tw.make_jaxpr(f)(*xs)):
        every = tuple(i for i, b in enumerate(kernel.inputs) if b.array.dtype == F32)
        if example.name != "histogram" and isinstance(strategy(kernel, every), Sweep):
            CARRIES.append(example)


@pytest.mark.law
@pytest.mark.parametrize("example", CARRIES, ids=lambda e: e.name)
def test_budgets_change_no_gradient_of_any_kernel_with_a_carry(example):
    f, xs, _ = floats(example)
    ws = weights(f(*xs))

    def pulled(budget, **options):
        with tw.config(residual_bytes=budget):
            f = floats(example, **options)[0]
            pullback = lambda xs, ws: tw.vjp(f, *xs)[1](ws)  # noqa: E731
            return (pullback if options else tw.jit(pullback))(xs, ws)

    for a, b, c in zip(pulled(2**40), pulled(0), pulled(0, interpret=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-5)


def test_second_derivatives_and_batches_within_a_budget():
    args = operands(batch=1, n=6)  # three cells of two turns
    v = tuple(np.cos(a) for a in args)

    def product(f, *xs):
        return tw.jvp(tw.grad(lambda *xs: tnp.sin(f(*xs, block=2)).sum(), (0, 1)), xs, v)[1]

    def twice(f, *xs):
        gradient = tw.grad(lambda *xs: tnp.sin(f(*xs, block=2)).sum(), (0, 1))
        return tw.grad(lambda *xs: sum((g * g).sum() for g in gradient(*xs)))(*xs)

    stacked = [np.stack([a, a + 1]) for a in args]
    with tw.config(residual_bytes=0):
        got = tw.jit(lambda *xs: product(scan, *xs))(*args)
        nested = tw.jit(lambda *xs: twice(scan, *xs))(*args)
        batched = tw.jit(tw.vmap(tw.grad(lambda *xs: tnp.sin(scan(*xs, block=2)).sum())))(*stacked)
    with numpy_meaning():
        wanted, expected = product(whole, *args), twice(whole, *args)
        ones = [tw.grad(lambda *xs: tnp.sin(whole(*xs, block=2)).sum())(*(s[i] for s in stacked)) for i in range(2)]
    for g, e in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(nested, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(batched, ones, rtol=2e-4, atol=2e-5)


def test_memory_of_the_gradient_shrinks():
    n = 4096
    args = operands(batch=1, n=n, d=32)
    sizes = []
    for budget in (2**40, 0):
        with tw.config(residual_bytes=budget):
            lowered = tw.jit(tw.grad(lambda *xs: scan(*xs, block=1)[:, -1].sum(), (0, 1))).lower(*args)
            sizes.append(lowered.compile().memory_analysis().temp_size_in_bytes)
    state = 32 * 4
    assert sizes[0] - sizes[1] > 0.9 * (n - 2 * 64) * state, sizes


def test_a_pullback_keeps_to_the_budget_it_was_made_under():
    args = operands()
    with tw.config(residual_bytes=0):
        out, pull = tw.vjp(scan, *args)
    direct = tw.vjp(scan, *args)[1](out)
    for a, b in zip(pull(out), direct, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_the_plan_says_which():
    args = operands()
    (kernel,) = kernels_of(tw.make_jaxpr(scan)(*args))
    assert "120 bytes of carries stored, one for each cell" in derivative_plan(kernel)[0].how
    with tw.config(residual_bytes=60):
        assert "48 bytes of carries stored, every 3 cells, computed again in between" in str(tw.explain(scan, *args))
        assert strategy(budgeted(kernel), (0, 1)).every == 3


@pytest.mark.parametrize("value", [-1, 1.5, "1", True])
def test_budgets_that_are_none(value):
    with pytest.raises(ConfigError, match="residual_bytes takes a number, zero or more"):
        tw.config.update("residual_bytes", value)


SHARED = {
    "last": lambda x: tnp.sin(x[1::2]),
    "sum": lambda x: tnp.sin(x[::2]) + tnp.sin(x[1::2]),
    "product": lambda x: tnp.sin(x[::2]) * tnp.sin(x[1::2]),
}


@pytest.mark.parametrize("budget", [0, 2**30])
@pytest.mark.parametrize("name", SHARED)
def test_neighbours_along_one_axis_may_share_a_block(name, budget):
    def body(x_ref, o_ref):
        if name == "last":
            o_ref[...] = tnp.sin(x_ref[...])
            return

        @tl.when(tl.program_id(0) % 2 == 0)
        def _():
            o_ref[...] = tnp.full((1, 1), 0 if name == "sum" else 1, F32)

        y = tnp.sin(x_ref[...])
        o_ref[...] = o_ref[...] + y if name == "sum" else o_ref[...] * y

    def f(x, **options):
        return tl.kernel_call(body, tw.ShapeDtypeStruct((4, 1), F32), grid=8,
                              in_specs=[tl.BlockSpec((1, 1), lambda i: (i, 0))],
                              out_specs=tl.BlockSpec((1, 1), lambda i: (i // 2, 0)), **options)(x)  # fmt: skip

    x, w = np.arange(1, 9, dtype=F32)[:, None], np.arange(1, 5, dtype=F32)[:, None]
    reference = SHARED[name]
    np.testing.assert_allclose(f(x), reference(x), rtol=1e-5)
    np.testing.assert_allclose(f(x, interpret=True), reference(x), rtol=1e-5)
    with numpy_meaning():
        expected = tw.grad(lambda x: (w * reference(x)).sum())(x)
    with tw.config(residual_bytes=budget):
        np.testing.assert_allclose(tw.grad(lambda x: (w * f(x)).sum())(x), expected, rtol=1e-4, atol=1e-6)
