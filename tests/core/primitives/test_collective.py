"""Collectives over named axes of `vmap`, against NumPy on the whole batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support import laws
from tests.support.collectives import CASES, Q, X, same
from tests.support.equivalence import draws
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    DifferentiationError,
    DtypeError,
    ShapeError,
    UnboundAxisError,
    UnsupportedError,
)


def over(f, x, name="i", **how):
    return tw.vmap(f, axis_name=name, **how)(x)


@pytest.mark.law
@pytest.mark.parametrize("name", CASES)
def test_values(name):
    f, x, expected = CASES[name]
    for run in (over, lambda f, x: tw.jit(lambda x: over(tw.jit(f), x))(x)):
        np.testing.assert_allclose(run(f, x), expected(x), rtol=1e-5, atol=1e-6)
    # The same under one more vmap, on either side of the named one.
    pair = np.stack([x, 2 * x])
    both = np.stack([expected(x), expected(2 * x)])
    sides = tw.jit(lambda x: (tw.vmap(lambda x: over(f, x))(x), over(tw.vmap(f), x.swapaxes(0, 1))))
    outer, inner = sides(pair)
    np.testing.assert_allclose(outer, both, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(inner).swapaxes(0, 1), both, rtol=1e-5, atol=1e-6)


@pytest.mark.law
@pytest.mark.parametrize("name", [n for n in CASES if n not in ("pmax", "pmin")])
def test_gradients_inside_and_outside_of_vmap(name):
    f, x, _ = CASES[name]
    weights = np.asarray(draws(np.shape(over(f, x)), seed=1)[0])

    def loss(x):
        return tnp.sum(over(f, x) * weights)

    found = tw.grad(loss)(x)
    h, direction = 1e-2, draws(x.shape, seed=2)[0]
    slope = (loss(x + h * direction) - loss(x - h * direction)) / (2 * h)
    np.testing.assert_allclose(np.sum(np.asarray(found) * direction), slope, rtol=2e-3, atol=2e-3)
    # Inside, each member's cotangent is its own output's: the transposed collective exchanges them.
    inside = over(lambda pair: tw.vjp(f, pair[0])[1](pair[1])[0], (x, weights))
    np.testing.assert_allclose(inside, found, rtol=1e-4, atol=1e-5)


def test_several_axes():
    total = over(lambda x: over(lambda y: lax.psum(y, ("i", "j")), x, "j"), Q)
    np.testing.assert_allclose(total, np.broadcast_to(Q.sum((0, 1)), Q.shape), rtol=1e-5)
    gathered = over(lambda x: over(lambda y: lax.all_gather(y, ("i", "j")), x, "j"), Q)
    np.testing.assert_array_equal(gathered, np.broadcast_to(Q.reshape(8, 3), (2, 4, 8, 3)))
    index = over(lambda x: over(lambda y: lax.axis_index(("i", "j")), x, "j"), Q)
    np.testing.assert_array_equal(index, np.arange(8).reshape(2, 4))


def test_of_values_that_are_not_batched():
    w = np.ones(3, np.float32)
    np.testing.assert_array_equal(over(lambda x: lax.psum(w, "i") + 0 * x, X), np.full((4, 3), 4.0))
    assert over(lambda x: lax.psum({"a": x, "b": 2}, "i"), X)["b"].tolist() == [8] * 4


def test_in_control_flow():
    def body(x):
        c, ys = lax.scan(lambda c, _: (lax.pmean(tnp.sin(c), "i") + x, lax.axis_index("i")), x, None, length=3)
        return lax.cond(True, lambda c: lax.psum(c, "i"), lambda c: c, c), ys

    values, ys = over(body, X)
    expected = X
    for _ in range(3):
        expected = np.sin(expected).mean(0) + X
    np.testing.assert_allclose(values, same(expected.sum(0)), rtol=1e-5)
    np.testing.assert_array_equal(ys, np.repeat(np.arange(4)[:, None], 3, 1))


@pytest.mark.parametrize(
    "error, text, call",
    [
        (UnboundAxisError, "'q'", lambda: lax.psum(X, "q")),
        (UnboundAxisError, "bound: 'i'", lambda: over(lambda x: lax.axis_index("q"), X)),
        (UnboundAxisError, "'q'", lambda: tw.jit(lambda x: lax.pmax(x, "q"))(X)),
        (ArgumentError, "twice", lambda: over(lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), X)),
        (ArgumentError, "permutation", lambda: over(lambda x: lax.pshuffle(x, "i", [0, 0, 1, 2]), X)),
        (ArgumentError, "member", lambda: over(lambda x: lax.pbroadcast(x, "i", 4), X)),
        (ShapeError, "psum_scatter", lambda: over(lambda x: lax.psum_scatter(x, "i"), X)),
        (ShapeError, "all_to_all", lambda: over(lambda x: lax.all_to_all(x, "i", 0, 0), X)),
        (UnsupportedError, "groups", lambda: over(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), X)),
        (DifferentiationError, "pmax", lambda: over(tw.grad(lambda x: lax.pmax(x, "i").sum()), X)),
    ],
)
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 3), st.sampled_from([1, 2]), st.sampled_from([np.int32, np.complex64, np.bool_]), st.data())
def test_slices_of_any_size_arrive(n, each, dtype, data):
    rows, wanted, k = 4, 6, n * each
    sizes, starts, places = (
        np.array(data.draw(st.lists(st.integers(0, top), min_size=n * k, max_size=n * k)), np.int32).reshape(n, k)
        for top in (3, 1, 3)
    )
    operands, outputs = (np.arange(n * r * 2).reshape(n, r, 2).astype(dtype) for r in (rows, wanted))
    outputs = outputs[:, ::-1]
    received = sizes.reshape(n, n, each).swapaxes(0, 1).reshape(n, k)
    args = operands, outputs, starts, sizes, places, received
    with laws.numpy_meaning(wide=False):
        found = over(lambda a: lax.ragged_all_to_all(*a, axis_name="i"), args)
    right = outputs.copy()
    for sender, slice in np.ndindex(n, k):
        m, start, place = (int(v[sender, slice]) for v in (sizes, starts, places))
        right[slice // each, place : place + m] = operands[sender, start : start + m]
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("change, error", [
    ({0: np.ones((4, 3))}, ShapeError), ({0: np.ones((4, 2), np.int32)}, DtypeError), ({2: np.ones(2)}, DtypeError),
    ({3: np.ones((2, 1), int)}, ShapeError), ({5: np.ones(4, int)}, ShapeError), ({0: np.float32(1)}, ShapeError),
])  # fmt: skip
def test_slices_that_do_not_fit(change, error):
    args = [np.ones((4, 2), np.float32), np.ones((6, 2), np.float32), *[np.zeros(2, np.int32)] * 4]
    for i, value in change.items():
        args[i] = value
    with pytest.raises(error):
        over(lambda _: lax.ragged_all_to_all(*args, axis_name="i"), np.zeros(2))


@pytest.mark.law
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize(("split", "concat"), [(0, 0), (1, 0), (0, 1)])
def test_all_to_all_over_two_mapped_axes(split, concat, tiled):
    """The first axis is the major one; the same as over one axis of as many members."""
    shape = [12, 12] if tiled else [6, 6]
    x = np.arange(6 * np.prod(shape), dtype=np.float32).reshape(2, 3, *shape)
    over = lambda names: lambda x: lax.all_to_all(x, names, split, concat, tiled=tiled)  # noqa: E731
    both = tw.vmap(tw.vmap(over(("i", "j")), axis_name="j"), axis_name="i")
    one = tw.vmap(over("k"), axis_name="k")
    np.testing.assert_array_equal(both(x).reshape(6, *shape_after(one, x)), one(x.reshape(6, *shape)))
    turned = tw.grad(lambda x: (both(x) * np.cos(both(x))).sum())(x)
    assert turned.shape == x.shape


def shape_after(f, x):
    return tw.eval_shape(f, x.reshape(6, *x.shape[2:])).shape[1:]
