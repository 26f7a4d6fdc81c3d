"""Kernels over a mesh: on each device's part within `shard_map`, and on whole arrays, split by their index maps."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
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


def test_an_output_that_starts_as_a_part_of_an_operand():
    def body(x, o):
        o[...] = x[...] + 1

    call = tl.kernel_call(body, tw.ShapeDtypeStruct((4, 32), "float32"), input_output_aliases={0: 0})
    split = tw.shard_map(call, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(tw.jit(split)(X), X + 1)


@pytest.mark.parametrize("spec", [P("x"), P(None, "y"), P("y", "x"), P()])
def test_adamw_of_parts(spec):
    def lies(a):
        return tw.device_put(a, NamedSharding(MESH, spec)) if a.ndim else a

    params = {"w": X}
    state = nn.adamw_init(params) | {"count": np.int32(3)}
    wanted = nn.fused.adamw(params, {"w": X * X}, state, learning_rate=0.1)
    found = tw.jit(lambda *args: nn.fused.adamw(*args, learning_rate=0.1))(
        *(tw.tree.map(lies, t) for t in (params, {"w": X * X}, state)))
    for a, b in zip(tw.tree.leaves(found), tw.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert found[0]["w"].sharding.is_equivalent_to(NamedSharding(MESH, spec), 2)


def test_kernels_within_shard_map():
    split = tw.shard_map(matmul, mesh=MESH, in_specs=(P("x"), P(None, "y")), out_specs=P("x", "y"))
    np.testing.assert_allclose(split(X, W), np.tanh(X @ W), rtol=1e-4, atol=1e-5)

    def loss(f):
        return lambda x, w: tnp.sum(tnp.sin(f(x, w)))

    wanted = by_numpy(tw.grad(loss(lambda x, w: tnp.tanh(x @ w)), (0, 1)), X, W)
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
    wanted = by_numpy(tw.grad(lambda x, w: tnp.sum(tnp.tanh(x @ w)), (0, 1)), X, W)
    for a, b in zip(g(*far), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_kernel_that_cannot_be_split_runs_whole_and_is_named():
    def body(x, o, most):
        most[...] = tnp.where(tl.program_id(0) == 0, x[...], tnp.maximum(most[...], x[...]))
        o[...] = most[...]

    def running(x):
        block = tl.BlockSpec((2, 32), lambda i: (i, 0))
        return tl.kernel_call(body, tw.ShapeDtypeStruct(X.shape, X.dtype), grid=8, in_specs=[block], out_specs=block,
                              scratch_shapes=[tl.VMEM((2, 32), X.dtype)])(x)  # fmt: skip

    far = tw.device_put(X, NamedSharding(MESH, P("x")))
    wanted = np.maximum.accumulate(X.reshape(8, 2, 32)).reshape(X.shape)
    np.testing.assert_allclose(tw.jit(running)(far), wanted, rtol=1e-6)
    told = str(tw.explain(running, far))
    assert "kernel body gathers sharded arrays on each device" in told
    assert "(axis 0 of its grid: what it carries is no sum)" in told


# ---------------------------------------------------------------------------- neighbours, remainders, numbers of cells


def blocks(body, x, step, *specs):
    """A kernel of one output block of `step` elements for each cell."""
    out = tl.BlockSpec((step,), lambda i: i)
    return tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), grid=tl.cdiv(len(x), step),
                          in_specs=list(specs), out_specs=out)(*[x] * len(specs))  # fmt: skip


def stencil(x, before=1, after=1, fill=0, step=2):
    """Differences of each element and one before and one after it; beyond the ends there is a fill."""
    def body(x, o):
        o[...] = 2 * x[before : before + step] - x[:step] * x[-step:]

    more = -len(x) % step
    window = tl.Element(step + before + after, (before, after + more))
    return blocks(body, x, step, tl.BlockSpec((window,), lambda i: i * step, fill=fill))


def beside(x):
    """Each block, the one before and the one after it; at the ends these are the block itself."""
    def body(a, b, c, o):
        o[...] = a[...] * 2 + b[...] - c[...]

    n = len(x) // 2
    places = (lambda i: tnp.maximum(i - 1, 0)), (lambda i: i), (lambda i: tnp.minimum(i + 1, n - 1))
    return blocks(body, x, 2, *(tl.BlockSpec((2,), f) for f in places))


def numbered(x):
    """Each block times its number."""
    def body(x, o):
        o[...] = x[...] * (1.0 + tl.program_id(0))

    block = tl.BlockSpec((2,), lambda i: i)
    return blocks(body, x, 2, block)


def total(x):
    """The logarithm of a sum of which a cell past the end would be part, were it one."""
    def body(x, o, found):
        i, last = tl.program_id(0), tl.num_programs(0) - 1
        tl.when(i == 0)(lambda: tl.store(found, tnp.zeros((1,))))
        found[...] += (tnp.exp(x[...]) * (1.0 + i)).sum(keepdims=True)
        tl.when(i == last)(lambda: tl.store(o, tnp.log(found[...])))

    return tl.kernel_call(body, tw.ShapeDtypeStruct((1,), x.dtype), grid=len(x) // 2,
                          in_specs=[tl.BlockSpec((2,), lambda i: i)], out_specs=tl.BlockSpec((1,), lambda i: 0),
                          scratch_shapes=[tl.VMEM((1,), x.dtype)])(x)  # fmt: skip


# A kernel, how many elements, over which axes, and what is exchanged.
EXCHANGES = {
    "window": (lambda x: stencil(x, fill=3), 32, "x", 2),
    "wide": (lambda x: stencil(x, 10, 1), 32, "x", 3),  # more before it than one device has
    "ragged window": (lambda x: stencil(x, fill=-1), 27, ("x", "y"), None),
    "beside": (beside, 26, "x", None),
    "ragged numbers": (numbered, 19, ("x", "y"), None),
    "ragged sum": (total, 12, "x", None),
}


@pytest.mark.law
@pytest.mark.parametrize("name", EXCHANGES)
def test_what_cells_see_of_other_devices(name):
    f, n, axes, count = EXCHANGES[name]
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    far = tw.device_put(x, NamedSharding(MESH, P(axes)))

    def both(x):
        return tw.value_and_grad(lambda x: tnp.sum(tnp.sin(f(x))))(x)

    for a, b in zip(tw.jit(both)(far), by_numpy(both, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    told = tw.explain(f, far).communication
    assert not told.whole and all(not c.written for c in told.collectives)
    if count is not None:
        assert [(c.kind, c.axes) for c in told.collectives] == [("permute", ("x",))] * count


def test_rows_named_by_prefetched_numbers():
    def body(rows, table, o):
        o[...] = table[...]

    def take(rows, table):
        spec = tl.PrefetchScalarGridSpec(1, len(rows), [tl.BlockSpec((1, 32), lambda i, rows: (rows[i], 0))],
                                         tl.BlockSpec((1, 32), lambda i, rows: (i, 0)))  # fmt: skip
        return tl.kernel_call(body, tw.ShapeDtypeStruct((len(rows), 32), X.dtype), grid_spec=spec)(rows, table)

    rows = np.array([3, 0, 15, 7, 3, 9, 1, 2], np.int32)
    far = tw.device_put(rows, NamedSharding(MESH, P("x"))), tw.device_put(X, NamedSharding(MESH, P()))
    found = tw.jit(take)(*far)
    assert found.sharding.spec == P("x")
    np.testing.assert_allclose(found, X[rows])
    assert [c.kind for c in tw.explain(take, *far).communication.collectives] == ["all-gather"]  # of the numbers


def small(loops):
    return tuple(1 if i in loops.single else n if i in loops.whole else min(8, n) for i, n in enumerate(loops.sizes))


FINER = "it would gather sharded operands"
# How the operands lie, and how the kernel is split, or why its operations are left to XLA.
MADE = [
    (P("x"), P(None, "y"), FINER),  # each cell has whole rows
    (P("x", "y"), P("y"), "axis 0 of its grid over x (4), axis 1 of its grid over y (2, summed), by its index maps"),
    (P(), P(), "what it is given is not split along axes of its grid, or into more parts than these have cells"),
]


@pytest.mark.parametrize("tiles", [small, True], ids=["small", "chosen"])
@pytest.mark.parametrize("x, w, how", MADE)
def test_generated_kernels_are_split_too(x, w, how, tiles):
    """No kernel is called on whole arrays, and nothing more is exchanged than XLA exchanges without kernels."""
    def f(x, w):
        return nn.softmax(tnp.tanh(x @ w), -1)

    a, b = draws((64, 32), (32, 16))
    far = tw.device_put(a, NamedSharding(MESH, x)), tw.device_put(b, NamedSharding(MESH, w))
    np.testing.assert_allclose(tw.compile(f, *far, tiles=tiles)(*far), f(a, b), rtol=1e-4, atol=1e-5)
    told, plain = (tw.explain(f, *far, tiles=t).communication for t in (tiles, None))
    assert [how] == [w for _, w in (*told.split, *told.left)] and bool(told.split) == how.startswith("axis")
    assert not told.whole and [c.kind for c in told.collectives] == [c.kind for c in plain.collectives]


def test_attention_with_split_heads():
    q, k, v = draws((2, 8, 4, 16), (2, 8, 4, 16), (2, 8, 4, 16))

    def f(q, k, v):
        return nn.dot_product_attention(q, k, v, is_causal=True)

    split = tw.shard_map(f, mesh=MESH, in_specs=P("y", None, "x"), out_specs=P("y", None, "x"))
    def gradient(h):
        return tw.grad(lambda q: tnp.sum(tnp.sin(h(q, k, v))))

    np.testing.assert_allclose(split(q, k, v), by_numpy(f, q, k, v), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tw.jit(gradient(split))(q), by_numpy(gradient(f), q), rtol=1e-3, atol=1e-4)
