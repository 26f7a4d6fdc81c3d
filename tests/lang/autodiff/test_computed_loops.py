"""Loops of bodies with computed bounds, run backwards: sparse rows, jagged arrays, sliding windows, `while_loop`."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.compilers import needs
from tests.support.gpu.walker import check_mosaic, check_triton, kernels_of
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import DifferentiationError

OFFSETS = np.array([0, 3, 3, 10, 16], np.int32)
RNG = np.random.default_rng(7)
X = RNG.standard_normal(16).astype(np.float32)
WIDE = RNG.standard_normal((16, 8)).astype(np.float32) * 0.5
ROWS = 4


def by_rows(body, *, width=None, interpret=False):
    """A kernel with a cell for each row of a jagged array `x`, which every cell sees; it gives a scalar or a row."""
    shape = (1,) if width is None else (width,)

    def call(off, x):
        zeros = (0,) * x.ndim
        spec = tl.PrefetchScalarGridSpec(
            1, grid=(ROWS,), in_specs=[tl.BlockSpec(x.shape, lambda b, off: zeros)],
            out_specs=tl.BlockSpec((1, *shape), lambda b, off: (b, 0)))  # fmt: skip
        out = tw.ShapeDtypeStruct((ROWS, *shape), x.dtype)
        return tl.kernel_call(body, out, grid_spec=spec, interpret=interpret)(off, x)

    return call


def row(off):
    b = tl.program_id(0)
    return off[b], off[b + 1]


def csr(off, x, o):
    o[0, 0] = lax.fori_loop(*row(off), lambda i, s: s + x[i] * x[i], tnp.float32(0))


def recurrence(off, x, o):
    o[0, 0] = lax.fori_loop(*row(off), lambda i, s: tnp.tanh(s * 0.9 + x[i]), tnp.float32(0.1), checkpoints=4)


def softmax(off, x, o):
    low, high = row(off)
    top = lax.fori_loop(low, high, lambda i, m: tnp.maximum(m, x[i]), tnp.float32(-10))
    total = lax.fori_loop(low, high, lambda i, s: s + tnp.exp(x[i] - top), tnp.exp(-10 - top))
    o[0, 0] = top + tnp.log(total)


def product(off, x, o):
    """A sum of outer products of the rows, each row times its own sum: the carry is a block."""
    def step(i, acc):
        line = x[i, :]
        return acc + line * tnp.sum(line)

    o[0, :] = lax.fori_loop(*row(off), step, tnp.zeros(8))


def windows(off, x, o):
    """Windows of two rows, up to where the cell's own number says."""
    def step(i, acc):
        return acc * 0.5 + tnp.sum(x[tl.ds(i, 2), :] * x[tl.ds(i + 1, 2), :], 0)

    o[0, :] = lax.fori_loop(0, 2 + tl.program_id(0) * 3, step, tnp.ones(8))


def squaring(off, x, o):
    """exp by scaling and squaring: the number of squarings is what the values ask for."""
    b = tl.program_id(0)
    small, k = lax.while_loop(lambda c: tnp.abs(c[0]) > 0.25, lambda c: (c[0] * 0.5, c[1] + 1), (x[b] * 2, 0))
    start = 1 + small * (1 + small / 2 * (1 + small / 3))
    o[0, 0] = lax.fori_loop(0, k, lambda _, y: y * y, start)


def in_scratch(off, x, o):
    """A Ref that iterations read and write, and an output that they only write."""
    o[0, :] = tnp.zeros(8)

    def step(i, _):
        o[0, :] = tnp.sin(o[0, :] + x[i, :])
        return 0

    lax.fori_loop(*row(off), step, 0)


BODIES = {
    "csr": (csr, None), "recurrence": (recurrence, None), "softmax": (softmax, None), "squaring": (squaring, None),
    "product": (product, 8), "windows": (windows, 8), "in scratch": (in_scratch, 8),
}  # fmt: skip


def reference(name, off, x):
    """What a kernel computes, unrolled."""
    x, rows = tnp.asarray(x), []
    for b, (low, high) in enumerate(zip(off[:-1], off[1:], strict=True)):
        part = x[low:high]
        if name == "csr":
            rows.append(tnp.sum(part * part)[None])
        elif name == "recurrence":
            rows.append(functools.reduce(lambda s, v: tnp.tanh(s * 0.9 + v), part, tnp.float32(0.1))[None])
        elif name == "softmax":
            rows.append(tnp.log(tnp.sum(tnp.exp(part)) + np.exp(-10.0))[None])
        elif name == "product":
            rows.append(tnp.sum(part * tnp.sum(part, 1, keepdims=True), 0))
        elif name == "windows":
            acc = tnp.ones(8)
            for i in range(2 + b * 3):
                acc = acc * 0.5 + tnp.sum(x[i : i + 2] * x[i + 1 : i + 3], 0)
            rows.append(acc)
        elif name == "squaring":
            rows.append(tnp.exp(2 * x[b])[None])
        else:
            rows.append(functools.reduce(lambda s, v: tnp.sin(s + v), part, tnp.zeros(8)))
    return tnp.stack(rows)


