"""Kernels that are split by a rule of their author, and their derivatives and batches, which are split by that too."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tests.support.equivalence import draws
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import ArgumentError, MeshError, ShapeError, UnsupportedError
from tilewright.experimental.custom_partitioning import custom_partitioning
from tilewright.sharding import NamedSharding, P

MESH = tw.make_mesh((4, 2), ("x", "y"))
(X,) = draws((16, 32))
(W,) = draws((32, 16), seed=1)


def ruled(x, w, rule="rows inner, inner columns -> rows columns", part=None):
    """A product in one cell, whose index maps say nothing of how it may be split."""
    def body(x, w, o):
        o[...] = x[...] @ w[...]

    def call(x, w, partition=None):
        return tl.kernel_call(body, tw.ShapeDtypeStruct((len(x), w.shape[1]), x.dtype), name="ruled",
                              partition=partition)(x, w)  # fmt: skip

    def own(axes, x, w):
        found = call(x, w)
        return lax.psum(found, axes["inner"]) if axes["inner"] else found

    return call(x, w, tl.Partition(rule, part or own))


@pytest.mark.parametrize("x, w, exchanged", [(P("x"), P(None, "y"), []), (P("y", "x"), P("x"), ["all-reduce"])])
def test_a_rule_of_the_author(x, w, exchanged):
    far = tw.device_put(X, NamedSharding(MESH, x)), tw.device_put(W, NamedSharding(MESH, w))
    np.testing.assert_allclose(tw.jit(ruled)(*far), X @ W, rtol=1e-4, atol=1e-5)
    told = tw.explain(ruled, *far).communication
    assert [c.kind for c in told.collectives] == exchanged and not told.whole


def test_rules_that_are_wrong():
    far = tw.device_put(X, NamedSharding(MESH, P("y", "x"))), tw.device_put(W, NamedSharding(MESH, P("x")))
    wrong = {"part": lambda axes, x, w: x}, {"part": lambda axes, x, w: x @ w}
    with pytest.raises(ShapeError, match=r"(?s)kernel ruled: its partition .* f32\[8,8\].* are f32\[8,16\]"):
        tw.jit(lambda *a: ruled(*a, **wrong[0]))(*far)
    with pytest.raises(MeshError, match=r"(?s)kernel ruled.*differs along x.*psum"):
        tw.jit(lambda *a: ruled(*a, **wrong[1]))(*far)
    for rule, error, text in (
        ("a b -> a b", ShapeError, "does not fit its operands"),
        ("a b, c d -> a a", ArgumentError, "names two dimensions of one array alike"),
        ("a b, a c -> b c", ShapeError, "have one name, a"), ("a b", ArgumentError, "name the dimensions"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            ruled(X, W, rule)


# ---------------------------------------------------------------------------- derivatives and batches


def loss(x, w):
    return tnp.sum(tnp.sin(ruled(x, w)))


def rows(f, *axes):
    """A function of a batch of two products."""
    return lambda x, w: tw.vmap(f, axes)(*(a if d is None else tnp.stack([a, 2 * a]) for a, d in zip((x, w), axes)))


WAYS = {
    "value": ruled,
    "jvp": lambda x, w: tw.jvp(ruled, (x, w), (x, w)),
    "grad": tw.grad(loss, (0, 1)),
    "vmap": rows(ruled, None, 0),
    "vmap of grad": rows(tw.grad(loss, (0, 1)), 0, None),
    "grad of vmap": tw.grad(lambda x, w: tnp.sum(rows(loss, 0, 0)(x, w)), (0, 1)),
    "jvp of grad": lambda x, w: tw.jvp(tw.grad(loss, (0, 1)), (x, w), (x, w)),
    "grad of grad": tw.grad(lambda x, w: tnp.sum(tw.grad(loss)(x, w) ** 2), (0, 1)),
}
WANTED = functools.cache(lambda way: by_numpy(WAYS[way], X, W))
LYING = st.permutations(["x", "y"]).flatmap(
    lambda names: st.tuples(*(st.integers(-1, 3) for _ in names)).map(
        lambda dims: [P(*(tuple(n for n, d in zip(names, dims) if d == k + i) for i in range(2))) for k in (0, 2)]
    )
)


@settings(max_examples=4, deadline=None)
@given(st.sampled_from(sorted(WAYS)), LYING)
def test_derivatives_and_batches_are_split_by_the_rule(way, specs):
    """However the operands lie: the values are those of one device, and where one is split no kernel runs whole."""
    far = [tw.device_put(a, NamedSharding(MESH, s)) for a, s in zip((X, W), specs)]
    for a, b in zip(tw.tree.leaves(tw.jit(WAYS[way])(*far)), tw.tree.leaves(WANTED(way)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    told = tw.explain(WAYS[way], *far).communication
    assert told.split if any(s.padded(2) != ((), ()) for s in specs) else told.whole
    assert all(how.endswith("by the rule of its author") for _, how in told.split)


def test_what_derivatives_of_a_rule_exchange():
    """Of a product whose rows are split only the gradient by the other factor is a sum over the devices."""
    far = tw.device_put(X, NamedSharding(MESH, P("x"))), tw.device_put(W, NamedSharding(MESH, P()))
    told = tw.explain(WAYS["grad"], *far).communication
    assert [(c.kind, c.axes) for c in told.collectives] == [("all-reduce", ("x",))]
    how = "rows over x (4), by the rule of its author"
    assert told.split == (("ruled", how), ("backward_ruled", how)) and not told.whole
    assert "kernel backward_ruled is split: rows over x (4)" in str(told)


# ---------------------------------------------------------------------------- functions with a rule


def same_places(function):
    """A partition that keeps the shardings that propagation has found."""

    def partition(mesh, args, result):
        seen.append((mesh, [a.sharding.spec for a in args], result.sharding.spec))
        return mesh, function, result.sharding, tuple(a.sharding for a in args)

    seen = partition.seen = []
    return partition


def test_a_function_with_a_rule():
    double = custom_partitioning(lambda x: x * 2)
    partition = double.def_partition(same_places(lambda x: x * 2), sharding_rule="... i -> ... i")
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert double(x).tolist() == (2 * x).tolist() and not partition.seen  # without a mesh
    mesh = tw.make_mesh((4, 2), ("x", "y"))
    a = tw.device_put(x, NamedSharding(mesh, P("x", "y")))
    for f in (double, tw.jit(double)):
        out = f(a)
        assert out.sharding.spec == P("x", "y") and out.tolist() == (2 * x).tolist()
    assert partition.seen[-1][0] is mesh and partition.seen[-1][1:] == ([P("x", "y")], P("x", "y"))
    assert not tw.explain(double, a).communication.collectives
    np.testing.assert_allclose(tw.jit(tw.grad(lambda x: (double(x) ** 2).sum()))(a), 8 * x)
    np.testing.assert_allclose(tw.jit(tw.vmap(double))(a), 2 * x)


def test_a_function_with_a_rule_that_sums():
    mesh = tw.make_mesh((4, 2), ("x", "y"))

    def partition(mesh, args, result):
        over = args[0].sharding.spec[1]

        def product(x, w):
            return lax.psum(x @ w, over) if over else x @ w

        return mesh, product, result.sharding, tuple(a.sharding for a in args)

    @custom_partitioning
    def product(x, w):
        return x @ w

    product.def_partition(partition, sharding_rule="i j, j k -> i k", reduction_factors=("j",))
    x, w = np.ones((8, 4), np.float32), np.arange(24, dtype=np.float32).reshape(4, 6)
    put = [tw.device_put(v, NamedSharding(mesh, P(*s))) for v, s in ((x, ("x", "y")), (w, ("y", None)))]
    np.testing.assert_allclose(tw.jit(product)(*put), x @ w)
    assert [c.kind for c in tw.explain(product, *put).communication.collectives] == ["all-reduce"]


def test_a_function_whose_partition_moves_its_operands():
    mesh = tw.make_mesh((4, 2), ("x", "y"))

    def partition(power, mesh, args, result):
        rows = NamedSharding(mesh, P("x", None))
        return mesh, lambda t: {"out": tnp.cumsum(t["in"], 1) ** power}, {"out": rows}, ({"in": rows},)

    def scan(t, power):
        return {"out": tnp.cumsum(t["in"], 1) ** power}

    scanned = custom_partitioning(scan, static_argnums=1)
    scanned.def_partition(partition, sharding_rule="i j -> i j", need_replication_factors=("j",))
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    a = tw.device_put(x, NamedSharding(mesh, P("x", "y")))
    np.testing.assert_allclose(tw.jit(lambda t: scanned(t, 2))({"in": a})["out"], np.cumsum(x, 1) ** 2)
    assert scanned({"in": x}, power=3)["out"].tolist() == (np.cumsum(x, 1) ** 3).tolist()


def test_rules_of_functions_that_are_refused():
    x = np.ones((4, 2), np.float32)
    f = custom_partitioning(lambda x: x)
    with pytest.raises(ArgumentError, match="without a rule"):
        f(x)
    with pytest.raises(UnsupportedError, match="without a sharding_rule"):
        f.def_partition(same_places(f.fun), infer_sharding_from_operands=lambda *a: None)
    for kind, text in ((UnsupportedError, "(i j) -> i j"), (ArgumentError, "i j"), (ArgumentError, "i -> i"),
                       (ArgumentError, "i j, k -> i j")):  # fmt: skip
        f.def_partition(same_places(f.fun), sharding_rule=text)
        with pytest.raises(kind, match="sharding_rule"):
            f(x)
    captured = tnp.ones(2)
    g = custom_partitioning(lambda x: x + captured)
    g.def_partition(same_places(g.fun), sharding_rule="i j -> i j")
    with pytest.raises(UnsupportedError, match="captures"):
        g(x)
