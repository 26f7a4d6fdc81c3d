"""Kernels over a mesh: on each device's part within `shard_map`, and on whole arrays, split by their index maps."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.equivalence import draws
from tilewright import lang as tl
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.sharding import NamedSharding, P

MESH = tw.make_mesh((4, 2), ("x", "y"))
(X,) = draws((16, 32))
(W,) = draws((32, 16), seed=1)


def matmul(x, w, block=2):
    """A product whose sum is carried along the last axis of the grid."""

    def body(x, w, o, total):
        @tl.when(tl.program_id(2) == 0)
        def _():
            total[...] = tnp.zeros_like(total)

        total[...] += x[...] @ w[...]

        @tl.when(tl.program_id(2) == tl.num_programs(2) - 1)
        def _():
            o[...] = tnp.tanh(total[...])

    rows, inner, columns = x.shape[0] // block, x.shape[1] // 8, w.shape[1] // 8
    call = tl.kernel_call(
        body, tw.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype), grid=(rows, columns, inner),
        in_specs=[tl.BlockSpec((block, 8), lambda i, j, k: (i, k)), tl.BlockSpec((8, 8), lambda i, j, k: (k, j))],
        out_specs=tl.BlockSpec((block, 8), lambda i, j, k: (i, j)), scratch_shapes=[tl.VMEM((block, 8), np.float32)],
    )  # fmt: skip
    return call(x, w)


def test_kernels_within_shard_map():
    split = tw.shard_map(matmul, mesh=MESH, in_specs=(P("x"), P(None, "y")), out_specs=P("x", "y"))
    np.testing.assert_allclose(split(X, W), np.tanh(X @ W), rtol=1e-4, atol=1e-5)

    def loss(f):
        return lambda x, w: tnp.sum(tnp.sin(f(x, w)))

    wanted = tw.grad(loss(lambda x, w: tnp.tanh(x @ w)), (0, 1))(X, W)
    for a, b in zip(tw.jit(tw.grad(loss(split), (0, 1)))(X, W), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    # A gradient by weights that all devices share, taken on each of them.
    inside = tw.shard_map(tw.grad(lambda w, x: lax.psum(loss(matmul)(x, w), ("x", "y"))), mesh=MESH,
                          in_specs=(P(), P("x")), out_specs=P())  # fmt: skip
    np.testing.assert_allclose(inside(W, X), 2 * np.asarray(wanted[1]), rtol=1e-3, atol=1e-4)  # both columns sum


# How the operands of the product lie, how its result comes to lie, and what is exchanged for it.
LYING = [
    (P("x"), P(), P("x"), []),
    (P(), P(None, "y"), P(None, "y"), []),
    (P("x"), P(None, "y"), P("x", "y"), []),
    (P(("x", "y")), P(), P(("x", "y")), []),
    (P("x", "y"), P("y"), P("x"), ["all-reduce"]),  # along the sum each device adds up what it has
    (P(None, "x"), P(), P(), ["all-reduce"]),
]


@pytest.mark.parametrize("x, w, out, exchanged", LYING)
def test_kernels_are_split_by_their_index_maps(x, w, out, exchanged):
    far = tw.device_put(X, NamedSharding(MESH, x)), tw.device_put(W, NamedSharding(MESH, w))
    found = tw.jit(matmul)(*far)
    np.testing.assert_allclose(found, np.tanh(X @ W), rtol=1e-4, atol=1e-5)
    assert found.sharding.spec is out
    told = tw.explain(matmul, *far).communication
    assert [c.kind for c in told.collectives] == exchanged and told.whole == ()
    g = tw.jit(tw.grad(lambda x, w: tnp.sum(matmul(x, w)), (0, 1)))
    for a, b in zip(g(*far), g(X, W), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_kernel_that_cannot_be_split_runs_whole_and_is_named():
    def body(x, o):
        o[...] = x[...] + tl.program_id(0)

    def numbered(x):
        block = tl.BlockSpec((2, 32), lambda i: (i, 0))
        return tl.kernel_call(body, tw.ShapeDtypeStruct(X.shape, X.dtype), grid=8, in_specs=[block], out_specs=block)(x)

    far = tw.device_put(X, NamedSharding(MESH, P("x")))
    np.testing.assert_allclose(tw.jit(numbered)(far), X + np.arange(16)[:, None] // 2, rtol=1e-6)
    told = str(tw.explain(numbered, far))
    assert "kernel body is called on whole arrays" in told
    assert "(axis 0 of its grid: its body asks for its number)" in told


def test_attention_with_split_heads():
    q, k, v = draws((2, 8, 4, 16), (2, 8, 4, 16), (2, 8, 4, 16))

    def f(q, k, v):
        return nn.dot_product_attention(q, k, v, is_causal=True)

    split = tw.shard_map(f, mesh=MESH, in_specs=P("y", None, "x"), out_specs=P("y", None, "x"))
    np.testing.assert_allclose(split(q, k, v), f(q, k, v), rtol=1e-4, atol=1e-5)
    a, b = (tw.jit(tw.grad(lambda q, h=h: tnp.sum(tnp.sin(h(q, k, v)))))(q) for h in (split, f))
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