def loss(f, x, off=OFFSETS):
    return tnp.sum(tnp.sin(f(off, x)))


def operand(name):
    return X if BODIES[name][1] is None else WIDE


def tolerance(name):
    return {"rtol": 2e-2, "atol": 1e-2} if name == "squaring" else {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.law
@pytest.mark.parametrize("name", BODIES)
def test_gradients_are_those_of_the_unrolled_loop(name):
    body, width = BODIES[name]
    x = operand(name)
    wanted = tw.grad(lambda x: loss(functools.partial(reference, name), x))(x)
    for interpret in (False, True):
        f = by_rows(body, width=width, interpret=interpret)
        np.testing.assert_allclose(tw.grad(lambda x, f=f: loss(f, x))(x), wanted, **tolerance(name))


@pytest.mark.law
@pytest.mark.parametrize("name", BODIES)
def test_gradients_on_gpus_and_tpus(name):
    body, width = BODIES[name]
    for kernel, operands in kernels_of(tw.grad(lambda x: loss(by_rows(body, width=width), x)), operand(name)):
        check_triton(kernel, *operands)
        check_mosaic(kernel, *operands)


@pytest.mark.targets
@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e"])
@pytest.mark.parametrize("name", ["csr", "recurrence", "softmax", "product", "windows", "squaring"])
def test_gradients_compile(name, target):
    needs(target)
    body, width = BODIES[name]
    found = tw.compile(tw.grad(lambda x: loss(by_rows(body, width=width), x)), operand(name), target=target)
    assert all(r.kernel for r in found.resources)


@pytest.mark.parametrize("name", ["csr", "recurrence", "windows"])
def test_second_derivatives(name):
    body, width = BODIES[name]
    x, along = operand(name), np.cos(operand(name))
    f, g = (lambda x: loss(by_rows(body, width=width), x)), (lambda x: loss(functools.partial(reference, name), x))
    wanted = tw.grad(lambda x: tnp.vdot(tw.grad(g)(x), along))(x)
    np.testing.assert_allclose(tw.jvp(tw.grad(f), (x,), (along,))[1], wanted, rtol=1e-3, atol=1e-4)
    if name != "recurrence":  # whose reverse sweep would be run backwards with checkpoints of its own: slow to compile
        np.testing.assert_allclose(tw.grad(lambda x: tnp.vdot(tw.grad(f)(x), along))(x), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["csr", "recurrence"])
def test_batches_of_gradients(name):
    body, width = BODIES[name]
    offsets = np.array([OFFSETS, [0, 1, 9, 9, 12], [0, 0, 0, 0, 16]], np.int32)
    xs = np.stack([X, X[::-1], np.cos(X)])
    found = tw.vmap(lambda off, x: tw.grad(lambda x: loss(by_rows(body, width=width), x, off))(x))(offsets, xs)
    for off, x, got in zip(offsets, xs, found, strict=True):
        wanted = tw.grad(lambda x, off=off: loss(functools.partial(reference, name), x, off))(x)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(0, 16), min_size=3, max_size=3), st.sampled_from(["csr", "recurrence", "softmax"]))
def test_gradients_for_any_offsets(cuts, name):
    off = np.array([0, *sorted(cuts), 16], np.int32)
    found = _compiled(name)(off, X)
    wanted = tw.grad(lambda x: loss(functools.partial(reference, name), x, off))(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@functools.cache
def _compiled(name):
    return tw.jit(tw.grad(lambda off, x: loss(by_rows(BODIES[name][0]), x, off), 1))


def test_what_is_kept():
    """Nothing of sums; of a recurrence as many states as are asked for, with the numbers of their iterations."""
    def scratch(name):
        body, width = BODIES[name]
        kernels = kernels_of(tw.grad(lambda x: loss(by_rows(body, width=width), x)), operand(name))
        return [t for kernel, _ in kernels for t in kernel.scratch]

    assert scratch("csr") == scratch("product") == []
    assert sorted(t.shape for t in scratch("recurrence")) == [(2,)] * 5
    assert "bounds keep 4 states of 8 bytes" in str(tw.explain(by_rows(recurrence), OFFSETS, X))
    assert "bounds keep no state" in str(tw.explain(by_rows(csr), OFFSETS, X))


def test_effects_forbid_it():
    def body(off, x, o):
        def step(i, s):
            return s * tl.atomic_max(o, (0, 0), x[i])

        o[0, 0] = lax.fori_loop(*row(off), step, tnp.float32(0.1))

    with pytest.raises(DifferentiationError):
        tw.grad(lambda x: loss(by_rows(body), x))(X)
