"""Derivatives and batches of kernels, in every composition, against each other and finite differences."""

import functools

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import in_numpy
from tests.support.compilers import needs
from tests.support.corpus.corners import CORNERS
from tests.support.corpus.directions import floats, weights
from tests.support.corpus.small import EXAMPLES, rand
from tilewright import lang as tl
from tilewright import numpy as tnp

SMOOTH = [e for e in EXAMPLES + CORNERS if e.name not in ("program_ids", "histogram")]


def dot(a, b):
    return sum(float((np.asarray(x, np.float64) * np.asarray(y, np.float64)).sum()) for x, y in zip(a, b, strict=True))


class Case:
    """A kernel with its derivatives along drawn directions, each computed once for all tests of it."""

    def __init__(self, example):
        self.example, (self.f, self.xs, self.vs) = example, floats(example)

    @functools.cached_property
    def forward(self):
        return tw.jvp(self.f, self.xs, self.vs)

    @functools.cached_property
    def weights(self):
        return weights(self.forward[0])

    @functools.cached_property
    def back(self):
        return tw.vjp(self.f, *self.xs)[1](self.weights)


@pytest.fixture(scope="module", params=SMOOTH, ids=lambda e: e.name)
def case(request):
    return Case(request.param)


@pytest.mark.law
def test_jvp_is_the_finite_difference(case):
    eps = 1e-2
    ahead = case.f(*(x + eps * v for x, v in zip(case.xs, case.vs, strict=True)))
    behind = case.f(*(x - eps * v for x, v in zip(case.xs, case.vs, strict=True)))
    for t, a, b in zip(case.forward[1], ahead, behind, strict=True):
        np.testing.assert_allclose(t, (np.asarray(a) - np.asarray(b)) / (2 * eps), rtol=2e-2, atol=2e-2)


@pytest.mark.law
def test_vjp_is_the_transpose_of_jvp(case):
    found = dot(case.forward[1], case.weights)
    np.testing.assert_allclose(found, dot(case.vs, case.back), rtol=1e-3, atol=1e-4)


