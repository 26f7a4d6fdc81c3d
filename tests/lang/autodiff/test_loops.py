"""Loops of a body run backwards: gradients, what is kept of them, and what becomes of the memory that they use."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.walker import check_mosaic, check_triton, kernels_of
from tests.support.laws import numpy_meaning
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.primitives.control_flow.scan import scan_p
from tilewright.lang.autodiff import loops

X = np.random.default_rng(3).standard_normal((2, 12, 4)).astype(np.float32)
A = np.random.default_rng(4).uniform(0.5, 1, (1, 4)).astype(np.float32)


def rows(body, *, scratch=(), interpret=False):
    """A kernel of one block of rows a cell, with a row of weights that every cell sees."""
    def call(x, a):
        n = x.shape[-2]
        spec = tl.BlockSpec((None, n, 4), lambda i: (i, 0, 0))
        return tl.kernel_call(
            body, x, grid=(x.shape[0],), in_specs=[spec, tl.BlockSpec((1, 4), lambda i: (0, 0))], out_specs=spec,
            scratch_shapes=list(scratch), interpret=interpret)(x, a)  # fmt: skip
    return call


def carried(x, a, o):
    """Two values carried, one of them a scalar, and a counter of the loop's own."""
    def step(t, c):
        h, total = c
        h = tnp.tanh(h * a[0, :] + x[t, :])
        o[t, :] = h * total
        return h, total + tnp.sum(h * h) * 0.1

    lax.fori_loop(0, x.shape[0], step, (tnp.zeros(4), tnp.float32(1)))


def in_scratch(x, a, o, h):
    """The same by a Ref that turns read and write: a value that the loop carries."""
    h[...] = tnp.zeros(4)

    def step(t, _):
        h[...] = tnp.tanh(h[...] * a[0, :] + x[t, :])
        o[t, :] = h[...]
        return 0

    lax.fori_loop(0, x.shape[0], step, 0)


