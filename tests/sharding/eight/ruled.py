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
from tilewright.core.support.errors import ArgumentError, MeshError, ShapeError
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