@pytest.mark.law
def test_vjp_under_jit(case):
    jitted = tw.jit(lambda xs, ws: tw.vjp(case.f, *xs)[1](ws))(case.xs, case.weights)
    for a, b in zip(case.back, jitted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.law
def test_vmap_is_a_loop(case):
    stacked = tuple(np.stack([x, x + v, v]) for x, v in zip(case.xs, case.vs, strict=True))
    batched = tw.vmap(case.f)(*stacked)
    for i in range(3):
        for b, one in zip(batched, case.f(*(x[i] for x in stacked)), strict=True):
            np.testing.assert_allclose(np.asarray(b)[i], one, rtol=1e-4, atol=1e-4)


@pytest.mark.law
def test_interpreted_derivatives_are_the_compiled(case):
    interpreted = tw.vjp(floats(case.example, interpret=True)[0], *case.xs)[1](case.weights)
    for a, b in zip(case.back, interpreted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


CURVED = [
    e for e in SMOOTH
    if e.name in ("row_softmax", "matmul_fused", "matmul_loop", "alias", "flash_attention", "blocked_cumsum", "windows")
]  # fmt: skip
curved = pytest.mark.parametrize("example", CURVED, ids=lambda e: e.name)


def scalar(f, ws):
    return lambda *xs: sum((tnp.asarray(w) * tnp.sin(o)).sum() for w, o in zip(ws, f(*xs), strict=True))


@curved
def test_second_derivatives_agree(example):
    f, xs, vs = floats(example)
    loss = scalar(f, weights(f(*xs)))
    every = tuple(range(len(xs)))
    gradient = tw.grad(loss, every)

    def product(*xs):
        return sum((g * v).sum() for g, v in zip(gradient(*xs), vs, strict=True))

    forward_over_reverse, reverse_over_reverse, reverse_over_forward = in_numpy(lambda *xs: (
        tw.jvp(gradient, xs, vs)[1], tw.grad(product, every)(*xs),
        tw.grad(lambda *xs: tw.jvp(loss, xs, vs)[1], every)(*xs)))(*xs)  # fmt: skip
    for a, b, c in zip(forward_over_reverse, reverse_over_reverse, reverse_over_forward, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(a, c, rtol=1e-3, atol=1e-3)


@curved
def test_vmap_of_grad_and_grad_of_vmap(example):
    f, xs, vs = floats(example)
    loss = scalar(f, weights(f(*xs)))
    every = tuple(range(len(xs)))
    stacked = tuple(np.stack([x, x + v]) for x, v in zip(xs, vs, strict=True))
    inner, outer = in_numpy(lambda *xs: (
        tw.vmap(tw.grad(loss, every))(*xs), tw.grad(lambda *xs: tw.vmap(loss)(*xs).sum(), every)(*xs)))(*stacked)
    for a, b in zip(inner, outer, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    alone = in_numpy(tw.grad(loss, every))(*(x[1] for x in stacked))
    for a, b in zip(inner, alone, strict=True):
        np.testing.assert_allclose(np.asarray(a)[1], b, rtol=1e-3, atol=1e-4)


def test_vmap_with_an_unbatched_operand():
    example = next(e for e in EXAMPLES if e.name == "matmul_fused")
    x, y, b = example.operands
    xs = np.stack([x, 2 * x])
    got = tw.vmap(example.call(), in_axes=(0, None, None))(xs, y, b)
    np.testing.assert_allclose(got, np.tanh(xs @ y + b), rtol=1e-4, atol=1e-5)


def test_vmap_axes_and_nesting():
    example = next(e for e in EXAMPLES if e.name == "row_softmax")
    xs = rand(3, 7, 2, 6)
    got = tw.vmap(tw.vmap(example.call(), in_axes=1, out_axes=1), in_axes=0)(xs)
    e = np.exp(xs)
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["embedding", "scatter_rows"])
def test_vmap_over_a_prefetched_operand(name):
    example = next(e for e in EXAMPLES if e.name == name)
    ids, table = example.operands
    rows = np.stack([ids, ids[::-1]])
    got = tw.vmap(example.call(), in_axes=(0, None))(rows, table)
    for i in range(2):
        np.testing.assert_allclose(np.asarray(got)[i], example.reference(rows[i], table), rtol=1e-6)
    cotangents = rand(*got.shape, seed=3)
    back = tw.vjp(lambda t: tw.vmap(example.call(), in_axes=(0, None))(rows, t), table)[1](cotangents)[0]
    parts = [tw.vjp(lambda t, row=row: example.call()(row, t), table)[1](ct)[0] for row, ct in zip(rows, cotangents)]
    expected = sum(np.asarray(part) for part in parts)
    np.testing.assert_allclose(back, expected, rtol=1e-5, atol=1e-6)


def test_no_nan_past_the_end():
    """0 x NaN must not appear: the blocks past the end of operands reach log and division in the backward pass."""

    def body(x, o):
        o[...] = tnp.log(x[...]) / x[...]

    spec = tl.BlockSpec((4,), lambda i: (i,))
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((7,), np.float32), grid=2, in_specs=[spec], out_specs=spec)
    x = np.arange(1.0, 8.0, dtype=np.float32)
    np.testing.assert_allclose(tw.grad(lambda x: call(x).sum())(x), (1 - np.log(x)) / x**2, rtol=1e-5)


@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e"])
def test_gradient_of_an_aliased_operand_compiles_ahead(target):
    """Two results of the backward kernel are added: the sum may not go into the kernel that makes both."""
    needs(target)

    def body(p, m, o):
        o[...] = p[...] * m[...]

    spec, x = tl.BlockSpec((4,), lambda i: (i,)), np.arange(1, 9, dtype=np.float32)
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((8,), np.float32), grid=2, in_specs=[spec, spec], out_specs=spec,
                          input_output_aliases={0: 0})  # fmt: skip
    grad = tw.grad(lambda p, m: tnp.sum(call(p, m) * x))
    assert "stablehlo.custom_call" in tw.compile(grad, x, x, target=target, stop="module")
    np.testing.assert_array_equal(grad(x, 2 * x), 2 * x * x)