def by_pieces(x, a, o, piece):
    """A Ref that every turn sets before it reads it, in a loop within a loop, and branches within."""
    def outer(p, c):
        piece[...] = tnp.exp(x[tl.ds(p * 3, 3), :] * a[...])

        def inner(t, d):
            d = d * 0.5 + piece[t, :]

            @tl.when(t > 0)
            def _():
                o[p * 3 + t, :] = d * d

            @tl.when(t == 0)
            def _():
                o[p * 3 + t, :] = tnp.sin(d)

            return d

        return lax.fori_loop(0, 3, inner, c)

    lax.fori_loop(0, x.shape[0] // 3, outer, tnp.zeros(4))


def added(x, a, o, total):
    """Only added to: nothing is kept."""
    total[...] = tnp.zeros(4)

    def step(t, _):
        total[...] += x[t, :] * a[0, :]
        return 0

    lax.fori_loop(0, x.shape[0], step, 0)
    o[...] = tnp.zeros(o.shape) + total[...]


CASES = {
    "carried": (carried, ()), "in scratch": (in_scratch, [tl.VMEM((4,), "float32")]),
    "by pieces": (by_pieces, [tl.VMEM((3, 4), "float32")]), "added": (added, [tl.VMEM((4,), "float32")]),
}  # fmt: skip


def whole(name, x, a):
    """What the kernels compute, in array operations."""
    h, total, out = tnp.zeros((x.shape[0], 4)), tnp.ones((x.shape[0], 1)), []
    if name == "added":
        return tnp.zeros(x.shape) + (x * a).sum(1, keepdims=True)
    for t in range(x.shape[1]):
        if name == "by pieces":
            h = h * 0.5 + tnp.exp(x[:, t] * a)
            out.append(tnp.sin(h) if t % 3 == 0 else h * h)
            continue
        h = tnp.tanh(h * a + x[:, t])
        out.append(h * total if name == "carried" else h)
        total = total + tnp.sum(h * h, 1, keepdims=True) * 0.1
    return tnp.stack(out, 1)


def gradient(f):
    return tw.grad(lambda x, a: tnp.sum(tnp.sin(f(x, a))), (0, 1))


def agree(got, expected):
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_whole(name):
    body, scratch = CASES[name]
    with numpy_meaning():
        expected = gradient(lambda x, a: whole(name, x, a))(X, A)
    agree(tw.jit(gradient(rows(body, scratch=scratch)))(X, A), expected)
    agree(gradient(rows(body, scratch=scratch, interpret=True))(X, A), expected)
    for kernel, operands in kernels_of(gradient(rows(body, scratch=scratch)), X[:1, :6], A):
        check_triton(kernel, *operands)
        check_mosaic(kernel, *operands)


def backward_of(name, x, a):
    body, scratch = CASES[name]
    return [k for k, _ in kernels_of(gradient(rows(body, scratch=scratch)), x, a) if "_bwd" in k.name]


def test_what_is_kept():
    """A turn's carried values, in memory by their rank; nothing of a sum, nor of a counter."""
    kernel = backward_of("carried", X, A)[0]
    kept = {(t.shape, str(t.space)) for t in kernel.scratch if t.shape[:1] == (12,)}
    assert {((12, 4), "vmem"), ((12,), "smem")} <= kept and all("int" not in str(t.dtype) for t in kernel.scratch)
    for kernel in backward_of("added", X, A):
        assert all(t.shape == (4,) for t in kernel.scratch)
        assert len([e for e in kernel.body.eqns if e.primitive is scan_p]) == 1  # the loop itself is not run again


def test_long_loops_keep_every_few_turns():
    """36 turns of 8 KiB are more than is kept: 6 times 6."""
    wide, rate = np.ones((1, 36, 2048), np.float32) * 0.1, np.full((1, 2048), 0.5, np.float32)

    def call(x, a):
        spec = tl.BlockSpec((None, 36, 2048), lambda i: (i, 0, 0))
        return tl.kernel_call(in_scratch_wide, x, grid=(1,), in_specs=[spec, tl.BlockSpec((1, 2048), lambda i: (0, 0))],
                              out_specs=spec, scratch_shapes=[tl.VMEM((2048,), "float32")])(x, a)  # fmt: skip

    assert 36 * 2048 * 4 > loops.BYTES
    (kernel,) = [k for k, _ in kernels_of(gradient(call), wide, rate) if "_bwd" in k.name]
    assert sorted(t.shape for t in kernel.scratch if len(t.shape) == 2 and t.shape[0] < 36) == [(6, 2048)] * 2

    def plain(x, a):
        h, out = tnp.zeros((1, 2048)), []
        for t in range(36):
            h = tnp.tanh(h * a + x[:, t])
            out.append(h)
        return tnp.stack(out, 1)

    with numpy_meaning():
        expected = gradient(plain)(wide, rate)
    agree(tw.jit(gradient(call))(wide, rate), expected)


def in_scratch_wide(x, a, o, h):
    h[...] = tnp.zeros(2048)

    def step(t, _):
        h[...] = tnp.tanh(h[...] * a[0, :] + x[t, :])
        o[t, :] = h[...]
        return 0

    lax.fori_loop(0, x.shape[0], step, 0)


def test_second_derivatives():
    body, scratch = CASES["carried"]

    def twice(f):
        return tw.grad(lambda x: sum(tnp.sum(g * g) for g in gradient(f)(x, A)))

    with numpy_meaning():
        expected = twice(lambda x, a: whole("carried", x, a))(X[:1, :4])
    agree([tw.jit(twice(rows(body, scratch=scratch)))(X[:1, :4])], [expected])


def test_a_pipeline_within_a_body_backwards():
    """Blocks by copies of the pipeline's own: one buffer each, filled again turn by turn."""
    x, y = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float32)

    def body(x, y, o, acc):
        acc[...] = tnp.zeros_like(acc)

        def inner(a, b):
            acc[...] += a[...] @ b[...]

        at = tl.program_id(0)
        tl.emit_pipeline(inner, grid=(2,), in_specs=[tl.BlockSpec((8, 8), lambda k: (at, k)),
                                                     tl.BlockSpec((8, 16), lambda k: (k, 0))])(x, y)  # fmt: skip
        o[...] = tnp.tanh(acc[...])

    def call(x, y):
        far = tl.BlockSpec(memory_space=tl.ANY)
        out = tl.BlockSpec((8, 16), lambda i: (i, 0))
        return tl.kernel_call(body, x, grid=(2,), in_specs=[far, far], out_specs=out,
                              scratch_shapes=[tl.VMEM((8, 16), "float32")])(x, y)  # fmt: skip

    agree(tw.jit(gradient(call))(x, y), tw.jit(gradient(lambda x, y: tnp.tanh(x @ y)))(x, y))
    for kernel, operands in kernels_of(gradient(call), x, y):
        assert not [t for t in kernel.scratch if t.shape[:1] == (2,)] or "_bwd" not in kernel.name
        check_triton(kernel, *operands)
